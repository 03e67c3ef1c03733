//! The built-in stage `network-status`: one element or more of the network status for each attachment, made of
//! the result after all stages before it, and of the default routes that the kernel now has.
//!
//! The form is that of the Kubernetes Network Custom Resource Definition De-facto Standard 1.3, as its most used
//! client library writes it.

mod elements;
mod lenient;

use catena_sdk::route::{Family, Route};
use catena_sdk::{Call, Document, Error, Host, Mode, Module, Outcome, Settings, Stage};
use serde::Deserialize;
use serde_json::Value;

const KEY: &str = "k8s.v1.cni.cncf.io/network-status";

/// The module.
#[derive(Debug)]
pub struct NetworkStatus;

/// There is nothing to configure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {}

impl Module for NetworkStatus {
    type Config = Config;
}

impl Settings for NetworkStatus {}

impl Stage for NetworkStatus {
    fn add(call: &Call<Config>, document: &Document, host: &Host) -> Result<Outcome, Error> {
        // Behind somebody else's plugins the status is for the outer meta-plugin to write.
        if call.mode == Mode::Chained {
            return Ok(Outcome::unchanged());
        }
        let result = lenient::read(document);
        let mut defaults: Vec<Route> = Vec::new();
        for family in Family::ALL {
            let mut routes = host.default_routes(family)?;
            routes.sort_by_key(|route| route.metric);
            defaults.extend(routes);
        }
        let elements = elements::elements(call, &result, &defaults, || elements::own_link(call, host))?;
        Ok(Outcome::unchanged().publish(KEY, &Value::Array(elements)))
    }
}

#[cfg(feature = "component")]
catena_sdk::export_stage!(NetworkStatus: stage, settings; wants = r#"{
    "log": true, "links": true,
    "routes": {"links": ["@attachment"], "ops": ["read"], "tables": [254]},
    "publish": ["k8s.v1.cni.cncf.io/network-status"]
}"#);

#[cfg(test)]
mod tests {
    use super::*;
    use catena_sdk::testing::{TestCall, TestHost, document, validate};
    use serde_json::json;

    const NETNS: &str = "/run/netns/test";

    fn primary(ifname: &str) -> TestCall {
        TestCall::new(ifname).with("name", json!("cbr0"))
    }

    fn secondary() -> TestCall {
        TestCall::new("net1").secondary(1).with("name", json!("test/blue"))
    }

    fn status(host: &TestHost, call: &TestCall, result: &Value) -> Value {
        let outcome = host.add_document::<NetworkStatus>(call, &document(result)).unwrap();
        assert_eq!((&outcome.result, outcome.tags.len()), (&None, 0));
        let [(key, value)] = outcome.publications.as_slice() else { panic!("{outcome:?}") };
        assert_eq!(key, KEY);
        serde_json::from_str(value).unwrap()
    }

    /// A pod whose routes do not matter.
    fn quiet() -> TestHost {
        TestHost::new(&["net1"])
    }

    fn one() -> Value {
        json!({"cniVersion": "1.1.0",
               "interfaces": [{"name": "net1", "mac": "92:79:27:01:7c:cf", "mtu": 9000, "sandbox": NETNS}],
               "ips": [{"address": "1.1.1.3/24", "interface": 0}, {"address": "2001::1/64", "interface": 0}]})
    }

    #[test]
    fn one_interface_with_its_addresses() {
        let expected = json!([{"name": "test/blue", "interface": "net1", "ips": ["1.1.1.3", "2001::1"],
            "mac": "92:79:27:01:7c:cf", "mtu": 9000, "default": false, "dns": {}}]);
        assert_eq!(status(&quiet(), &secondary(), &one()), expected);
    }

    #[test]
    fn gateways_are_the_kernels_in_both_families_and_by_metric() {
        let host = quiet()
            .route("default via 20.20.20.20 dev net1 metric 20")
            .route("default via 10.10.10.10 dev net1 metric 10")
            .route("default via fe80::1 dev net1 proto ra");
        let mut claimed = one();
        claimed["routes"] = json!([{"dst": "0.0.0.0/0", "gw": "7.7.7.7"}]);
        let value = status(&host, &secondary(), &claimed);
        assert_eq!(value[0]["gateway"], json!(["10.10.10.10", "20.20.20.20", "fe80::1"]));
    }

    #[test]
    fn what_is_no_default_route_or_has_no_gateway_is_no_gateway() {
        let host = quiet()
            .route("10.10.10.0/24 via 1.1.1.1 dev net1")
            .route("0.0.0.0/1 via 1.1.1.1 dev net1")
            .route("default dev net1 scope link");
        assert_eq!(status(&host, &secondary(), &one())[0].get("gateway"), None);
    }

