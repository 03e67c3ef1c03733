use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use catena::attach::entry::{Entry, Event, IntendedAttachment};
use catena::delegate::cache;
use catena::node::Root;
use catena::report::status::StatusFile;
use catena_cni::result::CniResult;
use catena_routes::Route;
use serde_json::{Value, json};

use crate::entries::{Entries, embedded};
use crate::error::Error;
use crate::namespace::{MAIN, Namespace, interfaces};
use crate::output::{Report, line};
use crate::record::{Change, changes};

/// Show why a container's routes are as they are: kernel, ledger, cache and status side by side
///
/// Each route of the kernel comes with what caused it. Only the main table is looked at.
#[derive(Debug, clap::Args)]
pub(crate) struct Why {
    /// The container's (sandbox's) id, or its beginning
    container: String,
}

impl Why {
    pub(crate) fn run(self) -> Result<Report, Error> {
        let root = Root::from_env();
        let entries = Entries::find(&root, &self.container)?;
        let (mut text, mut documents) = (String::new(), Vec::new());
        for entry in &entries.whole {
            if !text.is_empty() {
                text.push('\n');
            }
            documents.push(explain(&root, entry, &mut text));
        }
        for (stem, error) in &entries.damaged {
            line(&mut text, "damaged", &format!("{stem}: {error}"));
        }
        let damaged: Vec<&String> = entries.damaged.iter().map(|(stem, _)| stem).collect();
        Ok(Report::new(text, json!({ "entries": documents, "damaged": damaged })))
    }
}

/// The gateways of default routes in one place; none where the place has nothing to say.
type Gateways = Option<BTreeSet<String>>;

fn explain(root: &Root, entry: &Entry, text: &mut String) -> Value {
    let intended = &entry.intended;
    line(text, "container", &intended.container_id);
    line(text, "network", &format!("{} {} ({})", intended.network, intended.ifname, intended.mode));
    let now = Namespace::read(entry);
    let mut warnings = Vec::new();
    let mut warn = |text: &mut String, label: &str, why: String| {
        line(text, label, &why);
        warnings.push(why);
    };
    if let Err(why) = &now {
        warn(text, "warning", format!("the kernel was not asked: {why}"));
    }
    let causes = causes(entry);
    let status = status(root, entry).unwrap_or_else(|why| {
        warn(text, "warning", format!("the status: {why}"));
        None
    });
    let mut attachments = Vec::new();
    for (position, attachment) in intended.attachments.iter().enumerate() {
        let result = match entry.attached(position) {
            Some(Event::Attached { result, .. }) => Some(embedded(result)),
            _ => None,
        };
        let names = interfaces(&attachment.ifname, result.as_ref(), &intended.netns);
        line(text, "attachment", &format!("{position}: {} as {}", attachment.name, attachment.ifname));
        line(text, "  intent", &attachment.intent.to_string());

        let mut routes = Vec::new();
        if let Ok(now) = &now {
            for route in now.on(&names) {
                let route_text = now.text(route);
                let cause = causes.added.get(&route_text).cloned().unwrap_or_else(|| origin(route));
                line(text, "  route", &format!("{route_text}    ({cause})"));
                routes.push(json!({ "route": route_text, "cause": cause }));
            }
        }
        let gone: Vec<&(String, String)> =
            causes.removed.iter().filter(|(route, _)| mentions(route, &names)).collect();
        for (route, cause) in &gone {
            line(text, "  gone", &format!("{route}    ({cause})"));
        }

        let cached = cached(entry, attachment).unwrap_or_else(|why| {
            warn(text, "  warning", why);
            None
        });
        let places: [(&str, Gateways); 4] = [
            ("kernel", now.as_ref().ok().map(|now| of_kernel(now, &names))),
            ("ledger", result.as_ref().and_then(of_result)),
            ("cache", cached.as_ref().and_then(of_result)),
            ("status", status.as_ref().and_then(|list| of_status(list, position))),
        ];
        let shown: Vec<String> =
            places.iter().map(|(place, gateways)| format!("{place} {}", list(gateways.as_ref()))).collect();
        line(text, "  default", &shown.join(" | "));
        let known: BTreeSet<&BTreeSet<String>> =
            places.iter().filter_map(|(_, found)| found.as_ref()).collect();
        let agree = known.len() < 2;
        if !agree {
            line(text, "  differs", "the places do not tell the same default routes");
        }
        attachments.push(json!({
            "ifname": attachment.ifname, "network": attachment.network, "name": attachment.name,
            "intent": attachment.intent, "routes": routes,
            "gone": gone.iter().map(|(route, cause)| json!({ "route": route, "cause": cause })).collect::<Value>(),
            "defaults": places.iter().map(|(place, found)| (place.to_string(), json!(found))).collect::<serde_json::Map<_, _>>(),
            "agree": agree,
        }));
    }
    json!({
        "containerId": intended.container_id, "network": intended.network, "ifname": intended.ifname,
        "mode": intended.mode, "kernel": now.as_ref().err(), "attachments": attachments,
        "warnings": warnings,
    })
}

