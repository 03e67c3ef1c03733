//! A document whose texts stay where they are written: read without copying, for who reads it once.

use std::borrow::Cow;

use crate::json::{JsonError, Value, last_wins, read};
use crate::members::Node;

/// A JSON value that borrows from the text that it was parsed from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tree<'t> {
    Null,
    Bool(bool),
    /// As it is written.
    Number(&'t str),
    Text(Cow<'t, str>),
    List(Vec<Tree<'t>>),
    /// Members as they are written: of several of one name the last one counts.
    Object(Vec<(Cow<'t, str>, Tree<'t>)>),
}

impl<'t> Tree<'t> {
    /// Parses exactly one document, as [`json::parse`](crate::json::parse) does.
    pub(crate) fn parse(text: &'t [u8]) -> Result<Tree<'t>, JsonError> {
        read(text)
    }

    /// The value; of several members of one name the last one.
    pub(crate) fn into_value(self) -> Value {
        match self {
            Tree::Null => Value::Null,
            Tree::Bool(value) => Value::Bool(value),
            // Every number of JSON can be kept, as it is kept by its digits.
            Tree::Number(text) => text.parse().map_or(Value::Null, Value::Number),
            Tree::Text(text) => Value::String(text.into_owned()),
            Tree::List(elements) => elements.into_iter().map(Tree::into_value).collect(),
            Tree::Object(members) => {
                let members =
                    members.into_iter().map(|(name, value)| (name.into_owned(), value.into_value()));
                Value::Object(last_wins(members.collect()))
            }
        }
    }
}

impl<'a, 't> Node<'a> for &'a Tree<'t> {
    type Object = &'a [(Cow<'t, str>, Tree<'t>)];

    fn nothing() -> Self::Object {
        &[]
    }

    fn is_null(self) -> bool {
        matches!(self, Tree::Null)
    }

    fn as_text(self) -> Option<&'a str> {
        match self {
            Tree::Text(text) => Some(text),
            _ => None,
        }
    }

    fn as_integer(self) -> Option<i64> {
        match self {
            Tree::Number(text) => text.parse().ok(),
            _ => None,
        }
    }

    fn as_list(self) -> Option<impl ExactSizeIterator<Item = Self>> {
        match self {
            Tree::List(elements) => Some(elements.iter()),
            _ => None,
        }
    }

    fn as_object(self) -> Option<Self::Object> {
        match self {
            Tree::Object(members) => Some(members),
            _ => None,
        }
    }

    fn members(object: Self::Object) -> impl DoubleEndedIterator<Item = (&'a str, Self)> {
        object.iter().map(|(name, value)| (name.as_ref(), value))
    }

    fn to_value(self) -> Value {
        self.clone().into_value()
    }
}
