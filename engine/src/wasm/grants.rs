//! Whether what a module imports and answers is granted. Pure.

use std::collections::BTreeSet;

use catena_cni::json;
use catena_contract::{self as contract, Grant, Refusal};
use serde_json::Value;

use super::call::{Document, Export, Outcome};
use super::error::StageError;
use super::host::FailedCall;
use super::limits::{self, Exceeded};
use super::pointer;
use super::text;
use crate::node::{Grants, Limits, RouteGrant, RouteOp};

/// The contract's package.
pub const PACKAGE: &str = "catena:stage";
/// The versions of the contract that this engine speaks, for messages.
pub const CONTRACT: &str = "0.1";

/// Whether a module that was built for this version of the contract runs here: within 0.1 only interfaces are
/// added, never changed.
pub fn speaks(version: &str) -> bool {
    let patch = version.strip_prefix(CONTRACT).and_then(|rest| rest.strip_prefix('.'));
    patch.is_some_and(|patch| !patch.is_empty() && patch.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Why a module with these exports of [`PACKAGE`] cannot be used: what nobody calls would enforce nothing. Exports of
/// other packages are not among them; some toolchains add their own.
pub fn unknown_export(contract: &str, exports: &[&str]) -> Option<String> {
    // Types alone ask for nothing to be called.
    let is_known = |name: &str| name == "types" || Export::ALL.iter().any(|export| export.as_str() == name);
    let unknown = exports.iter().find(|name| !is_known(name))?;
    let known = Export::ALL.map(Export::as_str).join(", ");
    Some(format!(
        "it exports {PACKAGE}/{unknown}@{contract}, which this catena would never call; of {PACKAGE} {CONTRACT} it knows \
         {known}; update catena, or build the module without that export"
    ))
}

/// What a module must be granted to be loaded: what it declares, and what its imports stand for.
///
/// # Errors
/// An import that no grant can give, and why.
pub fn required<'a>(imports: impl IntoIterator<Item = &'a str>, wants: &Grants) -> Result<Grants, String> {
    let mut required = wants.clone();
    for import in imports {
        let (interface, version) = import.split_once('@').unwrap_or((import, ""));
        let (package, name) = interface.split_once('/').unwrap_or((interface, ""));
        match (package, name) {
            (PACKAGE, _) if !speaks(version) => {
                return Err(format!(
                    "it imports {import}, but this catena speaks {PACKAGE} {CONTRACT}; rebuild it with a matching SDK"
                ));
            }
            (PACKAGE, "types") => {}
            (PACKAGE, "log") => required.log = true,
            (PACKAGE, "links") => required.links = true,
            (PACKAGE, "routes") => {
                required.routes.get_or_insert_with(|| RouteGrant::new([RouteOp::Read]));
            }
            ("wasi:sockets" | "wasi:http", _) => {
                return Err(format!("it imports {import}; a stage has no network, so build it without"));
            }
            ("wasi:cli" | "wasi:clocks" | "wasi:filesystem" | "wasi:io" | "wasi:random", _) => {
                if !version.starts_with("0.2.") {
                    return Err(format!(
                        "it imports {import}, but this catena speaks WASI 0.2; build it for wasm32-wasip2"
                    ));
                }
            }
            _ => {
                return Err(format!(
                    "it imports {import}, which this catena does not know; known are {PACKAGE} {CONTRACT} and WASI 0.2"
                ));
            }
        }
    }
    Ok(required)
}

/// Whether an import is WASI's.
pub fn is_wasi(import: &str) -> bool {
    import.starts_with("wasi:")
}

/// Checks an outcome against what the stage was given and what it may do.
///
/// # Errors
/// [`StageError::Limit`], [`StageError::BadOutcome`] or [`StageError::Ungranted`].
pub fn check_outcome(
    before: &Document,
    outcome: &Outcome,
    grants: &Grants,
    limits: &Limits,
) -> Result<(), StageError> {
    if let Some(after) = &outcome.result {
        if after.text.len() > limits.result {
            return Err(Exceeded::new("bytes of a result", limits.result, "resultKiB").into());
        }
        contract::result(plain(before), plain(after), |member| grants.result.contains(&member))?;
    }
    contract::tags(&outcome.tags)?;
    Ok(contract::publications(&outcome.publications, |key| grants.publish.contains(key))?)
}

/// Checks that what is tolerated did fail, and says why it is tolerated.
///
/// # Errors
/// [`StageError::BadOutcome`].
pub fn check_tolerations(tolerated: &[(u32, String)], failed: &[FailedCall]) -> Result<(), StageError> {
    Ok(contract::tolerations(tolerated, |call| failed.iter().any(|failed| failed.call == call))?)
}

fn plain(document: &Document) -> contract::Document<'_> {
    contract::Document { format: &document.format, text: &document.text }
}

