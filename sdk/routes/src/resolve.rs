//! From wishes to the slots that shall change: every wish is judged on the whole table, and all that is wrong is
//! reported at once.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::context::Context;
use crate::fib::group;
use crate::gateway::{is_link_local, on_link};
use crate::index::{Index, Lookup};
use crate::slot::{Slot, SlotChange};
use crate::{Change, ErrorKind, Family, Hop, Kind, LinkRef, Prefix, Route, RouteError, RouteSpec, Scope};

/// Whole tables as they are, by family and table.
pub(crate) type Tables = BTreeMap<(Family, u32), Vec<Route>>;

/// What an operation shall do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    pub(crate) slots: Vec<SlotChange>,
    /// Those of them whose wanted routes were named with all that they have.
    pub(crate) in_full: BTreeSet<Slot>,
    /// Links that shall not take default routes from router advertisements.
    pub(crate) quiet: Vec<LinkRef>,
    /// Of this link the slots' wanted routes are all that there shall be.
    pub(crate) only: Option<Only>,
}

/// The link whose routes an operation replaces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Only {
    link: u32,
    keep_kernel: bool,
}

impl Only {
    /// Whether a route that is not wanted has to go.
    pub(crate) fn is_about(&self, route: &Route) -> bool {
        !(self.keep_kernel && route.is_kernels())
            && route.has_hop_on(self.link)
            && route.hops.iter().all(|hop| hop.link == self.link)
    }
}

/// A slot's routes, in the kernel's order.
pub(crate) fn in_slot(tables: &Tables, slot: Slot) -> Vec<Route> {
    let table = tables.get(&(slot.dst.family(), slot.table)).map_or(&[][..], Vec::as_slice);
    table.iter().filter(|route| route.slot() == slot).cloned().collect()
}

/// The tables that the changes are about.
pub(crate) fn tables(changes: &[Change]) -> Vec<(Family, u32)> {
    let mut tables: Vec<(Family, u32)> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Add(spec) | Change::Delete(spec) => Some((spec.family(), spec.table)),
            Change::IgnoreRouterAdvertisements(_) => None,
        })
        .collect();
    tables.sort();
    tables.dedup();
    tables
}

/// `apply`: the deletes first, so that an add may take a place that a delete leaves.
pub(crate) fn changes(
    context: &Context,
    scope: &Scope,
    snapshot: &Tables,
    changes: &[Change],
) -> Result<Target, Vec<RouteError>> {
    let mut work = Work::new(context, scope, snapshot);
    for change in changes {
        match change {
            Change::Delete(spec) => work.delete(spec),
            Change::Add(_) | Change::IgnoreRouterAdvertisements(_) => {}
        }
    }
    for change in changes {
        match change {
            Change::Delete(_) => {}
            Change::Add(spec) => work.add(spec),
            Change::IgnoreRouterAdvertisements(link) => work.quieten(*link),
        }
    }
    work.finish()
}

/// `replace` of one link's routes.
pub(crate) fn wanted(
    context: &Context,
    scope: &Scope,
    snapshot: &Tables,
    at: (u32, Family, u32),
    wanted: &[RouteSpec],
    keep_kernel: bool,
) -> Result<Target, Vec<RouteError>> {
    let mut work = Work::new(context, scope, snapshot);
    work.replace(at, wanted, keep_kernel);
    let only = Some(Only { link: at.0, keep_kernel });
    work.finish().map(|target| Target { only, ..target })
}

struct Work<'a> {
    context: &'a Context,
    scope: &'a Scope,
    snapshot: &'a Tables,
    index: Index<'a>,
    /// The slots that change, as they shall be. IPv6: whole routes, not legs.
    slots: BTreeMap<Slot, Vec<Route>>,
    added: Vec<Route>,
    /// The slots of those.
    taken: BTreeSet<Slot>,
    quiet: Vec<LinkRef>,
    errors: Vec<RouteError>,
    /// Only the kernel can say these for sure, and does it in its own words. They are reported with other errors.
    likely: Vec<RouteError>,
}

