//! The capability `routes`: typed records on one side, a routing table on the other: the namespace's kernel,
//! or one that was recorded. Names become links here; a guest never sees an interface index.

use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catena_routes::{Family, Hop, Kind, LinkRef, Prefix, Route, RouteSpec};

use super::bindings::catena::stage::routes as wit;
use super::host::State;
use super::limits;
use super::text::plain;
use crate::inject;
use crate::node::{Grants, LinkGrant, RouteGrant, RouteOp};
use crate::routes::error::{ErrorKind, RouteError};
use crate::routes::kernel::{Applied, ApplyFailure, Change, Scope, Undo};
use crate::routes::link::Link;

/// A call's answer before it gets its number: what was done, or what failed and whether it was undone.
type Answer<T> = Result<T, ApplyFailure>;

/// A failure before anything was changed.
pub(super) fn unchanged(error: RouteError) -> ApplyFailure {
    ApplyFailure { errors: vec![error], undo: Undo::default(), changed: false }
}

/// The error with the route that it is about, which is a guest's and perhaps none that there can be.
fn about(mut error: RouteError, route: &wit::Route) -> RouteError {
    let destination = address(route.destination.address);
    error.family = Some(Family::of(destination));
    let mut text = match route.kind {
        wit::RouteType::Unicast => String::new(),
        other => format!("{} ", kind(other)),
    };
    text += &match route.destination.length {
        0 => "default".to_owned(),
        length => format!("{destination}/{length}"),
    };
    if let Some(from) = &route.source_prefix {
        text += &format!(" from {}/{}", address(from.address), from.length);
    }
    for hop in &route.next_hops {
        if text.len() > limits::ROUTE {
            break;
        }
        if route.next_hops.len() > 1 {
            text += " nexthop";
        }
        if let Some(gateway) = hop.gateway {
            text += &format!(" via {}", address(gateway));
        }
        text += &format!(" dev {}", plain(&hop.link, limits::NAME));
    }
    if let Some(metric) = route.metric {
        text += &format!(" metric {metric}");
    }
    error.route = Some(plain(&text, limits::ROUTE));
    error
}

fn about_links(mut error: RouteError, links: &[&Link]) -> RouteError {
    error.links = links.iter().map(|link| LinkRef { index: link.index, name: link.name.clone() }).collect();
    error
}

/// What stands in a [`Scope`] for routes without a link.
const NO_LINK: u32 = 0;

/// What is needed to check and translate one call.
struct Desk<'a> {
    state: &'a mut State,
    operation: &'static str,
    grant: RouteGrant,
    links: Vec<Link>,
    scope: Scope,
}

impl<'a> Desk<'a> {
    fn open(state: &'a mut State, operation: &'static str) -> Self {
        // Linked only where granted, so there is one.
        let grant = state.grants.routes.clone().unwrap_or_else(|| RouteGrant::new([]));
        let mut scope = Scope { links: Vec::new(), tables: grant.tables.iter().copied().collect() };
        for link in &grant.links {
            match link {
                LinkGrant::Attachment => scope.links.extend(&state.host.scope.links),
                LinkGrant::NoLink => scope.links.push(NO_LINK),
                LinkGrant::Named(_) => {}
            }
        }
        let links = mem::take(&mut state.host.links);
        Self { state, operation, grant, links, scope }
    }

    /// Keeps the links for the next call's names.
    fn close(self) {
        self.state.host.links = self.links;
    }

    /// Whether links are granted by name.
    fn has_names(&self) -> bool {
        self.grant.links.iter().any(|link| matches!(link, LinkGrant::Named(_)))
    }

    /// Reads the links: for what is granted by name, and for whatever has to be named.
    fn look(&mut self) -> Answer<()> {
        let table = self.state.host.backend.table(self.operation);
        self.links = table.and_then(|table| table.links()).map_err(unchanged)?;
        for grant in &self.grant.links {
            if let LinkGrant::Named(name) = grant {
                let named = self.links.iter().filter(|link| link.answers_to(name));
                self.scope.links.extend(named.map(|link| link.index));
            }
        }
        Ok(())
    }

    fn error(&self, kind: ErrorKind, reason: String) -> RouteError {
        RouteError::new(kind, self.operation, self.state.host.backend.namespace()).reason(reason)
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
        Err(self.ungranted(&format!("table {table} is not granted"), |grant| {
            grant.tables.insert(table);
        }))
    }

