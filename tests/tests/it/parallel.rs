//! `"parallel": true`: the delegates of secondary attachments run side by side after the primary's.

use catena_tests::conf::{self, Family, Stack, asking, gateway};
use catena_tests::runtime::Pod;
use catena_tests::scripted;
use catena_tests::state::Traces;
use catena_tests::world::{CATENACTL, World};
use serde_json::{Value, json};

use crate::modules::install;

const SECONDARIES: u8 = 8;

/// A delegate that makes a link of network `n` and waits until all eight secondaries have started, which one after
/// the other they never would. The primary must have ended.
fn waiting(n: u8) -> Value {
    let mut conf = scripted::veth(&format!("wait{n}"), n, Stack::V4, false);
    let meet = "test -e /run/together/primary\n\
        touch /run/together/$CNI_IFNAME\n\
        started() { ls /run/together | grep -c '^net'; }\n\
        for i in $(seq 3000); do [ $(started) -lt 8 ] || break; sleep 0.01; done\n\
        [ $(started) = 8 ]\n";
    let make = conf["script"]["ADD"]["sh"].as_str().expect("a script").to_owned();
    conf["script"]["ADD"]["sh"] = json!(format!("{meet}{make}"));
    conf
}

fn primary() -> Value {
    let mut conf = scripted::veth("first", 99, Stack::V4, true);
    let make = conf["script"]["ADD"]["sh"].as_str().expect("a script").to_owned();
    conf["script"]["ADD"]["sh"] =
        json!(format!("[ $(ls /run/together | wc -l) = 0 ]\n{make}touch /run/together/primary\n"));
    conf
}

fn parallel(delegates: Value) -> Value {
    let mut outer = conf::catena(delegates);
    outer["parallel"] = json!(true);
    outer
}

#[test]
fn secondaries_run_side_by_side_and_answer_in_order() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    world.sh("mkdir /run/together");
    let before = Traces::of(&world, Some(&pod.netns));
    let mut delegates = vec![primary()];
    for n in 1..=SECONDARIES {
        let config = waiting(n);
        let asked = gateway(n, Family::V4);
        delegates.push(if n == 5 { asking(&config, &[&asked]) } else { config });
    }
    let outer = parallel(json!(delegates));
    let result = pod.add(&outer).result();
    assert_eq!(result["ips"][0]["address"], "10.90.99.9/24", "the answer is the primary's: {result}");

    let status = pod.status("outer");
    let order: Vec<&str> = status.iter().filter_map(|element| element["interface"].as_str()).collect();
    assert_eq!(order, ["eth0", "net1", "net2", "net3", "net4", "net5", "net6", "net7", "net8"]);
    for (n, element) in status.iter().enumerate().skip(1) {
        assert_eq!(element["ips"], json!([format!("10.90.{n}.9")]));
    }
    // The pipelines have worked each on its own link: the fifth asked for the default route.
    let routes = world.ip(Some(&pod.netns), "route show default");
    assert_eq!(routes.len(), 1, "{routes:?}");
    assert_eq!((&routes[0]["dev"], &routes[0]["gateway"]), (&json!("net5"), &json!("10.90.5.1")));
    pod.check(&outer, &result).done();

    pod.del(&outer, Some(&result)).done();
    let dels: Vec<String> =
        scripted::call_lines(&world).into_iter().filter(|line| line.starts_with("DEL")).collect();
    assert_eq!(dels.first().map(String::as_str), Some("DEL wait8 net8"), "{dels:?}");
    assert_eq!(dels.len(), 9);
    world.sh("rm -r /run/together; mkdir /run/together");
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after DEL");
}

#[test]
fn one_that_fails_undoes_all() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    let mut broken = scripted::veth("broken", 2, Stack::V4, false);
    let fail = r#"echo '{"cniVersion":"1.0.0","code":123,"msg":"no room on this shelf"}'; exit 1"#;
    broken["script"]["ADD"]["sh"] = json!(scripted::veth_script(2, Stack::V4) + fail);
    let outer = parallel(json!([
        scripted::veth("first", 99, Stack::V4, true),
        scripted::veth("one", 1, Stack::V4, false),
        broken,
        {"cniVersion": conf::VERSION, "name": "absent", "type": "no-such-plugin"},
        scripted::veth("four", 4, Stack::V4, false),
    ]));
    let failure = pod.add(&outer).failure();
    assert_eq!(failure.code, 123, "the first in order: {}", failure.text());
    for word in ["no room on this shelf", "broken", "no-such-plugin"] {
        assert!(failure.text().contains(word), "{word}: {}", failure.text());
    }
    let calls = scripted::call_lines(&world);
    for line in ["ADD one net1", "ADD broken net2", "ADD four net4"] {
        assert!(calls.iter().any(|call| call == line), "{line}: {calls:?}");
    }
    let dels: Vec<&String> = calls.iter().filter(|line| line.starts_with("DEL")).collect();
    assert_eq!(dels, ["DEL four net4", "DEL broken net2", "DEL one net1", "DEL first eth0"]);
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after a failed ADD");
}

