use std::fmt;
use std::net::IpAddr;

pub use catena_routes::{ErrorKind, Family, Kind, Prefix};
use thiserror::Error;

/// The routing table `main`.
pub const MAIN: u32 = 254;

/// One leg of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// Name, alternative name or hardware address of the link; the host answers with names. An address that several
    /// links have means the one that the grant covers; where that is not exactly one, the call is an error.
    pub link: String,
    /// None for what is on the link itself.
    pub gateway: Option<IpAddr>,
    /// 1 to 256, as ip-route(8) shows it; only relative to the other hops.
    pub weight: u16,
    /// The gateway is reachable though no route says so.
    pub onlink: bool,
}

impl Hop {
    /// A hop of weight 1.
    pub fn new(link: &str, gateway: Option<IpAddr>) -> Hop {
        Hop { link: link.to_owned(), gateway, weight: 1, onlink: false }
    }
}

/// A route with all that identifies it (rtnetlink(7)). Where a member is none: in a route to be added the
/// kernel's default, in a route to be deleted "whatever it is", as long as exactly one route fits; without a source
/// prefix it is one without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Length 0 is the default route.
    pub destination: Prefix,
    /// Only packets from these sources take the route (IPv6 only). None: all packets, also in a route to be deleted.
    pub source_prefix: Option<Prefix>,
    pub kind: Kind,
    pub hops: Vec<Hop>,
    pub metric: Option<u32>,
    /// [`MAIN`] is main.
    pub table: u32,
    pub tos: u8,
    /// RTPROT_*; none in a route to be added is 4 (static).
    pub protocol: Option<u8>,
    /// RT_SCOPE_*.
    pub scope: Option<u8>,
    /// The source address of what the host itself sends (RTA_PREFSRC).
    pub source: Option<IpAddr>,
    pub mtu: Option<u32>,
    pub advmss: Option<u32>,
}

impl Route {
    /// A unicast route of the main table, of which nothing else is said.
    pub fn new(destination: Prefix, hops: Vec<Hop>) -> Route {
        Route {
            destination,
            source_prefix: None,
            kind: Kind::Unicast,
            hops,
            metric: None,
            table: MAIN,
            tos: 0,
            protocol: None,
            scope: None,
            source: None,
            mtu: None,
            advmss: None,
        }
    }

    /// The family of its destination.
    pub fn family(&self) -> Family {
        self.destination.family()
    }

    /// The gateways of its hops, in order.
    pub fn gateways(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.hops.iter().filter_map(|hop| hop.gateway)
    }
}

impl fmt::Display for Route {
    /// As ip-route(8) would write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.destination.is_default() {
            f.write_str("default")?;
        } else {
            write!(f, "{}", self.destination)?;
        }
        if let Some(from) = self.source_prefix {
            write!(f, " from {from}")?;
        }
        let several = self.hops.len() > 1;
        for hop in &self.hops {
            if several {
                f.write_str(" nexthop")?;
            }
            if let Some(gateway) = hop.gateway {
                write!(f, " via {gateway}")?;
            }
            write!(f, " dev {}", hop.link)?;
            if several {
                write!(f, " weight {}", hop.weight)?;
            }
        }
        match self.metric {
            Some(metric) if metric != 0 => write!(f, " metric {metric}"),
            _ => Ok(()),
        }
    }
}

/// What a call to change routes asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Add a route; it must not be there yet.
    Add(Route),
    /// Delete exactly this route; of a multipath route the named hops.
    Delete(Route),
    /// The link of that name takes no default route from router advertisements any more.
    IgnoreRouterAdvertisements(String),
}

/// What [`Host::replace`](crate::Host::replace) does with routes that the kernel itself made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelRoutes {
    /// They stay.
    Keep,
    /// They go unless they are wanted, but for link-local and multicast ones.
    Exact,
}

/// What a successful call did, as it was read back from the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    pub added: Vec<Route>,
    pub deleted: Vec<Route>,
    pub notes: Vec<String>,
}

/// A link as an error names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkReference {
    pub name: String,
    /// Its number in the namespace (ifi_index); no call takes one.
    pub index: u32,
}

/// One error of a call.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct RouteError {
    pub kind: ErrorKind,
    /// What was tried, such as `add`, `delete`, `list`, `verify`, `undo`.
    pub operation: String,
    pub family: Option<Family>,
    /// The route as ip-route(8) would print it.
    pub route: Option<String>,
    /// The links that it is about: those of the route's hops, in the order of their indices.
    pub links: Vec<LinkReference>,
    /// The network namespace's path, as the runtime gave it.
    pub namespace: String,
    /// The kernel's error by name, such as `ENETUNREACH`.
    pub errno: Option<String>,
    /// The kernel's own words (NLMSGERR_ATTR_MSG).
    pub kernel_message: Option<String>,
    /// The byte of the request that the kernel objects to (NLMSGERR_ATTR_OFFS).
    pub offset: Option<u32>,
    /// The cause in the host's words, and what to do.
    pub reason: Option<String>,
    /// All of the above as a person reads it.
    pub message: String,
}

/// What became of the changes of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undo {
    /// Nothing had been changed.
    NotNeeded,
    /// Everything is exactly as before the call.
    Exact,
    /// Something is left.
    Incomplete,
}

/// A failed call. The host fails a stage that returns ok all the same, unless the stage lists the call in its
/// outcome ([`Outcome::tolerate`](crate::Outcome::tolerate)).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", join(.errors, .leftover))]
pub struct RoutesError {
    /// The number of the call.
    pub call: u32,
    /// All errors, in order.
    pub errors: Vec<RouteError>,
    pub undo: Undo,
    /// What is left after an incomplete undo.
    pub leftover: Vec<String>,
}

fn join(errors: &[RouteError], leftover: &[String]) -> String {
    let text = errors.iter().map(|e| e.message.as_str()).collect::<Vec<_>>().join("; ");
    if leftover.is_empty() { text } else { format!("{text}; left behind: {}", leftover.join("; ")) }
}
