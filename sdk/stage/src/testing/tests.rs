//! The test host does what the host does.

use serde_json::json;

use super::*;
use crate::route::{ErrorKind, Hop, Kind, LinkReference, Prefix, Route, Undo};

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

/// Does with the host what its test wants, and says what its test wants.
struct Says;

#[derive(serde::Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Words {
    /// Looks for this link and goes on whatever comes.
    look: Option<String>,
    /// Tolerates that, with this reason.
    because: Option<String>,
    /// Tolerates a call of this number.
    tolerate: Option<u32>,
    tags: Vec<String>,
    publish: Vec<(String, String)>,
    result: Option<(String, Value)>,
    intents: usize,
    rewrite: Option<Value>,
}

impl Module for Says {
    type Config = Words;
}

fn say(words: &Words, host: &Host) -> Outcome {
    let mut outcome = Outcome::unchanged();
    if let Some(Err(error)) = words.look.as_deref().map(|name| host.link(name))
        && let Some(reason) = &words.because
    {
        outcome = outcome.tolerate(&error, reason);
    }
    outcome.tolerated.extend(words.tolerate.map(|call| (call, "x".to_owned())));
    outcome.tags.clone_from(&words.tags);
    outcome.publications.clone_from(&words.publish);
    outcome.result = words
        .result
        .as_ref()
        .map(|(format, value)| Document { format: format.clone(), text: value.to_string() });
    outcome
}

impl Stage for Says {
    fn add(call: &Call<Words>, _: &Document, host: &Host) -> Result<Outcome, Error> {
        Ok(say(&call.config, host))
    }

    fn check(call: &Call<Words>, _: &Document, host: &Host) -> Result<(), Error> {
        say(&call.config, host);
        Ok(())
    }

    fn del(call: &Call<Words>, _: &Document, host: &Host) -> Result<(), Error> {
        say(&call.config, host);
        Ok(())
    }
}

impl Admit for Says {
    fn admit(call: &Call<Words>, _: &Value, host: &Host) -> Result<Verdict, Error> {
        say(&call.config, host);
        Ok(call.config.rewrite.clone().map_or(Verdict::Allow, Verdict::Rewrite))
    }
}

impl Arrange for Says {
    fn arrange(call: &Call<Words>, _: &[Candidate], host: &Host) -> Result<Vec<Intent>, Error> {
        say(&call.config, host);
        let other = Action::Override(vec!["fd00::1".parse().map_err(|_| Error::failed("an address"))?]);
        Ok(vec![Intent { ipv4: other, ..Intent::default() }; call.config.intents])
    }
}

fn says(config: Value) -> Result<Outcome, Error> {
    pod().add::<Says>(&call(config), &json!({"cniVersion": "1.1.0", "vendor": 1}))
}

#[track_caller]
fn is_refused<T: std::fmt::Debug>(answer: Result<T, Error>, wanted: u32, part: &str) {
    let error = answer.unwrap_err();
    assert!(matches!(error, Error::Failed { code, .. } if code == wanted), "{error:?}");
    assert!(error.to_string().contains(part), "{part} in {error}");
}

#[test]
fn what_catena_would_not_take_is_an_error_here_too() {
    let good = json!({
        "tags": ["a.b-1"], "publish": [["example.com/a", "{}"]],
        "result": ["cni/1.1.0", {"cniVersion": "1.1.0", "vendor": 1, "dns": {"domain": "x"}}]
    });
    assert!(says(good).is_ok());
    for (config, code, part) in [
        (json!({"tags": ["A"]}), 106, "the tag \"A\""),
        (json!({"tags": vec!["a"; 33]}), 103, "32 tags"),
        (json!({"publish": [["a", "{}"], ["a", "{}"]]}), 106, "twice"),
        (json!({"publish": [["a", "{"]]}), 106, "not JSON"),
        (json!({"result": ["cni/1.1.0", {"cniVersion": "1.0.0", "vendor": 1}]}), 106, "cniVersion 1.0.0"),
        (json!({"result": ["raw", {"cniVersion": "1.1.0"}]}), 106, "cni/VERSION"),
        (json!({"result": ["cni/1.1.0", {"cniVersion": "1.1.0"}]}), 105, "does not know"),
        (json!({"tolerate": 1}), 106, "call 1, which did not fail"),
        (
            json!({"result": ["cni/1.1.0", {"cniVersion": "1.1.0", "vendor": 1, "dns": {"domain": "x".repeat(1 << 20)}}]}),
            103,
            "1048576 bytes of a result",
        ),
    ] {
        is_refused(says(config), code, part);
    }
    let large = json!({"rewrite": {"x": "x".repeat(1 << 20)}});
    is_refused(pod().admit::<Says>(&call(large), &json!({"plugins": []})), 103, "1048576 bytes of a config");
    let (host, list) = (pod(), json!({"plugins": []}));
    is_refused(host.admit::<Says>(&call(json!({"rewrite": []})), &list), 106, "not an object");
    let rewrites = call(json!({"rewrite": {}}));
    assert_eq!(host.admit::<Says>(&rewrites, &list), Ok(Verdict::Rewrite(json!({}))));
    is_refused(host.admit::<Says>(&rewrites.chained(), &list), 106, "chained");
    let attachments = json!([{"position": 0}]);
    is_refused(host.arrange::<Says>(&call(json!({"intents": 2})), &attachments), 106, "2 intents for 1");
    is_refused(host.arrange::<Says>(&call(json!({"intents": 1})), &attachments), 106, "other family");
}

