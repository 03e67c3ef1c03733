//! Results of every version as one model, that of 1.1.0, and the conversion between versions.
//!
//! Conversion follows libcni. Three things differ on purpose: unknown members are kept where they can be kept, a
//! `null` element or an interface index that names nothing is refused (libcni passes some on, and containerd crashes
//! on them), and so is an address or destination that is absent (libcni writes `<nil>`, which nobody can read back).

use std::net::IpAddr;

use crate::json::{self, JsonError, Map, TypeError, Value};
use crate::members::{Members, Node, Place};
use crate::net::{IpNet, parse_ip};
use crate::old::{Blocks, Labelled};
use crate::text::quoted;
use crate::tree::Tree;
use crate::version::SpecVersion;
use crate::write::Object;

/// A result with the members of 1.1.0. Each `extra` holds the members that no version of the specification knows at
/// that place; a name that some version knows there is never in it, and is left out when written.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CniResult {
    pub interfaces: Vec<Interface>,
    pub ips: Vec<IpConfig>,
    pub routes: Vec<Route>,
    pub dns: Dns,
    pub extra: Map,
}

/// Absent and zero or empty mean the same in every optional member; reading gives `None` for both.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Interface {
    pub name: String,
    /// Unchecked, as in libcni.
    pub mac: Option<String>,
    /// In bytes; not checked to be positive.
    pub mtu: Option<i64>,
    /// The path of the network namespace; absent for an interface of the host.
    pub sandbox: Option<String>,
    pub socket_path: Option<String>,
    pub pci_id: Option<String>,
    pub extra: Map,
}

#[derive(Debug, Clone, PartialEq)]
pub struct IpConfig {
    /// Host bits kept.
    pub address: IpNet,
    /// Possibly of the other family.
    pub gateway: Option<IpAddr>,
    /// Index into [`CniResult::interfaces`]. It names one after reading, and is checked again when written.
    pub interface: Option<usize>,
    pub extra: Map,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// Host bits kept.
    pub dst: IpNet,
    /// Absent: up to the plugin that applies it. The reference plugins take the first gateway of the family.
    pub gw: Option<IpAddr>,
    pub mtu: Option<i64>,
    pub advmss: Option<i64>,
    pub priority: Option<i64>,
    /// 0 is a value here.
    pub table: Option<i64>,
    /// 0 is a value here.
    pub scope: Option<i64>,
    pub extra: Map,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Dns {
    /// Unchecked, as in libcni.
    pub nameservers: Vec<String>,
    pub domain: Option<String>,
    pub search: Vec<String>,
    pub options: Vec<String>,
    pub extra: Map,
}

/// Why a result cannot be read, converted or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResultError {
    #[error("cannot read the CNI result: {0}")]
    Json(#[from] JsonError),
    #[error("cannot read the CNI result: {0}")]
    Type(#[from] TypeError),
    #[error(
        "cannot read the CNI result: {place} is {text}, but must be an address with a prefix length, such as 192.0.2.5/24"
    )]
    BadCidr { place: String, text: String },
    #[error("cannot read the CNI result: {place} is {text}, but must be an IP address without prefix length")]
    BadIp { place: String, text: String },
    /// An address or destination is absent.
    #[error("cannot read the CNI result: {place} is missing")]
    Missing { place: String },
    #[error("cannot read the CNI result: {place} is null")]
    Null { place: String },
    #[error(
        "cannot use the CNI result: {place} is {index}, which names none of its {interfaces} interfaces, counted from 0"
    )]
    BadIndex { place: String, index: String, interfaces: usize },
    #[error("cannot read the CNI result: its cniVersion {version} is unknown; known are 0.1.0 to 1.1.0")]
    UnsupportedVersion { version: String },
    /// Asked for a result in the format of one version, got another format.
    #[error(
        "the CNI result is of version {found}, which has another format than version {asked} that was asked for"
    )]
    VersionMismatch { found: String, asked: SpecVersion },
    #[error(
        "the CNI result cannot be written as version {target}: it has no address, and {target} can only tell of addresses"
    )]
    NoAddress { target: SpecVersion },
}

