//! Random operations, and what must hold after each of them.

use std::collections::{BTreeMap, BTreeSet};

use catena_routes::{
    Applied, ApplyFailure, Change, ErrorKind, Family, Hop, Journal, Mode, Request, Route, RouteSpec, Scope,
    Slot, Table, Undo, Wire, undo_once,
};

use super::faulty::{FAULTS, Fault, Faulty};
use super::legs::{self, is_merged};
use super::pod::{PodNet, ip, net, show, tables};
use super::random::Random;

/// What an operation may change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    tables: Vec<Vec<Route>>,
    /// Whether eth0 and net1 take default routes from router advertisements.
    settings: Vec<Option<String>>,
}

const ACCEPT: &str = "accept_ra_defrtr";
const NAMES: [&str; 2] = ["eth0", "net1"];

impl State {
    fn of(wire: &mut impl Wire) -> State {
        let settings = NAMES.map(|name| wire.sysctl(name, ACCEPT).unwrap());
        State { tables: tables(wire), settings: settings.into() }
    }

    fn routes(&self) -> impl Iterator<Item = &Route> {
        self.tables.iter().flatten()
    }
}

fn slots<'a>(routes: impl Iterator<Item = &'a Route>) -> BTreeSet<Slot> {
    routes.filter(|route| is_merged(route)).map(Route::slot).collect()
}

/// Tables as far as a dump tells. Which of several merged IPv6 hops came first decides whose protocol, source and
/// metrics show, and a route that does not merge may be hidden between them (`with_hidden`: counts as missing then).
fn shapes(states: [&State; 2], with_hidden: bool) -> [Vec<Vec<Route>>; 2] {
    let hiding = match with_hidden {
        true => BTreeSet::new(),
        false => slots(states.into_iter().flat_map(State::routes)),
    };
    states.map(|state| {
        let mut tables = state.tables.clone();
        for table in &mut tables {
            table.retain(|route| {
                route.family == Family::V4
                    || !hiding.contains(&route.slot())
                    || route.hops.iter().any(|hop| hop.gateway.is_some())
            });
            table.iter_mut().filter(|route| is_merged(route)).for_each(veil);
            if table.iter().any(|route| route.family == Family::V6) {
                table.sort();
            }
        }
        tables
    })
}

fn veil(route: &mut Route) {
    (route.protocol, route.source, route.mtu, route.advmss) = (0, None, None, None);
}

fn same(a: &State, b: &State) -> bool {
    let [shape_a, shape_b] = shapes([a, b], false);
    shape_a == shape_b && a.settings == b.settings
}

/// Whether a dump shows no difference at all.
fn looks_same(a: &State, b: &State) -> bool {
    let [shape_a, shape_b] = shapes([a, b], true);
    shape_a == shape_b && a.settings == b.settings
}

/// Routes without their order: IPv4 routes, IPv6 legs.
fn legs<'a>(routes: impl IntoIterator<Item = &'a Route>) -> Vec<Route> {
    let mut out: Vec<Route> = routes.into_iter().flat_map(legs::of).collect();
    out.sort();
    out
}

/// What deleting these hops of a route makes of the table, worked out by itself.
fn without(routes: &mut Vec<Route>, route: &Route, hops: &[Hop]) {
    let rest: Vec<Hop> = route.hops.iter().filter(|hop| !hops.contains(hop)).cloned().collect();
    match route.family {
        Family::V4 => {
            let place = routes.iter().position(|there| there == route).unwrap();
            if rest.is_empty() {
                routes.remove(place);
            } else {
                routes[place] = Route { hops: rest, ..route.clone() }.normalised();
            }
        }
        Family::V6 => {
            let named = |r: &Route| {
                r.hops.is_empty() == hops.is_empty() && r.hops.iter().all(|hop| hops.contains(hop))
            };
            routes
                .retain(|there| !(there.slot() == route.slot() && there.kind == route.kind && named(there)));
        }
    }
}