/// What the stages did, by the text of the route.
#[derive(Default)]
struct Causes {
    added: BTreeMap<String, String>,
    removed: Vec<(String, String)>,
}

fn causes(entry: &Entry) -> Causes {
    let mut causes = Causes::default();
    for event in &entry.events {
        let Event::Attached { report, .. } = event else { continue };
        for stage in report["stages"].as_array().into_iter().flatten() {
            let word = |key: &str| stage[key].as_str().unwrap_or_default();
            let digest: String = word("digest").chars().take("sha256:".len() + 8).collect();
            let cause = format!(
                "stage {} {digest} for {}",
                word("stage"),
                report["ifname"].as_str().unwrap_or_default()
            );
            for change in changes(stage) {
                match change {
                    Change::Added(route) => {
                        causes.removed.retain(|(removed, _)| removed != route);
                        causes.added.insert(route.to_owned(), cause.clone());
                    }
                    Change::Removed(route) => {
                        causes.added.remove(route);
                        causes.removed.push((route.to_owned(), cause.clone()));
                    }
                }
            }
        }
    }
    causes
}

/// Who makes routes of a protocol (RTPROT_* of rtnetlink(7)).
fn origin(route: &Route) -> String {
    match route.protocol {
        2 => "the kernel, for an address".to_owned(),
        3 => "a delegate".to_owned(),
        9 => "a router advertisement".to_owned(),
        protocol => format!("no stage of catena; protocol {protocol}"),
    }
}

fn mentions(route: &str, names: &BTreeSet<String>) -> bool {
    let words: Vec<&str> = route.split(' ').collect();
    words.windows(2).any(|pair| matches!(pair, ["dev", name] if names.contains(*name)))
}

fn of_kernel(now: &Namespace, names: &BTreeSet<String>) -> BTreeSet<String> {
    let defaults = now.on(names).filter(|route| route.dst.is_default());
    let hops = defaults.flat_map(|route| &route.hops).filter(|hop| names.contains(&now.name(hop.link)));
    hops.map(|hop| hop.gateway.map_or_else(|| "on-link".to_owned(), |gateway| gateway.to_string())).collect()
}

/// A default route without a gateway means that of the address, as the reference plugins write it. What is no result
/// has nothing to say.
fn of_result(value: &Value) -> Gateways {
    let (result, _) = CniResult::read(value).ok()?;
    let gateway = |route: &catena_cni::result::Route| {
        let of_address = result.ips.iter().filter(|ip| ip.address.is_ipv4() == route.dst.is_ipv4());
        route.gw.or_else(|| of_address.filter_map(|ip| ip.gateway).next())
    };
    let main = |route: &&catena_cni::result::Route| route.table.is_none_or(|table| table == i64::from(MAIN));
    let defaults = result.routes.iter().filter(|route| route.dst.is_default()).filter(main);
    let gateway = |route| gateway(route).map_or_else(|| "on-link".to_owned(), |gw| gw.to_string());
    Some(defaults.map(gateway).collect())
}

/// The result that is cached for libcni's callers; none where there is none. The error says why it cannot be read.
fn cached(entry: &Entry, attachment: &IntendedAttachment) -> Result<Option<Value>, String> {
    if attachment.config.is_none() {
        return Ok(None);
    }
    let (folder, id) = (Path::new(&entry.intended.cache_dir), &entry.intended.container_id);
    cache::load(folder, &attachment.network, id, &attachment.ifname).map_err(|error| error.to_string())
}

/// The sandbox's status file; none where there is none. The error says why it cannot be read.
fn status(root: &Root, entry: &Entry) -> Result<Option<Vec<Value>>, String> {
    let intended = &entry.intended;
    let folder = root.run().join("status");
    let file = StatusFile::new(&folder, &intended.network, &intended.container_id, &intended.ifname);
    let told = |what: &dyn std::fmt::Display| format!("{}: {what}", file.path().display());
    match std::fs::read(file.path()) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| told(&error)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(told(&error)),
    }
}

fn of_status(list: &[Value], position: usize) -> Gateways {
    let gateways = list.get(position)?["gateway"].as_array();
    Some(gateways.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect())
}

fn list(gateways: Option<&BTreeSet<String>>) -> String {
    match gateways {
        None => "-".to_owned(),
        Some(gateways) if gateways.is_empty() => "none".to_owned(),
        Some(gateways) => gateways.iter().map(String::as_str).collect::<Vec<_>>().join(" "),
    }
}
