//! The capability `routes`: typed records on one side, the namespace's kernel on the other. Names become links
//! here; a guest never sees an interface index.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_routes::{Family, Hop, Kind, Prefix, Route, RouteSpec};

use super::bindings::catena::stage::routes as wit;
use super::host::State;
use crate::node::{Grants, LinkGrant, RouteGrant, RouteOp};
use crate::routes::error::{ErrorKind, RouteError};
use crate::routes::kernel::{Applied, ApplyFailure, Change, Scope, Undo};
use crate::routes::link::Link;

/// A call's answer before it gets its number: what was done, or what failed and whether it was undone.
type Answer<T> = Result<T, ApplyFailure>;

/// A failure before anything was changed.
fn unchanged(error: RouteError) -> ApplyFailure {
    ApplyFailure { errors: vec![error], undo: Undo::default(), changed: false }
}

/// What is needed to check and translate one call.
struct Desk<'a> {
    state: &'a mut State,
    operation: &'static str,
    grant: RouteGrant,
    links: Vec<Link>,
    scope: Scope,
}

impl<'a> Desk<'a> {
    fn open(state: &'a mut State, operation: &'static str) -> Answer<Self> {
        let links = state.host.kernel(operation).and_then(|kernel| kernel.links()).map_err(unchanged)?;
        // Linked only where granted, so there is one.
        let grant = state.grants.routes.clone().unwrap_or_else(|| RouteGrant::new([]));
        let mut scope = Scope { links: Vec::new(), tables: grant.tables.iter().copied().collect() };
        for link in &grant.links {
            match link {
                LinkGrant::Attachment => scope.links.extend(&state.host.scope.links),
                LinkGrant::Named(name) => {
                    scope
                        .links
                        .extend(links.iter().filter(|link| link.answers_to(name)).map(|link| link.index));
                }
            }
        }
        if !state.host.scope.tables.is_empty() {
            scope.tables.retain(|table| state.host.scope.tables.contains(table));
        }
        Ok(Self { state, operation, grant, links, scope })
    }

    fn error(&self, kind: ErrorKind, reason: String) -> RouteError {
        RouteError::new(kind, self.operation, &self.state.host.netns_path()).reason(reason)
    }

    /// A refusal that names the grant that would allow it.
    fn ungranted(&self, what: &str, widen: impl FnOnce(&mut RouteGrant)) -> RouteError {
        let mut grant = self.grant.clone();
        widen(&mut grant);
        let wanted = Grants { routes: Some(grant), ..Grants::default() };
        let name = &self.state.name;
        self.error(
            ErrorKind::Denied,
            format!("{what}; to allow it, grant {wanted} in modules.{name}.grants of node.json"),
        )
    }

    fn may(&self, op: RouteOp) -> Result<(), RouteError> {
        if op != RouteOp::Read && self.state.host.read_only {
            let reason = "routes are only changed on add, not on check or del".to_owned();
            return Err(self.error(ErrorKind::Denied, reason));
        }
        if self.grant.allows(op) {
            return Ok(());
        }
        Err(self.ungranted(&format!("the operation {:?} is not granted", op.as_str()), |grant| {
            grant.ops.insert(op);
        }))
    }

    fn table(&self, table: u32) -> Result<u32, RouteError> {
        if self.scope.has_table(table) {
            return Ok(table);
        }
        if self.grant.tables.contains(&table) {
            return Err(self.error(
                ErrorKind::Denied,
                format!("table {table} is not one that the attachment's config names"),
            ));
        }
        Err(self.ungranted(&format!("table {table} is not granted"), |grant| {
            grant.tables.insert(table);
        }))
    }

    /// The link that a guest named, if the grant covers it.
    fn link(&self, name: &str) -> Result<u32, RouteError> {
        let found = self.links.iter().find(|link| link.name == name);
        let found = found.or_else(|| self.links.iter().find(|link| link.answers_to(name)));
        let Some(link) = found else {
            return Err(self.error(ErrorKind::NoDevice, format!("there is no link {name:?}")));
        };
        if self.scope.has_link(link.index) {
            return Ok(link.index);
        }
        Err(self.ungranted(&format!("the link {name:?} is not the attachment's"), |grant| {
            grant.links.push(LinkGrant::Named(link.name.clone()));
        }))
    }

