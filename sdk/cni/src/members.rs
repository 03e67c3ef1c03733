//! Objects as typed readers see them: names match without regard to case, `null` counts as absent.

use std::fmt;

use crate::json::{Map, TypeError, Value, drop_null_members, has_null, last_wins, same_name};

/// A value of a document, in whichever form the document is held.
pub(crate) trait Node<'a>: Copy {
    /// The members of an object.
    type Object: Copy;

    /// An object without members.
    fn nothing() -> Self::Object;
    fn is_null(self) -> bool;
    fn as_text(self) -> Option<&'a str>;
    /// A number that is written as an integer: neither `1500.0` nor `15e2` is one.
    fn as_integer(self) -> Option<i64>;
    fn as_list(self) -> Option<impl ExactSizeIterator<Item = Self>>;
    fn as_object(self) -> Option<Self::Object>;
    /// In document order, names perhaps repeated.
    fn members(object: Self::Object) -> impl DoubleEndedIterator<Item = (&'a str, Self)>;
    fn to_value(self) -> Value;
}

impl<'a> Node<'a> for &'a Value {
    type Object = Option<&'a Map>;

    fn nothing() -> Self::Object {
        None
    }

    fn is_null(self) -> bool {
        self.is_null()
    }

    fn as_text(self) -> Option<&'a str> {
        self.as_str()
    }

    fn as_integer(self) -> Option<i64> {
        self.as_i64()
    }

    fn as_list(self) -> Option<impl ExactSizeIterator<Item = Self>> {
        self.as_array().map(|elements| elements.iter())
    }

    fn as_object(self) -> Option<Self::Object> {
        self.as_object().map(Some)
    }

    fn members(object: Self::Object) -> impl DoubleEndedIterator<Item = (&'a str, Self)> {
        object.into_iter().flatten().map(|(name, value)| (name.as_str(), value))
    }

    fn to_value(self) -> Value {
        self.clone()
    }
}

/// What a value is, for messages.
pub(crate) fn describe<'a, N: Node<'a>>(value: N) -> String {
    if value.is_null() {
        return "null".to_owned();
    }
    if value.as_object().is_some() {
        return "an object".to_owned();
    }
    if value.as_list().is_some() {
        return "a list".to_owned();
    }
    match value.as_text() {
        Some(text) => format!("the text {}", crate::text::Quoted(text)),
        None => match value.to_value() {
            Value::Number(number) => format!("the number {:.80}", number.as_str()),
            Value::Bool(true) => "true".to_owned(),
            _ => "false".to_owned(),
        },
    }
}

/// Where something stands in a document; written only where it is needed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'p> {
    /// The document itself.
    Top,
    Member(&'p Place<'p>, &'p str),
    Element(&'p Place<'p>, &'p str, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |f: &mut fmt::Formatter<'_>, object: &Place<'_>, name: &str| match object {
            Place::Top => f.write_str(name),
            object => write!(f, "{object}.{name}"),
        };
        match self {
            Place::Top => f.write_str("the document"),
            Place::Member(object, member) => name(f, object, member),
            Place::Element(object, list, index) => {
                name(f, object, list)?;
                write!(f, "[{index}]")
            }
        }
    }
}

/// One object being read: its members, and where it stands.
pub(crate) struct Members<'a, 'p, N: Node<'a>> {
    object: N::Object,
    place: Place<'p>,
    /// The first letters of all names: most members that are looked for are absent.
    letters: u32,
}

/// A bit for the first letter of a name, without regard to case; all bits for one that may fold to any.
fn letter(name: &str) -> u32 {
    match name.bytes().next() {
        Some(byte) if byte.is_ascii() => 1 << (byte & 0x1f),
        _ => u32::MAX,
    }
}

