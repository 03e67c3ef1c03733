use std::time::Duration;

use crate::{Errno, Family, Link, Request, Route};

/// What carries single requests to a routing table: a namespace's kernel, or a [`crate::SimulatedTable`].
pub trait Wire {
    /// The namespace's path, or another name for people.
    fn namespace(&self) -> &str;

    /// All links, in the kernel's order.
    fn links(&mut self) -> Result<Vec<Link>, Failure>;

    /// The link of that name or alternative name.
    fn link(&mut self, name: &str) -> Result<Option<Link>, Failure> {
        let is_it = |link: &Link| link.name == name || link.alt_names.iter().any(|other| other == name);
        Ok(self.links()?.into_iter().find(is_it))
    }

    /// The link of that name, alternative name or hardware address; the first where several have that address.
    fn find_link(&mut self, text: &str) -> Result<Option<Link>, Failure> {
        Ok(Link::named(&self.links()?, text).first().copied().cloned())
    }

    /// All routes of a table in the kernel's order, of every table for 0 (RT_TABLE_UNSPEC). A table that does not
    /// exist is ENOENT.
    fn dump(&mut self, family: Family, table: u32) -> Result<Vec<Route>, Failure>;

    /// Those routes of a table that have a hop on a link.
    fn dump_of(&mut self, family: Family, table: u32, link: u32) -> Result<Vec<Route>, Failure> {
        let mut routes = self.dump(family, table)?;
        routes.retain(|route| route.hops.iter().any(|hop| hop.link == link));
        Ok(routes)
    }

    /// One acknowledged and echoed request.
    fn send(&mut self, request: &Request) -> Result<Vec<Echo>, Failure>;

    /// A setting of `net.ipv6.conf.LINK`; none if there is no such setting.
    fn sysctl(&mut self, link: &str, key: &str) -> Result<Option<String>, Failure>;

    /// Writes a setting of `net.ipv6.conf.LINK`; ENOENT if there is no such setting.
    fn set_sysctl(&mut self, link: &str, key: &str, value: &str) -> Result<(), Failure>;

    /// Said before anything is undone: a wire with a deadline may take longer from now on.
    fn undoing(&mut self) {}
}

/// A route that the kernel says it added or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Deleted, or else added.
    pub deleted: bool,
    /// The route with all that it has.
    pub route: Route,
}

/// Why a request has no answer or a bad one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Refused (NLMSG_ERROR, or a negative NLMSG_DONE), with what the extended acknowledgement says.
    #[error("the kernel says {errno}{}", .message.as_deref().map(|m| format!(", \"{m}\"")).unwrap_or_default())]
    Kernel {
        /// The number.
        errno: Errno,
        /// NLMSGERR_ATTR_MSG.
        message: Option<String>,
        /// NLMSGERR_ATTR_OFFS, bytes from the start of the request.
        offset: Option<u32>,
    },
    /// It is not known whether the request was carried out.
    #[error("the kernel's answer was lost: {0}")]
    Lost(String),
    /// It is not known whether the request was carried out.
    #[error("the kernel did not answer within {0:?}")]
    Timeout(Duration),
    /// It was not sent.
    #[error("it was not sent, since the time for it is over")]
    Late,
    /// NLM_F_DUMP_INTR, that many times in a row.
    #[error("the dump was interrupted by changes {0} times")]
    Interrupted(u32),
    /// The namespace cannot be entered.
    #[error("{0}")]
    Namespace(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl Failure {
    /// A refusal without a text.
    pub fn kernel(errno: Errno) -> Failure {
        Failure::Kernel { errno, message: None, offset: None }
    }

    /// The number of a refusal.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Failure::Kernel { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    /// The request may have been carried out all the same.
    pub(crate) fn is_uncertain(&self) -> bool {
        matches!(self, Failure::Lost(_) | Failure::Timeout(_))
    }
}
