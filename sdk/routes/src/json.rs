//! A journal as JSON, read by hand: every member has one type, and what is wrong is named with its place.

use std::net::IpAddr;

use serde_json::{Map, Value, json};

use crate::journal::{Entry, Journal, JournalError, RouteChange, Sysctl};
use crate::{Attribute, Expiry, Family, Hop, Kind, LinkRef, Prefix, Route};

impl Journal {
    /// The journal as the ledger keeps it.
    pub fn to_json(&self) -> Value {
        self.entries().iter().map(entry_to_json).collect()
    }

    pub fn from_json(value: &Value) -> Result<Journal, JournalError> {
        let at = At { value, path: String::new() };
        let mut journal = Journal::new();
        for item in at.items()? {
            journal.push(entry_from_json(&item)?);
        }
        Ok(journal)
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

fn route_to_json(route: &Route) -> Value {
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| {
        out.insert(key.to_owned(), value);
    };
    put("dst", json!(route.dst.to_string()));
    put("metric", json!(route.metric));
    put("kind", json!(route.kind.as_str()));
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
    value: &'a Value,
    path: String,
}

impl<'a> At<'a> {
    fn wrong(&self, problem: impl Into<String>) -> JournalError {
        let path = if self.path.is_empty() { "/" } else { &self.path };
        JournalError { path: path.to_owned(), problem: problem.into() }
    }

    fn items(&self) -> Result<Vec<At<'a>>, JournalError> {
        let items = self.value.as_array().ok_or_else(|| self.wrong("this is no list"))?;
        Ok(items
            .iter()
            .enumerate()
            .map(|(i, value)| At { value, path: format!("{}/{i}", self.path) })
            .collect())
    }

    fn member(&self, key: &str) -> Option<At<'a>> {
        self.value.get(key).map(|value| At { value, path: format!("{}/{key}", self.path) })
    }

    fn needed(&self, key: &str) -> Result<At<'a>, JournalError> {
        self.member(key).ok_or_else(|| self.wrong(format!("there is no {key:?}")))
    }

    fn text(&self) -> Result<&'a str, JournalError> {
        self.value.as_str().ok_or_else(|| self.wrong("this is no text"))
    }

    fn number<T: TryFrom<u64>>(&self) -> Result<T, JournalError> {
        let number = self.value.as_u64().and_then(|n| T::try_from(n).ok());
        number.ok_or_else(|| self.wrong("this is no number in its range"))
    }

    fn flag(&self) -> Result<bool, JournalError> {
        self.value.as_bool().ok_or_else(|| self.wrong("this is neither true nor false"))
    }

    fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(&self) -> Result<T, JournalError> {
        self.text()?.parse().map_err(|e: T::Err| self.wrong(e.to_string()))
    }

    fn list<T>(&self, read: impl Fn(&At<'a>) -> Result<T, JournalError>) -> Result<Vec<T>, JournalError> {
        self.items()?.iter().map(read).collect()
    }

    /// The member if it is there.
    fn may<T>(
        &self,
        key: &str,
        read: impl Fn(&At<'a>) -> Result<T, JournalError>,
    ) -> Result<Option<T>, JournalError> {
        self.member(key).map(|at| read(&at)).transpose()
    }
}

fn entry_from_json(at: &At<'_>) -> Result<Entry, JournalError> {
    if let Some(key) = at.member("sysctl") {
        return Ok(Entry::Sysctl(Sysctl {
            link: link_from_json(&at.needed("link")?)?,
            key: key.text()?.to_owned(),
            before: at.needed("before")?.text()?.to_owned(),
            after: at.needed("after")?.text()?.to_owned(),
        }));
    }
    let family_at = at.needed("family")?;
    let name = family_at.text()?;
    let family = Family::ALL.into_iter().find(|family| family.as_str() == name);
    let family = family.ok_or_else(|| family_at.wrong("this is no address family"))?;
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

fn link_from_json(at: &At<'_>) -> Result<LinkRef, JournalError> {
    Ok(LinkRef { index: at.needed("index")?.number()?, name: at.needed("name")?.text()?.to_owned() })
}

fn route_from_json(at: &At<'_>, family: Family, table: u32) -> Result<Route, JournalError> {
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

fn hop_from_json(at: &At<'_>) -> Result<Hop, JournalError> {
    Ok(Hop {
        gateway: at.may("gateway", At::parsed)?,
        link: at.needed("link")?.number()?,
        weight: at.may("weight", At::number)?.unwrap_or(0),
        onlink: at.may("onlink", At::flag)?.unwrap_or(false),
    })
}

fn attribute_from_json(at: &At<'_>) -> Result<Attribute, JournalError> {
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
