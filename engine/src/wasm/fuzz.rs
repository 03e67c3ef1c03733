//! What a guest may ask the capability `routes`: no records make the host panic, and whatever fails leaves the table as
//! it was.

use std::sync::Arc;

use catena_routes::{Journal, Snapshot};
use serde_json::json;

use super::bindings::catena::stage::routes::{self as wit, Host as _};
use super::host::{Host, State};
use super::limits;
use crate::fuzz_driver as driver;
use crate::node::{At, Grants, Limits};
use crate::routes::backend::Backend;
use crate::routes::kernel::Scope;
use crate::routes::link::Link;

/// Calls and their arguments, spelled in bytes: any bytes are some calls.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u32 {
        match self.byte() {
            // What stands for most cases.
            byte @ ..240 => u32::from(byte),
            240..248 => u32::from(self.byte()) << 8 | u32::from(self.byte()),
            248..254 => u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()]),
            _ => u32::MAX,
        }
    }

    fn perhaps<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.byte() & 1 == 1).then(|| read(self))
    }

    fn text(&mut self) -> String {
        let known = ["mine", "other", "lo", "", "02:00:00:00:00:01", "altname", "../x", "mine\0"];
        let at = self.byte();
        if let Some(name) = known.get(usize::from(at)) {
            return (*name).to_owned();
        }
        let length = (self.number() as usize).min(self.0.len());
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        String::from_utf8_lossy(text).into_owned()
    }

    fn address(&mut self) -> wit::IpAddress {
        match self.byte() {
            0 => wit::IpAddress::Ipv4((0, 0, 0, 0)),
            1 => wit::IpAddress::Ipv6((0, 0, 0, 0, 0, 0, 0, 0)),
            2 => wit::IpAddress::Ipv4((10, 9, 0, self.byte())),
            3 => wit::IpAddress::Ipv6((0xfe80, 0, 0, 0, 0, 0, 0, u16::from(self.byte()))),
            4 => wit::IpAddress::Ipv6((0, 0, 0, 0, 0, 0xffff, 0x0a09, u16::from(self.byte()))),
            byte if byte & 1 == 0 => wit::IpAddress::Ipv4((byte, self.byte(), self.byte(), self.byte())),
            byte => {
                let mut word = || u16::from(self.byte()) << 8 | u16::from(self.byte());
                wit::IpAddress::Ipv6((
                    u16::from(byte),
                    word(),
                    word(),
                    word(),
                    word(),
                    word(),
                    word(),
                    word(),
                ))
            }
        }
    }

    fn prefix(&mut self) -> wit::Prefix {
        wit::Prefix { address: self.address(), length: self.byte() }
    }

    fn family(&mut self) -> wit::Family {
        if self.byte() & 1 == 0 { wit::Family::Ipv4 } else { wit::Family::Ipv6 }
    }

    fn hop(&mut self) -> wit::NextHop {
        wit::NextHop {
            link: self.text(),
            gateway: self.perhaps(Self::address),
            weight: u16::try_from(self.number()).unwrap_or(u16::MAX),
            onlink: self.byte() & 1 == 1,
        }
    }

    /// As many as a byte says, and more where it says so.
    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = match self.byte() {
            byte @ ..250 => usize::from(byte & 7),
            _ => self.number() as usize,
        };
        // An element has at least a byte.
        let count = count.min(self.0.len());
        (0..count).map(|_| read(self)).collect()
    }

    fn route(&mut self) -> wit::Route {
        use wit::RouteType as Type;
        let kinds = [
            Type::Unicast,
            Type::Local,
            Type::Broadcast,
            Type::Anycast,
            Type::Multicast,
            Type::Blackhole,
            Type::Unreachable,
            Type::Prohibit,
            Type::Throw,
        ];
        wit::Route {
            destination: self.prefix(),
            source_prefix: self.perhaps(Self::prefix),
            kind: kinds.get(usize::from(self.byte())).copied().unwrap_or(Type::Unicast),
            next_hops: self.list(Self::hop),
            metric: self.perhaps(Self::number),
            table: if self.byte() & 3 == 0 { self.number() } else { 254 },
            tos: self.byte() & self.byte() & self.byte(),
            protocol: self.perhaps(Self::byte),
            scope: self.perhaps(Self::byte),
            source: self.perhaps(Self::address),
            mtu: self.perhaps(Self::number),
            advmss: self.perhaps(Self::number),
        }
    }

    fn change(&mut self) -> wit::Change {
        match self.byte() % 5 {
            0 | 1 => wit::Change::Add(self.route()),
            2 | 3 => wit::Change::Delete(self.route()),
            _ => wit::Change::IgnoreRouterAdvertisements(self.text()),
        }
    }

    /// Does the next call; whether it failed, and what is said of the undo.
    fn call(&mut self, state: &mut State) -> wasmtime::Result<Option<wit::Failure>> {
        Ok(match self.byte() % 5 {
            0 => state.add(self.route())?.err(),
            1 => state.delete(self.route())?.err(),
            2 => state.apply(self.list(Self::change))?.err(),
            3 => {
                let (link, family, table) = (self.text(), self.family(), self.number());
                let kernel = self.byte() & 1 == 0;
                let kernel = if kernel { wit::KernelRoutes::Keep } else { wit::KernelRoutes::Exact };
                state.replace(link, family, table, self.list(Self::route), kernel)?.err()
            }
            _ => {
                let (family, default_only) = (self.family(), self.byte() & 1 == 1);
                state.list(wit::Filter { family, default_only, table: self.number() })?.err()
            }
        })
    }
}

