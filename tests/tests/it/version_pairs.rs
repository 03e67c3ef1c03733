//! A result in any version from a delegate, asked for in any other.

use catena_cni::json::Value;
use catena_cni::result;
use catena_cni::version::SpecVersion;
use catena_tests::conf;
use catena_tests::runtime::Pod;
use catena_tests::score::Score;
use catena_tests::scripted;
use catena_tests::state::Traces;
use catena_tests::vectors;
use catena_tests::world::World;
use serde_json::json;

/// One world for many results: the delegate makes nothing, so a pod is as new after each.
struct Pairs {
    world: World,
    count: usize,
    before: Traces,
}

impl Pairs {
    fn new() -> Pairs {
        let world = World::new();
        let netns = world.pod("pod");
        let before = Traces::of(&world, Some(&netns));
        Pairs { world, count: 0, before }
    }

    fn finish(self, count: usize) {
        assert_eq!(self.count, count, "pairs");
        Traces::of(&self.world, Some("/run/netns/pod")).same_as(&self.before, "after all pairs");
    }

    /// A delegate of the version `from` answers `input`, asked for is `to`. `expected` is what reaches the runtime; none
    /// where `to` cannot say it for lack of an address.
    fn check(&mut self, id: &str, input: &Value, from: &str, to: &str, expected: Option<&Value>) {
        self.count += 1;
        let netns = "/run/netns/pod".to_owned();
        let pod = Pod {
            world: &self.world,
            id: format!("c{}", self.count),
            netns,
            ifname: "eth0".into(),
            args: String::new(),
            path: "/opt/cni/bin".into(),
            env: Vec::new(),
        };
        let mut delegate = scripted::answers("inner", input.clone());
        delegate["cniVersion"] = json!(from);
        let mut outer = conf::catena(json!([delegate]));
        outer["cniVersion"] = json!(to);
        let calls = scripted::calls(&self.world).len();
        let reply = pod.add(&outer);
        let asked: Vec<Value> = scripted::calls(&self.world).split_off(calls);
        assert_eq!(asked[0]["stdin"]["cniVersion"], from, "{id}: the delegate is asked in its own version");
        match expected {
            Some(expected) => {
                assert_eq!(reply.result(), *expected, "{id}: {input}");
                pod.del(&outer, None).done();
            }
            None => {
                let failure = reply.fails_with(1, &[]);
                let expected = format!(
                    "the result cannot be said in CNI {to}, which was asked for: the CNI result cannot be written as \
                     version {to}: it has no address, and {to} can only tell of addresses"
                );
                assert_eq!(failure.msg, expected, "{id}: {input}");
                let undone: Vec<&Value> = asked.iter().filter(|call| call["command"] == "DEL").collect();
                assert_eq!(undone.len(), 1, "{id}: it is undone");
            }
        }
        let left = self.world.files("/var/lib");
        assert!(left.is_empty(), "{id}: left behind: {:?}", left.keys());
    }
}

/// What we answer where the reference hands on what it was given, as the rules of the list say: the routes without what
/// the format does not have, or nothing, since there is no address to tell of.
const DIFFERENT: [(&str, bool); 5] = [
    ("pair-0.1.0-to-0.1.0", true),
    ("pair-0.1.0-to-0.2.0", true),
    ("pair-0.2.0-to-0.1.0", true),
    ("empty-0.1.0-to-0.2.0", false),
    ("empty-0.2.0-to-0.1.0", false),
];

/// The answer to `pair-*` in the oldest format.
fn oldest(version: &str) -> Value {
    json!({
        "cniVersion": version,
        "ip4": {
            "ip": "192.0.2.7/24", "gateway": "192.0.2.1",
            "routes": [{ "dst": "0.0.0.0/0" }, { "dst": "198.51.100.0/24", "gw": "192.0.2.254" }],
        },
        "ip6": {
            "ip": "2001:db8:7::7/64", "gateway": "2001:db8:7::1",
            "routes": [{ "dst": "::/0", "gw": "2001:db8:7::1" }],
        },
        "dns": {
            "nameservers": ["192.0.2.53", "2001:db8::53"], "domain": "vec.example",
            "search": ["a.example", "b.example"], "options": ["ndots:2"],
        },
    })
}

