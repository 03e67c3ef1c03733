use catena_cni::error::code;

use super::engine;
use super::limits::{self, Exceeded};
use crate::node::{Grants, NodeError};

/// Why a module cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    /// Nothing has that name.
    #[error("module {name:?} is unknown; there are {known}; install it with `catenactl install {name} FILE`")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names that are there.
        known: String,
    },
    /// A file of the node cannot be used.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// It is another one than the node wants.
    #[error(
        "module {name}: the node wants {wanted}, but there is only {found}; install that module with `catenactl install {name} FILE` or correct modules.{name}.digest in node.json"
    )]
    Pin {
        /// The module.
        name: String,
        /// The digest asked for.
        wanted: String,
        /// The digests that are there.
        found: String,
    },
    /// Its artifact is missing, damaged, or for another engine.
    #[error("module {name} ({digest}): {cause}; run `catenactl install {name} FILE` again")]
    Artifact {
        /// The module.
        name: String,
        /// The component's digest.
        digest: String,
        /// What is wrong with it.
        cause: String,
    },
    /// It was compiled for another version of catena.
    #[error(
        "module {name} ({digest}) is compiled for another catena (engine {engines}; this one is {}); run `catenactl recompile`, which compiles all that is installed anew",
        engine::KEY
    )]
    Stale {
        /// The module.
        name: String,
        /// The component's digest.
        digest: String,
        /// The engines that it is compiled for.
        engines: String,
    },
    /// The node does not allow it what it needs.
    #[error(
        "module {name} ({digest}) lacks grants; to allow it, add {missing} to modules.{name}.grants in node.json"
    )]
    Ungranted {
        /// The module.
        name: String,
        /// The component's digest.
        digest: String,
        /// Exactly what is missing.
        missing: Box<Grants>,
    },
    /// It was built for something else.
    #[error("module {name} ({digest}): {cause}")]
    Contract {
        /// The module.
        name: String,
        /// The component's digest.
        digest: String,
        /// Both sides, named.
        cause: String,
    },
    /// wasmtime cannot work here.
    #[error("the WebAssembly engine does not start: {0}")]
    Engine(String),
}

impl ModuleError {
    /// The CNI error code.
    pub fn code(&self) -> u32 {
        match self {
            Self::Unknown { .. } => code::INVALID_CONFIG,
            Self::Node(error) => error.code(),
            Self::Ungranted { .. } => code::DENIED,
            Self::Pin { .. }
            | Self::Artifact { .. }
            | Self::Stale { .. }
            | Self::Contract { .. }
            | Self::Engine(_) => code::INTEGRITY,
        }
    }
}

/// Why a stage did not do its work. The caller knows stage, digest and attachment, and adds them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StageError {
    /// The stage: its own config is wrong.
    #[error("the stage's config is wrong: {0}")]
    InvalidConfig(String),
    /// The stage: the result that it was given is wrong.
    #[error("the stage cannot use the result: {0}")]
    InvalidResult(String),
    /// The stage: a policy says no.
    #[error("{0}")]
    Denied(String),
    /// The stage: not now.
    #[error("try again later: {0}")]
    TryLater(String),
    /// The stage: a failure of its own kind.
    #[error("{message}")]
    Failed {
        /// 200 or above.
        code: u32,
        /// What happened.
        message: String,
        /// More about it.
        details: Option<String>,
    },
    /// It crashed.
    #[error("the module trapped: {message}")]
    Trap {
        /// The trap, and the last words in the log.
        message: String,
        /// The guest's functions, innermost first.
        backtrace: Vec<String>,
    },
    /// It computed too long.
    #[error("the module used up its {most} units of fuel; {}", limits::remedy(Some("fuel")))]
    Fuel {
        /// How much it had.
        most: u64,
        /// The guest's functions, innermost first.
        backtrace: Vec<String>,
    },
    /// The whole call's time was over.
    #[error(
        "the call's time ran out while the module asked the host for something (deadlines.callSeconds in /etc/catena/node.json); use fewer stages or networks, or let it do less"
    )]
    Late,
    /// It went over another limit.
    #[error("the module asked for {0}")]
    Limit(Exceeded),
    /// Its answer is wrong.
    #[error("the stage's answer cannot be used: {0}")]
    BadOutcome(String),
    /// Its answer has something that the node does not allow.
    #[error("the stage's answer goes beyond its grants: {0}")]
    Ungranted(String),
    /// It cannot be made ready to run.
    #[error("{message}")]
    Unusable {
        /// The CNI error code.
        code: u32,
        /// Which module, and why.
        message: String,
    },
    /// It does not have that export.
    #[error("the module does not export {0}")]
    NoExport(&'static str),
    /// Not the stage's fault: a host function panicked.
    #[error("internal error in catena (a panic) while the stage ran: {0}")]
    Internal(String),
}

impl StageError {
    /// The CNI error code.
    pub fn code(&self) -> u32 {
        match self {
            Self::InvalidConfig(_) => code::INVALID_CONFIG,
            Self::InvalidResult(_) => code::DECODE,
            Self::Denied(_) | Self::Ungranted(_) => code::DENIED,
            Self::TryLater(_) | Self::Late => code::TRY_LATER,
            Self::Failed { code, .. } | Self::Unusable { code, .. } => *code,
            Self::Trap { .. } => code::TRAP,
            Self::Fuel { .. } => code::FUEL,
            Self::Limit(_) => code::LIMIT,
            Self::BadOutcome(_) => code::BAD_OUTCOME,
            Self::NoExport(_) | Self::Internal(_) => code::INTERNAL,
        }
    }

    /// What there is to say beside the message.
    pub fn details(&self) -> Vec<String> {
        match self {
            Self::Failed { details, .. } => details.iter().cloned().collect(),
            Self::Trap { backtrace, .. } | Self::Fuel { backtrace, .. } if !backtrace.is_empty() => {
                vec![format!("in {}", backtrace.join(" < "))]
            }
            _ => Vec::new(),
        }
    }
}

impl From<Exceeded> for StageError {
    fn from(exceeded: Exceeded) -> Self {
        Self::Limit(exceeded)
    }
}