/// Names that some version knows; at each place none of them is kept as an unknown member, since it would mean
/// something after a conversion. Those of an error object are among them: a result must not look like one.
pub(crate) const TOP: &[&str] =
    &["cniVersion", "interfaces", "ips", "ip4", "ip6", "routes", "dns", "code", "msg", "details"];
const INTERFACE: &[&str] = &["name", "mac", "mtu", "sandbox", "socketPath", "pciID"];
pub(crate) const IP: &[&str] = &["version", "address", "gateway", "interface", "ip", "routes"];
const ROUTE: &[&str] = &["dst", "gw", "mtu", "advmss", "priority", "table", "scope"];
const DNS: &[&str] = &["nameservers", "domain", "search", "options"];

/// The versions share three formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// 0.1.0, 0.2.0
    Blocks,
    /// 0.3.0, 0.3.1, 0.4.0
    Labelled,
    /// 1.0.0, 1.1.0
    Current,
}

impl Format {
    fn of(version: SpecVersion) -> Self {
        match version {
            SpecVersion::V0_1_0 | SpecVersion::V0_2_0 => Self::Blocks,
            SpecVersion::V0_3_0 | SpecVersion::V0_3_1 | SpecVersion::V0_4_0 => Self::Labelled,
            SpecVersion::V1_0_0 | SpecVersion::V1_1_0 => Self::Current,
        }
    }
}

/// A document read in its own format.
enum Document {
    Blocks(Blocks),
    Labelled(Labelled),
    Current(CniResult),
}

impl Document {
    fn read<'a, N: Node<'a>>(doc: N, version: SpecVersion) -> Result<Self, ResultError> {
        let members = Members::of(doc, Place::Top)?;
        Ok(match Format::of(version) {
            Format::Blocks => Self::Blocks(Blocks::read(&members)?),
            Format::Labelled => Self::Labelled(Labelled::read(&members)?),
            Format::Current => Self::Current(CniResult::read_lists(&members, true)?),
        })
    }

    fn into_current(self) -> CniResult {
        match self {
            Self::Blocks(blocks) => Labelled::from(blocks).into(),
            Self::Labelled(labelled) => labelled.into(),
            Self::Current(result) => result,
        }
    }

    fn write(self, target: SpecVersion) -> Result<String, ResultError> {
        match (Format::of(target), self) {
            (Format::Blocks, Self::Blocks(blocks)) => Ok(blocks.write(target)),
            (Format::Blocks, Self::Labelled(labelled)) => Ok(labelled.into_blocks(target)?.write(target)),
            (Format::Blocks, Self::Current(result)) => {
                Ok(Labelled::from(result).into_blocks(target)?.write(target))
            }
            (Format::Labelled, Self::Blocks(blocks)) => Labelled::from(blocks).write(target),
            (Format::Labelled, Self::Labelled(labelled)) => labelled.write(target),
            (Format::Labelled, Self::Current(result)) => Labelled::from(result).write(target),
            (Format::Current, document) => document.into_current().write(target, true, &[]),
        }
    }
}

impl CniResult {
    /// Reads a result by its own `cniVersion` (absent or empty: 0.1.0) and lifts it to the model. `null` is `{}`.
    pub fn read(doc: &Value) -> Result<(Self, SpecVersion), ResultError> {
        Self::read_node(doc)
    }

    /// The same from the document's text, and much cheaper than parsing that first.
    pub fn parse(text: &[u8]) -> Result<(Self, SpecVersion), ResultError> {
        Self::read_node(&Tree::parse(text)?)
    }

    fn read_node<'a, N: Node<'a>>(doc: N) -> Result<(Self, SpecVersion), ResultError> {
        let version = own_version(doc)?;
        Ok((Document::read(doc, version)?.into_current(), version))
    }

    /// Reads a result that must have the format of `asked`, as a Go plugin reads `prevResult`.
    pub fn read_as(doc: &Value, asked: SpecVersion) -> Result<(Self, SpecVersion), ResultError> {
        let version = own_version(doc)?;
        if Format::of(version) != Format::of(asked) {
            return Err(ResultError::VersionMismatch { found: version.to_string(), asked });
        }
        Ok((Document::read(doc, version)?.into_current(), version))
    }

