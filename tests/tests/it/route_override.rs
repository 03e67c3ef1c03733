//! Who owns the default route: the kernel, the answer, libcni's cache and the network status say the same.

use catena_tests::conf::{self, Family, Stack, asking, gateway, host};
use catena_tests::pair::Twin;
use catena_tests::runtime::Pod;
use catena_tests::scripted;
use catena_tests::state::{
    self, DefaultRoute, Traces, address_gateways, default_gateways, defaults, status_gateways, via,
};
use catena_tests::world::{CATENACTL, World};
use serde_json::{Value, json};

/// All that is said about one attachment's default route of a family.
struct Said {
    cached: Value,
    status: Value,
}

fn said(pod: &Pod<'_>, network: &str, ifname: &str, position: usize) -> Said {
    let status = pod.status("outer");
    let element =
        status.get(position).unwrap_or_else(|| panic!("no element {position} in the status: {status:?}"));
    assert_eq!(element["interface"], ifname, "{status:?}");
    assert_eq!(element["default"], json!(position == 0), "{status:?}");
    Said { cached: pod.cached(network, ifname), status: element.clone() }
}

impl Said {
    fn owns(&self, family: Family, gateways: &[&str]) {
        assert_eq!(default_gateways(&self.cached, family), gateways, "routes in the cache: {}", self.cached);
        assert_eq!(status_gateways(&self.status, family), gateways, "gateway in the status: {}", self.status);
    }

    fn owns_nothing(&self, family: Family) {
        self.owns(family, &[]);
        let beside = address_gateways(&self.cached, family);
        assert!(beside.is_empty(), "ips[].gateway in the cache: {}", self.cached);
    }
}

/// Moves the default route by hand; CHECK must say so. Afterwards all is as before.
fn moved_is_noticed(
    pod: &Pod<'_>,
    outer: &Value,
    result: &Value,
    family: Family,
    from: &str,
    to: (&str, &str),
) {
    let option = family.option();
    let (dev, old) = to;
    pod.world.pod_sh(
        &pod.netns,
        &format!(
            "ip {option} route del default dev {from}; ip {option} route add default via {old} dev {dev}"
        ),
    );
    let failure = pod.check(outer, result).failure();
    let text = failure.text();
    assert!(
        text.contains(dev) || text.contains(from) || text.contains(old),
        "CHECK names no difference: {text}"
    );
}

/// eth0 is ptp with defaults, net1 a bridge that asks for one family's default route.
fn override_one_family(stack: Stack, family: Family) {
    let ptp = conf::ptp(1, stack);
    let bridge = conf::bridge(2, stack);
    let twin = Twin::live(&[("eth0", &ptp), ("net1", &bridge)], false);
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let asked = gateway(2, family);
    let outer = conf::catena(json!([ptp, asking(&bridge, &[&asked])]));
    let result = pod.add(&outer).result();

    assert_eq!(defaults(&world, &pod.netns, family), [via(&asked, "net1", family.metric())]);
    let other = family.other();
    assert_eq!(defaults(&world, &pod.netns, other), state::defaults_of(&twin.during, other));
    // Nothing but the default route moved.
    let strip = |traces: &Traces| {
        let kept = traces.0.iter().filter(|line| !line.starts_with("file ")).filter(|line| {
            !line.starts_with(&format!("pod {} dst default ", family.name())) && !line.contains("accept_ra")
        });
        Traces(kept.cloned().collect())
    };
    strip(&Traces::of(&world, Some(&pod.netns))).same_as(&strip(&twin.during), "after ADD");

    assert!(default_gateways(&result, family).is_empty(), "the answer: {result}");
    assert!(address_gateways(&result, family).is_empty(), "the answer: {result}");
    if stack == Stack::Dual {
        assert_eq!(default_gateways(&result, other).len(), 1, "the answer: {result}");
        assert_eq!(address_gateways(&result, other), [gateway(1, other)], "the answer: {result}");
    }
    let eth0 = said(&pod, "ptp1", "eth0", 0);
    eth0.owns_nothing(family);
    assert_eq!(default_gateways(&eth0.cached, other).len(), usize::from(stack == Stack::Dual));
    let net1 = said(&pod, "bridge2", "net1", 1);
    net1.owns(family, &[&asked]);
    assert_eq!(net1.status["default-route"], json!([asked]), "{}", net1.status);
    if stack == Stack::Dual {
        assert_eq!(status_gateways(&eth0.status, other), [gateway(1, other)]);
        assert!(status_gateways(&net1.status, other).is_empty());
    }

    pod.check(&outer, &result).done();
    moved_is_noticed(&pod, &outer, &result, family, "net1", ("eth0", &gateway(1, family)));
    pod.del(&outer, Some(&result)).done();
    Traces::of(&world, Some(&pod.netns)).same_as(&twin.after, "after DEL");
}