/// Calls of links have numbers as those of routes have, and can fail as they can.
#[test]
fn a_question_about_links_that_failed_is_judged() {
    let gone = || pod().gone();
    let (looks, result) = (json!({"look": "eth0"}), json!({"cniVersion": "1.1.0"}));
    assert!(pod().add::<Says>(&call(looks.clone()), &result).is_ok());
    for answer in [
        gone().add::<Says>(&call(looks.clone()), &result).map(drop),
        gone().check::<Says>(&call(looks.clone()), &result),
        gone().del::<Says>(&call(looks.clone()), &result),
    ] {
        is_refused(answer, 200, "no network namespace");
    }
    let mut tolerates = looks;
    tolerates["because"] = json!("nothing depends on it");
    let outcome = gone().add::<Says>(&call(tolerates.clone()), &result).unwrap();
    assert_eq!(outcome.tolerated, [(1, "nothing depends on it".to_owned())]);
    tolerates["because"] = json!(" ");
    is_refused(gone().add::<Says>(&call(tolerates), &result), 106, "without a reason");
    let error = gone().add::<Adds>(&call(json!({"gateway": "10.1.0.1"})), &result);
    is_refused(error, 200, "no network namespace");
}

#[test]
fn what_is_granted_beyond_the_usual() {
    let hole = |table| Route {
        kind: Kind::Blackhole,
        table,
        ..Route::new("192.0.2.0/24".parse().unwrap(), Vec::new())
    };
    let host = |pod: &TestHost| Host { calls: Calls::new(pod.pod.clone(), pod.links.clone()) };
    let plain = pod();
    for table in [MAIN, 100] {
        let error = host(&plain).add(&hole(table)).unwrap_err();
        assert_eq!(error.errors[0].kind, ErrorKind::Denied, "{error}");
    }
    let granted = pod().table(100).routes_without_link();
    host(&granted).add(&hole(100)).unwrap();
    assert_eq!(host(&granted).routes(Family::V4, 100).unwrap().len(), 1);
}

#[test]
fn a_route_for_some_sources_only_is_named_with_them() {
    let text = "default from 2001:db8::/64 via fe80::1 dev net1";
    let pod = pod().route(text).route("default via fe80::1 dev net1");
    let host = Host { calls: Calls::new(pod.pod.clone(), pod.links.clone()) };
    let listed = host.default_routes(Family::V6).unwrap();
    let with = listed.iter().find(|route| route.source_prefix.is_some()).unwrap();
    assert_eq!(with.to_string(), format!("{text} metric 1024"));
    host.delete(with).unwrap();
    assert_eq!(pod.routes().iter().filter(|route| route.starts_with("default")).count(), 1);
}

#[test]
fn of_links_with_one_address_the_attachments_is_meant() {
    let mut pod = pod().link("net2");
    for link in &mut pod.links {
        link.mac = Some("02:00:00:00:00:aa".into());
    }
    let pod = pod.rebuilt();
    let host = Host { calls: Calls::new(pod.pod.clone(), pod.links.clone()) };
    let via = Route::new("192.0.2.0/24".parse().unwrap(), vec![Hop::new("02:00:00:00:00:AA", None)]);
    assert_eq!(host.add(&via).unwrap().added[0].hops[0].link, "net1");
    pod.pod.borrow_mut().scope.links.push(3);
    let error = host.delete(&via).unwrap_err();
    assert_eq!(error.errors[0].kind, ErrorKind::Invalid);
    assert!(error.to_string().contains("net1, eth0, net2"), "{error}");
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

#[test]
fn what_a_module_does_not_want_it_does_not_get() {
    let changes =
        json!({"result": ["cni/1.1.0", {"cniVersion": "1.1.0", "vendor": 1, "dns": {"domain": "x"}}]});
    let publishes = json!({"publish": [["example.com/a", "1"]]});
    let add = |wants: &str, words: &Value| {
        let result = json!({"cniVersion": "1.1.0", "vendor": 1});
        pod().wants(wants).add::<Says>(&call(words.clone()), &result)
    };
    let all = r#"{"routes": {"ops": ["read"]}, "result": ["dns"], "publish": ["example.com/a"]}"#;
    assert!(add(all, &changes).is_ok() && add(all, &publishes).is_ok());
    is_refused(add(r#"{"result": ["routes"]}"#, &changes), 105, "dns");
    is_refused(add(r#"{"publish": ["example.com/b"]}"#, &publishes), 105, "example.com/a");
}

#[test]
fn a_failed_call_counts_before_the_delegates_too() {
    let host = pod().gone();
    let looks = call(json!({"look": "net1", "intents": 1}));
    for error in [
        host.admit::<Says>(&looks, &json!({"plugins": []})).unwrap_err(),
        host.arrange::<Says>(&looks, &json!([{"position": 0}])).unwrap_err(),
    ] {
        assert!(error.to_string().contains("no network namespace"), "{error}");
    }
}

/// Writes nothing of what it exports.
struct Idle;

impl Module for Idle {
    type Config = Value;
}

impl Arrange for Idle {}
impl Admit for Idle {}
impl Stage for Idle {}
impl Settings for Idle {}

crate::export_stage!(Idle: arrange, admit, stage, settings);

#[test]
fn what_is_not_written_changes_nothing() {
    let host = pod();
    let decided = Intent { ipv4: Action::Filter, ..Intent::default() };
    let attachments = json!([{"position": 0, "intent": decided.to_value()}, {"position": 1}]);
    assert_eq!(host.arrange::<Idle>(&call(json!({})), &attachments), Ok(vec![decided, Intent::default()]));
    assert_eq!(host.admit::<Idle>(&call(json!({})), &json!({"plugins": []})), Ok(Verdict::Allow));
    assert_eq!(host.add::<Idle>(&call(json!({})), &json!({"cniVersion": "1.1.0"})), Ok(Outcome::unchanged()));
    assert_eq!(validate::<Idle>(&json!({})), []);
}