impl<'a> Work<'a> {
    fn new(context: &'a Context, scope: &'a Scope, snapshot: &'a Tables) -> Work<'a> {
        Work {
            context,
            scope,
            snapshot,
            index: Index::of(snapshot),
            slots: BTreeMap::new(),
            added: Vec::new(),
            taken: BTreeSet::new(),
            quiet: Vec::new(),
            errors: Vec::new(),
            likely: Vec::new(),
        }
    }

    fn table(&self, family: Family, table: u32) -> &'a [Route] {
        self.snapshot.get(&(family, table)).map_or(&[], Vec::as_slice)
    }

    fn slot_now(&self, slot: Slot) -> Vec<Route> {
        self.index.in_slot(slot)
    }

    fn slot(&mut self, slot: Slot) -> &mut Vec<Route> {
        if !self.slots.contains_key(&slot) {
            let now = self.slot_now(slot);
            self.slots.insert(slot, now);
        }
        self.slots.entry(slot).or_default()
    }

    fn fail(&mut self, kind: ErrorKind, operation: &'static str, route: &Route, reason: impl Into<String>) {
        self.errors.push(self.context.error(kind, operation, route).reason(reason));
    }

    fn delete(&mut self, spec: &RouteSpec) {
        let shape = spec.to_route();
        if !self.table_allowed("delete", &shape) {
            return;
        }
        let outside: Vec<&Hop> = spec.hops.iter().filter(|hop| !self.scope.has_link(hop.link)).collect();
        if let Some(hop) = outside.first() {
            let reason = self.not_in_scope(hop.link);
            return self.fail(ErrorKind::Denied, "delete", &shape, reason);
        }
        let fitting: Vec<&Route> = self
            .index
            .to(spec.table, spec.dst)
            .iter()
            .copied()
            .filter(|route| fits(spec, route) && (!spec.hops.is_empty() || self.scope.touches(route)))
            .collect();
        // Of routes in one slot the one with just the named hops is meant before one that has others as well.
        let one_slot = fitting.windows(2).all(|pair| matches!(pair, [a, b] if a.slot() == b.slot()));
        let exact: Vec<&Route> = fitting
            .iter()
            .copied()
            .filter(|route| one_slot && route.hops.len() == spec.hops.len() && !spec.hops.is_empty())
            .collect();
        match if exact.is_empty() { fitting } else { exact }.as_slice() {
            [] => self.fail(ErrorKind::NotFound, "delete", &shape, "there is no such route"),
            [route] => self.take_out(spec, route),
            several => {
                let texts: Vec<String> =
                    several.iter().map(|route| format!("\"{}\"", self.context.text(route))).collect();
                let reason = format!(
                    "{} routes fit: {}; name metric, protocol, scope or source as well",
                    several.len(),
                    texts.join(", ")
                );
                self.fail(ErrorKind::Invalid, "delete", &shape, reason);
            }
        }
    }

    /// Takes the named hops out of a route of the table.
    fn take_out(&mut self, spec: &RouteSpec, route: &Route) {
        let goes = |hop: &Hop| {
            if spec.hops.is_empty() {
                self.scope.has_link(hop.link)
            } else {
                spec.hops.iter().any(|named| named.name() == hop.name())
            }
        };
        let rest: Vec<Hop> = route.hops.iter().filter(|hop| !goes(hop)).cloned().collect();
        if !self.scope.touches(route) {
            let reason = "it has no link, and the scope covers links only";
            return self.fail(ErrorKind::Denied, "delete", route, reason);
        }
        if !self.may_change("delete", route, !rest.is_empty()) {
            return;
        }
        let (route, twice) = (route.clone(), self.context.text(route));
        let slot = self.slot(route.slot());
        match slot.iter().position(|there| *there == route) {
            Some(place) if rest.is_empty() => {
                slot.remove(place);
            }
            Some(place) => {
                if let Some(there) = slot.get_mut(place) {
                    *there = route.with_hops(rest);
                }
            }
            // An earlier delete of the same call has already changed it.
            None => self.take_out_again(spec, &route, &twice),
        }
    }