#[test]
fn v4() {
    override_one_family(Stack::V4, Family::V4);
}

#[test]
fn v6() {
    override_one_family(Stack::V6, Family::V6);
}

#[test]
fn v4_of_dual() {
    override_one_family(Stack::Dual, Family::V4);
}

#[test]
fn v6_of_dual() {
    override_one_family(Stack::Dual, Family::V6);
}

/// A pod of fast scripted delegates: eth0 is network 1 with defaults, the others as given.
struct Fast<'w> {
    pod: Pod<'w>,
    outer: Value,
    before: Traces,
}

impl<'w> Fast<'w> {
    fn new(world: &'w World, delegates: Value) -> Fast<'w> {
        let pod = Pod::new(world, "pod");
        let before = Traces::of(world, Some(&pod.netns));
        Fast { pod, outer: conf::catena(delegates), before }
    }

    fn defaults(&self, family: Family) -> Vec<DefaultRoute> {
        defaults(self.pod.world, &self.pod.netns, family)
    }

    fn end(&self, result: &Value) {
        self.pod.check(&self.outer, result).done();
        self.pod.del(&self.outer, Some(result)).done();
        self.same_as_before("after DEL");
    }

    fn same_as_before(&self, when: &str) {
        Traces::of(self.pod.world, Some(&self.pod.netns)).same_as(&self.before, when);
    }
}

fn eth0() -> Value {
    scripted::veth("one", 1, Stack::Dual, true)
}

#[test]
fn both_families_on_one_attachment() {
    let world = World::new();
    let (v4, v6) = (gateway(2, Family::V4), gateway(2, Family::V6));
    let fast = Fast::new(
        &world,
        json!([eth0(), asking(&scripted::veth("two", 2, Stack::Dual, false), &[&v4, &v6])]),
    );
    let result = fast.pod.add(&fast.outer).result();
    assert_eq!(fast.defaults(Family::V4), [via(&v4, "net1", 0)]);
    assert_eq!(fast.defaults(Family::V6), [via(&v6, "net1", 1024)]);
    fast.end(&result);
}

#[test]
fn one_family_each_on_two_attachments() {
    let world = World::new();
    let (v4, v6) = (gateway(2, Family::V4), gateway(3, Family::V6));
    let fast = Fast::new(
        &world,
        json!([
            eth0(),
            asking(&scripted::veth("two", 2, Stack::Dual, false), &[&v4]),
            asking(&scripted::veth("three", 3, Stack::Dual, false), &[&v6]),
        ]),
    );
    let result = fast.pod.add(&fast.outer).result();
    assert_eq!(fast.defaults(Family::V4), [via(&v4, "net1", 0)]);
    assert_eq!(fast.defaults(Family::V6), [via(&v6, "net2", 1024)]);
    fast.end(&result);
}

#[test]
fn several_gateways_get_rising_metrics() {
    for family in Family::ALL {
        let world = World::new();
        let (first, second) = (host(2, family, 254), gateway(2, family));
        let fast = Fast::new(
            &world,
            json!([eth0(), asking(&scripted::veth("two", 2, Stack::Dual, false), &[&first, &second])]),
        );
        let result = fast.pod.add(&fast.outer).result();
        let metric = family.metric();
        assert_eq!(fast.defaults(family), [via(&first, "net1", metric), via(&second, "net1", metric + 1)]);
        assert_eq!(fast.defaults(family.other()).len(), 1);
        said(&fast.pod, "two", "net1", 1).owns(family, &[&first, &second]);
        fast.end(&result);
    }
}

#[test]
fn several_gateways_as_one_multipath_route() {
    for family in Family::ALL {
        let world = World::new();
        let (first, second) = (host(2, family, 254), gateway(2, family));
        let mut fast = Fast::new(
            &world,
            json!([eth0(), asking(&scripted::veth("two", 2, Stack::Dual, false), &[&first, &second])]),
        );
        fast.outer["pipeline"] = conf::pipeline(json!({"gateways": "ecmp"}));
        let result = fast.pod.add(&fast.outer).result();
        let metric = family.metric();
        let mut wanted = [via(&first, "net1", metric), via(&second, "net1", metric)];
        wanted.sort();
        assert_eq!(fast.defaults(family), wanted);
        fast.end(&result);
    }
}

#[test]
fn an_empty_list_keeps_the_delegates_own_gateways() {
    for (name, net1) in [
        // At a metric of its own, so that both defaults are there before catena acts.
        ("scripted", {
            let mut conf = scripted::veth("two", 2, Stack::V4, false);
            let sh = scripted::veth_script(2, Stack::V4)
                + "nsenter --net=$CNI_NETNS ip route add default via 10.90.2.1 dev $CNI_IFNAME metric 50\n";
            let routes = [json!({"dst": "0.0.0.0/0", "gw": "10.90.2.1"})];
            conf["script"]["ADD"] = json!({"sh": sh, "result": scripted::veth_result(2, Stack::V4, &routes)});
            conf
        }),
        // The reference bridge does not make its default where there is one, and says so nowhere.
        ("bridge", {
            let mut conf = conf::bridge_with_default(2, Stack::V4);
            conf["name"] = json!("two");
            conf
        }),
    ] {
        let world = World::new();
        let fast = Fast::new(&world, json!([eth0(), asking(&net1, &[])]));
        let result = fast.pod.add(&fast.outer).result();
        let now = fast.defaults(Family::V4);
        assert!(
            matches!(now.as_slice(), [one] if one.dev == "net1" && one.gateway == "10.90.2.1"),
            "{name}: {now:?}"
        );
        said(&fast.pod, "two", "net1", 1).owns(Family::V4, &["10.90.2.1"]);
        said(&fast.pod, "one", "eth0", 0).owns_nothing(Family::V4);
        fast.pod.check(&fast.outer, &result).done();
        fast.pod.del(&fast.outer, Some(&result)).done();
    }
}

#[test]
fn an_empty_list_without_own_gateways_is_an_error() {
    let world = World::new();
    let fast = Fast::new(&world, json!([eth0(), asking(&scripted::veth("two", 2, Stack::Dual, false), &[])]));
    let failure = fast.pod.add(&fast.outer).failure();
    assert!(failure.text().contains("net1") || failure.text().contains("two"), "{}", failure.text());
    fast.same_as_before("after a failed ADD");
}

#[test]
fn kept_destinations_stay_with_the_old_gateway() {
    for (family, kept) in [(Family::V4, "198.51.100.0/24"), (Family::V6, "2001:db8:77::/64")] {
        let world = World::new();
        let asked = gateway(2, family);
        let mut fast = Fast::new(
            &world,
            json!([eth0(), asking(&scripted::veth("two", 2, Stack::Dual, false), &[&asked])]),
        );
        fast.outer["pipeline"] = conf::pipeline(json!({"keep": [kept]}));
        let result = fast.pod.add(&fast.outer).result();
        assert_eq!(fast.defaults(family), [via(&asked, "net1", family.metric())]);
        let routes = state::routes(&world, Some(&fast.pod.netns), family);
        let old = gateway(1, family);
        assert!(
            routes.iter().any(|line| line.contains(&format!("dst {kept} gateway {old} dev eth0"))),
            "{routes:#?}"
        );
        let routes = result["routes"].as_array().cloned().unwrap_or_default();
        assert!(routes.iter().any(|route| route["dst"] == kept && route["gw"] == old.as_str()), "{result}");
        fast.end(&result);
    }
}

#[test]
fn none_removes_and_moves_nothing() {
    let world = World::new();
    let fast = Fast::new(&world, json!([{"config": eth0(), "catena.dev/default-route": "none"}]));
    let result = fast.pod.add(&fast.outer).result();
    for family in Family::ALL {
        assert_eq!(fast.defaults(family), []);
        assert!(default_gateways(&result, family).is_empty(), "{result}");
    }
    fast.end(&result);
}

#[test]
fn nobody_asked_and_all_is_left_alone() {
    let world = World::new();
    let mut second = scripted::veth("two", 2, Stack::V4, false);
    second["script"]["ADD"]["sh"] = json!(
        scripted::veth_script(2, Stack::V4)
            + "nsenter --net=$CNI_NETNS ip route add default via 10.90.2.1 dev $CNI_IFNAME metric 50\n"
    );
    let fast = Fast::new(&world, json!([eth0(), second.clone()]));
    let result = fast.pod.add(&fast.outer).result();
    assert_eq!(fast.defaults(Family::V4), [via("10.90.1.1", "eth0", 0), via("10.90.2.1", "net1", 50)]);
    fast.end(&result);

    // The node may say otherwise.
    world.write("/etc/catena/node.json", json!({"secondaryDefaults": "filter"}).to_string());
    let result = fast.pod.add(&fast.outer).result();
    assert_eq!(fast.defaults(Family::V4), [via("10.90.1.1", "eth0", 0)]);
    fast.pod.del(&fast.outer, Some(&result)).done();
}

#[test]
fn two_that_ask_in_one_family_are_refused_before_anything_runs() {
    let world = World::new();
    let fast = Fast::new(
        &world,
        json!([
            eth0(),
            asking(&scripted::veth("two", 2, Stack::Dual, false), &[&gateway(2, Family::V4)]),
            asking(&scripted::veth("three", 3, Stack::Dual, false), &[&gateway(3, Family::V4)]),
        ]),
    );
    let failure = fast.pod.add(&fast.outer).failure();
    let text = failure.text();
    assert!(
        (text.contains("net1") || text.contains("two")) && (text.contains("net2") || text.contains("three")),
        "both are named: {text}"
    );
    assert_eq!(scripted::call_lines(&world), Vec::<String>::new(), "a denied pod has had no side effects");
    fast.same_as_before("after a refused ADD");
}

#[test]
fn the_primary_may_ask_too() {
    for family in Family::ALL {
        let world = World::new();
        let asked = host(1, family, 254);
        let fast = Fast::new(&world, json!([asking(&eth0(), &[&asked])]));
        let result = fast.pod.add(&fast.outer).result();
        assert_eq!(fast.defaults(family), [via(&asked, "eth0", family.metric())]);
        assert_eq!(fast.defaults(family.other()).len(), 1);
        assert_eq!(default_gateways(&result, family), [asked.as_str()]);
        assert_eq!(address_gateways(&result, family), [asked.as_str()]);
        fast.end(&result);
    }
}

#[test]
fn a_network_policy_filters_and_a_request_against_it_is_denied() {
    let world = World::new();
    let mut fast = Fast::new(&world, json!([eth0()]));
    fast.outer["pipeline"] = conf::pipeline(json!({"filter": ["ipv6"]}));
    let result = fast.pod.add(&fast.outer).result();
    assert_eq!(fast.defaults(Family::V4).len(), 1);
    assert_eq!(fast.defaults(Family::V6), []);
    fast.end(&result);

    fast.outer["delegates"] = json!([asking(&eth0(), &[&gateway(1, Family::V6)])]);
    fast.pod.add(&fast.outer).fails_with(105, &[]);
    fast.same_as_before("after a denied ADD");
}

/// A second network whose IPv6 default route becomes one more leg of the first's.
fn with_another_leg() -> Value {
    let mut second = scripted::veth("two", 2, Stack::Dual, false);
    let sh = scripted::veth_script(2, Stack::Dual)
        + "nsenter --net=$CNI_NETNS ip -6 route append default via fd00:90:2::1 dev $CNI_IFNAME metric 1024\n";
    let routes = [json!({"dst": "::/0", "gw": "fd00:90:2::1"})];
    second["script"]["ADD"] = json!({"sh": sh, "result": scripted::veth_result(2, Stack::Dual, &routes)});
    second
}

#[test]
fn a_metric_or_a_multipath_leg_hides_no_default() {
    // eth0 has defaults at two metrics, and an IPv6 multipath default with a leg on net1.
    let world = World::new();
    let mut first = eth0();
    let sh = first["script"]["ADD"]["sh"].as_str().expect("a script").to_owned()
        + "nsenter --net=$CNI_NETNS ip route add default via 10.90.1.77 dev $CNI_IFNAME metric 300\n";
    first["script"]["ADD"]["sh"] = json!(sh);
    let second = with_another_leg();
    let fast = Fast::new(&world, json!([first, asking(&second, &["10.90.2.1"])]));
    let result = fast.pod.add(&fast.outer).result();
    assert_eq!(fast.defaults(Family::V4), [via("10.90.2.1", "net1", 0)]);
    let mut both = [via("fd00:90:1::1", "eth0", 1024), via("fd00:90:2::1", "net1", 1024)];
    both.sort();
    assert_eq!(fast.defaults(Family::V6), both, "the other family is untouched");
    fast.end(&result);
}

#[test]
fn only_our_leg_of_a_multipath_default_goes() {
    let world = World::new();
    let second = with_another_leg();
    let fast = Fast::new(&world, json!([eth0(), {"config": second, "catena.dev/default-route": "none"}]));
    let result = fast.pod.add(&fast.outer).result();
    assert_eq!(fast.defaults(Family::V6), [via("fd00:90:1::1", "eth0", 1024)]);
    fast.end(&result);
}

#[test]
fn two_owners_are_noticed_whatever_the_pipeline_was() {
    // The kernel makes one IPv6 route of both, and each has just what it asked for.
    let world = World::new();
    let second = with_another_leg();
    let both = |first: &[&str], other: &[&str]| json!([asking(&eth0(), first), asking(&second, other)]);
    let mut fast = Fast::new(&world, json!([]));
    fast.outer["pipeline"] = json!([{"stage": "result-conversion"}, {"stage": "network-status"}]);
    for (first, other) in [(&["fd00:90:1::1"][..], &["fd00:90:2::1"][..]), (&[], &[])] {
        fast.outer["delegates"] = both(first, other);
        let words = ["eth0 (via fd00:90:1::1)", "net1 (via fd00:90:2::1)", "only one attachment can own it"];
        fast.pod.add(&fast.outer).fails_with(107, &words);
        fast.same_as_before("after a failed ADD");
    }
}

#[test]
fn a_kept_route_that_the_delegate_told_without_gateway_passes_check() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let mut bridge = conf::bridge_with_default(1, Stack::V4);
    bridge["ipam"]["routes"] = json!([{"dst": "0.0.0.0/0"}, {"dst": "10.96.0.0/12"}]);
    let mut outer = conf::catena(json!([bridge]));
    outer["pipeline"] = conf::pipeline(json!({"filter": ["ipv4"], "keep": ["10.96.0.0/12"]}));
    let result = pod.add(&outer).result();
    assert_eq!(defaults(&world, &pod.netns, Family::V4), []);
    assert_eq!(result["routes"], json!([{"dst": "10.96.0.0/12", "gw": "10.90.1.1"}]));
    pod.check(&outer, &result).done();
    pod.del(&outer, Some(&result)).done();
}

