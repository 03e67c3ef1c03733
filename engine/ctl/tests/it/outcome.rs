//! What a stage says, and what the host makes of it.

use catena::wasm::{Command, Export, StageError, Verdict};

use crate::stage::{ANSWER, Node, call, component, document, host, run, stage, wanting};

/// An error variant with a text at 8.
fn says(case: u8, text: &str) -> Vec<u8> {
    let fields = format!(r#"(data (i32.const 8) "{text}")"#);
    let body = format!(
        "(i32.store8 (i32.const 1024) (i32.const 1)) (i32.store8 (i32.const 1028) (i32.const {case}))
         (i32.store (i32.const 1032) (i32.const 8)) (i32.store (i32.const 1036) (i32.const {})) {ANSWER}",
        text.len()
    );
    stage(&fields, &body)
}

#[test]
fn each_error_has_its_code() {
    for (case, code) in [(0, 7), (1, 6), (2, 105), (3, 11)] {
        let error = run(&says(case, "because"), &[]).0.unwrap_err();
        assert_eq!(error.code(), code);
        assert!(error.to_string().contains("because"), "{error}");
    }
    assert_eq!(run(&says(2, "no pods today"), &[]).0, Err(StageError::Denied("no pods today".into())));
}

#[test]
fn a_stages_own_code_is_200_or_above() {
    for (given, code) in [(0, 200), (104, 200), (200, 200), (4711, 4711)] {
        let body = format!(
            "(i32.store8 (i32.const 1024) (i32.const 1)) (i32.store8 (i32.const 1028) (i32.const 4))
             (i32.store (i32.const 1032) (i32.const {given})) {ANSWER}"
        );
        assert_eq!(run(&stage("", &body), &[]).0.unwrap_err().code(), code);
    }
}

/// An outcome with one publication of key "k" and value "{}".
fn publishes() -> Vec<u8> {
    let body = format!(
        "(i32.store (i32.const 1056) (i32.const 2000)) (i32.store (i32.const 1060) (i32.const 1))
         (i32.store (i32.const 2000) (i32.const 8)) (i32.store (i32.const 2004) (i32.const 1))
         (i32.store (i32.const 2008) (i32.const 9)) (i32.store (i32.const 2012) (i32.const 2)) {ANSWER}"
    );
    stage(r#"(data (i32.const 8) "k{}")"#, &body)
}

#[test]
fn publications_need_their_key() {
    let error = run(&publishes(), &[]).0.unwrap_err();
    assert_eq!(error.code(), 105);
    assert!(error.to_string().contains(r#"{"publish":["k"]}"#), "{error}");
    let outcome = run(&publishes(), &[r#"publish=["k"]"#]).0.unwrap();
    assert_eq!(outcome.publications, [("k".to_owned(), "{}".to_owned())]);
}

#[test]
fn on_check_and_del_an_outcome_publishes_nothing() {
    let node = Node::new();
    node.install("x", &publishes(), &[]);
    for command in [Command::Check, Command::Del] {
        let outcome = node.module("x").unwrap().run(&call(command), &document(), host()).0.unwrap();
        assert!(outcome.publications.is_empty());
    }
}

#[test]
fn what_did_not_fail_cannot_be_tolerated() {
    let body = format!(
        "(i32.store (i32.const 1064) (i32.const 2000)) (i32.store (i32.const 1068) (i32.const 1))
         (i32.store (i32.const 2000) (i32.const 3)) (i32.store (i32.const 2004) (i32.const 8))
         (i32.store (i32.const 2008) (i32.const 1)) {ANSWER}"
    );
    let error = run(&stage(r#"(data (i32.const 8) "x")"#, &body), &[]).0.unwrap_err();
    assert!(error.to_string().contains("call 3, which did not fail"), "{error}");
    assert_eq!(error.code(), 106);
}

#[test]
fn a_declared_grant_is_asked_for_at_install() {
    let node = Node::new();
    let component = wanting(&publishes(), r#"{"publish":["k"],"clock":true}"#);
    let output = node.try_install("x", &component, &[r#"publish=["k"]"#]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains(r#"{"clock":true}"#) && text.contains("--grant 'clock=true'"), "{text}");
    node.install("x", &component, &[r#"publish=["k"]"#, "clock=true"]);
}

/// A module with only `admit`, whose verdict is a config with another mtu.
fn admits() -> Vec<u8> {
    let text = r#"{\"type\":\"bridge\",\"mtu\":9000}"#;
    component(
        "admitter",
        "",
        &format!(r#"(data (i32.const 8) "{text}")"#),
        &format!(
            r#"(func (export "catena:stage/admit@0.1.0#admit")
                (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
                (i32.store8 (i32.const 1028) (i32.const 1))
                (i32.store (i32.const 1032) (i32.const 8))
                (i32.store (i32.const 1036) (i32.const {})) {ANSWER})"#,
            r#"{"type":"bridge","mtu":9000}"#.len()
        ),
    )
}

#[test]
fn a_module_has_the_exports_that_it_has() {
    let node = Node::new();
    node.install("x", &admits(), &[r#"config=["/mtu"]"#]);
    let module = node.module("x").unwrap();
    assert!(module.has(Export::Admit) && !module.has(Export::Stage) && !module.has(Export::Arrange));
    assert_eq!(module.run(&call(Command::Add), &document(), host()).0, Err(StageError::NoExport("stage")));
    let rewritten = r#"{"type":"bridge","mtu":9000}"#;
    let verdict = module.admit(&call(Command::Add), r#"{"type":"bridge","mtu":1500}"#, host()).0;
    assert_eq!(verdict, Ok(Verdict::Rewrite(rewritten.into())));
    let error = module.admit(&call(Command::Add), r#"{"type":"ptp","mtu":1500}"#, host()).0.unwrap_err();
    assert!(error.to_string().contains(r#"{"config":["/type"]}"#), "{error}");
}
