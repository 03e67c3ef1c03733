//! Containers as podman makes them with its CNI backend.

use catena_runtime_tests::IMAGE;
use catena_runtime_tests::podman::{Host, network};
use catena_runtime_tests::traffic::{self, FAR};
use catena_tests::conf::{self, Family, Stack, asking, gateway};
use catena_tests::runtime::{Pod, gc_conf, with_previous};
use catena_tests::scripted;
use catena_tests::state::{self, Traces, via};
use catena_tests::world::{CATENACTL, OWN_BIN, Output, STAGES};
use serde_json::{Value, json};

fn host() -> Host {
    Host::new(&[
        network(
            "first",
            json!([
                conf::ptp(1, Stack::V4),
                asking(&conf::bridge_with_default(2, Stack::V4), &[&gateway(2, Family::V4)])
            ]),
        ),
        network("one", json!([conf::ptp(6, Stack::V4)])),
        network("second", json!([conf::bridge(3, Stack::V4)])),
        network("empty", json!([conf::ptp(5, Stack::V4), scripted::prints("nothing", "{}")])),
        network(
            "broken",
            json!([
                conf::ptp(4, Stack::V4),
                scripted::conf(
                    "last",
                    json!({"ADD": {"result": {"cniVersion": "1.0.0", "code": 77, "msg": "no luck today"}, "exit": 1}})
                )
            ]),
        ),
    ])
}

fn traces(host: &Host) -> Traces {
    let all = Traces::of(&host.world, None).0;
    let own = ["podman", "containers", "libpod", "/run/lock", "/run/crun", "/run/runc", "/var/tmp"];
    Traces(all.into_iter().filter(|line| !own.iter().any(|word| line.contains(word))).collect())
}

fn netns(host: &Host, container: &str) -> String {
    host.must(&["inspect", "-f", "{{.NetworkSettings.SandboxKey}}", container]).trim().to_owned()
}

#[test]
fn a_container_with_two_networks_of_catena() {
    let host = host();
    let name = "pair";
    // Podman names interfaces in whatever order it walks its networks, so they are named here.
    let networks = ["--network", "first:interface_name=eth0", "--network", "second:interface_name=eth1"];
    let start = [&["run", "-d", "--name", name][..], &networks, &[IMAGE]].concat();
    host.must(&start);
    host.must(&["rm", "-f", "-t", "0", name]);
    let before = traces(&host);
    traffic::serve(&host.world);
    host.must(&start);
    let netns = netns(&host, name);
    assert_eq!(state::defaults(&host.world, &netns, Family::V4), [via(&gateway(2, Family::V4), "net1", 0)]);
    assert_eq!(state::links(&host.world, Some(&netns)), ["eth0", "eth1", "net1"]);
    for (to, from) in [
        (gateway(1, Family::V4), "10.90.1."),
        (gateway(2, Family::V4), "10.90.2."),
        (gateway(3, Family::V4), "10.90.3."),
        (FAR.to_owned(), "10.90.2."),
    ] {
        let source = traffic::source(&host.world, &netns, &to);
        assert!(source.starts_with(from), "{to} was reached from {source}");
    }
    host.must(&["network", "disconnect", "second", name]);
    assert_eq!(state::links(&host.world, Some(&netns)), ["eth0", "net1"]);
    host.must(&["rm", "-f", "-t", "0", name]);
    traffic::end(&host.world);
    traces(&host).same_as(&before, "after the container");
}

#[test]
fn a_delegate_that_fails() {
    let host = host();
    let start = ["run", "--rm", "--name", "bad", "--network", "broken", IMAGE];
    let refused = || {
        let output = host.podman(&start);
        assert!(output.exit != Some(0), "{output:?}");
        assert!(output.stderr.contains("no luck today"), "{}", output.stderr);
        host.podman(&["rm", "-f", "bad"]);
    };
    refused();
    let before = traces(&host);
    refused();
    traces(&host).same_as(&before, "after a container that failed");
}

