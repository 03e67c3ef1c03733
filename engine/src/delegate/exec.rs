//! Calling one plugin: its environment, and what its exit status and output mean.

use std::collections::HashMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use catena_cni::error::ErrorObject;
use catena_cni::identifier::PluginType;
use catena_cni::json::{self, Map};
use catena_cni::version::{SpecVersion, VersionReply};
use nix::errno::Errno;
use serde_json::json;

use super::command::Command;
use super::error::{DelegateError, Fault};
use super::process::{self, Ended, Escort, Exit, Failure, Job, Spawned};
use super::search::Search;
use super::version::Versions;

/// Tells a catena that runs as a delegate which catena runs it; the value is the outer network's name.
pub const NESTED: &str = "CATENA_NESTED";

/// Bytes of a delegate's stdout that an error quotes.
const QUOTE: usize = 300;

/// How delegates are run. One value serves all delegates of an invocation, from several threads if need be.
#[derive(Debug)]
pub struct Exec<'a> {
    /// Our own environment, which delegates get with its CNI variables replaced; of two of one name the later wins.
    pub env: Arc<[(OsString, OsString)]>,
    /// Where plugins are looked for.
    pub search: Search,
    /// What plugins answered to VERSION before.
    pub versions: Arc<Versions>,
    /// Name of the network that this catena was called for, the value of [`NESTED`].
    pub network: String,
    /// How long one delegate may take.
    pub deadline: Duration,
    /// When the whole operation has to be over, if before a delegate's own deadline.
    pub until: Option<Instant>,
    /// Bytes of stdout that a delegate may write.
    pub output_limit: usize,
    /// A lock that delegates and their children hold as long as they live.
    pub inherit: Option<BorrowedFd<'a>>,
    /// Told about every process that has ended.
    pub observer: Option<Arc<dyn Observer>>,
}

/// See [`Exec::observer`].
pub trait Observer: Send + Sync + std::fmt::Debug {
    /// A process has ended, well or not.
    fn ended(&self, run: &Run<'_>);
}

/// One process of a delegate, for logs.
#[derive(Debug)]
pub struct Run<'a> {
    /// The `type` of the plugin.
    pub plugin: &'a str,
    /// CNI_IFNAME; empty for GC, STATUS and VERSION.
    pub ifname: &'a str,
    /// What it was asked.
    pub command: Command,
    /// The file that was run.
    pub path: &'a Path,
    /// From before the start until after the end, without what else we did meanwhile if that took long.
    pub duration: Duration,
    /// How it ended.
    pub exit: Exit,
    /// The end of its stderr, as it wrote it. libcni hands it on to its own stderr if the exit status is 0.
    pub stderr: &'a str,
}

/// The attachment that a delegate is called for.
#[derive(Debug, Clone, Copy)]
pub struct Attachment<'a> {
    /// CNI_CONTAINERID.
    pub container_id: &'a str,
    /// CNI_IFNAME.
    pub ifname: &'a str,
    /// CNI_NETNS; `None` (DEL only) is passed on as an empty variable.
    pub netns: Option<&'a str>,
    /// CNI_ARGS as it came.
    pub args: &'a str,
    /// Capability name to value; a plugin gets those that it declares.
    pub capability_args: &'a Map,
}

/// A plugin that was found.
#[derive(Debug)]
pub(super) struct Plugin<'a> {
    pub(super) kind: &'a PluginType,
    pub(super) path: PathBuf,
}

/// One call, ready to be made.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) plugin: &'a Plugin<'a>,
    pub(super) command: Command,
    /// `None` for GC and STATUS.
    pub(super) at: Option<&'a Attachment<'a>>,
    pub(super) request: &'a [u8],
}

/// The [`Escort`] of processes that nobody has to know about.
///
/// # Errors
/// None.
pub fn unrecorded(_: &Spawned) -> Result<(), String> {
    Ok(())
}