    #[test]
    fn anothers_gateway_is_not_ours() {
        let host = TestHost::new(&["net1"])
            .link("eth0")
            .route("default via 10.0.0.1 dev eth0")
            .route("default nexthop via fd00::1 dev eth0 nexthop via fd01::1 dev net1");
        assert_eq!(status(&host, &secondary(), &one())[0]["gateway"], json!(["fd01::1"]));
    }

    /// [host, eth0, host, other]: addresses on both, only the one of `other` has a gateway.
    #[test]
    fn the_primarys_default_is_the_interface_of_the_first_gateway() {
        let result = json!({"cniVersion": "1.1.0",
            "interfaces": [{"name": "a"}, {"name": "eth0", "sandbox": NETNS}, {"name": "b"},
                           {"name": "other", "sandbox": NETNS}],
            "ips": [{"address": "10.10.1.2/24", "interface": 1},
                    {"address": "10.20.1.2/24", "gateway": "10.20.1.1", "interface": 3}]});
        let value = status(&TestHost::new(&["eth0", "other"]), &primary("eth0"), &result);
        assert_eq!(
            value,
            json!([{"name": "cbr0", "interface": "eth0", "ips": ["10.10.1.2"], "default": false, "dns": {}},
                   {"name": "cbr0", "interface": "other", "ips": ["10.20.1.2"], "default": true, "dns": {}}])
        );
    }

    #[test]
    fn an_address_without_index_belongs_to_the_last_interface() {
        let result = |sandboxed: &[&str]| {
            let mut interfaces = vec![json!({"name": "foo"})];
            interfaces.extend(sandboxed.iter().map(|name| json!({"name": name, "sandbox": NETNS})));
            json!({"cniVersion": "1.1.0", "interfaces": interfaces, "ips": [{"address": "10.0.0.5/24"}]})
        };
        let value = status(&quiet(), &secondary(), &result(&["eth0"]));
        assert_eq!(value[0]["ips"], json!(["10.0.0.5"]));
        let value = status(&quiet(), &secondary(), &result(&["eth0", "eth1"]));
        assert_eq!((value[0].get("ips"), &value[1]["ips"]), (None, &json!(["10.0.0.5"])));
    }

    #[test]
    fn addresses_are_split_by_index() {
        let result = json!({"cniVersion": "1.1.0",
            "interfaces": [{"name": "foo"}, {"name": "example0", "sandbox": NETNS},
                           {"name": "example1", "sandbox": NETNS}],
            "ips": [{"address": "10.0.0.1/24", "interface": 1}, {"address": "10.0.0.2/24", "interface": 1},
                    {"address": "10.0.1.1/24", "interface": 2}]});
        let value = status(&quiet(), &secondary(), &result);
        assert_eq!(value[0]["ips"], json!(["10.0.0.1", "10.0.0.2"]));
        assert_eq!(value[1]["ips"], json!(["10.0.1.1"]));
        assert_eq!((&value[0]["default"], &value[1]["default"]), (&json!(false), &json!(false)));
        let value = status(&quiet(), &primary("example0"), &result);
        assert_eq!((&value[0]["default"], &value[1]["default"]), (&json!(true), &json!(false)));
    }

    #[test]
    fn one_interface_outside_a_sandbox_gives_no_name_and_loses_no_address() {
        let result = json!({"cniVersion": "1.0.0", "interfaces": [{"name": "cali0", "mac": "ee:ee:ee:ee:ee:ee"}],
            "ips": [{"address": "10.0.0.1/32"}, {"address": "10.0.0.2/32"}]});
        assert_eq!(
            status(&TestHost::new(&["eth0"]), &primary("eth0"), &result),
            json!([{"name": "cbr0", "ips": ["10.0.0.1", "10.0.0.2"], "default": true, "dns": {}}])
        );
    }

    #[test]
    fn an_address_of_a_host_interface_is_not_lost_and_the_primary_is_default() {
        let result = |sandbox: &str| {
            json!({"cniVersion": "1.1.0",
                "interfaces": [{"name": "veth0"}, {"name": "eth0", "sandbox": sandbox}],
                "ips": [{"address": "10.0.0.5/24", "gateway": "10.0.0.1", "interface": 0}]})
        };
        let value = status(&quiet(), &primary("eth0"), &result(NETNS));
        assert_eq!((&value[0]["ips"], &value[0]["default"]), (&json!(["10.0.0.5"]), &json!(true)));
        let value = status(&quiet(), &primary("eth0"), &result(""));
        assert_eq!(value, json!([{"name": "cbr0", "ips": ["10.0.0.5"], "default": true, "dns": {}}]));
    }