impl From<Refusal> for StageError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Bad(what) => Self::BadOutcome(what),
            Refusal::Ungranted { what, grant: None } => {
                Self::Ungranted(format!("{what}, which no grant allows"))
            }
            Refusal::Ungranted { what, grant: Some(grant) } => {
                let mut wanted = Grants::default();
                match grant {
                    Grant::Publish(key) => drop(wanted.publish.insert(key)),
                    Grant::Result(member) => drop(wanted.result.insert(member)),
                }
                Self::Ungranted(format!("{what}, which needs the grant {wanted}"))
            }
            Refusal::Limit { what, most } => Exceeded::fixed(what, most).into(),
        }
    }
}

/// Checks a config that `admit` rewrote, and gives it back as the delegate shall get it: written anew, so that
/// no second reading of the text can differ from the one that was checked.
///
/// # Errors
/// [`StageError::Limit`], [`StageError::BadOutcome`] or [`StageError::Ungranted`].
pub fn check_rewrite(
    before: &str,
    after: &str,
    grants: &Grants,
    limits: &Limits,
) -> Result<String, StageError> {
    if after.len() > limits.result {
        return Err(Exceeded::new("bytes of a config", limits.result, "resultKiB").into());
    }
    let old = json::parse(before.as_bytes()).map_err(|error| {
        StageError::BadOutcome(format!("the config that it was to admit is not JSON: {error}"))
    })?;
    let new = json::parse(after.as_bytes())
        .map_err(|error| StageError::BadOutcome(format!("the config that it wrote is not JSON: {error}")))?;
    if !new.is_object() {
        return Err(StageError::BadOutcome("the config that it wrote is not an object".into()));
    }
    let mut refused = None;
    pointer::differences(&old, &new, &mut |place| {
        if refused.is_none() && !may_rewrite(place, grants) {
            refused = Some(place.to_owned());
        }
    });
    match refused {
        None => Ok(Value::to_string(&new)),
        // A grant for half a place would be another grant.
        Some(place) if place.len() > limits::NAME => Err(StageError::Ungranted(format!(
            "it rewrites \"{}\" of the config, a place of {} bytes, which is not granted",
            text::plain(&place, limits::NAME),
            place.len()
        ))),
        Some(place) => {
            let wanted = Grants { config: BTreeSet::from([place.clone()]), ..Grants::default() };
            Err(StageError::Ungranted(format!(
                "it rewrites {place:?} of the config, which needs the grant {wanted}"
            )))
        }
    }
}

/// A `type` decides which program runs as root, so a grant of something around it is not enough. Plugins read
/// names without regard to case.
fn may_rewrite(place: &str, grants: &Grants) -> bool {
    if place.rsplit('/').next().is_some_and(|token| json::same_name(token, "type")) {
        return grants.config.contains(place);
    }
    grants.config.iter().any(|granted| pointer::is_within(place, granted))
}

#[cfg(test)]
mod tests {
    use catena_cni::version::SpecVersion;
    use serde_json::json;

