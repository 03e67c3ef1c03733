//! Random operations on the simulated table, with faults.

use crate::world::*;

#[test]
fn changes_are_done_as_wanted_or_not_at_all() {
    let (mut table, mut property) = (world(), Rounds::new(POD, seed()));
    for _ in 0..rounds(4_000) {
        property.apply(&mut table);
    }
    property.finish("applies on the simulated table");
}

#[test]
fn a_links_routes_are_replaced_as_wanted_or_not_at_all() {
    let (mut table, mut property) = (world(), Rounds::new(POD, seed() + 1_000_000));
    for _ in 0..rounds(4_000) {
        property.replace(&mut table);
    }
    property.finish("replaces on the simulated table");
}
