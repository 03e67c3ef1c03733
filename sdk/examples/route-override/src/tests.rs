use catena_sdk::testing::{TestCall, TestHost};
use serde_json::{Value, json};

use super::*;

fn pod() -> TestHost {
    TestHost::new(&["net1"])
        .link("eth0")
        .route("10.1.0.0/24 dev net1 scope link proto kernel")
        .route("default via 10.1.0.1 dev net1")
        .route("10.9.0.0/16 via 10.1.0.9 dev net1")
}

fn result() -> Value {
    json!({
        "cniVersion": "1.1.0", "interfaces": [{"name": "net1", "sandbox": "/run/netns/test"}],
        "ips": [{"address": "10.1.0.5/24", "gateway": "10.1.0.1", "interface": 0}],
        "routes": [{"dst": "0.0.0.0/0", "gw": "10.1.0.1"}, {"dst": "10.9.0.0/16", "gw": "10.1.0.9"}],
        "example.com/kept": true
    })
}

fn add(pod: &TestHost, config: Value) -> Result<Vec<Value>, Error> {
    let outcome = pod.add::<RouteOverride>(&TestCall::new("net1").config(config), &result())?;
    let value = outcome.result.map_or_else(|| Ok(result()), |document| document.value())?;
    assert_eq!(value["example.com/kept"], true, "what a stage does not know stays");
    Ok(value["routes"].as_array().cloned().unwrap_or_default())
}

#[test]
fn nothing_asked_nothing_done() {
    let pod = pod();
    assert_eq!(add(&pod, json!({})).unwrap().len(), 2);
    assert!(pod.changes().is_empty());
}

#[test]
fn routes_are_exchanged_in_one_change() {
    let pod = pod();
    let config = json!({
        "flushgateway": true, "delroutes": [{"dst": "10.9.0.0/16"}],
        "addroutes": [{"dst": "192.0.2.0/24", "gw": "10.1.0.254"}]
    });
    let routes = add(&pod, config.clone()).unwrap();
    assert_eq!(routes, [json!({"dst": "192.0.2.0/24", "gw": "10.1.0.254"})]);
    let mut now = pod.routes();
    now.sort();
    assert_eq!(now, ["10.1.0.0/24 dev net1 proto kernel scope link", "192.0.2.0/24 via 10.1.0.254 dev net1"]);

    let call = TestCall::new("net1").config(config.clone());
    pod.check::<RouteOverride>(&call, &result()).unwrap();
    let other = TestCall::new("net1").config(json!({"addroutes": [{"dst": "198.51.100.0/24"}]}));
    let error = pod.check::<RouteOverride>(&other, &result()).unwrap_err();
    assert!(error.to_string().contains("lost its route 198.51.100.0/24"), "{error}");
}

#[test]
fn flushing_leaves_what_the_kernel_made() {
    let pod = pod();
    assert!(add(&pod, json!({"flushroutes": true})).unwrap().is_empty());
    assert_eq!(pod.routes(), ["10.1.0.0/24 dev net1 proto kernel scope link"]);
}

#[test]
fn a_refused_route_leaves_everything_as_it_was() {
    let pod = pod();
    let before = pod.routes();
    let unreachable =
        json!({"flushroutes": true, "addroutes": [{"dst": "192.0.2.0/24", "gw": "172.16.0.1"}]});
    let error = add(&pod, unreachable).unwrap_err();
    assert!(error.to_string().contains("172.16.0.1"), "{error}");
    assert_eq!(pod.routes(), before);
}

#[test]
fn a_wrong_config_names_what_is_wrong() {
    for (config, word) in [
        (json!({"flushroute": true}), "flushroute"),
        (json!({"addroutes": [{"dst": "10.0.0.0/99"}]}), "10.0.0.0/99"),
    ] {
        let error = add(&pod(), config).unwrap_err();
        assert!(matches!(&error, Error::InvalidConfig(text) if text.contains(word)), "{error:?}");
    }
}
