//! Journals and snapshots as JSON, read by hand: every member has one type, and what is wrong is named with its
//! place.

use std::net::IpAddr;

use serde_json::{Map, Value, json};

use crate::journal::{Entry, Journal, RouteChange, Sysctl};
use crate::{Attribute, Expiry, Family, Hop, Kind, Link, LinkRef, Prefix, Route, Snapshot};

/// A document that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{document}: {path}: {problem}")]
pub struct JsonError {
    /// What it should be: `route journal` or `route snapshot`.
    pub document: &'static str,
    /// Where in the document, as a JSON pointer (RFC 6901); `/` for the whole.
    pub path: String,
    /// What is wrong there.
    pub problem: String,
}

impl Journal {
    /// The journal as the ledger keeps it.
    pub fn to_json(&self) -> Value {
        self.entries().iter().map(entry_to_json).collect()
    }

    /// Reads what [`Journal::to_json`] wrote. The error names the place of what is missing or of another type.
    pub fn from_json(value: &Value) -> Result<Journal, JsonError> {
        let at = At::document("route journal", value);
        let mut journal = Journal::new();
        for item in at.items()? {
            journal.push(entry_from_json(&item)?);
        }
        Ok(journal)
    }
}

impl Snapshot {
    /// The snapshot as a recording keeps it.
    pub fn to_json(&self) -> Value {
        let routes = self.routes.iter().map(|route| {
            let mut value = route_to_json(route);
            value["family"] = json!(route.family.as_str());
            value["table"] = json!(route.table);
            value
        });
        let settings = self.sysctls.iter().map(|((link, key), value)| json!([link, key, value]));
        json!({
            "namespace": self.namespace,
            "links": self.links.iter().map(whole_link_to_json).collect::<Vec<_>>(),
            "routes": routes.collect::<Vec<_>>(),
            "sysctls": settings.collect::<Vec<_>>(),
        })
    }

    /// Reads what [`Snapshot::to_json`] wrote. The error names the place of what is missing or of another type.
    pub fn from_json(value: &Value) -> Result<Snapshot, JsonError> {
        let at = At::document("route snapshot", value);
        let sysctls = at.needed("sysctls")?.list(|at| match at.items()?.as_slice() {
            [link, key, value] => {
                Ok(((link.text()?.to_owned(), key.text()?.to_owned()), value.text()?.to_owned()))
            }
            _ => Err(at.wrong("this is not link, key and value")),
        })?;
        Ok(Snapshot {
            namespace: at.needed("namespace")?.text()?.to_owned(),
            links: at.needed("links")?.list(whole_link_from_json)?,
            routes: at.needed("routes")?.list(|at| {
                route_from_json(at, at.needed("family")?.family()?, at.needed("table")?.number()?)
            })?,
            sysctls: sysctls.into_iter().collect(),
        })
    }
}

fn entry_to_json(entry: &Entry) -> Value {
    match entry {
        Entry::Route(change) => json!({
            "family": change.family.as_str(),
            "table": change.table,
            "removed": change.removed.iter().map(route_to_json).collect::<Vec<_>>(),
            "added": change.added.iter().map(route_to_json).collect::<Vec<_>>(),
            "position": change.position,
            "links": change.links.iter().map(link_to_json).collect::<Vec<_>>(),
        }),
        Entry::Sysctl(s) => json!({
            "sysctl": s.key,
            "link": link_to_json(&s.link),
            "before": s.before,
            "after": s.after,
        }),
    }
}

fn link_to_json(link: &LinkRef) -> Value {
    json!({ "index": link.index, "name": link.name })
}

fn whole_link_to_json(link: &Link) -> Value {
    json!({
        "index": link.index,
        "name": link.name,
        "altNames": link.alt_names,
        "mac": link.mac,
        "mtu": link.mtu,
        "up": link.up,
        "carrier": link.carrier,
        "kind": link.kind,
    })
}

