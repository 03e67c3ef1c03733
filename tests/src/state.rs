//! What a kernel and the state folders of a world say, in a form that two worlds can be compared in: veth names,
//! MACs and link-local addresses are masked, and what depends on timing is left out.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::conf::Family;
use crate::world::World;

/// A default route of the main table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DefaultRoute {
    pub metric: u64,
    pub dev: String,
    pub gateway: String,
}

/// Everything that a life of a pod may leave behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traces(pub BTreeSet<String>);

/// All routes of a family in a form to compare: every table, one line each.
pub fn routes(world: &World, netns: Option<&str>, family: Family) -> BTreeSet<String> {
    route_lines(&world.ip(netns, &format!("{} route show table all", family.option())))
}

/// Routes as `ip -j` gives them, as lines. Left out is what depends on timing: link-local and multicast routes, and
/// IPv6's local table, which an address enters only after duplicate address detection.
pub fn route_lines(routes: &[Value]) -> BTreeSet<String> {
    routes
        .iter()
        .filter(|route| {
            let dst = route["dst"].as_str().unwrap_or_default();
            let dev = route["dev"].as_str().unwrap_or_default();
            let local6 = dst.contains(':') && route["table"] == "local";
            !local6 && !dst.starts_with("fe80:") && !dst.starts_with("ff00:") && !dev.starts_with("vm")
        })
        .map(route_line)
        .collect()
}

fn route_line(route: &Value) -> String {
    let mut words = Vec::new();
    for key in [
        "type", "dst", "gateway", "dev", "metric", "table", "protocol", "scope", "prefsrc", "via",
        "nexthops", "metrics", "expires",
    ] {
        match &route[key] {
            Value::Null => {}
            Value::String(text) => words.push(format!("{key} {}", mask(text))),
            other => words.push(format!("{key} {}", mask(&other.to_string()))),
        }
    }
    words.join(" ")
}

/// The default routes of the main table in order of their metric, each leg of a multipath route for itself.
pub fn defaults(world: &World, netns: &str, family: Family) -> Vec<DefaultRoute> {
    let mut found = Vec::new();
    for route in world.ip(Some(netns), &format!("{} route show table main", family.option())) {
        if route["dst"] != "default" {
            continue;
        }
        let metric = route["metric"].as_u64().unwrap_or(0);
        let legs = match route["nexthops"].as_array() {
            Some(legs) => legs.clone(),
            None => vec![route.clone()],
        };
        for leg in legs {
            found.push(DefaultRoute {
                metric,
                dev: leg["dev"].as_str().unwrap_or_default().to_owned(),
                gateway: leg["gateway"].as_str().unwrap_or_default().to_owned(),
            });
        }
    }
    found.sort();
    found
}

/// The same, from traces that were read before.
pub fn defaults_of(traces: &Traces, family: Family) -> Vec<DefaultRoute> {
    let start = format!("pod {} dst default ", family.name());
    let mut found: Vec<DefaultRoute> = traces
        .0
        .iter()
        .filter_map(|line| line.strip_prefix(&start))
        .filter(|rest| !rest.contains("table "))
        .map(|rest| {
            let words: Vec<&str> = rest.split(' ').collect();
            let word = |key: &str| {
                words.iter().position(|word| *word == key).and_then(|at| words.get(at + 1)).copied()
            };
            DefaultRoute {
                metric: word("metric").and_then(|text| text.parse().ok()).unwrap_or(0),
                dev: word("dev").unwrap_or_default().to_owned(),
                gateway: word("gateway").unwrap_or_default().to_owned(),
            }
        })
        .collect();
    found.sort();
    found
}

/// Shorthand for what [`defaults`] should find.
pub fn via(gateway: &str, dev: &str, metric: u64) -> DefaultRoute {
    DefaultRoute { metric, dev: dev.to_owned(), gateway: gateway.to_owned() }
}

