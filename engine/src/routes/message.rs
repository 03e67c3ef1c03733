//! Routes and links as netlink messages (rtnetlink(7)), and back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_routes::{
    Action, Attribute, Echo, Expiry, Failure, Family, Hop, Kind, Link, Prefix, Request, Route, Via,
};
use rtnetlink::packet_core::{DefaultNla, NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, Nla};
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteMetric, RouteNextHop, RouteNextHopFlags,
    RoutePreference, RouteVia,
};

use super::envelope::Message;

/// NLA_F_NESTED of netlink(7).
const NESTED: u16 = 0x8000;

fn address_family(family: Family) -> AddressFamily {
    match family {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    }
}

/// A dump of one table. The defaults of the crate's builders would be filters under strict checking, so the
/// message says nothing else.
pub(super) fn dump(family: Family, table: u32) -> Message {
    Message::GetRoute(of_table(family, table))
}

fn of_table(family: Family, table: u32) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = address_family(family);
    set_table(&mut message, table);
    message
}

/// The same of the routes that have a hop on a link.
pub(super) fn dump_of(family: Family, table: u32, link: u32) -> Message {
    let mut message = of_table(family, table);
    message.attributes.push(RouteAttribute::Oif(link));
    Message::GetRoute(message)
}

fn set_table(message: &mut RouteMessage, table: u32) {
    match u8::try_from(table) {
        Ok(table) => message.header.table = table,
        Err(_) => message.attributes.push(RouteAttribute::Table(table)),
    }
}

/// The message of a request, and the flags that it goes with.
pub(super) fn request(request: &Request) -> (Message, u16) {
    let mut message = RouteMessage::default();
    let header = &mut message.header;
    header.address_family = address_family(request.family);
    header.destination_prefix_length = request.dst.len();
    header.tos = request.tos;
    header.protocol = request.protocol.into();
    header.scope = request.scope.into();
    header.kind = request.kind.raw().into();
    set_table(&mut message, request.table);
    let attributes = &mut message.attributes;
    attributes.push(RouteAttribute::Destination(request.dst.addr().into()));
    if let Some(from) = request.from {
        message.header.source_prefix_length = from.len();
        attributes.push(RouteAttribute::Source(from.addr().into()));
    }
    attributes.push(RouteAttribute::Priority(request.metric));
    attributes.extend(request.source.map(|source| RouteAttribute::PrefSource(source.into())));
    let mut metrics: Vec<RouteMetric> = Vec::new();
    metrics.extend(request.mtu.map(RouteMetric::Mtu));
    metrics.extend(request.advmss.map(RouteMetric::Advmss));
    metrics.extend(request.metrics.iter().map(|metric| RouteMetric::Other(raw(metric))));
    if !metrics.is_empty() {
        attributes.push(RouteAttribute::Metrics(metrics));
    }
    attributes.extend(request.expires.map(RouteAttribute::Expires));
    attributes.extend(request.extra.iter().map(|extra| RouteAttribute::Other(raw(extra))));
    let is_delete = request.action == Action::Delete;
    match &request.via {
        Via::Nothing => {}
        Via::Object(object) => attributes.push(RouteAttribute::NhId(*object)),
        Via::One(hop) => {
            attributes.extend(hop.gateway.map(|gateway| via(gateway, request.family)));
            attributes.push(RouteAttribute::Oif(hop.link));
            if hop.onlink && !is_delete {
                message.header.flags = RouteFlags::Onlink;
            }
        }
        Via::Many(hops) => {
            let hops = hops.iter().map(|hop| next_hop(hop, request.family)).collect();
            attributes.push(RouteAttribute::MultiPath(hops));
        }
    }
    match request.action {
        Action::Delete => (Message::DelRoute(message), 0),
        Action::Add(mode) => {
            use catena_routes::Mode;
            let flags = match mode {
                Mode::Exclusive => NLM_F_EXCL,
                Mode::Append => NLM_F_APPEND,
                Mode::Prepend => 0,
                Mode::Replace => NLM_F_REPLACE,
            };
            (Message::NewRoute(message), NLM_F_CREATE | flags)
        }
    }
}

fn raw(attribute: &Attribute) -> DefaultNla {
    let flag = if attribute.nested { NESTED } else { 0 };
    DefaultNla::new(attribute.kind | flag, attribute.value.clone())
}

/// An IPv4 route can have an IPv6 gateway, which then goes by RTA_VIA.
fn via(gateway: IpAddr, family: Family) -> RouteAttribute {
    match (family, gateway) {
        (Family::V4, IpAddr::V6(gateway)) => RouteAttribute::Via(RouteVia::Inet6(gateway)),
        (_, gateway) => RouteAttribute::Gateway(gateway.into()),
    }
}