/// The reference's own answers for all pairs.
#[test]
fn of_the_vectors() {
    let mut pairs = Pairs::new();
    let mut score = Score::of("result-conversion/answers");
    for case in vectors::cases("result-conversion") {
        let id = case["id"].as_str().expect("an id");
        if !id.contains("-to-") {
            continue;
        }
        let (from, to) = (
            case["input"]["cniVersion"].as_str().expect("a version"),
            case["target"].as_str().expect("a target"),
        );
        let ours = DIFFERENT.iter().find(|(different, _)| *different == id).map(|(_, answered)| *answered);
        match ours {
            Some(true) => pairs.check(id, &case["input"], from, to, Some(&oldest(to))),
            Some(false) => pairs.check(id, &case["input"], from, to, None),
            None if case["expect"] == "error" => pairs.check(id, &case["input"], from, to, None),
            None => pairs.check(id, &case["input"], from, to, Some(&case["output"])),
        }
        // What is answered otherwise has ended the test already.
        score.add(id, ours.is_some(), Ok(()));
    }
    pairs.finish(159);
    score.finish();
}

/// A result with all that its format has, for each of the three formats.
fn full(version: &str) -> Value {
    let dns = json!({ "nameservers": ["192.0.2.53"], "domain": "a.example", "search": ["b.example"], "options": ["ndots:2"] });
    match version {
        "0.1.0" | "0.2.0" => json!({
            "cniVersion": version,
            "ip4": {
                "ip": "192.0.2.7/24", "gateway": "192.0.2.1",
                "routes": [{ "dst": "0.0.0.0/0" }, { "dst": "198.51.100.0/24", "gw": "192.0.2.254" }],
            },
            "ip6": { "ip": "2001:db8:7::7/64", "routes": [{ "dst": "::/0", "gw": "2001:db8:7::1" }] },
            "dns": dns,
        }),
        "0.3.0" | "0.3.1" | "0.4.0" => json!({
            "cniVersion": version,
            "interfaces": [
                { "name": "br0", "mac": "02:00:00:00:00:01" },
                { "name": "eth0", "mac": "02:00:00:00:00:03", "sandbox": "/run/netns/pod" },
            ],
            "ips": [
                { "version": "4", "interface": 1, "address": "192.0.2.7/24", "gateway": "192.0.2.1" },
                { "version": "6", "interface": 1, "address": "2001:db8:7::7/64" },
                { "version": "4", "interface": 1, "address": "198.51.100.9/25" },
            ],
            "routes": [
                { "dst": "0.0.0.0/0" },
                { "dst": "198.51.100.0/24", "gw": "192.0.2.254", "mtu": 1300, "table": 0, "scope": 253 },
            ],
            "dns": dns,
        }),
        _ => json!({
            "cniVersion": version,
            "interfaces": [
                { "name": "veth0", "mac": "02:00:00:00:00:02", "mtu": 1400 },
                {
                    "name": "eth0", "mac": "02:00:00:00:00:03", "mtu": 1400, "sandbox": "/run/netns/pod",
                    "socketPath": "/run/v/sock", "pciID": "0000:3b:00.1",
                },
            ],
            "ips": [
                { "interface": 1, "address": "2001:db8:7::7/64", "gateway": "2001:db8:7::1" },
                { "interface": 1, "address": "192.0.2.7/24" },
                { "address": "198.51.100.9/25" },
            ],
            "routes": [
                { "dst": "::/0", "gw": "2001:db8:7::1", "priority": 77, "advmss": 1260 },
                { "dst": "198.51.100.0/24", "gw": "192.0.2.254", "table": 120 },
            ],
            "dns": dns,
        }),
    }
}

