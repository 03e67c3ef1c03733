//! The capabilities of a module that runs in catena: its imports.

use crate::bindings::{links, log, routes};
use crate::convert;
use crate::host::Level;
use crate::link::{Link, LinkError};
use crate::route::{Change, Family, KernelRoutes, Report, Route, RoutesError};

#[derive(Debug)]
pub(crate) struct Calls;

impl Calls {
    pub(crate) fn log(&self, level: Level, message: &str) {
        log::write(convert::level(level), message);
    }

    pub(crate) fn link(&self, name: &str) -> Result<Option<Link>, LinkError> {
        links::find(name).map(|found| found.map(convert::link)).map_err(convert::link_error)
    }

    pub(crate) fn links(&self) -> Result<Vec<Link>, LinkError> {
        links::all().map(|all| all.into_iter().map(convert::link).collect()).map_err(convert::link_error)
    }

    pub(crate) fn routes(
        &self,
        family: Family,
        default_only: bool,
        table: u32,
    ) -> Result<Vec<Route>, RoutesError> {
        let filter = routes::Filter { family: convert::family(family), default_only, table };
        routes::list(filter).map(convert::routes_from).map_err(convert::failure)
    }

    pub(crate) fn add(&self, route: &Route) -> Result<Report, RoutesError> {
        routes::add(&convert::route(route)).map(convert::report).map_err(convert::failure)
    }

    pub(crate) fn delete(&self, route: &Route) -> Result<Report, RoutesError> {
        routes::delete(&convert::route(route)).map(convert::report).map_err(convert::failure)
    }

    pub(crate) fn apply(&self, changes: &[Change]) -> Result<Report, RoutesError> {
        let changes: Vec<_> = changes.iter().map(convert::change).collect();
        routes::apply(&changes).map(convert::report).map_err(convert::failure)
    }

    pub(crate) fn replace(
        &self,
        link: &str,
        family: Family,
        table: u32,
        wanted: &[Route],
        kernel: KernelRoutes,
    ) -> Result<Report, RoutesError> {
        let wanted: Vec<_> = wanted.iter().map(convert::route).collect();
        routes::replace(link, convert::family(family), table, &wanted, convert::kernel_routes(kernel))
            .map(convert::report)
            .map_err(convert::failure)
    }
}
