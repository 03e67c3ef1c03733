//! Carries plans out, request by request: each must be acknowledged and echoed as what was meant, and whatever it
//! really did is in the journal.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::apply::DISABLE_IPV6;
use crate::context::Context;
use crate::gateway::on_link;
use crate::index::Index;
use crate::plan::{SlotPlan, Step};
use crate::resolve::{Tables, in_slot};
use crate::slot::Slot;
use crate::wire::Failure;
use crate::{
    Echo, Entry, Errno, ErrorKind, Family, Hop, Journal, Mode, Prefix, Request, Route, RouteChange,
    RouteError, Scope, Wire,
};

/// How to deal with refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Every addition is tried, so that all that is refused is reported; nothing is deleted if one was refused.
    Apply,
    /// Go on: as much as possible shall be as it was.
    Undo,
}

pub(crate) struct Run<'a, W: Wire> {
    pub(crate) wire: &'a mut W,
    pub(crate) context: &'a Context,
    /// The tables as they were read before.
    pub(crate) snapshot: &'a Tables,
    /// Its links are noted beside every change: undoing may move their routes to restore an order.
    pub(crate) scope: &'a Scope,
    pub(crate) journal: &'a mut Journal,
    pub(crate) plans: &'a [SlotPlan],
    pub(crate) policy: Policy,
    pub(crate) errors: Vec<RouteError>,
    /// After an answer that was lost, or a route that was not meant, nothing more is sent.
    stopped: bool,
}

/// What became of a step.
enum Outcome {
    Done,
    /// Perhaps only because another step has to come first.
    Unreachable(Failure),
    Failed,
}

impl<'a, W: Wire> Run<'a, W> {
    pub(crate) fn new(
        wire: &'a mut W,
        (context, snapshot): (&'a Context, &'a Tables),
        scope: &'a Scope,
        journal: &'a mut Journal,
        (plans, policy): (&'a [SlotPlan], Policy),
    ) -> Run<'a, W> {
        Run { wire, context, snapshot, scope, journal, plans, policy, errors: Vec::new(), stopped: false }
    }

    /// `wanted`: the routes as they shall be, which say whether a refused gateway has a point.
    pub(crate) fn execute(&mut self, wanted: &dyn Fn() -> Vec<Route>) {
        let failed = self.additions(wanted);
        if self.stopped || (self.policy == Policy::Apply && !failed.is_empty()) {
            return;
        }
        self.deletions(&failed);
    }

    /// Additions before deletions leaves no gap. Those without gateway come first, since they make gateways
    /// reachable; what is still refused is tried again as long as something else succeeds.
    fn additions(&mut self, wanted: &dyn Fn() -> Vec<Route>) -> BTreeSet<Slot> {
        // A slot whose way begins with a deletion keeps its own order, in the second half.
        let mut open: Vec<(Slot, &[Step])> = self
            .plans
            .iter()
            .map(|plan| (plan.change.slot, leading_additions(&plan.steps)))
            .filter(|(_, steps)| !steps.is_empty())
            .collect();
        open.sort_by_key(|(slot, steps)| {
            (steps.iter().flat_map(|s| &s.added).any(has_gateway), std::cmp::Reverse(slot.dst.len()))
        });
        let (goal, by_place) = (OnceCell::new(), OnceCell::new());
        let goal = || by_place.get_or_init(|| Index::new(goal.get_or_init(wanted)));
        let mut failed = BTreeSet::new();
        let mut scaffold = false;
        while !open.is_empty() && !self.stopped {
            let mut again = Vec::new();
            let mut progress = false;
            let mut refusals = Vec::new();
            for (slot, steps) in std::mem::take(&mut open) {
                let mut rest = steps;
                while let [step, later @ ..] = rest {
                    if self.stopped {
                        break;
                    }
                    let mut outcome = self.send(step);
                    if let Outcome::Unreachable(failure) = outcome {
                        let has_point = || self.policy == Policy::Undo || has_point(step, goal());
                        outcome = if scaffold && has_point() {
                            self.with_scaffold(step)
                        } else {
                            Outcome::Unreachable(failure)
                        };
                    }
                    match outcome {
                        Outcome::Done => {
                            progress = true;
                            rest = later;
                        }
                        Outcome::Unreachable(failure) => {
                            refusals.push((slot, step, failure));
                            again.push((slot, rest));
                            break;
                        }
                        Outcome::Failed => {
                            failed.insert(slot);
                            break;
                        }
                    }
                }
            }
            if !progress && !again.is_empty() {
                if scaffold {
                    for (slot, step, failure) in refusals {
                        self.refused(step, &failure);
                        failed.insert(slot);
                    }
                    break;
                }
                scaffold = true;
            }
            open = again;
        }
        failed
    }

