use std::fmt;

/// The name that a pipeline entry uses for a module: 1 to 64 of `a-z`, `0-9`, `.`, `_`, `-`, beginning with a
/// letter or digit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleName(String);

impl ModuleName {
    /// Reads a name; none if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = text.bytes();
        let first = bytes.next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let rest =
            bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-'));
        (first && rest && text.len() <= 64).then(|| Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ModuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "default-gateway", "x.y_z-1", "0"] {
            assert!(ModuleName::parse(good).is_some(), "{good}");
        }
        for bad in ["", "-a", "A", "a/b", "..", "a b", "ü", &"a".repeat(65)] {
            assert!(ModuleName::parse(bad).is_none(), "{bad}");
        }
    }
}
