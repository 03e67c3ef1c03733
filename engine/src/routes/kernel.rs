//! The routes and links of one namespace.

use std::io;
use std::time::{Duration, Instant};

pub use catena_routes::{Applied, ApplyFailure, Change, Scope, Table, Undo};
use catena_routes::{Echo, Errno, Failure, Family, Request, Route, RouteSpec, Wire};
use rtnetlink::packet_core::NLM_F_ECHO;

use super::connection::Connection;
use super::envelope::Message;
use super::error::RouteError;
use super::journal::{Journal, Mark};
use super::link::{Link, LinkName};
use super::message;
use super::netns::Netns;
use crate::inject;

/// How long undoing may take when the call's time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UndoTime {
    /// For one undo (node.json, deadlines.rollbackSeconds).
    pub within: Duration,
    /// When all of them have to be over.
    pub by: Instant,
}

impl UndoTime {
    /// When an undo that begins now has to be over.
    pub fn until(&self) -> Instant {
        self.by.min(Instant::now() + self.within)
    }
}

/// One namespace's routing tables over one strict connection, which is made when it is first needed. As a
/// [`Wire`] it is a [`Table`] like the simulated one.
#[derive(Debug)]
pub struct Kernel {
    netns: Netns,
    name: String,
    connection: Option<Connection>,
    /// When answers have to be there.
    until: Option<Instant>,
    /// How much longer undoing may take.
    undo: Option<UndoTime>,
}

impl Kernel {
    /// A kernel for an open namespace; nothing is sent yet.
    pub fn of(netns: &Netns) -> Kernel {
        let name = netns.path().display().to_string();
        Kernel { netns: netns.clone(), name, connection: None, until: None, undo: None }
    }

    /// The namespace.
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// When answers have to be there: a request that would begin later is not sent. Without it each may take as long as
    /// the kernel may need for one.
    pub fn set_until(&mut self, until: Option<Instant>) {
        self.until = until;
    }

    /// How long undoing may take; without it no longer than anything else.
    pub fn set_undo(&mut self, undo: UndoTime) {
        self.undo = Some(undo);
    }

    /// All links, in the kernel's order.
    pub fn links(&mut self) -> Result<Vec<Link>, RouteError> {
        Table::links(self)
    }

    /// See [`Table::link`].
    pub fn link(&mut self, name: &str) -> Result<Option<Link>, RouteError> {
        Table::link(self, name)
    }

    /// The link of that name, alternative name or hardware address.
    pub fn find_link(&mut self, text: &str) -> Result<Option<Link>, RouteError> {
        Table::find_link(self, text)
    }

    /// One whole table in the kernel's order.
    pub fn routes(&mut self, family: Family, table: u32) -> Result<Vec<Route>, RouteError> {
        Table::routes(self, family, table)
    }

    /// See [`Table::routes_of`].
    pub fn routes_of(&mut self, family: Family, table: u32, link: u32) -> Result<Vec<Route>, RouteError> {
        Table::routes_of(self, family, table, link)
    }

    /// See [`Table::apply`].
    pub fn apply(
        &mut self,
        scope: &Scope,
        changes: &[Change],
        journal: &mut Journal,
    ) -> Result<Applied, ApplyFailure> {
        Table::apply(self, scope, changes, journal)
    }

    /// See [`Table::replace`].
    #[allow(clippy::too_many_arguments, reason = "the contract's arguments and what the host adds")]
    pub fn replace(
        &mut self,
        scope: &Scope,
        link: u32,
        family: Family,
        table: u32,
        wanted: &[RouteSpec],
        keep_kernel: bool,
        journal: &mut Journal,
    ) -> Result<Applied, ApplyFailure> {
        Table::replace(self, scope, link, family, table, wanted, keep_kernel, journal)
    }

    /// See [`Table::undo`].
    pub fn undo(&mut self, journal: &mut Journal, to: Mark) -> Undo {
        Table::undo(self, journal, to)
    }

