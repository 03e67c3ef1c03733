//! What must not run side by side: of two networks that set a default route of one family at the same time, chance
//! would decide which one the pod gets.

use catena_cni::json::{self, Map};
use catena_cni::list::{NetworkList, Plugin};
use catena_cni::net::{IpNet, parse_ip};
use catena_routes::Family;
use serde_json::Value;

use super::attachment::AttachmentSpec;
use crate::node::{At, Problem};

/// Refuses (code 7) secondaries of which two are configured to set a default route of one family. The primary has
/// ended before they start.
pub(super) fn refuse_rivals(specs: &[AttachmentSpec]) -> Result<(), Problem> {
    for family in Family::ALL {
        let mut owners = specs
            .iter()
            .enumerate()
            .skip(1)
            .filter(|(_, spec)| sets_default(&spec.list, family))
            .map(|(position, spec)| format!("delegates[{position}] ({})", spec.list.name));
        if let (Some(one), Some(other)) = (owners.next(), owners.next()) {
            return Err(Problem::value(
                &At::Document.member("parallel"),
                format!(
                    "parallel is true, but {one} and {other} are both configured to set an {} default route, and \
                     chance would decide which one the pod gets; take it out of one of the two (ipam.routes, \
                     isDefaultGateway), or leave parallel out",
                    family
                ),
            ));
        }
    }
    Ok(())
}

/// Whether a plugin's own config says that it sets a default route: `routes` of its IPAM, or bridge's
/// `isDefaultGateway`. What a DHCP server or a program's own data will say cannot be known before.
fn sets_default(list: &NetworkList, family: Family) -> bool {
    list.plugins.iter().any(|plugin| {
        let ipam = json::get(&plugin.raw, "ipam").and_then(Value::as_object);
        let routes = ipam.and_then(|ipam| json::get(ipam, "routes")).and_then(Value::as_array);
        let routed = routes.into_iter().flatten().filter_map(|route| prefix(route.as_object()?, "dst"));
        routed.filter(IpNet::is_default).any(|dst| family_of(&dst) == family)
            || (is_default_gateway(plugin) && gateway_families(ipam).contains(&family))
    })
}

fn is_default_gateway(plugin: &Plugin) -> bool {
    json::get(&plugin.raw, "isDefaultGateway") == Some(&Value::Bool(true))
}

/// The families of the addresses that an IPAM config names (host-local's `subnet` and `ranges`, static's
/// `addresses`); both where it names none.
fn gateway_families(ipam: Option<&Map>) -> Vec<Family> {
    let Some(ipam) = ipam else { return Vec::new() };
    let list = |name: &str| json::get(ipam, name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let ranges = list("ranges").iter().filter_map(Value::as_array).flatten();
    let ranges = ranges.filter_map(|range| prefix(range.as_object()?, "subnet"));
    let addresses = list("addresses").iter().filter_map(|entry| prefix(entry.as_object()?, "address"));
    let named: Vec<Family> = prefix(ipam, "subnet")
        .into_iter()
        .chain(ranges)
        .chain(addresses)
        .map(|prefix| family_of(&prefix))
        .collect();
    if named.is_empty() { Family::ALL.to_vec() } else { named }
}

/// A prefix, or a bare address.
fn prefix(map: &Map, key: &str) -> Option<IpNet> {
    let text = json::get(map, key)?.as_str()?;
    IpNet::parse(text).ok().or_else(|| parse_ip(text).and_then(|address| IpNet::new(address, 32)))
}

fn family_of(prefix: &IpNet) -> Family {
    if prefix.is_ipv4() { Family::V4 } else { Family::V6 }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn specs(configs: &[Value]) -> Vec<AttachmentSpec> {
        let read = |(position, config): (usize, &Value)| {
            let mut config = config.clone();
            config["cniVersion"] = json!("1.0.0");
            config["name"] = json!(format!("n{position}"));
            config["type"] = json!("x");
            let mut problems = super::super::error::Problems::default();
            AttachmentSpec::read(&config, &At::Document.member("delegates"), "catena", &mut problems).unwrap()
        };
        configs.iter().enumerate().map(read).collect()
    }

    fn routed(dst: &str) -> Value {
        json!({"ipam": {"type": "host-local", "routes": [{"dst": "10.0.0.0/8"}, {"dst": dst}]}})
    }

    #[test]
    fn two_defaults_of_one_family_are_named() {
        let none = json!({});
        let error = refuse_rivals(&specs(&[none.clone(), routed("::/0"), none, routed("::/0")])).unwrap_err();
        assert_eq!(error.code, 7);
        for word in ["delegates[1] (n1)", "delegates[3] (n3)", "ipv6", "parallel"] {
            assert!(error.text.contains(word), "{word}: {}", error.text);
        }
    }

    #[test]
    fn the_primary_and_other_families_are_no_rivals() {
        refuse_rivals(&specs(&[routed("0.0.0.0/0"), routed("0.0.0.0/0"), routed("::/0")])).unwrap();
        refuse_rivals(&specs(&[routed("0.0.0.0/0"), routed("10.1.0.0/16"), routed("0.0.0.0/0")])).unwrap();
        refuse_rivals(&specs(&[json!({}), json!({"ipam": {"routes": [{"dst": 7}, 7]}})])).unwrap();
    }

    #[test]
    fn a_bridge_that_is_the_default_gateway_counts_in_the_families_of_its_addresses() {
        let bridge = |ipam: Value| json!({"isDefaultGateway": true, "ipam": ipam});
        let v4 = json!({"type": "host-local", "ranges": [[{"subnet": "10.0.0.0/24"}]]});
        let v6 = json!({"type": "static", "addresses": [{"address": "fd00::5/64"}]});
        let old = json!({"type": "host-local", "subnet": "10.0.0.0/24"});
        let primary = json!({});
        refuse_rivals(&specs(&[primary.clone(), bridge(v4.clone()), bridge(v6.clone())])).unwrap();
        for (one, other) in [(&v4, &old), (&v6, &json!({"type": "dhcp"})), (&v4, &json!({"type": "dhcp"}))] {
            let specs = specs(&[primary.clone(), bridge(one.clone()), bridge(other.clone())]);
            assert_eq!(refuse_rivals(&specs).unwrap_err().code, 7, "{one} {other}");
        }
        assert!(refuse_rivals(&specs(&[primary, bridge(v4), routed("0.0.0.0/0")])).is_err());
    }
}
