//! Between the contract's records and the types that authors see.

use std::net::IpAddr;

use crate::bindings::{links, log, routes, types};
use crate::host::Level;
use crate::link::{Link, LinkError};
use crate::route::{
    Change, ErrorKind, Family, Hop, KernelRoutes, Kind, LinkReference, Prefix, Report, Route, RouteError,
    RoutesError, Undo,
};
use crate::{Command, Document, Error, Mode};

pub(crate) fn level(level: Level) -> log::Level {
    match level {
        Level::Debug => log::Level::Debug,
        Level::Info => log::Level::Info,
        Level::Warn => log::Level::Warn,
        Level::Error => log::Level::Error,
    }
}

pub(crate) fn link(link: links::Link) -> Link {
    let links::Link { name, alternative_names, mac, mtu, up, carrier, kind } = link;
    Link { name, alternative_names, mac, mtu, up, carrier, kind }
}

pub(crate) fn link_error(error: links::Failure) -> LinkError {
    let links::Failure { call, namespace, errno, kernel_message, message } = error;
    LinkError { call, namespace, errno, kernel_message, message }
}

pub(crate) fn family(family: Family) -> routes::Family {
    match family {
        Family::V4 => routes::Family::Ipv4,
        Family::V6 => routes::Family::Ipv6,
    }
}

fn family_from(family: routes::Family) -> Family {
    match family {
        routes::Family::Ipv4 => Family::V4,
        routes::Family::Ipv6 => Family::V6,
    }
}

fn address(address: IpAddr) -> routes::IpAddress {
    match address {
        IpAddr::V4(v4) => routes::IpAddress::Ipv4(v4.octets().into()),
        IpAddr::V6(v6) => routes::IpAddress::Ipv6(v6.segments().into()),
    }
}

fn address_from(address: routes::IpAddress) -> IpAddr {
    match address {
        routes::IpAddress::Ipv4(octets) => IpAddr::from(<[u8; 4]>::from(octets)),
        routes::IpAddress::Ipv6(segments) => IpAddr::from(<[u16; 8]>::from(segments)),
    }
}

fn prefix(prefix: Prefix) -> routes::Prefix {
    routes::Prefix { address: address(prefix.addr()), length: prefix.len() }
}

/// The kernel's own prefixes are valid; a host that sends another one is not to be believed further.
fn prefix_from(prefix: routes::Prefix) -> Prefix {
    Prefix::masked(address_from(prefix.address), prefix.length)
        .unwrap_or_else(|e| panic!("the host sent a bad route: {e}"))
}

pub(crate) fn route(route: &Route) -> routes::Route {
    routes::Route {
        destination: prefix(route.destination),
        source_prefix: route.source_prefix.map(prefix),
        kind: match route.kind {
            Kind::Unicast => routes::RouteType::Unicast,
            Kind::Local => routes::RouteType::Local,
            Kind::Broadcast => routes::RouteType::Broadcast,
            Kind::Anycast => routes::RouteType::Anycast,
            Kind::Multicast => routes::RouteType::Multicast,
            Kind::Blackhole => routes::RouteType::Blackhole,
            Kind::Unreachable => routes::RouteType::Unreachable,
            Kind::Prohibit => routes::RouteType::Prohibit,
            Kind::Throw => routes::RouteType::Throw,
        },
        next_hops: route
            .hops
            .iter()
            .map(|hop| routes::NextHop {
                link: hop.link.clone(),
                gateway: hop.gateway.map(address),
                weight: hop.weight,
                onlink: hop.onlink,
            })
            .collect(),
        metric: route.metric,
        table: route.table,
        tos: route.tos,
        protocol: route.protocol,
        scope: route.scope,
        source: route.source.map(address),
        mtu: route.mtu,
        advmss: route.advmss,
    }
}

fn route_from(route: routes::Route) -> Route {
    Route {
        destination: prefix_from(route.destination),
        source_prefix: route.source_prefix.map(prefix_from),
        kind: match route.kind {
            routes::RouteType::Unicast => Kind::Unicast,
            routes::RouteType::Local => Kind::Local,
            routes::RouteType::Broadcast => Kind::Broadcast,
            routes::RouteType::Anycast => Kind::Anycast,
            routes::RouteType::Multicast => Kind::Multicast,
            routes::RouteType::Blackhole => Kind::Blackhole,
            routes::RouteType::Unreachable => Kind::Unreachable,
            routes::RouteType::Prohibit => Kind::Prohibit,
            routes::RouteType::Throw => Kind::Throw,
        },
        hops: route
            .next_hops
            .into_iter()
            .map(|hop| Hop {
                link: hop.link,
                gateway: hop.gateway.map(address_from),
                weight: hop.weight,
                onlink: hop.onlink,
            })
            .collect(),
        metric: route.metric,
        table: route.table,
        tos: route.tos,
        protocol: route.protocol,
        scope: route.scope,
        source: route.source.map(address_from),
        mtu: route.mtu,
        advmss: route.advmss,
    }
}

