//! Why a delegate did not do what it was asked to.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use catena_cni::error::{ErrorObject, code};
use catena_cni::identifier::IdentifierError;
use nix::errno::Errno;
use nix::sys::signal::Signal;
use thiserror::Error;

use super::command::Command;

/// One failed call of a delegate. The message names the plugin, the interface and the command.
#[derive(Debug, Error)]
pub struct DelegateError {
    /// The `type` of the plugin, or the name of the network where no plugin was reached.
    pub plugin: String,
    /// CNI_IFNAME; empty for GC and STATUS.
    pub ifname: String,
    /// What it was asked to do.
    pub command: Command,
    /// What went wrong.
    #[source]
    pub fault: Fault,
}

impl fmt::Display for DelegateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "delegate {}", self.plugin)?;
        if !self.ifname.is_empty() {
            write!(f, " for {}", self.ifname)?;
        }
        write!(f, " ({}): {}", self.command, self.fault)
    }
}

impl DelegateError {
    pub(super) fn new(plugin: &str, ifname: &str, command: Command, fault: Fault) -> Self {
        Self { plugin: plugin.to_owned(), ifname: ifname.to_owned(), command, fault }
    }

    /// With one more fact in the details of what the delegate reported.
    pub(super) fn with_note(mut self, note: String) -> Self {
        if let Fault::Reported(object) = &mut self.fault {
            let details = object.details.take().map(|details| format!("{details}; ")).unwrap_or_default();
            object.details = Some(details + &note);
        }
        self
    }

    /// The CNI error code: the delegate's own where it gave one.
    pub fn code(&self) -> u32 {
        match &self.fault {
            Fault::Identifier(error) => error.code(),
            Fault::Missing { .. } => code::INVALID_CONFIG,
            Fault::Busy { .. } => code::TRY_LATER,
            Fault::Spawn { errno, .. } => match errno {
                Errno::EAGAIN | Errno::ENOMEM | Errno::ENFILE | Errno::EMFILE => code::TRY_LATER,
                Errno::ENOSYS | Errno::ESRCH => code::INTERNAL,
                _ => code::INVALID_CONFIG,
            },
            Fault::Io { .. } | Fault::Withheld(_) => code::IO,
            Fault::Late | Fault::Deadline { .. } => code::DELEGATE_DEADLINE,
            Fault::Killed { .. } => code::DELEGATE_KILLED,
            Fault::TooMuch { .. }
            | Fault::NoResult { .. }
            | Fault::NoError { .. }
            | Fault::PrevResult { .. }
            | Fault::Versions(_) => code::DELEGATE_OUTPUT,
            Fault::Reported(object) => object.code,
            Fault::Version { .. } => code::INCOMPATIBLE_VERSION,
        }
    }

    /// The delegate's own `details`, or the end of its stderr.
    pub fn details(&self) -> Option<&str> {
        match &self.fault {
            Fault::Reported(object) => object.details.as_deref(),
            Fault::Deadline { stderr, .. }
            | Fault::Killed { stderr, .. }
            | Fault::TooMuch { stderr, .. }
            | Fault::NoError { stderr, .. } => Some(stderr.as_str()),
            _ => None,
        }
        .filter(|text| !text.is_empty())
    }
}

const TIMES: &str = "deadlines.callSeconds of the node (rollbackSeconds while a failed ADD is undone)";
const CUT: &str = "which was left of the call's time (deadlines.callSeconds of the node, or rollbackSeconds)";

/// See [`DelegateError`].
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the message of each says it")]
pub enum Fault {
    #[error("{0}")]
    Identifier(#[source] IdentifierError),
    // go-cni takes a DEL error with the words "not found" in it for success, so they are avoided from the start.
    #[error(
        "no such plugin is installed in {}: install it there, or add its folder to CNI_PATH or binDir",
        folders(searched)
    )]
    Missing { searched: Vec<PathBuf> },
    #[error(
        "{path} could not be started: it has been open for writing for {} ms; wait until its installation is done",
        waited.as_millis()
    )]
    Busy { path: PathBuf, waited: Duration },
    #[error("{path} could not be started: {}", spawn_cause(*errno))]
    Spawn { path: PathBuf, errno: Errno },
    #[error("talking to it failed: {what}: {errno}")]
    Io { what: &'static str, errno: Errno },
    #[error("it was not given its request: {0}")]
    Withheld(String),
    #[error(
        "it was not started, because the time for the whole call was over; {TIMES} raises it, if the networks before it may take so long"
    )]
    Late,
    /// `cut`: by what was left for the whole call.
    #[error(
        "it was killed, with its process group, because it had not ended after {} ms, {}{}",
        after.as_millis(),
        if *cut { CUT } else { "which is deadlines.delegateSeconds of the node" },
        survivor(*undying)
    )]
    Deadline { after: Duration, cut: bool, stderr: String, undying: Option<i32> },
    #[error("it died from signal {signal}")]
    Killed { signal: Signal, stderr: String },
    #[error("it was killed because it wrote more than {limit} bytes to stdout")]
    TooMuch { limit: usize, stderr: String },
    #[error("it succeeded, but its stdout is not one JSON object: {cause}; stdout: {quote:?}")]
    NoResult { cause: String, quote: String },
    #[error("it failed with exit status {status} and no usable error object{}", stdout_quote(quote))]
    NoError { status: i32, quote: String, stderr: String },
    #[error("{}", .0.msg)]
    Reported(Box<ErrorObject>),
    #[error("its answer to VERSION cannot be read: {0}")]
    Versions(String),
    #[error(
        "it does not speak CNI {wanted}{}; it lists {}",
        if wanted.is_empty() { "0.1.0" } else { "" },
        if listed.is_empty() { "nothing".to_owned() } else { listed.join(", ") }
    )]
    Version { wanted: String, listed: Vec<String> },
    #[error("the result before it cannot be given to it as CNI {version}: {cause}")]
    PrevResult { version: String, cause: String },
}

fn folders(searched: &[PathBuf]) -> String {
    if searched.is_empty() {
        return "any folder: CNI_PATH has no absolute path".to_owned();
    }
    let names: Vec<String> = searched.iter().map(|folder| folder.display().to_string()).collect();
    names.join(", ")
}

fn spawn_cause(errno: Errno) -> String {
    match errno {
        Errno::EACCES => {
            "it is not executable (EACCES): give it the x bit, or mount its file system with exec".to_owned()
        }
        Errno::ENOEXEC => "it is no program for this machine and no script with #! (ENOEXEC)".to_owned(),
        Errno::ENOENT => "the interpreter or loader that it names does not exist (ENOENT)".to_owned(),
        Errno::ENOSYS => "this kernel has no pidfd (ENOSYS); Linux 5.2 or newer is needed".to_owned(),
        Errno::ESRCH => "catena's own process ended meanwhile".to_owned(),
        errno => errno.to_string(),
    }
}

fn survivor(undying: Option<i32>) -> String {
    undying
        .map(|pid| format!("; process {pid} did not die from SIGKILL and is left behind"))
        .unwrap_or_default()
}

fn stdout_quote(quote: &str) -> String {
    if quote.is_empty() { String::new() } else { format!("; stdout: {quote:?}") }
}
