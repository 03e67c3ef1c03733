//! A wire that counts requests and fails at a chosen one.

use std::time::Duration;

use catena_routes::{Echo, Errno, Failure, Family, Link, Request, Route, SimulatedTable, Wire};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The kernel refuses.
    Refused,
    /// The answer is lost, and the request was not carried out.
    LostBefore,
    /// The answer is lost, and the request was carried out.
    LostAfter,
    /// The acknowledgement comes without the echo.
    NoEcho,
}

pub(crate) const FAULTS: [Fault; 4] = [Fault::Refused, Fault::LostBefore, Fault::LostAfter, Fault::NoEcho];

#[derive(Debug)]
pub(crate) struct Faulty {
    pub(crate) table: SimulatedTable,
    pub(crate) sent: usize,
    /// At which request (from 1), and how.
    pub(crate) fault: Option<(usize, Fault)>,
}

impl Faulty {
    pub(crate) fn new(table: SimulatedTable) -> Faulty {
        Faulty { table, sent: 0, fault: None }
    }

    /// Whether the fault has happened.
    pub(crate) fn fired(&self) -> bool {
        self.fault.is_some_and(|(at, _)| self.sent >= at)
    }
}

impl Wire for Faulty {
    fn namespace(&self) -> &str {
        self.table.namespace()
    }

    fn links(&mut self) -> Result<Vec<Link>, Failure> {
        Wire::links(&mut self.table)
    }

    fn dump(&mut self, family: Family, table: u32) -> Result<Vec<Route>, Failure> {
        self.table.dump(family, table)
    }

    fn send(&mut self, request: &Request) -> Result<Vec<Echo>, Failure> {
        self.sent += 1;
        match self.fault {
            Some((at, fault)) if at == self.sent => match fault {
                Fault::Refused => Err(Failure::kernel(Errno::ENOMEM)),
                Fault::LostBefore => Err(Failure::Lost("fault".to_owned())),
                Fault::LostAfter => {
                    self.table.send(request)?;
                    Err(Failure::Timeout(Duration::from_secs(1)))
                }
                Fault::NoEcho => self.table.send(request).map(|_| Vec::new()),
            },
            _ => self.table.send(request),
        }
    }

    fn sysctl(&mut self, link: &str, key: &str) -> Result<Option<String>, Failure> {
        self.table.sysctl(link, key)
    }

    fn set_sysctl(&mut self, link: &str, key: &str, value: &str) -> Result<(), Failure> {
        self.table.set_sysctl(link, key, value)
    }
}
