//! CNI_ARGS: `K=V;K2=V2`.

use std::fmt;

use crate::text::{Quoted, quoted};

/// The pairs of CNI_ARGS in the order given. Their order means nothing: containerd's is random per call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CniArgs(Vec<(String, String)>);

/// Why CNI_ARGS cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgsError {
    #[error("cannot read CNI_ARGS: {0} is not of the form KEY=VALUE")]
    Pair(String),
    #[error("cannot read CNI_ARGS: {key} is {value}, but must be 1, true, 0 or false")]
    Flag { key: String, value: String },
    #[error("CNI_ARGS has unknown keys, and no IgnoreUnknown=1: {0}")]
    Unknown(String),
}

impl CniArgs {
    /// Splits at `;`, then at exactly one `=` per pair, as Go plugins do: a trailing `;` is an error. An empty text
    /// is no arguments.
    pub fn parse(text: &str) -> Result<Self, ArgsError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let pair = |pair: &str| match pair.split_once('=') {
            Some((key, value)) if !value.contains('=') => Ok((key.to_owned(), value.to_owned())),
            _ => Err(ArgsError::Pair(quoted(pair))),
        };
        text.split(';').map(pair).collect::<Result<_, _>>().map(Self)
    }

    /// The value of a key, exactly spelled; the last one if it is repeated.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().rev().find(|(k, _)| *k == key).map(|(_, value)| value)
    }

    /// All pairs in the order given.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// A key with a truth value, as Go plugins read it; absent is false.
    pub fn flag(&self, key: &str) -> Result<bool, ArgsError> {
        match self.get(key) {
            None => Ok(false),
            Some(value) if value == "1" || value.eq_ignore_ascii_case("true") => Ok(true),
            Some(value) if value == "0" || value.eq_ignore_ascii_case("false") => Ok(false),
            Some(value) => Err(ArgsError::Flag { key: quoted(key), value: quoted(value) }),
        }
    }

    /// Whether a Go plugin that knows only `known` keys would take these arguments: it refuses others, unless
    /// `IgnoreUnknown` is among them, wherever it stands.
    pub fn check_known(&self, known: &[&str]) -> Result<(), ArgsError> {
        if self.flag("IgnoreUnknown")? {
            return Ok(());
        }
        let unknown =
            self.iter().map(|(key, _)| key).filter(|key| *key != "IgnoreUnknown" && !known.contains(key));
        let unknown: Vec<_> = unknown.map(|key| Quoted(key).to_string()).collect();
        if unknown.is_empty() { Ok(()) } else { Err(ArgsError::Unknown(unknown.join(", "))) }
    }
}

impl fmt::Display for CniArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (key, value) in self.iter() {
            write!(f, "{separator}{key}={value}")?;
            separator = ";";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_and_the_last_of_a_key_counts() {
        let args = CniArgs::parse("B=1;A=;B=2").expect("valid");
        assert_eq!(args.to_string(), "B=1;A=;B=2");
        assert_eq!((args.get("B"), args.get("A"), args.get("b")), (Some("2"), Some(""), None));
        assert_eq!(CniArgs::parse("").map(|args| args.to_string()), Ok(String::new()));
    }

    #[test]
    fn errors_name_the_pair_or_key() {
        assert_eq!(
            CniArgs::parse("A=1;").expect_err("no pair").to_string(),
            "cannot read CNI_ARGS: \"\" is not of the form KEY=VALUE"
        );
        let args = CniArgs::parse("X=1;IP=1;Y=2").expect("valid");
        assert_eq!(
            args.check_known(&["IP"]).expect_err("unknown").to_string(),
            "CNI_ARGS has unknown keys, and no IgnoreUnknown=1: \"X\", \"Y\""
        );
    }
}
