//! What errors of one operation have in common: the namespace and the links' names.

use crate::wire::Failure;
use crate::{Errno, ErrorKind, Family, Link, LinkRef, Route, RouteError};

#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) netns: String,
    pub(crate) links: Vec<Link>,
}

impl Context {
    pub(crate) fn link(&self, index: u32) -> Option<&Link> {
        self.links.iter().find(|link| link.index == index)
    }

    pub(crate) fn name(&self, index: u32) -> String {
        self.link(index).map_or_else(|| format!("if{index}"), |link| link.name.clone())
    }

    pub(crate) fn link_ref(&self, index: u32) -> LinkRef {
        LinkRef { index, name: self.name(index) }
    }

    pub(crate) fn text(&self, route: &Route) -> String {
        route.text(&|index| self.name(index))
    }

    /// The links of these routes.
    pub(crate) fn link_refs<'a>(&self, routes: impl Iterator<Item = &'a Route>) -> Vec<LinkRef> {
        let mut refs: Vec<LinkRef> =
            routes.flat_map(|r| &r.hops).map(|hop| self.link_ref(hop.link)).collect();
        refs.sort();
        refs.dedup();
        refs
    }

    /// An error about one route.
    pub(crate) fn error(&self, kind: ErrorKind, operation: &'static str, route: &Route) -> RouteError {
        let mut error = RouteError::new(kind, operation, &self.netns);
        error.family = Some(route.family);
        error.route = Some(self.text(route));
        error.links = self.link_refs(std::iter::once(route));
        error
    }

    /// An error about one route that has the wire's own reason.
    pub(crate) fn failed(&self, failure: &Failure, operation: &'static str, route: &Route) -> RouteError {
        let kind = kind_of(failure, Some(route));
        with_failure(self.error(kind, operation, route), failure)
    }

    /// An error about a link.
    pub(crate) fn link_error(&self, kind: ErrorKind, operation: &'static str, index: u32) -> RouteError {
        let mut error = RouteError::new(kind, operation, &self.netns);
        error.links = vec![self.link_ref(index)];
        error
    }
}

/// An error that no link names are known for yet.
pub(crate) fn plain(
    netns: &str,
    failure: &Failure,
    operation: &'static str,
    family: Option<Family>,
) -> RouteError {
    let mut error = RouteError::new(kind_of(failure, None), operation, netns);
    error.family = family;
    with_failure(error, failure)
}

pub(crate) fn with_failure(mut error: RouteError, failure: &Failure) -> RouteError {
    match failure {
        Failure::Kernel { errno, message, offset } => {
            error.errno = Some(*errno);
            error.kernel_message = message.clone();
            error.offset = *offset;
            if error.reason.is_none() {
                error.reason = advice(error.kind).map(str::to_owned);
            }
        }
        other => error.reason = Some(other.to_string()),
    }
    error
}

/// Several of the kernel's refusals share a number or have no text of their own.
fn advice(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::GatewayUnreachable => Some("the gateway is not reachable on this link"),
        ErrorKind::Permission => Some("changing routes needs CAP_NET_ADMIN in the namespace"),
        ErrorKind::NotFound => Some("there is no such route any more"),
        ErrorKind::Exists => Some("the place of this route is taken"),
        ErrorKind::NoDevice => Some("the link has gone"),
        ErrorKind::LinkDown => Some("the link is down"),
        _ => None,
    }
}

fn kind_of(failure: &Failure, route: Option<&Route>) -> ErrorKind {
    let (errno, message) = match failure {
        Failure::Kernel { errno, message, .. } => (*errno, message.as_deref().unwrap_or_default()),
        Failure::Lost(_) => return ErrorKind::Lost,
        Failure::Timeout(_) | Failure::Late => return ErrorKind::Timeout,
        Failure::Interrupted(_) => return ErrorKind::Interrupted,
        Failure::Namespace(_) => return ErrorKind::Namespace,
        Failure::Other(_) => return ErrorKind::Other,
    };
    let v6 = route.is_some_and(|route| route.family == Family::V6);
    match errno {
        Errno::EPERM => ErrorKind::Permission,
        Errno::EACCES if v6 => ErrorKind::Ipv6Disabled,
        Errno::EACCES | Errno::EROFS => ErrorKind::Permission,
        Errno::ESRCH | Errno::ENOENT => ErrorKind::NotFound,
        Errno::EEXIST => ErrorKind::Exists,
        Errno::ENODEV | Errno::ENXIO => ErrorKind::NoDevice,
        Errno::ENETDOWN => ErrorKind::LinkDown,
        Errno::ENETUNREACH | Errno::EHOSTUNREACH => ErrorKind::GatewayUnreachable,
        Errno::EBUSY => ErrorKind::Busy,
        Errno::EINTR => ErrorKind::Interrupted,
        Errno::EINVAL if message.contains("prefsrc") || message.contains("source address") => {
            ErrorKind::BadSource
        }
        Errno::EINVAL if message.contains("gateway") || message.contains("Gateway can not be a local") => {
            ErrorKind::GatewayUnreachable
        }
        Errno::EINVAL | Errno::ERANGE | Errno::EAFNOSUPPORT | Errno::EOPNOTSUPP => ErrorKind::Invalid,
        _ => ErrorKind::Other,
    }
}