#[test]
fn router_advertisements_do_not_bring_a_default_back() {
    let world = World::new();
    let asked = gateway(2, Family::V6);
    let fast =
        Fast::new(&world, json!([eth0(), asking(&scripted::veth("two", 2, Stack::Dual, false), &[&asked])]));
    let result = fast.pod.add(&fast.outer).result();
    let accepts = world.pod_sh(&fast.pod.netns, "cat /proc/sys/net/ipv6/conf/eth0/accept_ra_defrtr");
    assert_eq!(accepts.trim(), "0");
    fast.end(&result);
}

/// A delegate's result may name links that are not its own: CHECK knows what ADD has left out.
#[test]
fn check_counts_the_links_that_add_counted() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let mut second = scripted::veth("two", 2, Stack::V4, false);
    let interfaces = second["script"]["ADD"]["result"]["interfaces"].as_array_mut().expect("a list");
    interfaces.push(json!({"name": "eth0", "sandbox": "$CNI_NETNS"}));
    let mut outer = conf::catena(json!([
        scripted::veth("one", 1, Stack::V4, true),
        {"config": second, "catena.dev/default-route": "none"},
    ]));
    outer["pipeline"] = json!([{"stage": "result-conversion"}]);
    let result = pod.add(&outer).result();
    pod.check(&outer, &result).done();
}

