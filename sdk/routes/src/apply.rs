//! The operations: snapshot, judge, plan, carry out, read back, and on any error take back.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry::Vacant;

use crate::context::{Context, plain};
use crate::fib::merges;
use crate::index::Index;
use crate::plan::{Direction, SlotPlan, plan};
use crate::resolve::{self, Tables, Target};
use crate::run::{Policy, Run, by_slot};
use crate::slot::{Slot, SlotChange, shown};
use crate::undo::undo;
use crate::wire::{Failure, Wire};
use crate::{
    Applied, ApplyFailure, Change, Entry, Errno, ErrorKind, Family, Journal, LinkRef, Mark, Route,
    RouteError, RouteSpec, Scope, Sysctl, Undo,
};

/// How often hops that were hidden are made what they shall be; each time shows more of them.
const UNVEILINGS: usize = 3;
/// RT_TABLE_MAIN. Gateways of other tables' routes are looked up in it as well.
const MAIN: u32 = 254;
/// Whether a link takes default routes from router advertisements (net.ipv6.conf.LINK).
pub(crate) const ACCEPT_RA_DEFRTR: &str = "accept_ra_defrtr";
/// Whether a link has no IPv6 (net.ipv6.conf.LINK).
pub(crate) const DISABLE_IPV6: &str = "disable_ipv6";

pub(crate) fn routes(wire: &mut impl Wire, family: Family, table: u32) -> Result<Vec<Route>, RouteError> {
    let routes = wire.dump(family, table);
    listed(routes, wire.namespace(), family)
}

pub(crate) fn listed(
    routes: Result<Vec<Route>, Failure>,
    namespace: &str,
    family: Family,
) -> Result<Vec<Route>, RouteError> {
    match routes {
        Ok(routes) => Ok(routes),
        // A table comes into being with its first route.
        Err(failure) if failure.errno() == Some(Errno::ENOENT) => Ok(Vec::new()),
        Err(failure) => Err(plain(namespace, &failure, "list", Some(family))),
    }
}

pub(crate) fn links<W: Wire>(wire: &mut W) -> Result<Context, RouteError> {
    match wire.links() {
        Ok(links) => Ok(Context { netns: wire.namespace().to_owned(), links }),
        Err(failure) => Err(plain(wire.namespace(), &failure, "links", None)),
    }
}

pub(crate) fn apply(
    wire: &mut impl Wire,
    scope: &Scope,
    changes: &[Change],
    journal: &mut Journal,
) -> Result<Applied, ApplyFailure> {
    let tables = affected(changes);
    // All that is wrong is told before anything is changed.
    let mut aim = Aim::at(wire, &tables, scope, changes).map_err(untouched)?;
    let mark = journal.mark();
    let mut notes = Vec::new();
    let mut errors = Vec::new();
    for link in &aim.target.quiet {
        match quieten(wire, &aim.context, link, journal) {
            Ok(note) => notes.extend(note),
            Err(error) => errors.push(error),
        }
    }
    // Until a setting was written, an advertisement could still come behind the look at the tables.
    if errors.is_empty() && journal.mark() != mark && !aim.target.slots.is_empty() {
        match Aim::at(wire, &tables, scope, changes) {
            Ok(again) => aim = again,
            Err(wrong) => errors = wrong,
        }
    }
    if !errors.is_empty() {
        return Err(taken_back(wire, &aim.context, &[], journal, mark, errors));
    }
    let Aim { context, snapshot, target } = aim;
    let applied = carry_out(wire, &context, scope, &snapshot, &target, journal, mark)?;
    notes.extend(applied.notes);
    Ok(Applied { notes, added: applied.added, deleted: applied.deleted })
}

/// The tables that have to be read for the changes.
pub(crate) fn affected(changes: &[Change]) -> Vec<(Family, u32)> {
    let mut tables = resolve::tables(changes);
    for family in Family::ALL {
        if tables.iter().any(|(f, table)| *f == family && *table != MAIN) {
            tables.push((family, MAIN));
        }
    }
    tables
}

/// What changes come to on the tables as they were read.
struct Aim {
    context: Context,
    snapshot: Tables,
    target: Target,
}

impl Aim {
    fn at(
        wire: &mut impl Wire,
        tables: &[(Family, u32)],
        scope: &Scope,
        changes: &[Change],
    ) -> Result<Aim, Vec<RouteError>> {
        let (context, snapshot) = look(wire, tables)?;
        let target = resolve::changes(&context, scope, &snapshot, changes)?;
        Ok(Aim { context, snapshot, target })
    }
}

