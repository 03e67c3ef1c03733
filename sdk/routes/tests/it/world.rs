//! The simulated pod of these tests.

use catena_routes::{Family, Link, SimulatedTable};

pub(crate) use crate::support::*;

pub(crate) const ETH0: u32 = 2;
pub(crate) const NET1: u32 = 3;
pub(crate) const POD: PodNet = PodNet { eth0: ETH0, net1: NET1 };

pub(crate) fn link(index: u32, name: &str) -> Link {
    Link {
        index,
        name: name.to_owned(),
        alt_names: vec![format!("{name}-another-name-that-is-long")],
        mac: Some(format!("02:00:00:00:00:{index:02x}")),
        mtu: 1500,
        up: true,
        carrier: true,
        kind: Some("veth".to_owned()),
    }
}

/// Both links with their connected routes.
pub(crate) fn world() -> SimulatedTable {
    let links = vec![link(1, "lo"), link(ETH0, "eth0"), link(NET1, "net1")];
    let routes =
        Family::ALL.into_iter().flat_map(|f| [POD.connected(f, ETH0), POD.connected(f, NET1)]).collect();
    let addresses = Family::ALL.into_iter().flat_map(|f| POD.both().map(|link| POD.own(f, link))).collect();
    SimulatedTable::new("test", links, routes).with_addresses(addresses)
}
