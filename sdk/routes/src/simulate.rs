use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::apply::{ACCEPT_RA_DEFRTR, DISABLE_IPV6};
use crate::fib::{Fib, route_of};
use crate::gateway::{is_link_local, on_link};
use crate::route::{SCOPE_HOST, SCOPE_LINK};
use crate::{Action, Echo, Errno, Failure, Family, Kind, Link, Prefix, Request, Route, Snapshot, Via, Wire};

/// RT_TABLE_LOCAL.
const LOCAL: u32 = 255;

/// Routing tables that behave as the kernel was measured to (Linux 6.18): the same changes, the same refusals.
#[derive(Clone, Debug, Default)]
pub struct SimulatedTable {
    namespace: String,
    links: Vec<Link>,
    fib: Fib,
    /// None: not known, so every source address is taken.
    addresses: Option<Vec<Prefix>>,
    /// By link name and key.
    sysctls: BTreeMap<(String, String), String>,
}

impl SimulatedTable {
    /// `routes` as dumps give them, of any family and table.
    pub fn new(namespace: &str, links: Vec<Link>, routes: Vec<Route>) -> SimulatedTable {
        let sysctls = links
            .iter()
            .flat_map(|link| {
                [(ACCEPT_RA_DEFRTR, "1"), (DISABLE_IPV6, "0")]
                    .map(|(key, value)| ((link.name.clone(), key.to_owned()), value.to_owned()))
            })
            .collect();
        SimulatedTable {
            namespace: namespace.to_owned(),
            links,
            fib: Fib::new(routes),
            addresses: None,
            sysctls,
        }
    }

    /// The namespace's own addresses: a route's source must be one of them, an IPv6 gateway none.
    pub fn with_addresses(mut self, addresses: Vec<IpAddr>) -> SimulatedTable {
        self.addresses = Some(addresses.into_iter().map(Prefix::host).collect());
        self
    }

    /// Sets the links anew, as when one goes; routes over links that are gone or down go with them.
    pub fn set_links(&mut self, links: Vec<Link>) {
        let there = |index: u32| links.iter().any(|link| link.index == index && link.up);
        self.fib.retain(|route| route.hops.iter().all(|hop| there(hop.link)));
        self.links = links;
    }

    fn is_own(&self, addr: IpAddr) -> Option<bool> {
        self.addresses.as_ref().map(|addresses| addresses.iter().any(|own| own.contains(addr)))
    }

    fn link(&self, index: u32) -> Option<&Link> {
        self.links.iter().find(|link| link.index == index)
    }

