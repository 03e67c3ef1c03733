use std::fmt;
use std::time::Duration;

/// The CNI command that is being carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// ADD
    Add,
    /// CHECK
    Check,
    /// DEL
    Del,
}

/// How catena itself was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// It runs delegates.
    Meta,
    /// It stands at the end of somebody else's list.
    Chained,
}

/// An interface that a module may export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Export {
    /// Who owns the default routes.
    Arrange,
    /// Whether an attachment may be.
    Admit,
    /// Work on a result.
    Stage,
    /// Judge a config.
    Settings,
}

impl Export {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Arrange, Self::Admit, Self::Stage, Self::Settings];

    /// The interface's name in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Arrange => "arrange",
            Self::Admit => "admit",
            Self::Stage => "stage",
            Self::Settings => "settings",
        }
    }
}

impl fmt::Display for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What every export is told (wit: `types.call`).
#[derive(Debug, Clone)]
pub struct Call {
    /// The CNI command.
    pub command: Command,
    /// How catena was called.
    pub mode: Mode,
    /// CNI_CONTAINERID.
    pub container_id: String,
    /// Name of the attachment's network.
    pub network: String,
    /// The attachment's interface.
    pub ifname: String,
    /// Index of the attachment.
    pub position: u32,
    /// The pipeline entry's config as JSON text.
    pub config: String,
    /// What else is known, as JSON text with a `schema` number.
    pub context: String,
}

impl Call {
    /// How much text it hands over.
    pub(super) fn bytes(&self) -> usize {
        self.config.len() + self.context.len()
    }
}

/// A CNI document (wit: `types.document`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// `cni/VERSION`, or `raw`.
    pub format: String,
    /// JSON text.
    pub text: String,
}

/// What `stage` answered, checked: every document is one, and everything in it is granted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The changed result.
    pub result: Option<Document>,
    /// Tags for the entries that follow.
    pub tags: Vec<String>,
    /// Key and JSON text of documents for the world outside.
    pub publications: Vec<(String, String)>,
    /// Number of a failed call that is accepted, and why.
    pub tolerated: Vec<(u32, String)>,
}

/// What `admit` answered, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// As it is.
    Allow,
    /// With this config, which differs only where the grant allows.
    Rewrite(String),
}

/// What a run has cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Units of fuel.
    pub fuel: u64,
    /// From instantiation, unless that was done before, to the answer, host calls included.
    pub duration: Duration,
    /// Bytes of linear memory.
    pub memory: usize,
}
