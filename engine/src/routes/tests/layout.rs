//! The routes of a ptp pod, made from a bare veth by one replace.

use catena_routes::{Family, Hop, Journal, Prefix, RouteSpec};
use serde_json::Value;

use super::pod::*;

const VECTORS: &str = include_str!("../../../../tests/vectors/routes/routes-debian-1.1.1.json");

/// The main table of eth0 as a vector records it.
fn recorded(case: &str, family: &str) -> Vec<Value> {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let cases = vectors["cases"].as_array().unwrap();
    let case = cases.iter().find(|c| c["id"] == case).unwrap();
    of_eth0(&case["pod"][family])
}

fn of_eth0(routes: &Value) -> Vec<Value> {
    let mut routes: Vec<Value> = routes
        .as_array()
        .unwrap()
        .iter()
        .filter(|route| route["dev"] == "eth0" && route.get("table").is_none())
        .cloned()
        .collect();
    routes.sort_by_key(Value::to_string);
    routes
}

fn shown(pod: &Pod, family: &str) -> Vec<Value> {
    of_eth0(&serde_json::from_str(&pod.sh(&format!("ip -j {family} route show table main"))).unwrap())
}

/// What ptp makes: the gateway by itself, the subnet and the rest by the gateway.
fn ptp(subnet: Prefix, gateway: &str, own: &str, eth0: u32) -> Vec<RouteSpec> {
    let family = subnet.family();
    let by_gateway = vec![Hop::via(ip(gateway), eth0)];
    let spec = |dst, hops| RouteSpec { protocol: Some(3), ..RouteSpec::new(dst, hops) };
    vec![
        spec(Prefix::default_route(family), by_gateway.clone()),
        RouteSpec { source: Some(ip(own)), ..spec(subnet, by_gateway) },
        RouteSpec { source: Some(ip(own)), ..spec(Prefix::host(ip(gateway)), vec![Hop::dev(eth0)]) },
    ]
}

#[test]
fn a_bare_veth_becomes_a_ptp_pod() {
    let mut pod = Pod::with(&format!(
        "{LINKS}; ip addr add 192.0.2.10/24 dev eth0; ip -6 addr add 2001:db8:1::10/64 dev eth0 nodad"
    ));
    let scope = pod.only(pod.eth0);
    let eth0 = pod.eth0;
    let v4 = ptp(net("192.0.2.0/24"), "192.0.2.1", "192.0.2.10", eth0);
    let v6 = ptp(net("2001:db8:1::/64"), "2001:db8:1::1", "2001:db8:1::10", eth0);
    let before = pod.table();
    let mut journal = Journal::new();
    // The kernel's own route of the IPv4 subnet has the place that is wanted; the one of the IPv6 subnet has not.
    let applied = pod.kernel.replace(&scope, eth0, Family::V4, 254, &v4, true, &mut journal).unwrap();
    assert_eq!((applied.added.len(), applied.deleted.len()), (3, 1));
    assert!(applied.deleted[0].is_kernels());
    pod.kernel.replace(&scope, eth0, Family::V6, 254, &v6, false, &mut journal).unwrap();
    assert_eq!(shown(&pod, "-4"), recorded("ptp-v46", "route4"));
    assert_eq!(shown(&pod, "-6"), recorded("ptp-v46", "route6"));
    let steps = journal.mark();
    for (family, wanted, keep) in [(Family::V4, &v4, true), (Family::V6, &v6, false)] {
        let again = pod.kernel.replace(&scope, eth0, family, 254, wanted, keep, &mut journal).unwrap();
        assert_eq!((again.added.len(), again.deleted.len()), (0, 0));
    }
    assert_eq!(journal.mark(), steps);
    let undo = pod.kernel.undo(&mut journal, Journal::start());
    assert!(undo.exact, "{undo:?}");
    assert_eq!(pod.table(), before);
}

#[test]
fn by_hand_in_the_wrong_order_the_kernel_refuses() {
    let pod = Pod::with(&format!("{LINKS}; ip addr add 192.0.2.10/24 dev eth0"));
    pod.sh("ip route del 192.0.2.0/24 dev eth0
         ! ip route add 192.0.2.0/24 via 192.0.2.1 dev eth0 2>/dev/null
         ! ip route add default via 192.0.2.1 2>/dev/null");
}
