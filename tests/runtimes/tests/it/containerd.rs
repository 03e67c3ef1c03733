//! Pods as the kubelet makes them with containerd.

use catena_runtime_tests::containerd::Node;
use catena_runtime_tests::cri::Sandbox;
use catena_runtime_tests::traffic::{self, FAR, FAR_V6};
use catena_tests::conf::{self, Family, Stack, asking, gateway, host};
use catena_tests::runtime::{Pod, with_previous};
use catena_tests::scripted;
use catena_tests::state::{self, Traces, via};
use catena_tests::world::{CATENACTL, OWN_BIN, STAGES};
use serde_json::{Value, json};

fn two_networks() -> Value {
    json!([
        conf::ptp(1, Stack::V4),
        asking(&conf::bridge_with_default(2, Stack::V4), &[&gateway(2, Family::V4)])
    ])
}

fn run(node: &Node, name: &str) -> Sandbox {
    node.cri.run(name).unwrap_or_else(|error| panic!("{error}"))
}

/// A life before the one that is looked at, for what delegates keep for ever.
fn first_life(node: &Node) {
    let sandbox = run(node, "first");
    node.end(&sandbox.id);
}

/// Each of the two networks' own hosts is reached through it, and all others through the one that was asked for.
fn flows(node: &Node, netns: &str) {
    for (to, from) in [
        (gateway(1, Family::V4).as_str(), "10.90.1."),
        (&gateway(2, Family::V4), "10.90.2."),
        (FAR, "10.90.2."),
    ] {
        let source = traffic::source(&node.world, netns, to);
        assert!(source.starts_with(from), "{to} was reached from {source}");
    }
}

/// CHECK, which containerd never sends: as other runtimes do, with the result that libcni has cached.
fn check(node: &Node, sandbox: &Sandbox) {
    let cached: Value =
        serde_json::from_str(&node.world.read(&format!("/var/lib/cni/results/pods-{}-eth0", sandbox.id)))
            .expect("libcni's cache");
    let pod = Pod {
        id: sandbox.id.clone(),
        netns: sandbox.netns.clone(),
        path: OWN_BIN.to_owned(),
        ..Pod::existing(&node.world, "x")
    };
    let mut outer = conf::catena(two_networks());
    outer["name"] = json!("pods");
    pod.call("catena", "CHECK", &with_previous(&outer, Some(&cached["result"]))).done();
}

/// RunPodSandbox must fail with these words, and nothing may be left.
fn refused(node: &Node, words: &[&str]) {
    let before = node.traces();
    let error = node.cri.run("refused").expect_err("a pod that should have failed");
    for word in words {
        assert!(error.contains(word), "no {word:?} in: {error}");
    }
    node.traces().same_as(&before, "after a pod that failed");
}

#[test]
fn it_is_the_version_that_kubelets_of_old_nodes_have() {
    let node = Node::new(&json!([]));
    let version = node.world.sh("containerd --version");
    assert!(version.contains(" 1.6."), "{version}");
}

#[test]
fn one_network() {
    let node = Node::new(&json!([conf::ptp(1, Stack::V4)]));
    first_life(&node);
    let before = node.traces();
    traffic::serve(&node.world);
    let sandbox = run(&node, "one");
    assert_eq!(
        sandbox.ip,
        state::addresses(&node.world, Some(&sandbox.netns)).first().map_or_else(String::new, |line| line
            .trim_start_matches("eth0 ")
            .trim_end_matches("/24")
            .to_owned())
    );
    for to in [gateway(1, Family::V4).as_str(), FAR] {
        assert_eq!(traffic::source(&node.world, &sandbox.netns, to), sandbox.ip);
    }
    node.end(&sandbox.id);
    traffic::end(&node.world);
    node.traces().same_as(&before, "after the pod");
}

#[test]
fn several_networks_and_an_override() {
    let node = Node::new(&two_networks());
    first_life(&node);
    let before = node.traces();
    traffic::serve(&node.world);
    let sandbox = run(&node, "two");
    let netns = sandbox.netns.as_str();
    assert_eq!(state::defaults(&node.world, netns, Family::V4), [via(&gateway(2, Family::V4), "net1", 0)]);
    assert!(sandbox.ip.starts_with("10.90.1."), "the pod's address is the primary's: {sandbox:?}");
    flows(&node, netns);
    node.end(&sandbox.id);
    traffic::end(&node.world);
    node.traces().same_as(&before, "after the pod");
}

#[test]
fn two_families() {
    let asked = Family::ALL.map(|family| gateway(2, family));
    let node = Node::new(&json!([
        conf::ptp(1, Stack::Dual),
        asking(&conf::bridge_with_default(2, Stack::Dual), &[&asked[0], &asked[1]])
    ]));
    first_life(&node);
    let before = node.traces();
    traffic::serve(&node.world);
    let sandbox = run(&node, "dual");
    let netns = sandbox.netns.as_str();
    for family in Family::ALL {
        let owner = via(&gateway(2, family), "net1", family.metric());
        assert_eq!(state::defaults(&node.world, netns, family), [owner]);
    }
    flows(&node, netns);
    let through = |to: &str| traffic::source(&node.world, netns, to);
    assert!(through(&gateway(1, Family::V6)).starts_with("fd00:90:1::"));
    assert!(through(&gateway(2, Family::V6)).starts_with("fd00:90:2::"));
    assert!(through(FAR_V6).starts_with("fd00:90:2::"));
    node.end(&sandbox.id);
    traffic::end(&node.world);
    node.traces().same_as(&before, "after the pod");
}

