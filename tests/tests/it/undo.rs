//! What fails is undone: after a failed ADD all is as before it.

use catena_tests::conf::{self, Family, Stack, asking, gateway};
use catena_tests::pair::Twin;
use catena_tests::runtime::Pod;
use catena_tests::scripted;
use catena_tests::state::{Traces, defaults};
use catena_tests::world::World;
use serde_json::{Value, json};

/// ADD must fail with a route error that has the kernel's words, and leave no more than the delegates alone do.
fn refused(stack: Stack, asked: &[&str], words: &[&str]) {
    let ptp = conf::ptp(1, stack);
    let bridge = conf::bridge(2, stack);
    let twin = Twin::live(&[("eth0", &ptp), ("net1", &bridge)], false);
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let outer = conf::catena(json!([ptp, asking(&bridge, asked)]));
    pod.add(&outer).fails_with(108, words);
    Traces::of(&world, Some(&pod.netns)).same_as(&twin.after, "after a failed ADD");
    // What runtimes do after a failed ADD.
    pod.del(&outer, None).done();
    Traces::of(&world, Some(&pod.netns)).same_as(&twin.after, "after DEL");
}

#[test]
fn a_gateway_that_the_kernel_refuses_v4() {
    refused(Stack::V4, &["203.0.113.7"], &["203.0.113.7", "ENETUNREACH", "net1", "bridge2"]);
}

#[test]
fn a_gateway_that_the_kernel_refuses_v6() {
    refused(Stack::Dual, &["2001:db8:9::7"], &["2001:db8:9::7", "EHOSTUNREACH", "net1", "bridge2"]);
}

#[test]
fn one_of_two_gateways_refused_v4() {
    refused(Stack::V4, &["10.90.2.1", "203.0.113.7"], &["203.0.113.7", "ENETUNREACH"]);
}

#[test]
fn one_of_two_gateways_refused_v6() {
    refused(Stack::Dual, &["fd00:90:2::1", "2001:db8:9::7"], &["2001:db8:9::7", "EHOSTUNREACH"]);
}

#[test]
fn one_of_two_families_refused() {
    refused(Stack::Dual, &["10.90.2.1", "2001:db8:9::7"], &["2001:db8:9::7", "EHOSTUNREACH"]);
}

#[test]
fn a_link_that_is_reported_but_not_there() {
    for family in Family::ALL {
        let world = World::new();
        let pod = Pod::new(&world, "pod");
        let before = Traces::of(&world, Some(&pod.netns));
        let ghost = scripted::answers("ghost", scripted::veth_result(2, Stack::Dual, &[]));
        let outer = conf::catena(json!([
            scripted::veth("one", 1, Stack::Dual, true),
            asking(&ghost, &[&gateway(2, family)]),
        ]));
        let failure = pod.add(&outer).failure();
        assert!(failure.text().contains("net1"), "{}", failure.text());
        Traces::of(&world, Some(&pod.netns)).same_as(&before, "after a failed ADD");
    }
}

/// libcni's cache is written while the next delegate runs, or at the end.
#[test]
fn a_result_that_cannot_be_cached() {
    let delegate = |(index, name): (u8, &str)| scripted::veth(name, index, Stack::Dual, index == 1);
    let names = ["one", "two", "three"];
    for (name, ifname) in names.iter().zip(["eth0", "net1", "net2"]) {
        for parallel in [false, true] {
            let world = World::new();
            let pod = Pod::new(&world, "pod");
            let outer = || conf::catena((1..).zip(names).map(delegate).collect());
            let result = pod.add(&outer()).result();
            pod.del(&outer(), Some(&result)).done();
            let before = Traces::of(&world, Some(&pod.netns));
            let file = format!("{name}-id-pod-{ifname}");
            world.sh(&format!("ln -s /nowhere /var/lib/cni/catena/results/.{file}"));
            let mut side_by_side = outer();
            side_by_side["parallel"] = json!(parallel);
            pod.add(&side_by_side).fails_with(5, &["cache file", &file]);
            Traces::of(&world, Some(&pod.netns)).same_as(&before, "after a failed ADD");
            pod.del(&side_by_side, None).done();
        }
    }
}