    fn name(&self, index: u32) -> String {
        let link = self.links.iter().find(|link| link.index == index);
        link.map_or_else(|| format!("if{index}"), |link| link.name.clone())
    }

    fn spec(&self, route: &wit::Route) -> Result<RouteSpec, RouteError> {
        let invalid = |reason: String| self.error(ErrorKind::Invalid, reason);
        let dst = Prefix::new(address(route.destination.address), route.destination.length)
            .map_err(|error| invalid(error.to_string()))?;
        let hops = route.next_hops.iter().map(|hop| {
            let weight = u8::try_from(hop.weight.wrapping_sub(1))
                .map_err(|_| invalid(format!("a weight is 1 to 256, not {}", hop.weight)))?;
            Ok(Hop {
                gateway: hop.gateway.map(address),
                link: self.link(&hop.link)?,
                weight,
                onlink: hop.onlink,
            })
        });
        Ok(RouteSpec {
            dst,
            kind: kind(route.kind),
            hops: hops.collect::<Result<_, _>>()?,
            metric: route.metric,
            table: self.table(route.table)?,
            tos: route.tos,
            protocol: route.protocol,
            scope: route.scope,
            source: route.source.map(address),
            mtu: route.mtu,
            advmss: route.advmss,
        })
    }

    fn change(&self, change: &wit::Change) -> Result<Change, RouteError> {
        match change {
            wit::Change::Add(route) => {
                self.may(RouteOp::Add)?;
                self.spec(route).map(Change::Add)
            }
            wit::Change::Delete(route) => {
                let spec = self.spec(route);
                let is_default = route.destination.length == 0;
                self.may(if is_default { RouteOp::DeleteDefault } else { RouteOp::Delete })?;
                spec.map(Change::Delete)
            }
            // It keeps a default route away that may be deleted.
            wit::Change::IgnoreRouterAdvertisements(link) => {
                self.may(RouteOp::DeleteDefault)?;
                self.link(link).map(Change::IgnoreRouterAdvertisements)
            }
        }
    }