#[allow(clippy::too_many_arguments, reason = "as the trait's")]
pub(crate) fn replace(
    wire: &mut impl Wire,
    scope: &Scope,
    link: u32,
    family: Family,
    table: u32,
    wanted: &[RouteSpec],
    keep_kernel: bool,
    journal: &mut Journal,
) -> Result<Applied, ApplyFailure> {
    let mut tables = vec![(family, table)];
    if table != MAIN {
        tables.push((family, MAIN));
    }
    let (context, snapshot) = look(wire, &tables).map_err(untouched)?;
    let at = (link, family, table);
    let target = resolve::wanted(&context, scope, &snapshot, at, wanted, keep_kernel).map_err(untouched)?;
    let mark = journal.mark();
    carry_out(wire, &context, scope, &snapshot, &target, journal, mark)
}

fn untouched(errors: Vec<RouteError>) -> ApplyFailure {
    ApplyFailure { errors, undo: Undo::default(), changed: false }
}

/// The links and whole tables; all that cannot be read is reported.
pub(crate) fn look(
    wire: &mut impl Wire,
    tables: &[(Family, u32)],
) -> Result<(Context, Tables), Vec<RouteError>> {
    let mut errors = Vec::new();
    let context = links(wire).map_err(|error| errors.push(error)).ok();
    let mut snapshot = Tables::new();
    for (family, table) in tables {
        if let Vacant(place) = snapshot.entry((*family, *table)) {
            match routes(wire, *family, *table) {
                Ok(routes) => drop(place.insert(routes)),
                Err(error) => errors.push(error),
            }
        }
    }
    match context {
        Some(context) if errors.is_empty() => Ok((context, snapshot)),
        _ => Err(errors),
    }
}

/// Changes the routes. What fails is taken back to the mark.
fn carry_out(
    wire: &mut impl Wire,
    context: &Context,
    scope: &Scope,
    snapshot: &Tables,
    target: &Target,
    journal: &mut Journal,
    mark: Mark,
) -> Result<Applied, ApplyFailure> {
    let own = |route: &Route| scope.covers(route);
    let (plans, mut errors) = plan_all(context, snapshot, &target.slots, &own, Direction::Forth);
    if errors.is_empty() && !plans.is_empty() {
        errors = bring_about(wire, (context, snapshot), scope, &target.slots, &plans, journal);
    }
    let mut rounds = 0..UNVEILINGS;
    let mut strays = Vec::new();
    while errors.is_empty() {
        let (snapshot, slots) = match veiled(wire, target) {
            Ok(Unveiled { slots, .. }) if slots.is_empty() => break,
            Ok(unveiled) => {
                strays.extend(unveiled.strays);
                (unveiled.now, unveiled.slots)
            }
            Err(unread) => {
                errors = unread;
                break;
            }
        };
        let (plans, ambiguous) = plan_all(context, &snapshot, &slots, &own, Direction::Forth);
        errors = match rounds.next() {
            Some(_) if ambiguous.is_empty() => {
                bring_about(wire, (context, &snapshot), scope, &slots, &plans, journal)
            }
            Some(_) => ambiguous,
            None => {
                slots.iter().filter_map(|change| difference(context, &change.before, &change.after)).collect()
            }
        };
    }
    if errors.is_empty() {
        let (mut added, mut deleted) = (Vec::new(), Vec::new());
        for change in &target.slots {
            added.extend(minus(&change.after, &change.before));
            deleted.extend(minus(&change.before, &change.after));
        }
        let mut notes = Vec::new();
        for stray in strays {
            notes.push(format!("\"{}\" was hidden by other routes in its place", context.text(&stray)));
            deleted.push(stray);
        }
        return Ok(Applied { added, deleted, notes });
    }
    Err(taken_back(wire, context, &target.slots, journal, mark, errors))
}

/// The failure, after all since the mark is undone.
fn taken_back(
    wire: &mut impl Wire,
    context: &Context,
    slots: &[SlotChange],
    journal: &mut Journal,
    mark: Mark,
    errors: Vec<RouteError>,
) -> ApplyFailure {
    if journal.mark() == mark {
        return untouched(errors);
    }
    let mut undo = undo(wire, journal, mark);
    // What the journal does not know of shows here.
    for error in differences(wire, context, slots, |change| &change.before) {
        undo.exact = false;
        let text = error.reason.clone().unwrap_or_else(|| error.to_string());
        if !undo.leftover.contains(&text) {
            undo.leftover.push(text);
        }
    }
    ApplyFailure { errors, undo, changed: true }
}

