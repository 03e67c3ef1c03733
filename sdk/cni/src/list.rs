//! Network configuration lists, as libcni reads them.

use serde_json::json;

use crate::identifier::{IdentifierError, PluginType};
use crate::json::{JsonError, Map, TypeError, Value, parse};
use crate::members::{Members, Place};
use crate::text::quoted;
use crate::version::{SpecVersion, VersionError, VersionNumber};

/// A list of plugins that make one network.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkList {
    /// Any text passes here; ADD checks it. Empty if a single config has none.
    pub name: String,
    /// The highest of `cniVersion` and `cniVersions` that is not newer than 1.1.0, as it was written; possibly empty
    /// or no version at all.
    pub cni_version: String,
    pub disable_check: bool,
    pub disable_gc: bool,
    /// No plugins from the drop-in folder.
    pub load_only_inlined: bool,
    /// Possibly empty: they may come from a drop-in folder.
    pub plugins: Vec<Plugin>,
    raw: Value,
}

/// One plugin of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Plugin {
    pub kind: PluginType,
    /// The whole object as it was written.
    pub raw: Map,
}

/// Why a network configuration cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    #[error("cannot read the network configuration: {0}")]
    Json(#[from] JsonError),
    #[error("cannot read the network configuration: {0}")]
    Type(#[from] TypeError),
    #[error("cannot read the network configuration list: it has no name")]
    MissingName,
    /// Where the plugin stands; `the document` for a single config.
    #[error("cannot read the network configuration: {0} has no type")]
    MissingType(String),
    #[error("cannot read the network configuration: {place}: {error}")]
    BadType { place: String, error: IdentifierError },
    #[error(
        "cannot read the network configuration list: plugins is empty; leave it out if they come from a folder"
    )]
    EmptyPlugins,
    #[error(
        "cannot read the network configuration list: loadOnlyInlinedPlugins is true, but there are no plugins"
    )]
    InlinedOnlyWithoutPlugins,
    #[error("cannot read the network configuration list: {member} is {text}, but must be true or false")]
    BadBool { member: &'static str, text: String },
    #[error("cannot read the network configuration list: {member}: {error}")]
    BadVersion { member: String, error: VersionError },
}

impl NetworkList {
    pub fn parse(text: &[u8]) -> Result<Self, ListError> {
        Self::from_value(&parse(text)?)
    }

    /// Reads a list. Its own keys must be spelled exactly; those of its plugins match without regard to case.
    pub fn from_value(doc: &Value) -> Result<Self, ListError> {
        let list = match doc {
            Value::Null => return Err(ListError::MissingName),
            Value::Object(map) => map,
            other => return Err(TypeError::new("the document", "an object", other).into()),
        };
        let name = exact(list, "name", "text", Value::as_str)?.ok_or(ListError::MissingName)?;
        let cni_version = choose_version(list)?;
        let load_only_inlined = flag(list, "loadOnlyInlinedPlugins")?;
        let plugins = match exact(list, "plugins", "a list", Value::as_array)? {
            Some(plugins) if plugins.is_empty() => return Err(ListError::EmptyPlugins),
            Some(plugins) => {
                let place = |i| Place::Element(&Place::Top, "plugins", i);
                plugins.iter().enumerate().map(|(i, plugin)| Plugin::read(plugin, place(i))).collect()
            }
            None if load_only_inlined => return Err(ListError::InlinedOnlyWithoutPlugins),
            None => Ok(Vec::new()),
        };
        Ok(Self {
            name: name.to_owned(),
            cni_version,
            disable_check: flag(list, "disableCheck")?,
            disable_gc: flag(list, "disableGC")?,
            load_only_inlined,
            plugins: plugins?,
            raw: doc.clone(),
        })
    }