/// It is known while the first plugin of the next list runs; nothing is started for nothing, and what failed first is
/// told first.
#[test]
fn a_result_that_cannot_be_cached_ends_the_list_that_runs() {
    for fails in [false, true] {
        let world = World::new();
        let pod = Pod::new(&world, "pod");
        let before = Traces::of(&world, Some(&pod.netns));
        let result = scripted::veth_result(2, Stack::V4, &[]);
        let first = match fails {
            false => json!({"type": "scripted", "script": {"ADD": {"result": result}}}),
            true => json!({"type": "scripted", "script": {"ADD": {"sh": "exit 3"}}}),
        };
        let list = json!({
            "cniVersion": conf::VERSION, "name": "two",
            "plugins": [first, {"type": "scripted", "script": {"ADD": {"sh": "touch /run/second-ran", "result": result}}}],
        });
        let outer = conf::catena(json!([scripted::veth("one", 1, Stack::Dual, true), list]));
        world.sh("mkdir -p /var/lib/cni/catena/results && ln -s /nowhere /var/lib/cni/catena/results/.one-id-pod-eth0");
        let failure = pod.add(&outer).fails_with(5, &["cache file", "one-id-pod-eth0"]);
        assert!(failure.text().contains(if fails { "exit" } else { "failed while" }), "{}", failure.text());
        assert!(!world.path("/run/second-ran").exists());
        Traces::of(&world, Some(&pod.netns)).same_as(&before, "after a failed ADD");
    }
}

#[test]
fn a_link_that_is_not_there_is_no_matter_where_nothing_is_asked() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let ghost = scripted::answers("ghost", scripted::veth_result(2, Stack::V4, &[]));
    let outer = conf::catena(json!([scripted::veth("one", 1, Stack::Dual, true), ghost]));
    let result = pod.add(&outer).result();
    let status = pod.status("outer");
    assert_eq!(status[1]["ips"], json!(["10.90.2.9"]), "{status:?}");
    pod.del(&outer, Some(&result)).done();
}

#[test]
fn a_namespace_that_is_not_there() {
    let world = World::new();
    let mut pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, None);
    let outer = conf::catena(json!([scripted::veth("one", 1, Stack::V4, true)]));
    pod.netns = "/run/netns/absent".into();
    pod.add(&outer).fails_with(8, &["/run/netns/absent"]);
    assert_eq!(scripted::call_lines(&world), Vec::<String>::new());
    world.write("/run/notanamespace", "");
    pod.netns = "/run/notanamespace".into();
    pod.add(&outer).fails_with(8, &["/run/notanamespace"]);
    pod.netns = "/proc/1/ns/net".into();
    pod.add(&outer).fails_with(8, &["/proc/1/ns/net"]);
    world.sh("rm /run/notanamespace");
    Traces::of(&world, None).same_as(&before, "after refused ADDs");
}

#[test]
fn a_namespace_that_vanishes_meanwhile() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, None);
    let mut second = scripted::veth("two", 2, Stack::V4, false);
    let sh = scripted::veth_script(2, Stack::V4) + "umount $CNI_NETNS; rm $CNI_NETNS\nfalse\n";
    second["script"]["ADD"]["sh"] = json!(sh);
    let outer = conf::catena(json!([conf::ptp(1, Stack::V4), second]));
    pod.add(&outer).failure();
    pod.without_netns().del(&outer, None).done();
    let left: Vec<String> = Traces::of(&world, None)
        .0
        .difference(&before.0)
        .filter(|line| !line.contains("/networks/ptp1/l"))
        .cloned()
        .collect();
    assert!(left.is_empty(), "{left:#?}");
}

#[test]
fn a_later_attachment_that_fails_undoes_the_earlier_ones() {
    for stack in Stack::ALL {
        let ptp = conf::ptp(1, stack);
        let bridge = conf::bridge(2, stack);
        let twin = Twin::live(&[("eth0", &ptp), ("net1", &bridge)], false);
        let world = World::new();
        let pod = Pod::new(&world, "pod");
        let asked: Vec<String> = stack.families().iter().map(|family| gateway(2, *family)).collect();
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        let last = scripted::conf(
            "last",
            json!({"ADD": {"sh": "echo '{\"cniVersion\":\"1.0.0\",\"code\":77,\"msg\":\"no luck\"}'; exit 1"}}),
        );
        let outer = conf::catena(json!([ptp, asking(&bridge, &asked), last]));
        pod.add(&outer).fails_with(77, &["no luck", "scripted", "net2"]);
        // The failing one is deleted too, and first.
        assert_eq!(scripted::call_lines(&world), ["ADD last net2", "DEL last net2"]);
        Traces::of(&world, Some(&pod.netns)).same_as(&twin.after, "after a failed ADD");
    }
}

