//! What must not run side by side: of two networks that set a default route of one family at the same time, chance
//! would decide which one the pod gets.

use std::net::IpAddr;

use catena_cni::json::{self, Map};
use catena_cni::list::{NetworkList, Plugin};
use catena_cni::net::{IpNet, parse_ip};
use catena_cni::version::SpecVersion;
use catena_routes::Family;
use serde_json::Value;

use super::attachment::AttachmentSpec;
use super::conf::{self, Conf, Role};
use super::error::{CniError, Problems};
use super::member::member;
use crate::node::{At, EntryMode, NodeConfig, Problem};
use crate::pipeline::selection::selected;

/// The main table; 0 stands for it.
const MAIN: i64 = 254;

impl Conf {
    /// Refuses (code 7) to run secondaries side by side of which two are configured to set a default route of one
    /// family. `lists` are those of all delegates as they will run: `admit` may have rewritten them. The primary has
    /// ended before the others start.
    pub fn refuse_rivals(&self, lists: &[&NetworkList], node: &NodeConfig) -> Result<(), CniError> {
        match (&self.role, self.parallel) {
            (Role::Meta(specs), true) => Ok(refuse(&self.raw, specs, lists, node)?),
            _ => Ok(()),
        }
    }
}

/// The same for the lists as they were sent, as far as can be said without the node's files.
pub(super) fn refuse_rivals(raw: &Map, specs: &[AttachmentSpec]) -> Result<(), Problem> {
    // Where one could not be read, which is refused anyway, the others' positions are not known.
    let entries = member(raw, "delegates").and_then(Value::as_array);
    if entries.is_none_or(|entries| entries.len() != specs.len()) {
        return Ok(());
    }
    let lists: Vec<&NetworkList> = specs.iter().map(|spec| &spec.list).collect();
    refuse(raw, specs, &lists, &NodeConfig::default())
}

fn refuse(
    raw: &Map,
    specs: &[AttachmentSpec],
    lists: &[&NetworkList],
    node: &NodeConfig,
) -> Result<(), Problem> {
    let own_type = conf::own_type(raw);
    let read = |(position, (spec, list))| Secondary::read(position, spec, list, own_type, node);
    let secondaries: Vec<Secondary> =
        specs.iter().zip(lists.iter().copied()).enumerate().skip(1).map(read).collect();
    let rivals = |family| {
        let owners: Vec<String> =
            secondaries.iter().filter_map(|secondary| secondary.owner(family)).collect();
        (owners.len() > 1).then(|| format!("{family}: {}", owners.join(", ")))
    };
    let rivals: Vec<String> = Family::ALL.into_iter().filter_map(rivals).collect();
    if rivals.is_empty() {
        return Ok(());
    }
    Err(Problem::value(
        &At::Document.member("parallel"),
        format!(
            "parallel is true, but several secondaries are configured to set a default route of one family, and chance \
             would decide which one the pod gets: {}; leave it to one of them per family, or leave parallel out",
            rivals.join("; ")
        ),
    ))
}

/// A secondary, and what its config says about default routes.
struct Secondary {
    /// As messages name it.
    name: String,
    defaults: Vec<DefaultRoute>,
}

/// A default route that a config has set in the main table, if only until another plugin of the list takes it out
/// again (sbr, route-override): by then it may have kept a rival's from being set, or the kernel may have made one
/// multipath route of both.
struct DefaultRoute {
    family: Family,
    /// The key that says so.
    by: &'static str,
}

impl Secondary {
    fn read(
        position: usize,
        spec: &AttachmentSpec,
        list: &NetworkList,
        own_type: &str,
        node: &NodeConfig,
    ) -> Self {
        let rewritten = if *list == spec.list { "" } else { ", rewritten by a stage" };
        let mut defaults = Vec::new();
        for plugin in &list.plugins {
            let mut set = |by, families: Vec<Family>| {
                defaults.extend(families.into_iter().map(|family| DefaultRoute { family, by }));
            };
            set("ipam.routes", routed(plugin, &list.cni_version));
            if json::get(&plugin.raw, "isDefaultGateway") == Some(&Value::Bool(true)) {
                set("isDefaultGateway", gateway_families(plugin, &spec.ips));
            }
            set("addroutes", added(plugin));
            if plugin.kind.as_str() == own_type {
                set("the pipeline's override", overridden(plugin, node));
            }
        }
        // It counts on a default route, so one comes from where it cannot be seen.
        if defaults.is_empty() && spec.default_route.as_ref().is_some_and(Vec::is_empty) {
            let addressed = list.plugins.iter().find(|plugin| plugin.ipam_type().is_some());
            let families = addressed.map(|plugin| gateway_families(plugin, &spec.ips));
            let asked = |family| DefaultRoute { family, by: "default-route: []" };
            defaults.extend(families.unwrap_or_else(|| Family::ALL.to_vec()).into_iter().map(asked));
        }
        Self { name: format!("delegates[{position}] ({}{rewritten})", list.name), defaults }
    }