fn state() -> State {
    let ops = ["read", "add", "delete", "delete-default", "replace"];
    let grants = json!({"routes": {"links": ["@attachment", "@none"], "ops": ops, "tables": [254, 100]}});
    let grants = Grants::parse(At::Document, &grants).unwrap();
    let links = vec![Link::simulated(1, "lo"), Link::simulated(2, "mine"), Link::simulated(3, "other")];
    let mut host = Host::new("c1", Scope { links: vec![2], tables: Vec::new() }, false);
    host.backend = Backend::recorded(Snapshot { links, ..Snapshot::default() });
    State::new(host, "gw".into(), Arc::new(grants), Limits::default(), None)
}

fn table(state: &mut State) -> String {
    state.host.backend.snapshot("read").unwrap().to_json().to_string()
}

fn requests(bytes: &[u8]) {
    let mut state = state();
    let first = table(&mut state);
    let mut reader = Reader(bytes);
    while !reader.0.is_empty() {
        // Comparing costs as much as the table is large.
        let before = (bytes.len() < 4096).then(|| table(&mut state));
        let failure = match reader.call(&mut state) {
            Ok(failure) => failure,
            Err(error) => {
                // The only reason to end the guest.
                assert!(error.downcast_ref::<limits::Exceeded>().is_some(), "{error}");
                break;
            }
        };
        let Some(failure) = failure else { continue };
        assert!(!failure.errors.is_empty());
        assert_ne!(failure.undo, wit::Undo::Incomplete, "{failure:?}");
        assert!(before.is_none_or(|before| before == table(&mut state)), "{failure:?}");
        for error in &failure.errors {
            assert!(error.message.len() < 16 * limits::ROUTE, "{} bytes", error.message.len());
            let hidden = |text: &String| text.chars().any(char::is_control);
            assert!(!hidden(&error.message) && !error.route.as_ref().is_some_and(hidden), "{error:?}");
        }
    }
    let host = &mut state.host;
    let undo = host.backend.table("undo").unwrap().undo(&mut host.journal, Journal::start());
    assert!(undo.exact, "{undo:?}");
    assert_eq!(table(&mut state), first);
}

fn corpus() -> Vec<Vec<u8>> {
    // A default route via 10.9.0.3 on "mine".
    let default = [&[0, 0, 0, 0, 1, 0, 1, 2, 3, 1, 0][..], &[0, 1, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
    let v6 = [&[1, 0, 0, 0, 1, 0, 1, 3, 2, 1, 0][..], &[0, 1, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
    let call = |kind: u8, rest: &[&[u8]]| [&[kind][..], &rest.concat()].concat();
    vec![
        call(0, &[&default]),
        [call(0, &[&default]), call(1, &[&default])].concat(),
        [call(0, &[&v6]), call(4, &[&[1, 1, 254]])].concat(),
        call(2, &[&[3, 0], &default, &[2], &default, &[4, 0]]),
        call(3, &[&[0, 0, 253, 254, 0, 0, 0, 0, 2], &default, &default]),
        [call(0, &[&default]), call(2, &[&[2, 2], &default, &[0], &v6])].concat(),
    ]
}

#[test]
fn no_request_makes_the_host_panic() {
    driver::drive("route-requests", requests, &corpus());
}

#[test]
fn requests_cost_no_more_than_their_size() {
    for seed in corpus() {
        driver::grows_linearly("route-requests", requests, &|size| seed.repeat(size / seed.len() + 1));
    }
    for byte in [0, 2, 3, 8, 255] {
        driver::grows_linearly("route-requests", requests, &|size| vec![byte; size]);
    }
}