impl<'a, 'p, N: Node<'a>> Members<'a, 'p, N> {
    /// A `null` is an object without members, as for Go.
    pub(crate) fn of(value: N, place: Place<'p>) -> Result<Self, TypeError> {
        match value.as_object() {
            Some(object) => Ok(Self::new(object, place)),
            None if value.is_null() => Ok(Self::new(N::nothing(), place)),
            None => Err(TypeError::new(place, "an object", value)),
        }
    }

    fn new(object: N::Object, place: Place<'p>) -> Self {
        let letters = N::members(object).fold(0, |letters, (name, _)| letters | letter(name));
        Self { object, place, letters }
    }

    pub(crate) fn place<'s>(&'s self, name: &'s str) -> Place<'s> {
        Place::Member(&self.place, name)
    }

    pub(crate) fn element<'s>(&'s self, name: &'s str, index: usize) -> Place<'s> {
        Place::Element(&self.place, name, index)
    }

    pub(crate) fn members(&self) -> impl DoubleEndedIterator<Item = (&'a str, N)> {
        N::members(self.object)
    }

    /// The member as it stands, `null` included.
    pub(crate) fn raw(&self, name: &str) -> Option<N> {
        if self.letters & letter(name) == 0 {
            return None;
        }
        self.members().rev().find(|(member, _)| same_name(member, name)).map(|(_, value)| value)
    }

    fn typed<T>(
        &self,
        name: &str,
        expected: &'static str,
        read: impl FnOnce(N) -> Option<T>,
    ) -> Result<Option<T>, TypeError> {
        match self.raw(name) {
            None => Ok(None),
            Some(value) if value.is_null() => Ok(None),
            Some(value) => match read(value) {
                Some(read) => Ok(Some(read)),
                None => Err(TypeError::new(self.place(name), expected, value)),
            },
        }
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, TypeError> {
        self.typed(name, "text", N::as_text)
    }

    /// A text that is not empty; empty counts as absent, as it does in Go's `omitempty`.
    pub(crate) fn filled_text(&self, name: &str) -> Result<Option<String>, TypeError> {
        Ok(self.text(name)?.filter(|text| !text.is_empty()).map(str::to_owned))
    }

    pub(crate) fn integer(&self, name: &str) -> Result<Option<i64>, TypeError> {
        self.typed(name, "an integer", N::as_integer)
    }

    /// Absent is empty.
    pub(crate) fn list(&self, name: &str) -> Result<impl ExactSizeIterator<Item = N>, TypeError> {
        let list = self.typed(name, "a list", N::as_list)?;
        Ok(Elements(list))
    }

    pub(crate) fn object<'s>(&'s self, name: &'s str) -> Result<Option<Members<'a, 's, N>>, TypeError> {
        let object = self.typed(name, "an object", N::as_object)?;
        Ok(object.map(|object| Members::new(object, self.place(name))))
    }

    /// A list of texts; a `null` in it is the empty text, as for Go.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<String>, TypeError> {
        let elements = self.list(name)?.enumerate();
        elements
            .map(|(i, element)| match element.as_text() {
                Some(text) => Ok(text.to_owned()),
                None if element.is_null() => Ok(String::new()),
                None => Err(TypeError::new(self.element(name, i), "text", element)),
            })
            .collect()
    }

    /// The members whose name is none of `known`, without any null: one that is a member is as good as absent; of a
    /// member with a list that has one nothing can be kept.
    pub(crate) fn others(&self, known: &[&str]) -> Map {
        let unknown = |name: &str| !known.iter().any(|known| same_name(known, name));
        let others = self.members().filter(|(name, _)| unknown(name));
        let others: Vec<_> = others.map(|(name, value)| (name.to_owned(), value.to_value())).collect();
        if others.is_empty() {
            return Map::new();
        }
        let mut others = last_wins(others);
        others.retain(|_, value| !value.is_null() && (!has_null(value) || drop_null_members(value).is_ok()));
        others
    }
}

/// The elements of a list that may be absent.
struct Elements<I>(Option<I>);

impl<I: ExactSizeIterator> Iterator for Elements<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.0.as_mut()?.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let length = self.0.as_ref().map_or(0, ExactSizeIterator::len);
        (length, Some(length))
    }
}

impl<I: ExactSizeIterator> ExactSizeIterator for Elements<I> {}