    /// Routes with a gateway go first, so that no gateway loses its link before its route.
    fn deletions(&mut self, failed: &BTreeSet<Slot>) {
        let mut open: Vec<&[Step]> = self
            .plans
            .iter()
            .filter(|plan| !failed.contains(&plan.change.slot))
            .map(|plan| plan.steps.get(leading_additions(&plan.steps).len()..).unwrap_or_default())
            .collect();
        open.sort_by_key(|steps| !steps.iter().flat_map(|s| &s.removed).any(has_gateway));
        for step in open.into_iter().flatten() {
            if self.stopped {
                return;
            }
            let mut outcome = self.send(step);
            if matches!(outcome, Outcome::Unreachable(_)) {
                outcome = self.with_scaffold(step);
            }
            match outcome {
                Outcome::Done => {}
                Outcome::Unreachable(failure) => self.refused(step, &failure),
                Outcome::Failed if self.policy == Policy::Apply => return,
                Outcome::Failed => {}
            }
        }
    }

    fn send(&mut self, step: &Step) -> Outcome {
        match self.wire.send(&step.request) {
            Ok(echoes) => self.judge(step, echoes),
            Err(failure) if step.adds() && is_unreachable(&failure) => Outcome::Unreachable(failure),
            Err(failure) if failure.is_uncertain() => {
                self.refused(step, &failure);
                self.stopped = true;
                self.settle(step);
                Outcome::Failed
            }
            Err(failure) => {
                self.refused(step, &failure);
                Outcome::Failed
            }
        }
    }

    fn refused(&mut self, step: &Step, failure: &Failure) {
        let Some(route) = step.added.first().or(step.removed.first()) else { return };
        let route = self.whole(step, route);
        let mut error = self.context.failed(failure, operation(step), &route);
        if error.kind == ErrorKind::GatewayUnreachable && route.family == Family::V6 {
            for hop in &route.hops {
                let name = self.context.name(hop.link);
                // A failing read only means that there is nothing more to say about the refusal.
                if let Ok(Some(value)) = self.wire.sysctl(&name, DISABLE_IPV6)
                    && value.trim() == "1"
                {
                    error.kind = ErrorKind::Ipv6Disabled;
                    error.reason = Some(format!("IPv6 is disabled on {name} (disable_ipv6 is 1)"));
                }
            }
        }
        self.errors.push(error);
    }

    /// An IPv6 step's legs as the one route that they make.
    fn whole(&self, step: &Step, route: &Route) -> Route {
        let legs = if step.added.is_empty() { &step.removed } else { &step.added };
        route.with_hops(legs.iter().flat_map(|leg| leg.hops.iter().cloned()).collect())
    }

    /// Compares what the kernel says it did with what was meant.
    fn judge(&mut self, step: &Step, echoes: Vec<Echo>) -> Outcome {
        if step.adds() {
            let meant =
                echoes.iter().any(|echo| !echo.deleted && step.added.iter().all(|r| shows(&echo.route, r)));
            if meant {
                self.record(self.removed_by(step), step.added.clone(), step.position);
                return Outcome::Done;
            }
        } else if let [leg] = step.removed.as_slice()
            && let [echo] = echoes.as_slice()
            && echo.deleted
        {
            // The echo of a deletion has neither weight nor expiry.
            let mut gone = Route { expires: leg.expires, ..echo.route.clone() };
            if is_leg(&gone, leg, step.request.protocol == 0) {
                if leg.object.is_none() {
                    gone.hops.clone_from(&leg.hops);
                }
                self.record(vec![gone], Vec::new(), step.position);
                return Outcome::Done;
            }
        }
        self.stopped = true;
        let Some(route) = step.added.first().or(step.removed.first()) else { return Outcome::Failed };
        let error = self.context.error(ErrorKind::WrongRoute, operation(step), &self.whole(step, route));
        if echoes.is_empty() {
            self.errors
                .push(error.reason("the kernel acknowledged it, but did not say which route it changed"));
            self.settle(step);
            return Outcome::Failed;
        }
        let texts: Vec<String> = echoes
            .iter()
            .map(|echo| {
                let verb = if echo.deleted { "deleted" } else { "added" };
                format!("{verb} \"{}\"", self.context.text(&echo.route))
            })
            .collect();
        self.errors.push(error.reason(format!("the kernel {} instead", texts.join(", "))));
        let meant =
            |leg: &Route| step.removed.iter().chain(&step.added).any(|meant| is_leg(leg, meant, true));
        let also_meant = echoes.iter().flat_map(|echo| echo.route.legs()).any(|leg| meant(&leg));
        let mut agrees = false;
        for echo in &echoes {
            agrees |= self.settle_other(step, echo);
        }
        // It may have been carried out all the same, if what was said cannot be found.
        if also_meant || !agrees {
            self.settle(step);
        }
        Outcome::Failed
    }

