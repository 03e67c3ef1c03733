//! One test for each trap of the kernel's route requests. Most first show the trap on the bare wire.

use catena_routes::{
    Change, Echo, ErrorKind, Failure, Family, Hop, Journal, Kind, Link, Mode, Prefix, Request, Route,
    RouteError, RouteSpec, Scope, Table, Wire,
};

use super::pod::*;
use crate::routes::kernel::Kernel;

fn kinds(errors: &[RouteError]) -> Vec<ErrorKind> {
    errors.iter().map(|error| error.kind).collect()
}

fn default_route(family: Family, hops: Vec<Hop>) -> Route {
    Route::new(Prefix::default_route(family), hops)
}

/// Does something to the table just before a request, as somebody else might.
struct Between<'a, F: FnMut(&mut Kernel)> {
    wire: &'a mut Kernel,
    meddle: F,
}

impl<F: FnMut(&mut Kernel)> Wire for Between<'_, F> {
    fn namespace(&self) -> &str {
        self.wire.namespace()
    }

    fn links(&mut self) -> Result<Vec<Link>, Failure> {
        Wire::links(self.wire)
    }

    fn dump(&mut self, family: Family, table: u32) -> Result<Vec<Route>, Failure> {
        self.wire.dump(family, table)
    }

    fn send(&mut self, request: &Request) -> Result<Vec<Echo>, Failure> {
        (self.meddle)(self.wire);
        self.wire.send(request)
    }

    fn sysctl(&mut self, link: &str, key: &str) -> Result<Option<String>, Failure> {
        self.wire.sysctl(link, key)
    }

    fn set_sysctl(&mut self, link: &str, key: &str, value: &str) -> Result<(), Failure> {
        self.wire.set_sysctl(link, key, value)
    }
}

#[test]
fn metric_0_is_a_wildcard() {
    let mut pod = Pod::new();
    let scope = pod.both();
    let meant = default_route(Family::V4, vec![Hop::via(ip("10.0.0.1"), pod.eth0)]);
    let other = Route { metric: 50, ..meant.clone() };
    pod.force(&other, Mode::Exclusive);
    // The trap: the metric that was named is not there, and another route dies.
    let echo = pod.wire().send(&Request::delete(&meant)).unwrap();
    assert_eq!(echo, [Echo { deleted: true, route: other.clone() }]);
    pod.force(&other, Mode::Exclusive);

    let failure = pod.kernel.apply(&scope, &[delete(&meant)], &mut Journal::new()).unwrap_err();
    assert_eq!(kinds(&failure.errors), [ErrorKind::NotFound]);
    assert_eq!(pod.defaults(Family::V4), std::slice::from_ref(&other));

    // The race: it was there when the table was read.
    pod.force(&meant, Mode::Exclusive);
    let mut gone = false;
    let first = meant.clone();
    let meddle = move |wire: &mut Kernel| {
        if !std::mem::replace(&mut gone, true) {
            wire.send(&Request::delete(&first)).unwrap();
        }
    };
    let mut journal = Journal::new();
    let mut wire = Between { wire: pod.wire(), meddle };
    let failure = wire.apply(&scope, &[delete(&meant)], &mut journal).unwrap_err();
    assert_eq!(kinds(&failure.errors), [ErrorKind::WrongRoute]);
    let text = failure.errors[0].to_string();
    assert!(text.contains("deleted \"default via 10.0.0.1 dev eth0 proto static metric 50\""), "{text}");
    // What was wrongly deleted is back; what somebody else took away is said to be missing.
    assert_eq!(pod.defaults(Family::V4), [other]);
    assert!(!failure.undo.exact && failure.undo.leftover[0].starts_with("missing: default via 10.0.0.1"));
}

