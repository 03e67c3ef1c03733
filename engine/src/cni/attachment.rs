//! One entry of `delegates`: the network to attach to, and what is asked for.

use std::net::IpAddr;

use catena_cni::identifier::{IfName, NetworkName};
use catena_cni::json::{self, Map};
use catena_cni::list::NetworkList;
use serde_json::Value;

use super::error::Problems;
use super::member::{bad, known, member, spelt, unknown};
use super::{selection, stdin};
use crate::node::{At, Problem};

/// An attachment as the config describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct AttachmentSpec {
    /// Namespace and name of the NetworkAttachmentDefinition, if it comes from one.
    pub nad: Option<(Option<String>, String)>,
    /// The interface name that was asked for.
    pub interface: Option<IfName>,
    /// The `default-route` request: gateways, none of them to keep the delegate's own.
    pub default_route: Option<Vec<IpAddr>>,
    /// `"catena.dev/default-route": "none"`.
    pub default_route_none: bool,
    /// Addresses that were asked for, as written.
    pub ips: Vec<String>,
    /// The MAC address that was asked for, as written.
    pub mac: Option<String>,
    /// Port mappings, checked, as written.
    pub port_mappings: Option<Value>,
    /// Bandwidth limits, checked, as written.
    pub bandwidth: Option<Value>,
    /// The InfiniBand GUID that was asked for, as written.
    pub infiniband_guid: Option<String>,
    /// The network; a single config is wrapped into a list.
    pub list: NetworkList,
}

const KEYS: [&str; 12] = [
    "name",
    "namespace",
    "ips",
    "mac",
    "interface",
    "portMappings",
    "bandwidth",
    "infiniband-guid",
    "cni-args",
    "default-route",
    "catena.dev/default-route",
    "config",
];

const PIPELINE_HINT: &str = "a pipeline belongs beside delegates, where it holds for all of them";

impl AttachmentSpec {
    /// Reads an entry and notes all its problems; absent only where there is one. `own_type` is the `type` of the
    /// config that it stands in.
    pub fn read(raw: &Value, at: &At<'_>, own_type: &str, problems: &mut Problems) -> Option<Self> {
        let Value::Object(map) = raw else {
            problems.add(bad(at, raw, "a config, a list or an attachment object"));
            return None;
        };
        let earlier = problems.count();
        let key = at.member(spelt(map, "config"));
        let (asked, config, at) = match member(map, "config") {
            Some(config) => (Selection::read(map, at, problems), parsed(config, &key), &key),
            None => (Selection::default(), Ok(raw.clone()), at),
        };
        let list = config.and_then(|config| network(config, asked.cni_args.as_ref(), at, own_type));
        let list = problems.take(list)?;
        let spec = Self {
            nad: asked.nad,
            interface: asked.interface,
            default_route: asked.default_route,
            default_route_none: asked.default_route_none,
            ips: asked.ips,
            mac: asked.mac,
            port_mappings: asked.port_mappings,
            bandwidth: asked.bandwidth,
            infiniband_guid: asked.infiniband_guid,
            list,
        };
        for (capability, _) in spec.capabilities() {
            if !spec.list.plugins.iter().any(|plugin| plugin.capabilities().contains(&capability)) {
                problems.add(Problem::value(
                    at,
                    format!(
                        "{at}: {capability} is asked for, but no plugin of network {:?} declares the capability \
                         {capability}; add \"capabilities\": {{\"{capability}\": true}} to the one that has it",
                        spec.list.name
                    ),
                ));
            }
        }
        (problems.count() == earlier).then_some(spec)
    }

    /// The name in the network status: `namespace/name` or `name` of the NetworkAttachmentDefinition, else the
    /// config's own name.
    pub fn status_name(&self) -> String {
        match &self.nad {
            Some((Some(namespace), name)) => format!("{namespace}/{name}"),
            Some((None, name)) => name.clone(),
            None => self.list.name.clone(),
        }
    }