    /// Records what the kernel says it did to a route that was not meant, if the table agrees; returns whether.
    fn settle_other(&mut self, step: &Step, echo: &Echo) -> bool {
        let mut agrees = false;
        let now = self.wire.dump(echo.route.family, echo.route.table).ok();
        let meant = if echo.deleted { &step.removed } else { &step.added };
        for leg in echo.route.legs() {
            let there = now.as_ref().is_some_and(|now| now.iter().flat_map(Route::legs).any(|r| r == leg));
            if meant.iter().any(|meant| is_leg(&leg, meant, true)) || there == echo.deleted {
                continue;
            }
            agrees = true;
            if echo.deleted {
                let place = self.place_of(&leg, now.as_deref());
                let leg = self.completed(leg);
                self.record(vec![leg], Vec::new(), place);
            } else {
                self.record(Vec::new(), vec![leg], 0);
            }
        }
        agrees
    }

    /// A route that has gone with all that it had: the echo of an IPv6 leg has neither weight nor expiry.
    fn completed(&self, gone: Route) -> Route {
        let before = in_slot(self.snapshot, gone.slot());
        match before.iter().flat_map(Route::legs).find(|leg| is_leg(&gone, leg, true)) {
            Some(leg) => Route { hops: leg.hops, expires: leg.expires, ..gone },
            None => gone,
        }
    }

    /// Where in its slot an IPv4 route stood that has gone unexpectedly: before the first of the routes that
    /// stood behind it, as far as the table can still be read. One that this run has added stood as planned.
    fn place_of(&self, gone: &Route, now: Option<&[Route]>) -> usize {
        let slot = gone.slot();
        let seen = in_slot(self.snapshot, slot);
        let planned = self.plans.iter().map(|plan| &plan.change).find(|change| change.slot == slot);
        let was_seen = seen.contains(gone);
        let order = if was_seen { Some(&seen) } else { planned.map(|change| &change.after) };
        let place = order.and_then(|order| order.iter().position(|route| route == gone));
        let (Some(order), Some(place)) = (order, place) else { return 0 };
        let Some(now) = now else { return place };
        let now: Vec<&Route> = now.iter().filter(|route| route.slot() == slot).collect();
        let (ahead, behind) = order.split_at(place);
        now.iter()
            .position(|route| behind.contains(route))
            .or_else(|| now.iter().rposition(|route| ahead.contains(route)).map(|last| last + 1))
            // One that has taken another's place stood first, like any that the kernel replaces.
            .unwrap_or(if was_seen { now.len() } else { 0 })
    }

    fn record(&mut self, removed: Vec<Route>, added: Vec<Route>, position: usize) {
        let Some(route) = added.first().or(removed.first()) else { return };
        let (family, table) = (route.family, route.table);
        let mut links = self.context.link_refs(added.iter().chain(&removed));
        for link in self.scope.links.iter().filter(|link| **link != 0) {
            let link = self.context.link_ref(*link);
            if !links.contains(&link) {
                links.push(link);
            }
        }
        self.journal.push(Entry::Route(RouteChange { family, table, removed, added, position, links }));
    }

    /// What a request takes away if it is carried out as a whole.
    fn removed_by(&self, step: &Step) -> Vec<Route> {
        step.removed.iter().map(|leg| self.as_added(leg)).collect()
    }