/// A route that cannot be, whatever the table.
fn bad(random: &mut Random, family: Family, link: u32) -> RouteSpec {
    let (dst, stranger) = match family {
        Family::V4 => (net("203.0.113.0/24"), ip("8.8.4.4")),
        Family::V6 => (net("fd66::/64"), ip("fd44::4")),
    };
    let mut spec = RouteSpec::new(dst, vec![Hop::dev(link)]);
    match random.below(3) {
        0 => spec.hops = vec![Hop::dev(4711)],
        1 => spec.source = Some(stranger),
        _ => spec.table = 77,
    }
    spec
}

/// A spec that leaves out what need not be said.
fn vague(random: &mut Random, route: &Route) -> RouteSpec {
    let mut spec = route.to_spec();
    if random.percent(50) {
        spec.protocol = None;
    }
    if random.percent(50) {
        spec.scope = None;
    }
    if random.percent(50) {
        (spec.source, spec.mtu, spec.advmss) = (None, None, None);
    }
    spec
}

/// What happened over all rounds.
#[derive(Debug, Default)]
struct Count {
    rounds: usize,
    done: usize,
    refused: usize,
    undone: usize,
    incomplete: usize,
    by_journal: usize,
    other_order: usize,
    faults: BTreeMap<String, usize>,
    kinds: BTreeMap<ErrorKind, usize>,
}

/// An operation about to be carried out, and what it must lead to.
struct Task {
    scope: Scope,
    what: String,
    before: State,
    /// Legs, if nothing goes wrong.
    wanted: Vec<Route>,
    settings: Vec<Option<String>>,
    /// What is added, with all that it has.
    named: Vec<RouteSpec>,
    sound: bool,
}

#[derive(Debug)]
pub(crate) struct Rounds {
    net: PodNet,
    random: Random,
    seed: u64,
    count: Count,
}

impl Rounds {
    pub(crate) fn new(net: PodNet, seed: u64) -> Rounds {
        Rounds { net, random: Random::new(seed), seed, count: Count::default() }
    }

    /// One `apply` of random changes.
    pub(crate) fn apply(&mut self, wire: &mut impl Wire) {
        self.scramble(wire);
        let links = self.random.pick(&[vec![self.net.net1], self.net.both().to_vec()]);
        let scope = Scope { links, tables: vec![254, 100] };
        let (changes, task) = self.changes(State::of(wire), scope);
        self.carry_out(wire, &task, |wire, journal| wire.apply(&task.scope, &changes, journal));
    }

    /// One `replace` of net1's routes.
    pub(crate) fn replace(&mut self, wire: &mut impl Wire) {
        self.scramble(wire);
        let scope = Scope { links: vec![self.net.net1], tables: vec![254, 100] };
        let family = self.random.pick(&Family::ALL);
        let keep = self.random.percent(50);
        let (specs, task) = self.wanted(State::of(wire), scope, family, keep);
        let link = self.net.net1;
        let replaced = self.carry_out(wire, &task, |wire, journal| {
            wire.replace(&task.scope, link, family, 254, &specs, keep, journal)
        });
        if replaced {
            let first = State::of(wire);
            let mut wire = Faulty::new(wire, None);
            let again =
                wire.replace(&task.scope, link, family, 254, &specs, keep, &mut Journal::new()).unwrap();
            let nothing = (wire.sent, again.added.len(), again.deleted.len());
            assert_eq!(
                nothing,
                (0, 0, 0),
                "round {}, seed {}, the second time: {}\nbefore {}\nafter the first time {}\nadded {}\ndeleted {}",
                self.count.rounds,
                self.seed,
                task.what,
                show(&task.before.tables),
                show(&first.tables),
                show(&[again.added]),
                show(&[again.deleted]),
            );
        }
    }

    /// Prints what happened; most rounds must have been done.
    pub(crate) fn finish(self, what: &str) {
        println!("{what}, seed {}: {:?}", self.seed, self.count);
        assert!(self.count.done * 4 > self.count.rounds, "{:?}", self.count);
        assert!(self.count.other_order * 100 <= self.count.rounds.max(1000), "{:?}", self.count);
        // A replace writes no setting; all other faults have happened.
        assert!(self.count.rounds < 3000 || self.count.faults.len() >= FAULTS.len() - 3, "{:?}", self.count);
    }

