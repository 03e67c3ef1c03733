//! Which requests turn a slot into what it shall be. A kernel request is a pattern, so each way is first played
//! through on the routes at hand, and only one that ends exactly as wanted is taken.

use crate::fib::Fib;
use crate::slot::SlotChange;
use crate::{Family, Mode, Request, Route};

/// One request and what it must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) request: Request,
    /// IPv6: legs.
    pub(crate) removed: Vec<Route>,
    pub(crate) added: Vec<Route>,
    /// Where in its slot the first removed IPv4 route stands.
    pub(crate) position: usize,
}

impl Step {
    pub(crate) fn adds(&self) -> bool {
        !self.added.is_empty()
    }

    pub(crate) fn add(route: &Route, mode: Mode) -> Step {
        Step { request: Request::add(route, mode), removed: Vec::new(), added: vec![route.clone()], position: 0 }
    }

    fn delete(route: &Route, position: usize) -> Step {
        Step { request: Request::delete(route), removed: vec![route.clone()], added: Vec::new(), position }
    }

    fn replace(old: Vec<Route>, new: &Route, position: usize) -> Step {
        Step { removed: old, position, ..Step::add(new, Mode::Replace) }
    }
}

/// The steps for one slot, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlotPlan {
    pub(crate) change: SlotChange,
    pub(crate) steps: Vec<Step>,
}

/// No sequence of requests does it: the kernel would mistake one of the slot's routes for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ambiguous {
    pub(crate) change: SlotChange,
}

/// The steps that make `change.before` into `change.after`. `near`: all routes of the same destination and table.
/// Steps from which there is a way back at any moment are preferred.
pub(crate) fn plan(change: SlotChange, near: &[Route]) -> Result<SlotPlan, Box<Ambiguous>> {
    let mut ways: Vec<(Vec<Step>, Vec<Fib>)> = ways(&change)
        .into_iter()
        .filter_map(|steps| states(&steps, &change, near).map(|states| (steps, states)))
        .collect();
    let safe = ways.iter().position(|(_, states)| states.iter().all(|state| has_way_back(state, &change)));
    if ways.is_empty() {
        return Err(Box::new(Ambiguous { change }));
    }
    let (steps, _) = ways.swap_remove(safe.unwrap_or(0));
    Ok(SlotPlan { change, steps })
}

fn ways(change: &SlotChange) -> Vec<Vec<Step>> {
    match change.slot.dst.family() {
        Family::V4 => ways_v4(change),
        Family::V6 => ways_v6(change),
    }
}

/// Plays the steps through. If each does what it must, the slot ends as wanted, and nothing else has changed, the
/// states in between.
fn states(steps: &[Step], change: &SlotChange, near: &[Route]) -> Option<Vec<Fib>> {
    let family = change.slot.dst.family();
    let mut fib = Fib::new(near.iter().cloned());
    let others = |fib: &Fib| -> Vec<Route> {
        fib.all(family).into_iter().filter(|route| route.slot() != change.slot).collect()
    };
    let before = others(&fib);
    let mut states = Vec::new();
    for step in steps {
        let echoes = fib.send(&step.request).ok()?;
        let removed = step.removed.iter().map(|route| route.clone().normalised());
        if !step.adds() && !echoes.into_iter().map(|echo| echo.route).eq(removed) {
            return None;
        }
        states.push(fib.clone());
    }
    let (mut slot, mut wanted) = (in_slot(&fib, change), change.after.clone());
    if family == Family::V6 {
        slot.sort();
        wanted.sort();
    }
    (slot == wanted && others(&fib) == before).then_some(states)
}

fn has_way_back(state: &Fib, change: &SlotChange) -> bool {
    let back = SlotChange { slot: change.slot, before: in_slot(state, change), after: change.before.clone() };
    let near = state.all(change.slot.dst.family());
    ways(&back).iter().any(|steps| states(steps, &back, &near).is_some())
}

fn in_slot(fib: &Fib, change: &SlotChange) -> Vec<Route> {
    fib.all(change.slot.dst.family()).into_iter().filter(|route| route.slot() == change.slot).collect()
}

