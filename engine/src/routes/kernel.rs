//! The routes and links of one namespace.

pub use catena_routes::{Applied, ApplyFailure, Change, Scope, Table, Undo};

use super::error::RouteError;
use super::journal::{Journal, Mark};
use super::link::Link;
use super::netns::Netns;
use catena_routes::{Family, Route, RouteSpec, SimulatedTable};

/// One namespace's routing tables over one strict connection, which is made when it is first needed.
#[derive(Debug)]
pub struct Kernel {
    netns: Netns,
    table: SimulatedTable,
}

impl Kernel {
    pub fn open(netns: &Netns) -> Result<Kernel, RouteError> {
        Ok(Kernel { netns: netns.clone(), table: SimulatedTable::new("", Vec::new(), Vec::new()) })
    }

    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// All links, in the kernel's order.
    pub fn links(&mut self) -> Result<Vec<Link>, RouteError> {
        Table::links(&mut self.table)
    }

    /// The link of that name, alternative name or hardware address.
    pub fn find_link(&mut self, text: &str) -> Result<Option<Link>, RouteError> {
        Table::find_link(&mut self.table, text)
    }

    /// One whole table in the kernel's order.
    pub fn routes(&mut self, family: Family, table: u32) -> Result<Vec<Route>, RouteError> {
        Table::routes(&mut self.table, family, table)
    }

    /// See [`Table::apply`].
    pub fn apply(
        &mut self,
        scope: &Scope,
        changes: &[Change],
        journal: &mut Journal,
    ) -> Result<Applied, ApplyFailure> {
        Table::apply(&mut self.table, scope, changes, journal)
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
        Table::replace(&mut self.table, scope, link, family, table, wanted, keep_kernel, journal)
    }

    /// See [`Table::undo`].
    pub fn undo(&mut self, journal: &mut Journal, to: Mark) -> Undo {
        Table::undo(&mut self.table, journal, to)
    }
}