#[test]
fn delegates_are_deleted_in_reverse_past_failures_and_the_entry_stays() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    let failing = |name: &str, n: u8| {
        let mut conf = scripted::veth(name, n, Stack::V4, false);
        conf["script"]["DEL"] =
            json!({"sh": "echo '{\"cniVersion\":\"1.0.0\",\"code\":5,\"msg\":\"thing not found\"}'; exit 1"});
        conf
    };
    let (one, two) = (scripted::veth("one", 1, Stack::V4, true), failing("two", 2));
    let outer = conf::catena(json!([one, two]));
    let result = pod.add(&outer).result();
    let failure = pod.del(&outer, Some(&result)).failure();
    assert!(!failure.text().contains("not found"), "go-cni would take this for success: {}", failure.text());
    let calls = scripted::call_lines(&world);
    assert!(calls.ends_with(&["DEL two net1".into(), "DEL one eth0".into()]), "both, in reverse: {calls:?}");
    // From the ledger, with the config as it was sent: what is on stdin now does not matter.
    scripted::change(&world, "two", &json!({"DEL": {"sh": scripted::delete_script(2)}}));
    let changed = conf::catena(json!([scripted::prints("other", "{}")]));
    pod.without_netns().del(&changed, None).done();
    let calls = scripted::call_lines(&world);
    assert_eq!(calls.iter().filter(|call| call.contains("other")).count(), 0, "{calls:?}");
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after the DEL that worked");
}

#[test]
fn a_lost_ledger_is_made_up_for_by_the_config() {
    let ptp = conf::ptp(1, Stack::V4);
    let twin = Twin::live(&[("eth0", &ptp)], false);
    for damage in [
        "find /var/lib/catena/state -type f -delete",
        "for f in $(find /var/lib/catena/state -type f); do echo '{' > $f; done",
    ] {
        let world = World::new();
        let pod = Pod::new(&world, "pod");
        let outer = conf::catena(json!([ptp]));
        let result = pod.add(&outer).result();
        world.sh(damage);
        pod.del(&outer, Some(&result)).done();
        Traces::of(&world, Some(&pod.netns)).same_as(&twin.after, damage);
    }
}

/// Without ledger and cache, what the ADD answered is only in the runtime's `prevResult`: it is the primary's.
#[test]
fn without_ledger_and_cache_the_primary_gets_the_runtimes_result() {
    for (lost, version) in
        [("/var/lib/catena/state /var/lib/cni", "1.0.0"), ("/var/lib/catena/state", "0.4.0")]
    {
        let world = World::new();
        let pod = Pod::new(&world, "pod");
        let before = Traces::of(&world, Some(&pod.netns));
        let mut one = scripted::veth("one", 1, Stack::V4, true);
        one["cniVersion"] = json!(version);
        let outer = conf::catena(json!([one, scripted::veth("two", 2, Stack::V4, false)]));
        let result = pod.add(&outer).result();
        world.sh(&format!("find {lost} -type f -delete"));
        let mut told = result.clone();
        told["dns"] = json!({"domain": "told.example"});
        pod.del(&outer, Some(&told)).done();
        let previous = |network: &str| {
            let calls = scripted::calls(&world);
            let del = calls.iter().find(|call| call["command"] == "DEL" && call["stdin"]["name"] == network);
            del.expect("a DEL")["stdin"]["prevResult"].clone()
        };
        let (one, two) = (previous("one"), previous("two"));
        assert_eq!(one["cniVersion"], version, "{one}");
        let is_lost = lost.contains("cni");
        assert_eq!(one["dns"]["domain"] == "told.example", is_lost, "the cache has the last word: {one}");
        assert_eq!(two.is_null(), is_lost, "what is told of the primary is nothing of another: {two}");
        Traces::of(&world, Some(&pod.netns)).same_as(&before, lost);
    }
}

/// A DEL that fails keeps what only stdin told, for the next.
#[test]
fn what_stdin_told_is_kept_for_the_next_try() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let outer = conf::catena(json!([scripted::conf("one", json!({}))]));
    let result = json!({"cniVersion": "1.0.0", "dns": {"domain": "told.example"}});
    scripted::change(&world, "one", &json!({"DEL": {"exit": 1, "result": {"code": 7, "msg": "no"}}}));
    pod.del(&outer, Some(&result)).fails_with(7, &["no"]);
    scripted::change(&world, "one", &json!({}));
    pod.del(&outer, None).done();
    let calls = scripted::calls(&world);
    let last = calls.last().expect("a call");
    assert_eq!((&last["command"], &last["stdin"]["prevResult"]), (&json!("DEL"), &result));
    assert_eq!(world.sh("find /var/lib/catena/state -type f"), "");
}

