//! Which requests turn a slot into what it shall be. A kernel request is a pattern, so each way is first played
//! through on the routes at hand, and only one that ends exactly as wanted is taken.

mod search;

use search::search;

use crate::fib::{Fib, merges};
use crate::slot::{SlotChange, shown};
use crate::snapshot::ALL_TABLES;
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
        Step {
            request: Request::add(route, mode),
            removed: Vec::new(),
            added: vec![route.clone()],
            position: 0,
        }
    }

    fn delete(route: &Route, position: usize) -> Step {
        Step { request: Request::delete(route), removed: vec![route.clone()], added: Vec::new(), position }
    }

    fn replace(old: Vec<Route>, new: &Route, position: usize) -> Step {
        Step { removed: old, position, ..Step::add(new, Mode::Replace) }
    }
}

/// Whether it must be possible to undo the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forth,
    Back,
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
/// Steps from which there is a way back at any moment are preferred; second come those that may leave another
/// order. `own` routes may be moved to keep the order.
pub(crate) fn plan(
    change: SlotChange,
    near: &[Route],
    own: &dyn Fn(&Route) -> bool,
    direction: Direction,
) -> Result<SlotPlan, Box<Ambiguous>> {
    let named = |routes: &[Route]| -> Vec<Route> { routes.iter().map(Route::as_named).collect() };
    let (change, near) =
        (SlotChange { before: named(&change.before), after: named(&change.after), ..change }, named(near));
    let mut second = None;
    for steps in ways(&change, own) {
        let Some(states) = states(&steps, &change, &near) else { continue };
        let back = |exactly: bool| states.iter().all(|state| has_way_back(state, &change, own, exactly));
        if back(true) {
            return Ok(SlotPlan { change, steps });
        }
        if second.is_none() && (direction == Direction::Back || back(false)) {
            second = Some(steps);
        }
    }
    if second.is_none() {
        let searched = search(&change, &near, own);
        second = searched.filter(|steps| {
            states(steps, &change, &near).is_some_and(|states| {
                direction == Direction::Back
                    || states.iter().all(|state| has_way_back(state, &change, own, false))
            })
        });
    }
    match second {
        Some(steps) => Ok(SlotPlan { change, steps }),
        None => Err(Box::new(Ambiguous { change })),
    }
}

fn ways(change: &SlotChange, own: &dyn Fn(&Route) -> bool) -> Vec<Vec<Step>> {
    match change.slot.dst.family() {
        Family::V4 => ways_v4(change, own),
        Family::V6 => ways_v6(change),
    }
}