    /// The connection; one that was lost is made anew, since undoing needs it. While a request is under way this
    /// has none, so that a panic leaves no connection with an answer that nobody has read.
    fn connected<T>(
        &mut self,
        work: impl FnOnce(&mut Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(&self.netns)?,
        };
        connection.until = self.until;
        let result = work(&mut connection);
        if !matches!(result, Err(Failure::Lost(_) | Failure::Timeout(_))) {
            self.connection = Some(connection);
        }
        result
    }

    /// Sysctls belong to the namespace of the thread that reads them, unlike what goes over a socket.
    fn in_namespace<T: Send>(&self, work: impl FnOnce() -> Result<T, Failure> + Send) -> Result<T, Failure> {
        self.netns.run(work).map_err(|error| Failure::Namespace(error.to_string()))?
    }
}

impl Wire for Kernel {
    fn namespace(&self) -> &str {
        &self.name
    }

    fn links(&mut self) -> Result<Vec<Link>, Failure> {
        self.connected(|connection| Ok(message::links(connection.dump(Message::GetLinks)?)))
    }

    fn link(&mut self, name: &str) -> Result<Option<Link>, Failure> {
        let Some(name) = LinkName::new(name) else { return Ok(None) };
        let is_alternative = name.is_alternative();
        match self.connected(|connection| connection.request(Message::GetLink(name), 0)) {
            Ok(messages) => Ok(message::links(messages).into_iter().next()),
            Err(failure) if failure.errno() == Some(Errno::ENODEV) => Ok(None),
            // A kernel that knows no alternative names (before 5.5), so that nothing has one.
            Err(failure) if failure.errno() == Some(Errno::EINVAL) && is_alternative => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    fn dump(&mut self, family: Family, table: u32) -> Result<Vec<Route>, Failure> {
        self.connected(|connection| {
            let messages = connection.dump(message::dump(family, table))?;
            message::routes(messages, family, table)
        })
    }

    fn dump_of(&mut self, family: Family, table: u32, link: u32) -> Result<Vec<Route>, Failure> {
        let found = self.connected(|connection| {
            let messages = connection.dump(message::dump_of(family, table, link))?;
            message::routes(messages, family, table)
        });
        let mut routes = match found {
            // A link that has gone has no routes.
            Err(failure) if failure.errno() == Some(Errno::ENODEV) => Vec::new(),
            found => found?,
        };
        // A kernel without strict checking (before 4.20) does not look at the link.
        routes.retain(|route| route.hops.iter().any(|hop| hop.link == link));
        Ok(routes)
    }

    fn send(&mut self, request: &Request) -> Result<Vec<Echo>, Failure> {
        inject::point("routes/send");
        let (message, flags) = message::request(request);
        self.connected(|connection| message::echoes(connection.request(message, flags | NLM_F_ECHO)?))
    }

    fn sysctl(&mut self, link: &str, key: &str) -> Result<Option<String>, Failure> {
        let path = sysctl_path(link, key)?;
        self.in_namespace(|| match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(file_failure(&path, &error)),
        })
    }

    fn set_sysctl(&mut self, link: &str, key: &str, value: &str) -> Result<(), Failure> {
        let path = sysctl_path(link, key)?;
        self.in_namespace(|| std::fs::write(&path, value).map_err(|error| file_failure(&path, &error)))
    }

    fn undoing(&mut self) {
        if let Some(undo) = &self.undo {
            self.until = self.until.map(|until| until.max(undo.until()));
        }
    }
}

/// A link's name is a folder's name there; the kernel allows neither `/` nor `.` and `..` in it.
fn sysctl_path(link: &str, key: &str) -> Result<String, Failure> {
    if link.is_empty() || link == "." || link == ".." || link.contains('/') {
        return Err(Failure::Other(format!("{link:?} is no name of a link")));
    }
    Ok(format!("/proc/sys/net/ipv6/conf/{link}/{key}"))
}

fn file_failure(path: &str, error: &io::Error) -> Failure {
    match error.raw_os_error() {
        Some(errno) => Failure::Kernel { errno: Errno(errno), message: Some(path.to_owned()), offset: None },
        None => Failure::Other(format!("{path}: {error}")),
    }
}