/// The path may lead elsewhere by the time that the stages run; the namespace that was opened is the pod's.
#[test]
fn the_namespace_is_opened_once() {
    for family in Family::ALL {
        let world = World::new();
        let (pod, other) = (Pod::new(&world, "pod"), Pod::new(&world, "other"));
        scripted_twin(&world, &other.netns);
        let untouched = Traces::of(&world, Some(&other.netns));
        let mut one = scripted::veth("one", 1, Stack::Dual, true);
        let sh = one["script"]["ADD"]["sh"].as_str().expect("a script").to_owned()
            + "ln -sfn /run/netns/other /run/netns/current\n";
        one["script"]["ADD"]["sh"] = json!(sh);
        let mut outer = conf::catena(json!([one]));
        outer["pipeline"] = conf::pipeline(json!({"filter": [family.name()]}));
        world.sh("ln -sfn /run/netns/pod /run/netns/current");
        let moving = Pod { netns: "/run/netns/current".into(), ..pod.clone() };
        moving.add(&outer).result();
        let traces = Traces::of(&world, Some(&other.netns));
        let strip = |traces: &Traces| {
            Traces(traces.0.iter().filter(|line| line.starts_with("pod ")).cloned().collect())
        };
        strip(&traces).same_as(&strip(&untouched), "the namespace that the path leads to now");
        assert_eq!(defaults(&world, &pod.netns, family), []);
        assert_eq!(defaults(&world, &pod.netns, family.other()).len(), 1);
        // DEL knows the namespace again, and that the other is none of its own.
        moving.del(&outer, None).done();
        strip(&Traces::of(&world, Some(&other.netns))).same_as(&strip(&untouched), "after DEL");
    }
}

/// A link eth0 with default routes of both families, as a pod has it.
fn scripted_twin(world: &World, netns: &str) {
    world.pod_sh(
        netns,
        "ip link add eth0 type veth peer name peer0; ip link set peer0 up; ip link set eth0 up
         ip addr add 10.90.1.9/24 dev eth0; ip addr add fd00:90:1::9/64 dev eth0 nodad
         ip route add default via 10.90.1.1; ip -6 route add default via fd00:90:1::1",
    );
}

/// The IPv4 half of a change is done when the kernel refuses the IPv6 half: then it is undone, on the link that was
/// to lose its routes as on the one that was to get them, and the error says both.
#[test]
fn the_kernel_refuses_the_ipv6_half_of_override_and_filter() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    let look = |links: &str, file: &str| {
        format!(
            "nsenter --net=$CNI_NETNS sh -c 'for l in {links}; do ip -4 route show dev $l; ip -6 route show dev $l
             cat /proc/sys/net/ipv6/conf/$l/accept_ra_defrtr; done' >/run/scripted/{file}\n"
        )
    };
    let script = |delegate: &mut Value, command: &str, first: &str, last: &str| {
        let sh = &mut delegate["script"][command]["sh"];
        *sh = json!(format!("{first}{}\n{last}", sh.as_str().expect("a script")));
    };
    // Each looks when its own work is done, and before it is undone.
    let (mut one, mut two) =
        (scripted::veth("one", 1, Stack::Dual, true), scripted::veth("two", 2, Stack::Dual, false));
    script(&mut one, "ADD", "", &look("eth0", "eth0-was"));
    script(&mut two, "ADD", "", &look("net1", "net1-was"));
    script(&mut two, "DEL", &format!("{}{}", look("eth0", "eth0-is"), look("net1", "net1-is")), "");
    // The pod's own address is on the link, so nothing but the kernel knows that it is no gateway.
    let own = conf::host(2, Family::V6, 9);
    let asked = [gateway(2, Family::V4), own.clone()];
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    let outer = conf::catena(json!([one, asking(&two, &asked)]));
    let failure = pod.add(&outer).fails_with(108, &[&own, "Gateway can not be a local address", "net1"]);
    let text = failure.text();
    for family in Family::ALL {
        // Of eth0, which had lost its routes.
        let gone = format!("- default via {} dev eth0", gateway(1, family));
        assert!(text.contains("finished stages are undone exactly") && text.contains(&gone), "{text}");
    }
    // Of net1, which had got its IPv4 route.
    assert!(text.contains("what it had changed is undone exactly"), "{text}");
    let read = |file: &str| world.read(&format!("/run/scripted/{file}"));
    for (link, default) in [("eth0", true), ("net1", false)] {
        let was = read(&format!("{link}-was"));
        assert_eq!(was.matches("default via").count(), if default { 2 } else { 0 }, "{was}");
        assert_eq!(read(&format!("{link}-is")), was, "as its delegate had left it");
    }
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after a failed ADD");
}

