use crate::link::{Link, LinkError};
use crate::route::{Change, Family, KernelRoutes, MAIN, Report, Route, RoutesError};

/// The level of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

/// The capabilities of a stage. A module asks for a capability by calling it: what its code never calls does not appear
/// among the imports of its component, but for `log` (see [`Module::LOG_PANICS`](crate::Module::LOG_PANICS)).
#[derive(Debug)]
pub struct Host {
    pub(crate) calls: crate::Calls,
}

impl Host {
    /// Writes a line to the node's log; long and many lines are cut.
    pub fn log(&self, level: Level, message: &str) {
        self.calls.log(level, message);
    }

    /// The link of that name, alternative name or hardware address, the first of several that have it. That there is none is an answer.
    pub fn link(&self, name: &str) -> Result<Option<Link>, LinkError> {
        self.calls.link(name)
    }

    /// All links of the namespace.
    pub fn links(&self) -> Result<Vec<Link>, LinkError> {
        self.calls.links()
    }

    /// The routes of a table that have a hop on a link that the grant covers, as the kernel has them.
    pub fn routes(&self, family: Family, table: u32) -> Result<Vec<Route>, RoutesError> {
        self.calls.routes(family, false, table)
    }

    /// The default routes of the main table that have a hop on a link that the grant covers.
    pub fn default_routes(&self, family: Family) -> Result<Vec<Route>, RoutesError> {
        self.calls.routes(family, true, MAIN)
    }

    /// Adds one route; it must not be there yet.
    pub fn add(&self, route: &Route) -> Result<Report, RoutesError> {
        self.calls.add(route)
    }

    /// Deletes exactly the named route, of a multipath route the named hops.
    pub fn delete(&self, route: &Route) -> Result<Report, RoutesError> {
        self.calls.delete(route)
    }

    /// All changes or none, in an order that leaves no gap in connectivity.
    pub fn apply(&self, changes: &[Change]) -> Result<Report, RoutesError> {
        self.calls.apply(changes)
    }

    /// Makes the routes of one link, family and table be the wanted ones, or leaves all as it was. Routes to link-local
    /// (fe80::/10) and multicast destinations stay, whatever `kernel` says, unless a wanted one takes their place.
    pub fn replace(
        &self,
        link: &str,
        family: Family,
        table: u32,
        wanted: &[Route],
        kernel: KernelRoutes,
    ) -> Result<Report, RoutesError> {
        self.calls.replace(link, family, table, wanted, kernel)
    }
}
