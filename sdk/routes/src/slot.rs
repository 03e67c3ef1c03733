use std::collections::BTreeSet;

use crate::fib::{group, merges};
use crate::{Family, Hop, Kind, Prefix, Route};

/// What the kernel allows one route in (IPv4: a list of aliases, IPv6: hops that merge).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// RTA_TABLE.
    pub table: u32,
    /// RTA_DST.
    pub dst: Prefix,
    /// RTA_SRC, IPv6 only.
    pub from: Option<Prefix>,
    /// rtm_tos, IPv4 only.
    pub tos: u8,
    /// RTA_PRIORITY.
    pub metric: u32,
}

/// What a slot holds and what it shall hold, in the kernel's order. IPv6 routes may be there leg by leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlotChange {
    pub slot: Slot,
    pub before: Vec<Route>,
    pub after: Vec<Route>,
    /// Whether it is known of each IPv6 hop what it shall have. Of one that was seen beside others only, protocol,
    /// source and metrics are not.
    pub known: bool,
}

impl SlotChange {
    /// The same routes, those that stay in the order they have and the others behind them.
    pub(crate) fn in_any_order(&self) -> SlotChange {
        let kept = self.before.iter().filter(|route| self.after.contains(route));
        let new = self.after.iter().filter(|route| !self.before.contains(route));
        SlotChange { after: kept.chain(new).cloned().collect(), ..self.clone() }
    }

    /// Whether `now` is what is wanted. Among IPv4 aliases the order counts.
    pub(crate) fn is(&self, now: &[Route], wanted: &[Route]) -> bool {
        match self.slot.dst.family() {
            Family::V4 => now == wanted,
            Family::V6 if self.hides_attributes() => {
                let as_one = |route: &Route| {
                    wanted.iter().any(|leg| leg.with_hops(Vec::new()) == route.with_hops(Vec::new()))
                };
                self.hops(now) == self.hops(wanted) && (!self.known || shown(now).iter().all(as_one))
            }
            Family::V6 => shown(now) == shown(wanted),
        }
    }

    /// Hops as a dump shows them: the weight only beside others, so that of one that was alone before is not known,
    /// unless it shall have another than the usual one.
    fn hops(&self, routes: &[Route]) -> BTreeSet<(Kind, Option<Hop>)> {
        let (before, after) = (shown(&self.before), shown(&self.after));
        let has_weight =
            |hop: &Hop| after.iter().flat_map(|r| &r.hops).any(|h| h.name() == hop.name() && h.weight > 1);
        let was_alone = |hop: &Hop| {
            let is_it = |r: &Route| r.hops.len() == 1 && r.hops.iter().any(|h| h.name() == hop.name());
            before.iter().any(is_it) && !has_weight(hop)
        };
        let of = |route: Route| -> Vec<(Kind, Option<Hop>)> {
            let weigh = |hop: Hop| if was_alone(&hop) { Hop { weight: 0, ..hop } } else { hop };
            match route.hops.is_empty() {
                true => vec![(route.kind, None)],
                false => route.hops.into_iter().map(|hop| (route.kind, Some(weigh(hop)))).collect(),
            }
        };
        shown(routes).into_iter().flat_map(of).collect()
    }

    /// What there is to compare. Where a slot has a route over several IPv6 hops, a dump may hide one that does not
    /// merge with them, until that route comes or goes: such a one that the change is not about is left out.
    pub(crate) fn comparable(&self, now: &[Route], wanted: &[Route]) -> (Vec<Route>, Vec<Route>) {
        let hides = |routes: &[Route]| shown(routes).iter().any(|route| route.hops.len() > 1);
        let was_hidden = hides(&self.before) || hides(&self.after);
        let is_hidden = hides(now);
        let bystander = |route: &Route| {
            route.family == Family::V6
                && !merges(route)
                && self.before.contains(route) == self.after.contains(route)
        };
        let now_only = |route: &&Route| !(was_hidden && bystander(route) && !wanted.contains(route));
        let wanted_only = |route: &&Route| !(is_hidden && bystander(route) && !now.contains(route));
        (now.iter().filter(now_only).cloned().collect(), wanted.iter().filter(wanted_only).cloned().collect())
    }

    /// Hops of one IPv6 route can come from different additions. Which came first decides whose protocol, source
    /// and metrics a dump shows, so only the hops themselves can be compared.
    pub(crate) fn hides_attributes(&self) -> bool {
        let many = |routes: &[Route]| shown(routes).iter().any(|route| route.hops.len() > 1);
        many(&self.before) || (many(&self.after) && !self.before.is_empty())
    }
}

/// IPv6 routes as a dump shows them, sorted.
pub(crate) fn shown(routes: &[Route]) -> Vec<Route> {
    let legs: Vec<Route> = routes.iter().flat_map(Route::legs).collect();
    let mut shown = group(legs.iter());
    shown.sort();
    shown
}
