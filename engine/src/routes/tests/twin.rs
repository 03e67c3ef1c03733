use catena_routes::{Echo, Failure, Family, Link, Request, Route, SimulatedTable, Snapshot, Wire};

/// Another wire and a simulated table, which get the same requests and must answer alike.
#[derive(Debug)]
pub(super) struct Twin<'a, W> {
    wire: &'a mut W,
    simulated: SimulatedTable,
    /// Requests that both took, and that both refused.
    pub(super) taken: usize,
    pub(super) refused: usize,
}

impl<'a, W: Wire> Twin<'a, W> {
    pub(super) fn of(wire: &'a mut W) -> Twin<'a, W> {
        let simulated = Snapshot::take(wire).unwrap().into();
        Twin { wire, simulated, taken: 0, refused: 0 }
    }
}

/// A table as far as it does not change by itself.
fn seen(routes: Result<Vec<Route>, Failure>, family: Family) -> Vec<Route> {
    // The kernel knows a table that has become empty, or does not; both have no routes.
    let mut routes = routes.unwrap_or_default();
    if family == Family::V6 {
        routes.sort();
    }
    routes
}

impl<W: Wire> Wire for Twin<'_, W> {
    fn namespace(&self) -> &str {
        self.wire.namespace()
    }

    fn links(&mut self) -> Result<Vec<Link>, Failure> {
        let (real, simulated) = (self.wire.links(), self.simulated.links());
        assert_eq!(real, simulated);
        real
    }

    fn dump(&mut self, family: Family, table: u32) -> Result<Vec<Route>, Failure> {
        let real = self.wire.dump(family, table);
        let simulated = seen(self.simulated.dump(family, table), family);
        assert_eq!(seen(real.clone(), family), simulated);
        if let Ok(all) = &real {
            for link in self.wire.links()? {
                let mut wanted = all.clone();
                wanted.retain(|route| route.hops.iter().any(|hop| hop.link == link.index));
                // In the kernel's order, as they stand among the others.
                assert_eq!(self.wire.dump_of(family, table, link.index), Ok(wanted), "{link:?}");
            }
        }
        real
    }

    fn send(&mut self, request: &Request) -> Result<Vec<Echo>, Failure> {
        let (real, simulated) = (self.wire.send(request), self.simulated.send(request));
        match (&real, &simulated) {
            (Ok(_), Ok(_)) => self.taken += 1,
            (Err(a), Err(b)) if a.errno() == b.errno() => self.refused += 1,
            _ => panic!("{request:?}\nthis {real:?}\nsimulated {simulated:?}"),
        }
        real
    }

    fn sysctl(&mut self, link: &str, key: &str) -> Result<Option<String>, Failure> {
        let (real, simulated) = (self.wire.sysctl(link, key), self.simulated.sysctl(link, key));
        assert_eq!(real, simulated);
        real
    }

    fn set_sysctl(&mut self, link: &str, key: &str, value: &str) -> Result<(), Failure> {
        self.simulated.set_sysctl(link, key, value)?;
        self.wire.set_sysctl(link, key, value)
    }
}