fn next_hop(hop: &Hop, family: Family) -> RouteNextHop {
    let mut next_hop = RouteNextHop::default();
    next_hop.interface_index = hop.link;
    next_hop.hops = hop.weight;
    if hop.onlink {
        next_hop.flags = RouteNextHopFlags::Onlink;
    }
    next_hop.attributes.extend(hop.gateway.map(|gateway| via(gateway, family)));
    next_hop
}

/// The routes of a dump that are in this table (0: in any), in the kernel's order.
pub(super) fn routes(messages: Vec<Message>, family: Family, table: u32) -> Result<Vec<Route>, Failure> {
    let mut routes = Vec::new();
    for message in messages {
        let Message::NewRoute(message) = message else { continue };
        // An older kernel without strict checking sends everything, cached routes too.
        if message.header.flags.contains(RouteFlags::Cloned) {
            continue;
        }
        let route = route(&message)?;
        if route.family == family && (table == 0 || route.table == table) {
            routes.push(route);
        }
    }
    Ok(routes)
}

/// What the kernel says that it did.
pub(super) fn echoes(messages: Vec<Message>) -> Result<Vec<Echo>, Failure> {
    messages
        .iter()
        .filter_map(|message| match message {
            Message::NewRoute(message) => Some((false, message)),
            Message::DelRoute(message) => Some((true, message)),
            _ => None,
        })
        .map(|(deleted, message)| Ok(Echo { deleted, route: route(message)? }))
        .collect()
}

fn route(message: &RouteMessage) -> Result<Route, Failure> {
    let header = &message.header;
    let family = match header.address_family {
        AddressFamily::Inet => Family::V4,
        AddressFamily::Inet6 => Family::V6,
        other => return Err(Failure::Other(format!("the kernel sent a route of family {other:?}"))),
    };
    let mut reader = Reader { family, fixed: None };
    // RTA_DST is left out where the prefix has no bits.
    let nowhere = match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let mut route = Route::new(reader.prefix(nowhere, header.destination_prefix_length)?, Vec::new());
    route.table = header.table.into();
    route.tos = header.tos;
    route.metric = 0;
    route.scope = header.scope.into();
    route.protocol = header.protocol.into();
    let raw_kind = u8::from(header.kind);
    match Kind::from_raw(raw_kind) {
        Some(kind) => route.kind = kind,
        None => {
            route.unknown_kind = Some(raw_kind);
            reader.fix(format!("it is of type {raw_kind}"));
        }
    }
    let onlink = header.flags.contains(RouteFlags::Onlink);
    let (mut gateway, mut link) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => {
                route.dst = reader.prefix(reader.address(address)?, header.destination_prefix_length)?;
            }
            RouteAttribute::Source(address) => {
                route.from = Some(reader.prefix(reader.address(address)?, header.source_prefix_length)?);
            }
            RouteAttribute::Table(table) => route.table = *table,
            RouteAttribute::Priority(metric) => route.metric = *metric,
            RouteAttribute::PrefSource(address) => route.source = Some(reader.address(address)?),
            RouteAttribute::Gateway(address) => gateway = Some(reader.address(address)?),
            RouteAttribute::Via(address) => gateway = Some(reader.via(address)?),
            RouteAttribute::Oif(index) => link = Some(*index),
            RouteAttribute::Metrics(metrics) => read_metrics(&mut route, metrics),
            RouteAttribute::MultiPath(hops) => {
                route.hops = hops.iter().map(|hop| reader.hop(hop)).collect::<Result<_, _>>()?;
            }
            RouteAttribute::NhId(object) => route.object = Some(*object),
            RouteAttribute::CacheInfo(info) if info.expires != 0 => {
                // USER_HZ is 100 on every architecture that Linux runs on today.
                route.expires = Expiry(Some(info.expires.div_ceil(100)));
            }
            // Cache figures come and go by themselves; a medium preference is every route's.
            RouteAttribute::CacheInfo(_) | RouteAttribute::Preference(RoutePreference::Medium) => {}
            other => route.extra.push(attribute_of(other)),
        }
    }
    if route.hops.is_empty()
        && let Some(link) = link
    {
        route.hops.push(Hop { gateway, link, weight: 0, onlink });
    }
    route.fixed = reader.fixed;
    Ok(route.normalised())
}

fn read_metrics(route: &mut Route, metrics: &[RouteMetric]) {
    for metric in metrics {
        match metric {
            RouteMetric::Mtu(mtu) => route.mtu = Some(*mtu),
            RouteMetric::Advmss(advmss) => route.advmss = Some(*advmss),
            other => route.metrics.push(attribute_of(other)),
        }
    }
}

fn attribute_of(attribute: &impl Nla) -> Attribute {
    let mut value = vec![0; attribute.value_len()];
    attribute.emit_value(&mut value);
    // An attribute that the crate does not know has the flag in its kind.
    let nested = attribute.is_nested() || attribute.kind() & NESTED != 0;
    Attribute { kind: attribute.kind() & !NESTED, nested, value }
}

