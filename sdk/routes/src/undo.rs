//! Taking back what a journal says: as far as possible, whatever is refused on the way, and what is left is said.

use std::collections::BTreeSet;

use crate::apply::{as_wanted, differences, links, look, near, plan_all, texts};
use crate::context::Context;
use crate::fib::legs_of;
use crate::plan::{Direction, plan};
use crate::resolve::Snapshot;
use crate::revert::revert;
use crate::run::{Policy, Run, by_slot, help_routes};
use crate::slot::SlotChange;
use crate::wire::Wire;
use crate::{Entry, ErrorKind, Family, Journal, Mark, Route, RouteChange, RouteError, Scope, Sysctl, Undo};

pub(crate) fn undo(wire: &mut impl Wire, journal: &mut Journal, to: Mark) -> Undo {
    let mut undo = Undo::default();
    let entries = journal.since(to).to_vec();
    let changes = entries.iter().filter_map(Entry::route);
    let mut tables: Vec<(Family, u32)> = changes.map(|change| (change.family, change.table)).collect();
    tables.sort();
    tables.dedup();
    if !tables.is_empty() {
        restore_routes(wire, &tables, &entries, &mut undo);
    }
    let sysctls: Vec<&Sysctl> = entries.iter().rev().filter_map(Entry::sysctl).collect();
    if !sysctls.is_empty() {
        match links(wire) {
            Ok(context) => {
                sysctls.iter().for_each(|sysctl| restore_sysctl(wire, &context, sysctl, &mut undo))
            }
            Err(error) => {
                undo.errors.push(in_undo(error));
                undo.leftover.extend(sysctls.iter().map(|sysctl| sysctl.left()));
            }
        }
    }
    undo.exact = undo.leftover.is_empty();
    if undo.exact {
        journal.take_from(to);
    }
    undo
}

/// What the first attempt leaves, such as after a lost connection, the second one may mend.
const ATTEMPTS: usize = 2;

fn restore_routes(wire: &mut impl Wire, tables: &[(Family, u32)], entries: &[Entry], undo: &mut Undo) {
    let changes: Vec<&RouteChange> = entries.iter().filter_map(Entry::route).collect();
    let ours: BTreeSet<u32> =
        changes.iter().flat_map(|change| change.links.iter().map(|link| link.index)).collect();
    let own = |route: &Route| !route.hops.is_empty() && route.hops.iter().all(|hop| ours.contains(&hop.link));
    let scope = Scope { links: ours.iter().copied().collect(), tables: Vec::new() };
    let mut goal: Option<Vec<SlotChange>> = None;
    let mut left: Vec<String> = changes.iter().map(|change| change.describe()).collect();
    for _ in 0..ATTEMPTS {
        let (context, snapshot) = match look(wire, tables) {
            Ok(seen) => seen,
            Err(errors) => {
                undo.errors.extend(errors.into_iter().map(in_undo));
                continue;
            }
        };
        let slots: Vec<SlotChange> = match &goal {
            Some(slots) => slots.iter().map(|change| again(change, &snapshot)).collect(),
            None => {
                let (slots, notes) = revert(entries, &snapshot, &context);
                undo.notes.extend(notes);
                slots.into_iter().map(|change| possible(change, &context, &snapshot, &own, undo)).collect()
            }
        };
        let (plans, ambiguous) = plan_all(&context, &snapshot, &slots, &own, Direction::Back);
        undo.errors.extend(ambiguous.into_iter().map(in_undo));
        let mut scratch = Journal::new();
        let mut run = Run::new(wire, &context, &scope, &mut scratch, Policy::Undo);
        run.execute(&plans, &|| as_wanted(&snapshot, &slots));
        undo.errors.extend(run.errors.into_iter().map(in_undo));
        let different = differences(wire, &context, &slots, |change| &change.after);
        let text = |error: &RouteError| error.reason.clone().unwrap_or_else(|| error.to_string());
        left = different.iter().map(text).collect();
        let poles: Vec<Route> = help_routes(&scratch).cloned().collect();
        left.extend(poles.iter().map(|pole| format!("not wanted: {}", context.text(pole))));
        if left.is_empty() {
            break;
        }
        let mut slots = slots;
        slots.extend(poles.into_iter().map(|pole| SlotChange {
            slot: pole.slot(),
            before: vec![pole],
            after: Vec::new(),
        }));
        goal = Some(slots);
    }
    undo.leftover.extend(left);
}

/// The kernel adds to a slot's ends only. In the wrong place is better than missing, and the order that is left is
/// said.
fn possible(
    change: SlotChange,
    context: &Context,
    snapshot: &Snapshot,
    own: &dyn Fn(&Route) -> bool,
    undo: &mut Undo,
) -> SlotChange {
    if plan(change.clone(), &near(snapshot, &change), own, Direction::Back).is_ok() {
        return change;
    }
    let other = change.in_any_order();
    if !other.is(&other.after, &change.after) {
        let (is, was) = (texts(context, &other.after), texts(context, &change.after));
        undo.leftover.push(format!("the order of routes in one place is {is}; it was {was}"));
    }
    other
}

/// The same goal from what the slot holds by now. What somebody else has put there since stays.
fn again(change: &SlotChange, snapshot: &Snapshot) -> SlotChange {
    let slot = change.slot;
    let table = snapshot.get(&(slot.dst.family(), slot.table)).map_or(&[][..], Vec::as_slice);
    let now = by_slot(table, &BTreeSet::from([slot])).remove(&slot).unwrap_or_default();
    let known: Vec<Route> = legs_of(&change.before).into_iter().chain(legs_of(&change.after)).collect();
    let newcomer = |leg: &Route| match slot.dst.family() {
        Family::V4 => !known.contains(leg),
        Family::V6 => !known.iter().any(|k| k.kind == leg.kind && k.hop_names() == leg.hop_names()),
    };
    let mut after = change.after.clone();
    after.extend(legs_of(&now).into_iter().filter(newcomer));
    SlotChange { slot, before: now, after }
}

fn restore_sysctl(wire: &mut impl Wire, context: &Context, sysctl: &Sysctl, undo: &mut Undo) {
    let Some(link) = context.link(sysctl.link.index) else {
        undo.notes.push(format!("the link {} has gone, and its settings with it", sysctl.link));
        return;
    };
    let name = format!("net.ipv6.conf.{}.{}", link.name, sysctl.key);
    let now = wire.sysctl(&link.name, &sysctl.key);
    let failure = match now {
        Ok(Some(now)) if now.trim() == sysctl.before => return,
        Ok(Some(now)) if now.trim() != sysctl.after => {
            let now = now.trim();
            undo.notes.push(format!("{name} is {now} by now, so somebody else has set it, and it stays"));
            return;
        }
        Ok(None) => return undo.notes.push(format!("{name} has gone")),
        Ok(Some(_)) => match wire.set_sysctl(&link.name, &sysctl.key, &sysctl.before) {
            Ok(()) => return,
            Err(failure) => failure,
        },
        Err(failure) => failure,
    };
    let error = context.link_error(ErrorKind::Other, "sysctl", link.index);
    undo.errors.push(in_undo(error.reason(failure.to_string())));
    undo.leftover.push(sysctl.left());
}

fn in_undo(mut error: RouteError) -> RouteError {
    let reason = match error.reason.take() {
        Some(reason) => format!("{}: {reason}", error.operation),
        None => error.operation.to_owned(),
    };
    error.operation = "undo";
    error.reason(reason)
}