    /// Writes the result as a document of `version`. Fails if an index names no interface, and for 0.1.0 and 0.2.0
    /// if there is no address.
    pub fn to_value(&self, version: SpecVersion) -> Result<Value, ResultError> {
        Ok(json::parse(self.to_text(version)?.as_bytes())?)
    }

    /// The text of [`CniResult::to_value`], without white space.
    pub fn to_text(&self, version: SpecVersion) -> Result<String, ResultError> {
        if Format::of(version) == Format::Current {
            return self.write(version, true, &[]);
        }
        self.check_indices()?;
        Document::Current(self.clone()).write(version)
    }

    /// Neither interface nor address.
    pub fn is_empty(&self) -> bool {
        self.interfaces.is_empty() && self.ips.is_empty()
    }

    /// Reads the format with `interfaces`, `ips` and `routes`; `current` has the members of 1.x.
    pub(crate) fn read_lists<'a, N: Node<'a>>(
        members: &Members<'a, '_, N>,
        current: bool,
    ) -> Result<Self, ResultError> {
        let interfaces = elements(members, "interfaces", |element| Interface::read(element, current))?;
        let ips = elements(members, "ips", |element| IpConfig::read(element, interfaces.len()))?;
        Ok(Self {
            interfaces,
            ips,
            routes: read_routes(members)?,
            dns: Dns::read(members)?,
            extra: members.others(TOP),
        })
    }

    /// `labels` are the `version` texts of the addresses, in their order, in a format that has them.
    pub(crate) fn write(
        &self,
        version: SpecVersion,
        current: bool,
        labels: &[String],
    ) -> Result<String, ResultError> {
        self.check_indices()?;
        let mut text = String::new();
        let mut doc = document(&mut text, version);
        doc.list("interfaces", &self.interfaces, |out, interface| interface.write(out, current));
        let ips: Vec<_> = self.ips.iter().enumerate().map(|(i, ip)| (ip, labels.get(i))).collect();
        doc.list("ips", &ips, |out, (ip, label)| ip.write(out, label.map(String::as_str)));
        doc.list("routes", &self.routes, |out, route| route.write(out));
        self.dns.write(&mut doc, !current);
        doc.others(&self.extra, TOP);
        doc.end();
        Ok(text)
    }

    fn check_indices(&self) -> Result<(), ResultError> {
        let interfaces = self.interfaces.len();
        let bad = self
            .ips
            .iter()
            .enumerate()
            .find_map(|(i, ip)| Some((i, ip.interface.filter(|n| *n >= interfaces)?)));
        match bad {
            None => Ok(()),
            Some((i, index)) => Err(ResultError::BadIndex {
                place: format!("ips[{i}].interface"),
                index: index.to_string(),
                interfaces,
            }),
        }
    }
}

impl Interface {
    fn read<'a, N: Node<'a>>(members: &Members<'a, '_, N>, current: bool) -> Result<Self, ResultError> {
        let mut interface = Self {
            name: members.text("name")?.unwrap_or_default().to_owned(),
            mac: members.filled_text("mac")?,
            sandbox: members.filled_text("sandbox")?,
            extra: members.others(INTERFACE),
            ..Self::default()
        };
        if current {
            interface.mtu = nonzero(members, "mtu")?;
            interface.socket_path = members.filled_text("socketPath")?;
            interface.pci_id = members.filled_text("pciID")?;
        }
        Ok(interface)
    }

    fn write(&self, out: &mut String, current: bool) {
        let mut object = Object::begin(out);
        object.text("name", &self.name);
        object.filled_text("mac", self.mac.as_deref());
        if current {
            object.nonzero("mtu", self.mtu);
        }
        object.filled_text("sandbox", self.sandbox.as_deref());
        if current {
            object.filled_text("socketPath", self.socket_path.as_deref());
            object.filled_text("pciID", self.pci_id.as_deref());
        }
        object.others(&self.extra, INTERFACE);
        object.end();
    }
}