    /// Its name, and by what it sets a default route of that family; none if it sets none.
    fn owner(&self, family: Family) -> Option<String> {
        let of_family = self.defaults.iter().filter(|default| default.family == family);
        let mut by: Vec<&str> = of_family.map(|default| default.by).collect();
        by.dedup();
        (!by.is_empty()).then(|| format!("{} by {}", self.name, by.join(" and ")))
    }
}

/// The families of the default routes that the IPAM's config names for the main table.
fn routed(plugin: &Plugin, cni_version: &str) -> Vec<Family> {
    let Some(ipam) = ipam(plugin) else { return Vec::new() };
    let has_tables = SpecVersion::from_text(cni_version) >= Some(SpecVersion::V1_1_0);
    let elsewhere = |route: &&Map| has_tables && other_table(route);
    objects(ipam, "routes").filter(|route| !elsewhere(route)).filter_map(default_family).collect()
}

/// Plugins that speak 1.1.0 put such a route into that table; older ones do not know the key, and use the main one.
fn other_table(route: &Map) -> bool {
    json::get(route, "table").and_then(Value::as_i64).is_some_and(|table| table > 0 && table != MAIN)
}

/// The families of the default routes that route-override adds. It knows no tables, and its arguments win over its
/// config.
fn added(plugin: &Plugin) -> Vec<Family> {
    const KEY: &str = "addroutes";
    let object = |map, name| json::get(map, name).and_then(Value::as_object);
    let arguments = object(&plugin.raw, "args").and_then(|args| object(args, "cni"));
    let map = arguments.filter(|arguments| member(arguments, KEY).is_some()).unwrap_or(&plugin.raw);
    objects(map, KEY).filter_map(default_family).collect()
}

/// The families of the gateways that a chained catena's pipeline overrides the default route with.
fn overridden(plugin: &Plugin, node: &NodeConfig) -> Vec<Family> {
    let reference = conf::pipeline(&plugin.raw, &mut Problems::default());
    let entries = selected(&reference, node).into_iter();
    let gateways = entries
        .filter(|entry| entry.stage == "default-gateway" && entry.mode == EntryMode::Enforce)
        .filter_map(|entry| entry.config?.get("override")?.as_array().cloned());
    gateways.flatten().filter_map(|gateway| parse_ip(gateway.as_str()?)).map(family_of).collect()
}

/// The families of the addresses that an IPAM config names (host-local's `subnet` and `ranges`, static's
/// `addresses`) and of those that were asked for; both where it names none.
fn gateway_families(plugin: &Plugin, ips: &[String]) -> Vec<Family> {
    let Some(ipam) = ipam(plugin) else { return Vec::new() };
    let list = |name: &str| json::get(ipam, name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let ranges = list("ranges").iter().filter_map(Value::as_array).flatten();
    let ranges = ranges.filter_map(|range| address(range.as_object()?, "subnet"));
    let addresses = objects(ipam, "addresses").filter_map(|entry| address(entry, "address"));
    let named: Vec<Family> = address(ipam, "subnet").into_iter().chain(ranges).chain(addresses).collect();
    let asked = ips.iter().filter_map(|text| address_family(text));
    let is_in = |family: &Family| named.contains(family) || asked.clone().any(|asked| asked == *family);
    if named.is_empty() { Family::ALL.to_vec() } else { Family::ALL.into_iter().filter(is_in).collect() }
}

/// The IPAM's config, if the plugin has one run.
fn ipam(plugin: &Plugin) -> Option<&Map> {
    plugin.ipam_type()?;
    json::get(&plugin.raw, "ipam")?.as_object()
}

/// The objects in a list.
fn objects<'a>(map: &'a Map, name: &str) -> impl Iterator<Item = &'a Map> {
    let list = json::get(map, name).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_object)
}