/// Sends what the plans say and reads back.
fn bring_about(
    wire: &mut impl Wire,
    (context, snapshot): (&Context, &Tables),
    scope: &Scope,
    slots: &[SlotChange],
    plans: &[SlotPlan],
    journal: &mut Journal,
) -> Vec<RouteError> {
    let mut run = Run::new(wire, (context, snapshot), scope, journal, (plans, Policy::Apply));
    run.execute(&|| as_wanted(snapshot, slots));
    match run.errors {
        errors if errors.is_empty() => differences(wire, context, slots, |change| &change.after),
        errors => errors,
    }
}

/// What shows once the hops that hid it have gone.
#[derive(Default)]
struct Unveiled {
    now: Tables,
    /// What is still to be done.
    slots: Vec<SlotChange>,
    /// Routes among it that no dump has shown before.
    strays: Vec<Route>,
}

/// A dump shows the protocol, source and metrics of one of an IPv6 route's hops only. Of routes that were named
/// in full this finds those that turned out to have others, once the hops that hid them have gone; and where a link
/// shall have nothing but what is wanted, the routes that stood hidden between others' hops.
fn veiled(wire: &mut impl Wire, target: &Target) -> Result<Unveiled, Vec<RouteError>> {
    let in_full = |change: &SlotChange| target.in_full.contains(&change.slot);
    let hidden: Vec<&SlotChange> = target
        .slots
        .iter()
        .filter(|change| change.hides_attributes() && (in_full(change) || target.only.is_some()))
        .collect();
    if hidden.is_empty() {
        return Ok(Unveiled::default());
    }
    let tables: Vec<_> = hidden.iter().map(|change| (change.slot.dst.family(), change.slot.table)).collect();
    let (_, now) = look(wire, &tables)?;
    let index = Index::of(&now);
    let mut unveiled = Unveiled::default();
    for change in hidden {
        let before = index.in_slot(change.slot);
        let is_stray = |route: &&Route| {
            target.only.is_some_and(|only| only.is_about(route))
                && !merges(route)
                && !change.before.contains(route)
                && !change.after.contains(route)
        };
        let strays: Vec<Route> = before.iter().filter(is_stray).cloned().collect();
        let after = match in_full(change) {
            true => change.after.clone(),
            false => before.iter().filter(|route| !is_stray(route)).cloned().collect(),
        };
        if shown(&before) != shown(&after) {
            unveiled.slots.push(SlotChange { before, after, ..change.clone() });
            unveiled.strays.extend(strays);
        }
    }
    unveiled.now = now;
    Ok(unveiled)
}

/// All routes as they shall be.
pub(crate) fn as_wanted(snapshot: &Tables, slots: &[SlotChange]) -> Vec<Route> {
    let changing: BTreeSet<Slot> = slots.iter().map(|change| change.slot).collect();
    let families: BTreeSet<Family> = slots.iter().map(|change| change.slot.dst.family()).collect();
    let staying = snapshot.iter().filter(|((family, _), _)| families.contains(family));
    staying
        .flat_map(|(_, routes)| routes)
        .filter(|route| !changing.contains(&route.slot()))
        .chain(slots.iter().flat_map(|change| &change.after))
        .cloned()
        .collect()
}

pub(crate) fn plan_all(
    context: &Context,
    snapshot: &Tables,
    slots: &[SlotChange],
    own: &dyn Fn(&Route) -> bool,
    direction: Direction,
) -> (Vec<SlotPlan>, Vec<RouteError>) {
    let (mut plans, mut errors) = (Vec::new(), Vec::new());
    let index = Index::of(snapshot);
    for change in slots {
        match plan(change.clone(), &index.near(change.slot), own, direction) {
            Ok(plan) => plans.push(plan),
            Err(ambiguous) => {
                let change = &ambiguous.change;
                let (before, after) = (texts(context, &change.before), texts(context, &change.after));
                let Some(route) =
                    minus(&change.before, &change.after).into_iter().next().or(change.after.first().cloned())
                else {
                    continue;
                };
                errors.push(context.error(ErrorKind::Conflict, "replace", &route).reason(format!(
                    "several routes share its destination, table, tos and metric, and the kernel would mistake \
                     one for another on the way from [{before}] to [{after}], or back; nothing was sent"
                )));
            }
        }
    }
    (plans, errors)
}

pub(crate) fn texts(context: &Context, routes: &[Route]) -> String {
    routes.iter().map(|route| context.text(route)).collect::<Vec<_>>().join(", ")
}

