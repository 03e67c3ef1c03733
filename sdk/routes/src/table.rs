use crate::context::plain;
use crate::{Change, Family, Journal, Link, Mark, Route, RouteError, RouteSpec, Scope, Wire};

/// The operations of the contract's `routes` and `links` interfaces on one namespace. Every [`Wire`] has them.
pub trait Table {
    /// All links, in the kernel's order.
    fn links(&mut self) -> Result<Vec<Link>, RouteError>;

    /// The link of that name or alternative name. That there is none is an answer. However many others there are, this
    /// costs the same on a kernel.
    fn link(&mut self, name: &str) -> Result<Option<Link>, RouteError>;

    /// The link of that name, alternative name or hardware address, the first of several. That there is none is an answer.
    fn find_link(&mut self, text: &str) -> Result<Option<Link>, RouteError>;

    /// One whole table in the kernel's order. A table that does not exist has no routes.
    fn routes(&mut self, family: Family, table: u32) -> Result<Vec<Route>, RouteError>;

    /// Those of its routes that have a hop on a link, which may cost less than all.
    fn routes_of(&mut self, family: Family, table: u32, link: u32) -> Result<Vec<Route>, RouteError>;

    /// All changes or none, in an order that leaves no gap, verified by echo and by reading back.
    fn apply(
        &mut self,
        scope: &Scope,
        changes: &[Change],
        journal: &mut Journal,
    ) -> Result<Applied, ApplyFailure>;

    /// Makes the routes of one link, family and table be the wanted ones, or leaves all as it was. Of routes over
    /// several links only this link's hops count. With `keep_kernel` routes that the kernel made stay unless a
    /// wanted one takes their slot. Link-local and multicast prefixes always stay unless wanted otherwise.
    #[allow(clippy::too_many_arguments, reason = "the contract's arguments and what the host adds")]
    fn replace(
        &mut self,
        scope: &Scope,
        link: u32,
        family: Family,
        table: u32,
        wanted: &[RouteSpec],
        keep_kernel: bool,
        journal: &mut Journal,
    ) -> Result<Applied, ApplyFailure>;

    /// Undoes what the journal has after the mark, and takes it from the journal if that worked exactly.
    fn undo(&mut self, journal: &mut Journal, to: Mark) -> Undo;
}

/// What an operation did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// What is there now and was not.
    pub added: Vec<Route>,
    /// Of an IPv6 route over several links only the hops that went.
    pub deleted: Vec<Route>,
    /// Facts such as that a setting already was as wanted.
    pub notes: Vec<String>,
}

/// An operation that failed, and was undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyFailure {
    /// All errors, in order.
    pub errors: Vec<RouteError>,
    /// How undoing went; exact if nothing had been changed.
    pub undo: Undo,
    /// Something had been changed before it failed.
    pub changed: bool,
}

/// How undoing went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undo {
    /// Everything is as it was, but for what the notes say.
    pub exact: bool,
    /// What failed while undoing; it can be exact all the same.
    pub errors: Vec<RouteError>,
    /// What is there and should not be, or is missing.
    pub leftover: Vec<String>,
    /// Facts such as that a link, and so its routes, has gone.
    pub notes: Vec<String>,
}

impl Default for Undo {
    fn default() -> Undo {
        Undo { exact: true, errors: Vec::new(), leftover: Vec::new(), notes: Vec::new() }
    }
}

impl Undo {
    /// The namespace has gone, and all routes with it.
    pub fn namespace_gone(netns: &str) -> Undo {
        Undo { notes: vec![format!("nothing to undo: the namespace {netns} has gone")], ..Undo::default() }
    }
}

impl<W: Wire> Table for W {
    fn links(&mut self) -> Result<Vec<Link>, RouteError> {
        Wire::links(self).map_err(|failure| plain(self.namespace(), &failure, "links", None))
    }

    fn link(&mut self, name: &str) -> Result<Option<Link>, RouteError> {
        Wire::link(self, name).map_err(|failure| plain(self.namespace(), &failure, "links", None))
    }

    fn find_link(&mut self, text: &str) -> Result<Option<Link>, RouteError> {
        Wire::find_link(self, text).map_err(|failure| plain(self.namespace(), &failure, "links", None))
    }

    fn routes(&mut self, family: Family, table: u32) -> Result<Vec<Route>, RouteError> {
        crate::apply::routes(self, family, table)
    }

    fn routes_of(&mut self, family: Family, table: u32, link: u32) -> Result<Vec<Route>, RouteError> {
        let routes = self.dump_of(family, table, link);
        crate::apply::listed(routes, self.namespace(), family)
    }

    fn apply(
        &mut self,
        scope: &Scope,
        changes: &[Change],
        journal: &mut Journal,
    ) -> Result<Applied, ApplyFailure> {
        crate::apply::apply(self, scope, changes, journal)
    }

    fn replace(
        &mut self,
        scope: &Scope,
        link: u32,
        family: Family,
        table: u32,
        wanted: &[RouteSpec],
        keep_kernel: bool,
        journal: &mut Journal,
    ) -> Result<Applied, ApplyFailure> {
        crate::apply::replace(self, scope, link, family, table, wanted, keep_kernel, journal)
    }

    fn undo(&mut self, journal: &mut Journal, to: Mark) -> Undo {
        crate::undo::undo(self, journal, to)
    }
}