    /// Wraps the config of a single plugin into a list. `cniVersions` in it is not honoured, as in libcni.
    pub fn from_plugin(doc: &Value) -> Result<Self, ListError> {
        let plugin = Plugin::from_value(doc)?;
        let members = Members::of(doc, Place::Top)?;
        let text = |name| members.text(name).map(|text| text.unwrap_or_default().to_owned());
        let (name, cni_version) = (text("name")?, text("cniVersion")?);
        let raw = json!({ "cniVersion": cni_version, "name": name, "plugins": [doc] });
        Ok(Self {
            name,
            cni_version,
            disable_check: false,
            disable_gc: false,
            load_only_inlined: false,
            plugins: vec![plugin],
            raw,
        })
    }

    /// The list as it was read, or as it was wrapped. Plugins from a drop-in folder are not in it, as in libcni's
    /// cache.
    pub fn to_value(&self) -> &Value {
        &self.raw
    }
}

impl Plugin {
    /// Reads one plugin's config and checks the members that libcni gives a type.
    pub fn from_value(doc: &Value) -> Result<Self, ListError> {
        Self::read(doc, Place::Top)
    }

    fn read(doc: &Value, place: Place<'_>) -> Result<Self, ListError> {
        let members = Members::of(doc, place)?;
        let subject = || place.to_string();
        members.text("cniVersion")?;
        members.text("name")?;
        let kind = members.text("type")?.unwrap_or_default();
        if let Some(capabilities) = members.object("capabilities")? {
            for (name, value) in capabilities.members() {
                if !value.is_boolean() && !value.is_null() {
                    return Err(TypeError::new(capabilities.place(name), "true or false", value).into());
                }
            }
        }
        if let Some(ipam) = members.object("ipam")? {
            ipam.text("type")?;
        }
        if let Some(dns) = members.object("dns")? {
            dns.text("domain")?;
            for name in ["nameservers", "search", "options"] {
                dns.texts(name)?;
            }
        }
        members.object("prevResult")?;
        const ATTACHMENTS: &str = "cni.dev/valid-attachments";
        for (i, attachment) in members.list(ATTACHMENTS)?.enumerate() {
            let attachment = Members::of(attachment, members.element(ATTACHMENTS, i))?;
            attachment.text("containerID")?;
            attachment.text("ifname")?;
        }
        if kind.is_empty() {
            return Err(ListError::MissingType(subject()));
        }
        let kind = PluginType::parse(kind).map_err(|error| ListError::BadType { place: subject(), error })?;
        // It has a type, so it is no null.
        Ok(Self { kind, raw: doc.as_object().cloned().unwrap_or_default() })
    }

    /// The capabilities that are declared `true`.
    pub fn capabilities(&self) -> Vec<&str> {
        let declared = crate::json::get(&self.raw, "capabilities").and_then(Value::as_object);
        let declared = declared.into_iter().flatten();
        declared.filter(|(_, value)| **value == Value::Bool(true)).map(|(name, _)| name.as_str()).collect()
    }

    /// The `type` of the IPAM plugin, if there is one.
    pub fn ipam_type(&self) -> Option<&str> {
        let ipam = crate::json::get(&self.raw, "ipam")?.as_object()?;
        crate::json::get(ipam, "type")?.as_str().filter(|text| !text.is_empty())
    }
}

/// A member of the list object itself; `null` is of the wrong kind here.
fn exact<'a, T>(
    list: &'a Map,
    member: &str,
    expected: &'static str,
    read: impl FnOnce(&'a Value) -> Option<T>,
) -> Result<Option<T>, TypeError> {
    let Some(value) = list.get(member) else {
        return Ok(None);
    };
    read(value).map(Some).ok_or_else(|| TypeError::new(member, expected, value))
}

fn flag(list: &Map, member: &'static str) -> Result<bool, ListError> {
    match list.get(member) {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(true),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(false),
        Some(Value::String(text)) => Err(ListError::BadBool { member, text: quoted(text) }),
        Some(other) => Err(TypeError::new(member, "true or false", other).into()),
    }
}

