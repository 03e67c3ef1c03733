use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::{Errno, Family, LinkRef};

/// The kinds of `error-kind` in the contract's `routes` interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// Not granted, or outside the attachment's scope.
    Denied,
    /// The request itself makes no sense.
    Invalid,
    /// There is no such route (ESRCH, ENOENT).
    NotFound,
    /// The place is taken by a route of the scope (EEXIST).
    Exists,
    /// The kernel's slot is held by another interface's route.
    Conflict,
    /// There is no such link (ENODEV).
    NoDevice,
    /// The link is down (ENETDOWN).
    LinkDown,
    /// No route makes the gateway reachable on its link (ENETUNREACH, EHOSTUNREACH).
    GatewayUnreachable,
    /// The source is none of the namespace's addresses (EINVAL).
    BadSource,
    /// CAP_NET_ADMIN is missing (EPERM).
    Permission,
    /// The sysctl disable_ipv6 is set on the link (EACCES).
    Ipv6Disabled,
    /// Another dump is under way on the connection (EBUSY).
    Busy,
    /// A dump was interrupted by changes more often than is sensible.
    Interrupted,
    /// The kernel's answer did not come.
    Lost,
    /// The kernel's answer did not come in time.
    Timeout,
    /// The kernel changed another route than was meant.
    WrongRoute,
    /// The table read back is not the wanted one.
    Verify,
    /// The namespace cannot be entered.
    Namespace,
    /// Anything else; errno and text say what.
    Other,
}

/// One thing that went wrong, with all that a person needs to find out why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteError(Box<ErrorDetails>);

/// What a [`RouteError`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorDetails {
    /// What kind of failure it is.
    pub kind: ErrorKind,
    /// What was tried: `add`, `delete`, `replace`, `list`, `links`, `verify`, `undo`, `sysctl`, `open`.
    pub operation: &'static str,
    /// The address family that it is about.
    pub family: Option<Family>,
    /// The route as ip-route(8) would print it.
    pub route: Option<String>,
    /// The links that it is about: those of the route's hops, in the order of their indices.
    pub links: Vec<LinkRef>,
    /// The namespace's path.
    pub netns: String,
    /// The kernel's error number.
    pub errno: Option<Errno>,
    /// The kernel's own words (NLMSGERR_ATTR_MSG).
    pub kernel_message: Option<String>,
    /// The byte of the request that the kernel objects to (NLMSGERR_ATTR_OFFS).
    pub offset: Option<u32>,
    /// The cause in our words and what to do.
    pub reason: Option<String>,
}

impl RouteError {
    /// An error of which nothing else is known; `netns` is the namespace's path.
    pub fn new(kind: ErrorKind, operation: &'static str, netns: &str) -> RouteError {
        RouteError(Box::new(ErrorDetails {
            kind,
            operation,
            family: None,
            route: None,
            links: Vec::new(),
            netns: netns.to_owned(),
            errno: None,
            kernel_message: None,
            offset: None,
            reason: None,
        }))
    }

    /// The same error with its cause in words.
    pub fn reason(mut self, reason: impl Into<String>) -> RouteError {
        self.reason = Some(reason.into());
        self
    }
}

impl Deref for RouteError {
    type Target = ErrorDetails;

    fn deref(&self) -> &ErrorDetails {
        &self.0
    }
}

impl DerefMut for RouteError {
    fn deref_mut(&mut self) -> &mut ErrorDetails {
        &mut self.0
    }
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.operation)?;
        if let Some(family) = self.family {
            write!(f, " {family}")?;
        }
        match self.operation {
            "add" | "delete" | "replace" => f.write_str(" route")?,
            _ => {}
        }
        if let Some(route) = &self.route {
            write!(f, " \"{route}\"")?;
        }
        for (position, link) in self.links.iter().enumerate() {
            f.write_str(if position == 0 { " on " } else { ", " })?;
            write!(f, "{link}")?;
        }
        write!(f, " in {}: ", self.netns)?;
        let mut parts = Vec::new();
        parts.extend(self.reason.clone());
        match (&self.errno, &self.kernel_message) {
            (Some(errno), Some(message)) => parts.push(format!("the kernel says {errno}, \"{message}\"")),
            (Some(errno), None) => parts.push(format!("the kernel says {errno}")),
            (None, Some(message)) => parts.push(format!("the kernel says \"{message}\"")),
            (None, None) => {}
        }
        if let Some(offset) = self.offset {
            parts.push(format!("at byte {offset} of the request"));
        }
        if parts.is_empty() {
            parts.push(format!("{:?}", self.kind));
        }
        f.write_str(&parts.join("; "))
    }
}

impl std::error::Error for RouteError {}