    /// Somebody else's routes, by no operation of ours.
    fn scramble(&mut self, wire: &mut impl Wire) {
        let (net, random) = (self.net, &mut self.random);
        let crowded = tables(wire).iter().map(Vec::len).sum::<usize>() > 30;
        if crowded || random.percent(40) {
            net.clear(wire);
            for name in NAMES {
                wire.set_sysctl(name, ACCEPT, "1").unwrap();
            }
        }
        for family in Family::ALL {
            for _ in 0..random.below(5) {
                let route = net.random_route(random, family, &net.both());
                let mode = if random.percent(15) { Mode::Append } else { Mode::Exclusive };
                // What the table does not take is not there.
                let _taken = wire.send(&Request::add(&route, mode)).is_ok();
            }
        }
        // A gateway that nothing makes reachable any more, as the kernel keeps it.
        if random.percent(10) {
            let family = random.pick(&Family::ALL);
            let _gone = wire.send(&Request::delete(&net.connected(family, net.net1))).is_ok();
        }
    }

    /// Changes, and what they lead to if all succeed.
    fn changes(&mut self, before: State, scope: Scope) -> (Vec<Change>, Task) {
        let (net, random) = (self.net, &mut self.random);
        let mut wanted = legs(before.routes());
        let mut there: Vec<Route> = before.routes().filter(|route| scope.touches(route)).cloned().collect();
        let (mut changes, mut named, mut sound) = (Vec::new(), Vec::new(), true);
        for _ in 0..random.below(3) {
            if there.is_empty() {
                break;
            }
            let route = there.swap_remove(random.below(there.len()));
            let ours: Vec<Hop> = route.hops.iter().filter(|hop| scope.has_link(hop.link)).cloned().collect();
            // Named by part of its hops, a route stands behind an alias that has just these.
            let names =
                |hops: &[Hop]| -> BTreeSet<_> { hops.iter().map(|hop| (hop.gateway, hop.link)).collect() };
            let alias = |other: &Route| other.slot() == route.slot() && names(&other.hops) == names(&ours);
            if ours.len() < route.hops.len() && before.routes().any(alias) {
                continue;
            }
            let mut spec = vague(random, &route);
            spec.hops = if random.percent(30) { Vec::new() } else { ours.clone() };
            if random.percent(20) {
                spec.metric = None;
            }
            without(&mut wanted, &route, &ours);
            changes.push(Change::Delete(spec));
        }
        for _ in 0..random.below(3) {
            let family = random.pick(&Family::ALL);
            let route = net.random_route(random, family, &scope.links);
            if route.kind.rejects() {
                continue;
            }
            let spec = route.to_spec();
            wanted.extend(legs([&spec.to_route()]));
            named.push(spec.clone());
            changes.push(Change::Add(spec));
        }
        let mut settings = before.settings.clone();
        if random.percent(15) {
            let link = random.pick(&scope.links);
            settings[usize::from(link == net.net1)] = Some("0".to_owned());
            changes.push(Change::IgnoreRouterAdvertisements(link));
        }
        if random.percent(10) {
            let family = random.pick(&Family::ALL);
            changes.push(Change::Add(bad(random, family, net.net1)));
            sound = false;
        }
        wanted.sort();
        let what: String = changes.iter().map(|change| format!("\n  {}", line(change))).collect();
        (changes, Task { scope, what, before, wanted, settings, named, sound })
    }

