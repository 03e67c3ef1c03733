//! The commands of the CNI protocol.

use std::fmt;

/// A value of `CNI_COMMAND` (CNI specification, section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Command {
    /// Attach a container to a network.
    Add,
    /// Detach it.
    Del,
    /// Is the attachment as ADD left it?
    Check,
    /// Remove what belongs to no listed attachment (since 1.1.0).
    Gc,
    /// Can the plugin serve ADD (since 1.1.0)?
    Status,
    /// Which specification versions are spoken?
    Version,
}

impl Command {
    /// The exact word; case and white space matter.
    pub fn from_text(text: &str) -> Option<Self> {
        Some(match text {
            "ADD" => Self::Add,
            "DEL" => Self::Del,
            "CHECK" => Self::Check,
            "GC" => Self::Gc,
            "STATUS" => Self::Status,
            "VERSION" => Self::Version,
            _ => return None,
        })
    }

    /// The word in `CNI_COMMAND`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Del => "DEL",
            Self::Check => "CHECK",
            Self::Gc => "GC",
            Self::Status => "STATUS",
            Self::Version => "VERSION",
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