#[test]
fn an_empty_result() {
    let node = Node::new(&json!([conf::ptp(1, Stack::V4), scripted::prints("nothing", "{}")]));
    first_life(&node);
    let before = node.traces();
    let sandbox = run(&node, "empty");
    assert!(sandbox.ip.starts_with("10.90.1."));
    node.end(&sandbox.id);
    node.traces().same_as(&before, "after the pod");
}

#[test]
fn denied_by_a_stage() {
    let node = Node::new(&json!([conf::ptp(1, Stack::V4)]));
    first_life(&node);
    install(&node, "result-conversion", "deny");
    refused(&node, &["catena", "denied"]);
}

#[test]
fn a_delegate_that_fails() {
    let fails = scripted::conf(
        "last",
        json!({"ADD": {"result": {"cniVersion": "1.0.0", "code": 77, "msg": "no luck today"}, "exit": 1}}),
    );
    let node = Node::new(&json!([conf::ptp(1, Stack::V4), conf::bridge(2, Stack::V4)]));
    first_life(&node);
    node.configure(&json!([conf::ptp(1, Stack::V4), conf::bridge(2, Stack::V4), fails]));
    std::thread::sleep(std::time::Duration::from_millis(500));
    refused(&node, &["no luck today", "scripted", "net2"]);
}

#[test]
fn a_sandbox_that_is_killed() {
    let node = Node::new(&two_networks());
    first_life(&node);
    let before = node.traces();
    let sandbox = run(&node, "killed");
    node.world.sh("kill -9 $(pidof busybox || pidof sleep)");
    // The kubelet stops a pod again and again; each time there is a DEL, the later ones without a namespace.
    for _ in 0..2 {
        node.cri.stop(&sandbox.id).unwrap_or_else(|error| panic!("{error}"));
    }
    node.end(&sandbox.id);
    node.traces().same_as(&before, "after the pod");
}

#[test]
fn a_namespace_that_has_gone() {
    let node = Node::new(&two_networks());
    first_life(&node);
    let before = node.traces();
    let sandbox = run(&node, "gone");
    node.world
        .sh(&format!("kill -9 $(pidof busybox || pidof sleep); umount -l {0}; rm -f {0}", sandbox.netns));
    node.end(&sandbox.id);
    let start = std::time::Instant::now();
    // The kernel takes the namespace apart in the background.
    while node.traces() != before && start.elapsed().as_secs() < 10 {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    node.traces().same_as(&before, "after the pod");
}

#[test]
fn containerd_is_restarted() {
    let node = Node::new(&two_networks());
    first_life(&node);
    let before = node.traces();
    traffic::serve(&node.world);
    let sandbox = run(&node, "restarted");
    node.halt();
    node.start();
    flows(&node, &sandbox.netns);
    check(&node, &sandbox);
    node.end(&sandbox.id);
    traffic::end(&node.world);
    node.traces().same_as(&before, "after the pod");
}

#[test]
fn the_config_changes_while_a_pod_lives() {
    let node = Node::new(&two_networks());
    first_life(&node);
    let before = node.traces();
    traffic::serve(&node.world);
    let sandbox = run(&node, "old");
    node.configure(&json!([scripted::answers(
        "other",
        json!({"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "$CNI_NETNS"}],
            "ips": [{"address": "10.90.9.9/24", "interface": 0}]})
    )]));
    std::thread::sleep(std::time::Duration::from_millis(500));
    let newer = run(&node, "new");
    assert_eq!(newer.ip, host(9, Family::V4, 9));
    flows(&node, &sandbox.netns);
    check(&node, &sandbox);
    node.end(&sandbox.id);
    node.end(&newer.id);
    traffic::end(&node.world);
    node.traces().same_as(&before, "after both pods");
}

#[test]
fn a_module_is_swapped_while_a_pod_lives() {
    let node = Node::new(&two_networks());
    first_life(&node);
    let before = without_modules(&node);
    traffic::serve(&node.world);
    let sandbox = run(&node, "old");
    install(&node, "default-gateway", "deny");
    check(&node, &sandbox);
    refused(&node, &["denied"]);
    flows(&node, &sandbox.netns);
    node.end(&sandbox.id);
    traffic::end(&node.world);
    without_modules(&node).same_as(&before, "after the pod");
}

/// What is on the host but for the modules that were installed.
fn without_modules(node: &Node) -> Traces {
    let mut traces = node.traces();
    traces.0.retain(|line| !line.starts_with("file /var/lib/catena/modules/"));
    traces
}

fn install(node: &Node, name: &str, stage: &str) {
    let file = format!("{STAGES}/{stage}.wasm");
    let output = node.world.run(CATENACTL, &["install", name, &file, "--grant", "log=true"]);
    assert!(output.exit == Some(0), "catenactl install: {}{}", output.stdout, output.stderr);
}