    /// All changes, or everything that is wrong with any of them.
    fn changes(&self, changes: &[wit::Change]) -> Answer<Vec<Change>> {
        let (mut ready, mut errors) = (Vec::new(), Vec::new());
        for change in changes {
            match self.change(change) {
                Ok(change) => ready.push(change),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() {
            Ok(ready)
        } else {
            Err(ApplyFailure { errors, undo: Undo::default(), changed: false })
        }
    }

    fn list(&mut self, filter: wit::Filter) -> Answer<Vec<wit::Route>> {
        self.may(RouteOp::Read).map_err(unchanged)?;
        let table = self.table(filter.table).map_err(unchanged)?;
        let kernel = self.state.host.kernel(self.operation).map_err(unchanged)?;
        let routes = kernel.routes(family(filter.family), table).map_err(unchanged)?;
        let wanted =
            |route: &&Route| self.scope.touches(route) && (!filter.default_only || route.is_default());
        Ok(routes.iter().filter(wanted).map(|route| self.route(route)).collect())
    }

    fn apply(&mut self, changes: &[wit::Change]) -> Answer<wit::Report> {
        let changes = self.changes(changes)?;
        self.state.host.kernel(self.operation).map_err(unchanged)?;
        let host = &mut self.state.host;
        let Some(kernel) = host.kernel.as_mut() else { return Ok(self.report(&Applied::default())) };
        let applied = kernel.apply(&self.scope, &changes, &mut host.journal)?;
        Ok(self.report(&applied))
    }

    fn replace(
        &mut self,
        link: &str,
        family: Family,
        table: u32,
        wanted: &[wit::Route],
        keep_kernel: bool,
    ) -> Answer<wit::Report> {
        self.may(RouteOp::Replace).map_err(unchanged)?;
        let table = self.table(table).map_err(unchanged)?;
        let link = self.link(link).map_err(unchanged)?;
        let (specs, errors): (Vec<_>, Vec<_>) =
            wanted.iter().map(|route| self.spec(route)).partition(Result::is_ok);
        let errors: Vec<RouteError> = errors.into_iter().filter_map(Result::err).collect();
        if !errors.is_empty() {
            return Err(ApplyFailure { errors, undo: Undo::default(), changed: false });
        }
        let specs: Vec<RouteSpec> = specs.into_iter().filter_map(Result::ok).collect();
        self.state.host.kernel(self.operation).map_err(unchanged)?;
        let host = &mut self.state.host;
        let Some(kernel) = host.kernel.as_mut() else { return Ok(self.report(&Applied::default())) };
        let applied =
            kernel.replace(&self.scope, link, family, table, &specs, keep_kernel, &mut host.journal)?;
        Ok(self.report(&applied))
    }

    fn report(&self, applied: &Applied) -> wit::Report {
        wit::Report {
            added: applied.added.iter().map(|route| self.route(route)).collect(),
            deleted: applied.deleted.iter().map(|route| self.route(route)).collect(),
            notes: applied.notes.clone(),
        }
    }

    fn route(&self, route: &Route) -> wit::Route {
        let hop = |hop: &Hop| wit::NextHop {
            link: self.name(hop.link),
            gateway: hop.gateway.map(wit_address),
            weight: u16::from(hop.weight) + 1,
            onlink: hop.onlink,
        };
        wit::Route {
            destination: wit::Prefix { address: wit_address(route.dst.addr()), length: route.dst.len() },
            kind: wit_kind(route.kind),
            next_hops: route.hops.iter().map(hop).collect(),
            metric: Some(route.metric),
            table: route.table,
            tos: route.tos,
            protocol: Some(route.protocol),
            scope: Some(route.scope),
            source: route.source.map(wit_address),
            mtu: route.mtu,
            advmss: route.advmss,
        }
    }
}

impl State {
    /// One call of the capability: numbered, and recorded if it fails.
    fn routes_call<T>(
        &mut self,
        operation: &'static str,
        work: impl FnOnce(&mut Desk<'_>) -> Answer<T>,
    ) -> wasmtime::Result<Result<T, wit::Failure>> {
        let call = self.begin()?;
        let answer = Desk::open(self, operation).and_then(|mut desk| work(&mut desk));
        Ok(answer.map_err(|failure| {
            let errors = failure.errors.iter().map(wit_error).collect();
            let undo = match (failure.changed, failure.undo.exact) {
                (false, true) => wit::Undo::NotNeeded,
                (true, true) => wit::Undo::Exact,
                (_, false) => wit::Undo::Incomplete,
            };
            let leftover = failure.undo.leftover.clone();
            self.failed(call, failure.errors, failure.undo);
            wit::Failure { call, errors, undo, leftover }
        }))
    }
}

impl wit::Host for State {
    fn list(&mut self, filter: wit::Filter) -> wasmtime::Result<Result<Vec<wit::Route>, wit::Failure>> {
        self.routes_call("list", |desk| desk.list(filter))
    }

    fn add(&mut self, route: wit::Route) -> wasmtime::Result<Result<wit::Report, wit::Failure>> {
        self.routes_call("add", |desk| desk.apply(&[wit::Change::Add(route)]))
    }

    fn delete(&mut self, route: wit::Route) -> wasmtime::Result<Result<wit::Report, wit::Failure>> {
        self.routes_call("delete", |desk| desk.apply(&[wit::Change::Delete(route)]))
    }

    fn apply(&mut self, changes: Vec<wit::Change>) -> wasmtime::Result<Result<wit::Report, wit::Failure>> {
        self.routes_call("apply", |desk| desk.apply(&changes))
    }

    fn replace(
        &mut self,
        link: String,
        family: wit::Family,
        table: u32,
        wanted: Vec<wit::Route>,
        kernel: wit::KernelRoutes,
    ) -> wasmtime::Result<Result<wit::Report, wit::Failure>> {
        let keep = kernel == wit::KernelRoutes::Keep;
        self.routes_call("replace", |desk| desk.replace(&link, self::family(family), table, &wanted, keep))
    }
}

fn family(family: wit::Family) -> Family {
    match family {
        wit::Family::Ipv4 => Family::V4,
        wit::Family::Ipv6 => Family::V6,
    }
}

fn address(address: wit::IpAddress) -> IpAddr {
    match address {
        wit::IpAddress::Ipv4((a, b, c, d)) => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
        wit::IpAddress::Ipv6((a, b, c, d, e, f, g, h)) => IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)),
    }
}

fn wit_address(address: IpAddr) -> wit::IpAddress {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            wit::IpAddress::Ipv4((a, b, c, d))
        }
        IpAddr::V6(v6) => {
            let [a, b, c, d, e, f, g, h] = v6.segments();
            wit::IpAddress::Ipv6((a, b, c, d, e, f, g, h))
        }
    }
}