impl IpConfig {
    fn read<'a, N: Node<'a>>(members: &Members<'a, '_, N>, interfaces: usize) -> Result<Self, ResultError> {
        let interface = match members.integer("interface")? {
            None => None,
            Some(index) => match usize::try_from(index) {
                Ok(index) if index < interfaces => Some(index),
                _ => {
                    let place = members.place("interface").to_string();
                    return Err(ResultError::BadIndex { place, index: index.to_string(), interfaces });
                }
            },
        };
        Ok(Self {
            address: read_net(members, "address")?,
            gateway: read_ip(members, "gateway")?,
            interface,
            extra: members.others(IP),
        })
    }

    fn write(&self, out: &mut String, label: Option<&str>) {
        let mut object = Object::begin(out);
        if let Some(label) = label {
            object.text("version", label);
        }
        // An index that names an interface is far below 2^63.
        object.number("interface", self.interface.and_then(|index| i64::try_from(index).ok()));
        object.net("address", &self.address);
        object.ip("gateway", self.gateway);
        object.others(&self.extra, IP);
        object.end();
    }
}

impl Route {
    /// A route with nothing but these two.
    pub fn new(dst: IpNet, gw: Option<IpAddr>) -> Self {
        Self { dst, gw, mtu: None, advmss: None, priority: None, table: None, scope: None, extra: Map::new() }
    }

    fn read<'a, N: Node<'a>>(members: &Members<'a, '_, N>) -> Result<Self, ResultError> {
        Ok(Self {
            dst: read_net(members, "dst")?,
            gw: read_ip(members, "gw")?,
            mtu: nonzero(members, "mtu")?,
            advmss: nonzero(members, "advmss")?,
            priority: nonzero(members, "priority")?,
            table: members.integer("table")?,
            scope: members.integer("scope")?,
            extra: members.others(ROUTE),
        })
    }

    pub(crate) fn write(&self, out: &mut String) {
        let mut object = Object::begin(out);
        object.net("dst", &self.dst);
        object.ip("gw", self.gw);
        object.nonzero("mtu", self.mtu);
        object.nonzero("advmss", self.advmss);
        object.nonzero("priority", self.priority);
        object.number("table", self.table);
        object.number("scope", self.scope);
        object.others(&self.extra, ROUTE);
        object.end();
    }
}

impl Dns {
    /// From the member `dns` of a result.
    pub(crate) fn read<'a, N: Node<'a>>(result: &Members<'a, '_, N>) -> Result<Self, ResultError> {
        let Some(members) = result.object("dns")? else {
            return Ok(Self::default());
        };
        Ok(Self {
            nameservers: members.texts("nameservers")?,
            domain: members.filled_text("domain")?,
            search: members.texts("search")?,
            options: members.texts("options")?,
            extra: members.others(DNS),
        })
    }

    /// An empty one is written only by the 0.x formats.
    pub(crate) fn write(&self, doc: &mut Object<'_>, even_empty: bool) {
        let write = |dns: &mut Object<'_>| {
            dns.texts("nameservers", &self.nameservers);
            dns.filled_text("domain", self.domain.as_deref());
            dns.texts("search", &self.search);
            dns.texts("options", &self.options);
            dns.others(&self.extra, DNS);
        };
        if even_empty || !self.is_empty() {
            doc.object("dns", write);
        }
    }

    /// Nothing of it would be written.
    fn is_empty(&self) -> bool {
        let mut text = String::new();
        let mut others = Object::begin(&mut text);
        others.others(&self.extra, DNS);
        others.is_empty()
            && self.nameservers.is_empty()
            && self.domain.as_ref().is_none_or(String::is_empty)
            && self.search.is_empty()
            && self.options.is_empty()
    }
}

/// Converts a result from its own version to `target`, as libcni would without the model in between.
pub fn convert(doc: &Value, target: SpecVersion) -> Result<Value, ResultError> {
    let text = Document::read(doc, own_version(doc)?)?.write(target)?;
    Ok(json::parse(text.as_bytes())?)
}