    use super::*;
    use crate::node::At;

    fn grants(value: Value) -> Grants {
        Grants::parse(At::Document, &value).unwrap()
    }

    fn document(value: &Value) -> Document {
        let version = value.get("cniVersion").and_then(Value::as_str).unwrap_or("0.1.0");
        Document { format: format!("cni/{version}"), text: value.to_string() }
    }

    fn result() -> Value {
        json!({
            "cniVersion": "1.1.0",
            "interfaces": [{"name": "eth0", "sandbox": "/run/netns/x"}],
            "ips": [{"address": "10.1.0.2/24", "gateway": "10.1.0.1", "interface": 0}],
            "routes": [{"dst": "0.0.0.0/0", "gw": "10.1.0.1"}],
            "dns": {"nameservers": ["10.1.0.1"]},
            "vendor": 1
        })
    }

    fn changed(change: impl FnOnce(&mut Value)) -> Outcome {
        let mut value = result();
        change(&mut value);
        Outcome { result: Some(document(&value)), ..Outcome::default() }
    }

    fn check(outcome: &Outcome, granted: Value) -> Result<(), StageError> {
        check_outcome(&document(&result()), outcome, &grants(granted), &Limits::default())
    }

    #[test]
    fn an_unchanged_result_needs_no_grant() {
        assert_eq!(check(&Outcome::default(), json!({})), Ok(()));
        assert_eq!(check(&changed(|_| {}), json!({})), Ok(()));
    }

