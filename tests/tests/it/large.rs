//! Results of a size that hardly anybody has.

use catena_tests::conf::{self, Family, Stack, asking};
use catena_tests::runtime::Pod;
use catena_tests::scripted;
use catena_tests::state::{Traces, defaults, via};
use catena_tests::world::World;
use serde_json::{Value, json};

/// A result with routes up to nearly the mebibyte that a stage may answer.
fn result(address: &str, gateway: &str) -> Value {
    let mut result =
        json!({"cniVersion": "1.1.0", "ips": [{"address": address, "gateway": gateway}], "routes": []});
    let mut size = result.to_string().len();
    let mut routes = Vec::new();
    while size < 1_040_000 {
        let i = routes.len();
        let destination = format!("172.{}.{}.{}/32", 16 + i / 65536, i / 256 % 256, i % 256);
        let route = json!({"dst": destination, "gw": gateway});
        size += route.to_string().len() + 1;
        routes.push(route);
    }
    result["routes"] = json!(routes);
    result
}

#[test]
fn of_a_mebibyte_pass_the_default_pipeline_and_a_change_of_the_default_route() {
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    let second = scripted::conf(
        "two",
        json!({
            "ADD": {"sh": scripted::veth_script(2, Stack::V4), "result": result("10.90.2.9/24", "10.90.2.1")},
            "DEL": {"sh": scripted::delete_script(2)},
        }),
    );
    let first = scripted::conf(
        "one",
        json!({
            "ADD": {"sh": scripted::veth_script(1, Stack::V4), "result": result("10.90.1.9/24", "10.90.1.1")},
            "DEL": {"sh": scripted::delete_script(1)},
        }),
    );
    let outer = conf::catena(json!([first, asking(&second, &["10.90.2.1"])]));
    let result = pod.add(&outer).result();
    assert!(result["routes"].as_array().is_some_and(|routes| routes.len() > 20_000));
    assert_eq!(defaults(&world, &pod.netns, Family::V4), [via("10.90.2.1", "net1", 0)]);
    assert_eq!(pod.status("outer").len(), 2);
    pod.check(&outer, &result).done();
    pod.del(&outer, Some(&result)).done();
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after DEL");
}
