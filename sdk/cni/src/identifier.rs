//! Names that the runtime and the configuration give us, checked as libcni checks them.

use std::fmt;
use std::str::FromStr;

use crate::error::code;
use crate::text::quoted;

/// A name that breaks the rules of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {value} is not valid: {problem}")]
pub struct IdentifierError {
    kind: &'static str,
    value: String,
    problem: &'static str,
    code: u32,
}

impl IdentifierError {
    /// The CNI error code: 3 for an empty container id, 4 for what came in the environment, 7 for the configuration.
    pub fn code(&self) -> u32 {
        self.code
    }
}

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            pub fn parse(text: &str) -> Result<Self, IdentifierError> {
                let check: fn(&str) -> Result<(), (u32, &'static str)> = $check;
                match check(text) {
                    Ok(()) => Ok(Self(text.to_owned())),
                    Err((code, problem)) => {
                        Err(IdentifierError { kind: $kind, value: quoted(text), problem, code })
                    }
                }
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdentifierError;

            fn from_str(text: &str) -> Result<Self, IdentifierError> {
                Self::parse(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

identifier!(
    /// CNI_CONTAINERID: `[a-zA-Z0-9][a-zA-Z0-9_.-]*`.
    ContainerId,
    "container id",
    |text| match text {
        "" => Err((code::UNKNOWN_CONTAINER, "it is empty")),
        text => plain(text).map_err(|problem| (code::INVALID_ENVIRONMENT, problem)),
    }
);
identifier!(
    /// The name of a network: `[a-zA-Z0-9][a-zA-Z0-9_.-]*`.
    NetworkName,
    "network name",
    |text| plain(text).map_err(|problem| (code::INVALID_CONFIG, problem))
);
identifier!(
    /// CNI_IFNAME: 1 to 15 bytes that the kernel takes for an interface name.
    IfName,
    "interface name",
    |text| interface(text).map_err(|problem| (code::INVALID_ENVIRONMENT, problem))
);
identifier!(
    /// The `type` of a plugin: the file name of its executable.
    PluginType,
    "plugin type",
    |text| file_name(text).map_err(|problem| (code::INVALID_CONFIG, problem))
);

fn plain(text: &str) -> Result<(), &'static str> {
    let mut bytes = text.bytes();
    match bytes.next() {
        None => Err("it is empty"),
        Some(first) if !first.is_ascii_alphanumeric() => Err("it must begin with an ASCII letter or digit"),
        Some(_) if bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-')) => Ok(()),
        Some(_) => Err("only ASCII letters, digits, '_', '.' and '-' are allowed"),
    }
}

fn interface(text: &str) -> Result<(), &'static str> {
    match text {
        "" => Err("it is empty"),
        "." | ".." => Err("it must not be . or .."),
        _ if text.len() > 15 => Err("it is longer than 15 bytes"),
        _ if text.chars().any(|c| c == '/' || c == ':' || c.is_whitespace()) => {
            Err("'/', ':' and white space are not allowed")
        }
        _ => Ok(()),
    }
}

fn file_name(text: &str) -> Result<(), &'static str> {
    match text {
        "" => Err("it is empty"),
        _ if text.contains('/') => Err("'/' is not allowed"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_kind_value_and_rule() {
        let error = IfName::parse("eth0\n").expect_err("white space");
        assert_eq!(
            error.to_string(),
            "interface name \"eth0\\n\" is not valid: '/', ':' and white space are not allowed"
        );
        assert_eq!(error.code(), code::INVALID_ENVIRONMENT);
        assert_eq!(ContainerId::parse("").map_err(|e| e.code()), Err(code::UNKNOWN_CONTAINER));
        for text in ["", "a/b"] {
            assert_eq!(PluginType::parse(text).map_err(|e| e.code()), Err(code::INVALID_CONFIG));
        }
        assert!(PluginType::parse("host-device\\x").is_ok());
    }
}
