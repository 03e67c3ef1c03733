//! The test host does what the host does.

use serde_json::json;

use super::*;
use crate::route::{ErrorKind, Hop, LinkReference, Prefix, Route, Undo};

/// Adds a default route by the gateway that its config names; `tolerate` accepts a refusal, `then` fails.
struct Adds;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    gateway: String,
    #[serde(default)]
    tolerate: bool,
    #[serde(default)]
    swallow: bool,
    #[serde(default)]
    fail: bool,
}

impl Module for Adds {
    type Config = Config;
}

impl Settings for Adds {}

fn add(call: &Call<Config>, host: &Host) -> Result<Outcome, Error> {
    let gateway = call.config.gateway.parse().map_err(|_| Error::InvalidConfig("gateway".into()))?;
    let route = Route::new(Prefix::default_route(Family::V4), vec![Hop::new(&call.ifname, Some(gateway))]);
    let outcome = match host.add(&route) {
        Err(error) if call.config.tolerate => Outcome::unchanged().tolerate(&error, "it is only a test"),
        Err(error) if !call.config.swallow => return Err(error.into()),
        _ => Outcome::unchanged(),
    };
    if call.config.fail { Err(Error::TryLater("not now".into())) } else { Ok(outcome) }
}

impl Stage for Adds {
    fn add(call: &Call<Config>, _: &Document, host: &Host) -> Result<Outcome, Error> {
        add(call, host)
    }

    fn check(call: &Call<Config>, _: &Document, host: &Host) -> Result<(), Error> {
        add(call, host).map(drop)
    }
}

fn pod() -> TestHost {
    TestHost::new(&["net1"]).link("eth0").route("10.1.0.0/24 dev net1 scope link")
}

fn call(config: Value) -> TestCall {
    TestCall::new("net1").config(config)
}

fn run(pod: &TestHost, config: Value) -> Result<Outcome, Error> {
    pod.add::<Adds>(&call(config), &json!({"cniVersion": "1.1.0"}))
}

#[test]
fn a_change_is_seen() {
    let pod = pod();
    run(&pod, json!({"gateway": "10.1.0.1"})).unwrap();
    assert_eq!(pod.routes(), ["default via 10.1.0.1 dev net1", "10.1.0.0/24 dev net1 scope link"]);
    assert_eq!(pod.calls(), 1);
}

#[test]
fn an_error_undoes_the_routes() {
    let pod = pod();
    let before = pod.routes();
    assert_eq!(
        run(&pod, json!({"gateway": "10.1.0.1", "fail": true})),
        Err(Error::TryLater("not now".into()))
    );
    assert_eq!(pod.routes(), before);
}

#[test]
fn a_failed_call_fails_the_stage_unless_it_is_tolerated() {
    let refused = json!({"gateway": "192.0.2.1"});
    let error = run(&pod(), refused.clone()).unwrap_err().to_string();
    assert!(error.contains("192.0.2.1"), "{error}");
    let mut swallowed = refused.clone();
    swallowed["swallow"] = json!(true);
    assert_eq!(run(&pod(), swallowed).unwrap_err().to_string(), error);
    let mut tolerated = refused;
    tolerated["tolerate"] = json!(true);
    let outcome = run(&pod(), tolerated).unwrap();
    assert_eq!(outcome.tolerated, [(1, "it is only a test".to_owned())]);
}

#[test]
fn check_changes_nothing() {
    let pod = pod();
    let error = pod.check::<Adds>(&call(json!({"gateway": "10.1.0.1"})), &json!({})).unwrap_err();
    assert!(error.to_string().contains("only a stage's add"), "{error}");
    assert_eq!(pod.routes().len(), 1);
    assert_eq!(pod.del::<Adds>(&call(json!({"gateway": "10.1.0.1"})), &json!({})), Ok(()));
}

#[test]
fn errors_keep_their_class() {
    let pod = pod();
    let host = Host { calls: Calls::new(pod.pod.clone(), pod.links.clone()) };
    let via = |link, gateway: &str| {
        Route::new(Prefix::default_route(Family::V4), vec![Hop::new(link, gateway.parse().ok())])
    };
    for (route, kind) in [
        (via("net1", "192.0.2.1"), ErrorKind::GatewayUnreachable),
        (via("net7", "10.1.0.1"), ErrorKind::NoDevice),
        (via("eth0", "10.1.0.1"), ErrorKind::Denied),
        (Route { table: 100, ..via("net1", "10.1.0.1") }, ErrorKind::Denied),
    ] {
        let error = host.add(&route).unwrap_err();
        assert_eq!((error.errors[0].kind, error.undo), (kind, Undo::NotNeeded), "{error}");
        let first = &error.errors[0];
        assert_eq!((first.operation.as_str(), first.family), ("add", Some(Family::V4)));
        assert!(first.route.as_deref().unwrap().contains(&route.to_string()), "{error}");
        assert_eq!(first.namespace, "test");
        assert!(first.reason.is_some());
    }
    let error = host.add(&via("net1", "192.0.2.1")).unwrap_err();
    let link = LinkReference { name: "net1".into(), index: 2 };
    assert_eq!(error.errors[0].links, [link]);
    let error = host.delete(&via("net1", "10.1.0.9")).unwrap_err();
    assert_eq!((error.errors[0].kind, error.call), (ErrorKind::NotFound, 6));
}

#[test]
fn only_the_attachments_routes_are_listed() {
    let pod = pod().route("default via 10.2.0.1 dev eth0").route("default via 10.1.0.1 dev net1 metric 5");
    let host = Host { calls: Calls::new(pod.pod.clone(), pod.links.clone()) };
    let texts: Vec<String> = host.default_routes(Family::V4).unwrap().iter().map(Route::to_string).collect();
    assert_eq!(texts, ["default via 10.1.0.1 dev net1 metric 5"]);
    assert_eq!(host.link("02:00:00:00:00:03").unwrap().unwrap().name, "eth0");
    assert_eq!(host.link("net7").unwrap(), None);
    assert_eq!(host.links().unwrap().len(), 2);
}

#[test]
fn a_config_is_an_object_that_fits() {
    for (config, word) in
        [(json!([]), "not a JSON object"), (json!({}), "gateway"), (json!({"gateway": "x", "y": 1}), "y")]
    {
        let text = run(&pod(), config.clone()).unwrap_err();
        assert!(matches!(&text, Error::InvalidConfig(text) if text.contains(word)), "{text}");
        assert!(validate::<Adds>(&config)[0].message.contains(word));
    }
}

#[test]
fn routes_are_read_as_they_are_written() {
    for text in [
        "default via 10.1.0.1 dev net1",
        "default via 10.1.0.1 dev net1 metric 100",
        "10.1.0.0/24 dev net1 proto kernel scope link",
        "192.0.2.7 dev net1 scope link",
        "default via fe80::1 dev net1 proto ra",
        "fd00::/64 dev net1 proto kernel metric 256",
        "default nexthop via 10.1.0.1 dev net1 weight 1 nexthop via 10.2.0.1 dev eth0 weight 3",
    ] {
        assert_eq!(TestHost::new(&["net1"]).link("eth0").route(text).routes(), [text]);
    }
}