    /// A second delete about one route may name other hops of it.
    fn take_out_again(&mut self, spec: &RouteSpec, route: &Route, text: &str) {
        let named: Vec<_> = spec.hops.iter().map(Hop::name).collect();
        let slot = self.slot(route.slot());
        let place = slot.iter().position(|there| {
            there.with_hops(route.hops.clone()) == *route
                && !named.is_empty()
                && named.iter().all(|name| there.hops.iter().any(|hop| hop.name() == *name))
        });
        let Some(place) = place else {
            let reason = format!("two deletes of one call name \"{text}\"");
            return self.fail(ErrorKind::Invalid, "delete", route, reason);
        };
        let there = slot.remove(place);
        let rest: Vec<Hop> = there.hops.iter().filter(|hop| !named.contains(&hop.name())).cloned().collect();
        if !rest.is_empty() {
            slot.insert(place, there.with_hops(rest));
        }
    }

    fn add(&mut self, spec: &RouteSpec) {
        let Some(route) = self.valid("add", spec) else { return };
        let slot = route.slot();
        let (context, scope) = (self.context, self.scope);
        let twice = self.taken.contains(&slot);
        let holder = self.slot(slot).first().cloned();
        match holder {
            _ if twice => {
                let reason = "two routes of one call have the same destination, table, tos and metric; \
                              name different metrics, or make them the hops of one route";
                self.fail(ErrorKind::Invalid, "add", &route, reason);
            }
            Some(holder) => {
                let kind = if scope.covers(&holder) { ErrorKind::Exists } else { ErrorKind::Conflict };
                let reason = format!("its place is held by \"{}\"", context.text(&holder));
                self.fail(kind, "add", &route, reason);
            }
            None => {
                self.slot(slot).push(route.clone());
                self.take(route);
            }
        }
    }

    fn take(&mut self, route: Route) {
        self.taken.insert(route.slot());
        self.added.push(route);
    }

    fn replace(
        &mut self,
        (link, family, table): (u32, Family, u32),
        wanted: &[RouteSpec],
        keep_kernel: bool,
    ) {
        let any = Route { table, ..Route::new(Prefix::default_route(family), vec![Hop::dev(link)]) };
        if !self.table_allowed("replace", &any) {
            return;
        }
        if !self.scope.has_link(link) {
            let error = self.context.link_error(ErrorKind::Denied, "replace", link);
            return self.errors.push(error.reason(self.not_in_scope(link)));
        }
        let (mut routes, mut places) = (Vec::<Route>::new(), BTreeMap::<Slot, usize>::new());
        for spec in wanted {
            if let Some(reason) = misplaced(spec, link, family, table) {
                self.fail(ErrorKind::Invalid, "replace", &spec.to_route(), reason);
                continue;
            }
            let now = self.index.to(table, spec.dst).iter().find(|route| is_wanted(spec, route));
            let now = now.map(|route| (*route).clone());
            let Some(route) = now.or_else(|| self.valid("replace", spec)) else { continue };
            if let Entry::Vacant(place) = places.entry(route.slot()) {
                place.insert(routes.len());
                routes.push(route);
            } else {
                let reason = "two wanted routes have the same destination, table, tos and metric";
                self.fail(ErrorKind::Invalid, "replace", &route, reason);
            }
        }
        let stays = |route: &Route| {
            let protected = is_link_local(route.dst.addr()) || route.dst.addr().is_multicast();
            protected || (keep_kernel && route.is_kernels())
        };
        for route in self.table(family, table).iter().filter(|route| route.has_hop_on(link)) {
            match places.get(&route.slot()).and_then(|place| routes.get(*place)) {
                None if stays(route) => continue,
                // The IPv6 route over several links may already have, on this link, just the hops that are wanted.
                Some(wanted) if wanted == route || merged(route, wanted, link) => continue,
                _ => {}
            }
            let rest: Vec<Hop> = route.hops.iter().filter(|hop| hop.link != link).cloned().collect();
            if !self.may_change("replace", route, !rest.is_empty()) {
                continue;
            }
            let slot = self.slot(route.slot());
            if let Some(place) = slot.iter().position(|there| there == route) {
                slot.remove(place);
                if !rest.is_empty() {
                    slot.insert(place, route.with_hops(rest));
                }
            }
        }
        for route in routes {
            let now = self.slot_now(route.slot());
            if now.contains(&route) || now.iter().any(|there| merged(there, &route, link)) {
                continue;
            }
            match self.slot(route.slot()).first().cloned() {
                None => {
                    self.slot(route.slot()).push(route.clone());
                    self.take(route);
                }
                Some(holder) => {
                    let reason = format!("its place is held by \"{}\"", self.context.text(&holder));
                    self.fail(ErrorKind::Conflict, "replace", &route, reason);
                }
            }
        }
    }

