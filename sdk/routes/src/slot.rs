use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::fib::group;
use crate::{Family, Kind, Prefix, Route};

/// What the kernel allows one route in (IPv4: a list of aliases, IPv6: hops that merge).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    pub table: u32,
    pub dst: Prefix,
    pub from: Option<Prefix>,
    pub tos: u8,
    pub metric: u32,
}

/// What a slot holds and what it shall hold, in the kernel's order. IPv6 routes may be there leg by leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlotChange {
    pub slot: Slot,
    pub before: Vec<Route>,
    pub after: Vec<Route>,
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
            Family::V6 if self.hides_attributes() => names(now) == names(wanted),
            Family::V6 => shown(now) == shown(wanted),
        }
    }

    /// Hops of one IPv6 route can come from different additions. Which came first decides whose protocol, source
    /// and metrics a dump shows, so only the hops themselves can be compared.
    fn hides_attributes(&self) -> bool {
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

fn names(routes: &[Route]) -> BTreeSet<(Kind, Option<IpAddr>, u32, bool)> {
    let legs = routes.iter().flat_map(|route| {
        let none = route.hops.is_empty().then_some((route.kind, None, 0, false));
        route.hops.iter().map(|hop| (route.kind, hop.gateway, hop.link, hop.onlink)).chain(none)
    });
    legs.collect()
}