    #[test]
    fn each_member_needs_its_grant() {
        let change = |at: &str, to: Value| changed(|value| *value.pointer_mut(at).unwrap() = to);
        for (outcome, member) in [
            (change("/routes", json!([])), "routes"),
            (change("/ips/0/gateway", json!("10.1.0.9")), "routes"),
            (change("/ips/0/address", json!("10.1.0.3/24")), "ips"),
            (change("/ips", json!([])), "ips"),
            (change("/interfaces/0/name", json!("eth1")), "interfaces"),
            (change("/dns", json!({})), "dns"),
        ] {
            let error = check(&outcome, json!({})).unwrap_err();
            assert_eq!(error.code(), 105);
            assert!(error.to_string().contains(&format!(r#"{{"result":["{member}"]}}"#)), "{error}");
            let others = ["routes", "ips", "interfaces", "dns"].into_iter().filter(|other| *other != member);
            let others: Vec<&str> = others.filter(|other| !(member == "routes" && *other == "ips")).collect();
            assert!(check(&outcome, json!({ "result": others })).is_err(), "{member}");
            assert_eq!(check(&outcome, json!({ "result": [member] })), Ok(()), "{member}");
        }
        let all = json!({"result": ["routes", "ips", "interfaces", "dns"]});
        assert!(check(&change("/vendor", json!(2)), all).is_err());
    }

    #[test]
    fn a_conversion_changes_nothing() {
        let old = json!({
            "cniVersion": "0.2.0",
            "ip4": {"ip": "10.1.0.2/24", "gateway": "10.1.0.1", "routes": [{"dst": "0.0.0.0/0"}]},
            "dns": {}
        });
        let new = catena_cni::result::convert(&old, SpecVersion::V1_1_0).unwrap();
        let outcome = Outcome { result: Some(document(&new)), ..Outcome::default() };
        assert_eq!(check_outcome(&document(&old), &outcome, &Grants::default(), &Limits::default()), Ok(()));
    }

    #[test]
    fn nonsense_is_refused() {
        let all = json!({"result": ["routes", "ips", "interfaces", "dns"]});
        let with = |format: &str, text: &str| Outcome {
            result: Some(Document { format: format.into(), text: text.into() }),
            ..Outcome::default()
        };
        for (outcome, part) in [
            (with("cni/1.1.0", "{"), "not JSON"),
            (with("cni/1.1.0", "null"), "result"),
            (with("cni/9.0.0", r#"{"cniVersion":"9.0.0"}"#), "no known CNI version"),
            (with("cni/1.1.0", r#"{"cniVersion":"1.0.0"}"#), "cniVersion 1.0.0"),
            (with("raw", r#"{"cniVersion":"1.1.0"}"#), "format \"raw\""),
            (
                with("cni/1.1.0", r#"{"cniVersion":"1.1.0","ips":[{"address":"10.0.0.1/8","interface":3}]}"#),
                "3",
            ),
            (with("cni/1.1.0", r#"{"cniVersion":"1.1.0","ips":[null]}"#), "result"),
        ] {
            let error = check(&outcome, all.clone()).unwrap_err();
            assert_eq!(error.code(), 106, "{error}");
            assert!(error.to_string().contains(part), "{part} in {error}");
        }
        let large = with("cni/1.1.0", &" ".repeat(Limits::default().result + 1));
        assert_eq!(check(&large, all).unwrap_err().code(), 103);
    }

    #[test]
    fn a_raw_result_stays() {
        let raw = Document { format: "raw".into(), text: r#"{"cniVersion":"9.0.0"}"#.into() };
        let same = Outcome { result: Some(raw.clone()), ..Outcome::default() };
        assert_eq!(check_outcome(&raw, &same, &Grants::default(), &Limits::default()), Ok(()));
        let invented = Outcome { result: Some(document(&result())), ..Outcome::default() };
        assert!(check_outcome(&raw, &invented, &Grants::default(), &Limits::default()).is_err());
    }

    #[test]
    fn tags() {
        let tagged = |tags: &[&str]| {
            check(
                &Outcome { tags: tags.iter().map(|t| (*t).into()).collect(), ..Outcome::default() },
                json!({}),
            )
        };
        assert_eq!(tagged(&["empty", "a.b_c-1"]), Ok(()));
        for bad in ["", "-a", "A", "a b", "a\n", &"a".repeat(65)] {
            assert_eq!(tagged(&[bad]).unwrap_err().code(), 106, "{bad}");
        }
        assert_eq!(tagged(&["a"; 33]).unwrap_err().code(), 103);
    }

    #[test]
    fn publications() {
        let published = |list: &[(&str, &str)]| {
            let publications = list.iter().map(|(key, text)| ((*key).into(), (*text).into())).collect();
            check(
                &Outcome { publications, ..Outcome::default() },
                json!({"publish": ["example.com/a", "example.com/b"]}),
            )
        };
        assert_eq!(published(&[("example.com/a", "[]"), ("example.com/b", "1")]), Ok(()));
        let error = published(&[("example.com/c", "1")]).unwrap_err();
        assert_eq!(error.code(), 105);
        assert!(error.to_string().contains(r#"{"publish":["example.com/c"]}"#), "{error}");
        assert_eq!(published(&[("example.com/a", "[]"), ("example.com/a", "[]")]).unwrap_err().code(), 106);
        assert_eq!(published(&[("example.com/a", "[")]).unwrap_err().code(), 106);
        let large = format!("\"{}\"", "x".repeat(contract::PUBLICATIONS));
        assert_eq!(published(&[("example.com/a", &large)]).unwrap_err().code(), 103);
    }

    #[test]
    fn rewrites() {
        let before = r#"{"type":"bridge","mtu":1500,"plugins":[{"type":"a","x":1}]}"#;
        let rewrite =
            |after: &str, granted: Value| check_rewrite(before, after, &grants(granted), &Limits::default());
        assert_eq!(rewrite(before, json!({})).unwrap(), before);
        let mtu = r#"{"type":"bridge","mtu":9000,"plugins":[{"type":"a","x":1}]}"#;
        assert!(rewrite(mtu, json!({})).unwrap_err().to_string().contains(r#"{"config":["/mtu"]}"#));
        assert!(rewrite(mtu, json!({"config": ["/mtu"]})).is_ok());
        let plugin = r#"{"type":"bridge","mtu":1500,"plugins":[{"type":"a","x":1},{"Type":"sh"}]}"#;
        assert!(
            rewrite(plugin, json!({"config": ["/plugins"]}))
                .unwrap_err()
                .to_string()
                .contains("/plugins/1/Type")
        );
        assert!(rewrite(plugin, json!({"config": ["/plugins", "/plugins/1/Type"]})).is_ok());
        assert!(
            rewrite(r#"{"type":"sh"}"#, json!({"config": [""]})).unwrap_err().to_string().contains("/type")
        );
        // A place may be as long as the config; what is said of it may not.
        let long = format!(r#"{},"{}":1}}"#, &before[..before.len() - 1], "k".repeat(100_000));
        let error = rewrite(&long, json!({})).unwrap_err();
        let text = error.to_string();
        assert!(error.code() == 105 && text.len() < 500 && text.contains("100001 bytes"), "{text}");
        assert!(!text.contains("{\"config\""), "{text}");
        assert!(rewrite("[]", json!({"config": ["", "/type"]})).is_err());
        // The second reading of a repeated name is not left to the delegate.
        let twice = r#"{"type":"sh","type":"bridge","mtu":1500,"plugins":[{"type":"a","x":1}]}"#;
        assert_eq!(rewrite(twice, json!({})).unwrap().matches("bridge").count(), 1);
        assert!(!rewrite(twice, json!({})).unwrap().contains("sh\""));
    }

    #[test]
    fn imports() {
        let log =
            required(["catena:stage/log@0.1.0", "catena:stage/types@0.1.3"], &Grants::default()).unwrap();
        assert_eq!(log, grants(json!({"log": true})));
        let routes = required(["catena:stage/routes@0.1.0"], &grants(json!({"clock": true}))).unwrap();
        assert!(routes.clock && routes.routes.is_some());
        assert!(
            required(["wasi:cli/stdout@0.2.6", "wasi:clocks/wall-clock@0.2.0"], &Grants::default())
                .unwrap()
                .is_empty()
        );
        for (bad, part) in [
            ("catena:stage/log@0.2.0", "speaks catena:stage 0.1"),
            ("catena:stage/rules@0.1.1", "does not know"),
            ("wasi:sockets/tcp@0.2.0", "no network"),
            ("wasi:cli/stdout@0.3.0", "WASI 0.2"),
            ("env/x", "does not know"),
        ] {
            assert!(required([bad], &Grants::default()).unwrap_err().contains(part), "{bad}");
        }
    }

    #[test]
    fn exports() {
        assert_eq!(unknown_export("0.1.4", &["admit", "arrange", "settings", "stage", "types"]), None);
        let why = unknown_export("0.1.4", &["admit", "veto"]).unwrap();
        for part in ["catena:stage/veto@0.1.4", "catena:stage 0.1 ", "arrange, admit, stage, settings"] {
            assert!(why.contains(part), "{part} in {why}");
        }
    }

    #[test]
    fn contract_versions() {
        assert!(speaks("0.1.0") && speaks("0.1.12"));
        assert!(
            !speaks("0.1") && !speaks("0.2.0") && !speaks("0.10.0") && !speaks("0.1.0-rc1") && !speaks("")
        );
    }

    #[test]
    fn tolerations() {
        use crate::routes::kernel::Undo;
        let failed = [FailedCall {
            call: 3,
            errors: Vec::new(),
            more: 0,
            denied: false,
            changed: false,
            undo: Undo::default(),
        }];
        assert_eq!(check_tolerations(&[(3, "not ours".into())], &failed), Ok(()));
        assert!(check_tolerations(&[(3, " ".into())], &failed).is_err());
        assert!(check_tolerations(&[(2, "x".into())], &failed).is_err());
    }
}