    fn quieten(&mut self, link: u32) {
        if !self.scope.has_link(link) {
            let error = self.context.link_error(ErrorKind::Denied, "sysctl", link);
            self.errors.push(error.reason(self.not_in_scope(link)));
        } else if self.context.link(link).is_none() {
            let error = self.context.link_error(ErrorKind::NoDevice, "sysctl", link);
            self.errors.push(error.reason("there is no such link"));
        } else {
            let link = self.context.link_ref(link);
            if !self.quiet.contains(&link) {
                self.quiet.push(link);
            }
        }
    }

    /// The route that a spec to be added makes, if nothing speaks against it.
    fn valid(&mut self, operation: &'static str, spec: &RouteSpec) -> Option<Route> {
        let route = spec.to_route();
        let so_far = self.errors.len();
        self.table_allowed(operation, &route);
        for reason in nonsense(spec) {
            self.fail(ErrorKind::Invalid, operation, &route, reason);
        }
        if spec.kind.rejects() && !self.scope.has_link(0) {
            let reason = "a route of this type has no link, and the scope covers links only";
            self.fail(ErrorKind::Denied, operation, &route, reason);
        }
        let mut links: Vec<u32> = spec.hops.iter().map(|hop| hop.link).collect();
        links.sort_unstable();
        links.dedup();
        for index in links {
            match self.context.link(index) {
                _ if !self.scope.has_link(index) => {
                    let reason = self.not_in_scope(index);
                    self.fail(ErrorKind::Denied, operation, &route, reason);
                }
                None => self.fail(ErrorKind::NoDevice, operation, &route, "there is no such link"),
                Some(link) if !link.up => {
                    let reason = format!("the link {} is down", link.name);
                    self.fail(ErrorKind::LinkDown, operation, &route, reason);
                }
                Some(_) => {}
            }
        }
        (self.errors.len() == so_far).then_some(route)
    }

    fn table_allowed(&mut self, operation: &'static str, route: &Route) -> bool {
        let allowed = self.scope.has_table(route.table);
        if !allowed {
            let reason = format!("table {} is outside the scope; a grant would have to name it", route.table);
            self.fail(ErrorKind::Denied, operation, route, reason);
        }
        allowed
    }

    fn not_in_scope(&self, link: u32) -> String {
        format!("the link {} is outside the scope", self.context.link_ref(link))
    }

    /// Whether a route can be changed and put back.
    fn may_change(&mut self, operation: &'static str, route: &Route, partly: bool) -> bool {
        if let Some(why) = &route.fixed {
            let reason = format!("it could not be put back: {why}");
            self.fail(ErrorKind::Other, operation, route, reason);
            return false;
        }
        if partly && route.object.is_some() {
            let reason = "its hops come from a nexthop object, so no single one can be taken out";
            self.fail(ErrorKind::Invalid, operation, route, reason);
            return false;
        }
        true
    }