fn choose_version(list: &Map) -> Result<String, ListError> {
    let stated = exact(list, "cniVersion", "text", Value::as_str)?.unwrap_or_default();
    let Some(offered) = exact(list, "cniVersions", "a list", Value::as_array)? else {
        return Ok(stated.to_owned());
    };
    let mut candidates = Vec::new();
    for (i, offer) in offered.iter().enumerate() {
        let member = format!("cniVersions[{i}]");
        let offer = offer.as_str().ok_or_else(|| TypeError::new(&member, "text", offer))?;
        candidates.push((member, offer));
    }
    if !stated.is_empty() {
        candidates.push(("cniVersion".to_owned(), stated));
    }
    let mut best: Option<(VersionNumber, bool, &str)> = None;
    for (member, text) in candidates {
        let number: VersionNumber = text.parse().map_err(|error| ListError::BadVersion { member, error })?;
        // Of several spellings of one version, the one that plugins know.
        let candidate = (number, SpecVersion::from_text(text).is_some(), text);
        if number <= SpecVersion::NEWEST.into()
            && best.is_none_or(|best| (best.0, best.1) < (candidate.0, candidate.1))
        {
            best = Some(candidate);
        }
    }
    Ok(best.map_or(stated, |(_, _, text)| text).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_tell_what_the_runtime_asks() {
        let doc = json!({ "Type": "a", "IPAM": { "type": "host-local" },
            "capabilities": { "mac": true, "ips": false, "bandwidth": null } });
        let plugin = Plugin::from_value(&doc).expect("valid");
        assert_eq!((plugin.kind.as_str(), plugin.ipam_type()), ("a", Some("host-local")));
        assert_eq!(plugin.capabilities(), ["mac"]);
        let bare = Plugin::from_value(&json!({ "type": "a", "ipam": null })).expect("valid");
        assert_eq!((bare.ipam_type(), bare.capabilities().len()), (None, 0));
    }

    #[test]
    fn a_single_config_is_wrapped_as_it_is() {
        let doc = parse(br#"{"type":"a","NAME":"n","cniVersions":["1.1.0"],"big":9007199254740993}"#)
            .expect("valid");
        let list = NetworkList::from_plugin(&doc).expect("valid");
        assert_eq!((list.name.as_str(), list.cni_version.as_str(), list.plugins.len()), ("n", "", 1));
        assert_eq!(list.to_value(), &json!({ "cniVersion": "", "name": "n", "plugins": [doc] }));
    }

    #[test]
    fn of_two_spellings_of_a_version_plugins_know_the_full_one() {
        for versions in [r#"["1.1","1.1.0"]"#, r#"["1.1.0","1.1"]"#] {
            let text = format!(r#"{{"name":"n","cniVersions":{versions}}}"#);
            let list = NetworkList::parse(text.as_bytes()).expect("valid");
            assert_eq!(list.cni_version, "1.1.0");
        }
    }

    #[test]
    fn errors_name_the_place() {
        let error = |text: &str| NetworkList::parse(text.as_bytes()).expect_err(text).to_string();
        let list = |plugin: &str| format!(r#"{{"name":"n","plugins":[{{"type":"a"}},{plugin}]}}"#);
        assert_eq!(error(&list("{}")), "cannot read the network configuration: plugins[1] has no type");
        assert_eq!(error(&list("null")), "cannot read the network configuration: plugins[1] has no type");
        assert_eq!(
            error(&list(r#"{"type":"a","dns":{"search":[1]}}"#)),
            "cannot read the network configuration: plugins[1].dns.search[0] must be text, not the number 1"
        );
        assert_eq!(
            error(&list(r#"{"type":"../a"}"#)),
            "cannot read the network configuration: plugins[1]: plugin type \"../a\" is not valid: '/' is not allowed"
        );
        assert_eq!(
            error(r#"{"name":"n","cniVersions":["1.0.0-rc1"]}"#),
            "cannot read the network configuration list: cniVersions[0]: \"1.0.0-rc1\" is not a version: expected up \
             to three decimal numbers, as in 1.1.0"
        );
    }
}
