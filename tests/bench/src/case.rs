//! What is attached, and the calls that do it: through catena, through another meta-plugin, or one delegate after the
//! other without any.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::place::Place;
use crate::process::Spec;
use crate::subject::{Meta, Subject};

/// Networks for one pod.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// By attachment: the delegate's config, and the interface.
    pub(crate) networks: Vec<(Value, String)>,
    /// The attachment that asks for the default route, and its gateways.
    pub(crate) asking: Option<(usize, Vec<String>)>,
    /// The version that is asked for.
    pub(crate) version: &'static str,
    /// Whether the secondaries' delegates run side by side.
    pub(crate) parallel: bool,
    /// Folder of node.json, modules and state, which each meta-plugin has one of.
    pub(crate) root: &'static str,
    /// Whether another meta-plugin has nothing to compare.
    pub(crate) only_catena: bool,
}

/// The root that all cases share which need none of their own.
pub(crate) const ROOT: &str = "root";

/// The root in which a module was installed.
pub(crate) const ROOT_WITH_MODULE: &str = "root-with-module";

/// Result of a canned delegate in that network namespace: of exactly so many bytes, where that is more than it needs.
fn result(netns: &str, ifname: &str, bytes: usize) -> String {
    let n = number(ifname);
    let mut result = json!({
        "cniVersion": "1.1.0",
        "interfaces": [{"name": ifname, "sandbox": netns}],
        "ips": [
            {"address": format!("10.80.{n}.2/24"), "gateway": format!("10.80.{n}.1"), "interface": 0},
            {"address": format!("fd00:50:{n:x}::2/64"), "gateway": format!("fd00:50:{n:x}::1"), "interface": 0},
        ],
        "routes": [{"dst": "0.0.0.0/0", "gw": format!("10.80.{n}.1")}, {"dst": "::/0", "gw": format!("fd00:50:{n:x}::1")}],
    });
    let domain = |length| json!({"domain": "x".repeat(length)});
    // What the text of the domain needs without a character of it: comma, key and colon.
    let rest = bytes.saturating_sub(domain(0).to_string().len() + r#","dns":"#.len());
    let mut size = result.to_string().len();
    let mut more: Vec<Value> = Vec::new();
    loop {
        let i = more.len();
        let route = if i.is_multiple_of(2) {
            json!({"dst": format!("172.{}.{}.{}/32", 16 + i / 65536, i / 256 % 256, i % 256),
                   "gw": format!("10.80.{n}.1")})
        } else {
            json!({"dst": format!("fd00:60::{i:x}/128"), "gw": format!("fd00:50:{n:x}::1")})
        };
        let with = size + route.to_string().len() + 1;
        if with > rest {
            break;
        }
        size = with;
        more.push(route);
    }
    if let Some(routes) = result["routes"].as_array_mut() {
        routes.extend(more);
    }
    if size < rest {
        result["dns"] = domain(rest - size);
    }
    result.to_string()
}

fn number(ifname: &str) -> usize {
    ifname.strip_prefix("net").and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The interface of an attachment.
pub(crate) fn ifname(position: usize) -> String {
    if position == 0 { "eth0".to_owned() } else { format!("net{position}") }
}

impl Case {
    /// So many canned delegates; with `linked` their links are really there.
    pub(crate) fn canned(place: &Place, count: usize, linked: bool, bytes: usize) -> Result<Case, String> {
        let kind = if linked { "linked" } else { "instant" };
        let mut networks = Vec::new();
        for position in 0..count {
            let ifname = ifname(position);
            let file = place.folder.join("bin").join(format!("result-{ifname}"));
            fs::write(&file, result(&place.pod, &ifname, bytes))
                .map_err(|error| format!("{}: {error}", file.display()))?;
            let conf = json!({"cniVersion": "1.1.0", "name": format!("{kind}{position}"), "type": kind});
            networks.push((conf, ifname));
        }
        Ok(Case {
            name: format!("{kind} ×{count}"),
            networks,
            asking: None,
            version: "1.1.0",
            parallel: false,
            root: ROOT,
            only_catena: false,
        })
    }

    /// The same at once, where the meta-plugin can.
    pub(crate) fn at_once(mut self) -> Case {
        self.parallel = true;
        self.name += ", at once";
        self
    }

    /// The same with an installed module in the place of a built-in stage.
    pub(crate) fn with_module(mut self) -> Case {
        self.root = ROOT_WITH_MODULE;
        self.only_catena = true;
        self.name += ", a module installed";
        self
    }

    /// Whether there is something to measure.
    pub(crate) fn is_for(&self, subject: &Subject<'_>) -> bool {
        !self.only_catena || !subject.is_other()
    }

    /// Two canned delegates with links, of which the second asks for the default route of both families: the first
    /// one's is deleted, the second one's is set anew.
    pub(crate) fn moved(place: &Place) -> Result<Case, String> {
        let mut case = Case::canned(place, 2, true, 0)?;
        case.asking = Some((1, vec!["10.80.1.1".to_owned(), "fd00:50:1::1".to_owned()]));
        case.name = "linked ×2, default route moved".to_owned();
        Ok(case)
    }

    /// The reference plugins; `asking` moves the default route from ptp to bridge. Those of Debian know no version
    /// above 1.0.0, so there is no STATUS of theirs to compare with.
    pub(crate) fn reference(place: &Place, kinds: &[&str], asking: bool) -> Case {
        let network = |(position, kind): (usize, &&str)| {
            let n = position + 1;
            let mut conf = json!({
                "cniVersion": "1.0.0", "name": format!("{kind}{n}"), "type": kind,
                "ipam": {
                    "type": "host-local", "dataDir": place.folder.join("ipam"),
                    "ranges": [[{"subnet": format!("10.81.{n}.0/24")}], [{"subnet": format!("fd00:51:{n}::/64")}]],
                },
            });
            if *kind == "ptp" {
                conf["ipam"]["routes"] = json!([{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]);
            } else {
                conf["bridge"] = json!(format!("br{n}"));
                conf["isGateway"] = json!(true);
            }
            (conf, ifname(position))
        };
        let networks: Vec<_> = kinds.iter().enumerate().map(network).collect();
        let last = networks.len().saturating_sub(1);
        let gateways = vec![format!("10.81.{}.1", last + 1), format!("fd00:51:{}::1", last + 1)];
        Case {
            name: format!("{}{}", kinds.join(" + "), if asking { ", default route moved" } else { "" }),
            networks,
            asking: asking.then_some((last, gateways)),
            version: "1.0.0",
            parallel: false,
            root: ROOT,
            only_catena: false,
        }
    }

    /// The config for a meta-plugin of that type.
    fn outer(&self, kind: &str, previous: Option<&Value>) -> Value {
        let delegate = |(position, (conf, _)): (usize, &(Value, String))| match &self.asking {
            Some((asking, gateways)) if *asking == position => {
                // Only catena reads this form. Multus takes such a request from a pod's annotation alone, so there is
                // no form that both know.
                json!({"config": conf, "default-route": gateways})
            }
            _ => conf.clone(),
        };
        let delegates: Vec<Value> = self.networks.iter().enumerate().map(delegate).collect();
        let mut outer =
            json!({"cniVersion": self.version, "name": "bench", "type": kind, "delegates": delegates});
        if self.parallel {
            outer["parallel"] = json!(true);
        }
        if let Some(previous) = previous {
            outer["prevResult"] = previous.clone();
        }
        outer
    }

    /// The processes that carry a command out. `results` are what ADD's processes answered, in their order.
    pub(crate) fn specs(
        &self,
        place: &Place,
        subject: &Subject<'_>,
        command: &str,
        results: &[Value],
    ) -> Vec<Spec> {
        match subject {
            Subject::Meta(meta) => {
                let previous = if command == "ADD" || command == "STATUS" { None } else { results.first() };
                let stdin = self.outer(&meta.kind(), previous).to_string();
                vec![meta_spec(place, self.root, meta, command, "eth0", stdin)]
            }
            Subject::Alone => {
                let one = |(position, (conf, ifname)): (usize, &(Value, String))| {
                    let kind = conf["type"].as_str().unwrap_or_default();
                    let mut conf = conf.clone();
                    if command != "ADD"
                        && command != "STATUS"
                        && let Some(previous) = results.get(position)
                    {
                        conf["prevResult"] = previous.clone();
                    }
                    spec(place, &place.folder.join("bin").join(kind), command, ifname, conf.to_string())
                };
                let mut specs: Vec<Spec> = self.networks.iter().enumerate().map(one).collect();
                if command == "DEL" {
                    specs.reverse();
                }
                specs
            }
        }
    }
}

/// A call of a meta-plugin in one of its roots.
pub(crate) fn meta_spec(
    place: &Place,
    root: &str,
    meta: &Meta,
    command: &str,
    ifname: &str,
    stdin: String,
) -> Spec {
    let mut spec = spec(place, &meta.program, command, ifname, stdin);
    spec.env.push(("CATENA_ROOT".to_owned(), place.root(root, meta.name).display().to_string()));
    spec
}

/// VERSION of a meta-plugin.
pub(crate) fn version_spec(place: &Place, meta: &Meta) -> Spec {
    meta_spec(place, ROOT, meta, "VERSION", "", "{}".to_owned())
}

/// A call of a plugin.
fn spec(place: &Place, program: &Path, command: &str, ifname: &str, stdin: String) -> Spec {
    let env = [
        ("CNI_COMMAND", command.to_owned()),
        ("CNI_CONTAINERID", "bench".to_owned()),
        ("CNI_NETNS", place.pod.clone()),
        ("CNI_IFNAME", ifname.to_owned()),
        ("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=bench".to_owned()),
        ("CNI_PATH", place.folder.join("bin").display().to_string()),
        ("PATH", "/usr/sbin:/usr/bin:/sbin:/bin".to_owned()),
    ];
    let env = env.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Spec { program: program.to_owned(), args: Vec::new(), env, stdin }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_has_the_size_that_was_asked_for() {
        let least = result("/pod", "eth0", 0).len();
        for bytes in [1 << 10, 4 << 10, (64 << 10) + 1, 1 << 20] {
            let text = result("/pod", "eth0", bytes);
            assert_eq!(text.len(), bytes);
            let value: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value.to_string(), text);
        }
        assert_eq!(result("/pod", "eth0", 5).len(), least);
    }
}