pub(crate) fn routes_from(list: Vec<routes::Route>) -> Vec<Route> {
    list.into_iter().map(route_from).collect()
}

pub(crate) fn change(change: &Change) -> routes::Change {
    match change {
        Change::Add(added) => routes::Change::Add(route(added)),
        Change::Delete(deleted) => routes::Change::Delete(route(deleted)),
        Change::IgnoreRouterAdvertisements(link) => routes::Change::IgnoreRouterAdvertisements(link.clone()),
    }
}

pub(crate) fn kernel_routes(kernel: KernelRoutes) -> routes::KernelRoutes {
    match kernel {
        KernelRoutes::Keep => routes::KernelRoutes::Keep,
        KernelRoutes::Exact => routes::KernelRoutes::Exact,
    }
}

pub(crate) fn report(report: routes::Report) -> Report {
    Report { added: routes_from(report.added), deleted: routes_from(report.deleted), notes: report.notes }
}

pub(crate) fn failure(failure: routes::Failure) -> RoutesError {
    RoutesError {
        call: failure.call,
        errors: failure.errors.into_iter().map(route_error).collect(),
        undo: match failure.undo {
            routes::Undo::NotNeeded => Undo::NotNeeded,
            routes::Undo::Exact => Undo::Exact,
            routes::Undo::Incomplete => Undo::Incomplete,
        },
        leftover: failure.leftover,
    }
}

fn route_error(error: routes::RouteError) -> RouteError {
    RouteError {
        kind: match error.kind {
            routes::ErrorKind::Denied => ErrorKind::Denied,
            routes::ErrorKind::Invalid => ErrorKind::Invalid,
            routes::ErrorKind::NotFound => ErrorKind::NotFound,
            routes::ErrorKind::Exists => ErrorKind::Exists,
            routes::ErrorKind::Conflict => ErrorKind::Conflict,
            routes::ErrorKind::NoDevice => ErrorKind::NoDevice,
            routes::ErrorKind::LinkDown => ErrorKind::LinkDown,
            routes::ErrorKind::GatewayUnreachable => ErrorKind::GatewayUnreachable,
            routes::ErrorKind::BadSource => ErrorKind::BadSource,
            routes::ErrorKind::Permission => ErrorKind::Permission,
            routes::ErrorKind::Ipv6Disabled => ErrorKind::Ipv6Disabled,
            routes::ErrorKind::Busy => ErrorKind::Busy,
            routes::ErrorKind::Interrupted => ErrorKind::Interrupted,
            routes::ErrorKind::Lost => ErrorKind::Lost,
            routes::ErrorKind::Timeout => ErrorKind::Timeout,
            routes::ErrorKind::WrongRoute => ErrorKind::WrongRoute,
            routes::ErrorKind::Verify => ErrorKind::Verify,
            routes::ErrorKind::Namespace => ErrorKind::Namespace,
            routes::ErrorKind::Other => ErrorKind::Other,
        },
        operation: error.operation,
        family: error.family.map(family_from),
        route: error.route,
        links: error
            .links
            .into_iter()
            .map(|link| LinkReference { name: link.name, index: link.index })
            .collect(),
        namespace: error.namespace,
        errno: error.errno,
        kernel_message: error.kernel_message,
        offset: error.offset,
        reason: error.reason,
        message: error.message,
    }
}

pub(crate) fn command(command: types::Command) -> Command {
    match command {
        types::Command::Add => Command::Add,
        types::Command::Check => Command::Check,
        types::Command::Del => Command::Del,
    }
}

pub(crate) fn mode(mode: types::Mode) -> Mode {
    match mode {
        types::Mode::Meta => Mode::Meta,
        types::Mode::Chained => Mode::Chained,
    }
}

pub(crate) fn document_from(document: types::Document) -> Document {
    Document { format: document.format, text: document.text }
}

pub(crate) fn document(document: Document) -> types::Document {
    types::Document { format: document.format, text: document.text }
}

pub(crate) fn error(error: Error) -> types::Error {
    match error {
        Error::InvalidConfig(text) => types::Error::InvalidConfig(text),
        Error::InvalidResult(text) => types::Error::InvalidResult(text),
        Error::Denied(text) => types::Error::Denied(text),
        Error::TryLater(text) => types::Error::TryLater(text),
        Error::Failed { code, message, details } => {
            types::Error::Failed(types::Failure { code, message, details })
        }
    }
}
