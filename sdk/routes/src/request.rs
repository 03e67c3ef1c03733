use std::net::IpAddr;

use crate::route::Attribute;
use crate::{Family, Hop, Kind, Prefix, Route};

/// One RTM_NEWROUTE or RTM_DELROUTE. A kernel delete is a pattern whose first match dies, so a request says all
/// that there is to say; netlink treats 0 as "not given" for metric and protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What to do.
    pub action: Action,
    /// rtm_family.
    pub family: Family,
    /// RTA_TABLE, from 1.
    pub table: u32,
    /// RTA_DST.
    pub dst: Prefix,
    /// RTA_SRC, IPv6 only.
    pub from: Option<Prefix>,
    /// rtm_tos, IPv4 only.
    pub tos: u8,
    /// RTA_PRIORITY.
    pub metric: u32,
    /// rtm_type.
    pub kind: Kind,
    /// rtm_scope, IPv4 only.
    pub scope: u8,
    /// rtm_protocol.
    pub protocol: u8,
    /// RTA_PREFSRC.
    pub source: Option<IpAddr>,
    /// RTAX_MTU, bytes.
    pub mtu: Option<u32>,
    /// RTAX_ADVMSS, bytes.
    pub advmss: Option<u32>,
    /// The next hops.
    pub via: Via,
    /// Other RTAX_* metrics.
    pub metrics: Vec<Attribute>,
    /// Other RTA_* attributes.
    pub extra: Vec<Attribute>,
    /// Seconds.
    pub expires: Option<u32>,
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// RTM_NEWROUTE.
    Add(Mode),
    /// RTM_DELROUTE.
    Delete,
}

/// The NLM_F_* flags of an add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// CREATE and EXCL: the slot must be empty.
    Exclusive,
    /// CREATE and APPEND: behind the slot's routes, or as one more hop.
    Append,
    /// CREATE alone: before the slot's routes (IPv4).
    Prepend,
    /// CREATE and REPLACE: instead of the slot's first route.
    Replace,
}

/// Where packets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Via {
    /// No next hop, as for a route that rejects.
    Nothing,
    /// RTA_GATEWAY and RTA_OIF. In an IPv6 delete the unspecified gateway names a route without one.
    One(Hop),
    /// RTA_MULTIPATH.
    Many(Vec<Hop>),
    /// RTA_NH_ID.
    Object(u32),
}

/// The loopback link of every namespace. The kernel shows IPv6 routes that reject on it.
const LOOPBACK: u32 = 1;

impl Request {
    /// The request that makes this route.
    pub fn add(route: &Route, mode: Mode) -> Request {
        let via = match (route.object, route.hops.as_slice()) {
            (Some(object), _) => Via::Object(object),
            (None, []) => Via::Nothing,
            // As a list the hop keeps its weight when it becomes one of several.
            (None, [hop]) if hop.weight == 0 => Via::One(hop.clone()),
            (None, hops) => Via::Many(hops.to_vec()),
        };
        Request { via, expires: route.expires.0, ..Request::of(Action::Add(mode), route) }
    }

    /// `route` is one IPv4 route with all its hops, or one leg of an IPv6 route.
    pub fn delete(route: &Route) -> Request {
        let via = match (route.family, route.object, route.hops.as_slice()) {
            (_, Some(object), _) => Via::Object(object),
            (Family::V4, _, []) => Via::Nothing,
            (Family::V6, _, []) => Via::One(Hop { gateway: Some(unspecified()), ..Hop::dev(LOOPBACK) }),
            (Family::V6, _, [hop]) => Via::One(Hop {
                // No gateway would match any, and take all hops of the slot with it.
                gateway: Some(hop.gateway.unwrap_or(unspecified())),
                ..hop.clone()
            }),
            (_, _, [hop]) => Via::One(hop.clone()),
            (_, _, hops) => Via::Many(hops.to_vec()),
        };
        Request { via, expires: None, ..Request::of(Action::Delete, route) }
    }

    /// An IPv4 route's only hop as a list. Named by itself a hop fits every route that begins with it; a list of
    /// one fits no route of several hops.
    pub(crate) fn delete_list(route: &Route) -> Request {
        let request = Request::delete(route);
        match request.via {
            Via::One(hop) => Request { via: Via::Many(vec![hop]), ..request },
            _ => request,
        }
    }

    /// Legs of one IPv6 route may differ in protocol, and a dump shows only the first one's; gateway and link
    /// already name a leg.
    pub(crate) fn delete_leg(route: &Route) -> Request {
        Request { protocol: 0, ..Request::delete(route) }
    }

    fn of(action: Action, route: &Route) -> Request {
        Request {
            action,
            family: route.family,
            table: route.table,
            dst: route.dst,
            from: route.from,
            tos: route.tos,
            metric: route.metric,
            kind: route.kind,
            scope: route.scope,
            protocol: route.protocol,
            source: route.source,
            mtu: route.mtu,
            advmss: route.advmss,
            via: Via::Nothing,
            metrics: route.metrics.clone(),
            extra: route.extra.clone(),
            expires: None,
        }
    }
}

fn unspecified() -> IpAddr {
    IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED)
}