#[test]
fn one_leg_of_an_ipv4_multipath_route() {
    let mut pod = Pod::new();
    let hops = vec![
        Hop { weight: 2, ..Hop::via(ip("10.0.0.1"), pod.eth0) },
        Hop::via(ip("10.1.0.1"), pod.net1),
        Hop { weight: 1, ..Hop::via(ip("10.0.0.254"), pod.eth0) },
    ];
    let many = default_route(Family::V4, hops.clone());
    pod.force(&many, Mode::Exclusive);
    // The trap: the first leg stands for all, the second for none.
    let leg = |hop: &Hop| Request::delete(&default_route(Family::V4, vec![hop.clone()]));
    assert!(pod.wire().send(&leg(&hops[1])).is_err());
    assert_eq!(pod.wire().send(&leg(&hops[0])).unwrap()[0].route, many);
    pod.force(&many, Mode::Exclusive);

    for (link, rest) in
        [(pod.eth0, vec![hops[1].clone()]), (pod.net1, vec![hops[0].clone(), hops[2].clone()])]
    {
        let scope = pod.only(link);
        let mut spec = RouteSpec::new(many.dst, Vec::new());
        spec.metric = Some(0);
        let mut journal = Journal::new();
        pod.kernel.apply(&scope, &[Change::Delete(spec)], &mut journal).unwrap();
        assert_eq!(pod.defaults(Family::V4), [default_route(Family::V4, rest)]);
        assert!(pod.kernel.undo(&mut journal, Journal::start()).exact);
        assert_eq!(pod.defaults(Family::V4), std::slice::from_ref(&many));
    }
    // Naming a leg of another link is denied.
    let scope = pod.only(pod.net1);
    let foreign = Change::Delete(RouteSpec::new(many.dst, vec![hops[0].clone()]));
    let failure = pod.kernel.apply(&scope, &[foreign], &mut Journal::new()).unwrap_err();
    assert_eq!(kinds(&failure.errors), [ErrorKind::Denied]);
}

#[test]
fn one_leg_of_an_ipv6_multipath_route() {
    let mut pod = Pod::new();
    // As two plugins make it: one route each, and the kernel merges them. Their protocols differ.
    let first = Route { protocol: 3, ..default_route(Family::V6, vec![Hop::via(ip("fd00::1"), pod.eth0)]) };
    let second = default_route(Family::V6, vec![Hop::via(ip("fd01::1"), pod.net1)]);
    let set_up = |pod: &mut Pod| {
        pod.force(&first, Mode::Append);
        pod.force(&second, Mode::Append);
        assert_eq!(pod.defaults(Family::V6)[0].hops.len(), 2);
    };
    set_up(&mut pod);
    // The trap: without a gateway both legs die, though the link is named.
    let bare = Request::delete(&default_route(Family::V6, vec![Hop::dev(pod.eth0)]));
    let bare = Request { via: catena_routes::Via::One(Hop::dev(pod.eth0)), protocol: 0, ..bare };
    let echoes = pod.wire().send(&bare).unwrap();
    assert_eq!(echoes.iter().map(|echo| echo.route.hops.len()).sum::<usize>(), 2);
    assert_eq!(pod.defaults(Family::V6), []);
    set_up(&mut pod);

    for (link, rest) in [(pod.eth0, &second), (pod.net1, &first)] {
        let scope = pod.only(link);
        let mut journal = Journal::new();
        let spec = RouteSpec::new(first.dst, Vec::new());
        let applied = pod.kernel.apply(&scope, &[Change::Delete(spec)], &mut journal).unwrap();
        assert_eq!(applied.deleted.len(), 1);
        assert!(applied.deleted[0].hops.iter().all(|hop| hop.link == link));
        assert_eq!(pod.defaults(Family::V6), std::slice::from_ref(rest));
        let undo = pod.kernel.undo(&mut journal, Journal::start());
        assert!(undo.exact, "{undo:?}");
        assert_eq!(pod.defaults(Family::V6)[0].hops.len(), 2);
    }
    // Both legs came back with their own protocol.
    let scope = pod.only(pod.net1);
    let leg = RouteSpec::new(second.dst, second.hops.clone());
    pod.kernel.apply(&scope, &[Change::Delete(leg)], &mut Journal::new()).unwrap();
    assert_eq!(pod.defaults(Family::V6), [first]);
}

