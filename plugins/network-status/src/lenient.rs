//! As much of a result as can be read: a status never loses an attachment.

use catena_sdk::Document;
use catena_sdk::cni::result::CniResult;
use catena_sdk::cni::version::SpecVersion;
use serde_json::{Map, Value};

/// The result itself; of one that no version fits, the members that can be read as 1.1.0.
pub(crate) fn read(document: &Document) -> CniResult {
    document.result().unwrap_or_else(|_| match document.value() {
        Ok(Value::Object(members)) => partly(&members),
        _ => CniResult::default(),
    })
}

fn partly(members: &Map<String, Value>) -> CniResult {
    let member = |name: &str| catena_sdk::cni::json::get(members, name).cloned();
    let with = |names: &[(&str, Option<Value>)]| {
        let mut part = Map::new();
        part.insert("cniVersion".into(), SpecVersion::NEWEST.as_str().into());
        let there = names.iter().filter_map(|(name, value)| Some(((*name).to_owned(), value.clone()?)));
        part.extend(there);
        let text = serde_json::to_string(&part).ok()?;
        CniResult::parse(text.as_bytes()).ok().map(|(result, _)| result)
    };
    let (interfaces, ips, dns) = (member("interfaces"), member("ips"), member("dns"));
    let all = [("interfaces", interfaces), ("ips", ips.as_ref().map(elements)), ("dns", dns)];
    // Addresses refer to interfaces by index, so without these they stand alone.
    let alone = [("ips", ips.as_ref().map(|ips| without_index(&elements(ips)))), all[2].clone()];
    with(&all)
        .or_else(|| with(&all[..2]))
        .or_else(|| with(&alone))
        .or_else(|| with(&alone[..1]))
        .or_else(|| with(&all[..1]))
        .unwrap_or_default()
}

/// The addresses that can be read.
fn elements(ips: &Value) -> Value {
    let readable = |ip: &&Value| {
        let address = ip.as_object().and_then(|ip| catena_sdk::cni::json::get(ip, "address"));
        address
            .and_then(Value::as_str)
            .is_some_and(|text| text.parse::<catena_sdk::cni::net::IpNet>().is_ok())
    };
    ips.as_array().map(|ips| ips.iter().filter(readable).cloned().collect()).unwrap_or(Value::Null)
}

fn without_index(ips: &Value) -> Value {
    let bare = |ip: &Value| {
        let address = ip.as_object().and_then(|ip| catena_sdk::cni::json::get(ip, "address"));
        serde_json::json!({ "address": address })
    };
    ips.as_array().map(|ips| ips.iter().map(bare).collect()).unwrap_or(Value::Null)
}