/// What a CNI result says about default routes of a family: the gateways, `""` where a route has none.
pub fn default_gateways(result: &Value, family: Family) -> Vec<String> {
    result["routes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|route| route["dst"] == family.any())
        .map(|route| route["gw"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// The gateways of a family that a CNI result has beside its addresses.
pub fn address_gateways(result: &Value, family: Family) -> Vec<String> {
    result["ips"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|ip| ip["gateway"].as_str())
        .filter(|gateway| family.owns(gateway))
        .map(str::to_owned)
        .collect()
}

/// The gateways of a family in an element of the network status.
pub fn status_gateways(element: &Value, family: Family) -> Vec<String> {
    element["gateway"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .filter(|gateway| family.owns(gateway))
        .map(str::to_owned)
        .collect()
}

/// The names of the links in a namespace, veth names masked, loopback left out.
pub fn links(world: &World, netns: Option<&str>) -> Vec<String> {
    let mut names: Vec<String> = world
        .ip(netns, "link show")
        .iter()
        .filter_map(|link| link["ifname"].as_str())
        .filter(|name| *name != "lo")
        .map(mask)
        .collect();
    names.sort();
    names
}

/// The global addresses in a namespace: `dev address/len`.
pub fn addresses(world: &World, netns: Option<&str>) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for link in world.ip(netns, "address show") {
        let dev = mask(link["ifname"].as_str().unwrap_or_default());
        for address in link["addr_info"].as_array().into_iter().flatten() {
            if address["scope"] == "global" {
                lines.insert(format!(
                    "{dev} {}/{}",
                    address["local"].as_str().unwrap_or_default(),
                    address["prefixlen"]
                ));
            }
        }
    }
    lines
}

impl Traces {
    /// Reads everything: links, addresses and routes of the host and of the pod, files of state, processes, and
    /// the sysctls that catena may touch.
    pub fn of(world: &World, netns: Option<&str>) -> Traces {
        let mut lines = BTreeSet::new();
        let mut spaces = vec![("host", None)];
        if let Some(path) = netns.filter(|path| world.path(path).exists()) {
            spaces.push(("pod", Some(path)));
        }
        for (label, space) in spaces {
            let names = links(world, space);
            for (index, name) in names.iter().enumerate() {
                let nth = names[..index].iter().filter(|other| *other == name).count() + 1;
                lines.insert(format!("{label} link {name} ({nth})"));
            }
            for address in addresses(world, space) {
                lines.insert(format!("{label} address {address}"));
            }
            for family in Family::ALL {
                for route in routes(world, space, family) {
                    lines.insert(format!("{label} {} {route}", family.name()));
                }
            }
        }
        if let Some(path) = netns.filter(|path| world.path(path).exists()) {
            let sysctls = world.pod_sh(path, "grep -H . /proc/sys/net/ipv6/conf/*/accept_ra_defrtr");
            lines.extend(sysctls.lines().map(|line| format!("pod sysctl {line}")));
        }
        for folder in ["/var/lib", "/run", "/etc/catena", "/tmp"] {
            for file in world.files(folder).keys() {
                let ours_to_ignore = file.starts_with("/run/netns/")
                    || file.starts_with("/run/mount/")
                    || file.starts_with("/run/scripted/")
                    || file.starts_with("/run/catena/versions.json");
                if !ours_to_ignore {
                    lines.insert(format!("file {file}"));
                }
            }
        }
        lines.extend(world.processes().into_iter().map(|line| format!("process {line}")));
        Traces(lines)
    }

    /// What kernel and processes show.
    pub fn without_files(&self) -> Traces {
        Traces(self.0.iter().filter(|line| !line.starts_with("file ")).cloned().collect())
    }

    /// All but processes.
    pub fn without_processes(&self) -> Traces {
        Traces(self.0.iter().filter(|line| !line.starts_with("process ")).cloned().collect())
    }

    /// Fails if anything is here that the other does not have.
    pub fn nothing_more_than(&self, other: &Traces, when: &str) {
        let more: Vec<&String> = self.0.difference(&other.0).collect();
        assert!(more.is_empty(), "{when}, there is more left than without catena: {more:#?}");
    }

    /// Fails unless both are the same.
    pub fn same_as(&self, other: &Traces, when: &str) {
        self.nothing_more_than(other, when);
        let less: Vec<&String> = other.0.difference(&self.0).collect();
        assert!(less.is_empty(), "{when}, something is missing: {less:#?}");
    }
}

/// Masks the random parts of a text: names of veth ends as the reference plugins make them.
pub fn mask(text: &str) -> String {
    let mut masked = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("veth") {
        let digits = rest[at + 4..].bytes().take_while(u8::is_ascii_hexdigit).count();
        masked.push_str(&rest[..at]);
        masked.push_str(if digits == 8 { "VETH0" } else { "veth" });
        rest = &rest[at + 4 + if digits == 8 { 8 } else { 0 }..];
    }
    masked + rest
}