    /// What the kernel checks before it looks at the slot (fib_create_info, ip6_route_info_create).
    fn check(&self, request: &Request) -> Result<(), Failure> {
        let route = route_of(request);
        let no = |errno: Errno, message: &str| {
            Err(Failure::Kernel { errno, message: Some(message.to_owned()), offset: None })
        };
        if matches!(request.via, Via::Object(_)) {
            return no(Errno::EINVAL, "Nexthop id does not exist");
        }
        if route.family == Family::V6 && route.tos != 0 {
            return no(Errno::EINVAL, "Invalid dsfield (tos): option not available for IPv6");
        }
        if route.kind.rejects() {
            if route.family == Family::V4 && !route.hops.is_empty() {
                let text = "Gateway, device and multipath can not be specified for this route type";
                return no(Errno::EINVAL, text);
            }
            // The IPv4 kernel does not look at the source of such a route.
            return if route.family == Family::V4 { Ok(()) } else { self.check_source(&route) };
        }
        if route.hops.is_empty() {
            return Err(Failure::kernel(Errno::ENODEV));
        }
        let routes = self.fib.held(route.family);
        for hop in &route.hops {
            let Some(link) = self.link(hop.link) else {
                return match (route.family, hop.gateway) {
                    (Family::V4, Some(_)) if !hop.onlink => {
                        no(Errno::ENETUNREACH, "Nexthop has invalid gateway")
                    }
                    _ => Err(Failure::kernel(Errno::ENODEV)),
                };
            };
            match (route.family, hop.gateway) {
                (Family::V4, None) if !link.up => return no(Errno::ENETDOWN, "Device for nexthop is not up"),
                (Family::V4, None) => {}
                (Family::V4, Some(_)) if route.scope == SCOPE_HOST => {
                    return no(Errno::EINVAL, "Route with host scope can not have a gateway");
                }
                (Family::V4, Some(_)) if hop.onlink && route.scope >= SCOPE_LINK => {
                    return no(Errno::EINVAL, "Nexthop has invalid scope");
                }
                (Family::V4, Some(_)) if !on_link(&route, hop, routes) => {
                    return no(Errno::ENETUNREACH, "Nexthop has invalid gateway");
                }
                (Family::V6, Some(gateway)) => {
                    if gateway.is_multicast() {
                        return no(Errno::EINVAL, "Invalid gateway address");
                    }
                    if self.is_own(gateway) == Some(true) {
                        return no(Errno::EINVAL, "Gateway can not be a local address");
                    }
                    if self.ipv6_disabled(&link.name) && is_link_local(gateway) {
                        return no(Errno::EACCES, "IPv6 is disabled on nexthop device");
                    }
                    if !on_link(&route, hop, routes) {
                        return Err(Failure::kernel(Errno::EHOSTUNREACH));
                    }
                }
                (Family::V6, None) if self.ipv6_disabled(&link.name) => {
                    return no(Errno::EACCES, "IPv6 is disabled on nexthop device");
                }
                _ => {}
            }
            if !link.up {
                return no(Errno::ENETDOWN, "Nexthop device is not up");
            }
        }
        self.check_source(&route)
    }

    fn check_source(&self, route: &Route) -> Result<(), Failure> {
        let text = match route.family {
            Family::V4 => "Invalid prefsrc address",
            Family::V6 => "Invalid source address",
        };
        match route.source.and_then(|source| self.is_own(source)) {
            Some(false) => {
                Err(Failure::Kernel { errno: Errno::EINVAL, message: Some(text.to_owned()), offset: None })
            }
            _ => Ok(()),
        }
    }

    fn ipv6_disabled(&self, link: &str) -> bool {
        self.sysctls.get(&(link.to_owned(), DISABLE_IPV6.to_owned())).is_some_and(|value| value == "1")
    }
}

impl From<Snapshot> for SimulatedTable {
    /// Where the snapshot has the kernel's own routes to the namespace's addresses, these are the addresses.
    fn from(snapshot: Snapshot) -> SimulatedTable {
        let own = |route: &&Route| route.table == LOCAL && route.kind == Kind::Local;
        let own: Vec<Prefix> = snapshot.routes.iter().filter(own).map(|route| route.dst).collect();
        SimulatedTable {
            namespace: snapshot.namespace,
            links: snapshot.links,
            fib: Fib::new(snapshot.routes),
            addresses: (!own.is_empty()).then_some(own),
            sysctls: snapshot.sysctls,
        }
    }
}

impl Wire for SimulatedTable {
    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn links(&mut self) -> Result<Vec<Link>, Failure> {
        Ok(self.links.clone())
    }

    fn dump(&mut self, family: Family, table: u32) -> Result<Vec<Route>, Failure> {
        Ok(self.fib.dump(family, table))
    }

    fn send(&mut self, request: &Request) -> Result<Vec<Echo>, Failure> {
        if matches!(request.action, Action::Add(_)) {
            self.check(request)?;
        }
        self.fib.send(request)
    }

    fn sysctl(&mut self, link: &str, key: &str) -> Result<Option<String>, Failure> {
        Ok(self.sysctls.get(&(link.to_owned(), key.to_owned())).cloned())
    }

    fn set_sysctl(&mut self, link: &str, key: &str, value: &str) -> Result<(), Failure> {
        match self.sysctls.get_mut(&(link.to_owned(), key.to_owned())) {
            Some(there) => {
                *there = value.to_owned();
                Ok(())
            }
            None => Err(Failure::kernel(Errno::ENOENT)),
        }
    }
}
