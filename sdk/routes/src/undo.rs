//! Taking back what a journal says: as far as possible, whatever is refused on the way, and what is left is said.

use std::collections::BTreeSet;

use crate::apply::{as_wanted, difference, differences, links, look, plan_all, texts};
use crate::context::Context;
use crate::index::Index;
use crate::plan::{Direction, plan};
use crate::revert::revert;
use crate::run::{Policy, Run};
use crate::slot::{Slot, SlotChange};
use crate::wire::Wire;
use crate::{Entry, ErrorKind, Family, Journal, Mark, Route, RouteChange, RouteError, Scope, Sysctl, Undo};

pub(crate) fn undo(wire: &mut impl Wire, journal: &mut Journal, to: Mark) -> Undo {
    undo_in(ATTEMPTS, wire, journal, to)
}

/// [`crate::Table::undo`] in one go: what it leaves is not tried again. For tests of what a journal alone says.
#[doc(hidden)]
pub fn undo_once(wire: &mut impl Wire, journal: &mut Journal, to: Mark) -> Undo {
    undo_in(1, wire, journal, to)
}

fn undo_in(attempts: usize, wire: &mut impl Wire, journal: &mut Journal, to: Mark) -> Undo {
    wire.undoing();
    let mut undo = Undo::default();
    let sysctls: Vec<Sysctl> = journal.since(to).iter().rev().filter_map(Entry::sysctl).cloned().collect();
    if journal.since(to).iter().any(|entry| entry.route().is_some()) {
        for _ in 0..attempts {
            undo.leftover = restore_routes(wire, journal, to, &mut undo);
            if undo.leftover.is_empty() {
                break;
            }
        }
    }
    if !sysctls.is_empty() {
        match links(wire) {
            Ok(context) => {
                sysctls.iter().for_each(|sysctl| restore_sysctl(wire, &context, sysctl, &mut undo))
            }
            Err(error) => {
                undo.errors.push(in_undo(error));
                undo.leftover.extend(sysctls.iter().map(Sysctl::left));
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

/// One attempt; returns what is left. What it does itself is journaled like anything else, so that the next one
/// takes back what went wrong in this one too.
fn restore_routes(wire: &mut impl Wire, journal: &mut Journal, to: Mark, undo: &mut Undo) -> Vec<String> {
    let before = journal.mark();
    let changes: Vec<&RouteChange> = journal.since(to).iter().filter_map(Entry::route).collect();
    let tables: Vec<(Family, u32)> = changes.iter().map(|change| (change.family, change.table)).collect();
    let ours: BTreeSet<u32> =
        changes.iter().flat_map(|change| change.links.iter().map(|link| link.index)).collect();
    let own = |route: &Route| !route.hops.is_empty() && route.hops.iter().all(|hop| ours.contains(&hop.link));
    let scope = Scope { links: ours.iter().copied().collect(), tables: Vec::new() };
    let (context, snapshot) = match look(wire, &tables) {
        Ok(seen) => seen,
        Err(errors) => {
            undo.errors.extend(errors.into_iter().map(in_undo));
            return changes.iter().map(|change| change.describe()).collect();
        }
    };
    let (slots, notes) = revert(journal.since(to), &snapshot, &context);
    undo.notes.extend(notes.into_iter().filter(|note| !undo.notes.contains(note)).collect::<Vec<_>>());
    let mut left = Vec::new();
    let index = Index::of(&snapshot);
    let slots: Vec<SlotChange> =
        slots.into_iter().map(|change| possible(change, &context, &index, &own, &mut left)).collect();
    let (plans, ambiguous) = plan_all(&context, &snapshot, &slots, &own, Direction::Back);
    undo.errors.extend(ambiguous.into_iter().map(in_undo));
    let mut run = Run::new(wire, (&context, &snapshot), &scope, journal, (&plans, Policy::Undo));
    run.execute(&|| as_wanted(&snapshot, &slots));
    undo.errors.extend(run.errors.into_iter().map(in_undo));
    let text = |error: &RouteError| error.reason.clone().unwrap_or_else(|| error.to_string());
    left.extend(differences(wire, &context, &slots, |change| &change.after).iter().map(text));
    // A help route that could not be taken away, or what the kernel did instead of what was meant.
    let elsewhere = |slot: Slot| slots.iter().all(|change| change.slot != slot);
    let changed = journal.since(before).iter().filter_map(Entry::route);
    if changed.flat_map(RouteChange::routes).any(|route| elsewhere(route.slot())) {
        match look(wire, &tables) {
            Ok((context, now)) => {
                let (strays, _) = revert(journal.since(to), &now, &context);
                let strays = strays.iter().filter(|change| elsewhere(change.slot));
                let said = strays.filter_map(|change| difference(&context, &change.before, &change.after));
                left.extend(said.map(|error| text(&error)));
            }
            Err(errors) => left.extend(errors.iter().map(text)),
        }
    }
    left
}

/// The kernel adds to a slot's ends only. In the wrong place is better than missing, and the order that is left is
/// said.
fn possible(
    change: SlotChange,
    context: &Context,
    index: &Index<'_>,
    own: &dyn Fn(&Route) -> bool,
    left: &mut Vec<String>,
) -> SlotChange {
    if plan(change.clone(), &index.near(change.slot), own, Direction::Back).is_ok() {
        return change;
    }
    let other = change.in_any_order();
    if !other.is(&other.after, &change.after) {
        let (is, was) = (texts(context, &other.after), texts(context, &change.after));
        left.push(format!("the order of routes in one place is {is}; it was {was}"));
    }
    other
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
            Err(failure) => match wire.sysctl(&link.name, &sysctl.key) {
                Ok(Some(now)) if now.trim() == sysctl.before => return,
                _ => failure,
            },
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