/// Starts a container with its first interface in a network.
fn start(host: &Host, name: &str, network: &str) -> Output {
    host.podman(&["run", "-d", "--name", name, "--network", &format!("{network}:interface_name=eth0"), IMAGE])
}

/// What is there after a life in the network that nothing disturbed.
fn after_a_life(host: &Host, network: &str) -> Traces {
    let output = start(host, "undisturbed", network);
    assert!(output.exit == Some(0), "{output:?}");
    host.must(&["rm", "-f", "-t", "0", "undisturbed"]);
    traces(host)
}

/// The networks of `first` in a container: each one's own hosts through it, and all others through the second.
fn flows(host: &Host, container: &str) {
    let netns = netns(host, container);
    for (to, from) in [
        (gateway(1, Family::V4).as_str(), "10.90.1."),
        (&gateway(2, Family::V4), "10.90.2."),
        (FAR, "10.90.2."),
    ] {
        let source = traffic::source(&host.world, &netns, to);
        assert!(source.starts_with(from), "{to} was reached from {source}");
    }
}

/// CHECK, which podman never sends, of a container in `first`: with the result that libcni has cached.
fn check(host: &Host, container: &str) {
    let id = host.must(&["inspect", "-f", "{{.Id}}", container]).trim().to_owned();
    let cached: Value =
        serde_json::from_str(&host.world.read(&format!("/var/lib/cni/results/first-{id}-eth0")))
            .expect("libcni's cache");
    let pod = Pod {
        id,
        netns: netns(host, container),
        path: OWN_BIN.to_owned(),
        ..Pod::existing(&host.world, container)
    };
    let list: Value =
        serde_json::from_str(&host.world.read("/etc/cni/net.d/first.conflist")).expect("a list");
    let mut outer = list["plugins"][0].clone();
    outer["name"] = json!("first");
    outer["cniVersion"] = json!("1.0.0");
    pod.call("catena", "CHECK", &with_previous(&outer, Some(&cached["result"]))).done();
}

/// What is on the host but for the modules that were installed.
fn without_modules(mut traces: Traces) -> Traces {
    traces.0.retain(|line| !line.starts_with("file /var/lib/catena/modules/"));
    traces
}

fn install_deny(host: &Host, name: &str) {
    let file = format!("{STAGES}/deny.wasm");
    let output = host.world.run(CATENACTL, &["install", name, &file, "--grant", "log=true"]);
    assert!(output.exit == Some(0), "catenactl install: {}{}", output.stdout, output.stderr);
}

#[test]
fn it_is_the_version_that_has_the_cni_backend() {
    let version = host().must(&["--version"]);
    assert!(version.contains("version 4.3."), "{version}");
}

#[test]
fn one_network() {
    let host = host();
    let before = after_a_life(&host, "one");
    traffic::serve(&host.world);
    assert_eq!(start(&host, "single", "one").exit, Some(0));
    let netns = netns(&host, "single");
    assert_eq!(state::links(&host.world, Some(&netns)), ["eth0"]);
    for to in [gateway(6, Family::V4).as_str(), FAR] {
        let source = traffic::source(&host.world, &netns, to);
        assert!(source.starts_with("10.90.6."), "{to} was reached from {source}");
    }
    host.must(&["rm", "-f", "-t", "0", "single"]);
    traffic::end(&host.world);
    traces(&host).same_as(&before, "after the container");
}

#[test]
fn denied_by_a_stage() {
    let host = host();
    let before = without_modules(after_a_life(&host, "one"));
    install_deny(&host, "result-conversion");
    let refused = start(&host, "denied", "one");
    assert!(refused.exit != Some(0) && refused.stderr.contains("denied"), "{refused:?}");
    host.podman(&["rm", "-f", "-t", "0", "denied"]);
    without_modules(traces(&host)).same_as(&before, "after a container that was denied");
}