/// An append and an exact delete are preferred to NLM_F_REPLACE: as free of gaps, and a route that somebody else
/// has put into the slot meanwhile survives.
fn ways_v4(change: &SlotChange) -> Vec<Vec<Step>> {
    let named = ways_v4_by(change, Request::delete);
    let listed = ways_v4_by(change, Request::delete_list);
    [named, listed].concat()
}

fn ways_v4_by(change: &SlotChange, delete: fn(&Route) -> Request) -> Vec<Vec<Step>> {
    let (before, after) = (&change.before, &change.after);
    let kept: Vec<&Route> = before.iter().filter(|route| after.contains(route)).collect();
    let new: Vec<&Route> = after.iter().filter(|route| !before.contains(route)).collect();
    // Positions are those at the time of each delete, so that undoing backwards finds its place.
    let mut deletes = Vec::new();
    for (i, route) in before.iter().enumerate() {
        if !after.contains(route) {
            deletes.push(Step { request: delete(route), ..Step::delete(route, i - deletes.len()) });
        }
    }
    let moved = |steps: &[Step], by: usize| -> Vec<Step> {
        steps.iter().map(|step| Step { position: step.position + by, ..step.clone() }).collect()
    };
    if before.is_empty() {
        let mode = |i: usize| if i == 0 { Mode::Exclusive } else { Mode::Append };
        return vec![new.iter().enumerate().map(|(i, route)| Step::add(route, mode(i))).collect()];
    }
    let appended: Vec<Step> = new.iter().map(|route| Step::add(route, Mode::Append)).collect();
    let prepended: Vec<Step> = new.iter().rev().map(|route| Step::add(route, Mode::Prepend)).collect();
    let mut ways = vec![
        [appended, deletes.clone()].concat(),
        [prepended, moved(&deletes, new.len())].concat(),
    ];
    if let (Some(old), [first, rest @ ..]) = (before.first().filter(|old| !kept.contains(old)), new.as_slice()) {
        let replace = Step::replace(vec![old.clone()], first, 0);
        let append = rest.iter().map(|route| Step::add(route, Mode::Append)).collect();
        let later = moved(deletes.get(1..).unwrap_or_default(), 1);
        ways.push([vec![replace], append, later].concat());
    }
    ways
}

fn ways_v6(change: &SlotChange) -> Vec<Vec<Step>> {
    let legs = |routes: &[Route]| -> Vec<Route> { routes.iter().flat_map(Route::legs).collect() };
    let (before, after) = (legs(&change.before), legs(&change.after));
    if before.is_empty() {
        let mode = |i: usize| if i == 0 { Mode::Exclusive } else { Mode::Append };
        return vec![change.after.iter().enumerate().map(|(i, r)| add_v6(r, mode(i))).collect()];
    }
    let new: Vec<&Route> = after.iter().filter(|leg| !before.contains(leg)).collect();
    let old: Vec<&Route> = before.iter().filter(|leg| !after.contains(leg)).collect();
    let merged = |leg: &Route| change.before.iter().any(|r| r.hops.len() > 1 && r.hops.iter().any(|h| leg.hops.contains(h)));
    let adds: Vec<Step> = new.iter().map(|leg| add_v6(leg, Mode::Append)).collect();
    let deletes: Vec<Step> = old.iter().map(|leg| delete_v6(leg, merged(leg))).collect();
    let mut ways = vec![[adds.clone(), deletes.clone()].concat()];
    if let [only] = change.after.as_slice() {
        ways.push(vec![Step { removed: before.clone(), added: after.clone(), ..replace_v6(only) }]);
    }
    // A hop that changes in itself cannot be there twice: it goes first.
    ways.push([deletes, adds].concat());
    ways
}

fn add_v6(route: &Route, mode: Mode) -> Step {
    Step { added: route.legs(), ..Step::add(route, mode) }
}

fn replace_v6(route: &Route) -> Step {
    Step::replace(Vec::new(), route, 0)
}

fn delete_v6(leg: &Route, merged: bool) -> Step {
    let request = if merged { Request::delete_leg(leg) } else { Request::delete(leg) };
    Step { request, ..Step::delete(leg, 0) }
}