#[test]
fn replace_takes_no_other_links_route() {
    for family in Family::ALL {
        let mut pod = Pod::new();
        let (ours, theirs) = match family {
            Family::V4 => ("10.1.0.1", "10.0.0.1"),
            Family::V6 => ("fd01::1", "fd00::1"),
        };
        let foreign = default_via(theirs, pod.eth0).to_route();
        pod.force(&foreign, Mode::Exclusive);
        // The trap: NLM_F_REPLACE takes eth0's route away.
        let new = default_via(ours, pod.net1).to_route();
        pod.force(&new, Mode::Replace);
        assert_eq!(pod.defaults(family), std::slice::from_ref(&new));
        pod.force(&foreign, Mode::Replace);

        let scope = pod.only(pod.net1);
        let before = pod.table();
        let net1 = pod.net1;
        let wanted = [default_via(ours, net1)];
        let failure =
            pod.kernel.replace(&scope, net1, family, 254, &wanted, true, &mut Journal::new()).unwrap_err();
        assert_eq!(kinds(&failure.errors), [ErrorKind::Conflict]);
        assert!(
            failure.errors[0].to_string().contains(&format!("via {theirs} dev eth0")),
            "{}",
            failure.errors[0]
        );
        let failure =
            pod.kernel.apply(&scope, &[Change::Add(wanted[0].clone())], &mut Journal::new()).unwrap_err();
        assert_eq!(kinds(&failure.errors), [ErrorKind::Conflict]);
        assert_eq!(pod.table(), before);
        // Another metric is another place.
        let metric = Some(if family == Family::V4 { 10 } else { 2000 });
        let wanted = [RouteSpec { metric, ..wanted[0].clone() }];
        pod.kernel.replace(&scope, net1, family, 254, &wanted, true, &mut Journal::new()).unwrap();
        assert!(pod.defaults(family).contains(&foreign));
        assert_eq!(pod.defaults(family).len(), 2);
    }
}

#[test]
fn a_route_without_gateway_is_named_exactly() {
    for family in Family::ALL {
        let mut pod = Pod::new();
        let gateway = ip(if family == Family::V4 { "10.0.0.1" } else { "fd00::1" });
        let with = default_route(family, vec![Hop::via(gateway, pod.eth0)]);
        let without = Route { metric: with.metric + 1, ..default_route(family, vec![Hop::dev(pod.eth0)]) };
        for (first, second) in [(&with, &without), (&without, &with)] {
            pod.force(first, Mode::Append);
            pod.force(second, Mode::Append);
            let scope = pod.only(pod.eth0);
            let spec = RouteSpec::new(without.dst, vec![Hop::dev(pod.eth0)]);
            let mut journal = Journal::new();
            pod.kernel.apply(&scope, &[Change::Delete(spec)], &mut journal).unwrap();
            assert_eq!(pod.defaults(family), std::slice::from_ref(&with));
            let spec = RouteSpec::new(with.dst, vec![Hop::via(gateway, pod.eth0)]);
            pod.kernel.apply(&scope, &[Change::Delete(spec)], &mut journal).unwrap();
            assert_eq!(pod.defaults(family), []);
        }
        // In one slot: IPv6 keeps both, and a pattern without gateway would take them together.
        if family == Family::V6 {
            let beside = Route { metric: with.metric, ..without.clone() };
            pod.force(&with, Mode::Append);
            pod.force(&beside, Mode::Append);
            let scope = pod.only(pod.eth0);
            pod.kernel.apply(&scope, &[delete(&beside)], &mut Journal::new()).unwrap();
            assert_eq!(pod.defaults(family), std::slice::from_ref(&with));
        }
    }
}