fn kind(kind: wit::RouteType) -> Kind {
    match kind {
        wit::RouteType::Unicast => Kind::Unicast,
        wit::RouteType::Local => Kind::Local,
        wit::RouteType::Broadcast => Kind::Broadcast,
        wit::RouteType::Anycast => Kind::Anycast,
        wit::RouteType::Multicast => Kind::Multicast,
        wit::RouteType::Blackhole => Kind::Blackhole,
        wit::RouteType::Unreachable => Kind::Unreachable,
        wit::RouteType::Prohibit => Kind::Prohibit,
        wit::RouteType::Throw => Kind::Throw,
    }
}

fn wit_kind(kind: Kind) -> wit::RouteType {
    match kind {
        Kind::Unicast => wit::RouteType::Unicast,
        Kind::Local => wit::RouteType::Local,
        Kind::Broadcast => wit::RouteType::Broadcast,
        Kind::Anycast => wit::RouteType::Anycast,
        Kind::Multicast => wit::RouteType::Multicast,
        Kind::Blackhole => wit::RouteType::Blackhole,
        Kind::Unreachable => wit::RouteType::Unreachable,
        Kind::Prohibit => wit::RouteType::Prohibit,
        Kind::Throw => wit::RouteType::Throw,
    }
}

fn wit_error(error: &RouteError) -> wit::RouteError {
    wit::RouteError {
        kind: wit_error_kind(error.kind),
        operation: error.operation.to_owned(),
        family: error.family.map(|family| match family {
            Family::V4 => wit::Family::Ipv4,
            Family::V6 => wit::Family::Ipv6,
        }),
        route: error.route.clone(),
        // The index is the host's business.
        link: error.link.as_ref().map(|link| link.split(" (").next().unwrap_or(link).to_owned()),
        errno: error.errno.map(|errno| errno.to_string()),
        message: error.to_string(),
    }
}

fn wit_error_kind(kind: ErrorKind) -> wit::ErrorKind {
    match kind {
        ErrorKind::Denied => wit::ErrorKind::Denied,
        ErrorKind::Invalid => wit::ErrorKind::Invalid,
        ErrorKind::NotFound => wit::ErrorKind::NotFound,
        ErrorKind::Exists => wit::ErrorKind::Exists,
        ErrorKind::Conflict => wit::ErrorKind::Conflict,
        ErrorKind::NoDevice => wit::ErrorKind::NoDevice,
        ErrorKind::LinkDown => wit::ErrorKind::LinkDown,
        ErrorKind::GatewayUnreachable => wit::ErrorKind::GatewayUnreachable,
        ErrorKind::BadSource => wit::ErrorKind::BadSource,
        ErrorKind::Permission => wit::ErrorKind::Permission,
        ErrorKind::Ipv6Disabled => wit::ErrorKind::Ipv6Disabled,
        ErrorKind::Busy => wit::ErrorKind::Busy,
        ErrorKind::Interrupted => wit::ErrorKind::Interrupted,
        ErrorKind::Lost => wit::ErrorKind::Lost,
        ErrorKind::Timeout => wit::ErrorKind::Timeout,
        ErrorKind::WrongRoute => wit::ErrorKind::WrongRoute,
        ErrorKind::Verify => wit::ErrorKind::Verify,
        ErrorKind::Namespace => wit::ErrorKind::Namespace,
        ErrorKind::Other => wit::ErrorKind::Other,
    }
}