/// The text of `cniVersion`, if it is one.
pub fn version_text(doc: &Value) -> Option<&str> {
    json::get(doc.as_object()?, "cniVersion")?.as_str()
}

/// The `cniVersion` of a request config: the empty text if it is absent, an error if it is no text.
pub fn request_version(request: &Value) -> Result<&str, ResultError> {
    Ok(Members::of(request, Place::Top)?.text("cniVersion")?.unwrap_or_default())
}

/// What a plugin that exited 0 printed on ADD: one JSON object, or `null` for `{}`. If `cniVersion` is absent, empty
/// or no text, the request's is put in (an empty one is 0.1.0). Nothing else is checked: [`check`] does that.
///
/// A document of the oldest format is taken for that whatever the request's version: a plugin that lists only old
/// versions, and looks at none, answers so. Read as a newer format it would be empty.
pub fn from_stdout(stdout: &[u8], request_version: &str) -> Result<Value, ResultError> {
    let mut map = match json::parse(stdout)? {
        Value::Null => Map::new(),
        Value::Object(map) => map,
        other => return Err(TypeError::new(Place::Top, "an object", &other).into()),
    };
    // Exactly spelled, as libcni looks for it here.
    if map.get("cniVersion").and_then(Value::as_str).is_none_or(str::is_empty) {
        let has = |name: &str| json::get(&map, name).is_some_and(|member| !member.is_null());
        let asked = SpecVersion::from_text(request_version).map(Format::of);
        let old = asked.is_some_and(|asked| asked != Format::Blocks)
            && (has("ip4") || has("ip6"))
            && !(has("ips") || has("interfaces"));
        set_version(&mut map, if old { SpecVersion::V0_2_0.as_str() } else { request_version });
    }
    Ok(Value::Object(map))
}

/// Whether a document is a result of a version that is known, and decodable: then its version. Of the errors,
/// [`ResultError::UnsupportedVersion`] is a future version, every other an undecodable member.
pub fn check(doc: &Value) -> Result<SpecVersion, ResultError> {
    CniResult::read(doc).map(|(_, version)| version)
}

/// The `prevResult` of a request, as a Go plugin reads it: absent or `null` is none, without a version it has the
/// request's, and its format must be that of the request's version. Returned raw, with its version filled in.
pub fn prev_result(request: &Value) -> Result<Option<Value>, ResultError> {
    let request = Members::of(request, Place::Top)?;
    let version = request.text("cniVersion")?.unwrap_or_default();
    let Some(prev) = request.object("prevResult")? else {
        return Ok(None);
    };
    let mut map = request.raw("prevResult").and_then(Value::as_object).cloned().unwrap_or_default();
    if prev.raw("cniVersion").is_none_or(Value::is_null) {
        set_version(&mut map, version);
    }
    let asked = SpecVersion::from_text(version)
        .ok_or_else(|| ResultError::UnsupportedVersion { version: quoted(version) })?;
    let doc = Value::Object(map);
    CniResult::read_as(&doc, asked)?;
    Ok(Some(doc))
}

fn set_version(map: &mut Map, version: &str) {
    let version = if version.is_empty() { "0.1.0" } else { version };
    json::set(map, "cniVersion", version.into());
}

fn own_version<'a, N: Node<'a>>(doc: N) -> Result<SpecVersion, ResultError> {
    let version = Members::of(doc, Place::Top)?.text("cniVersion")?.unwrap_or_default();
    SpecVersion::from_text(version)
        .ok_or_else(|| ResultError::UnsupportedVersion { version: quoted(version) })
}

/// A list of objects, without any `null`.
fn elements<'a, N: Node<'a>, T>(
    members: &Members<'a, '_, N>,
    name: &str,
    read: impl Fn(&Members<'a, '_, N>) -> Result<T, ResultError>,
) -> Result<Vec<T>, ResultError> {
    let elements = members.list(name)?;
    let mut list = Vec::with_capacity(elements.len());
    for (i, element) in elements.enumerate() {
        let place = members.element(name, i);
        if element.is_null() {
            return Err(ResultError::Null { place: place.to_string() });
        }
        list.push(read(&Members::of(element, place)?)?);
    }
    Ok(list)
}