    /// What net1 shall have, and what this leads to.
    fn wanted(&mut self, before: State, scope: Scope, family: Family, keep: bool) -> (Vec<RouteSpec>, Task) {
        let (net, random) = (self.net, &mut self.random);
        let mut routes = if keep { Vec::new() } else { vec![net.connected(family, net.net1)] };
        for _ in 0..random.below(5) {
            let route = Route { table: 254, ..net.random_route(random, family, &[net.net1]) };
            if !route.kind.rejects() && routes.iter().all(|other| other.slot() != route.slot()) {
                routes.push(route);
            }
        }
        let mut specs: Vec<RouteSpec> = routes.iter().map(Route::to_spec).collect();
        let sound = !random.percent(10);
        if !sound {
            specs.push(bad(random, family, net.net1));
        }
        let ours = |route: &Route| route.has_hop_on(net.net1) && route.family == family && route.table == 254;
        let mut wanted = legs(&routes);
        for route in before.routes() {
            let kept = keep && route.protocol == 2 && wanted.iter().all(|other| other.slot() != route.slot());
            let rest: Vec<Hop> = route.hops.iter().filter(|hop| hop.link != net.net1).cloned().collect();
            if !ours(route) || kept {
                wanted.extend(legs([route]));
            } else if !rest.is_empty() {
                wanted.extend(legs([&Route { hops: rest, ..route.clone() }.normalised()]));
            }
        }
        wanted.sort();
        let what = format!("keep {keep}: {}", show(&[specs.iter().map(RouteSpec::to_route).collect()]));
        let settings = before.settings.clone();
        (specs.clone(), Task { scope, what, before, wanted, settings, named: specs, sound })
    }

    /// Whether it was done, and is still.
    fn carry_out<W: Wire>(
        &mut self,
        wire: &mut W,
        task: &Task,
        work: impl FnOnce(&mut Faulty<'_, W>, &mut Journal) -> Result<Applied, ApplyFailure>,
    ) -> bool {
        self.count.rounds += 1;
        let fault = self.random_fault(20);
        let mut journal = Journal::new();
        let mut faulty = Faulty::new(wire, fault);
        let result = work(&mut faulty, &mut journal);
        let fired = fault.filter(|_| faulty.fired()).map(|(_, fault)| fault);
        let after = State::of(wire);
        if let Some(fault) = fired {
            *self.count.faults.entry(format!("{fault:?}")).or_default() += 1;
        }
        let at = format!(
            "round {}, seed {}, fault {fault:?}, {}\nbefore {}\nafter {}",
            self.count.rounds,
            self.seed,
            task.what,
            show(&task.before.tables),
            show(&after.tables)
        );
        // Another process, or another stage, has the journal as text.
        let mut journal = Journal::from_json(&journal.to_json()).unwrap();
        match result {
            Ok(_) => {
                assert!(task.sound, "a bad change was taken, {at}");
                task.is_met(&after, &at);
                self.count.done += 1;
                if self.random.percent(50) {
                    self.take_back(wire, &task.before, &mut journal, &at);
                    return false;
                }
                true
            }
            Err(failure) => {
                let same = (same(&task.before, &after), looks_same(&task.before, &after));
                self.failed(&failure, fired, same, &at);
                if fired == Some(Fault::Dead) && !failure.undo.exact {
                    self.take_back(wire, &task.before, &mut journal, &at);
                }
                false
            }
        }
    }

    fn random_fault(&mut self, chance: usize) -> Option<(usize, Fault)> {
        let random = &mut self.random;
        random.percent(chance).then(|| (1 + random.below(5), random.pick(FAULTS)))
    }

    /// Success, or exactly as before, or the report lists the difference.
    fn failed(
        &mut self,
        failure: &ApplyFailure,
        fired: Option<Fault>,
        (same, looks_same): (bool, bool),
        at: &str,
    ) {
        for error in &failure.errors {
            *self.count.kinds.entry(error.kind).or_default() += 1;
        }
        match (failure.changed, failure.undo.exact) {
            (false, _) => self.count.refused += 1,
            (true, true) => self.count.undone += 1,
            (true, false) => self.count.incomplete += 1,
        }
        assert!(!failure.errors.is_empty(), "{at}");
        is_honest(&failure.undo, same, &format!("{:#?} {at}", failure.errors));
        let blind = fired.is_some_and(Fault::blinds);
        assert!(failure.undo.exact || !looks_same || blind, "{failure:#?} {at}");
        assert!(
            failure.undo.exact || fired.is_some() || self.is_about_order(&failure.undo),
            "{failure:#?} {at}"
        );
    }

    /// The kernel adds to the ends of a list of IPv4 aliases only, and others' aliases are not moved: then another
    /// order is left, and said.
    fn is_about_order(&mut self, undo: &Undo) -> bool {
        self.count.other_order += 1;
        undo.leftover.iter().all(|line| line.starts_with("the order of routes in one place is"))
    }

    /// Undoes by the journal, in one go or with a second try, and with a fault of its own now and then.
    fn take_back<W: Wire>(&mut self, wire: &mut W, before: &State, journal: &mut Journal, at: &str) {
        let fault = self.random_fault(15);
        let mut faulty = Faulty::new(wire, fault);
        let once = self.random.percent(50);
        let undo = |wire: &mut Faulty<'_, W>, journal: &mut Journal| match once {
            true => undo_once(wire, journal, Journal::start()),
            false => wire.undo(journal, Journal::start()),
        };
        let first = undo(&mut faulty, journal);
        let fired = faulty.fired();
        let now = State::of(wire);
        let at =
            format!("undo, once {once}, fault {fault:?}: {first:#?}\nnow {}\nof {at}", show(&now.tables));
        is_honest(&first, same(before, &now), &at);
        self.count.by_journal += usize::from(!fired);
        if !fired {
            assert!(
                first.exact == journal.is_empty() && (first.exact || self.is_about_order(&first)),
                "{at}"
            );
        } else if !first.exact {
            let second = undo(&mut Faulty::new(wire, None), journal);
            let now = State::of(wire);
            is_honest(
                &second,
                same(before, &now),
                &format!("then {second:#?}\nnow {}\n{at}", show(&now.tables)),
            );
        }
    }
}