impl Exec<'_> {
    pub(super) fn find<'p>(
        &self,
        kind: &'p PluginType,
        command: Command,
        ifname: &str,
    ) -> Result<Plugin<'p>, DelegateError> {
        match self.search.find(kind) {
            Some(path) => Ok(Plugin { kind, path }),
            None => {
                let fault = Fault::Missing { searched: self.search.folders().to_vec() };
                Err(DelegateError::new(kind.as_str(), ifname, command, fault))
            }
        }
    }

    /// Runs the plugin; its stdout if it succeeded.
    pub(super) fn call(&self, call: &Call<'_>, escort: &mut dyn Escort) -> Result<Vec<u8>, DelegateError> {
        let cni_path = self.search.cni_path();
        let variables: [(&str, &OsStr); 7] = match call.at {
            Some(at) => [
                ("CNI_COMMAND", OsStr::new(call.command.as_str())),
                ("CNI_CONTAINERID", OsStr::new(at.container_id)),
                ("CNI_NETNS", OsStr::new(at.netns.unwrap_or_default())),
                ("CNI_ARGS", OsStr::new(at.args)),
                ("CNI_IFNAME", OsStr::new(at.ifname)),
                ("CNI_PATH", &cni_path),
                (NESTED, OsStr::new(&self.network)),
            ],
            None => {
                // libcni's dummies: early plugins wanted these variables even for VERSION.
                let dummy = if call.command == Command::Version { "dummy" } else { "" };
                let path = if call.command == Command::Version { OsStr::new(dummy) } else { &cni_path };
                [
                    ("CNI_COMMAND", OsStr::new(call.command.as_str())),
                    ("CNI_CONTAINERID", OsStr::new("")),
                    ("CNI_NETNS", OsStr::new(dummy)),
                    ("CNI_ARGS", OsStr::new("")),
                    ("CNI_IFNAME", OsStr::new(dummy)),
                    ("CNI_PATH", path),
                    (NESTED, OsStr::new(&self.network)),
                ]
            }
        };
        let ifname = call.at.map_or("", |at| at.ifname);
        let error = |fault| DelegateError::new(call.plugin.kind.as_str(), ifname, call.command, fault);
        let path = CString::new(call.plugin.path.as_os_str().as_bytes())
            .map_err(|_| error(Fault::Spawn { path: call.plugin.path.clone(), errno: Errno::EINVAL }))?;
        let env = environment(&self.env, &variables);
        let began = Instant::now();
        // One that is started and killed at once is worse than one that never ran.
        if self.until.is_some_and(|until| until <= began) {
            return Err(error(Fault::Late));
        }
        let own = began + self.deadline;
        let job = Job {
            path: &path,
            env: &env,
            stdin: call.request,
            inherit: self.inherit,
            until: self.until.unwrap_or(own).min(own),
            latest: self.until,
            output_limit: self.output_limit,
            output_matters: matches!(call.command, Command::Add | Command::Version),
        };
        let ended = process::run(&job, escort).map_err(|failure| {
            error(match failure {
                Failure::Busy(waited) => Fault::Busy { path: call.plugin.path.clone(), waited },
                Failure::Spawn(errno) => Fault::Spawn { path: call.plugin.path.clone(), errno },
                Failure::Io(what, errno) => Fault::Io { what, errno },
                Failure::Withheld(reason) => Fault::Withheld(reason),
            })
        })?;
        let taken = began.elapsed().saturating_sub(ended.own_share);
        let stderr = String::from_utf8_lossy(&ended.stderr);
        if let Some(observer) = &self.observer {
            observer.ended(&Run {
                plugin: call.plugin.kind.as_str(),
                ifname,
                command: call.command,
                path: &call.plugin.path,
                duration: taken,
                exit: ended.exit,
                stderr: &stderr,
            });
        }
        match fault(&ended, stderr.trim(), taken, self.output_limit) {
            None => Ok(ended.stdout),
            Some(Fault::Deadline { after, stderr, undying, .. }) => {
                let cut = self.until.is_some_and(|until| until < own + ended.own_share);
                Err(error(Fault::Deadline { after, cut, stderr, undying }))
            }
            Some(fault) => Err(error(fault)),
        }
    }

    /// What the plugin answers to VERSION, from memory if it is the same file as then.
    pub(super) fn versions_of(&self, plugin: &Plugin<'_>) -> Result<Vec<String>, DelegateError> {
        if let Some(known) = self.versions.known(&plugin.path) {
            return Ok(known);
        }
        let request = json!({ "cniVersion": SpecVersion::NEWEST.as_str() }).to_string();
        let call = Call { plugin, command: Command::Version, at: None, request: request.as_bytes() };
        let listed = match self.call(&call, &mut unrecorded) {
            Ok(stdout) => VersionReply::parse(&stdout).map(|reply| reply.supported).map_err(|error| {
                let fault = Fault::Versions(error.to_string());
                DelegateError::new(plugin.kind.as_str(), "", Command::Version, fault)
            })?,
            // Plugins from before the command existed; libcni compares the whole text.
            Err(error) => match &error.fault {
                Fault::Reported(object)
                    if object.msg == "unknown CNI_COMMAND: VERSION" && object.details.is_none() =>
                {
                    vec![SpecVersion::V0_1_0.as_str().to_owned()]
                }
                _ => return Err(error),
            },
        };
        self.versions.remember(&plugin.path, &listed);
        Ok(listed)
    }
}

