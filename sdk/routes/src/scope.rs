use crate::Route;

/// What an operation may touch. Anything else is [`crate::ErrorKind::Denied`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Interface indices. 0 stands for routes without a link (blackhole and its kin).
    pub links: Vec<u32>,
    /// Routing tables (RTA_TABLE).
    pub tables: Vec<u32>,
}

impl Scope {
    /// Whether the link of this index is within.
    pub fn has_link(&self, link: u32) -> bool {
        self.links.contains(&link)
    }

    /// Whether the table is within.
    pub fn has_table(&self, table: u32) -> bool {
        self.tables.contains(&table)
    }

    /// Some hop of the route is within the scope.
    pub fn touches(&self, route: &Route) -> bool {
        if route.hops.is_empty() {
            self.has_link(0)
        } else {
            route.hops.iter().any(|hop| self.has_link(hop.link))
        }
    }

    /// The whole route is within the scope.
    pub fn covers(&self, route: &Route) -> bool {
        self.touches(route) && route.hops.iter().all(|hop| self.has_link(hop.link))
    }
}
