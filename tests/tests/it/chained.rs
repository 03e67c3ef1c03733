//! catena at the end of somebody else's list, and inside a list that catena itself runs.

use catena_tests::conf::{self, Family, Stack};
use catena_tests::pair::Twin;
use catena_tests::runtime::{Pod, with_previous};
use catena_tests::state::{Traces, address_gateways, default_gateways, defaults, via};
use catena_tests::world::World;
use serde_json::{Value, json};

fn conflist(stack: Stack, default_gateway: Value) -> Value {
    let mut ptp = conf::ptp(1, stack);
    let object = ptp.as_object_mut().expect("a config");
    object.remove("name");
    object.remove("cniVersion");
    json!({
        "cniVersion": conf::VERSION, "name": "chain",
        "plugins": [ptp, {"type": "catena", "pipeline": conf::pipeline(default_gateway)}],
    })
}

fn filtered(stack: Stack, family: Family) {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let list = conflist(stack, json!({"filter": [family.name()]}));
    let result = pod.add_list(&list);
    assert_eq!(result["cniVersion"], conf::VERSION);
    let other = family.other();
    assert_eq!(defaults(&world, &pod.netns, family), []);
    assert!(default_gateways(&result, family).is_empty(), "{result}");
    assert!(address_gateways(&result, family).is_empty(), "{result}");
    if stack == Stack::Dual {
        assert_eq!(
            defaults(&world, &pod.netns, other),
            [via(&conf::gateway(1, other), "eth0", other.metric())]
        );
        assert_eq!(default_gateways(&result, other).len(), 1, "{result}");
    }
    assert!(
        !world.path("/run/catena/status").exists() || world.files("/run/catena/status").is_empty(),
        "an outer meta-plugin has the status"
    );
    pod.check_list(&list, &result);
    // Somebody brings the route back.
    world.pod_sh(
        &pod.netns,
        &format!("ip {} route add default via {} dev eth0", family.option(), conf::gateway(1, family)),
    );
    let catena = &catena_tests::runtime::plugins(&list)[1];
    let failure = pod.call("catena", "CHECK", &with_previous(catena, Some(&result))).failure();
    assert!(failure.text().contains("eth0"), "{}", failure.text());
    pod.del_list(&list, Some(&result));
    pod.del_list(&list, None);
    pod.without_netns().del_list(&list, None);
    let mut alone = conf::ptp(1, stack);
    alone["name"] = json!("chain");
    let twin = Twin::live(&[("eth0", &alone)], false);
    Traces::of(&world, Some(&pod.netns)).same_as(&twin.after, "after DEL");
}

#[test]
fn filter_v4() {
    filtered(Stack::V4, Family::V4);
}

#[test]
fn filter_v6() {
    filtered(Stack::V6, Family::V6);
}

#[test]
fn filter_v4_of_dual() {
    filtered(Stack::Dual, Family::V4);
}

#[test]
fn filter_v6_of_dual() {
    filtered(Stack::Dual, Family::V6);
}

#[test]
fn without_a_previous_result() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let conf = json!({"cniVersion": conf::VERSION, "name": "chain", "type": "catena"});
    for command in ["ADD", "CHECK"] {
        pod.call("catena", command, &conf).fails_with(7, &["prevResult"]);
    }
    pod.del(&conf, None).done();
}

/// Read as another version's, the pod's addresses would be lost without a word.
#[test]
fn a_previous_result_of_another_format_is_refused() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    let conf = json!({"cniVersion": conf::VERSION, "name": "chain", "type": "catena"});
    let previous = |version: Value| json!({"cniVersion": version, "ips": [{"address": "192.0.2.5/24"}]});
    for version in ["", "0.4.0", "9.0.0"] {
        let request = with_previous(&conf, Some(&previous(json!(version))));
        for command in ["ADD", "CHECK"] {
            pod.call("catena", command, &request).fails_with(1, &["prevResult", version]);
        }
        Traces::of(&world, Some(&pod.netns)).same_as(&before, version);
    }
    let unversioned = with_previous(&conf, Some(&previous(json!(null))));
    assert_eq!(pod.add(&unversioned).result(), previous(json!(conf::VERSION)));
    pod.del(&conf, None).done();
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after DEL");
}

#[test]
fn at_the_end_of_a_delegate_list() {
    for stack in Stack::ALL {
        let world = World::new();
        let pod = Pod::new(&world, "pod");
        let mut bridge = conf::bridge_with_default(1, stack);
        let twin = Twin::live(&[("eth0", &bridge)], false);
        let name = bridge["name"].clone();
        let object = bridge.as_object_mut().expect("a config");
        object.remove("name");
        object.remove("cniVersion");
        let list = json!({
            "cniVersion": conf::VERSION, "name": name, "plugins": [bridge, {"type": "catena"}],
        });
        let outer = conf::catena(json!([list]));
        let result = pod.add(&outer).result();
        for family in stack.families() {
            assert_eq!(
                defaults(&world, &pod.netns, *family),
                [via(&conf::gateway(1, *family), "eth0", family.metric())]
            );
        }
        assert_eq!(pod.status("outer").len(), 1);
        pod.check(&outer, &result).done();
        pod.del(&outer, Some(&result)).done();
        Traces::of(&world, Some(&pod.netns)).same_as(&twin.after, "after DEL");
    }
}

#[test]
fn meta_inside_meta_is_refused_naming_both() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    let mut inner = conf::catena(json!([conf::bridge(1, Stack::V4)]));
    inner["name"] = json!("inner");
    let outer = conf::catena(json!([inner]));
    let failure = pod.add(&outer).failure();
    assert!(failure.text().contains("inner") && failure.text().contains("outer"), "{}", failure.text());
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after a refused ADD");
}

#[test]
fn a_meta_plugin_ignores_a_previous_result() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let outer = conf::catena(json!([conf::bridge(1, Stack::V4)]));
    let stale = json!({"cniVersion": conf::VERSION, "ips": [{"address": "192.0.2.99/24"}]});
    let result = pod.add(&with_previous(&outer, Some(&stale))).result();
    assert_eq!(result["ips"][0]["address"], "10.90.1.2/24");
    pod.del(&outer, Some(&result)).done();
}
