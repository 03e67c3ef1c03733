use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use crate::slot::Slot;
use crate::{Family, Hop, Kind, Prefix, RouteSpec};

/// RTPROT_KERNEL, RTPROT_STATIC, RTPROT_RA of rtnetlink(7).
pub(crate) const PROTOCOL_KERNEL: u8 = 2;
pub(crate) const PROTOCOL_STATIC: u8 = 4;
pub(crate) const PROTOCOL_RA: u8 = 9;
/// RT_SCOPE_* of rtnetlink(7).
pub(crate) const SCOPE_UNIVERSE: u8 = 0;
pub(crate) const SCOPE_LINK: u8 = 253;
pub(crate) const SCOPE_HOST: u8 = 254;

/// A route as the kernel holds it, normalised: IPv6 hops are sorted, an IPv6 route has scope 0 and one that
/// rejects has no hop, a single hop has weight 0. What comes and goes by itself (flags such as LINKDOWN, cache
/// figures) is not part of it, so equality is identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    /// rtm_family.
    pub family: Family,
    /// The routing table, from 1 (RTA_TABLE); 254 is main.
    pub table: u32,
    /// RTA_DST.
    pub dst: Prefix,
    /// rtm_tos; 0 for IPv6.
    pub tos: u8,
    /// RTA_PRIORITY; the lower one is taken first.
    pub metric: u32,
    /// rtm_type.
    pub kind: Kind,
    /// An rtm_type that `kind` does not have; `kind` then says nothing.
    pub unknown_kind: Option<u8>,
    /// RT_SCOPE_*; 0 for IPv6.
    pub scope: u8,
    /// RTPROT_*: who made it.
    pub protocol: u8,
    /// RTA_PREFSRC.
    pub source: Option<IpAddr>,
    /// RTAX_MTU, bytes.
    pub mtu: Option<u32>,
    /// RTAX_ADVMSS, bytes.
    pub advmss: Option<u32>,
    /// None for a route that rejects, several for multipath.
    pub hops: Vec<Hop>,
    /// Only packets from these sources (IPv6 source routing, RTA_SRC).
    pub from: Option<Prefix>,
    /// The nexthop object that the hops come from (RTA_NH_ID).
    pub object: Option<u32>,
    /// Metrics other than mtu and advmss (RTAX_*), as the kernel gave them.
    pub metrics: Vec<Attribute>,
    /// Attributes that this model does not read, as the kernel gave them; a route put back has them again.
    pub extra: Vec<Attribute>,
    /// Why this route could not be put back as it was. Such a route is never changed.
    pub fixed: Option<String>,
    /// When the kernel drops it (RTA_CACHEINFO).
    pub expires: Expiry,
}

/// A netlink attribute: type (without flags) and value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attribute {
    /// Its type, without NLA_F_NESTED.
    pub kind: u16,
    /// NLA_F_NESTED.
    pub nested: bool,
    /// Its bytes, without padding.
    pub value: Vec<u8>,
}

/// The seconds after which the kernel drops a route. They run, so two expiries are equal if both or neither are set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Expiry(pub Option<u32>);

impl PartialEq for Expiry {
    fn eq(&self, other: &Expiry) -> bool {
        self.0.is_some() == other.0.is_some()
    }
}

impl Eq for Expiry {}

impl PartialOrd for Expiry {
    fn partial_cmp(&self, other: &Expiry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Expiry {
    fn cmp(&self, other: &Expiry) -> std::cmp::Ordering {
        self.0.is_some().cmp(&other.0.is_some())
    }
}

impl Hash for Expiry {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.is_some().hash(state);
    }
}

impl Route {
    /// A unicast route of the main table with the kernel's defaults, protocol static and these hops.
    pub fn new(dst: Prefix, hops: Vec<Hop>) -> Route {
        let family = dst.family();
        let scope = default_scope(family, Kind::Unicast, &hops);
        Route {
            family,
            table: 254,
            dst,
            tos: 0,
            metric: family.default_metric(),
            kind: Kind::Unicast,
            unknown_kind: None,
            scope,
            protocol: PROTOCOL_STATIC,
            source: None,
            mtu: None,
            advmss: None,
            hops,
            from: None,
            object: None,
            metrics: Vec::new(),
            extra: Vec::new(),
            fixed: None,
            expires: Expiry(None),
        }
        .normalised()
    }

    /// The same route as the kernel would show it.
    pub fn normalised(mut self) -> Route {
        if self.family == Family::V6 {
            self.scope = SCOPE_UNIVERSE;
            self.hops.sort();
            if self.kind.rejects() {
                // The kernel shows these on the loopback link.
                self.hops.clear();
            }
        }
        if let [hop] = self.hops.as_mut_slice() {
            hop.weight = 0;
        }
        self
    }

    /// Its place in the tables.
    pub fn slot(&self) -> Slot {
        Slot { table: self.table, dst: self.dst, from: self.from, tos: self.tos, metric: self.metric }
    }

    /// Whether its destination is everything.
    pub fn is_default(&self) -> bool {
        self.dst.is_default()
    }

    /// Learned from a router advertisement.
    pub fn is_from_ra(&self) -> bool {
        self.protocol == PROTOCOL_RA
    }

