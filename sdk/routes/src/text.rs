use std::net::IpAddr;

use crate::{Family, Hop, Link, Prefix, Route};

/// RTPROT_BOOT: what CNI plugins leave on their routes.
const PROTOCOL_BOOT: u8 = 3;

impl Route {
    /// Reads a route as `ip route` writes it (ip-route(8)): `default via 10.1.0.1 dev net1 metric 100`, `nexthop`s
    /// included. Its protocol is boot unless said (`proto ra`); what is not said is the kernel's default.
    ///
    /// # Errors
    /// What is wrong, in words: a link that is not among `links`, an unknown word.
    pub fn parse(text: &str, links: &[Link]) -> Result<Route, String> {
        parse(text, links)
    }

    /// As [`Route::parse`] reads it, without what goes without saying: that somebody added it, and the family's
    /// usual metric.
    pub fn brief(&self, links: &[Link]) -> String {
        show(self, links)
    }
}

fn parse(text: &str, links: &[Link]) -> Result<Route, String> {
    let mut words = text.split_whitespace();
    let destination = words.next().ok_or("no destination")?;
    let mut hops: Vec<Hop> = vec![Hop::dev(0)];
    let (mut from, mut metric, mut scope, mut source, mut protocol) = (None, None, None, None, PROTOCOL_BOOT);
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
            "from" => from = Some(value.parse::<Prefix>().map_err(|e| format!("{value}: {e}"))?),
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
        _ if destination.contains(':') || from.is_some() => Family::V6,
        _ => Family::V4,
    };
    let prefix = match destination {
        "default" => Prefix::default_route(family),
        text if text.contains('/') => text.parse().map_err(|e| format!("{text}: {e}"))?,
        text => Prefix::host(text.parse().map_err(|e| format!("{text}: {e}"))?),
    };
    let mut route = Route::new(prefix, hops);
    route.from = from;
    route.metric = metric.unwrap_or(route.metric);
    route.scope = scope.unwrap_or(route.scope);
    route.source = source;
    route.protocol = protocol;
    Ok(route)
}

fn show(route: &Route, links: &[Link]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let links = [Link::simulated(2, "eth0"), Link::simulated(3, "net1")];
        for text in [
            "default via 10.1.0.1 dev eth0",
            "default via 10.1.0.1 dev eth0 metric 100",
            "10.1.0.0/24 dev eth0 scope link",
            "default via fd00::1 dev net1",
            "default via fd00::1 dev net1 metric 5",
            "default from 2001:db8::/64 dev net1",
            "default nexthop via 10.1.0.1 dev eth0 weight 1 nexthop via 10.2.0.1 dev net1 weight 3",
        ] {
            assert_eq!(Route::parse(text, &links).unwrap().brief(&links), text);
        }
        for (bad, word) in [
            ("", "no destination"),
            ("default via 10.1.0.1 dev eth7", "eth7"),
            ("default via", "via without a value"),
            ("10.1.0.0/40 dev eth0", "10.1.0.0/40"),
            ("default dev eth0 colour red", "colour"),
        ] {
            let error = Route::parse(bad, &links).unwrap_err();
            assert!(error.contains(word), "{bad}: {error}");
        }
    }
}