#[test]
fn an_empty_result() {
    let host = host();
    let before = after_a_life(&host, "empty");
    assert_eq!(start(&host, "empty", "empty").exit, Some(0));
    assert_eq!(state::links(&host.world, Some(&netns(&host, "empty"))), ["eth0"]);
    host.must(&["rm", "-f", "-t", "0", "empty"]);
    traces(&host).same_as(&before, "after the container");
}

#[test]
fn a_container_that_is_killed() {
    let host = host();
    let before = after_a_life(&host, "first");
    assert_eq!(start(&host, "killed", "first").exit, Some(0));
    host.world.sh("kill -9 $(pidof busybox || pidof sleep)");
    host.must(&["rm", "-f", "-t", "0", "killed"]);
    traces(&host).same_as(&before, "after the container");
}

/// Podman sends no DEL for it, so only GC can take away what is left.
#[test]
fn a_namespace_that_has_gone() {
    let host = host();
    let before = after_a_life(&host, "first");
    assert_eq!(start(&host, "gone", "first").exit, Some(0));
    let netns = netns(&host, "gone");
    host.world.sh(&format!("kill -9 $(pidof busybox || pidof sleep); umount -l {netns}; rm -f {netns}"));
    host.must(&["rm", "-f", "-t", "0", "gone"]);
    let list: Value =
        serde_json::from_str(&host.world.read("/etc/cni/net.d/first.conflist")).expect("a list");
    let mut conf = list["plugins"][0].clone();
    conf["name"] = json!("first");
    conf["cniVersion"] = json!("1.1.0");
    Pod::existing(&host.world, "gone").call("catena", "GC", &gc_conf(&conf, &[])).done();
    let start = std::time::Instant::now();
    let ours = || {
        let cached = |line: &String| line.starts_with("file /var/lib/cni/results/");
        Traces(traces(&host).0.into_iter().filter(|line| !cached(line)).collect())
    };
    // The kernel takes the namespace apart in the background.
    while ours() != before && start.elapsed().as_secs() < 10 {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    ours().same_as(&before, "after GC");
}

#[test]
fn the_config_changes_while_a_container_lives() {
    let host = host();
    let before = after_a_life(&host, "first");
    traffic::serve(&host.world);
    assert_eq!(start(&host, "old", "first").exit, Some(0));
    let other = network("first", json!([conf::bridge(3, Stack::V4)]));
    host.world.write("/etc/cni/net.d/first.conflist", other.to_string());
    assert_eq!(start(&host, "new", "first").exit, Some(0));
    assert_eq!(state::links(&host.world, Some(&netns(&host, "new"))), ["eth0"]);
    flows(&host, "old");
    check(&host, "old");
    host.must(&["rm", "-f", "-t", "0", "old"]);
    host.must(&["rm", "-f", "-t", "0", "new"]);
    traffic::end(&host.world);
    // What the new delegates keep for ever: the bridge, and host-local's last address.
    let kept = |line: &String| line.contains("br3") || line.contains("/bridge3/");
    let left = Traces(traces(&host).0.into_iter().filter(|line| !kept(line)).collect());
    left.same_as(&before, "after both containers");
}

#[test]
fn a_module_is_swapped_while_a_container_lives() {
    let host = host();
    let before = without_modules(after_a_life(&host, "first"));
    traffic::serve(&host.world);
    assert_eq!(start(&host, "old", "first").exit, Some(0));
    install_deny(&host, "default-gateway");
    let refused = start(&host, "new", "first");
    assert!(refused.exit != Some(0) && refused.stderr.contains("denied"), "{refused:?}");
    host.podman(&["rm", "-f", "-t", "0", "new"]);
    check(&host, "old");
    flows(&host, "old");
    let netns = netns(&host, "old");
    assert_eq!(state::defaults(&host.world, &netns, Family::V4), [via(&gateway(2, Family::V4), "net1", 0)]);
    host.must(&["rm", "-f", "-t", "0", "old"]);
    traffic::end(&host.world);
    without_modules(traces(&host)).same_as(&before, "after both containers");
}
