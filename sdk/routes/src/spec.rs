use std::net::IpAddr;

use crate::route::{PROTOCOL_STATIC, Route, default_scope};
use crate::{Expiry, Family, Hop, Kind, Prefix};

/// A route as somebody names it. In a route to be added a member that is none is the kernel's default
/// (protocol: static); in one to be deleted it is "whatever it is", as long as exactly one route fits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RouteSpec {
    /// RTA_DST.
    pub dst: Prefix,
    /// RTA_SRC, IPv6 only. None: packets from anywhere, in a route to be deleted as well.
    pub from: Option<Prefix>,
    /// rtm_type.
    pub kind: Kind,
    /// A hop is named by gateway and link; no gateway means that the hop has none. In a delete these are the
    /// hops that go, and an empty list stands for all hops within the scope.
    pub hops: Vec<Hop>,
    /// RTA_PRIORITY.
    pub metric: Option<u32>,
    /// RTA_TABLE, from 1; 254 is main.
    pub table: u32,
    /// rtm_tos; 0 for IPv6.
    pub tos: u8,
    /// RTPROT_*.
    pub protocol: Option<u8>,
    /// RT_SCOPE_*; without meaning for IPv6.
    pub scope: Option<u8>,
    /// RTA_PREFSRC.
    pub source: Option<IpAddr>,
    /// RTAX_MTU, bytes.
    pub mtu: Option<u32>,
    /// RTAX_ADVMSS, bytes.
    pub advmss: Option<u32>,
}

impl RouteSpec {
    /// A unicast route of the main table of which nothing else is said.
    pub fn new(dst: Prefix, hops: Vec<Hop>) -> RouteSpec {
        RouteSpec {
            dst,
            from: None,
            kind: Kind::Unicast,
            hops,
            metric: None,
            table: 254,
            tos: 0,
            protocol: None,
            scope: None,
            source: None,
            mtu: None,
            advmss: None,
        }
    }

    /// The destination's family.
    pub fn family(&self) -> Family {
        self.dst.family()
    }

    /// The route that the kernel makes of this spec when it is added.
    pub fn to_route(&self) -> Route {
        let family = self.family();
        let metric = match (family, self.metric) {
            // The kernel reads an IPv6 metric of 0 as "no metric given".
            (Family::V6, Some(0)) | (_, None) => family.default_metric(),
            (_, Some(metric)) => metric,
        };
        Route {
            family,
            table: self.table,
            dst: self.dst,
            tos: self.tos,
            metric,
            kind: self.kind,
            unknown_kind: None,
            scope: self.scope.unwrap_or_else(|| default_scope(family, self.kind, &self.hops)),
            protocol: self.protocol.unwrap_or(PROTOCOL_STATIC),
            source: self.source,
            mtu: self.mtu,
            advmss: self.advmss,
            hops: self.hops.clone(),
            // The kernel shows no prefix that everything is from.
            from: self.from.filter(|from| !from.is_default()),
            object: None,
            metrics: Vec::new(),
            extra: Vec::new(),
            fixed: None,
            expires: Expiry(None),
        }
        .normalised()
    }
}

/// One wish of an `apply`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The route must not be there yet.
    Add(RouteSpec),
    /// Exactly one route must fit.
    Delete(RouteSpec),
    /// The link of this index takes no default route from router advertisements any more (accept_ra_defrtr).
    IgnoreRouterAdvertisements(u32),
}
