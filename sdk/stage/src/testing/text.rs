//! Routes as `ip route` writes them.

use std::net::IpAddr;

use catena_routes::{Family, Hop, Link, Prefix, Route};

/// RTPROT_BOOT: what CNI plugins leave on their routes.
const PROTOCOL_BOOT: u8 = 3;

pub(super) fn route(text: &str, links: &[Link]) -> Result<Route, String> {
    let mut words = text.split_whitespace();
    let destination = words.next().ok_or("no destination")?;
    let mut hops: Vec<Hop> = vec![Hop::dev(0)];
    let (mut metric, mut scope, mut source, mut protocol) = (None, None, None, PROTOCOL_BOOT);
    let mut several = false;
    while let Some(word) = words.next() {
        if word == "nexthop" {
            if several {
                hops.push(Hop::dev(0));
            }
            several = true;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{word} without a value"))?;
        let hop = hops.last_mut().ok_or("no hop")?;
        let address = || value.parse::<IpAddr>().map_err(|e| format!("{value}: {e}"));
        let number = || value.parse::<u32>().map_err(|e| format!("{value}: {e}"));
        match word {
            "via" => hop.gateway = Some(address()?),
            "dev" => {
                let link = links.iter().find(|link| link.name == value);
                hop.link = link.ok_or_else(|| format!("no link {value}"))?.index;
            }
            "weight" => hop.weight = u8::try_from(number()?.saturating_sub(1)).map_err(|e| e.to_string())?,
            "metric" => metric = Some(number()?),
            "src" => source = Some(address()?),
            "proto" => {
                protocol = match value {
                    "kernel" => 2,
                    "boot" => PROTOCOL_BOOT,
                    "static" => 4,
                    "ra" => 9,
                    _ => return Err(format!("unknown protocol {value}")),
                }
            }
            "scope" => scope = Some(if value == "link" { 253 } else { 0 }),
            _ => return Err(format!("unknown word {word}")),
        }
    }
    let family = match (destination, hops.first().and_then(|hop| hop.gateway)) {
        ("default", Some(gateway)) => Family::of(gateway),
        _ if destination.contains(':') => Family::V6,
        _ => Family::V4,
    };
    let prefix = match destination {
        "default" => Prefix::default_route(family),
        text if text.contains('/') => text.parse().map_err(|e| format!("{text}: {e}"))?,
        text => Prefix::host(text.parse().map_err(|e| format!("{text}: {e}"))?),
    };
    let mut route = Route::new(prefix, hops);
    route.metric = metric.unwrap_or(route.metric);
    route.scope = scope.unwrap_or(route.scope);
    route.source = source;
    route.protocol = protocol;
    Ok(route)
}

/// Without what goes without saying: that somebody added it, and the family's usual metric.
pub(super) fn show(route: &Route, links: &[Link]) -> String {
    let name = |index: u32| {
        let link = links.iter().find(|link| link.index == index);
        link.map_or_else(|| format!("index {index}"), |link| link.name.clone())
    };
    let mut usual = route.clone();
    if route.metric == route.family.default_metric() {
        usual.metric = 0;
    }
    usual.text(&name).replace(" proto boot", "").replace(" proto static", "")
}