struct Reader {
    family: Family,
    fixed: Option<String>,
}

impl Reader {
    fn fix(&mut self, why: String) {
        self.fixed.get_or_insert(why);
    }

    fn prefix(&self, address: IpAddr, length: u8) -> Result<Prefix, Failure> {
        Prefix::masked(address, length)
            .map_err(|error| Failure::Other(format!("the kernel sent a route to {error}")))
    }

    fn address(&self, address: &RouteAddress) -> Result<IpAddr, Failure> {
        match (self.family, address) {
            (Family::V4, RouteAddress::Inet(address)) => Ok(IpAddr::V4(*address)),
            (Family::V6, RouteAddress::Inet6(address)) => Ok(IpAddr::V6(*address)),
            _ => Err(Failure::Other(format!("the kernel sent a route with the address {address:?}"))),
        }
    }

    fn via(&self, via: &RouteVia) -> Result<IpAddr, Failure> {
        match via {
            RouteVia::Inet(address) => Ok(IpAddr::V4(*address)),
            RouteVia::Inet6(address) => Ok(IpAddr::V6(*address)),
            other => Err(Failure::Other(format!("the kernel sent a route via {other:?}"))),
        }
    }

    fn hop(&mut self, next_hop: &RouteNextHop) -> Result<Hop, Failure> {
        let mut hop = Hop {
            gateway: None,
            link: next_hop.interface_index,
            weight: next_hop.hops,
            onlink: next_hop.flags.contains(RouteNextHopFlags::Onlink),
        };
        for attribute in &next_hop.attributes {
            match attribute {
                RouteAttribute::Gateway(address) => hop.gateway = Some(self.address(address)?),
                RouteAttribute::Via(address) => hop.gateway = Some(self.via(address)?),
                other => {
                    self.fix(format!("one of its hops has the attribute {}", other.kind()));
                }
            }
        }
        Ok(hop)
    }
}

/// The links of a dump.
pub(super) fn links(messages: Vec<Message>) -> Vec<Link> {
    messages
        .into_iter()
        .filter_map(|message| match message {
            Message::Link(link) => Some(link),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_routes::Mode;

    fn round_trip(route: &Route) -> Route {
        let (message, flags) = request(&Request::add(route, Mode::Exclusive));
        assert_eq!(flags, NLM_F_CREATE | NLM_F_EXCL);
        echoes(vec![message]).unwrap().remove(0).route
    }

    #[test]
    fn a_route_comes_back_from_its_own_message() {
        let mut route = Route::new(
            "192.0.2.0/24".parse().unwrap(),
            vec![Hop { onlink: true, ..Hop::via("198.51.100.1".parse().unwrap(), 3) }],
        );
        route.table = 1000;
        route.metric = 7;
        route.mtu = Some(1400);
        route.advmss = Some(1360);
        route.source = Some("198.51.100.2".parse().unwrap());
        assert_eq!(round_trip(&route), route);

        let mut many = Route::new(
            "::/0".parse().unwrap(),
            vec![
                Hop { weight: 1, ..Hop::via("fe80::1".parse().unwrap(), 3) },
                Hop::via("fe80::1".parse().unwrap(), 2),
            ],
        );
        many.from = Some("2001:db8::/64".parse().unwrap());
        assert_eq!(round_trip(&many), many);

        let other_family =
            Route::new("192.0.2.0/24".parse().unwrap(), vec![Hop::via("fe80::1".parse().unwrap(), 3)]);
        assert_eq!(round_trip(&other_family), other_family);
    }

    #[test]
    fn a_route_of_an_unknown_type_is_nothing_that_can_be_named() {
        let route = Route::new("192.0.2.0/24".parse().unwrap(), vec![Hop::dev(3)]);
        assert!(route.can_be_named());
        let (mut message, _) = request(&Request::add(&route, Mode::Exclusive));
        let Message::NewRoute(strange) = &mut message else { panic!("not a new route") };
        const XRESOLVE: u8 = 11;
        strange.header.kind = XRESOLVE.into();
        let strange = super::route(strange).unwrap();
        assert!(!strange.can_be_named() && strange.fixed.is_some());
        assert_eq!(strange.to_string(), "type 11 192.0.2.0/24 dev if3 proto static scope link");
    }

    #[test]
    fn attributes_that_are_not_read_are_kept() {
        let mut route = Route::new("192.0.2.0/24".parse().unwrap(), vec![Hop::dev(3)]);
        route.extra = vec![Attribute { kind: 99, nested: true, value: vec![1, 2, 3, 4] }];
        route.metrics = vec![Attribute { kind: 10, nested: false, value: vec![64, 0, 0, 0] }];
        let (message, _) = request(&Request::add(&route, Mode::Append));
        let Message::NewRoute(message) = message else { panic!("not a new route") };
        assert_eq!(super::route(&message).unwrap(), route);
    }
}