fn route_to_json(route: &Route) -> Value {
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| {
        out.insert(key.to_owned(), value);
    };
    put("dst", json!(route.dst.to_string()));
    put("metric", json!(route.metric));
    put("kind", json!(route.kind.as_str()));
    if let Some(kind) = route.unknown_kind {
        put("unknownKind", json!(kind));
    }
    put("scope", json!(route.scope));
    put("protocol", json!(route.protocol));
    put("hops", route.hops.iter().map(hop_to_json).collect());
    if route.tos != 0 {
        put("tos", json!(route.tos));
    }
    if let Some(from) = route.from {
        put("from", json!(from.to_string()));
    }
    if let Some(source) = route.source {
        put("source", json!(source.to_string()));
    }
    for (key, number) in
        [("mtu", route.mtu), ("advmss", route.advmss), ("object", route.object), ("expires", route.expires.0)]
    {
        if let Some(number) = number {
            put(key, json!(number));
        }
    }
    for (key, attributes) in [("metrics", &route.metrics), ("extra", &route.extra)] {
        if !attributes.is_empty() {
            put(key, attributes.iter().map(attribute_to_json).collect());
        }
    }
    if let Some(fixed) = &route.fixed {
        put("fixed", json!(fixed));
    }
    Value::Object(out)
}

fn hop_to_json(hop: &Hop) -> Value {
    let mut out = Map::new();
    if let Some(gateway) = hop.gateway {
        out.insert("gateway".into(), json!(gateway.to_string()));
    }
    out.insert("link".into(), json!(hop.link));
    if hop.weight != 0 {
        out.insert("weight".into(), json!(hop.weight));
    }
    if hop.onlink {
        out.insert("onlink".into(), json!(true));
    }
    Value::Object(out)
}

fn attribute_to_json(attribute: &Attribute) -> Value {
    let hex: String = attribute.value.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({ "kind": attribute.kind, "nested": attribute.nested, "value": hex })
}

/// A value and its place in the document.
struct At<'a> {
    document: &'static str,
    value: &'a Value,
    path: String,
}

