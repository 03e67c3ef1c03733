//! One target per parser: what must hold for any bytes.

use catena_cni::args::CniArgs;
use catena_cni::confdir::ConfDir;
use catena_cni::error::ErrorObject;
use catena_cni::identifier::{ContainerId, IfName, NetworkName, PluginType};
use catena_cni::json::{self, JsonError, Map, Value};
use catena_cni::list::{NetworkList, Plugin};
use catena_cni::net::{IpNet, parse_ip};
use catena_cni::result::{self, CniResult};
use catena_cni::version::{SpecVersion, VersionNumber, VersionReply};

pub(crate) fn json(bytes: &[u8]) {
    let ours = json::parse(bytes);
    let theirs: Result<Value, _> = serde_json::from_slice(bytes);
    match (&ours, &theirs) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs),
        (Err(JsonError::TooDeep), _) | (Err(_), Err(_)) => {}
        // Unpaired surrogates and bytes that are no UTF-8 are taken here, as Go takes them.
        (Ok(_), Err(_)) => assert!(
            std::str::from_utf8(bytes).is_err() || bytes.windows(3).any(|w| w.eq_ignore_ascii_case(b"\\ud")),
            "only we take {bytes:?}"
        ),
        (Err(error), Ok(_)) => panic!("only we refuse {bytes:?}: {error}"),
    }
    if let Ok(ours) = ours {
        assert_eq!(json::parse(ours.to_string().as_bytes()), Ok(ours));
    }
}

pub(crate) fn result(bytes: &[u8]) {
    let Ok(doc) = result::from_stdout(bytes, "1.1.0") else { return };
    let checked = result::check(&doc);
    for target in SpecVersion::ALL {
        let Ok(written) = result::convert(&doc, target) else { continue };
        assert!(checked.is_ok());
        assert_eq!(result::version_text(&written), Some(target.as_str()));
        assert_clean(&written);
        assert_eq!(result::convert(&written, target).as_ref(), Ok(&written), "not stable");
    }
    let read = CniResult::read(&doc);
    assert_eq!(CniResult::parse(doc.to_string().as_bytes()), read);
    if let Ok((model, version)) = read {
        assert_eq!(checked, Ok(version));
        let newest = model.to_value(SpecVersion::NEWEST).expect("1.1.0 can say everything");
        assert_eq!(CniResult::read(&newest).map(|(model, _)| model).as_ref(), Ok(&model));
        assert_eq!(model.to_text(SpecVersion::NEWEST), Ok(newest.to_string()));
        assert_eq!(result::convert(&doc, SpecVersion::NEWEST), Ok(newest));
    }
}

/// A request with a `prevResult`, as the last plugin of a list reads it.
pub(crate) fn prev_result(bytes: &[u8]) {
    let Ok(doc) = json::parse(bytes) else { return };
    for version in SpecVersion::ALL {
        let mut request = Map::from_iter([("cniVersion".to_owned(), Value::from(version.as_str()))]);
        request.insert("prevResult".to_owned(), doc.clone());
        if let Ok(Some(previous)) = result::prev_result(&Value::Object(request)) {
            let converted = result::convert(&previous, version).expect("it is of the request's family");
            assert_clean(&converted);
        }
    }
    let _: Result<_, _> = result::prev_result(&doc);
}

/// A failed plugin's stdout.
pub(crate) fn error_object(bytes: &[u8]) {
    let Ok(doc) = json::parse(bytes) else { return };
    if let Some(error) = ErrorObject::from_value(&doc) {
        assert_eq!(ErrorObject::from_value(&error.to_value()), Some(error));
    }
}

pub(crate) fn list(bytes: &[u8]) {
    if let Ok(list) = NetworkList::parse(bytes) {
        assert_eq!(list.to_value(), &json::parse(bytes).expect("it was parsed"));
        assert_eq!(NetworkList::from_value(list.to_value()), Ok(list));
    }
    let Ok(doc) = json::parse(bytes) else { return };
    if let Ok(list) = NetworkList::from_plugin(&doc) {
        assert_eq!(Value::Object(list.plugins[0].raw.clone()), doc);
        assert_eq!(NetworkList::from_value(list.to_value()), Ok(list));
    }
    if let Ok(plugin) = Plugin::from_value(&doc) {
        let _: (Vec<_>, Option<_>) = (plugin.capabilities(), plugin.ipam_type());
    }
    let dir = ConfDir::new([("a.conflist".into(), bytes.to_vec()), ("n/b.conf".into(), bytes.to_vec())]);
    let _: (Result<_, _>, Result<_, _>) = (dir.network("n"), dir.first_networks(0));
}

pub(crate) fn version_reply(bytes: &[u8]) {
    if let Ok(reply) = VersionReply::parse(bytes) {
        assert!(!reply.supported.is_empty() && !reply.cni_version.is_empty());
    }
}

pub(crate) fn texts(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(args) = CniArgs::parse(text) {
        assert_eq!(args.to_string(), text);
        for (key, _) in args.iter() {
            assert!(args.get(key).is_some());
        }
        let _: Result<_, _> = args.check_known(&["IP"]);
    }
    if let Ok(net) = text.parse::<IpNet>() {
        assert_eq!(net.to_string().parse(), Ok(net));
        assert!(net.contains(net.addr()) && net.contains(net.masked().addr()));
    }
    if let Some(ip) = parse_ip(text) {
        assert_eq!(parse_ip(&ip.to_string()), Some(ip));
    }
    if let Ok(version) = text.parse::<SpecVersion>() {
        assert_eq!(text.parse(), Ok(VersionNumber::from(version)));
    }
    let _: Result<VersionNumber, _> = text.parse();
    if let (Ok(id), Ok(name)) = (ContainerId::parse(text), NetworkName::parse(text)) {
        assert_eq!(id.as_str(), name.as_str());
    }
    if let Ok(name) = IfName::parse(text) {
        assert!(name.as_str().len() < 16);
    }
    let _: Result<_, _> = PluginType::parse(text);
}

/// What never leaves: a null at any depth, an index that names nothing.
pub(crate) fn assert_clean(doc: &Value) {
    let list =
        |name| doc.get(name).map(|list| list.as_array().expect("a list").as_slice()).unwrap_or_default();
    assert!(doc.is_object(), "{doc}");
    assert!(!json::has_null(doc), "{doc}");
    for ip in list("ips") {
        if let Some(index) = ip.get("interface") {
            assert!(index.as_u64().is_some_and(|index| index < list("interfaces").len() as u64), "{doc}");
        }
    }
}