    /// Made by the kernel itself, such as the route of a connected subnet.
    pub fn is_kernels(&self) -> bool {
        self.protocol == PROTOCOL_KERNEL
    }

    /// Whether a [`RouteSpec`] can say what it is: not of a type that nobody knows, nor of a nexthop object that is a
    /// blackhole, whose type is another for the kernel's deletes than in its dumps.
    pub fn can_be_named(&self) -> bool {
        self.unknown_kind.is_none() && (self.object.is_none() || !self.hops.is_empty())
    }

    /// Whether one of its hops is on the link of this index.
    pub fn has_hop_on(&self, link: u32) -> bool {
        self.hops.iter().any(|hop| hop.link == link)
    }

    /// The same route with these hops only.
    pub(crate) fn with_hops(&self, hops: Vec<Hop>) -> Route {
        Route { hops, ..self.clone() }.normalised()
    }

    /// An IPv6 multipath route is, in the kernel, one route for each hop; anything else is one route.
    pub(crate) fn legs(&self) -> Vec<Route> {
        if self.family == Family::V6 && self.object.is_none() && self.hops.len() > 1 {
            self.hops.iter().map(|hop| Route { hops: vec![hop.clone()], ..self.clone() }).collect()
        } else {
            vec![self.clone()]
        }
    }

    /// The route as a request names it: the hops of a nexthop object are the object's business.
    pub(crate) fn as_named(&self) -> Route {
        match self.object {
            Some(_) => Route { hops: Vec::new(), ..self.clone() },
            None => self.clone(),
        }
    }

    /// The spec that names exactly this route.
    pub fn to_spec(&self) -> RouteSpec {
        RouteSpec {
            dst: self.dst,
            from: self.from,
            kind: self.kind,
            hops: self.hops.clone(),
            metric: Some(self.metric),
            table: self.table,
            tos: self.tos,
            protocol: Some(self.protocol),
            scope: Some(self.scope),
            source: self.source,
            mtu: self.mtu,
            advmss: self.advmss,
        }
    }

    /// The route as ip-route(8) would print it, with link names from `names` (index to name).
    pub fn text(&self, names: &dyn Fn(u32) -> String) -> String {
        let mut out = String::new();
        if let Some(kind) = self.unknown_kind {
            out += &format!("type {kind} ");
        } else if self.kind != Kind::Unicast {
            out += self.kind.as_str();
            out.push(' ');
        }
        if self.dst.is_default() {
            out += "default";
        } else if self.dst.len() == self.family.bits() {
            out += &self.dst.addr().to_string();
        } else {
            out += &self.dst.to_string();
        }
        if let Some(from) = self.from {
            out += &format!(" from {from}");
        }
        if self.tos != 0 {
            out += &format!(" tos 0x{:02x}", self.tos);
        }
        let many = self.hops.len() > 1;
        for hop in &self.hops {
            if many {
                out += " nexthop";
            }
            if let Some(gateway) = hop.gateway {
                let inet6 = if Family::of(gateway) == self.family { "" } else { "inet6 " };
                out += &format!(" via {inet6}{gateway}");
            }
            out += &format!(" dev {}", names(hop.link));
            if many {
                out += &format!(" weight {}", u16::from(hop.weight) + 1);
            }
            if hop.onlink {
                out += " onlink";
            }
        }
        if let Some(object) = self.object {
            out += &format!(" nhid {object}");
        }
        if self.table != 254 {
            out += &format!(" table {}", self.table);
        }
        out += &format!(" proto {}", protocol_name(self.protocol));
        match (self.family, self.scope) {
            (Family::V6, _) | (_, SCOPE_UNIVERSE) => {}
            (_, SCOPE_LINK) => out += " scope link",
            (_, SCOPE_HOST) => out += " scope host",
            (_, scope) => out += &format!(" scope {scope}"),
        }
        if let Some(source) = self.source {
            out += &format!(" src {source}");
        }
        if self.metric != 0 {
            out += &format!(" metric {}", self.metric);
        }
        if let Some(mtu) = self.mtu {
            out += &format!(" mtu {mtu}");
        }
        if let Some(advmss) = self.advmss {
            out += &format!(" advmss {advmss}");
        }
        if self.expires.0.is_some() {
            out += " expires";
        }
        out
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(&|link| format!("if{link}")))
    }
}

/// The scope that ip-route(8) gives a route that names none; the kernel would take 0.
pub(crate) fn default_scope(family: Family, kind: Kind, hops: &[Hop]) -> u8 {
    if family == Family::V6 {
        return SCOPE_UNIVERSE;
    }
    match kind {
        Kind::Local => SCOPE_HOST,
        Kind::Broadcast | Kind::Multicast | Kind::Anycast => SCOPE_LINK,
        Kind::Unicast if !hops.is_empty() && hops.iter().all(|hop| hop.gateway.is_none()) => SCOPE_LINK,
        _ => SCOPE_UNIVERSE,
    }
}

fn protocol_name(protocol: u8) -> String {
    match protocol {
        1 => "redirect".into(),
        PROTOCOL_KERNEL => "kernel".into(),
        3 => "boot".into(),
        PROTOCOL_STATIC => "static".into(),
        PROTOCOL_RA => "ra".into(),
        16 => "dhcp".into(),
        other => other.to_string(),
    }
}