impl<'a> At<'a> {
    fn document(document: &'static str, value: &'a Value) -> At<'a> {
        At { document, value, path: String::new() }
    }

    fn at(&self, value: &'a Value, place: impl std::fmt::Display) -> At<'a> {
        At { document: self.document, value, path: format!("{}/{place}", self.path) }
    }

    fn wrong(&self, problem: impl Into<String>) -> JsonError {
        let path = if self.path.is_empty() { "/" } else { &self.path };
        JsonError { document: self.document, path: path.to_owned(), problem: problem.into() }
    }

    fn items(&self) -> Result<Vec<At<'a>>, JsonError> {
        let items = self.value.as_array().ok_or_else(|| self.wrong("this is no list"))?;
        Ok(items.iter().enumerate().map(|(i, value)| self.at(value, i)).collect())
    }

    fn member(&self, key: &str) -> Option<At<'a>> {
        self.value.get(key).filter(|value| !value.is_null()).map(|value| self.at(value, key))
    }

    fn needed(&self, key: &str) -> Result<At<'a>, JsonError> {
        self.member(key).ok_or_else(|| self.wrong(format!("there is no {key:?}")))
    }

    fn text(&self) -> Result<&'a str, JsonError> {
        self.value.as_str().ok_or_else(|| self.wrong("this is no text"))
    }

    fn number<T: TryFrom<u64>>(&self) -> Result<T, JsonError> {
        let number = self.value.as_u64().and_then(|n| T::try_from(n).ok());
        number.ok_or_else(|| self.wrong("this is no number in its range"))
    }

    fn family(&self) -> Result<Family, JsonError> {
        let name = self.text()?;
        let family = Family::ALL.into_iter().find(|family| family.as_str() == name);
        family.ok_or_else(|| self.wrong("this is no address family"))
    }

    fn flag(&self) -> Result<bool, JsonError> {
        self.value.as_bool().ok_or_else(|| self.wrong("this is neither true nor false"))
    }

    fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(&self) -> Result<T, JsonError> {
        self.text()?.parse().map_err(|e: T::Err| self.wrong(e.to_string()))
    }

    fn list<T>(&self, read: impl Fn(&At<'a>) -> Result<T, JsonError>) -> Result<Vec<T>, JsonError> {
        self.items()?.iter().map(read).collect()
    }

    /// The member if it is there.
    fn may<T>(
        &self,
        key: &str,
        read: impl Fn(&At<'a>) -> Result<T, JsonError>,
    ) -> Result<Option<T>, JsonError> {
        self.member(key).map(|at| read(&at)).transpose()
    }
}

fn entry_from_json(at: &At<'_>) -> Result<Entry, JsonError> {
    if let Some(key) = at.member("sysctl") {
        return Ok(Entry::Sysctl(Sysctl {
            link: link_from_json(&at.needed("link")?)?,
            key: key.text()?.to_owned(),
            before: at.needed("before")?.text()?.to_owned(),
            after: at.needed("after")?.text()?.to_owned(),
        }));
    }
    let family = at.needed("family")?.family()?;
    let table = at.needed("table")?.number()?;
    let routes = |key| at.needed(key)?.list(|at| route_from_json(at, family, table));
    Ok(Entry::Route(RouteChange {
        family,
        table,
        removed: routes("removed")?,
        added: routes("added")?,
        position: at.needed("position")?.number()?,
        links: at.needed("links")?.list(link_from_json)?,
    }))
}

fn link_from_json(at: &At<'_>) -> Result<LinkRef, JsonError> {
    Ok(LinkRef { index: at.needed("index")?.number()?, name: at.needed("name")?.text()?.to_owned() })
}

fn whole_link_from_json(at: &At<'_>) -> Result<Link, JsonError> {
    let text = |at: &At<'_>| Ok(at.text()?.to_owned());
    Ok(Link {
        index: at.needed("index")?.number()?,
        name: at.needed("name")?.text()?.to_owned(),
        alt_names: at.needed("altNames")?.list(text)?,
        mac: at.may("mac", text)?,
        mtu: at.needed("mtu")?.number()?,
        up: at.needed("up")?.flag()?,
        carrier: at.needed("carrier")?.flag()?,
        kind: at.may("kind", text)?,
    })
}

fn route_from_json(at: &At<'_>, family: Family, table: u32) -> Result<Route, JsonError> {
    let dst: Prefix = at.needed("dst")?.parsed()?;
    if dst.family() != family {
        return Err(at.wrong(format!("{dst} is not {family}")));
    }
    let kind_at = at.needed("kind")?;
    let kind = Kind::from_text(kind_at.text()?).ok_or_else(|| kind_at.wrong("this is no route type"))?;
    Ok(Route {
        family,
        table,
        dst,
        tos: at.may("tos", At::number)?.unwrap_or(0),
        metric: at.needed("metric")?.number()?,
        kind,
        unknown_kind: at.may("unknownKind", At::number)?,
        scope: at.needed("scope")?.number()?,
        protocol: at.needed("protocol")?.number()?,
        source: at.may("source", At::parsed::<IpAddr>)?,
        mtu: at.may("mtu", At::number)?,
        advmss: at.may("advmss", At::number)?,
        hops: at.needed("hops")?.list(hop_from_json)?,
        from: at.may("from", At::parsed)?,
        object: at.may("object", At::number)?,
        metrics: at.may("metrics", |at| at.list(attribute_from_json))?.unwrap_or_default(),
        extra: at.may("extra", |at| at.list(attribute_from_json))?.unwrap_or_default(),
        fixed: at.may("fixed", |at| Ok(at.text()?.to_owned()))?,
        expires: Expiry(at.may("expires", At::number)?),
    })
}

fn hop_from_json(at: &At<'_>) -> Result<Hop, JsonError> {
    Ok(Hop {
        gateway: at.may("gateway", At::parsed)?,
        link: at.needed("link")?.number()?,
        weight: at.may("weight", At::number)?.unwrap_or(0),
        onlink: at.may("onlink", At::flag)?.unwrap_or(false),
    })
}

fn attribute_from_json(at: &At<'_>) -> Result<Attribute, JsonError> {
    let value_at = at.needed("value")?;
    let hex = value_at.text()?;
    let bytes: Option<Vec<u8>> = hex
        .as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
                Some(digit(high)? << 4 | digit(low)?)
            }
            _ => None,
        })
        .collect();
    Ok(Attribute {
        kind: at.needed("kind")?.number()?,
        nested: at.needed("nested")?.flag()?,
        value: bytes.ok_or_else(|| value_at.wrong("this is no hexadecimal text"))?,
    })
}