pub(crate) fn read_routes<'a, N: Node<'a>>(members: &Members<'a, '_, N>) -> Result<Vec<Route>, ResultError> {
    elements(members, "routes", Route::read)
}

pub(crate) fn read_net<'a, N: Node<'a>>(
    members: &Members<'a, '_, N>,
    name: &str,
) -> Result<IpNet, ResultError> {
    let place = || members.place(name).to_string();
    let Some(text) = members.text(name)? else {
        // A null is the empty text to Go here, and no address.
        return Err(match members.raw(name) {
            None => ResultError::Missing { place: place() },
            Some(_) => ResultError::BadCidr { place: place(), text: quoted("") },
        });
    };
    IpNet::parse(text).map_err(|_| ResultError::BadCidr { place: place(), text: quoted(text) })
}

/// Absent and empty are none.
pub(crate) fn read_ip<'a, N: Node<'a>>(
    members: &Members<'a, '_, N>,
    name: &str,
) -> Result<Option<IpAddr>, ResultError> {
    let Some(text) = members.text(name)?.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let bad = || ResultError::BadIp { place: members.place(name).to_string(), text: quoted(text) };
    parse_ip(text).map(Some).ok_or_else(bad)
}

fn nonzero<'a, N: Node<'a>>(members: &Members<'a, '_, N>, name: &str) -> Result<Option<i64>, ResultError> {
    Ok(members.integer(name)?.filter(|number| *number != 0))
}

