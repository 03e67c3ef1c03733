//! A dry run: the same calls on a copy, and nothing changes in the kernel.

use catena_routes::{Change, ErrorKind, Family, Journal, RouteSpec, Snapshot};

use super::pod::*;
use crate::routes::backend::Backend;

fn pod() -> Pod {
    let pod = Pod::new();
    pod.sh(
        "ip route add default via 10.0.0.1; ip -6 route add default via fd00::1; ip route add default via 10.1.0.1 table 100",
    );
    pod
}

/// All tables and settings as programs of their own show them.
fn everything(pod: &Pod) -> String {
    pod.sh(
        "ip route show table all; ip -6 route show table all; cat /proc/sys/net/ipv6/conf/*/accept_ra_defrtr",
    )
}

#[test]
fn a_dry_run_does_the_same_and_changes_nothing() {
    let mut pod = pod();
    let scope = pod.both();
    let before = everything(&pod);
    let mut changes = vec![
        Change::Add(default_via("10.1.0.1", pod.net1)),
        Change::Add(default_via("fd01::1", pod.net1)),
        Change::IgnoreRouterAdvertisements(pod.eth0),
    ];
    for family in Family::ALL {
        changes.extend(pod.defaults(family).iter().map(delete));
    }
    let mut backend = Backend::kernel(&pod.netns).dry_run();
    let mut dry = Journal::new();
    let planned = backend.table("apply").unwrap().apply(&scope, &changes, &mut dry).unwrap();
    // The copy remembers, the kernel knows nothing.
    let defaults = |backend: &mut Backend| backend.table("list").unwrap().routes(Family::V4, 254).unwrap();
    assert!(defaults(&mut backend)[0].has_hop_on(pod.net1));
    assert_eq!(everything(&pod), before);

    let mut backend = backend.original();
    assert!(matches!(backend, Backend::Kernel(_)));
    let mut real = Journal::new();
    let applied = backend.table("apply").unwrap().apply(&scope, &changes, &mut real).unwrap();
    assert_eq!((planned, dry.describe()), (applied, real.describe()));
    assert_ne!(everything(&pod), before);
    assert!(backend.table("undo").unwrap().undo(&mut real, Journal::start()).exact);
    assert_eq!(everything(&pod), before);
}

#[test]
fn a_dry_run_fails_as_the_kernel_would() {
    let pod = pod();
    pod.sh("echo 1 > /proc/sys/net/ipv6/conf/net1/disable_ipv6");
    let scope = pod.both();
    let metric = Some(7);
    let refused = [
        (default_via("10.77.0.1", pod.net1), ErrorKind::GatewayUnreachable),
        (
            RouteSpec { source: Some(ip("10.9.9.9")), ..default_via("10.1.0.1", pod.net1) },
            ErrorKind::BadSource,
        ),
        (default_via("fe80::1", pod.net1), ErrorKind::Ipv6Disabled),
    ];
    for (spec, kind) in refused {
        let change = [Change::Add(RouteSpec { metric, ..spec })];
        let errors =
            [Backend::kernel(&pod.netns).dry_run(), Backend::kernel(&pod.netns)].map(|mut backend| {
                let table = backend.table("apply").unwrap();
                table.apply(&scope, &change, &mut Journal::new()).unwrap_err().errors
            });
        assert_eq!(errors[0], errors[1]);
        assert_eq!(errors[0][0].kind, kind);
    }
}

#[test]
fn a_snapshot_is_replayed_without_the_namespace() {
    let mut pod = pod();
    let scope = pod.both();
    let recorded = Backend::kernel(&pod.netns).snapshot("record").unwrap().to_json();
    let wanted = [default_via("10.1.0.1", pod.net1)];
    let (eth0, net1, defaults) = (pod.eth0, pod.net1, pod.defaults(Family::V4));
    drop(pod);
    let mut backend = Backend::recorded(Snapshot::from_json(&recorded).unwrap());
    // Whole tables may stand in another order.
    let sorted = |mut snapshot: Snapshot| {
        snapshot.routes.sort();
        snapshot
    };
    let again = backend.snapshot("record").unwrap();
    assert_eq!(sorted(again), sorted(Snapshot::from_json(&recorded).unwrap()));
    let table = backend.table("replace").unwrap();
    assert_eq!(table.find_link("net1").unwrap().map(|link| link.index), Some(net1));
    let mut journal = Journal::new();
    table.apply(&scope, &[delete(&defaults[0])], &mut journal).unwrap();
    table.replace(&scope, net1, Family::V4, 254, &wanted, true, &mut journal).unwrap();
    let now = table.routes(Family::V4, 254).unwrap();
    assert!(now.iter().any(|route| route.is_default() && route.has_hop_on(net1)));
    assert!(!now.iter().any(|route| route.is_default() && route.has_hop_on(eth0)));
    // A dry run of a recorded table leaves that one alone as well.
    let before = backend.snapshot("record").unwrap();
    let mut dry = backend.dry_run();
    dry.table("undo").unwrap().undo(&mut journal.clone(), Journal::start());
    assert_ne!(dry.snapshot("record").unwrap(), before);
    assert_eq!(dry.original().snapshot("record").unwrap(), before);
}

#[test]
fn without_a_namespace_there_is_no_table() {
    for mut backend in [Backend::Nowhere, Backend::Nowhere.dry_run()] {
        let error = backend.table("list").map(|_| ()).unwrap_err();
        assert_eq!((error.kind, error.operation), (ErrorKind::Namespace, "list"));
        assert_eq!(backend.namespace(), "no namespace");
    }
}
