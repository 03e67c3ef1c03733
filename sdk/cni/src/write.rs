//! Documents as compact text, as serde_json would write them.

use std::net::IpAddr;

use crate::json::{self, Map, Value, plain};
use crate::net::IpNet;

/// An object being written.
pub(crate) struct Object<'o> {
    out: &'o mut String,
    is_empty: bool,
}

impl<'o> Object<'o> {
    pub(crate) fn begin(out: &'o mut String) -> Self {
        out.push('{');
        Self { out, is_empty: true }
    }

    pub(crate) fn end(self) {
        self.out.push('}');
    }

    /// Nothing has been written into it.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    fn name(&mut self, name: &str) -> &mut String {
        if !self.is_empty {
            self.out.push(',');
        }
        self.is_empty = false;
        push_quoted(self.out, name);
        self.out.push(':');
        self.out
    }

    pub(crate) fn text(&mut self, name: &str, text: &str) {
        push_quoted(self.name(name), text);
    }

    /// Nothing and the empty text are not written.
    pub(crate) fn filled_text(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.text(name, text);
        }
    }

    /// An empty list is not written.
    pub(crate) fn texts(&mut self, name: &str, texts: &[String]) {
        self.list(name, texts, |out, text| push_quoted(out, text));
    }

    pub(crate) fn number(&mut self, name: &str, number: Option<i64>) {
        if let Some(number) = number {
            let text = number.to_string();
            self.name(name).push_str(&text);
        }
    }

    /// Nothing and 0 are not written.
    pub(crate) fn nonzero(&mut self, name: &str, number: Option<i64>) {
        self.number(name, number.filter(|number| *number != 0));
    }

    pub(crate) fn net(&mut self, name: &str, net: &IpNet) {
        let out = self.name(name);
        out.push('"');
        net.push_to(out);
        out.push('"');
    }

    pub(crate) fn ip(&mut self, name: &str, addr: Option<IpAddr>) {
        if let Some(addr) = addr {
            let out = self.name(name);
            out.push('"');
            crate::net::push_ip(out, addr.to_canonical());
            out.push('"');
        }
    }

    /// An empty list is not written.
    pub(crate) fn list<T>(&mut self, name: &str, elements: &[T], write: impl Fn(&mut String, &T)) {
        let Some((first, others)) = elements.split_first() else { return };
        let out = self.name(name);
        out.push('[');
        write(out, first);
        for element in others {
            out.push(',');
            write(out, element);
        }
        out.push(']');
    }

    pub(crate) fn object(&mut self, name: &str, write: impl FnOnce(&mut Object<'_>)) {
        let mut object = Object::begin(self.name(name));
        write(&mut object);
        object.end();
    }

    /// The members that are none of `known`, without any null, as they are read.
    pub(crate) fn others(&mut self, extra: &Map, known: &[&str]) {
        let unknown = |name: &str| !known.iter().any(|known| json::same_name(known, name));
        for (name, value) in extra.iter().filter(|(name, value)| unknown(name) && !value.is_null()) {
            if !json::has_null(value) {
                push_value(self.name(name), value);
                continue;
            }
            let mut clean = value.clone();
            if json::drop_null_members(&mut clean).is_ok() {
                push_value(self.name(name), &clean);
            }
        }
    }
}

fn push_quoted(out: &mut String, text: &str) {
    if plain(text.as_bytes()) == text.len() {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        push_value(out, &Value::from(text));
    }
}

/// A value always has a text.
fn push_value(out: &mut String, value: &Value) {
    out.push_str(&serde_json::to_string(value).unwrap_or_default());
}