    /// The link that a guest named, if the grant covers it.
    fn link(&self, name: &str) -> Result<u32, RouteError> {
        let found = Link::named(&self.links, name);
        let name = plain(name, limits::NAME);
        let mut covered = found.iter().filter(|link| self.scope.has_link(link.index));
        match (covered.next(), covered.next(), found.as_slice()) {
            (Some(link), None, _) => Ok(link.index),
            (_, _, []) => Err(self.error(ErrorKind::NoDevice, format!("there is no link \"{name}\""))),
            (_, _, [link]) => {
                let what = format!("the link \"{name}\" is not the attachment's");
                let grant = LinkGrant::Named(link.name.clone());
                let error = self.ungranted(&what, |wanted| wanted.links.push(grant));
                Err(about_links(error, &found))
            }
            (_, _, several) => {
                let names: Vec<&str> = several.iter().map(|link| link.name.as_str()).collect();
                let reason = format!(
                    "several links have the address \"{name}\": {}; name one of them",
                    names.join(", ")
                );
                Err(about_links(self.error(ErrorKind::Invalid, reason), &found))
            }
        }
    }

    /// A type of route that has no link is granted by itself.
    fn kind(&self, route_type: wit::RouteType) -> Result<Kind, RouteError> {
        let kind = kind(route_type);
        if kind.rejects() && !self.scope.has_link(NO_LINK) {
            let what = format!("a route of type {kind} has no link, and such routes are not granted");
            return Err(self.ungranted(&what, |grant| grant.links.push(LinkGrant::NoLink)));
        }
        Ok(kind)
    }

    fn name(&self, index: u32) -> String {
        let link = self.links.iter().find(|link| link.index == index);
        link.map_or_else(|| format!("if{index}"), |link| link.name.clone())
    }

    fn spec(&self, route: &wit::Route) -> Result<RouteSpec, RouteError> {
        let invalid = |reason: String| self.error(ErrorKind::Invalid, reason);
        let prefix = |prefix: &wit::Prefix| {
            Prefix::new(address(prefix.address), prefix.length).map_err(|error| invalid(error.to_string()))
        };
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
            dst: prefix(&route.destination)?,
            from: route.source_prefix.as_ref().map(prefix).transpose()?,
            kind: self.kind(route.kind)?,
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
                let spec = self.may(RouteOp::Add).and_then(|()| self.spec(route));
                spec.map(Change::Add).map_err(|error| about(error, route))
            }
            wit::Change::Delete(route) => {
                let is_default = route.destination.length == 0;
                let op = if is_default { RouteOp::DeleteDefault } else { RouteOp::Delete };
                let spec = self.may(op).and_then(|()| self.spec(route));
                spec.map(Change::Delete).map_err(|error| about(error, route))
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
        if self.has_names() {
            self.look()?;
        }
        let backend = self.state.host.backend.table(self.operation).map_err(unchanged)?;
        let family = family(filter.family);
        let routes = match self.scope.links.as_slice() {
            // Most often: a pod's table grows with its attachments, and this attachment's routes do not.
            [link] if *link != NO_LINK => backend.routes_of(family, table, *link),
            _ => backend.routes(family, table),
        };
        let routes = routes.map_err(unchanged)?;
        let wanted = |route: &&Route| {
            self.scope.touches(route) && route.can_be_named() && (!filter.default_only || route.is_default())
        };
        let routes: Vec<&Route> = routes.iter().filter(wanted).collect();
        let has_name = |hop: &Hop| self.links.iter().any(|link| link.index == hop.link);
        if !routes.iter().all(|route| route.hops.iter().all(has_name)) {
            self.look()?;
        }
        Ok(routes.into_iter().map(|route| self.route(route)).collect())
    }

