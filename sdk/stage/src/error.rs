use thiserror::Error;

use crate::route::RoutesError;

/// Why a stage did not do its work. The host adds which stage, module and attachment it was.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The stage's own `config` is wrong (CNI code 7).
    #[error("{0}")]
    InvalidConfig(String),
    /// The CNI result that the stage was given is wrong.
    #[error("{0}")]
    InvalidResult(String),
    /// A policy says no. Never skippable; the text becomes the CNI error's msg.
    #[error("{0}")]
    Denied(String),
    /// Not now; the runtime may try again (CNI code 11).
    #[error("{0}")]
    TryLater(String),
    /// Anything else, with a CNI error code of 200 or above.
    #[error("{message}")]
    Failed {
        /// 200 or above; lower codes belong to the host, which replaces them by 200.
        code: u32,
        /// Becomes the CNI error's msg.
        message: String,
        /// Becomes part of the CNI error's details.
        details: Option<String>,
    },
}

impl Error {
    /// A failure with code 200.
    pub fn failed(message: impl Into<String>) -> Error {
        Error::Failed { code: 200, message: message.into(), details: None }
    }
}

impl From<RoutesError> for Error {
    fn from(error: RoutesError) -> Error {
        Error::failed(error.to_string())
    }
}

impl From<crate::link::LinkError> for Error {
    fn from(error: crate::link::LinkError) -> Error {
        Error::failed(error.to_string())
    }
}