/// The pairs that the vectors leave out, by hand (cni.md c.4).
#[test]
fn of_the_other_pairs() {
    let dns = || full("1.1.0")["dns"].clone();
    let labelled = |version: &str| {
        json!({
            "cniVersion": version,
            "ips": [
                { "version": "4", "address": "192.0.2.7/24", "gateway": "192.0.2.1" },
                { "version": "6", "address": "2001:db8:7::7/64" },
            ],
            "routes": [
                { "dst": "0.0.0.0/0" }, { "dst": "198.51.100.0/24", "gw": "192.0.2.254" },
                { "dst": "::/0", "gw": "2001:db8:7::1" },
            ],
            "dns": dns(),
        })
    };
    let without_labels = |version: &str| {
        json!({
            "cniVersion": version,
            "interfaces": [
                { "name": "br0", "mac": "02:00:00:00:00:01" },
                { "name": "eth0", "mac": "02:00:00:00:00:03", "sandbox": "/run/netns/pod" },
            ],
            "ips": [
                { "interface": 1, "address": "192.0.2.7/24", "gateway": "192.0.2.1" },
                { "interface": 1, "address": "2001:db8:7::7/64" },
                { "interface": 1, "address": "198.51.100.9/25" },
            ],
            "routes": [
                { "dst": "0.0.0.0/0" },
                { "dst": "198.51.100.0/24", "gw": "192.0.2.254", "mtu": 1300, "table": 0, "scope": 253 },
            ],
            "dns": dns(),
        })
    };
    let from_oldest = json!({
        "cniVersion": "1.0.0",
        "ips": [
            { "address": "192.0.2.7/24", "gateway": "192.0.2.1" }, { "address": "2001:db8:7::7/64" },
        ],
        "routes": [
            { "dst": "0.0.0.0/0" }, { "dst": "198.51.100.0/24", "gw": "192.0.2.254" },
            { "dst": "::/0", "gw": "2001:db8:7::1" },
        ],
        "dns": dns(),
    });
    let to_oldest = json!({
        "cniVersion": "0.2.0",
        "ip4": { "ip": "192.0.2.7/24", "routes": [{ "dst": "198.51.100.0/24", "gw": "192.0.2.254" }] },
        "ip6": {
            "ip": "2001:db8:7::7/64", "gateway": "2001:db8:7::1",
            "routes": [{ "dst": "::/0", "gw": "2001:db8:7::1" }],
        },
        "dns": dns(),
    });
    let down = json!({
        "cniVersion": "0.3.0",
        "interfaces": [
            { "name": "veth0", "mac": "02:00:00:00:00:02" },
            { "name": "eth0", "mac": "02:00:00:00:00:03", "sandbox": "/run/netns/pod" },
        ],
        "ips": [
            { "version": "6", "interface": 1, "address": "2001:db8:7::7/64", "gateway": "2001:db8:7::1" },
            { "version": "4", "interface": 1, "address": "192.0.2.7/24" },
            { "version": "4", "address": "198.51.100.9/25" },
        ],
        "routes": [
            { "dst": "::/0", "gw": "2001:db8:7::1", "priority": 77, "advmss": 1260 },
            { "dst": "198.51.100.0/24", "gw": "192.0.2.254", "table": 120 },
        ],
        "dns": dns(),
    });
    let expected = [
        ("0.1.0", "0.4.0", labelled("0.4.0")),
        ("0.2.0", "0.2.0", full("0.2.0")),
        ("0.2.0", "1.0.0", from_oldest),
        ("0.3.1", "0.3.1", full("0.3.1")),
        ("0.3.1", "0.4.0", full("0.4.0")),
        ("0.4.0", "0.3.0", full("0.3.0")),
        ("0.4.0", "0.3.1", full("0.3.1")),
        ("0.4.0", "1.0.0", without_labels("1.0.0")),
        ("0.4.0", "1.1.0", without_labels("1.1.0")),
        ("1.0.0", "0.2.0", to_oldest),
        ("1.0.0", "0.3.0", down),
    ];
    let mut pairs = Pairs::new();
    for (from, to, expected) in &expected {
        pairs.check(&format!("{from} to {to}"), &full(from), from, to, Some(expected));
    }
    pairs.finish(11);
    let listed: Vec<String> = vectors::cases("result-conversion")
        .iter()
        .filter_map(|case| case["id"].as_str()?.strip_prefix("pair-").map(str::to_owned))
        .collect();
    let all =
        SpecVersion::ALL.into_iter().flat_map(|from| SpecVersion::ALL.map(|to| format!("{from}-to-{to}")));
    let missing: Vec<String> = all.filter(|pair| !listed.contains(pair)).collect();
    let by_hand: Vec<String> = expected.iter().map(|(from, to, _)| format!("{from}-to-{to}")).collect();
    assert_eq!(missing, by_hand);
}

