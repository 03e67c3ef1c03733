use std::fmt;

/// Where in a JSON document somebody is reading: costs nothing until something is wrong there.
#[derive(Debug, Clone, Copy, Default)]
pub enum At<'a> {
    /// The whole.
    #[default]
    Document,
    /// A member of an object.
    Member(&'a At<'a>, &'a str),
    /// An element of an array.
    Element(&'a At<'a>, usize),
}

impl<'a> At<'a> {
    /// The member of that name.
    pub fn member(&'a self, key: &'a str) -> At<'a> {
        At::Member(self, key)
    }

    /// The element of that index.
    pub fn element(&'a self, index: usize) -> At<'a> {
        At::Element(self, index)
    }

    /// The JSON pointer to it (RFC 6901). JSON text in a string is gone into as if it stood there.
    pub fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in self.steps() {
            pointer.push('/');
            match step {
                At::Member(_, key) => pointer.push_str(&key.replace('~', "~0").replace('/', "~1")),
                At::Element(_, index) => pointer.push_str(&index.to_string()),
                At::Document => {}
            }
        }
        pointer
    }

    /// From the document to here.
    fn steps(&self) -> Vec<At<'a>> {
        let (mut steps, mut at) = (Vec::new(), *self);
        while let At::Member(parent, _) | At::Element(parent, _) = at {
            steps.push(at);
            at = *parent;
        }
        steps.reverse();
        steps
    }
}

/// As messages name it: `modules.x.digest`, `pipeline[2].config`.
impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = self.steps();
        if steps.is_empty() {
            return f.write_str("the document");
        }
        for (depth, step) in steps.iter().enumerate() {
            match step {
                At::Member(_, key) if depth == 0 => f.write_str(key)?,
                At::Member(_, key) => write!(f, ".{key}")?,
                At::Element(_, index) => write!(f, "[{index}]")?,
                At::Document => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_a_pointer_and_a_text() {
        let document = At::Document;
        assert_eq!((document.pointer(), document.to_string()), (String::new(), "the document".into()));
        let delegates = document.member("delegates");
        let second = delegates.element(1);
        let key = second.member("catena.dev/default~route");
        assert_eq!(key.pointer(), "/delegates/1/catena.dev~1default~0route");
        assert_eq!(key.to_string(), "delegates[1].catena.dev/default~route");
    }
}