    /// Capability arguments for the delegates. The runtime's own go to the primary only, else host ports would be
    /// mapped twice; what the selection asks for wins.
    pub fn capability_args(&self, primary: bool, runtime: &Map) -> Map {
        let mut args = if primary { runtime.clone() } else { Map::new() };
        for (capability, value) in self.capabilities() {
            args.insert(capability.to_owned(), value);
        }
        args
    }

    /// What the selection asks for by way of capabilities.
    fn capabilities(&self) -> Vec<(&'static str, Value)> {
        let text = |text: &String| Value::String(text.clone());
        let ips: Vec<Value> = self.ips.iter().map(text).collect();
        let wanted = [
            ("ips", (!ips.is_empty()).then_some(Value::Array(ips))),
            ("mac", self.mac.as_ref().map(text)),
            ("portMappings", self.port_mappings.clone()),
            ("bandwidth", self.bandwidth.clone()),
            ("infinibandGUID", self.infiniband_guid.as_ref().map(text)),
        ];
        wanted.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// The keys of an attachment object beside `config`.
#[derive(Default)]
struct Selection {
    nad: Option<(Option<String>, String)>,
    interface: Option<IfName>,
    default_route: Option<Vec<IpAddr>>,
    default_route_none: bool,
    ips: Vec<String>,
    mac: Option<String>,
    port_mappings: Option<Value>,
    bandwidth: Option<Value>,
    infiniband_guid: Option<String>,
    cni_args: Option<Map>,
}

impl Selection {
    fn read(map: &Map, at: &At<'_>, problems: &mut Problems) -> Self {
        let mut asked = Self::default();
        let (mut name, mut namespace) = (None, None);
        for (key, value) in map {
            let place = at.member(key);
            let text = || {
                value
                    .as_str()
                    .filter(|text| !text.is_empty())
                    .map(str::to_owned)
                    .ok_or_else(|| bad(&place, value, "a text that is not empty"))
            };
            let key = match known(key, &KEYS) {
                Some(key) => key,
                None if key.contains('.') => continue,
                None => {
                    let hint = if known(key, &["pipeline"]).is_some() {
                        PIPELINE_HINT.to_owned()
                    } else {
                        format!("an attachment object has {} and keys with a period", KEYS.join(", "))
                    };
                    problems.add(unknown(&place, value, &hint));
                    continue;
                }
            };
            if value.is_null() {
                continue;
            }
            match key {
                "name" => name = problems.take(text()),
                "namespace" => namespace = problems.take(text()),
                "ips" => asked.ips = problems.take(selection::ips(value, &place)).unwrap_or_default(),
                "mac" => asked.mac = problems.take(selection::hardware(value, &place, 6)),
                "interface" => {
                    asked.interface = problems.take(text().and_then(|text| interface(&text, &place)))
                }
                "portMappings" => {
                    asked.port_mappings = problems.take(selection::port_mappings(value, &place));
                }
                "bandwidth" => asked.bandwidth = problems.take(selection::bandwidth(value, &place)),
                "infiniband-guid" => {
                    asked.infiniband_guid = problems.take(selection::hardware(value, &place, 8));
                }
                "cni-args" => {
                    let args = value.as_object().cloned().ok_or_else(|| bad(&place, value, "an object"));
                    asked.cni_args = problems.take(args);
                }
                "default-route" => asked.default_route = problems.take(selection::gateways(value, &place)),
                "catena.dev/default-route" if value.as_str() == Some("none") => {
                    asked.default_route_none = true;
                }
                "catena.dev/default-route" => problems.add(bad(&place, value, "\"none\"")),
                // Read by the caller.
                _ => {}
            }
        }
        if asked.default_route.is_some() && asked.default_route_none {
            problems.add(Problem::value(
                at,
                format!(
                    "{at} asks for the default route (default-route) and to have none \
                     (catena.dev/default-route): use one of the two"
                ),
            ));
        }
        if member(map, "name").is_none() && namespace.is_some() {
            problems.add(Problem::value(
                at,
                format!("{at} has a namespace but no name of a NetworkAttachmentDefinition"),
            ));
        }
        asked.nad = name.map(|name| (namespace, name));
        asked
    }
}

fn interface(text: &str, at: &At<'_>) -> Result<IfName, Problem> {
    IfName::parse(text).map_err(|error| Problem::value(at, format!("{at} is bad: {error}")))
}

/// `config` as an object; NetworkAttachmentDefinitions hold it as text.
fn parsed(config: &Value, at: &At<'_>) -> Result<Value, Problem> {
    let value = match config {
        Value::String(text) => {
            json::parse(text.as_bytes()).map_err(|error| Problem::value(at, format!("{at}: {error}")))?
        }
        other => other.clone(),
    };
    if value.is_object() { Ok(value) } else { Err(bad(at, config, "an object, or JSON text of one")) }
}

/// The list to run, with `args` in every plugin's `args.cni`.
fn network(
    mut config: Value,
    args: Option<&Map>,
    at: &At<'_>,
    own_type: &str,
) -> Result<NetworkList, Problem> {
    let invalid_at = |place: &At<'_>, message: String| Problem::value(place, format!("{at}: {message}"));
    let invalid = |message: String| invalid_at(at, message);
    let Value::Object(map) = &mut config else { return Err(bad(at, &config, "an object")) };
    if let Some(pipeline) = member(map, "pipeline") {
        return Err(unknown(&at.member(spelt(map, "pipeline")), pipeline, PIPELINE_HINT));
    }
    // The list's own keys are spelled exactly, as libcni reads them.
    let is_list = map.contains_key("plugins");
    if let Some(args) = args {
        match map.get_mut("plugins") {
            Some(Value::Array(plugins)) => {
                // Each plugin gets a copy: together not more than a whole request.
                let size = Value::Object(args.clone()).to_string().len();
                if size.saturating_mul(plugins.len()) > stdin::LIMIT {
                    let (bytes, count) = (size, plugins.len());
                    return Err(invalid(format!(
                        "cni-args of {bytes} bytes are too large for {count} plugins"
                    )));
                }
                for plugin in plugins.iter_mut().filter_map(Value::as_object_mut) {
                    merge_args(plugin, args, at)?;
                }
            }
            // What is wrong with it is said below.
            Some(_) => {}
            None => merge_args(map, args, at)?,
        }
    }
    if !is_list && member(map, "type").is_none() {
        return Err(invalid("it has neither type (a config) nor plugins (a list) nor config".to_owned()));
    }
    let list = if is_list { NetworkList::from_value(&config) } else { NetworkList::from_plugin(&config) };
    let list = list.map_err(|error| invalid(error.to_string()))?;
    if list.plugins.is_empty() {
        return Err(invalid_at(&at.member("plugins"), "plugins is empty".to_owned()));
    }
    NetworkName::parse(&list.name)
        .map_err(|error| invalid_at(&at.member("name"), format!("bad network name: {error}")))?;
    for plugin in &list.plugins {
        if plugin.kind.as_str() == own_type && member(&plugin.raw, "delegates").is_some() {
            return Err(invalid(format!(
                "network {:?} has delegates of its own; a {own_type} with delegates cannot be a delegate of another, \
                 list its delegates in the outer one",
                list.name
            )));
        }
    }
    Ok(list)
}

/// The standard's `cni-args`: they win over the network's own.
fn merge_args(plugin: &mut Map, wanted: &Map, at: &At<'_>) -> Result<(), Problem> {
    let cni = object_in(plugin, "args", at).and_then(|args| object_in(args, "cni", at))?;
    for (key, value) in wanted {
        cni.insert(key.clone(), value.clone());
    }
    Ok(())
}

/// The object in member `name`, made if it is not there.
fn object_in<'a>(map: &'a mut Map, name: &str, at: &At<'_>) -> Result<&'a mut Map, Problem> {
    let key = map
        .iter()
        .rev()
        .map(|(key, _)| key)
        .find(|key| json::same_name(key, name))
        .cloned()
        .unwrap_or_else(|| name.to_owned());
    let member = map.entry(key).or_insert(Value::Null);
    if member.is_null() {
        *member = Value::Object(Map::new());
    }
    match member {
        Value::Object(object) => Ok(object),
        _ => Err(Problem::value(
            at,
            format!("{at}: cni-args cannot be merged into {name}, which is not an object"),
        )),
    }
}
