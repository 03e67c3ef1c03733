//! What a network selection element may ask for (NPWG standard 1.3): each key is checked here, so that a request is
//! never silently unmet.

use std::collections::HashSet;
use std::net::IpAddr;

use catena_cni::json::Map;
use catena_cni::net::{IpNet, parse_ip};
use serde_json::Value;

use super::member::{bad, member, texts};
use crate::node::{At, Problem};

/// Addresses, each with or without prefix length, as they were written; at least one.
pub(super) fn ips(value: &Value, at: &At<'_>) -> Result<Vec<String>, Problem> {
    let ips = texts(value, at)?;
    let valid = |text: &String| parse_ip(text).is_some() || IpNet::parse(text).is_ok();
    if ips.is_empty() || !ips.iter().all(valid) {
        return Err(bad(at, value, "a list of at least one address, each with or without prefix length"));
    }
    Ok(ips)
}

/// Gateways, possibly none.
pub(super) fn gateways(value: &Value, at: &At<'_>) -> Result<Vec<IpAddr>, Problem> {
    let expected =
        "a list of gateway addresses without prefix length (an empty list keeps the delegate's own)";
    let Value::Array(items) = value else { return Err(bad(at, value, expected)) };
    let mut gateways = Vec::with_capacity(items.len());
    let mut seen = HashSet::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let gateway = item
            .as_str()
            .and_then(parse_ip)
            .filter(|address| !address.is_unspecified() && !address.is_multicast() && !address.is_loopback())
            .ok_or_else(|| bad(at, value, expected))?;
        if !seen.insert(gateway) {
            return Err(Problem::value(
                &at.element(index),
                format!("{at} names the gateway {gateway} twice"),
            ));
        }
        gateways.push(gateway);
    }
    Ok(gateways)
}

/// A hardware address of `bytes` bytes, as Go's net.ParseMAC reads it.
pub(super) fn hardware(value: &Value, at: &At<'_>, bytes: usize) -> Result<String, Problem> {
    let valid = |text: &str| {
        let hex = |part: &str, digits: usize| {
            part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let parts = |separator: char, digits: usize| {
            text.split(separator).count() == bytes * 2 / digits
                && text.split(separator).all(|part| hex(part, digits))
        };
        parts(':', 2) || parts('-', 2) || parts('.', 4)
    };
    match value.as_str().filter(|text| valid(text)) {
        Some(text) => Ok(text.to_owned()),
        None => Err(bad(at, value, &format!("a hardware address of {bytes} bytes"))),
    }
}

/// A list of port mappings; handed on as it was written.
pub(super) fn port_mappings(value: &Value, at: &At<'_>) -> Result<Value, Problem> {
    let expected = "a list of objects with hostPort and containerPort (1 to 65535) and, if need be, protocol \
                    (tcp, udp or sctp) and hostIP (an address)";
    let port = |map: &Map, name| {
        member(map, name).and_then(Value::as_u64).is_some_and(|port| (1..=65535).contains(&port))
    };
    let protocol = |map: &Map| {
        member(map, "protocol").is_none_or(|value| {
            let known =
                |text: &str| ["", "tcp", "udp", "sctp"].iter().any(|known| text.eq_ignore_ascii_case(known));
            value.as_str().is_some_and(known)
        })
    };
    let host = |map: &Map| {
        member(map, "hostIP").is_none_or(|value| {
            value.as_str().is_some_and(|text| text.is_empty() || parse_ip(text).is_some())
        })
    };
    let valid = |item: &Value| {
        item.as_object().is_some_and(|map| {
            port(map, "hostPort") && port(map, "containerPort") && protocol(map) && host(map)
        })
    };
    match value {
        Value::Array(items) if items.iter().all(valid) => Ok(value.clone()),
        _ => Err(bad(at, value, expected)),
    }
}

/// Bandwidth limits; handed on as they were written.
pub(super) fn bandwidth(value: &Value, at: &At<'_>) -> Result<Value, Problem> {
    let expected = "an object with ingressRate, ingressBurst, egressRate, egressBurst (whole numbers; a burst needs \
                    its rate)";
    let valid = |map: &Map| {
        let number = |name| match member(map, name) {
            None => Some(0),
            Some(value) => value.as_u64(),
        };
        let pair =
            |rate, burst| number(rate).zip(number(burst)).is_some_and(|(rate, burst)| rate > 0 || burst == 0);
        pair("ingressRate", "ingressBurst") && pair("egressRate", "egressBurst")
    };
    match value {
        Value::Object(map) if valid(map) => Ok(value.clone()),
        _ => Err(bad(at, value, expected)),
    }
}