/// The beginning of a document.
pub(crate) fn document(text: &mut String, version: SpecVersion) -> Object<'_> {
    let mut doc = Object::begin(text);
    doc.text("cniVersion", version.as_str());
    doc
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_index_that_names_no_interface_is_not_written() {
        let mut result =
            CniResult::read(&json!({ "cniVersion": "1.1.0", "ips": [{ "address": "192.0.2.5/24" }] }))
                .expect("valid")
                .0;
        result.ips.iter_mut().for_each(|ip| ip.interface = Some(2));
        for version in SpecVersion::ALL {
            assert_eq!(
                result.to_value(version).expect_err("bad index").to_string(),
                "cannot use the CNI result: ips[0].interface is 2, which names none of its 0 interfaces, counted from 0"
            );
        }
    }

    #[test]
    fn unknown_members_are_kept_in_every_format() {
        let old = json!({ "cniVersion": "0.2.0", "x": 1, "ips": [7],
            "ip4": { "ip": "192.0.2.5/24", "x": 2, "routes": [{ "dst": "0.0.0.0/0", "x": 3 }] },
            "dns": { "x": 4 } });
        let new = convert(&old, SpecVersion::V1_1_0).expect("valid");
        let expected = json!({ "cniVersion": "1.1.0", "x": 1, "ips": [{ "address": "192.0.2.5/24", "x": 2 }],
            "routes": [{ "dst": "0.0.0.0/0", "x": 3 }], "dns": { "x": 4 } });
        assert_eq!(new, expected);
        let mut back = old;
        json::remove(back.as_object_mut().expect("an object"), "ips");
        assert_eq!(convert(&new, SpecVersion::V0_2_0), Ok(back));
    }

    #[test]
    fn an_unknown_member_never_becomes_a_known_one() {
        let mut result = CniResult::default();
        for name in ["IPS", "cniVersion", "code", "vendor", "nothing"] {
            let value = if name == "nothing" { Value::Null } else { json!("x") };
            result.extra.insert(name.into(), value);
        }
        assert_eq!(result.to_value(SpecVersion::V1_0_0), Ok(json!({ "cniVersion": "1.0.0", "vendor": "x" })));
        let newer = json!({ "cniVersion": "0.4.0", "interfaces": [{ "name": "a", "MTU": "text" }] });
        let expected = json!({ "cniVersion": "1.1.0", "interfaces": [{ "name": "a" }] });
        assert_eq!(convert(&newer, SpecVersion::V1_1_0), Ok(expected));
    }

    #[test]
    fn a_null_that_stands_for_an_absent_member_is_not_written() {
        let doc = json!({ "cniVersion": "1.1.0", "interfaces": null, "vendor": null,
            "routes": [{ "dst": "::/0", "gw": null, "table": 0, "mtu": 0 }] });
        let expected = json!({ "cniVersion": "1.1.0", "routes": [{ "dst": "::/0", "table": 0 }] });
        assert_eq!(convert(&doc, SpecVersion::V1_1_0), Ok(expected));
    }

    #[test]
    fn no_null_is_kept_in_what_vendors_add() {
        let vendor = json!({ "a": null, "b": [{ "c": null, "d": 1 }], "e": {} });
        let doc = json!({ "cniVersion": "1.0.0", "vendor": vendor, "list": { "deep": [1, [null]] },
            "interfaces": [{ "name": "eth0", "vendor": vendor }], "dns": { "vendor": [null] } });
        let kept = json!({ "b": [{ "d": 1 }], "e": {} });
        let expected = |version: &str| json!({ "cniVersion": version, "interfaces": [{ "name": "eth0", "vendor": kept }], "vendor": kept });
        for version in [SpecVersion::V1_0_0, SpecVersion::V1_1_0] {
            assert_eq!(convert(&doc, version), Ok(expected(version.as_str())));
        }
        // Nor in what somebody puts into a result.
        let (mut result, _) = CniResult::read(&doc).expect("valid");
        assert!(!result.extra.contains_key("list"));
        result.extra.insert("vendor".into(), vendor);
        result.extra.insert("list".into(), json!([null]));
        assert_eq!(result.to_value(SpecVersion::V1_1_0), Ok(expected("1.1.0")));
    }

    #[test]
    fn stdout_gets_the_version_of_the_request_and_nothing_else() {
        let read = |text: &str, version| from_stdout(text.as_bytes(), version);
        assert_eq!(read("null", "0.4.0"), Ok(json!({ "cniVersion": "0.4.0" })));
        assert_eq!(read("{\"x\":[null]}\n", ""), Ok(json!({ "x": [null], "cniVersion": "0.1.0" })));
        assert_eq!(read(r#"{"cniVersion":5}"#, "1.0.0"), Ok(json!({ "cniVersion": "1.0.0" })));
        for asked in ["0.3.1", "1.1.0"] {
            let old = read(r#"{"IP6":{"ip":"2001:db8::5/64"}}"#, asked).expect("an object");
            assert_eq!(version_text(&old), Some("0.2.0"), "{asked}");
        }
        for text in [r#"{"ip4":null}"#, r#"{"ip4":{},"ips":[]}"#] {
            assert_eq!(version_text(&read(text, "1.1.0").expect("an object")), Some("1.1.0"), "{text}");
        }
        let oldest = read(r#"{"ip4":{"ip":"192.0.2.5/24"}}"#, "0.1.0").expect("an object");
        assert_eq!(version_text(&oldest), Some("0.1.0"));
        let future = read(r#"{"cniVersion":"2.0.0","ips":7}"#, "1.0.0").expect("an object");
        assert_eq!(version_text(&future), Some("2.0.0"));
        assert_eq!(check(&future), Err(ResultError::UnsupportedVersion { version: "\"2.0.0\"".into() }));
        assert_eq!(
            read("[]", "1.0.0").expect_err("a list").to_string(),
            "cannot read the CNI result: the document must be an object, not a list"
        );
    }

    #[test]
    fn prev_result_is_returned_raw() {
        let request =
            json!({ "cniVersion": "1.1.0", "PrevResult": { "vendor": { "a": null }, "CNIVersion": null } });
        let expected = json!({ "vendor": { "a": null }, "cniVersion": "1.1.0" });
        assert_eq!(prev_result(&request), Ok(Some(expected)));
        let request = json!({ "cniVersion": "0.4.0", "prevResult": { "cniVersion": "1.0.0" } });
        assert_eq!(
            prev_result(&request).expect_err("another format").to_string(),
            "the CNI result is of version 1.0.0, which has another format than version 0.4.0 that was asked for"
        );
    }
}