    fn apply(&mut self, changes: &[wit::Change]) -> Answer<wit::Report> {
        self.look()?;
        let changes = self.changes(changes)?;
        let host = &mut self.state.host;
        let backend = host.backend.table(self.operation).map_err(unchanged)?;
        let applied = backend.apply(&self.scope, &changes, &mut host.journal)?;
        inject::point("wasm/routes");
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
        self.look()?;
        self.may(RouteOp::Replace).map_err(unchanged)?;
        let table = self.table(table).map_err(unchanged)?;
        let link = self.link(link).map_err(unchanged)?;
        let (specs, errors): (Vec<_>, Vec<_>) =
            wanted.iter().map(|route| self.spec(route).map_err(|e| about(e, route))).partition(Result::is_ok);
        let errors: Vec<RouteError> = errors.into_iter().filter_map(Result::err).collect();
        if !errors.is_empty() {
            return Err(ApplyFailure { errors, undo: Undo::default(), changed: false });
        }
        let specs: Vec<RouteSpec> = specs.into_iter().filter_map(Result::ok).collect();
        let host = &mut self.state.host;
        let backend = host.backend.table(self.operation).map_err(unchanged)?;
        let applied =
            backend.replace(&self.scope, link, family, table, &specs, keep_kernel, &mut host.journal)?;
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
            destination: wit_prefix(route.dst),
            source_prefix: route.from.map(wit_prefix),
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
        let mut desk = Desk::open(self, operation);
        let answer = work(&mut desk);
        desk.close();
        let failure = match answer {
            Ok(answer) => return Ok(Ok(answer)),
            Err(failure) => failure,
        };
        let errors = failure.errors.iter().map(wit_error).collect();
        let undo = match (failure.changed, failure.undo.exact) {
            (false, true) => wit::Undo::NotNeeded,
            (true, true) => wit::Undo::Exact,
            (_, false) => wit::Undo::Incomplete,
        };
        let leftover = failure.undo.leftover.clone();
        self.failed(call, failure)?;
        Ok(Err(wit::Failure { call, errors, undo, leftover }))
    }
}

impl wit::Host for State {
    fn list(&mut self, filter: wit::Filter) -> wasmtime::Result<Result<Vec<wit::Route>, wit::Failure>> {
        self.routes_call("list", |desk| desk.list(filter))
    }

    fn add(&mut self, route: wit::Route) -> wasmtime::Result<Result<wit::Report, wit::Failure>> {
        self.begin_changes([route.next_hops.len()].into_iter())?;
        self.routes_call("add", |desk| desk.apply(&[wit::Change::Add(route)]))
    }

    fn delete(&mut self, route: wit::Route) -> wasmtime::Result<Result<wit::Report, wit::Failure>> {
        self.begin_changes([route.next_hops.len()].into_iter())?;
        self.routes_call("delete", |desk| desk.apply(&[wit::Change::Delete(route)]))
    }

