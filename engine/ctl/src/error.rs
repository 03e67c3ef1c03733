use std::io;
use std::path::PathBuf;

use catena::attach::ledger::LedgerError;
use catena::attach::recording::RecordingError;
use catena::node::NodeError;
use catena::wasm::ModuleError;

/// What the exit status says; shown by `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit status: 0 done; 1 refused, not there, or the answer is no (check found problems, run ended in an error or a \
denial, replay found a difference); 2 wrong use of the command line; 3 a file of the node cannot be read or written \
(forget: what went and what is left is told all the same). \
Errors are on standard error, and with --json as {\"error\": TEXT} on standard output as well.";

/// Why a command did not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{0}")]
    Refused(String),
    /// The command line itself is wrong.
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Node(#[from] NodeError),
    #[error(transparent)]
    Module(#[from] ModuleError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Recording(#[from] RecordingError),
    #[error("write to standard output: {0}")]
    Output(io::Error),
}

impl Error {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(_) | Self::Read { .. } | Self::Write { .. } => 1,
            Self::Module(ModuleError::Node(_))
            | Self::Node(_)
            | Self::Ledger(_)
            | Self::Recording(_)
            | Self::Output(_) => 3,
            Self::Module(_) => 1,
            Self::Usage(_) => 2,
        }
    }
}