/// Our environment with `variables` in place of its own of these names.
fn environment(base: &[(OsString, OsString)], variables: &[(&str, &OsStr)]) -> Vec<CString> {
    let mut last: HashMap<&OsStr, usize> = HashMap::with_capacity(base.len());
    for (index, (name, _)) in base.iter().enumerate() {
        last.insert(name, index);
    }
    let ours = |name: &OsStr| variables.iter().any(|(ours, _)| name == *ours);
    base.iter()
        .enumerate()
        .filter(|(index, (name, _))| last.get(name.as_os_str()) == Some(index) && !ours(name))
        .map(|(_, (name, value))| (name.as_os_str(), value.as_os_str()))
        .chain(variables.iter().map(|(name, value)| (OsStr::new(*name), *value)))
        // An entry with a NUL in it did not come from an environment and cannot go into one.
        .filter_map(|(name, value)| {
            let mut entry = OsString::with_capacity(name.len() + value.len() + 2);
            entry.push(name);
            entry.push("=");
            entry.push(value);
            CString::new(entry.into_vec()).ok()
        })
        .collect()
}

/// What a process that ended did wrong (reference: libcni's RawExec, with codes of its own where libcni says 0).
fn fault(ended: &Ended, stderr: &str, after: Duration, limit: usize) -> Option<Fault> {
    let stderr = stderr.to_owned();
    let status = match ended.exit {
        Exit::Status(0) => return None,
        Exit::Status(status) => status,
        Exit::Signal(signal) => return Some(Fault::Killed { signal, stderr }),
        Exit::Deadline => return Some(Fault::Deadline { after, cut: false, stderr, undying: ended.undying }),
        Exit::Output => return Some(Fault::TooMuch { limit, stderr }),
    };
    let object = json::parse(&ended.stdout)
        .ok()
        .and_then(|value| ErrorObject::from_value(&value))
        .filter(|object| object.code != 0);
    Some(match object {
        Some(mut object) => {
            if object.msg.is_empty() {
                object.msg = format!("it failed with code {} and says nothing more", object.code);
            }
            Fault::Reported(Box::new(object))
        }
        None => Fault::NoError { status, quote: quote(&ended.stdout), stderr },
    })
}

/// The beginning of what a delegate wrote, for an error message.
pub(super) fn quote(stdout: &[u8]) -> String {
    let text = String::from_utf8_lossy(stdout.get(..QUOTE).unwrap_or(stdout));
    let text = text.trim();
    if stdout.len() > QUOTE { format!("{text}…") } else { text.to_owned() }
}