/// Plays the steps through. If each does what it must, the slot ends as wanted, and nothing else has changed, the
/// states in between.
fn states(steps: &[Step], change: &SlotChange, near: &[Route]) -> Option<Vec<Fib>> {
    let family = change.slot.dst.family();
    let mut fib = Fib::new(near.iter().cloned());
    let others = |fib: &Fib| -> Vec<Route> {
        fib.dump(family, ALL_TABLES).into_iter().filter(|route| route.slot() != change.slot).collect()
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
    let slot = in_slot(&fib, change);
    let as_wanted = match family {
        Family::V4 => slot == change.after,
        // Legs of one route may differ in what a dump does not show.
        Family::V6 => change.is(&slot, &change.after),
    };
    (as_wanted && others(&fib) == before).then_some(states)
}

fn has_way_back(state: &Fib, change: &SlotChange, own: &dyn Fn(&Route) -> bool, exactly: bool) -> bool {
    let back = SlotChange { before: in_slot(state, change), after: change.before.clone(), ..*change };
    let back = if exactly { back } else { back.in_any_order() };
    let near = state.dump(change.slot.dst.family(), ALL_TABLES);
    ways(&back, own).iter().any(|steps| states(steps, &back, &near).is_some())
}

/// The slot's routes, IPv6 leg by leg, with those that a dump would hide.
fn in_slot(fib: &Fib, change: &SlotChange) -> Vec<Route> {
    fib.held(change.slot.dst.family()).iter().filter(|route| route.slot() == change.slot).cloned().collect()
}

/// An append and an exact delete are preferred to NLM_F_REPLACE: as free of gaps, and a route that somebody else
/// has put into the slot meanwhile survives.
fn ways_v4(change: &SlotChange, own: &dyn Fn(&Route) -> bool) -> Vec<Vec<Step>> {
    let (before, after) = (&change.before, &change.after);
    if before.is_empty() {
        let mode = |i: usize| if i == 0 { Mode::Exclusive } else { Mode::Append };
        return vec![after.iter().enumerate().map(|(i, route)| Step::add(route, mode(i))).collect()];
    }
    let mut ways = Vec::new();
    for delete in [Request::delete, Request::delete_list] {
        let delete = |route: &Route, place| Step { request: delete(route), ..Step::delete(route, place) };
        ways.extend(ways_v4_by(before, after, &delete));
        ways.extend(by_rebuilding(before, after, own, &delete));
    }
    ways
}

/// `delete` makes the step that deletes a route at a place in the slot.
fn ways_v4_by(before: &[Route], after: &[Route], delete: &impl Fn(&Route, usize) -> Step) -> Vec<Vec<Step>> {
    let old: Vec<usize> =
        before.iter().enumerate().filter(|(_, route)| !after.contains(route)).map(|(i, _)| i).collect();
    // Places are those at the time of each delete, so that undoing backwards finds them.
    let step = |i: usize, place: usize| before.get(i).map(|route| delete(route, place));
    let forwards = |by: usize| -> Vec<Step> {
        old.iter().enumerate().filter_map(|(gone, i)| step(*i, i - gone + by)).collect()
    };
    let backwards = |by: usize| -> Vec<Step> { old.iter().rev().filter_map(|i| step(*i, i + by)).collect() };
    let new: Vec<&Route> = after.iter().filter(|route| !before.contains(route)).collect();
    let first_kept = after.iter().position(|route| before.contains(route)).unwrap_or(0);
    let (mut ways, mut last) = (Vec::new(), Vec::new());
    for front in [first_kept, 0, new.len()] {
        let (front, back) = new.split_at(front.min(new.len()));
        let mut adds: Vec<Step> = front.iter().rev().map(|route| Step::add(route, Mode::Prepend)).collect();
        adds.extend(back.iter().map(|route| Step::add(route, Mode::Append)));
        ways.push([adds.clone(), forwards(front.len())].concat());
        ways.push([adds.clone(), backwards(front.len())].concat());
        // With a gap, where one of the new would be mistaken for one of the old.
        last.push([forwards(0), adds.clone()].concat());
        last.push([backwards(0), adds].concat());
    }
    if let (Some(0), [first, rest @ ..], Some(replaced)) = (old.first(), new.as_slice(), before.first()) {
        let replace = Step::replace(vec![replaced.clone()], first, 0);
        let append = rest.iter().map(|route| Step::add(route, Mode::Append)).collect();
        let later = old.iter().skip(1).enumerate().filter_map(|(gone, i)| step(*i, i - gone)).collect();
        ways.push([vec![replace], append, later].concat());
    }
    ways.extend(last);
    ways
}

/// The kernel adds to a slot's ends only. What stands behind an inner place is taken out and put back.
fn by_rebuilding(
    before: &[Route],
    after: &[Route],
    own: &dyn Fn(&Route) -> bool,
    delete: &impl Fn(&Route, usize) -> Step,
) -> Option<Vec<Step>> {
    let same = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let (tail, new) = (before.get(same..)?, after.get(same..)?);
    if same == 0 || !tail.iter().all(own) {
        return None;
    }
    let deletes = tail.iter().enumerate().rev().map(|(i, route)| delete(route, same + i));
    Some(deletes.chain(new.iter().map(|route| Step::add(route, Mode::Append))).collect())
}

fn ways_v6(change: &SlotChange) -> Vec<Vec<Step>> {
    let legs = |routes: &[Route]| -> Vec<Route> { routes.iter().flat_map(Route::legs).collect() };
    let (before, after) = (legs(&change.before), legs(&change.after));
    if before.is_empty() {
        let mode = |i: usize| if i == 0 { Mode::Exclusive } else { Mode::Append };
        return vec![change.after.iter().enumerate().map(|(i, r)| add_v6(r, mode(i))).collect()];
    }
    let mut new: Vec<&Route> = after.iter().filter(|leg| !before.contains(leg)).collect();
    // Behind those that merge, a route that does not is never hidden.
    new.sort_by_key(|leg| !merges(leg));
    let mut old: Vec<&Route> = before.iter().filter(|leg| !after.contains(leg)).collect();
    // For the same reason it goes before them: they would come back behind it.
    old.sort_by_key(|leg| merges(leg));
    let merged = |leg: &Route| {
        change.before.iter().any(|r| r.hops.len() > 1 && r.hops.iter().any(|h| leg.hops.contains(h)))
    };
    let adds: Vec<Step> = new.iter().map(|leg| add_v6(leg, Mode::Append)).collect();
    let deletes: Vec<Step> = old.iter().map(|leg| delete_v6(leg, merged(leg))).collect();
    let mut ways = vec![[adds.clone(), deletes.clone()].concat()];
    if let [only] = shown(&change.after).as_slice() {
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