#[test]
fn a_route_that_a_dump_hides_is_neither_touched_nor_in_the_way() {
    let mut pod = Pod::new();
    let (eth0, net1) = (pod.eth0, pod.net1);
    let first = default_route(Family::V6, vec![Hop::via(ip("fd00::1"), eth0)]);
    let hidden = Route { protocol: 16, ..default_route(Family::V6, vec![Hop::dev(net1)]) };
    let last = default_route(Family::V6, vec![Hop::via(ip("fd01::1"), net1)]);
    for route in [&first, &hidden, &last] {
        pod.force(route, Mode::Append);
    }
    // The trap: it is there, and no dump shows it.
    let before = pod.defaults(Family::V6);
    assert_eq!((before.len(), before[0].hops.len()), (1, 2));
    for (link, leg, rest) in [(eth0, &first, &last), (net1, &last, &first)] {
        let scope = pod.only(link);
        let mut journal = Journal::new();
        let spec = RouteSpec::new(leg.dst, leg.hops.clone());
        pod.kernel.apply(&scope, &[Change::Delete(spec)], &mut journal).unwrap();
        let mut now = pod.defaults(Family::V6);
        now.sort();
        let mut wanted = vec![hidden.clone(), rest.clone()];
        wanted.sort();
        assert_eq!(now, wanted);
        let undo = pod.kernel.undo(&mut journal, Journal::start());
        assert!(undo.exact && undo.errors.is_empty(), "{undo:#?}");
        assert!(undo.notes.len() == 1 && undo.notes[0].contains("share a place"), "{undo:#?}");
        assert!(pod.defaults(Family::V6).contains(&before[0]));
    }
    // A replace of the link's routes takes the hidden one as well, once it shows.
    let scope = pod.only(net1);
    let mut journal = Journal::new();
    let mut applied = pod.kernel.replace(&scope, net1, Family::V6, 254, &[], true, &mut journal).unwrap();
    applied.deleted.sort();
    let mut gone = [last.clone(), hidden.clone()];
    gone.sort();
    assert_eq!(applied.deleted, gone);
    assert_eq!(pod.defaults(Family::V6), std::slice::from_ref(&first));
    let undo = pod.kernel.undo(&mut journal, Journal::start());
    assert!(undo.exact, "{undo:#?}");
    // A replace makes both legs of a link what they shall be, whatever hid them.
    pod.sh("ip -6 route flush default; ip -6 route add default via fd00::1 proto 3
         ip -6 route append default via fd00::9 proto 16 mtu 1300");
    let scope = pod.only(eth0);
    let wanted = [RouteSpec { protocol: Some(3), ..default_via("fd00::9", eth0) }];
    let mut journal = Journal::new();
    pod.kernel.replace(&scope, eth0, Family::V6, 254, &wanted, true, &mut journal).unwrap();
    assert_eq!(pod.defaults(Family::V6), [wanted[0].to_route()]);
    let again = pod.kernel.replace(&scope, eth0, Family::V6, 254, &wanted, true, &mut journal).unwrap();
    assert_eq!((again.added, again.deleted), (Vec::new(), Vec::new()));
}

#[test]
fn all_defaults_of_a_link_whatever_their_metric_and_no_other_table() {
    let mut pod = Pod::new();
    let scope = pod.only(pod.eth0);
    pod.sh("ip route add default via 10.0.0.1; ip route add default via 10.0.0.254 metric 50
         ip route add default dev eth0 metric 60; ip route append default via 10.0.0.253 metric 50
         ip route add default via 10.1.0.1 metric 70; ip route add default via 10.0.0.1 table 100
         ip -6 route add default via fd00::1; ip -6 route add default via fd00::1 metric 50
         ip -6 route append default via fd01::1 metric 50; ip -6 route add default dev eth0 metric 60
         ip -6 route add default via fd00::1 table 100");
    let other = |pod: &mut Pod| Family::ALL.map(|family| pod.kernel.routes(family, 100).unwrap());
    let (before, tables) = (pod.table(), other(&mut pod));
    let mut changes = Vec::new();
    for family in Family::ALL {
        for route in pod.defaults(family).iter().filter(|route| route.has_hop_on(scope.links[0])) {
            let hops = route.hops.iter().filter(|hop| scope.has_link(hop.link)).cloned().collect();
            changes.push(Change::Delete(RouteSpec { hops, ..route.to_spec() }));
        }
    }
    let mut journal = Journal::new();
    pod.kernel.apply(&scope, &changes, &mut journal).unwrap();
    let left: Vec<Route> = Family::ALL.into_iter().flat_map(|family| pod.defaults(family)).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.iter().all(|route| !route.has_hop_on(scope.links[0])));
    assert_eq!(other(&mut pod), tables);
    let undo = pod.kernel.undo(&mut journal, Journal::start());
    assert!(undo.exact, "{undo:?}");
    assert_eq!(pod.table(), before);
    assert_eq!(other(&mut pod), tables);
    // And the other table is denied.
    let spec = RouteSpec { table: 100, ..RouteSpec::new(net("0.0.0.0/0"), Vec::new()) };
    let failure = pod.kernel.apply(&scope, &[Change::Delete(spec)], &mut Journal::new()).unwrap_err();
    assert_eq!(kinds(&failure.errors), [ErrorKind::Denied]);
}

#[test]
fn a_link_local_gateway_on_two_links() {
    let mut pod = Pod::new();
    let on = |link| default_route(Family::V6, vec![Hop::via(ip("fe80::1"), link)]);
    let ours = Route { metric: 2000, ..on(pod.net1) };
    pod.force(&on(pod.eth0), Mode::Append);
    pod.force(&ours, Mode::Append);
    let scope = pod.only(pod.net1);
    let spec = RouteSpec::new(ours.dst, vec![Hop::via(ip("fe80::1"), pod.net1)]);
    let mut journal = Journal::new();
    pod.kernel.apply(&scope, &[Change::Delete(spec.clone())], &mut journal).unwrap();
    let (eth0, net1) = (pod.eth0, pod.net1);
    assert_eq!(pod.defaults(Family::V6), [on(eth0)]);
    assert!(pod.kernel.undo(&mut journal, Journal::start()).exact);
    assert_eq!(pod.defaults(Family::V6), [on(eth0), ours]);
    // Merged into one route, still only our leg goes.
    pod.kernel.apply(&scope, &[Change::Delete(spec.clone())], &mut journal).unwrap();
    pod.force(&on(net1), Mode::Append);
    pod.kernel.apply(&scope, &[Change::Delete(spec)], &mut journal).unwrap();
    assert_eq!(pod.defaults(Family::V6), [on(eth0)]);
}

#[test]
fn a_default_that_rejects_has_no_link() {
    for family in Family::ALL {
        let mut pod = Pod::new();
        let gateway = if family == Family::V4 { "10.0.0.1" } else { "fd00::1" };
        let hole = Route { kind: Kind::Blackhole, metric: 3000, ..default_route(family, Vec::new()) };
        let route = Route { metric: 3000, ..default_via(gateway, pod.eth0).to_route() };
        pod.force(&hole, Mode::Exclusive);
        assert_eq!(pod.defaults(family), std::slice::from_ref(&hole));
        let scope = pod.both();
        for spec in [hole.to_spec(), RouteSpec { metric: None, ..hole.to_spec() }] {
            let failure = pod.kernel.apply(&scope, &[Change::Delete(spec)], &mut Journal::new()).unwrap_err();
            assert!(matches!(failure.errors[0].kind, ErrorKind::NotFound | ErrorKind::Denied), "{failure:?}");
        }
        let add = Change::Add(RouteSpec { metric: Some(3001), ..hole.to_spec() });
        let failure = pod.kernel.apply(&scope, &[add], &mut Journal::new()).unwrap_err();
        assert_eq!(kinds(&failure.errors), [ErrorKind::Denied]);
        // The kernel does not compare the type of an IPv6 route: beside each other, each is named exactly.
        if family == Family::V6 {
            pod.force(&route, Mode::Append);
            let mut scope = pod.both();
            scope.links.push(0);
            let mut journal = Journal::new();
            pod.kernel.apply(&scope, &[delete(&hole)], &mut journal).unwrap();
            assert_eq!(pod.defaults(family), std::slice::from_ref(&route));
            let undo = pod.kernel.undo(&mut journal, Journal::start());
            assert!(undo.exact, "{undo:?}");
            pod.kernel.apply(&scope, &[delete(&route)], &mut journal).unwrap();
            assert_eq!(pod.defaults(family), [hole]);
        }
    }
}

#[test]
fn a_link_that_is_down_takes_no_route_and_a_lost_carrier_changes_nothing() {
    let mut pod = Pod::new();
    let scope = pod.both();
    pod.sh("ip route add default via 10.1.0.1; ip -6 route add default via fd01::1; ip link set eth0 down");
    let before = pod.table();
    let adds: Vec<Change> = [("10.0.0.1", 5), ("fd00::1", 5)]
        .map(|(gateway, metric)| RouteSpec { metric: Some(metric), ..default_via(gateway, pod.eth0) })
        .map(Change::Add)
        .into();
    let failure = pod.kernel.apply(&scope, &adds, &mut Journal::new()).unwrap_err();
    assert_eq!(kinds(&failure.errors), [ErrorKind::LinkDown, ErrorKind::LinkDown]);
    assert_eq!(pod.table(), before);
    pod.sh("ip link set peer1 down; sleep 0.1");
    assert!(!pod.kernel.find_link("net1").unwrap().unwrap().carrier);
    let before = pod.table();
    let changes: Vec<Change> =
        Family::ALL.into_iter().flat_map(|family| pod.defaults(family)).map(|r| delete(&r)).collect();
    assert_eq!(changes.len(), 2);
    let mut journal = Journal::new();
    pod.kernel.apply(&scope, &changes, &mut journal).unwrap();
    let undo = pod.kernel.undo(&mut journal, Journal::start());
    assert!(undo.exact, "{undo:?}");
    assert_eq!(pod.table(), before);
}

#[test]
fn ipv6_disabled_is_said() {
    let mut pod = Pod::new();
    pod.sh("echo 1 > /proc/sys/net/ipv6/conf/eth0/disable_ipv6");
    let scope = pod.both();
    let before = pod.table();
    let specs = [
        default_via("fd00::1", pod.eth0),
        RouteSpec { metric: Some(5), ..default_via("fe80::1", pod.eth0) },
        RouteSpec::new(net("fd77::/64"), vec![Hop::dev(pod.eth0)]),
    ];
    let changes: Vec<Change> = specs.into_iter().map(Change::Add).collect();
    let failure = pod.kernel.apply(&scope, &changes, &mut Journal::new()).unwrap_err();
    assert_eq!(kinds(&failure.errors), [ErrorKind::Ipv6Disabled; 3], "{failure:#?}");
    assert_eq!(pod.table(), before);
}

#[test]
fn every_bad_change_is_reported() {
    let mut pod = Pod::new();
    pod.sh("ip route add default via 10.0.0.1; ip -6 route add default via fd00::1");
    let scope = pod.both();
    let before = pod.table();
    // Only the kernel can say these: in its own words, all of them, of both families.
    let changes = [
        delete(&pod.defaults(Family::V4)[0]),
        Change::Add(default_via("10.77.0.1", pod.net1)),
        Change::Add(RouteSpec { metric: Some(5), ..default_via("fd77::1", pod.net1) }),
        Change::Add(RouteSpec {
            source: Some(ip("10.9.9.9")),
            metric: Some(6),
            ..default_via("10.1.0.1", pod.net1)
        }),
    ];
    let failure = pod.kernel.apply(&scope, &changes, &mut Journal::new()).unwrap_err();
    let mut said = kinds(&failure.errors);
    said.sort();
    assert_eq!(
        said,
        [ErrorKind::GatewayUnreachable, ErrorKind::GatewayUnreachable, ErrorKind::BadSource],
        "{failure:#?}"
    );
    let text: Vec<String> = failure.errors.iter().map(RouteError::to_string).collect();
    assert!(
        text.iter().any(|t| t.contains("default via 10.77.0.1 dev net1")
            && t.contains("ENETUNREACH, \"Nexthop has invalid gateway\"")),
        "{text:#?}"
    );
    assert!(text.iter().any(|t| t.contains("EHOSTUNREACH") && t.contains("net1 (index ")), "{text:#?}");
    assert!(failure.undo.exact && pod.table() == before);
    // What we can say without the kernel, also all at once.
    let changes = [
        Change::Add(default_via("10.1.0.1", pod.net1)),
        Change::Add(RouteSpec { table: 9, ..default_via("10.1.0.1", pod.net1) }),
        Change::Add(RouteSpec::new(net("fd77::/64"), vec![Hop::dev(4711)])),
        Change::Add(RouteSpec { hops: Vec::new(), ..default_via("10.1.0.1", pod.net1) }),
        Change::Add(RouteSpec { metric: Some(5), ..default_via("10.77.0.1", pod.net1) }),
        Change::Delete(RouteSpec::new(net("fd78::/64"), Vec::new())),
    ];
    let failure = pod.kernel.apply(&scope, &changes, &mut Journal::new()).unwrap_err();
    let mut said = kinds(&failure.errors);
    said.sort();
    let all = [
        ErrorKind::Denied,
        ErrorKind::Denied,
        ErrorKind::Invalid,
        ErrorKind::NotFound,
        ErrorKind::Exists,
        ErrorKind::GatewayUnreachable,
    ];
    assert_eq!(said, all, "{failure:#?}");
    assert!(!failure.changed && pod.table() == before);
}

#[test]
fn a_gateway_is_not_left_behind_without_its_link() {
    let mut pod = Pod::new();
    let scope = pod.both();
    let before = pod.table();
    let connected = pod.kernel.routes(Family::V4, 254).unwrap().remove(0);
    assert!(connected.is_kernels());
    let changes = [delete(&connected), Change::Add(default_via("10.0.0.1", pod.eth0))];
    let failure = pod.kernel.apply(&scope, &changes, &mut Journal::new()).unwrap_err();
    assert_eq!(kinds(&failure.errors), [ErrorKind::GatewayUnreachable]);
    assert_eq!(pod.table(), before);
}

#[test]
fn a_route_of_the_old_set_that_hides_a_gateway_is_got_around() {
    let mut pod = Pod::new();
    let scope = pod.both();
    // The better route to the subnet goes by a gateway, so the kernel refuses another gateway in it.
    pod.sh("ip -6 route add fd00::/64 via fd00::1 metric 10");
    let hiding = pod.kernel.routes(Family::V6, 254).unwrap().into_iter().find(|r| r.metric == 10).unwrap();
    let add = default_via("fd00::9", pod.eth0);
    assert!(pod.wire().send(&Request::add(&add.to_route(), Mode::Exclusive)).is_err());
    let before = pod.table();
    let mut journal = Journal::new();
    pod.kernel.apply(&scope, &[Change::Add(add.clone()), delete(&hiding)], &mut journal).unwrap();
    assert_eq!(pod.defaults(Family::V6), [add.to_route()]);
    assert_eq!(pod.table().len(), before.len());
    let undo = pod.kernel.undo(&mut journal, Journal::start());
    assert!(undo.exact, "{undo:?}");
    assert_eq!(pod.table(), before);
}

#[test]
fn what_the_kernel_would_not_take_again_comes_back() {
    for family in Family::ALL {
        let mut pod = Pod::new();
        let scope = pod.both();
        let gateway = if family == Family::V4 { "10.0.0.1" } else { "fd00::1" };
        pod.force(&default_via(gateway, pod.eth0).to_route(), Mode::Exclusive);
        // A live state that cannot be made: the gateway's link route has gone.
        let eth0 = pod.eth0;
        let connected = pod.kernel.routes(family, 254).unwrap();
        for route in connected.iter().filter(|r| r.is_kernels() && r.has_hop_on(eth0) && !r.is_default()) {
            pod.wire().send(&Request::delete(route)).unwrap();
        }
        let before = pod.table();
        let default = pod.defaults(family).remove(0);
        assert!(
            pod.wire().send(&Request::add(&Route { metric: 9, ..default.clone() }, Mode::Exclusive)).is_err()
        );
        let mut journal = Journal::new();
        pod.kernel.apply(&scope, &[delete(&default)], &mut journal).unwrap();
        let undo = pod.kernel.undo(&mut journal, Journal::start());
        assert!(undo.exact, "{undo:?}");
        assert_eq!(pod.table(), before);
    }
}

#[test]
fn aliases_that_the_kernel_cannot_tell_apart() {
    let mut pod = Pod::new();
    let scope = pod.both();
    let single = default_via("10.0.0.1", pod.eth0).to_route();
    let many = default_route(
        Family::V4,
        vec![Hop::via(ip("10.0.0.1"), pod.eth0), Hop::via(ip("10.1.0.1"), pod.net1)],
    );
    pod.force(&many, Mode::Exclusive);
    pod.force(&single, Mode::Append);
    let before = pod.table();
    // Named by its hop the second would stand for the first; as a list of one it does not.
    let mut journal = Journal::new();
    pod.kernel.apply(&scope, &[delete(&single)], &mut journal).unwrap();
    assert_eq!(pod.defaults(Family::V4), std::slice::from_ref(&many));
    assert!(pod.kernel.undo(&mut journal, Journal::start()).exact);
    assert_eq!(pod.table(), before);
    // With and without a source: the one without cannot be named behind the other.
    pod.kernel.apply(&scope, &[delete(&single), delete(&many)], &mut journal).unwrap();
    let sourced = Route { source: Some(ip("10.0.0.2")), ..single.clone() };
    pod.force(&sourced, Mode::Exclusive);
    pod.force(&single, Mode::Append);
    let spec = RouteSpec { source: None, ..single.to_spec() };
    let failure = pod.kernel.apply(&scope, &[Change::Delete(spec)], &mut Journal::new()).unwrap_err();
    assert_eq!(kinds(&failure.errors), [ErrorKind::Invalid]);
    assert!(failure.errors[0].to_string().contains("2 routes fit"), "{}", failure.errors[0]);
    assert_eq!(pod.defaults(Family::V4).len(), 2);
}

#[test]
fn a_link_that_has_gone() {
    let mut pod = Pod::new();
    let scope = pod.both();
    pod.sh("ip link del net1");
    let failure = pod
        .kernel
        .apply(&scope, &[Change::Add(default_via("10.1.0.1", pod.net1))], &mut Journal::new())
        .unwrap_err();
    assert_eq!(kinds(&failure.errors), [ErrorKind::NoDevice]);
    // Between the snapshot and the request.
    let mut pod = Pod::new();
    let scope = pod.both();
    let change = Change::Add(default_via("10.1.0.1", pod.net1));
    let netns = pod.netns.clone();
    let meddle = move |_: &mut Kernel| drop(sh(&netns, "ip link del net1 2>/dev/null || :"));
    let mut wire = Between { wire: pod.wire(), meddle };
    let failure = wire.apply(&scope, &[change], &mut Journal::new()).unwrap_err();
    assert!(
        matches!(failure.errors[0].kind, ErrorKind::NoDevice | ErrorKind::GatewayUnreachable),
        "{failure:?}"
    );
    assert!(failure.errors[0].to_string().contains("net1"));
}

#[test]
fn a_concurrent_route_is_neither_touched_nor_a_success() {
    let mut pod = Pod::new();
    let scope = pod.only(pod.net1);
    let theirs = default_via("10.0.0.1", pod.eth0).to_route();
    let ours = default_via("10.1.0.1", pod.net1);
    let route = theirs.clone();
    let mut there = false;
    let meddle = move |wire: &mut Kernel| {
        if !std::mem::replace(&mut there, true) {
            wire.send(&Request::add(&route, Mode::Exclusive)).unwrap();
        }
    };
    let mut wire = Between { wire: pod.wire(), meddle };
    let failure = wire.apply(&scope, &[Change::Add(ours)], &mut Journal::new()).unwrap_err();
    assert_eq!(failure.errors[0].kind, ErrorKind::Exists);
    assert_eq!(pod.defaults(Family::V4), [theirs]);
}

/// Run by the test below in a process without the right.
#[test]
#[ignore = "runs without CAP_NET_ADMIN, started by without_the_right_nothing_changes"]
fn inside_without_the_right() {
    let netns = crate::routes::netns::Netns::current().unwrap();
    let mut kernel = Kernel::of(&netns);
    let eth0 = kernel.find_link("eth0").unwrap().unwrap().index;
    let scope = Scope { links: vec![eth0], tables: vec![254] };
    let default = kernel.routes(Family::V4, 254).unwrap().remove(0);
    assert!(default.is_default());
    let changes =
        [delete(&default), Change::Add(RouteSpec { metric: Some(5), ..default_via("10.0.0.254", eth0) })];
    let failure = kernel.apply(&scope, &changes, &mut Journal::new()).unwrap_err();
    assert_eq!(failure.errors[0].kind, ErrorKind::Permission);
    assert!(failure.errors[0].to_string().contains("EPERM"), "{}", failure.errors[0]);
    assert!(failure.undo.exact && !failure.changed);
    let deletion = kernel.apply(&scope, &changes[..1], &mut Journal::new()).unwrap_err();
    assert_eq!(deletion.errors[0].kind, ErrorKind::Permission);
}

#[test]
fn without_the_right_nothing_changes() {
    let mut pod = Pod::new();
    pod.sh("ip route add default via 10.0.0.1");
    let before = pod.table();
    let test = std::env::current_exe().unwrap();
    let name = format!("{}::inside_without_the_right", module_path!().split_once("::").unwrap().1);
    let output = pod
        .netns
        .run(|| {
            std::process::Command::new("setpriv")
                .args(["--bounding-set", "-net_admin", "--inh-caps", "-net_admin"])
                .arg(test)
                .args(["--exact", &name, "--ignored"])
                .output()
        })
        .unwrap()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    assert_eq!(pod.table(), before);
}
