//! Containers as podman makes them with its CNI backend.

use catena_runtime_tests::IMAGE;
use catena_runtime_tests::podman::{Host, network};
use catena_runtime_tests::traffic::{self, FAR};
use catena_tests::conf::{self, Family, Stack, asking, gateway};
use catena_tests::scripted;
use catena_tests::state::{self, Traces, via};
use serde_json::json;

fn host() -> Host {
    Host::new(&[
        network(
            "first",
            json!([
                conf::ptp(1, Stack::V4),
                asking(&conf::bridge_with_default(2, Stack::V4), &[&gateway(2, Family::V4)])
            ]),
        ),
        network("second", json!([conf::bridge(3, Stack::V4)])),
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
    host.world.sh("kill $(pidof python3); ip addr del 198.51.100.7/32 dev lo");
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
