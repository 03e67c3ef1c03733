use std::io;
use std::path::PathBuf;

use catena_cni::error::code;

use super::problem::{Problem, join};

/// Why a file of the node could not be used.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The operating system said no.
    #[error("{operation} {}: {source}", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Somebody else could have written it.
    #[error("{} is not trusted: {reason}", path.display())]
    Untrusted {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it and what makes it right.
        reason: String,
    },
    /// Larger than any real one.
    #[error("{} has {size} bytes; at most {limit} are read", path.display())]
    TooBig {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// Not JSON.
    #[error("{} is not JSON: {cause}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The parser's words.
        cause: String,
    },
    /// Keys that are unknown, values that cannot be.
    #[error("{}: {}", path.display(), join(problems))]
    Content {
        /// The file.
        path: PathBuf,
        /// Every problem, those about keys first.
        problems: Vec<Problem>,
    },
}

impl NodeError {
    pub(crate) fn io(
        operation: &'static str,
        path: impl Into<PathBuf>,
        source: impl Into<io::Error>,
    ) -> Self {
        Self::Io { operation, path: path.into(), source: source.into() }
    }

    /// The CNI error code.
    pub fn code(&self) -> u32 {
        match self {
            Self::Io { .. } => code::IO,
            Self::Untrusted { .. } => code::INTEGRITY,
            Self::TooBig { .. } | Self::Json { .. } => code::DECODE,
            Self::Content { problems, .. } => {
                problems.first().map_or(code::INVALID_CONFIG, |first| first.code)
            }
        }
    }
}