/// The family of a route, if it is a default route.
fn default_family(route: &Map) -> Option<Family> {
    let dst = IpNet::parse(json::get(route, "dst")?.as_str()?).ok()?;
    dst.is_default().then(|| family_of(dst.addr()))
}

fn address(map: &Map, key: &str) -> Option<Family> {
    address_family(json::get(map, key)?.as_str()?)
}

/// Of a prefix or a bare address.
fn address_family(text: &str) -> Option<Family> {
    let prefix = IpNet::parse(text).ok().map(|prefix| prefix.addr());
    prefix.or_else(|| parse_ip(text)).map(family_of)
}

fn family_of(address: IpAddr) -> Family {
    if address.is_ipv4() { Family::V4 } else { Family::V6 }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::delegate::Command;

    fn request(configs: &[Value]) -> Value {
        let named = |(position, config): (usize, &Value)| {
            let mut config = config.clone();
            let inner = if config.get("config").is_some() { &mut config["config"] } else { &mut config };
            for (key, value) in [("cniVersion", json!("1.0.0")), ("name", json!(format!("n{position}")))] {
                if inner.get(key).is_none() {
                    inner[key] = value;
                }
            }
            if inner.get("plugins").is_none() {
                inner["type"] = json!("x");
            }
            config
        };
        let delegates: Vec<Value> = configs.iter().enumerate().map(named).collect();
        json!({"cniVersion": "1.0.0", "name": "outer", "parallel": true, "delegates": delegates})
    }

    fn parse(configs: &[Value]) -> Result<Conf, CniError> {
        Conf::parse(request(configs).to_string().as_bytes(), Command::Add)
    }

    /// What is said of these secondaries; empty if they may run.
    fn said(secondaries: &[Value]) -> String {
        match parse(&[&[json!({})], secondaries].concat()) {
            Ok(_) => String::new(),
            Err(error) => {
                assert_eq!(error.code, 7, "{}", error.msg);
                error.msg
            }
        }
    }

    fn ipam(routes: Value) -> Value {
        json!({"ipam": {"type": "host-local", "routes": routes}})
    }

    fn routed(dst: &str) -> Value {
        ipam(json!([{"dst": "10.0.0.0/8"}, {"dst": dst}]))
    }

    fn list(last: Value) -> Value {
        json!({"plugins": [{"type": "macvlan"}, last]})
    }

    #[test]
    fn all_rivals_of_all_families_are_named() {
        let both = ipam(json!([{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]));
        let text = said(&[routed("::/0"), json!({}), both, routed("0.0.0.0/0"), routed("0.0.0.0/0")]);
        let rivals = "ipv4: delegates[3] (n3) by ipam.routes, delegates[4] (n4) by ipam.routes, delegates[5] (n5) by \
                      ipam.routes; ipv6: delegates[1] (n1) by ipam.routes, delegates[3] (n3) by ipam.routes; leave it";
        assert!(text.contains(rivals) && text.contains("parallel"), "{text}");
    }

    #[test]
    fn the_primary_and_other_families_are_no_rivals() {
        parse(&[routed("0.0.0.0/0"), routed("0.0.0.0/0"), routed("::/0")]).unwrap();
        parse(&[routed("0.0.0.0/0"), routed("10.1.0.0/16"), routed("0.0.0.0/0")]).unwrap();
        assert_eq!(said(&[ipam(json!([{"dst": 7}, 7])), routed("::/0")]), "");
        let unused = json!({"ipam": {"routes": [{"dst": "::/0"}]}});
        assert_eq!(said(&[unused, routed("::/0")]), "", "no IPAM plugin runs");
    }

    #[test]
    fn beside_another_mistake_positions_are_not_known() {
        let text = said(&[json!({"config": {}, "mac": 7}), routed("::/0"), routed("::/0")]);
        assert!(text.contains("delegates[1]") && !text.contains("chance"), "{text}");
    }

    #[test]
    fn a_bridge_that_is_the_default_gateway_counts_in_the_families_of_its_addresses() {
        let bridge = |ipam: Value| json!({"isDefaultGateway": true, "ipam": ipam});
        let v4 = bridge(json!({"type": "host-local", "ranges": [[{"subnet": "10.0.0.0/24"}]]}));
        let v6 = bridge(json!({"type": "static", "addresses": [{"address": "fd00::5/64"}]}));
        let old = bridge(json!({"type": "host-local", "subnet": "10.0.0.0/24"}));
        let dhcp = bridge(json!({"type": "dhcp"}));
        assert_eq!(said(&[v4.clone(), v6.clone()]), "");
        for (one, other) in [(&v4, &old), (&v6, &dhcp), (&v4, &dhcp), (&v4, &routed("0.0.0.0/0"))] {
            let text = said(&[one.clone(), other.clone()]);
            assert!(
                text.contains("delegates[1] (n1) by isDefaultGateway, delegates[2]"),
                "{one} {other}: {text}"
            );
        }
        assert_eq!(
            said(&[json!({"isDefaultGateway": true}), dhcp]),
            "",
            "without an IPAM there is no gateway"
        );
        let mut asking = v4.clone();
        asking["capabilities"] = json!({"ips": true});
        let asking = json!({"config": asking, "ips": ["fd01::5/64"]});
        assert!(said(&[asking, v6]).contains("ipv6: delegates[1] (n1) by isDefaultGateway, delegates[2]"));
    }

    #[test]
    fn a_route_of_another_table_is_no_rival_where_the_plugins_know_tables() {
        let route = |version: &str, table: Value| {
            let mut config = ipam(json!([{"dst": "0.0.0.0/0", "table": table}]));
            config["cniVersion"] = json!(version);
            config
        };
        for (version, table, refused) in [
            ("1.1.0", json!(100), false),
            ("1.1.0", json!(254), true),
            ("1.1.0", json!(0), true),
            ("1.1.0", json!(null), true),
            ("1.1.0", json!("100"), true),
            ("1.0.0", json!(100), true),
        ] {
            let text = said(&[route(version, table.clone()), routed("0.0.0.0/0")]);
            assert_eq!(!text.is_empty(), refused, "{version} {table}: {text}");
        }
    }

    #[test]
    fn what_route_override_adds_counts_and_what_it_takes_away_does_not_help() {
        let add =
            list(json!({"type": "route-override", "addroutes": [{"dst": "0.0.0.0/0", "gw": "10.0.0.1"}]}));
        let rivals = "delegates[1] (n1) by addroutes, delegates[2] (n2) by ipam.routes";
        assert!(said(&[add.clone(), routed("0.0.0.0/0")]).contains(rivals));
        assert_eq!(said(&[add.clone(), routed("::/0")]), "");

        let argued = |addroutes: Value| {
            let args = json!({"addroutes": addroutes});
            json!({"config": add, "cni-args": args})
        };
        assert_eq!(said(&[argued(json!([])), routed("0.0.0.0/0")]), "");
        assert!(said(&[argued(json!([{"dst": "::/0"}])), routed("::/0")]).contains("by addroutes"));
        assert!(said(&[argued(json!(null)), routed("0.0.0.0/0")]).contains("by addroutes"));

        for last in [json!({"type": "route-override", "flushgateway": true}), json!({"type": "sbr"})] {
            let mut first = routed("0.0.0.0/0");
            first["type"] = json!("bridge");
            let list = json!({"plugins": [first, last]});
            assert!(said(&[list, routed("0.0.0.0/0")]).contains("delegates[1] (n1) by ipam.routes"));
        }
    }

    #[test]
    fn both_ways_of_one_list_are_named() {
        let add = json!({"type": "route-override", "addroutes": [{"dst": "::/0"}]});
        let list =
            json!({"plugins": [{"type": "x", "ipam": {"type": "y", "routes": [{"dst": "::/0"}]}}, add]});
        assert!(said(&[list, routed("::/0")]).contains("delegates[1] (n1) by ipam.routes and addroutes, "));
    }

    #[test]
    fn a_chained_catena_that_overrides_the_gateway_counts() {
        let nested = |entry: Value| list(json!({"type": "catena", "pipeline": [entry]}));
        let config = json!({"override": ["10.0.0.1"]});
        let overrides = nested(json!({"stage": "default-gateway", "config": config}));
        let rivals =
            "ipv4: delegates[1] (n1) by the pipeline's override, delegates[2] (n2) by ipam.routes; leave";
        assert!(said(&[overrides.clone(), routed("0.0.0.0/0")]).contains(rivals));
        assert_eq!(said(&[overrides, routed("::/0")]), "");
        for entry in [
            json!({"stage": "default-gateway", "config": config, "mode": "monitor"}),
            json!({"stage": "default-gateway", "config": {"filter": ["ipv4"]}}),
            json!({"stage": "another", "config": config}),
        ] {
            assert_eq!(said(&[nested(entry), routed("0.0.0.0/0")]), "");
        }
        let other =
            list(json!({"type": "other", "pipeline": [{"stage": "default-gateway", "config": config}]}));
        assert_eq!(said(&[other, routed("0.0.0.0/0")]), "");
    }

    #[test]
    fn who_counts_on_a_default_route_that_cannot_be_seen_has_one() {
        let own = |config: Value| json!({"config": config, "default-route": []});
        let text = said(&[own(json!({"ipam": {"type": "dhcp"}})), routed("0.0.0.0/0")]);
        assert!(text.contains("ipv4: delegates[1] (n1) by default-route: [], delegates[2] (n2)"), "{text}");
        assert!(said(&[own(json!({})), routed("::/0")]).contains("by default-route: []"));
        let v6 = json!({"ipam": {"type": "whereabouts", "subnet": "fd00::/64"}});
        assert_eq!(said(&[own(v6), routed("0.0.0.0/0")]), "");
        assert_eq!(said(&[own(routed("::/0")), routed("0.0.0.0/0")]), "", "what can be seen is enough");
        let asked = json!({"config": {"ipam": {"type": "dhcp"}}, "default-route": ["10.0.0.1"]});
        assert_eq!(said(&[asked, routed("0.0.0.0/0")]), "", "the pipeline sets it, when all have ended");
    }

    fn lists(conf: &Conf) -> Vec<NetworkList> {
        let Role::Meta(specs) = &conf.role else { panic!("{conf:?}") };
        specs.iter().map(|spec| spec.list.clone()).collect()
    }

    #[test]
    fn what_a_stage_has_rewritten_is_refused_as_such() {
        let node = NodeConfig::default();
        let refused = |conf: &Conf, lists: &[NetworkList]| {
            conf.refuse_rivals(&lists.iter().collect::<Vec<_>>(), &node)
                .map_err(|error| (error.code, error.msg))
        };
        let mut conf = parse(&[json!({}), routed("0.0.0.0/0"), routed("10.1.0.0/16")]).unwrap();
        let mut lists = lists(&conf);
        refused(&conf, &lists).unwrap();
        let mut value = lists[2].to_value().clone();
        value["plugins"][0]["ipam"]["routes"][1]["dst"] = json!("0.0.0.0/0");
        lists[2] = NetworkList::from_value(&value).unwrap();
        let (code, text) = refused(&conf, &lists).unwrap_err();
        let rivals = "ipv4: delegates[1] (n1) by ipam.routes, delegates[2] (n2, rewritten by a stage) by ipam.routes; ";
        assert!(code == 7 && text.contains(rivals), "{text}");
        conf.parallel = false;
        refused(&conf, &lists).unwrap();
    }

    #[test]
    fn the_nodes_own_pipelines_are_known_where_the_node_is() {
        let nested = |pipeline: Value| list(json!({"type": "catena", "pipeline": pipeline}));
        let conf =
            parse(&[json!({}), nested(json!("moved")), nested(json!(null)), routed("0.0.0.0/0")]).unwrap();
        let lists = lists(&conf);
        let refused = |node: Value| {
            let node = NodeConfig::parse(Path::new("node.json"), node.to_string().as_bytes()).unwrap();
            conf.refuse_rivals(&lists.iter().collect::<Vec<_>>(), &node).map_err(|error| error.msg)
        };
        let entry = json!({"stage": "default-gateway", "config": {"override": ["10.0.0.1"]}});
        refused(json!({})).unwrap();
        let text = refused(json!({"pipelines": {"moved": [entry]}})).unwrap_err();
        assert!(text.contains("ipv4: delegates[1] (n1) by the pipeline's override, delegates[3]"), "{text}");
        let text = refused(json!({"pipelines": {"moved": [], "default": [entry]}})).unwrap_err();
        assert!(text.contains("ipv4: delegates[2] (n2) by the pipeline's override, delegates[3]"), "{text}");
    }
}