/// Killed while its delegate runs: DEL leaves nothing.
#[test]
fn killed_and_deleted() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    let mut one = scripted::veth("one", 1, Stack::V4, true);
    let sh = one["script"]["ADD"]["sh"].as_str().expect("a script").to_owned()
        + "touch /run/scripted/made; sleep 60\n";
    one["script"]["ADD"]["sh"] = json!(sh);
    let outer = conf::catena(json!([one]));
    let reply = std::thread::scope(|scope| {
        let add = scope.spawn(|| pod.add(&outer));
        while !world.path("/run/scripted/made").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        world.sh("kill -9 $(pidof catena)");
        add.join().expect("the ADD that was killed")
    });
    assert_ne!(reply.output.exit, Some(0));
    pod.del(&outer, None).done();
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after DEL");
}

/// A value that every traces comparison would miss: the sysctl that an IPv6 override touches.
#[test]
fn sysctls_are_as_they_were() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    world.pod_sh(&pod.netns, "ip link add keep0 type veth peer name keep1");
    let one: Value = scripted::conf(
        "one",
        json!({"ADD": {"result": {
            "cniVersion": "1.0.0", "interfaces": [{"name": "keep0", "sandbox": "$CNI_NETNS"}],
            "ips": [{"address": "fd00:90:1::9/64", "interface": 0}],
        }}}),
    );
    let before = Traces::of(&world, Some(&pod.netns));
    let outer = conf::catena(json!([asking(&one, &["2001:db8:9::7"])]));
    pod.add(&outer).failure();
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after a failed ADD");
}

/// Plugins such as firewall find in it what they have to take away.
#[test]
fn a_delegate_that_answered_gets_its_result_back() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let outer = conf::catena(json!([
        scripted::veth("one", 1, Stack::V4, true),
        asking(&scripted::veth("two", 2, Stack::V4, false), &["203.0.113.7"]),
    ]));
    pod.add(&outer).fails_with(108, &["203.0.113.7"]);
    let deleted: Vec<Value> = scripted::calls(&world)
        .into_iter()
        .filter(|call| call["command"] == "DEL")
        .map(|call| call["stdin"]["prevResult"]["ips"][0]["address"].clone())
        .collect();
    assert_eq!(deleted, ["10.90.2.9/24", "10.90.1.9/24"]);
}

/// The runtime's DEL needs the cached result where the undo has failed.
#[test]
fn the_cache_stays_as_long_as_the_attachment() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let outer = conf::catena(json!([
        scripted::veth("one", 1, Stack::V4, true),
        scripted::conf("two", json!({"ADD": {"exit": 3}})),
    ]));
    scripted::change(&world, "one", &json!({"ADD": {"result": {"cniVersion": "1.0.0"}}, "DEL": {"exit": 3}}));
    pod.add(&outer).failure();
    pod.cached("one", "eth0");
    world.sh("rm /run/scripted/one.json");
    pod.del(&outer, None).done();
    assert!(world.files("/var/lib/cni/catena").is_empty());
}

#[test]
fn no_delegate_is_started_when_the_time_is_over() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let deadlines = json!({"delegateSeconds": 60, "rollbackSeconds": 60, "callSeconds": 1});
    let outer = conf::catena(json!([scripted::conf("one", json!({})), scripted::conf("two", json!({}))]));
    pod.add(&outer).result();
    world.write("/etc/catena/node.json", json!({"deadlines": deadlines}).to_string());
    scripted::change(&world, "two", &json!({"DEL": {"sh": "exec sleep 30"}}));
    pod.del(&outer, None).fails_with(
        111,
        &["network two", "was left of the call's time", "network one", "was not started", "callSeconds"],
    );
    assert!(!scripted::call_lines(&world).contains(&"DEL one eth0".to_owned()));
    world.sh("rm /run/scripted/two.json");
    pod.del(&outer, None).done();
}
