//! The shortest sequence of requests for a slot of a few IPv4 routes that the kernel would mistake for one another.

use std::collections::{BTreeMap, VecDeque};

use super::Step;
use crate::fib::Fib;
use crate::slot::SlotChange;
use crate::{Family, Mode, Request, Route};

/// More routes in one slot are not searched: six have 1,957 orders.
const MOST: usize = 6;

/// One that never leaves the slot empty if there is one. Only routes that go and `own` ones are moved.
pub(super) fn search(change: &SlotChange, near: &[Route], own: &dyn Fn(&Route) -> bool) -> Option<Vec<Step>> {
    let new = change.after.iter().filter(|route| !change.before.contains(route));
    let pool: Vec<&Route> = change.before.iter().chain(new).collect();
    if change.slot.dst.family() != Family::V4 || pool.len() > MOST {
        return None;
    }
    // Routes of a higher metric stand behind all of the slot's.
    let others: Vec<&Route> = near
        .iter()
        .filter(|route| route.slot() != change.slot && route.metric <= change.slot.metric)
        .collect();
    let deletes = pool.iter().map(|route| {
        let may_go = own(route) || !change.after.contains(route);
        let requests =
            if may_go { vec![Request::delete(route), Request::delete_list(route)] } else { Vec::new() };
        let of = requests.into_iter().filter(|request| !others.iter().any(|other| fits(request, other)));
        of.map(|request| Delete { fits: pool.iter().map(|one| fits(&request, one)).collect(), request })
            .collect()
    });
    let search = Search { deletes: deletes.collect(), pool };
    [false, true].into_iter().find_map(|with_gap| search.steps(change, with_gap))
}

/// Whether a request to delete takes that route if no other stands before it.
fn fits(request: &Request, route: &Route) -> bool {
    Fib::new([route.clone()]).send(request).is_ok()
}

/// Routes of the slot by their places in the pool, in the kernel's order.
type Order = Vec<usize>;

struct Delete {
    request: Request,
    /// Whether it fits the routes of the pool.
    fits: Vec<bool>,
}

struct Search<'a> {
    pool: Vec<&'a Route>,
    /// What may be tried for each route of the pool.
    deletes: Vec<Vec<Delete>>,
}

impl Search<'_> {
    fn order(&self, routes: &[Route]) -> Option<Order> {
        routes.iter().map(|route| self.pool.iter().position(|one| *one == route)).collect()
    }

    fn steps(&self, change: &SlotChange, with_gap: bool) -> Option<Vec<Step>> {
        let (start, goal) = (self.order(&change.before)?, self.order(&change.after)?);
        let mut came: BTreeMap<Order, Option<(Order, Step)>> = BTreeMap::from([(start.clone(), None)]);
        let mut waiting = VecDeque::from([start]);
        while let Some(order) = waiting.pop_front() {
            if order == goal {
                let mut steps = Vec::new();
                let mut at = &order;
                while let Some(Some((from, step))) = came.get(at) {
                    steps.push(step.clone());
                    at = from;
                }
                steps.reverse();
                return Some(steps);
            }
            for (next, step) in self.moves(&order) {
                if (with_gap || !next.is_empty() || next == goal) && !came.contains_key(&next) {
                    came.insert(next.clone(), Some((order.clone(), step)));
                    waiting.push_back(next);
                }
            }
        }
        None
    }

    /// What one request makes of an order.
    fn moves(&self, order: &Order) -> Vec<(Order, Step)> {
        let mut moves = Vec::new();
        for (at, route) in self.pool.iter().enumerate().filter(|(at, _)| !order.contains(at)) {
            moves.push(([&order[..], &[at]].concat(), Step::add(route, Mode::Append)));
            moves.push(([&[at], &order[..]].concat(), Step::add(route, Mode::Prepend)));
        }
        for (place, at) in order.iter().enumerate() {
            let (Some(route), Some(deletes)) = (self.pool.get(*at), self.deletes.get(*at)) else { continue };
            let takes = |delete: &&Delete| {
                order.iter().find(|one| delete.fits.get(**one).copied().unwrap_or(true)) == Some(at)
            };
            if let Some(delete) = deletes.iter().find(takes) {
                let rest = order.iter().filter(|other| *other != at).copied().collect();
                moves.push((rest, Step { request: delete.request.clone(), ..Step::delete(route, place) }));
            }
        }
        moves
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Hop, Prefix};

    /// Default routes whose first hops are alike.
    fn alike() -> Vec<Route> {
        let hop = |gateway: &str, link| Hop::via(gateway.parse().unwrap(), link);
        let (one, two, three) = (hop("10.0.0.1", 2), hop("10.0.0.254", 2), hop("10.1.0.254", 3));
        [vec![one.clone()], vec![two.clone(), three], vec![one, two.clone()], vec![two]]
            .map(|hops| Route::new(Prefix::default_route(Family::V4), hops))
            .to_vec()
    }

    fn change(routes: &[Route], before: &[usize], after: &[usize]) -> SlotChange {
        let pick = |places: &[usize]| places.iter().map(|place| routes[*place].clone()).collect();
        SlotChange { slot: routes[0].slot(), before: pick(before), after: pick(after), known: true }
    }

    /// Whether the steps do that on a table, and never leave it without a route.
    fn does(steps: &[Step], change: &SlotChange) -> bool {
        let mut fib = Fib::new(change.before.iter().cloned());
        let mut stays = true;
        for step in steps {
            fib.send(&step.request).unwrap();
            stays &= !fib.held(Family::V4).is_empty();
        }
        stays && fib.held(Family::V4) == change.after
    }

    #[test]
    fn a_route_comes_back_between_two_that_begin_alike() {
        let change = change(&alike(), &[0, 2], &[0, 1, 2]);
        let steps = search(&change, &change.before, &|_| true).unwrap();
        assert!(does(&steps, &change), "{steps:#?}");
        assert_eq!(search(&change, &change.before, &|_| false), None, "what is not ours is not moved");
    }

    #[test]
    fn a_route_of_a_higher_metric_is_in_nobodys_way() {
        let change = change(&alike(), &[2, 0], &[0, 3, 2]);
        let other = Route { metric: 100, ..alike()[0].clone() };
        let near = [change.before.clone(), vec![other]].concat();
        assert!(does(&search(&change, &near, &|_| true).unwrap(), &change));
    }

    #[test]
    fn every_order_of_three_is_reached_from_every_other() {
        let routes = alike();
        let mut orders = Vec::new();
        for one in 0..4 {
            for two in 0..4 {
                orders.extend((0..4).map(|three| [one, two, three]));
            }
        }
        orders.retain(|order| order[0] != order[1] && order[1] != order[2] && order[0] != order[2]);
        for before in &orders {
            for after in &orders {
                let change = change(&routes, before, after);
                let steps = search(&change, &change.before, &|_| true).unwrap();
                assert!(does(&steps, &change), "{before:?} {after:?} {steps:#?}");
            }
        }
    }
}