/// "Exact" is true, and otherwise it is said what is left.
fn is_honest(undo: &Undo, same: bool, at: &str) {
    assert!(same || !undo.exact, "not exact: {undo:#?} {at}");
    assert_eq!(undo.exact, undo.leftover.is_empty(), "{undo:#?} {at}");
}

impl Task {
    /// The tables are the wanted ones, others' routes and all.
    fn is_met(&self, after: &State, at: &str) {
        let now = legs(after.routes());
        let merged = slots(self.before.routes());
        let hiding: BTreeSet<Slot> = merged.iter().copied().chain(slots(after.routes())).collect();
        // Hops that were merged before hide their own protocol, source and metrics, but for routes that were named
        // in full, which end with just these.
        let named: BTreeSet<Slot> = self.named.iter().map(|spec| spec.to_route().slot()).collect();
        let foreign = |slot: &Slot| {
            self.before
                .routes()
                .any(|r| r.slot() == *slot && r.hops.iter().any(|h| !self.scope.has_link(h.link)))
        };
        let seen = |legs: &[Route]| -> Vec<Route> {
            let shows = |leg: &&Route| {
                leg.family == Family::V4
                    || !hiding.contains(&leg.slot())
                    || leg.hops.iter().any(|hop| hop.gateway.is_some())
            };
            let mut legs: Vec<Route> = legs.iter().filter(shows).cloned().collect();
            for leg in &mut legs {
                let slot = leg.slot();
                if leg.family == Family::V6
                    && merged.contains(&slot)
                    && (!named.contains(&slot) || foreign(&slot))
                {
                    veil(leg);
                }
                if leg.hops.len() == 1 {
                    leg.hops[0].weight = 0;
                }
            }
            legs.sort();
            legs
        };
        let (now, wanted) = (seen(&now), seen(&self.wanted));
        let lacking =
            |a: &[Route], b: &[Route]| show(&[a.iter().filter(|r| !b.contains(r)).cloned().collect()]);
        assert!(now == wanted, "missing {}\nextra {}\n{at}", lacking(&wanted, &now), lacking(&now, &wanted));
        assert_eq!(after.settings, self.settings, "{at}");
    }
}

fn line(change: &Change) -> String {
    match change {
        Change::Add(spec) => format!("+ {}", spec.to_route()),
        Change::Delete(spec) => format!("- {} {spec:?}", spec.to_route()),
        Change::IgnoreRouterAdvertisements(link) => format!("ignore advertisements on {link}"),
    }
}