    fn apply(&mut self, changes: Vec<wit::Change>) -> wasmtime::Result<Result<wit::Report, wit::Failure>> {
        self.begin_changes(changes.iter().map(|change| match change {
            wit::Change::Add(route) | wit::Change::Delete(route) => route.next_hops.len(),
            wit::Change::IgnoreRouterAdvertisements(_) => 0,
        }))?;
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
        self.begin_changes(wanted.iter().map(|route| route.next_hops.len()))?;
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

fn wit_prefix(prefix: Prefix) -> wit::Prefix {
    wit::Prefix { address: wit_address(prefix.addr()), length: prefix.len() }
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
        links: error
            .links
            .iter()
            .map(|link| wit::LinkReference { name: link.name.clone(), index: link.index })
            .collect(),
        namespace: error.netns.clone(),
        errno: error.errno.map(|errno| errno.to_string()),
        kernel_message: error.kernel_message.clone(),
        offset: error.offset,
        reason: error.reason.clone(),
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

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::wit::Host as _;
    use super::*;
    use crate::node::At;
    use crate::node::Limits;
    use crate::routes::backend::Backend;
    use crate::routes::journal::Journal;
    use crate::routes::kernel::UndoTime;
    use crate::routes::netns::Netns;
    use crate::wasm::host::Host;

    /// Runs a test again in a network namespace of its own.
    fn in_namespace(name: &str, work: impl FnOnce()) {
        const MARK: &str = "CATENA_TEST_IN_NAMESPACE";
        if std::env::var_os(MARK).is_some() {
            return work();
        }
        let test = format!("{}::{name}", module_path!().split_once("::").unwrap().1);
        let status = Command::new("unshare")
            .args(["--map-root-user", "--net", "--"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", &test, "--nocapture"])
            .env(MARK, "1")
            .output()
            .expect("unshare(1) from util-linux");
        assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
        assert!(String::from_utf8_lossy(&status.stdout).contains("1 passed"), "{test} was not found");
    }

    fn ip(arguments: &str) {
        let output = Command::new("ip").args(arguments.split(' ')).output().expect("ip(8) from iproute2");
        assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Two linked interfaces; `mine` is the attachment's and has the default route.
    fn state(grant: Value) -> State {
        ip("link add mine address 02:00:00:00:00:01 type veth peer name other");
        ip("address add 10.9.0.1/24 dev mine");
        ip("address add 10.8.0.1/24 dev other");
        ip("link set mine up");
        ip("link set other up");
        ip("route add default via 10.9.0.2 dev mine");
        again(grant)
    }

    fn again(grant: Value) -> State {
        let grants = Grants::parse(At::Document, &json!({ "routes": grant })).unwrap();
        let mut host = Host::new("c1", Scope::default(), false);
        host.backend = Backend::kernel(&Netns::current().unwrap());
        let mine = host.backend.table("links").unwrap().find_link("mine").unwrap().unwrap();
        host.scope = Scope { links: vec![mine.index], tables: Vec::new() };
        State::new(host, "gw".into(), Arc::new(grants), Limits::default(), None)
    }

    fn defaults(state: &mut State) -> Vec<wit::Route> {
        let filter = wit::Filter { family: wit::Family::Ipv4, default_only: true, table: 254 };
        state.list(filter).unwrap().unwrap()
    }

    fn default_via(gateway: u8, link: &str) -> wit::Route {
        wit::Route {
            destination: wit::Prefix { address: wit::IpAddress::Ipv4((0, 0, 0, 0)), length: 0 },
            source_prefix: None,
            kind: wit::RouteType::Unicast,
            next_hops: vec![wit::NextHop {
                link: link.into(),
                gateway: Some(wit::IpAddress::Ipv4((10, 9, 0, gateway))),
                weight: 1,
                onlink: false,
            }],
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

    /// The only error of a failed call.
    fn error<T: std::fmt::Debug>(
        answer: wasmtime::Result<Result<T, wit::Failure>>,
    ) -> (wit::ErrorKind, String) {
        let failure = answer.unwrap().unwrap_err();
        assert_eq!((failure.errors.len(), failure.undo), (1, wit::Undo::NotNeeded));
        (failure.errors[0].kind, failure.errors[0].message.clone())
    }

    #[test]
    fn routes_of_the_attachment() {
        in_namespace("routes_of_the_attachment", || {
            let mut state = state(json!({"ops": ["read", "delete-default", "add"]}));
            let before = defaults(&mut state);
            assert_eq!(before.len(), 1);
            assert_eq!(before[0].next_hops[0].link, "mine");
            let report = state.delete(before[0].clone()).unwrap().unwrap();
            assert_eq!((report.deleted.len(), report.added.len()), (1, 0));
            assert!(defaults(&mut state).is_empty());
            // A link has other names than its name.
            let report = state.add(default_via(3, "02:00:00:00:00:01")).unwrap().unwrap();
            assert_eq!(report.added[0].next_hops[0].link, "mine");
            assert_eq!(state.host.journal.entries().len(), 2);
            assert!(state.host.failed_calls.is_empty());
        });
    }

    #[test]
    fn what_is_not_granted_is_denied_with_the_grant() {
        in_namespace("what_is_not_granted_is_denied_with_the_grant", || {
            let mut state = state(json!({"ops": ["read", "delete-default"]}));
            let (kind, text) = error(state.add(default_via(3, "mine")));
            assert_eq!(kind, wit::ErrorKind::Denied);
            let grant = r#"{"routes":{"links":["@attachment"],"ops":["read","delete-default","add"],"tables":[254]}}"#;
            assert!(text.contains(grant) && text.contains("modules.gw.grants"), "{text}");

            let mut host = wit::Route { table: 100, ..default_via(2, "mine") };
            let (kind, text) = error(state.delete(host.clone()));
            assert!(kind == wit::ErrorKind::Denied && text.contains(r#""tables":[100,254]"#), "{text}");

            (host.table, host.next_hops[0].link) = (254, "other".into());
            let (kind, text) = error(state.delete(host.clone()));
            assert!(
                kind == wit::ErrorKind::Denied && text.contains(r#""links":["@attachment","other"]"#),
                "{text}"
            );

            host.destination.length = 8;
            host.destination.address = wit::IpAddress::Ipv4((10, 0, 0, 0));
            host.next_hops[0].link = "mine".into();
            let (kind, text) = error(state.delete(host));
            assert!(kind == wit::ErrorKind::Denied && text.contains(r#""delete""#), "{text}");

            let (kind, text) = error(state.replace(
                "mine".into(),
                wit::Family::Ipv4,
                254,
                Vec::new(),
                wit::KernelRoutes::Keep,
            ));
            assert!(kind == wit::ErrorKind::Denied && text.contains(r#""replace""#), "{text}");

            let ignore = wit::Change::IgnoreRouterAdvertisements("other".into());
            assert_eq!(error(state.apply(vec![ignore])).0, wit::ErrorKind::Denied);

            assert_eq!(defaults(&mut state).len(), 1, "nothing was touched");
            let calls: Vec<u32> = state.host.failed_calls.iter().map(|failed| failed.call).collect();
            assert_eq!(calls, [1, 2, 3, 4, 5, 6]);
            assert!(state.host.journal.is_empty());
        });
    }

    #[test]
    fn a_named_link_and_table_are_granted() {
        in_namespace("a_named_link_and_table_are_granted", || {
            let grant = json!({"links": ["other"], "ops": ["read", "add", "delete"], "tables": [100]});
            let mut state = state(grant.clone());
            let mut route = default_via(2, "other");
            route.table = 100;
            route.next_hops[0].gateway = Some(wit::IpAddress::Ipv4((10, 8, 0, 2)));
            state.add(route.clone()).unwrap().unwrap();
            assert_eq!(
                error(state.add(wit::Route { table: 254, ..route.clone() })).0,
                wit::ErrorKind::Denied
            );
            let filter = wit::Filter { family: wit::Family::Ipv4, default_only: false, table: 100 };
            assert_eq!(state.list(filter).unwrap().unwrap().len(), 1);
            state.delete(route).unwrap().unwrap();
            assert!(state.list(filter).unwrap().unwrap().is_empty());
        });
    }

    /// Records to compare.
    fn texts(routes: &[wit::Route]) -> Vec<String> {
        routes.iter().map(|route| format!("{route:?}")).collect()
    }

    fn default_of(family: wit::Family, state: &mut State) -> Vec<wit::Route> {
        state.list(wit::Filter { family, default_only: true, table: 254 }).unwrap().unwrap()
    }

    /// What is listed can be deleted as it is, and nothing else goes.
    #[test]
    fn a_route_for_some_sources_only() {
        in_namespace("a_route_for_some_sources_only", || {
            let mut state = state(json!({"ops": ["read", "delete-default", "add"]}));
            ip("-6 address add fd00:9::1/64 dev mine nodad");
            ip("-6 route add default via fd00:9::2 dev mine");
            ip("-6 route add default from 2001:db8::/64 via fd00:9::2 dev mine");
            ip("-6 route add default from 2001:db8:1::/64 via fd00:9::2 dev mine");
            let found = default_of(wit::Family::Ipv6, &mut state);
            assert_eq!(found.len(), 3, "{found:?}");
            for route in found {
                let this = texts(std::slice::from_ref(&route));
                let mut left = texts(&default_of(wit::Family::Ipv6, &mut state));
                state.delete(route.clone()).unwrap().unwrap();
                left.retain(|other| *other != this[0]);
                assert_eq!(texts(&default_of(wit::Family::Ipv6, &mut state)), left);
                // It is added again from its own record.
                let report = state.add(route.clone()).unwrap().unwrap();
                assert_eq!(texts(&report.added), this);
                state.delete(route.clone()).unwrap().unwrap();
                let (kind, text) = error(state.delete(route));
                assert!(kind == wit::ErrorKind::NotFound, "{text}");
            }
            let host = &mut state.host;
            let undo = host.backend.table("undo").unwrap().undo(&mut host.journal, Journal::start());
            assert!(undo.exact, "{undo:?}");
            assert_eq!(default_of(wit::Family::Ipv6, &mut state).len(), 3);

            let mut wrong = default_via(3, "mine");
            wrong.source_prefix =
                Some(wit::Prefix { address: wit::IpAddress::Ipv4((10, 9, 0, 0)), length: 16 });
            let (kind, text) = error(state.add(wrong));
            assert!(kind == wit::ErrorKind::Invalid && text.contains("source prefix"), "{text}");
        });
    }

    #[test]
    fn routes_without_a_link_are_granted_by_themselves() {
        in_namespace("routes_without_a_link_are_granted_by_themselves", || {
            let mut state = state(json!({"ops": ["read", "delete", "add"]}));
            ip("route add blackhole 10.7.0.0/16");
            let everything = || wit::Filter { family: wit::Family::Ipv4, default_only: false, table: 254 };
            let before = texts(&state.list(everything()).unwrap().unwrap());
            let hole = wit::Route {
                destination: wit::Prefix { address: wit::IpAddress::Ipv4((10, 6, 0, 0)), length: 16 },
                kind: wit::RouteType::Prohibit,
                next_hops: Vec::new(),
                ..default_via(2, "mine")
            };
            for answer in [state.add(hole.clone()), state.delete(hole.clone())] {
                let (kind, text) = error(answer);
                assert_eq!(kind, wit::ErrorKind::Denied);
                assert!(text.contains(r#""links":["@attachment","@none"]"#), "{text}");
            }
            let grants = json!({"links": ["@attachment", "@none"], "ops": ["read", "delete", "add"]});
            let mut state = again(grants);
            let added = state.add(hole).unwrap().unwrap().added.remove(0);
            assert_eq!((added.kind, added.next_hops.len()), (wit::RouteType::Prohibit, 0));
            let now = state.list(everything()).unwrap().unwrap();
            assert_eq!(now.len(), before.len() + 2);
            for hole in now.into_iter().filter(|route| route.next_hops.is_empty()) {
                state.delete(hole).unwrap().unwrap();
            }
            assert_eq!(texts(&state.list(everything()).unwrap().unwrap()), before);
        });
    }

    #[test]
    fn what_a_record_cannot_say_is_not_listed() {
        in_namespace("what_a_record_cannot_say_is_not_listed", || {
            let mut state = state(
                json!({"links": ["@attachment", "@none"], "ops": ["read", "delete", "delete-default"]}),
            );
            let everything = || wit::Filter { family: wit::Family::Ipv4, default_only: false, table: 254 };
            let before = texts(&state.list(everything()).unwrap().unwrap());
            ip("link set lo up");
            ip("nexthop add id 7 blackhole");
            ip("route add 10.7.0.0/16 nhid 7");
            assert_eq!(texts(&state.list(everything()).unwrap().unwrap()), before);
            ip("nexthop add id 8 via 10.9.0.2 dev mine");
            ip("route add 10.6.0.0/16 nhid 8");
            let now = state.list(everything()).unwrap().unwrap();
            let is_new = |route: &wit::Route| !before.contains(&format!("{route:?}"));
            let with_object: Vec<_> = now.into_iter().filter(is_new).collect();
            assert_eq!(with_object.len(), 1, "{with_object:?}");
            let (hops, wanted) = (&with_object[0].next_hops, default_via(2, "mine").next_hops);
            assert_eq!(format!("{hops:?}"), format!("{wanted:?}"));
            state.delete(with_object[0].clone()).unwrap().unwrap();
            assert_eq!(texts(&state.list(everything()).unwrap().unwrap()), before);
            let host = &mut state.host;
            let undo = host.backend.table("undo").unwrap().undo(&mut host.journal, Journal::start());
            assert!(undo.exact, "{undo:?}");
            assert_eq!(state.list(everything()).unwrap().unwrap().len(), before.len() + 1);
        });
    }

    #[test]
    fn an_address_of_several_links() {
        in_namespace("an_address_of_several_links", || {
            let mut state = state(json!({"ops": ["read", "add", "delete"]}));
            const MAC: &str = "02:00:00:00:00:01";
            ip("link set other address 02:00:00:00:00:01");
            // The attachment's, though it is not the only one.
            let mut route = default_via(2, MAC);
            route.destination.length = 32;
            route.destination.address = wit::IpAddress::Ipv4((10, 5, 0, 1));
            let report = state.add(route.clone()).unwrap().unwrap();
            assert_eq!(report.added[0].next_hops[0].link, "mine");
            // Two of the granted ones, and none of them.
            for grant in [
                json!({"links": ["mine", "other"], "ops": ["delete"]}),
                json!({"links": ["third"], "ops": ["delete"]}),
            ] {
                let (kind, text) = error(again(grant).delete(route.clone()));
                assert_eq!(kind, wit::ErrorKind::Invalid);
                for part in [MAC, "mine", "other", "name one"] {
                    assert!(text.contains(part), "{part} in {text}");
                }
            }
            route.next_hops[0].link = "02:00:00:00:00:77".into();
            assert_eq!(error(state.delete(route)).0, wit::ErrorKind::NoDevice);
        });
    }

    #[test]
    fn on_check_nothing_is_changed() {
        in_namespace("on_check_nothing_is_changed", || {
            let mut state = state(json!({"ops": ["read", "delete", "add", "replace"]}));
            state.host.read_only = true;
            let found = defaults(&mut state);
            let (kind, text) = error(state.delete(found[0].clone()));
            assert!(kind == wit::ErrorKind::Denied && text.contains("on check or del"), "{text}");
            assert_eq!(defaults(&mut state).len(), 1);
        });
    }

    #[test]
    fn nonsense_is_told_completely() {
        in_namespace("nonsense_is_told_completely", || {
            let mut state = state(json!({"ops": ["read", "delete", "add"]}));
            let mut heavy = default_via(3, "mine");
            heavy.next_hops[0].weight = 257;
            let mut host_bits = default_via(3, "mine");
            host_bits.destination = wit::Prefix { address: wit::IpAddress::Ipv4((10, 1, 2, 3)), length: 8 };
            let changes = [default_via(3, "nothing"), heavy, host_bits, default_via(3, "mine")];
            let failure =
                state.apply(changes.into_iter().map(wit::Change::Add).collect()).unwrap().unwrap_err();
            let kinds: Vec<wit::ErrorKind> = failure.errors.iter().map(|error| error.kind).collect();
            assert_eq!(kinds, [wit::ErrorKind::NoDevice, wit::ErrorKind::Invalid, wit::ErrorKind::Invalid]);
            let first = &failure.errors[0];
            assert_eq!(
                (first.family, first.route.as_deref(), first.reason.as_deref()),
                (
                    Some(wit::Family::Ipv4),
                    Some("default via 10.9.0.3 dev nothing"),
                    Some("there is no link \"nothing\"")
                )
            );
            assert_eq!(defaults(&mut state).len(), 1);
            // What the kernel itself refuses.
            let mut far = default_via(3, "mine");
            far.metric = Some(7);
            far.next_hops[0].gateway = Some(wit::IpAddress::Ipv4((192, 0, 2, 1)));
            let failure = state.add(far).unwrap().unwrap_err();
            assert_eq!((failure.call, failure.errors[0].kind), (3, wit::ErrorKind::GatewayUnreachable));
            let [error] = &*failure.errors else { panic!("{failure:?}") };
            assert_eq!((error.operation.as_str(), error.family), ("add", Some(wit::Family::Ipv4)));
            assert_eq!(error.route.as_deref(), Some("default via 192.0.2.1 dev mine proto static metric 7"));
            let links: Vec<(&str, u32)> =
                error.links.iter().map(|link| (link.name.as_str(), link.index)).collect();
            assert_eq!(links, [("mine", state.host.scope.links[0])]);
            assert_eq!(error.namespace, state.host.backend.namespace());
            assert_eq!(error.errno.as_deref(), Some("ENETUNREACH"));
            assert_eq!(error.kernel_message.as_deref(), Some("Nexthop has invalid gateway"));
            assert_eq!(error.reason.as_deref(), Some("the gateway is not reachable on this link"));
        });
    }

    /// On a recorded table with one link.
    fn recorded() -> State {
        let grants = Grants::parse(At::Document, &json!({"routes": {"ops": ["read", "add"]}})).unwrap();
        let mut host = Host::new("c1", Scope { links: vec![2], tables: Vec::new() }, false);
        let links = vec![Link::simulated(2, "mine")];
        host.backend = Backend::recorded(catena_routes::Snapshot { links, ..Default::default() });
        State::new(host, "gw".into(), Arc::new(grants), Limits::default(), None)
    }

    fn adds(count: usize, link: &str) -> Vec<wit::Change> {
        vec![wit::Change::Add(default_via(3, link)); count]
    }

    #[test]
    fn failures_take_bounded_room() {
        let mut state = recorded();
        let name = "x".repeat(100_000);
        let failure = state.apply(adds(20, &name)).unwrap().unwrap_err();
        assert_eq!(failure.errors.len(), 20, "the guest is told all");
        assert!(failure.errors[0].message.len() < 1000, "{}", failure.errors[0].message.len());
        for _ in 0..3 {
            state.apply(adds(1024, "nothing")).unwrap().unwrap_err();
        }
        // Refused for lack of a grant, though the error itself has no room any more.
        state.delete(default_via(3, "mine")).unwrap().unwrap_err();
        let failed = &state.host.failed_calls;
        let kept: Vec<(usize, usize, bool)> =
            failed.iter().map(|failed| (failed.errors.len(), failed.more, failed.denied)).collect();
        assert_eq!(
            kept,
            [(20, 0, false), (44, 980, false), (0, 1024, false), (0, 1024, false), (0, 1, true)]
        );
    }

    #[test]
    fn changes_are_counted_before_anything_is_made_of_them() {
        let exceeded = |error: wasmtime::Error| error.downcast_ref::<limits::Exceeded>().unwrap().what;
        let mut state = recorded();
        let what = exceeded(state.apply(adds(1025, "mine")).unwrap_err());
        assert_eq!(what, "route changes in one call");
        let many = vec![default_via(3, "mine"); 1025];
        let (family, kernel) = (wit::Family::Ipv4, wit::KernelRoutes::Keep);
        let what = exceeded(state.replace("mine".into(), family, 254, many, kernel).unwrap_err());
        assert_eq!(what, "route changes in one call");
        assert!(state.host.failed_calls.is_empty());

        let mut state = recorded();
        for _ in 0..4 {
            state.apply(adds(1024, "nothing")).unwrap().unwrap_err();
        }
        assert_eq!(exceeded(state.add(default_via(3, "mine")).unwrap_err()), "route changes in one run");

        let mut wide = default_via(3, "mine");
        wide.next_hops = vec![wide.next_hops[0].clone(); 257];
        assert_eq!(exceeded(recorded().add(wide).unwrap_err()), "next hops of a route");
    }

    #[test]
    fn what_begins_too_late_is_not_done() {
        in_namespace("what_begins_too_late_is_not_done", || {
            let mut state = state(json!({"ops": ["read", "delete-default", "add"]}));
            let before = defaults(&mut state);
            state.delete(before[0].clone()).unwrap().unwrap();
            let past = std::time::Instant::now();
            state.host.until = Some(past);
            let filter = wit::Filter { family: wit::Family::Ipv4, default_only: true, table: 254 };
            assert!(state.list(filter).unwrap_err().downcast_ref::<limits::Late>().is_some());
            // In the middle of a call it is an error of that call; what was done can still be undone in a time of its own.
            let Backend::Kernel(kernel) = &mut state.host.backend else { unreachable!() };
            let within = std::time::Duration::from_secs(30);
            kernel.set_undo(UndoTime { within, by: past + within });
            kernel.set_until(Some(past));
            let table = state.host.backend.table("list").unwrap();
            let error = table.routes(Family::V4, 254).unwrap_err();
            assert!(error.kind == ErrorKind::Timeout && error.to_string().contains("not sent"), "{error}");
            let undo = table.undo(&mut state.host.journal, crate::routes::journal::Journal::start());
            assert!(undo.exact, "{undo:?}");
            state.host.until = None;
            assert_eq!(defaults(&mut state).len(), 1);
        });
    }

    #[test]
    fn the_place_that_the_kernel_objects_to_crosses() {
        let mut error = RouteError::new(ErrorKind::Other, "list", "/run/netns/p");
        error.offset = Some(44);
        let error = wit_error(&error);
        assert_eq!((error.offset, error.namespace.as_str()), (Some(44), "/run/netns/p"));
        assert!(error.message.contains("at byte 44"), "{}", error.message);
    }

    #[test]
    fn without_a_namespace_every_call_fails() {
        let grants = Grants::parse(At::Document, &json!({"routes": {"ops": ["read"]}})).unwrap();
        let host = Host::new("c1", Scope::default(), false);
        let mut state = State::new(host, "gw".into(), Arc::new(grants), Limits::default(), None);
        let filter = wit::Filter { family: wit::Family::Ipv4, default_only: true, table: 254 };
        assert_eq!(error(state.list(filter)).0, wit::ErrorKind::Namespace);
        assert_eq!(state.host.failed_calls.len(), 1);
    }
}
