//! The recorded behaviour of the reference plugins (tests/vectors/routes): what each config makes.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::conf::Family;
use crate::state;
use crate::world::World;

/// The name of the pod's namespace in the recordings.
pub const POD: &str = "vrpod";

/// One recorded ADD.
#[derive(Debug, Clone)]
pub struct Case {
    pub id: String,
    pub config: Value,
    /// Whether ADD succeeded.
    pub succeeds: bool,
    recorded: Value,
}

/// The file `NAME.json` of tests/vectors.
pub fn document(name: &str) -> Value {
    let path = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/vectors/{}.json"), name);
    let text = fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Its cases.
pub fn cases(name: &str) -> Vec<Value> {
    let document = document(name);
    let cases = document["cases"].as_array().expect("cases").clone();
    assert_eq!(document["count"].as_u64(), Some(cases.len() as u64), "{name} is complete");
    cases
}

/// All cases that Debian's plugins were recorded with.
pub fn route_cases() -> Vec<Case> {
    cases("routes/routes-debian-1.1.1")
        .into_iter()
        .map(|case| Case {
            id: case["id"].as_str().expect("an id").to_owned(),
            config: case["config"].clone(),
            succeeds: case["exit"] == 0,
            recorded: case,
        })
        .collect()
}

impl Case {
    /// The links that the recordings had beside the plugins' own: vm0 and vm1, a veth pair.
    pub fn prepare(world: &World) {
        world.sh("ip link add vm0 type veth peer name vm1; ip link set vm0 up; ip link set vm1 up");
    }

    /// Fails unless the world's routes and addresses are the recorded ones. The pod's namespace is [`POD`].
    pub fn compare_kernel(&self, world: &World) {
        let netns = format!("/run/netns/{POD}");
        for (place, netns) in [("pod", Some(netns.as_str())), ("host", None)] {
            for (family, key) in [(Family::V4, "route4"), (Family::V6, "route6")] {
                let recorded = self.recorded[place][key].as_array().expect("recorded routes");
                same(
                    &format!("{}: {place} {key}", self.id),
                    &state::routes(world, netns, family),
                    &state::route_lines(recorded),
                );
            }
        }
    }

    /// Fails unless the result is the recorded one, MACs and veth names aside. An empty `dns` is no dns.
    pub fn compare_result(&self, result: &Value) {
        assert_eq!(normal(result), normal(&self.recorded["result"]), "{}: the result", self.id);
    }

    /// The recorded exit of CHECK right after ADD, if it was tried.
    pub fn check_succeeds(&self) -> bool {
        self.recorded["check_after_add"]["exit"] == 0
    }
}

/// Whether two results say the same, MACs and veth names aside. An empty `dns` is no dns.
pub fn same_result(a: &Value, b: &Value) -> bool {
    normal(a) == normal(b)
}

fn same(what: &str, found: &BTreeSet<String>, recorded: &BTreeSet<String>) {
    let more: Vec<_> = found.difference(recorded).collect();
    let less: Vec<_> = recorded.difference(found).collect();
    assert!(more.is_empty() && less.is_empty(), "{what}: not as recorded\nmore: {more:#?}\nless: {less:#?}");
}

fn normal(result: &Value) -> Value {
    let mut result = result.clone();
    for interface in result["interfaces"].as_array_mut().into_iter().flatten() {
        let name = state::mask(interface["name"].as_str().unwrap_or_default());
        interface["name"] = Value::String(name);
        if let Some(object) = interface.as_object_mut() {
            object.remove("mac");
        }
    }
    if let Some(object) = result.as_object_mut()
        && object.get("dns").is_some_and(|dns| *dns == serde_json::json!({}))
    {
        object.remove("dns");
    }
    // Members in one order, so that only what they say counts.
    sorted(&result)
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut members: Vec<_> = object.iter().collect();
            members.sort_by_key(|(key, _)| key.as_str());
            Value::Object(members.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}
