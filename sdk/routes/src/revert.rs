//! What a journal's entries, taken back, make of the tables as they are now.

use std::collections::{BTreeMap, BTreeSet};

use crate::context::Context;
use crate::fib::{legs_of, merges};
use crate::resolve::Tables;
use crate::run::by_slot;
use crate::slot::{Slot, SlotChange};
use crate::{Entry, Family, Hop, Route, RouteChange};

/// The slots that differ, and what there is to say about what cannot come back.
pub(crate) fn revert(entries: &[Entry], now: &Tables, context: &Context) -> (Vec<SlotChange>, Vec<String>) {
    let changes: Vec<&RouteChange> = entries.iter().filter_map(Entry::route).collect();
    let mut slots: BTreeMap<Slot, Vec<Route>> = BTreeMap::new();
    for ((family, table), routes) in now {
        let touched: BTreeSet<Slot> = changes
            .iter()
            .filter(|change| change.family == *family && change.table == *table)
            .flat_map(|change| change.routes().map(Route::slot))
            .collect();
        slots.extend(by_slot(routes, &touched));
    }
    let before = slots.clone();
    for held in slots.values_mut() {
        *held = held.iter().flat_map(Route::legs).collect();
    }
    let mut notes = BTreeSet::new();
    for change in changes.into_iter().rev() {
        take_back(change, &before, &mut slots, context, &mut notes);
    }
    for (slot, after) in &slots {
        let comes_back = |route: &Route| !before.get(slot).is_some_and(|now| legs_of(now).contains(route));
        let (merging, other) = (after.iter().find(|r| merges(r)), after.iter().find(|r| !merges(r)));
        // The kernel puts what comes back behind what is there, whichever of them packets took before.
        if slot.dst.family() == Family::V6
            && after.iter().any(comes_back)
            && let (Some(merging), Some(other)) = (merging, other)
        {
            let (one, other) = (context.text(merging), context.text(other));
            notes.insert(format!("\"{one}\" and \"{other}\" share a place, and may be in another order now"));
        }
    }
    let changes = slots.into_iter().filter_map(|(slot, after)| {
        // IPv6 legs stay apart: each comes back with its own protocol, source and metrics.
        let before = before.get(&slot).cloned().unwrap_or_default();
        let change = SlotChange { slot, before, after, known: true };
        (!change.is(&change.before, &change.after)).then_some(change)
    });
    (changes.collect(), notes.into_iter().collect())
}

fn take_back(
    change: &RouteChange,
    before: &BTreeMap<Slot, Vec<Route>>,
    slots: &mut BTreeMap<Slot, Vec<Route>>,
    context: &Context,
    notes: &mut BTreeSet<String>,
) {
    let mut place = change.position;
    for route in &change.added {
        let slot = route.slot();
        let shown = before.get(&slot).map_or(&[][..], Vec::as_slice);
        let Some(held) = slots.get_mut(&slot) else { continue };
        if let Some(there) = find(held, route, shown) {
            held.remove(there);
            place = there;
        }
    }
    for (i, route) in change.removed.iter().enumerate() {
        let names = change.names();
        let gone: Vec<&Hop> = route.hops.iter().filter(|hop| context.link(hop.link).is_none()).collect();
        notes.extend(gone.iter().map(|hop| {
            format!("the link {} (index {}) has gone, and its routes with it", names(hop.link), hop.link)
        }));
        if !gone.is_empty() && gone.len() == route.hops.len() {
            continue;
        }
        let rest = route.hops.iter().filter(|hop| !gone.contains(hop)).cloned().collect();
        let route = if gone.is_empty() { route.clone() } else { route.with_hops(rest) };
        let slot = route.slot();
        let shown = before.get(&slot).map_or(&[][..], Vec::as_slice);
        let Some(held) = slots.get_mut(&slot) else { continue };
        if find(held, &route, shown).is_some() {
            continue;
        }
        if let Some(there) = same_hop(held, &route).and_then(|there| held.get(there)) {
            let (there, route) = (context.text(there), context.text(&route));
            notes.insert(format!("\"{there}\" is in the place of \"{route}\" by now, and stays"));
            continue;
        }
        if route.is_from_ra() && route.expires.0.is_some() {
            notes.insert(format!(
                "\"{}\" is back with the lifetime it had; the kernel takes it for one that was configured, so an \
                 advertisement that ends it early does not remove it",
                context.text(&route)
            ));
        }
        let end = held.len();
        held.insert(if route.family == Family::V4 { (place + i).min(end) } else { end }, route);
    }
}

/// Where a route or leg is. The weight of a leg shows only beside others, and in an IPv6 route of several hops (as
/// `shown` by the dump) a leg's own protocol, source and metrics do not show.
fn find(held: &[Route], route: &Route, shown: &[Route]) -> Option<usize> {
    let as_shown = route.clone().normalised();
    let strictly = held.iter().position(|there| there.clone().normalised() == as_shown);
    let name = |route: &Route| route.hops.first().map(Hop::name);
    let merged = |there: &Route| {
        shown.iter().any(|r| r.hops.len() > 1 && r.hops.iter().any(|hop| Some(hop.name()) == name(there)))
    };
    strictly.or_else(|| same_hop(held, route).filter(|there| held.get(*there).is_some_and(merged)))
}

/// Where the only IPv6 leg is that a slot can have over that hop.
fn same_hop(held: &[Route], route: &Route) -> Option<usize> {
    let [hop] = route.hops.as_slice() else { return None };
    let same = |there: &Route| there.kind == route.kind && there.hops.iter().map(Hop::name).eq([hop.name()]);
    held.iter().position(|there| route.family == Family::V6 && same(there))
}
