use std::time::Duration;

use catena_routes::{Action, Echo, Errno, Failure, Family, Link, Request, Route, Wire};

use super::legs;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The kernel refuses a request.
    Refused,
    /// The answer is lost, and the request was not carried out.
    LostBefore,
    /// The answer is lost, and the request was carried out.
    LostAfter,
    /// The acknowledgement comes without the echo.
    NoEcho,
    /// The kernel does it to another route, and says so.
    OtherRoute,
    /// The kernel does what it shall, and says that it was another route.
    WrongEcho,
    /// A table cannot be read.
    Dump,
    /// The links cannot be read.
    Links,
    /// A setting cannot be read.
    Sysctl,
    /// A setting cannot be written.
    SetBefore,
    /// Writing a setting fails, though it is written.
    SetAfter,
    /// From this request on nothing is answered or done any more.
    Dead,
}

pub(crate) const FAULTS: &[Fault] = &[
    Fault::Refused,
    Fault::LostBefore,
    Fault::LostAfter,
    Fault::NoEcho,
    Fault::OtherRoute,
    Fault::WrongEcho,
    Fault::Dead,
    Fault::Dump,
    Fault::Links,
    Fault::Sysctl,
    Fault::SetBefore,
    Fault::SetAfter,
];

/// Those that concern requests: the first of all.
pub(crate) const IN_REQUESTS: &[Fault] = FAULTS.split_at(7).0;

impl Fault {
    /// What cannot be read cannot be said to be as before.
    pub(crate) fn blinds(self) -> bool {
        matches!(self, Fault::Dead | Fault::Dump | Fault::Links | Fault::Sysctl | Fault::SetBefore)
    }
}

/// A wire that fails once, or for ever.
#[derive(Debug)]
pub(crate) struct Faulty<'a, W> {
    wire: &'a mut W,
    /// Requests, counted from 1.
    pub(crate) sent: usize,
    /// At which call (from 1) of the kind that it concerns, and how.
    fault: Option<(usize, Fault)>,
    fired: bool,
}

impl<'a, W: Wire> Faulty<'a, W> {
    pub(crate) fn new(wire: &'a mut W, fault: Option<(usize, Fault)>) -> Faulty<'a, W> {
        Faulty { wire, sent: 0, fault, fired: false }
    }

    /// Whether the fault has happened.
    pub(crate) fn fired(&self) -> bool {
        self.fired
    }

    /// Whether one of these faults happens now.
    fn fires(&mut self, kinds: &[Fault]) -> Option<Fault> {
        let (at, fault) = self.fault.as_mut()?;
        if !kinds.contains(fault) {
            return None;
        }
        *at = at.saturating_sub(1);
        let fires = *at == 0 && (*fault == Fault::Dead || !self.fired);
        self.fired |= fires;
        fires.then_some(*fault)
    }

    fn is_dead(&self) -> Result<(), Failure> {
        match self.fault {
            Some((_, Fault::Dead)) if self.fired => Err(Failure::Lost("dead".to_owned())),
            _ => Ok(()),
        }
    }

    /// Another route than the one that is meant: a delete takes a neighbour, an add gets another metric.
    fn other(&mut self, request: &Request) -> Option<Request> {
        if let Action::Add(_) = request.action {
            return Some(Request { metric: request.metric + 1, ..request.clone() });
        }
        let table = self.wire.dump(request.family, request.table).ok()?;
        let meant = Request::delete;
        let mut legs = table.iter().flat_map(legs::of);
        let same = |leg: &Route| leg.dst == request.dst && meant(leg).via == request.via;
        let other = legs.rfind(|leg| leg.fixed.is_none() && !leg.is_kernels() && !same(leg))?;
        Some(meant(&other))
    }
}

impl<W: Wire> Wire for Faulty<'_, W> {
    fn namespace(&self) -> &str {
        self.wire.namespace()
    }

    fn links(&mut self) -> Result<Vec<Link>, Failure> {
        self.is_dead()?;
        match self.fires(&[Fault::Links]) {
            Some(_) => Err(Failure::Interrupted(5)),
            None => self.wire.links(),
        }
    }

    fn dump(&mut self, family: Family, table: u32) -> Result<Vec<Route>, Failure> {
        self.is_dead()?;
        match self.fires(&[Fault::Dump]) {
            Some(_) => Err(Failure::kernel(Errno::EBUSY)),
            None => self.wire.dump(family, table),
        }
    }

    fn send(&mut self, request: &Request) -> Result<Vec<Echo>, Failure> {
        self.is_dead()?;
        self.sent += 1;
        match self.fires(IN_REQUESTS) {
            Some(Fault::Refused) => Err(Failure::kernel(Errno::ENOMEM)),
            Some(Fault::LostBefore) => Err(Failure::Lost("fault".to_owned())),
            Some(Fault::LostAfter) => {
                self.wire.send(request)?;
                Err(Failure::Timeout(Duration::from_secs(1)))
            }
            Some(Fault::NoEcho) => self.wire.send(request).map(|_| Vec::new()),
            Some(Fault::OtherRoute) => match self.other(request) {
                Some(other) => self.wire.send(&other),
                None => Err(Failure::kernel(Errno::ENOMEM)),
            },
            Some(Fault::WrongEcho) => {
                // Of a delete one that is still there, of an add one that is not there.
                let table = self.wire.dump(request.family, request.table)?;
                let mut echoes = self.wire.send(request)?;
                let others =
                    |echo: &Echo| table.iter().find(|route| route.slot() != echo.route.slot()).cloned();
                echoes.retain(|echo| !echo.deleted || others(echo).is_some());
                for echo in &mut echoes {
                    match others(echo) {
                        Some(other) if echo.deleted => echo.route = other,
                        _ => echo.route.metric += 1,
                    }
                }
                Ok(echoes)
            }
            Some(_) => {
                // Half of them are carried out.
                if self.sent.is_multiple_of(2) {
                    let _unheard = self.wire.send(request);
                }
                Err(Failure::Lost("dead".to_owned()))
            }
            None => self.wire.send(request),
        }
    }

    fn sysctl(&mut self, link: &str, key: &str) -> Result<Option<String>, Failure> {
        self.is_dead()?;
        match self.fires(&[Fault::Sysctl]) {
            Some(_) => Err(Failure::kernel(Errno::EACCES)),
            None => self.wire.sysctl(link, key),
        }
    }

    fn set_sysctl(&mut self, link: &str, key: &str, value: &str) -> Result<(), Failure> {
        self.is_dead()?;
        match self.fires(&[Fault::SetBefore, Fault::SetAfter]) {
            Some(fault) => {
                if fault == Fault::SetAfter {
                    self.wire.set_sysctl(link, key, value)?;
                }
                Err(Failure::kernel(Errno::EIO))
            }
            None => self.wire.set_sysctl(link, key, value),
        }
    }
}
