//! The environment of a call (CNI specification, section 2, and what Go plugins really check).

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use catena_cni::error::code;
use catena_cni::identifier::{ContainerId, IfName};

use super::error::CniError;
use crate::delegate::{Command, NESTED};

/// A call whose environment is complete and valid.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// What is asked for.
    pub request: Request,
    /// CNI_ARGS as it came; delegates get it as it is and judge it.
    pub args: String,
    /// CNI_PATH; empty only for [`Request::About`] and [`Request::Version`].
    pub path: String,
    /// Whether CNI_NETNS may be our own network namespace (CNI_NETNS_OVERRIDE).
    pub own_netns_allowed: bool,
    /// The outer network's name, where this catena is the delegate of another.
    pub nested: Option<String>,
    /// The whole environment.
    pub env: Arc<[(OsString, OsString)]>,
}

/// A command with the variables that it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the commands are those of the CNI specification")]
pub enum Request {
    /// No command: a person at a shell.
    About,
    Version,
    Status,
    Gc,
    Add {
        target: Target,
        netns: String,
    },
    Check {
        target: Target,
        netns: String,
    },
    Del {
        target: Target,
        netns: Option<String>,
    },
}

/// The attachment point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// CNI_CONTAINERID.
    pub container_id: ContainerId,
    /// CNI_IFNAME.
    pub ifname: IfName,
}

impl Request {
    /// The command; `None` for [`Request::About`].
    pub fn command(&self) -> Option<Command> {
        Some(match self {
            Self::About => return None,
            Self::Version => Command::Version,
            Self::Status => Command::Status,
            Self::Gc => Command::Gc,
            Self::Add { .. } => Command::Add,
            Self::Check { .. } => Command::Check,
            Self::Del { .. } => Command::Del,
        })
    }
}

impl Invocation {
    /// Reads the environment. An empty variable is an unset one. All problems are named in one error (code 4).
    pub fn read(env: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Self, CniError> {
        let env: Arc<[(OsString, OsString)]> = env.into_iter().collect();
        let mut reader = Reader { env: &env, problems: Vec::new() };
        let command = reader.command();
        let request = reader.request(command);
        let asks = command.is_some_and(|command| command != Command::Version);
        let path = if asks { reader.required("CNI_PATH") } else { None };
        let args = if asks { reader.optional("CNI_ARGS") } else { None };
        let own_netns_allowed = reader
            .raw("CNI_NETNS_OVERRIDE")
            .is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("true"));
        let nested = reader.raw(NESTED).map(|name| name.to_string_lossy().into_owned());
        let problems = reader.problems;
        let (Some(request), true) = (request, problems.is_empty()) else {
            return Err(CniError::new(
                code::INVALID_ENVIRONMENT,
                format!("bad environment: {}", problems.join("; ")),
            ));
        };
        Ok(Self {
            request,
            args: args.unwrap_or_default(),
            path: path.unwrap_or_default(),
            own_netns_allowed,
            nested,
            env,
        })
    }
}

struct Reader<'a> {
    env: &'a [(OsString, OsString)],
    problems: Vec<String>,
}

impl<'a> Reader<'a> {
    /// The last of that name, as getenv of a shell's child sees it; empty counts as unset.
    fn raw(&self, name: &str) -> Option<&'a OsStr> {
        let (_, value) = self.env.iter().rev().find(|(key, _)| key == name)?;
        Some(value.as_os_str()).filter(|value| !value.is_empty())
    }

    fn optional(&mut self, name: &str) -> Option<String> {
        let value = self.raw(name)?;
        match value.to_str() {
            Some(text) => Some(text.to_owned()),
            None => {
                self.problems.push(format!("{name} is not UTF-8: {value:?}"));
                None
            }
        }
    }

    fn required(&mut self, name: &str) -> Option<String> {
        let before = self.problems.len();
        let value = self.optional(name);
        if value.is_none() && self.problems.len() == before {
            self.problems.push(format!("{name} is missing"));
        }
        value
    }

    fn parsed<T, E: std::fmt::Display>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.required(name)?;
        match parse(&text) {
            Ok(value) => Some(value),
            Err(error) => {
                self.problems.push(format!("{name} is bad: {error}"));
                None
            }
        }
    }

    fn target(&mut self) -> Option<Target> {
        let container_id = self.parsed("CNI_CONTAINERID", ContainerId::parse);
        let ifname = self.parsed("CNI_IFNAME", IfName::parse);
        Some(Target { container_id: container_id?, ifname: ifname? })
    }

    /// `None` if there is none, or a bad one, which is a problem then.
    fn command(&mut self) -> Option<Command> {
        let word = self.raw("CNI_COMMAND")?;
        let command = word.to_str().and_then(Command::from_text);
        if command.is_none() {
            self.problems.push(format!(
                "CNI_COMMAND is {word:?}, which is none of ADD, DEL, CHECK, GC, STATUS, VERSION"
            ));
        }
        command
    }

    fn request(&mut self, command: Option<Command>) -> Option<Request> {
        let Some(command) = command else { return Some(Request::About) };
        match command {
            Command::Version => Some(Request::Version),
            Command::Status => Some(Request::Status),
            Command::Gc => Some(Request::Gc),
            Command::Add | Command::Check => {
                let target = self.target();
                let netns = self.required("CNI_NETNS");
                let (target, netns) = (target?, netns?);
                Some(match command {
                    Command::Add => Request::Add { target, netns },
                    _ => Request::Check { target, netns },
                })
            }
            Command::Del => {
                let target = self.target();
                let netns = self.optional("CNI_NETNS");
                Some(Request::Del { target: target?, netns })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Invocation, CniError> {
        Invocation::read(pairs.iter().map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn all_problems_are_named_at_once() {
        let error =
            read(&[("CNI_COMMAND", "ADD"), ("CNI_CONTAINERID", "a/b"), ("CNI_NETNS", "")]).unwrap_err();
        assert_eq!(error.code, 4);
        for name in
            ["CNI_CONTAINERID is bad", "CNI_NETNS is missing", "CNI_IFNAME is missing", "CNI_PATH is missing"]
        {
            assert!(error.msg.contains(name), "{name}: {}", error.msg);
        }
    }

    #[test]
    fn commands_need_what_they_need() {
        assert_eq!(read(&[]).unwrap().request, Request::About);
        assert_eq!(read(&[("CNI_COMMAND", "VERSION")]).unwrap().request, Request::Version);
        assert_eq!(read(&[("CNI_COMMAND", "GC"), ("CNI_PATH", "/p")]).unwrap().request, Request::Gc);
        let del =
            [("CNI_COMMAND", "DEL"), ("CNI_PATH", "/p"), ("CNI_CONTAINERID", "c"), ("CNI_IFNAME", "eth0")];
        assert!(matches!(read(&del).unwrap().request, Request::Del { netns: None, .. }));
        assert_eq!(read(&[("CNI_COMMAND", "add")]).unwrap_err().code, 4);
    }
}