    fn finish(mut self) -> Result<Target, Vec<RouteError>> {
        self.judge_gateways();
        if !self.errors.is_empty() {
            self.errors.append(&mut self.likely);
            return Err(self.errors);
        }
        let slots = std::mem::take(&mut self.slots);
        let slots = slots
            .into_iter()
            .map(|(slot, after)| {
                let (before, after) = (self.slot_now(slot), tidy(slot, after));
                SlotChange { slot, before, after, known: false }
            })
            .filter(|change| change.before != change.after)
            .collect();
        let in_full = self.added.iter().map(Route::slot).collect();
        Ok(Target { slots, in_full, quiet: self.quiet, only: None })
    }

    /// The kernel judges a gateway once, when the route comes. It cannot know that this very operation takes away
    /// what makes the gateway reachable.
    fn judge_gateways(&mut self) {
        let (mut certain, mut likely) = (Vec::new(), Vec::new());
        let after = After {
            now: &self.index,
            slots: &self.slots,
            changed: Index::new(self.slots.values().flatten()),
        };
        for route in &self.added {
            for hop in route.hops.iter().filter(|hop| !on_link(route, hop, &after)) {
                let gateway = hop.gateway.map(|g| g.to_string()).unwrap_or_default();
                let link = self.context.name(hop.link);
                let error = self.context.error(ErrorKind::GatewayUnreachable, "add", route);
                if on_link(route, hop, &self.index) {
                    certain.push(error.reason(format!(
                        "the same operation takes away the route that makes {gateway} reachable on {link}"
                    )));
                } else {
                    likely.push(error.reason(format!("no route makes {gateway} reachable on {link}")));
                }
            }
        }
        self.errors.append(&mut certain);
        self.likely.append(&mut likely);
    }
}

/// All routes as they shall be.
struct After<'a> {
    now: &'a Index<'a>,
    slots: &'a BTreeMap<Slot, Vec<Route>>,
    changed: Index<'a>,
}

impl Lookup for After<'_> {
    fn covering(&self, table: u32, addr: IpAddr) -> Vec<&Route> {
        let untouched = |route: &&Route| !self.slots.contains_key(&route.slot());
        let mut routes: Vec<&Route> = self.now.covering(table, addr).into_iter().filter(untouched).collect();
        routes.extend(self.changed.covering(table, addr));
        routes
    }
}

/// What is left of an IPv6 slot's routes may merge.
fn tidy(slot: Slot, routes: Vec<Route>) -> Vec<Route> {
    match slot.dst.family() {
        Family::V4 => routes,
        Family::V6 => {
            let legs: Vec<Route> = routes.iter().flat_map(Route::legs).collect();
            group(legs.iter())
        }
    }
}

/// Whether `there`, an IPv6 route over several links, is what the kernel made of `wanted` and others' hops.
fn merged(there: &Route, wanted: &Route, link: u32) -> bool {
    let on_link = |route: &Route| -> Vec<_> {
        route.hops.iter().filter(|hop| hop.link == link).map(|hop| (hop.name(), hop.onlink)).collect()
    };
    there.family == Family::V6
        && there.slot() == wanted.slot()
        && there.kind == wanted.kind
        && there.hops.iter().any(|hop| hop.link != link)
        && on_link(there) == on_link(wanted)
}

/// Whether a route of the table is a wanted one already. Whoever made it, if the spec names no protocol.
fn is_wanted(spec: &RouteSpec, route: &Route) -> bool {
    let wanted = spec.to_route();
    let wanted = Route {
        protocol: spec.protocol.unwrap_or(route.protocol),
        metrics: route.metrics.clone(),
        extra: route.extra.clone(),
        expires: route.expires,
        object: route.object,
        ..wanted
    };
    wanted == *route
}