    #[test]
    fn an_empty_attachment_has_a_minimal_element() {
        for result in [json!({"cniVersion": "1.1.0"}), json!({}), json!(null)] {
            let host = TestHost::new(&[]);
            assert_eq!(
                status(&host, &secondary(), &result),
                json!([{"name": "test/blue", "default": false}])
            );
            assert_eq!(status(&host, &primary("eth0"), &result), json!([{"name": "cbr0", "default": true}]));
        }
    }

    #[test]
    fn an_opaque_attachment_still_tells_its_gateway() {
        let host = quiet().route("default via 10.0.0.1 dev net1");
        let value = status(&host, &secondary(), &json!({"cniVersion": "1.1.0"}));
        assert_eq!(value, json!([{"name": "test/blue", "default": false, "gateway": ["10.0.0.1"]}]));
    }

    #[test]
    fn a_result_before_interfaces_has_that_of_the_attachment() {
        let result =
            json!({"cniVersion": "1.1.0", "ips": [{"address": "10.0.0.5/24"}, {"address": "fd00::5/64"}]});
        let old = secondary().with("delegateVersion", json!("0.2.0"));
        assert_eq!(
            status(&quiet(), &old, &result),
            json!([{"name": "test/blue", "interface": "net1", "ips": ["10.0.0.5", "fd00::5"],
                    "mac": "02:00:00:00:00:02", "default": false, "dns": {}}])
        );
        // A newer result could have named one, and the link of an older one may be elsewhere.
        let none =
            json!([{"name": "test/blue", "ips": ["10.0.0.5", "fd00::5"], "default": false, "dns": {}}]);
        let new = secondary().with("delegateVersion", json!("1.0.0"));
        assert_eq!(status(&quiet(), &new, &result), none);
        assert_eq!(status(&TestHost::new(&["eth0"]), &old, &result), none);
    }

    #[test]
    fn dns_device_and_request_are_told() {
        let mut result = one();
        result["dns"] = json!({"nameservers": ["10.0.0.53"], "domain": "x.org", "search": ["y.org"], "options": ["ndots:5"]});
        let device = json!({"type": "pci", "version": "1.1.0", "pci": {"pci-address": "0000:00:01.0"}});
        let call = secondary()
            .with("deviceInfo", device.clone())
            .with("request", json!({"defaultRoute": ["10.0.0.1", "fd00::1"]}));
        let value = status(&quiet(), &call, &result);
        assert_eq!(value[0]["dns"], result["dns"]);
        assert_eq!(value[0]["device-info"], device);
        assert_eq!(value[0]["default-route"], json!(["10.0.0.1", "fd00::1"]));
    }

    #[test]
    fn of_an_unconverted_result_what_can_be_read_is_told() {
        let mut future = one();
        future["cniVersion"] = json!("2.0.0");
        assert_eq!(status(&quiet(), &secondary(), &future), status(&quiet(), &secondary(), &one()));

        let mut bad = one();
        bad["routes"] = json!([{"dst": "nonsense"}]);
        bad["ips"][0]["address"] = json!("nonsense");
        let value = status(&quiet(), &secondary(), &bad);
        assert_eq!((&value[0]["interface"], &value[0]["ips"]), (&json!("net1"), &json!(["2001::1"])));

        let mut bad = one();
        bad["interfaces"] = json!(7);
        let value = status(&quiet(), &secondary(), &bad);
        assert_eq!((value[0].get("interface"), &value[0]["ips"]), (None, &json!(["1.1.1.3", "2001::1"])));

        let mut bad = one();
        bad["ips"][1]["interface"] = json!(9);
        assert_eq!(status(&quiet(), &secondary(), &bad)[0]["ips"], json!(["1.1.1.3", "2001::1"]));
    }

    #[test]
    fn in_chained_mode_the_outer_plugin_writes_it() {
        let outcome = quiet().add::<NetworkStatus>(&secondary().chained(), &one()).unwrap();
        assert_eq!(outcome, Outcome::unchanged());
    }

    #[test]
    fn it_has_no_settings() {
        assert!(!validate::<NetworkStatus>(&json!({"x": 1})).is_empty());
        assert!(validate::<NetworkStatus>(&json!({})).is_empty());
    }
}