#[test]
fn two_owners_that_nobody_asked_for_are_told() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let one = scripted::veth("one", 1, Stack::Dual, true);
    let two = scripted::veth("two", 2, Stack::Dual, true).to_string();
    let two: Value =
        serde_json::from_str(&two.replace("route add default", "route append default")).expect("JSON");
    let third = json!({
        "config": scripted::veth("three", 3, Stack::Dual, false), "catena.dev/default-route": "none"
    });
    for delegates in [json!([one, two]), json!([one, two, third])] {
        let mut outer = conf::catena(delegates);
        outer["logFile"] = json!("/var/log/catena.log");
        let result = pod.add(&outer).result();
        let log = world.read("/var/log/catena.log");
        let line: Value = serde_json::from_str(log.lines().last().expect("a line")).expect("a JSON line");
        // Who keeps no log finds them in the ledger.
        let shown = world.run(CATENACTL, &["show", &pod.id, "--json"]).stdout;
        let shown: Value = serde_json::from_str(&shown).expect("a JSON document");
        let text = world.run(CATENACTL, &["show", &pod.id]).stdout;
        for notes in [&line["notes"], &shown["entries"][0]["notes"]] {
            for family in ["ipv4", "ipv6"] {
                let told = |note: &Value| {
                    note.as_str().is_some_and(|note| {
                        let words = ["more than one", family, "/eth0", "/net1"];
                        words.iter().all(|word| note.contains(word)) && text.contains(note)
                    })
                };
                assert!(
                    notes.as_array().is_some_and(|notes| notes.iter().any(told)),
                    "{family}: {notes}\n{text}"
                );
            }
        }
        pod.del(&outer, Some(&result)).done();
    }
}