#[test]
fn two_configured_default_routes_are_refused_before_anything_runs() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    let delegates = json!([
        conf::ptp(1, Stack::V4),
        conf::bridge_with_default(2, Stack::V4),
        conf::bridge_with_default(3, Stack::Dual),
    ]);
    pod.add(&parallel(delegates.clone())).fails_with(7, &["bridge2", "bridge3", "ipv4", "parallel"]);
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after a refused ADD");
    let outer = conf::catena(delegates);
    let result = pod.add(&outer).result();
    pod.del(&outer, Some(&result)).done();
}

/// A stage that is asked before anything runs may give a second network the default route.
#[test]
fn a_default_route_that_a_stage_writes_into_a_config_is_refused_before_anything_runs() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let routes = "/plugins/0/ipam/routes";
    install(&world, "routed", "probe", &[&format!("config=[\"{routes}\"]")]);
    let before = Traces::of(&world, Some(&pod.netns));
    let mut quiet = conf::bridge(3, Stack::Dual);
    quiet["ipam"]["routes"] = json!([]);
    let with_default = |n: u8| conf::bridge_with_default(n, Stack::Dual);
    let mut first = scripted::veth("first", 1, Stack::Dual, true);
    first["ipam"] = json!({"routes": []});
    let mut outer = parallel(json!([first, with_default(2), quiet]));
    let written = &with_default(3)["ipam"]["routes"];
    outer["pipeline"] = conf::pipeline(json!({}));
    let stages = outer["pipeline"].as_array_mut().expect("a list");
    stages.push(json!({"stage": "routed", "config": {"rewrite": {routes: written}}}));

    let rivals =
        "delegates[1] (bridge2) by ipam.routes, delegates[2] (bridge3, rewritten by a stage) by ipam.routes";
    let words = ["parallel", &format!("ipv4: {rivals}; "), &format!("ipv6: {rivals}; ")];
    pod.add(&outer).fails_with(7, &words);
    assert_eq!(scripted::call_lines(&world), [""; 0]);
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after a refused ADD");
    world.write("/tmp/fixture.json", json!({"conf": outer}).to_string());
    let rehearsed = world.run(CATENACTL, &["run", "/tmp/fixture.json", "--json"]);
    assert!(rehearsed.exit == Some(1) && rehearsed.stdout.contains(rivals), "{rehearsed:?}");

    outer["parallel"] = json!(false);
    let result = pod.add(&outer).result();
    pod.del(&outer, Some(&result)).done();
}

/// That is refused with all delegates' configs, in parallel too; where no stage does it, by the host.
#[test]
fn two_secondaries_that_ask_for_the_default_route() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    let secondary =
        |n: u8| asking(&scripted::veth(&format!("ask{n}"), n, Stack::V4, false), &[&gateway(n, Family::V4)]);
    let mut outer =
        parallel(json!([scripted::veth("first", 1, Stack::V4, true), secondary(2), secondary(3)]));
    pod.add(&outer).fails_with(7, &["ask2", "ask3", "IPv4", "only one attachment can own it"]);
    assert_eq!(scripted::call_lines(&world), [""; 0]);
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after a refused ADD");

    outer["pipeline"] = json!([{"stage": "result-conversion"}]);
    pod.add(&outer).fails_with(107, &["ask2", "ask3"]);
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after a failed ADD");
}

/// ptp without a default route.
fn ptp_quiet(n: u8) -> Value {
    let mut conf = conf::ptp(n, Stack::V4);
    conf["ipam"] = conf::host_local(n, Stack::V4, false);
    conf
}

#[test]
fn real_plugins_side_by_side() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let outer = parallel(json!([
        conf::ptp(1, Stack::Dual),
        conf::bridge(2, Stack::Dual),
        ptp_quiet(3),
        conf::bridge(4, Stack::V4),
    ]));
    let result = pod.add(&outer).result();
    pod.check(&outer, &result).done();
    let links = world.ip(Some(&pod.netns), "link show");
    let names: Vec<&str> = links.iter().filter_map(|link| link["ifname"].as_str()).collect();
    for name in ["eth0", "net1", "net2", "net3"] {
        assert!(names.contains(&name), "{names:?}");
    }
    pod.del(&outer, Some(&result)).done();
}
