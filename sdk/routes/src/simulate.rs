use crate::{Echo, Failure, Family, Link, Request, Route, Wire};

/// Routing tables that behave as the kernel was measured to.
#[derive(Clone, Debug, Default)]
pub struct SimulatedTable {
    name: String,
    links: Vec<Link>,
    routes: Vec<Route>,
}

impl SimulatedTable {
    /// Tables that hold these routes.
    pub fn new(name: &str, links: Vec<Link>, routes: Vec<Route>) -> SimulatedTable {
        SimulatedTable { name: name.to_owned(), links, routes }
    }
}

impl Wire for SimulatedTable {
    fn namespace(&self) -> &str {
        &self.name
    }
    fn links(&mut self) -> Result<Vec<Link>, Failure> {
        Ok(self.links.clone())
    }
    fn dump(&mut self, family: Family, table: u32) -> Result<Vec<Route>, Failure> {
        Ok(self.routes.iter().filter(|r| r.family == family && r.table == table).cloned().collect())
    }
    fn send(&mut self, _: &Request) -> Result<Vec<Echo>, Failure> {
        Ok(Vec::new())
    }
    fn sysctl(&mut self, _: &str, _: &str) -> Result<Option<String>, Failure> {
        Ok(None)
    }
    fn set_sysctl(&mut self, _: &str, _: &str, _: &str) -> Result<(), Failure> {
        Ok(())
    }
}