/// A delegate that tells nothing of its links may have made some; a later result that names one does not get it.
#[test]
fn a_link_of_an_attachment_before_is_no_other_ones() {
    for parallel in [false, true] {
        let world = World::new();
        let pod = Pod::new(&world, "pod");
        let make = "nsenter --net=$CNI_NETNS ip link add extra type veth peer name extra-peer";
        let mut silent =
            scripted::conf("silent", json!({"ADD": {"sh": make, "result": {"cniVersion": conf::VERSION}}}));
        silent["script"]["DEL"] = json!({"sh": "nsenter --net=$CNI_NETNS ip link del extra"});
        let mut claiming = scripted::veth("two", 2, Stack::V4, true);
        let interfaces =
            claiming["script"]["ADD"]["result"]["interfaces"].as_array_mut().expect("interfaces");
        interfaces.push(json!({"name": "extra", "sandbox": "$CNI_NETNS"}));
        let mut outer = conf::catena(json!([silent, claiming]));
        outer["parallel"] = json!(parallel);
        let result = pod.add(&outer).result();
        let ledger = world.sh("cat /var/lib/catena/state/*.json");
        let links: Vec<Value> = ledger
            .lines()
            .filter_map(|line| {
                serde_json::from_str::<Value>(line).ok()?.get("attached")?.get("links").cloned()
            })
            .collect();
        let index = world.sh(&format!("nsenter --net={} ip -o link show net1 | cut -d: -f1", pod.netns));
        let index: u32 = index.trim().parse().expect("an index");
        assert_eq!(links, [json!([]), json!([index])], "{parallel}: {ledger}");
        pod.del(&outer, Some(&result)).done();
    }
}