/// Reads the slots' tables back and says where they are not as they shall be.
pub(crate) fn differences<'a>(
    wire: &mut impl Wire,
    context: &Context,
    slots: &'a [SlotChange],
    wanted: impl Fn(&'a SlotChange) -> &'a Vec<Route>,
) -> Vec<RouteError> {
    let mut errors = Vec::new();
    let tables: BTreeSet<(Family, u32)> =
        slots.iter().map(|change| (change.slot.dst.family(), change.slot.table)).collect();
    for (family, table) in tables {
        let here = |slot: &Slot| slot.dst.family() == family && slot.table == table;
        let set: BTreeSet<Slot> = slots.iter().map(|change| change.slot).filter(here).collect();
        let now = match routes(wire, family, table) {
            Ok(routes) => by_slot(&routes, &set),
            Err(mut error) => {
                error.operation = "verify";
                errors.push(error);
                continue;
            }
        };
        for change in slots.iter().filter(|change| here(&change.slot)) {
            let now = now.get(&change.slot).map_or(&[][..], Vec::as_slice);
            let (now, wanted) = change.comparable(now, wanted(change));
            if !change.is(&now, &wanted) {
                errors.extend(difference(context, &now, &wanted));
            }
        }
    }
    errors
}

/// What tells a slot from what it shall hold.
pub(crate) fn difference(context: &Context, now: &[Route], wanted: &[Route]) -> Option<RouteError> {
    let missing = minus(wanted, now);
    let extra = minus(now, wanted);
    let mut parts = Vec::new();
    if !missing.is_empty() {
        parts.push(format!("missing: {}", texts(context, &missing)));
    }
    if !extra.is_empty() {
        parts.push(format!("not wanted: {}", texts(context, &extra)));
    }
    if parts.is_empty() {
        parts.push(format!("the order is: {}", texts(context, now)));
    }
    let route = missing.first().or(extra.first()).or(now.first())?;
    Some(context.error(ErrorKind::Verify, "verify", route).reason(parts.join("; ")))
}

/// The routes of `a` that `b` lacks. IPv6: of a route over several hops only those that `b` lacks.
fn minus(a: &[Route], b: &[Route]) -> Vec<Route> {
    let legs: Vec<Route> = b.iter().flat_map(Route::legs).collect();
    let mut out = Vec::new();
    for route in a {
        let lacking: Vec<Route> = route.legs().into_iter().filter(|leg| !legs.contains(leg)).collect();
        if lacking.len() == route.legs().len() {
            out.push(route.clone());
        } else if !lacking.is_empty() {
            out.push(route.with_hops(lacking.into_iter().flat_map(|leg| leg.hops).collect()));
        }
    }
    out
}

/// Turns default routes from router advertisements off on one link.
fn quieten(
    wire: &mut impl Wire,
    context: &Context,
    link: &LinkRef,
    journal: &mut Journal,
) -> Result<Option<String>, RouteError> {
    let failed = |failure: &Failure| {
        let mut error = plain(&context.netns, failure, "sysctl", Some(Family::V6));
        error.links = vec![link.clone()];
        error
    };
    let before = match wire.sysctl(&link.name, ACCEPT_RA_DEFRTR) {
        Ok(Some(value)) => value.trim().to_owned(),
        Ok(None) => return Ok(Some(format!("{} has no IPv6, so no router advertisements", link.name))),
        Err(failure) => return Err(failed(&failure)),
    };
    if before == "0" {
        return Ok(Some(format!("{} already ignores router advertisements' default routes", link.name)));
    }
    let entry = || {
        Entry::Sysctl(Sysctl {
            link: link.clone(),
            key: ACCEPT_RA_DEFRTR.to_owned(),
            before: before.clone(),
            after: "0".to_owned(),
        })
    };
    if let Err(failure) = wire.set_sysctl(&link.name, ACCEPT_RA_DEFRTR, "0") {
        // It may have been written all the same; what cannot be read is taken for written.
        if !matches!(wire.sysctl(&link.name, ACCEPT_RA_DEFRTR), Ok(Some(now)) if now.trim() == before) {
            journal.push(entry());
        }
        return Err(failed(&failure));
    }
    journal.push(entry());
    match wire.sysctl(&link.name, ACCEPT_RA_DEFRTR) {
        Ok(Some(value)) if value.trim() == "0" => Ok(None),
        Ok(value) => {
            let error = context.link_error(ErrorKind::Verify, "sysctl", link.index);
            Err(error.reason(format!("{ACCEPT_RA_DEFRTR} reads {value:?} after 0 was written")))
        }
        Err(failure) => Err(failed(&failure)),
    }
}
