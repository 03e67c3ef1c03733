use crate::{Prefix, Route};

/// What the kernel allows one route in (IPv4: a list of aliases, IPv6: hops that merge).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    pub table: u32,
    pub dst: Prefix,
    pub from: Option<Prefix>,
    pub tos: u8,
    pub metric: u32,
}

/// What a slot holds and what it shall hold, in the kernel's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlotChange {
    pub slot: Slot,
    pub before: Vec<Route>,
    pub after: Vec<Route>,
}