    /// A leg that the dump showed merged with others may have a protocol, source and metrics of its own. If this
    /// journal added it, it tells which; otherwise undoing both would take the two for different legs.
    fn as_added(&self, leg: &Route) -> Route {
        let is_leg = |other: &Route| is_leg(other, leg, true);
        let merged = |route: &&Route| route.hops.len() > 1 && route.legs().iter().any(is_leg);
        if leg.family != Family::V6 || !in_slot(self.snapshot, leg.slot()).iter().any(|r| merged(&r)) {
            return leg.clone();
        }
        let latest = self.journal.entries().iter().rev().filter_map(Entry::route).find_map(|change| {
            let legs = |routes: &[Route]| routes.iter().flat_map(Route::legs).find(is_leg);
            legs(&change.added).map(Some).or_else(|| legs(&change.removed).map(|_| None))
        });
        latest.flatten().unwrap_or_else(|| leg.clone())
    }

    /// Whether a request without an answer was carried out, the table itself says.
    fn settle(&mut self, step: &Step) {
        let Some(route) = step.added.first().or(step.removed.first()).cloned() else { return };
        let now = match self.wire.dump(route.family, route.table) {
            Ok(now) => now,
            Err(failure) => {
                self.errors.push(self.context.failed(&failure, "list", &route));
                // Taken for done: undoing what was not done does nothing.
                return self.record(self.removed_by(step), step.added.clone(), step.position);
            }
        };
        // A leg that is named by its hop alone may turn out to have another protocol, source or metrics.
        let by_hop = !step.adds() && step.request.protocol == 0;
        let there = |leg: &&Route, loosely: bool| {
            now.iter().any(|route| {
                let loosely = by_hop || (loosely && route.hops.len() > 1);
                route.legs().iter().any(|now| is_leg(now, leg, loosely))
            })
        };
        // A replacement is done as a whole. Its new hops may be its old ones with other attributes, and only
        // these tell them apart.
        if step.adds() && !step.removed.is_empty() {
            if step.added.iter().all(|leg| there(&leg, false)) {
                return self.record(self.removed_by(step), step.added.clone(), step.position);
            }
            if step.removed.iter().all(|leg| there(&leg, false)) {
                return;
            }
        }
        let removed: Vec<Route> =
            step.removed.iter().filter(|leg| !there(leg, true)).map(|leg| self.as_added(leg)).collect();
        let added: Vec<Route> = step.added.iter().filter(|leg| there(leg, true)).cloned().collect();
        self.record(removed, added, step.position);
    }

    /// The kernel looks a gateway up among the routes of the moment, so a route that is right in the end can be
    /// refused now, and one that was there cannot come back. A host route to the gateway, for the time of the
    /// request, makes it reachable.
    fn with_scaffold(&mut self, step: &Step) -> Outcome {
        let mut poles: Vec<Route> = Vec::new();
        for route in &step.added {
            for hop in route.hops.iter().filter(|hop| !hop.onlink) {
                let gateway = hop.gateway.filter(|gateway| Family::of(*gateway) == route.family);
                let Some(gateway) = gateway else { continue };
                let there =
                    poles.iter().any(|pole| pole.dst == Prefix::host(gateway) && pole.has_hop_on(hop.link));
                if !there && !self.stopped {
                    poles.extend(self.raise_pole(route, gateway, hop.link));
                }
            }
        }
        let outcome = if self.stopped { Outcome::Failed } else { self.send(step) };
        let mut all_gone = true;
        for pole in poles {
            all_gone &= self.drop_pole(pole);
        }
        if all_gone { outcome } else { Outcome::Failed }
    }

    fn raise_pole(&mut self, route: &Route, gateway: IpAddr, link: u32) -> Option<Route> {
        // A low metric, so that it is found before another route to the gateway.
        for metric in 1..=POLE_METRICS {
            let pole = Route {
                table: route.table,
                metric,
                protocol: POLE_PROTOCOL,
                ..Route::new(Prefix::host(gateway), vec![Hop::dev(link)])
            };
            let error = match self.wire.send(&Request::add(&pole, Mode::Exclusive)) {
                Ok(echoes)
                    if echoes.iter().any(|echo| !echo.deleted && is_leg(&echo.route, &pole, false)) =>
                {
                    return Some(pole);
                }
                Ok(echoes) => {
                    let step = Step::add(&pole, Mode::Exclusive);
                    for echo in &echoes {
                        self.settle_other(&step, echo);
                    }
                    let error = self.context.error(ErrorKind::WrongRoute, "add", &pole);
                    error.reason("the kernel did not say that it added this help route")
                }
                Err(failure) if failure.errno() == Some(Errno::EEXIST) => continue,
                Err(failure) if !failure.is_uncertain() => {
                    self.errors.push(self.context.failed(&failure, "add", &pole));
                    return None;
                }
                Err(failure) => self.context.failed(&failure, "add", &pole),
            };
            self.errors.push(error);
            self.stopped = true;
            if self.is_there(&pole) {
                self.drop_pole(pole);
            }
            return None;
        }
        None
    }

