//! A result in any version from a delegate, asked for in any other.

use catena_cni::json::Value;
use catena_cni::result;
use catena_cni::version::SpecVersion;
use catena_tests::conf;
use catena_tests::runtime::Pod;
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

    /// A delegate of the version `from` answers `input`, asked for is `to`. `expected` is what reaches the runtime, or
    /// words of the error.
    fn check(&mut self, id: &str, input: &Value, from: &str, to: &str, expected: Result<&Value, &str>) {
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
            Ok(expected) => {
                assert_eq!(reply.result(), *expected, "{id}: {input}");
                pod.del(&outer, None).done();
            }
            Err(words) => {
                reply.fails_with(1, &[words, to]);
                let undone: Vec<&Value> = asked.iter().filter(|call| call["command"] == "DEL").collect();
                assert_eq!(undone.len(), 1, "{id}: it is undone");
            }
        }
        let left = self.world.files("/var/lib");
        assert!(left.is_empty(), "{id}: left behind: {:?}", left.keys());
    }
}

/// Members that the reference carries from 0.1.0 or 0.2.0 to the same format although the format does not have them;
/// here every result is 1.1.0 on its way (design.md 4), and going down from there leaves them out (cni.md c.4).
fn without_extra_route_members(output: &Value, from: &str, to: &str) -> Value {
    let old = |version: &str| version < "0.3.0";
    let mut output = output.clone();
    if old(from) && old(to) {
        for block in ["/ip4/routes", "/ip6/routes"] {
            for route in output.pointer_mut(block).and_then(Value::as_array_mut).into_iter().flatten() {
                route.as_object_mut().expect("a route").retain(|member, _| member == "dst" || member == "gw");
            }
        }
    }
    output
}

/// The reference's own answers for all pairs.
#[test]
fn of_the_vectors() {
    let mut pairs = Pairs::new();
    for case in vectors::cases("result-conversion") {
        let id = case["id"].as_str().expect("an id");
        if !id.contains("-to-") {
            continue;
        }
        let (from, to) = (
            case["input"]["cniVersion"].as_str().expect("a version"),
            case["target"].as_str().expect("a target"),
        );
        // The reference hands an empty 0.2.0 result on as it is.
        let has_no_address = case["output"].get("ip4").or(case["output"].get("ip6")).is_none();
        if case["expect"] == "error" || (to < "0.3.0" && has_no_address) {
            pairs.check(id, &case["input"], from, to, Err("no address"));
        } else {
            let expected = without_extra_route_members(&case["output"], from, to);
            pairs.check(id, &case["input"], from, to, Ok(&expected));
        }
    }
    pairs.finish(159);
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
                let expected = expected.as_ref().map_err(|_| "no address");
                pairs.check(&format!("{name} {from} to {to}"), &input, from.as_str(), to.as_str(), expected);
            }
        }
    }
    pairs.finish(3 * 49);
}

/// A delegate that answers in another known version than it was asked in.
#[test]
fn of_a_delegate_that_does_not_keep_to_its_version() {
    let mut pairs = Pairs::new();
    let input = json!({ "cniVersion": "0.2.0", "ip4": { "ip": "192.0.2.5/24" } });
    for from in SpecVersion::ALL {
        let expected = json!({ "cniVersion": "1.0.0", "ips": [{ "address": "192.0.2.5/24" }] });
        pairs.check(&format!("0.2.0 to a {from} request"), &input, from.as_str(), "1.0.0", Ok(&expected));
    }
    pairs.finish(7);
}
