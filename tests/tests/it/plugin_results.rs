//! What real plugins print for each version (tests/vectors/plugin-results-by-version.json): Debian's are run, the newer
//! ones, which Debian does not have, are played by the scripted delegate.

use catena_tests::conf;
use catena_tests::runtime::Pod;
use catena_tests::score::Score;
use catena_tests::scripted;
use catena_tests::vectors::{self, Case};
use catena_tests::world::World;
use serde_json::{Value, json};

/// The config that was recorded, in the request's version.
fn config(kind: &str, version: &Value) -> Value {
    let ipam = json!({
        "type": "host-local", "ranges": [[{ "subnet": "192.0.2.0/24" }], [{ "subnet": "2001:db8:1::/64" }]],
        "routes": [{ "dst": "0.0.0.0/0" }, { "dst": "::/0" }],
    });
    let mut config = json!({ "name": format!("of-{kind}"), "type": kind, "ipam": ipam });
    if !version.is_null() {
        config["cniVersion"] = version.clone();
    }
    match kind {
        "bridge" => {
            config["bridge"] = json!("vbr0");
            config["isDefaultGateway"] = json!(true);
            config["ipam"].as_object_mut().expect("ipam").remove("routes");
        }
        "macvlan" => config["master"] = json!("vm0"),
        _ => {}
    }
    if kind != "host-local" {
        config["dns"] = json!({ "nameservers": ["192.0.2.53"] });
    }
    config
}

/// The result, the version that it is asked for in, and whether the reference has another answer.
fn expected(case: &Value) -> (Option<Value>, String, bool) {
    let asked = case["request_version"].as_str().unwrap_or("0.1.0").to_owned();
    let debian = case["plugins"] == "debian-1.1.1";
    match case.get("result") {
        Some(result) => (Some(result.clone()), asked, false),
        // Debian's plugins do not know these versions, and say so. They are asked again in the newest that they list
        // (cni.md k.1), and the answer is in a version that catena speaks.
        None if debian => {
            let same_but_older = |other: &Value| {
                other["plugins"] == case["plugins"]
                    && other["type"] == case["type"]
                    && other["request_version"] == "1.0.0"
            };
            let cases = vectors::cases("plugin-results-by-version");
            let older = cases.iter().find(|other| same_but_older(other)).expect("a case of 1.0.0");
            let mut result = older["result"].clone();
            result["cniVersion"] = json!("1.1.0");
            (Some(result), "1.1.0".to_owned(), true)
        }
        None => (None, "1.1.0".to_owned(), false),
    }
}

fn judge(world: &World, case: &Value, number: usize) -> Result<bool, String> {
    let kind = case["type"].as_str().expect("a type");
    let debian = case["plugins"] == "debian-1.1.1";
    let (expected, asked, on_purpose) = expected(case);
    let mut delegate = config(kind, &case["request_version"]);
    if !debian {
        delegate["type"] = json!("scripted");
        let answer = match &expected {
            Some(result) => json!({ "result": result }),
            None => json!({ "result": { "code": 1, "msg": "incompatible CNI versions" }, "exit": 1 }),
        };
        scripted::change(world, &format!("of-{kind}"), &json!({ "ADD": answer }));
    }
    let mut pod = Pod::new(world, &format!("p{number}"));
    if debian {
        // The recorded results name this namespace.
        world.sh(&format!("ip netns del p{number}"));
        pod.netns = world.pod(vectors::POD);
    }
    let mut outer = conf::catena(json!([delegate]));
    outer["cniVersion"] = json!(asked);
    let reply = pod.add(&outer);
    let outcome = match &expected {
        None => {
            reply.fails_with(1, &["incompatible CNI versions"]);
            Ok(on_purpose)
        }
        Some(expected) => {
            let result = reply.result();
            pod.del(&outer, None).done();
            match vectors::same_result(&result, expected) {
                true => Ok(on_purpose),
                false => Err(format!("{result}\n    recorded: {expected}")),
            }
        }
    };
    let name = pod.netns.rsplit('/').next().unwrap_or_default();
    world.sh(&format!("ip netns del {name}; rm -rf /var/lib/cni /run/scripted"));
    outcome
}

#[test]
fn results_of_real_plugins_come_through() {
    let world = World::new();
    Case::prepare(&world);
    let mut score = Score::of("plugin-results-by-version");
    for (number, case) in vectors::cases("plugin-results-by-version").iter().enumerate() {
        let outcome = judge(&world, case, number);
        let text = |name: &str| case[name].as_str().unwrap_or("-").to_owned();
        let id = format!("{number} {} {}", text("type"), text("request_version"));
        score.add(&id, outcome == Ok(true), outcome.map(|_| ()));
    }
    score.finish();
}
