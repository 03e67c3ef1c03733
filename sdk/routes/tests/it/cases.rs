//! Single cases, those above all that show how requests are judged.

use catena_routes::{
    Change, ErrorKind, Family, Hop, Journal, Kind, Link, Mode, Prefix, Request, Route, RouteError, RouteSpec,
    Scope, SimulatedTable, Snapshot, Table, Wire,
};

use crate::world::*;

fn main_table(links: &[u32]) -> Scope {
    Scope { links: links.to_vec(), tables: vec![254] }
}

fn default_via(gateway: &str, link: u32) -> RouteSpec {
    RouteSpec::new(Prefix::default_route(Family::of(ip(gateway))), vec![Hop::via(ip(gateway), link)])
}

fn kinds(errors: &[RouteError]) -> Vec<ErrorKind> {
    errors.iter().map(|error| error.kind).collect()
}

fn refusal(table: &mut SimulatedTable, scope: &Scope, change: Change) -> (ErrorKind, String) {
    let before = tables(table);
    let failure = table.apply(scope, &[change], &mut Journal::new()).unwrap_err();
    assert_eq!(tables(table), before);
    assert_eq!(failure.errors.len(), 1, "{failure:#?}");
    (failure.errors[0].kind, failure.errors[0].to_string())
}

#[test]
fn what_makes_no_sense_is_invalid() {
    let scope = main_table(&[ETH0, NET1, 0]);
    let good = default_via("10.1.0.1", NET1);
    let v6 = default_via("fd01::1", NET1);
    let hop = good.hops[0].clone();
    let bad = [
        (RouteSpec { hops: Vec::new(), ..good.clone() }, "needs a next hop"),
        (RouteSpec { hops: vec![hop.clone(), hop.clone()], ..good.clone() }, "there twice"),
        (RouteSpec { kind: Kind::Blackhole, ..good.clone() }, "has no next hop"),
        (
            RouteSpec { hops: vec![Hop { onlink: true, ..Hop::dev(NET1) }], ..good.clone() },
            "onlink needs a gateway",
        ),
        (RouteSpec { source: Some(ip("fd01::2")), ..good.clone() }, "its source is not ipv4"),
        (RouteSpec { from: Some(net("10.2.0.0/16")), ..good.clone() }, "has no source prefix"),
        (RouteSpec { from: Some(net("10.2.0.0/16")), ..v6.clone() }, "is not ipv6"),
        (RouteSpec { mtu: Some(0), ..good.clone() }, "stands for none"),
        (RouteSpec { hops: vec![Hop::via(ip("0.0.0.0"), NET1)], ..good.clone() }, "is no gateway"),
        (RouteSpec { tos: 16, ..v6.clone() }, "has no tos"),
        (RouteSpec { hops: vec![hop], ..v6.clone() }, "cannot have the ipv4 gateway"),
        (
            RouteSpec { hops: vec![Hop::dev(NET1), v6.hops[0].clone()], ..v6 },
            "each of several ipv6 hops needs a gateway",
        ),
    ];
    for (spec, reason) in bad {
        let (kind, text) = refusal(&mut world(), &scope, Change::Add(spec));
        assert_eq!(kind, ErrorKind::Invalid, "{text}");
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn what_is_outside_the_scope_is_denied() {
    let scope = main_table(&[NET1]);
    let denied = [
        Change::Add(default_via("10.0.0.1", ETH0)),
        Change::Add(RouteSpec { table: 100, ..default_via("10.1.0.1", NET1) }),
        Change::Add(RouteSpec { kind: Kind::Blackhole, hops: Vec::new(), ..default_via("10.1.0.1", NET1) }),
        Change::Delete(POD.connected(Family::V4, ETH0).to_spec()),
        Change::IgnoreRouterAdvertisements(ETH0),
    ];
    for change in denied {
        let (kind, text) = refusal(&mut world(), &scope, change);
        assert_eq!(kind, ErrorKind::Denied, "{text}");
        assert!(text.contains("scope"), "{text}");
    }
}

#[test]
fn an_ambiguous_delete_names_what_fits() {
    let mut table = world();
    for (metric, protocol) in [(0, 3), (50, 4), (100, 4)] {
        let route = Route { metric, protocol, ..default_via("10.1.0.1", NET1).to_route() };
        table.send(&Request::add(&route, Mode::Exclusive)).unwrap();
    }
    let scope = main_table(&[NET1]);
    let vague = default_via("10.1.0.1", NET1);
    let (kind, text) = refusal(&mut table, &scope, Change::Delete(vague.clone()));
    assert_eq!(kind, ErrorKind::Invalid);
    assert!(text.contains("3 routes fit") && text.contains("metric 50"), "{text}");
    let named = RouteSpec { protocol: Some(3), ..vague.clone() };
    table.apply(&scope, &[Change::Delete(named)], &mut Journal::new()).unwrap();
    let named = RouteSpec { metric: Some(100), ..vague };
    table.apply(&scope, &[Change::Delete(named)], &mut Journal::new()).unwrap();
    assert_eq!(table.dump(Family::V4, 254).unwrap().iter().filter(|r| r.is_default()).count(), 1);
}

#[test]
fn a_source_prefix_is_part_of_the_name() {
    let scope = main_table(&[NET1]);
    let everything = net("::/0");
    let of = |from: Option<&str>| RouteSpec { from: from.map(net), ..default_via("fd01::1", NET1) };
    let specs = [of(None), of(Some("2001:db8::/64")), of(Some("2001:db8:1::/64"))];
    let mut table = world();
    let before = tables(&mut table);
    let mut journal = Journal::new();
    let adds: Vec<Change> = specs.iter().cloned().map(Change::Add).collect();
    table.apply(&scope, &adds, &mut journal).unwrap();
    for (position, spec) in specs.iter().enumerate() {
        let applied = table.apply(&scope, &[Change::Delete(spec.clone())], &mut journal).unwrap();
        assert_eq!(applied.deleted, [spec.to_route()]);
        let (kind, text) = refusal(&mut table, &scope, Change::Delete(spec.clone()));
        assert_eq!(kind, ErrorKind::NotFound, "{text}");
        let left = table.dump(Family::V6, 254).unwrap();
        assert_eq!(left.iter().filter(|r| r.is_default() && r.has_hop_on(NET1)).count(), 2 - position);
    }
    // Everything is no prefix.
    let all = RouteSpec { from: Some(everything), ..specs[0].clone() };
    table.apply(&scope, &[Change::Add(all.clone())], &mut journal).unwrap();
    let (kind, text) = refusal(&mut table, &scope, Change::Add(specs[0].clone()));
    assert_eq!(kind, ErrorKind::Exists, "{text}");
    table.apply(&scope, &[Change::Delete(all)], &mut journal).unwrap();
    assert!(table.undo(&mut journal, Journal::start()).exact);
    assert_eq!(tables(&mut table), before);
}

#[test]
fn replace_takes_what_has_a_source_prefix_as_another_route() {
    let scope = main_table(&[NET1]);
    let plain = default_via("fd01::1", NET1);
    let other = RouteSpec { from: Some(net("2001:db8::/64")), ..plain.clone() };
    let mut table = world();
    let mut journal = Journal::new();
    table.apply(&scope, &[Change::Add(other.clone())], &mut journal).unwrap();
    let applied = table
        .replace(&scope, NET1, Family::V6, 254, std::slice::from_ref(&plain), true, &mut journal)
        .unwrap();
    assert_eq!((applied.added, applied.deleted), (vec![plain.to_route()], vec![other.to_route()]));
    let applied = table.replace(&scope, NET1, Family::V6, 254, &[plain, other], true, &mut journal).unwrap();
    assert_eq!((applied.added.len(), applied.deleted.len()), (1, 0));
}

#[test]
fn a_place_is_taken_by_ours_or_by_theirs() {
    for (link, gateway, kind) in
        [(NET1, "10.1.0.254", ErrorKind::Exists), (ETH0, "10.0.0.1", ErrorKind::Conflict)]
    {
        let mut table = world();
        table.send(&Request::add(&default_via(gateway, link).to_route(), Mode::Exclusive)).unwrap();
        let (said, text) =
            refusal(&mut table, &main_table(&[NET1]), Change::Add(default_via("10.1.0.1", NET1)));
        assert_eq!(said, kind, "{text}");
        assert!(text.contains(&format!("held by \"default via {gateway}")), "{text}");
    }
}

#[test]
fn one_call_may_not_take_a_place_twice() {
    let changes = [Change::Add(default_via("fd01::1", NET1)), Change::Add(default_via("fd01::9", NET1))];
    let failure = world().apply(&main_table(&[NET1]), &changes, &mut Journal::new()).unwrap_err();
    assert_eq!(kinds(&failure.errors), [ErrorKind::Invalid]);
}

#[test]
fn a_swap_adds_before_it_deletes() {
    for (old, new) in [("10.0.0.1", "10.1.0.1"), ("fd00::1", "fd01::1")] {
        let mut wire = Recorder { table: world(), requests: Vec::new(), router: None };
        let old = default_via(old, ETH0);
        wire.table.send(&Request::add(&old.to_route(), Mode::Exclusive)).unwrap();
        let changes = [Change::Delete(old), Change::Add(default_via(new, NET1))];
        wire.apply(&main_table(&[ETH0, NET1]), &changes, &mut Journal::new()).unwrap();
        assert_eq!(wire.requests, ["Add(Append)", "Delete"]);
    }
}

/// A route of the link that stands between the hops of a route over several does not show until they go.
#[test]
fn what_was_hidden_on_a_replaced_link_goes_too() {
    let default = |hop| Route::new(Prefix::default_route(Family::V6), vec![hop]);
    let first = default(Hop::via(ip("fd00::1"), ETH0));
    let hidden = Route { protocol: 16, ..default(Hop::dev(NET1)) };
    let last = default(Hop::via(ip("fd01::1"), NET1));
    let mut table = world();
    for route in [&first, &hidden, &last] {
        table.send(&Request::add(route, Mode::Append)).unwrap();
    }
    let defaults = |table: &mut SimulatedTable| -> Vec<Route> {
        table.dump(Family::V6, 254).unwrap().into_iter().filter(Route::is_default).collect()
    };
    assert_eq!(defaults(&mut table).len(), 1, "it is hidden");
    let scope = main_table(&[NET1]);
    let mut journal = Journal::new();
    let empty = |table: &mut SimulatedTable, journal: &mut Journal| {
        table.replace(&scope, NET1, Family::V6, 254, &[], true, journal).unwrap()
    };
    let applied = empty(&mut table, &mut journal);
    assert_eq!(applied.deleted, [last.clone(), hidden.clone()]);
    assert!(applied.notes.len() == 1 && applied.notes[0].contains("hidden"), "{:?}", applied.notes);
    assert_eq!(defaults(&mut table), std::slice::from_ref(&first));
    let again = empty(&mut table, &mut journal);
    assert_eq!((again.added, again.deleted), (Vec::new(), Vec::new()));
    let undo = table.undo(&mut journal, Journal::start());
    assert!(undo.exact, "{undo:?}");
    let mut now = defaults(&mut table);
    now.sort();
    assert!(now.iter().any(|route| route.hops.len() == 2), "{now:?}");
    // What the kernel made stays where that is asked for.
    let mut table = world();
    let hidden = Route { protocol: 2, ..hidden };
    for route in [&first, &hidden, &last] {
        table.send(&Request::add(route, Mode::Append)).unwrap();
    }
    empty(&mut table, &mut Journal::new());
    assert!(defaults(&mut table).contains(&hidden));
}

/// Merged hops show one protocol for all. What the journal says of the other ones is what tells them when the
/// answer to their deletion is lost.
#[test]
fn a_leg_of_ours_stays_known_among_others_hops() {
    let theirs = Route { protocol: 16, ..Route::new(net("fd77::/64"), vec![Hop::via(ip("fd01::1"), NET1)]) };
    let ours = RouteSpec::new(net("fd77::/64"), vec![Hop::via(ip("fd01::9"), NET1)]);
    let scope = main_table(&[NET1]);
    for fault in [Fault::LostAfter, Fault::LostBefore, Fault::NoEcho] {
        let mut table = world();
        table.send(&Request::add(&theirs, Mode::Exclusive)).unwrap();
        let before = tables(&mut table);
        let mut journal = Journal::new();
        // Cut off between the addition and the deletion, so that the hops are together.
        let other = RouteSpec { dst: net("fd78::/48"), ..ours.clone() };
        let wanted = [ours.clone(), other, POD.connected(Family::V6, NET1).to_spec()];
        let mut cut = Faulty::new(&mut table, Some((2, Fault::Dead)));
        cut.replace(&scope, NET1, Family::V6, 254, &wanted, false, &mut journal).unwrap_err();
        let mut faulty = Faulty::new(&mut table, Some((1, fault)));
        let undo = faulty.undo(&mut journal, Journal::start());
        assert!(faulty.fired() && undo.exact && journal.is_empty(), "{fault:?}: {undo:?}");
        assert_eq!(tables(&mut table), before, "{fault:?}");
    }
}

/// Notes what is sent.
struct Recorder {
    table: SimulatedTable,
    requests: Vec<String>,
    /// What a router advertises as soon as nobody looks, unless it is ignored.
    router: Option<Route>,
}

impl Wire for Recorder {
    fn namespace(&self) -> &str {
        self.table.namespace()
    }

    fn links(&mut self) -> Result<Vec<Link>, catena_routes::Failure> {
        Wire::links(&mut self.table)
    }

    fn dump(&mut self, family: Family, table: u32) -> Result<Vec<Route>, catena_routes::Failure> {
        let routes = self.table.dump(family, table);
        if self.table.sysctl("net1", "accept_ra_defrtr")?.as_deref() == Some("1")
            && let Some(route) = self.router.take()
        {
            self.table.send(&Request::add(&route, Mode::Exclusive))?;
        }
        routes
    }

    fn send(&mut self, request: &Request) -> Result<Vec<catena_routes::Echo>, catena_routes::Failure> {
        self.requests.push(format!("{:?}", request.action));
        self.table.send(request)
    }

    fn sysctl(&mut self, link: &str, key: &str) -> Result<Option<String>, catena_routes::Failure> {
        self.table.sysctl(link, key)
    }

    fn set_sysctl(&mut self, link: &str, key: &str, value: &str) -> Result<(), catena_routes::Failure> {
        self.requests.push(format!("{key}={value}"));
        self.table.set_sysctl(link, key, value)
    }
}

#[test]
fn the_layout_of_a_ptp_pod_in_one_replace() {
    let mut wire = Recorder { table: world(), requests: Vec::new(), router: None };
    let gateway = ip("10.1.0.1");
    let by_gateway = vec![Hop::via(gateway, NET1)];
    let source = Some(POD.own(Family::V4, NET1));
    // The wrong order on purpose: the planner finds the right one.
    let wanted = [
        RouteSpec::new(Prefix::default_route(Family::V4), by_gateway.clone()),
        RouteSpec { source, ..RouteSpec::new(net("10.1.0.0/24"), by_gateway) },
        RouteSpec { source, ..RouteSpec::new(Prefix::host(gateway), vec![Hop::dev(NET1)]) },
    ];
    let scope = main_table(&[NET1]);
    let mut journal = Journal::new();
    let applied = wire.replace(&scope, NET1, Family::V4, 254, &wanted, true, &mut journal).unwrap();
    assert_eq!((applied.added.len(), applied.deleted.len()), (3, 1));
    assert_eq!(wire.requests, ["Add(Exclusive)", "Add(Append)", "Add(Exclusive)", "Delete"]);
    let sent = wire.requests.len();
    let again = wire.replace(&scope, NET1, Family::V4, 254, &wanted, true, &mut journal).unwrap();
    assert_eq!((again.added.len(), again.deleted.len(), wire.requests.len()), (0, 0, sent));
    assert!(wire.undo(&mut journal, Journal::start()).exact);
    assert_eq!(tables(&mut wire.table), tables(&mut world()));
}

#[test]
fn settings_come_first_and_go_last() {
    let mut wire = Recorder { table: world(), requests: Vec::new(), router: None };
    let learned = Route { protocol: 9, ..default_via("fd00::1", ETH0).to_route() };
    wire.table.send(&Request::add(&learned, Mode::Exclusive)).unwrap();
    let scope = main_table(&[ETH0]);
    let changes = [Change::Delete(learned.to_spec()), Change::IgnoreRouterAdvertisements(ETH0)];
    let mut journal = Journal::new();
    wire.apply(&scope, &changes, &mut journal).unwrap();
    assert_eq!(journal.describe()[0], "net.ipv6.conf.eth0.accept_ra_defrtr: 1 -> 0");
    assert!(wire.undo(&mut journal, Journal::start()).exact);
    assert_eq!(wire.requests, ["accept_ra_defrtr=0", "Delete", "Add(Exclusive)", "accept_ra_defrtr=1"]);
}

#[test]
fn an_advertisement_between_look_and_setting_is_seen() {
    let learned = Route { protocol: 9, ..default_via("fe80::1", NET1).to_route() };
    let mut wire = Recorder { table: world(), requests: Vec::new(), router: Some(learned) };
    let changes = [Change::IgnoreRouterAdvertisements(NET1), Change::Add(default_via("fd01::1", NET1))];
    let mut journal = Journal::new();
    let failure = wire.apply(&main_table(&[NET1]), &changes, &mut journal).unwrap_err();
    assert_eq!(kinds(&failure.errors), [ErrorKind::Exists]);
    let text = failure.errors[0].to_string();
    assert!(text.contains("held by \"default via fe80::1 dev net1 proto ra"), "{text}");
    assert!(failure.changed && failure.undo.exact && journal.is_empty(), "{failure:?}");
    assert_eq!(wire.requests, ["accept_ra_defrtr=0", "accept_ra_defrtr=1"]);
}

#[test]
fn many_faults_of_a_route_are_told_once() {
    let hops = vec![Hop::via(ip("10.1.0.1"), NET1); 200];
    let spec = RouteSpec::new(Prefix::default_route(Family::V4), hops);
    let failure = world().apply(&main_table(&[NET1]), &[Change::Add(spec)], &mut Journal::new()).unwrap_err();
    assert_eq!(kinds(&failure.errors), [ErrorKind::Invalid]);
}

#[test]
fn a_snapshot_becomes_a_table_that_behaves_alike() {
    let mut table = world();
    for (family, link) in [(Family::V4, NET1), (Family::V6, ETH0)] {
        let local =
            Route { table: 255, kind: Kind::Local, scope: 254, protocol: 2, ..POD.connected(family, link) };
        let local = Route { dst: Prefix::host(POD.own(family, link)), ..local };
        table.send(&Request::add(&local, Mode::Exclusive)).unwrap();
    }
    table.send(&Request::add(&default_via("10.1.0.1", NET1).to_route(), Mode::Exclusive)).unwrap();
    let snapshot = Snapshot::take(&mut table).unwrap();
    assert_eq!(snapshot.routes.len(), 7);
    let mut copy = SimulatedTable::from(Snapshot::from_json(&snapshot.to_json()).unwrap());
    assert_eq!(tables(&mut copy), tables(&mut table));
    // The kernel's own routes tell which addresses are the namespace's.
    let scope = main_table(&[NET1]);
    let with = |source: &str| {
        Change::Add(RouteSpec { source: Some(ip(source)), metric: Some(9), ..default_via("10.1.0.1", NET1) })
    };
    assert_eq!(refusal(&mut copy, &scope, with("10.1.0.3")).0, ErrorKind::BadSource);
    let mut journal = Journal::new();
    copy.apply(&scope, &[with("10.1.0.2"), Change::IgnoreRouterAdvertisements(NET1)], &mut journal).unwrap();
    assert_eq!(
        journal.describe(),
        [
            "net.ipv6.conf.net1.accept_ra_defrtr: 1 -> 0",
            "+ default via 10.1.0.1 dev net1 proto static src 10.1.0.2 metric 9"
        ]
    );
    assert_eq!(Snapshot::take(&mut table).unwrap(), snapshot);
}

#[test]
fn a_links_name_in_errors_has_its_index() {
    let failure = world()
        .apply(&main_table(&[NET1]), &[Change::Add(default_via("10.77.0.1", NET1))], &mut Journal::new())
        .unwrap_err();
    let error = &failure.errors[0];
    assert_eq!(
        error.to_string(),
        "add ipv4 route \"default via 10.77.0.1 dev net1 proto static\" on net1 (index 3) in test: the gateway is \
         not reachable on this link; the kernel says ENETUNREACH, \"Nexthop has invalid gateway\""
    );
    assert_eq!(error.kind, ErrorKind::GatewayUnreachable);
}