/// Whether a route of the table is what the spec names.
fn fits(spec: &RouteSpec, route: &Route) -> bool {
    let metric = match (spec.family(), spec.metric) {
        (Family::V6, Some(0)) => Some(Family::V6.default_metric()),
        (_, metric) => metric,
    };
    route.table == spec.table
        && route.dst == spec.dst
        && route.kind == spec.kind
        && route.unknown_kind.is_none()
        && route.tos == spec.tos
        && route.from == spec.from.filter(|from| !from.is_default())
        && metric.is_none_or(|metric| metric == route.metric)
        && spec.protocol.is_none_or(|protocol| protocol == route.protocol)
        && (spec.family() == Family::V6 || spec.scope.is_none_or(|scope| scope == route.scope))
        && (spec.source.is_none() || spec.source == route.source)
        && (spec.mtu.is_none() || spec.mtu == route.mtu)
        && (spec.advmss.is_none() || spec.advmss == route.advmss)
        && spec.hops.iter().all(|named| route.hops.iter().any(|hop| hop.name() == named.name()))
}

fn misplaced(spec: &RouteSpec, link: u32, family: Family, table: u32) -> Option<String> {
    if spec.family() != family {
        Some(format!("it is not {family}"))
    } else if spec.table != table {
        Some(format!("it is not of table {table}"))
    } else if spec.hops.is_empty() || spec.hops.iter().any(|hop| hop.link != link) {
        Some("all of its hops must be on the link whose routes are replaced".to_owned())
    } else {
        None
    }
}

/// What is wrong with a route to be added in itself.
fn nonsense(spec: &RouteSpec) -> Vec<String> {
    let family = spec.family();
    let mut wrong = Vec::new();
    if spec.table == 0 {
        wrong.push("table 0 stands for none".to_owned());
    }
    match spec.from {
        Some(_) if family == Family::V4 => wrong.push("an ipv4 route has no source prefix".to_owned()),
        Some(from) if from.family() != family => {
            wrong.push(format!("its source prefix {from} is not {family}"));
        }
        _ => {}
    }
    if family == Family::V6 && spec.tos != 0 {
        wrong.push("an ipv6 route has no tos".to_owned());
    }
    if spec.source.is_some_and(|source| Family::of(source) != family) {
        wrong.push(format!("its source is not {family}"));
    }
    if spec.mtu == Some(0) || spec.advmss == Some(0) {
        wrong.push("an mtu or advmss of 0 stands for none".to_owned());
    }
    if spec.kind.rejects() && !spec.hops.is_empty() {
        wrong.push(format!("a route of type {} has no next hop", spec.kind));
    }
    if !spec.kind.rejects() && spec.hops.is_empty() {
        wrong.push(format!("a route of type {} needs a next hop", spec.kind));
    }
    let names: BTreeSet<_> = spec.hops.iter().map(Hop::name).collect();
    if names.len() < spec.hops.len() {
        wrong.push("the same next hop is there twice".to_owned());
    }
    for hop in &spec.hops {
        match hop.gateway {
            Some(gateway) if gateway.is_unspecified() => {
                wrong.push(format!("{gateway} is no gateway; a hop without one has none"));
            }
            Some(gateway) if family == Family::V6 && Family::of(gateway) == Family::V4 => {
                wrong.push(format!("an ipv6 route cannot have the ipv4 gateway {gateway}"));
            }
            None if hop.onlink => wrong.push("onlink needs a gateway".to_owned()),
            None if family == Family::V6 && spec.hops.len() > 1 => {
                wrong.push("each of several ipv6 hops needs a gateway".to_owned());
            }
            _ => {}
        }
    }
    if spec.kind != Kind::Unicast && spec.hops.len() > 1 {
        wrong.push(format!("a route of type {} has one hop at most", spec.kind));
    }
    wrong
}