/// Shapes that IPAM plugins and plugins without addresses answer.
#[test]
fn of_every_shape() {
    let address = |n: u8| json!({ "address": format!("192.0.2.{n}/24"), "gateway": "192.0.2.1" });
    let newest = |mut result: Value| {
        result["cniVersion"] = json!("1.1.0");
        result
    };
    let shapes = [
        (
            "no interfaces",
            newest(json!({
                "ips": [address(5), { "address": "2001:db8::5/64" }, address(6)],
                "routes": [{ "dst": "0.0.0.0/0", "gw": "192.0.2.1" }, { "dst": "2001:db8:1::/48" }],
                "dns": { "nameservers": ["192.0.2.53"], "domain": "a.example", "search": ["b.example"], "options": ["ndots:2"] },
            })),
        ),
        (
            "several of both",
            newest(json!({
                "interfaces": [
                    { "name": "br0", "mac": "02:00:00:00:00:01" },
                    { "name": "eth0", "mac": "02:00:00:00:00:02", "sandbox": "/run/netns/pod", "mtu": 1400 },
                    { "name": "eth0x", "sandbox": "/run/netns/pod", "pciID": "0000:00:01.0" },
                ],
                "ips": [
                    { "address": "192.0.2.7/24", "interface": 1 }, { "address": "2001:db8::7/64", "interface": 2 },
                    { "address": "198.51.100.7/32", "gateway": "198.51.100.1", "interface": 1 },
                ],
            })),
        ),
        (
            "interfaces, routes and dns together",
            newest(json!({
                "interfaces": [
                    { "name": "br0", "mac": "02:00:00:00:00:01" },
                    { "name": "eth0", "mac": "02:00:00:00:00:02", "sandbox": "/run/netns/pod", "mtu": 1400 },
                ],
                "ips": [
                    { "address": "192.0.2.7/24", "gateway": "192.0.2.1", "interface": 1 },
                    { "address": "2001:db8::7/64", "interface": 1 },
                ],
                "routes": [
                    { "dst": "0.0.0.0/0", "gw": "192.0.2.1" }, { "dst": "2001:db8:1::/48", "mtu": 1300, "table": 120 },
                ],
                "dns": { "nameservers": ["192.0.2.53", "2001:db8::53"], "search": ["b.example"] },
            })),
        ),
        (
            "only interfaces",
            newest(
                json!({ "interfaces": [{ "name": "eth0", "mac": "02:00:00:00:00:02", "sandbox": "/run/netns/pod" }] }),
            ),
        ),
    ];
    let mut pairs = Pairs::new();
    for (name, shape) in &shapes {
        for from in SpecVersion::ALL {
            // What cannot be said in the delegate's version, it cannot have said.
            let input =
                result::convert(shape, from).unwrap_or_else(|_| json!({ "cniVersion": from.as_str() }));
            let model = result::convert(&input, SpecVersion::NEWEST).expect("1.1.0 can say everything");
            for to in SpecVersion::ALL {
                let expected = result::convert(&model, to);
                let id = format!("{name} {from} to {to}");
                pairs.check(&id, &input, from.as_str(), to.as_str(), expected.as_ref().ok());
            }
        }
    }
    pairs.finish(4 * 49);
}

/// A delegate that answers in another known version than it was asked in.
#[test]
fn of_a_delegate_that_does_not_keep_to_its_version() {
    let mut pairs = Pairs::new();
    let input = json!({ "cniVersion": "0.2.0", "ip4": { "ip": "192.0.2.5/24" } });
    for from in SpecVersion::ALL {
        let expected = json!({ "cniVersion": "1.0.0", "ips": [{ "address": "192.0.2.5/24" }] });
        pairs.check(&format!("0.2.0 to a {from} request"), &input, from.as_str(), "1.0.0", Some(&expected));
    }
    pairs.finish(7);
}