    /// A help route that stays is in the journal like any other.
    fn drop_pole(&mut self, pole: Route) -> bool {
        let mut error = None;
        // The second time for an answer that was lost.
        for _ in 0..2 {
            match self.wire.send(&Request::delete(&pole)) {
                Ok(echoes) if matches!(echoes.as_slice(), [e] if e.deleted && is_leg(&e.route, &pole, false)) =>
                {
                    return true;
                }
                Ok(echoes) => {
                    let step = Step { removed: vec![pole.clone()], ..Step::add(&pole, Mode::Exclusive) };
                    for echo in &echoes {
                        self.settle_other(&step, echo);
                    }
                    let wrong = self.context.error(ErrorKind::WrongRoute, "delete", &pole);
                    error = Some(wrong.reason("the kernel did not say that it deleted this help route"));
                }
                Err(failure) => error = Some(self.context.failed(&failure, "delete", &pole)),
            }
            if !self.is_there(&pole) {
                break;
            }
        }
        self.errors.extend(error);
        self.stopped = true;
        if self.is_there(&pole) {
            self.record(Vec::new(), vec![pole], 0);
        }
        false
    }

    /// A table that cannot be read may still hold it.
    fn is_there(&mut self, route: &Route) -> bool {
        match self.wire.dump(route.family, route.table) {
            Ok(now) => now.contains(route),
            Err(_) => true,
        }
    }
}

/// How many metrics are tried for a help route.
const POLE_METRICS: u32 = 8;
/// A protocol number of its own (RTPROT_* values from 192 on are not assigned there), so that a help route can
/// be told from any other.
const POLE_PROTOCOL: u8 = 235;

fn leading_additions(steps: &[Step]) -> &[Step] {
    let count = steps.iter().take_while(|step| step.adds()).count();
    steps.get(..count).unwrap_or_default()
}

fn operation(step: &Step) -> &'static str {
    match (step.adds(), step.removed.is_empty()) {
        (true, true) => "add",
        (true, false) => "replace",
        (false, _) => "delete",
    }
}

fn has_gateway(route: &Route) -> bool {
    route.hops.iter().any(|hop| hop.gateway.is_some())
}

fn is_unreachable(failure: &Failure) -> bool {
    matches!(failure.errno(), Some(Errno::ENETUNREACH | Errno::EHOSTUNREACH))
}

fn has_point(step: &Step, wanted: &Index<'_>) -> bool {
    step.added.iter().all(|route| route.hops.iter().all(|hop| on_link(route, hop, wanted)))
}

/// Whether the kernel's route has all that a leg has. Several hops show only one's protocol, source and metrics.
fn shows(echo: &Route, leg: &Route) -> bool {
    if echo.hops.len() > 1 && echo.family == Family::V6 {
        echo.slot() == leg.slot()
            && echo.kind == leg.kind
            && leg
                .hops
                .iter()
                .all(|hop| echo.hops.iter().any(|h| h.name() == hop.name() && h.onlink == hop.onlink))
    } else {
        is_leg(echo, leg, false)
    }
}

/// Whether the kernel's leg is this one; `loosely` where a dump hides a leg's own protocol, source and metrics.
fn is_leg(echo: &Route, leg: &Route, loosely: bool) -> bool {
    let leg = leg.clone().normalised();
    let echo = echo.clone().normalised();
    if loosely && echo.family == Family::V6 {
        echo.slot() == leg.slot()
            && echo.kind == leg.kind
            && echo.hops.iter().map(Hop::name).eq(leg.hops.iter().map(Hop::name))
    } else {
        // A nexthop object brings its hops; the echo of an addition may still come before they are known.
        echo == leg || (leg.object.is_some() && echo.object == leg.object && echo.slot() == leg.slot())
    }
}

/// Slots of a table, in the kernel's order within each.
pub(crate) fn by_slot(routes: &[Route], slots: &BTreeSet<Slot>) -> BTreeMap<Slot, Vec<Route>> {
    let mut out: BTreeMap<Slot, Vec<Route>> = slots.iter().map(|slot| (*slot, Vec::new())).collect();
    for route in routes {
        if let Some(held) = out.get_mut(&route.slot()) {
            held.push(route.clone());
        }
    }
    out
}
