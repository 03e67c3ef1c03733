//! Every limit, with a module that goes over it.

use std::time::{Duration, Instant};

use catena::node::Limits;
use catena::wasm::{Command, Host, Module, StageError, limits};

use crate::stage::{ANSWER, Node, appended, call, component, document, host, run, stage};

/// The error of a stage that must not get through, and quickly.
fn error(component: &[u8], grants: &[&str]) -> StageError {
    let start = Instant::now();
    let (answer, ..) = run(component, grants);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    answer.expect_err("an error")
}

/// The error of a stage that goes over a limit.
fn exceeded(component: &[u8], grants: &[&str], what: &str) {
    let error = error(component, grants);
    assert!(matches!(&error, StageError::Limit(limit) if limit.what == what), "{error}");
    assert_eq!(error.code(), 103);
}

#[test]
fn a_stage_that_does_nothing() {
    let (answer, host, usage) = run(&stage("", ANSWER), &[]);
    assert_eq!(answer.unwrap(), Default::default());
    assert!(usage.fuel > 0 && usage.fuel < 10_000, "{usage:?}");
    assert_eq!(usage.memory, 128 << 10);
    assert!(host.logs.is_empty() && host.failed_calls.is_empty());
}

#[test]
fn fuel() {
    let error = error(&stage("", "(loop $l (br $l)) (unreachable)"), &[]);
    assert!(matches!(error, StageError::Fuel { .. }), "{error}");
    assert_eq!(error.code(), 102);
}

#[test]
fn fuel_of_bulk_operations() {
    let body =
        "(loop $l (memory.fill (i32.const 65536) (i32.const 1) (i32.const 60000)) (br $l)) (unreachable)";
    assert_eq!(error(&stage("", body), &[]).code(), 102);
}

#[test]
fn memory_by_growing() {
    exceeded(
        &stage("", "(loop $l (drop (memory.grow (i32.const 64))) (br $l)) (unreachable)"),
        &[],
        "bytes of memory",
    );
}

#[test]
fn memory_from_the_beginning() {
    exceeded(&stage("(memory $large 513)", ANSWER), &[], "bytes of memory");
}

#[test]
fn memories() {
    exceeded(&stage(&"(memory 1)".repeat(8), ANSWER), &[], "memories");
}

#[test]
fn table_elements() {
    exceeded(
        &stage(
            "(table $t 1 funcref)",
            "(loop $l (drop (table.grow $t (ref.null func) (i32.const 1000))) (br $l)) (unreachable)",
        ),
        &[],
        "table elements",
    );
}

/// A stage with one more core module, and instances of it beside its own.
fn with_instances(module: &[u8], count: u8) -> Vec<u8> {
    let component = stage("", ANSWER);
    let index = core_modules(&component);
    // Sections 1 (core module) and 2 (core instances: of that module, without arguments).
    let component = appended(&component, 1, module);
    let mut section = vec![count | 0x80, count >> 7];
    section.extend([0, index, 0].repeat(usize::from(count)));
    appended(&component, 2, &section)
}

#[test]
fn tables() {
    let module = wat::parse_str(format!("(module {})", "(table 1 funcref)".repeat(100))).unwrap();
    exceeded(&with_instances(&module, 2), &[], "tables");
}

#[test]
fn instances() {
    // The component's own come on top.
    let own = instances_of(&stage("", ANSWER));
    let (most, module) = (Limits::default().instances, b"\0asm\x01\0\0\0");
    let with = |count: usize| with_instances(module, u8::try_from(count - own).unwrap());
    // As many as a Python stage has, all that there may be, and one more.
    for count in [65, most] {
        let (answer, ..) = run(&with(count), &[]);
        assert!(answer.is_ok(), "{count}: {answer:?}");
    }
    exceeded(&with(most + 1), &[], "instances");
}

/// The core instances that instantiating makes.
fn instances_of(component: &[u8]) -> usize {
    let mut count = 0;
    for payload in wasmparser::Parser::new(0).parse_all(component) {
        if let wasmparser::Payload::InstanceSection(section) = payload.unwrap() {
            let made = |instance: &Result<wasmparser::Instance<'_>, _>| {
                matches!(instance, Ok(wasmparser::Instance::Instantiate { .. }))
            };
            count += section.into_iter().filter(made).count();
        }
    }
    count
}

/// What a call of a module comes to.
type Call = fn(&Module) -> Result<(), StageError>;

/// Every way into a module, with the world that has it and its export.
const WAYS: [(&str, &str, &str, Call); 6] = [
    ("validate", "configurable", VALIDATE, |module| module.validate("{}", host()).0.map(drop)),
    ("arrange", "arranger", ARRANGE, |module| module.arrange(&call(Command::Add), "[]", host()).0.map(drop)),
    ("admit", "admitter", ADMIT, |module| module.admit(&call(Command::Add), "{}", host()).0.map(drop)),
    ("add", "runner", RUN, |module| module.run(&call(Command::Add), &document(), host()).0.map(drop)),
    ("check", "runner", RUN, |module| module.run(&call(Command::Check), &document(), host()).0.map(drop)),
    ("del", "runner", RUN, |module| module.run(&call(Command::Del), &document(), host()).0.map(drop)),
];

const VALIDATE: &str = r#"(export "catena:stage/settings@0.1.0#validate") (param i32 i32)"#;
const ARRANGE: &str = r#"(export "catena:stage/arrange@0.1.0#arrange")
    (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)"#;
const ADMIT: &str = r#"(export "catena:stage/admit@0.1.0#admit")
    (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)"#;
const RUN: &str = r#"(export "catena:stage/stage@0.1.0#run") (param i32)"#;

#[test]
fn each_limit_holds_in_each_call() {
    let deep = "(func $deep (param i64 i64 i64) (call $deep (local.get 0) (local.get 1) (local.get 2))
        (call $deep (local.get 0) (local.get 1) (local.get 2)))";
    let limits = [
        ("", "(loop $l (br $l)) (unreachable)", 102, "fuel"),
        ("", "(loop $l (drop (memory.grow (i32.const 64))) (br $l)) (unreachable)", 103, "bytes of memory"),
        (deep, "(call $deep (i64.const 0) (i64.const 0) (i64.const 0)) (unreachable)", 103, "bytes of stack"),
        (
            WRITE,
            "(loop $l (call $write (i32.const 1) (i32.const 65536) (i32.const 8)) (br $l)) (unreachable)",
            103,
            "calls of log",
        ),
    ];
    let node = Node::new();
    for (way, world, export, enter) in WAYS {
        for (fields, body, code, what) in limits {
            let module = component(world, "", fields, &format!("(func {export} (result i32) {body})"));
            let grants: &[&str] = if fields == WRITE { &["log=true"] } else { &[] };
            node.install("x", &module, grants);
            let start = Instant::now();
            let error = enter(&node.module("x").unwrap()).expect_err(what);
            assert!(start.elapsed() < Duration::from_secs(20), "{way}: {what}: {:?}", start.elapsed());
            assert_eq!(error.code(), code, "{way}: {what}: {error}");
            assert!(error.to_string().contains(what), "{way}: {what}: {error}");
        }
    }
}

fn core_modules(component: &[u8]) -> u8 {
    let mut count = 0;
    let mut depth = 0;
    for payload in wasmparser::Parser::new(0).parse_all(component) {
        match payload.unwrap() {
            wasmparser::Payload::ModuleSection { .. } => {
                count += u8::from(depth == 0);
                depth += 1;
            }
            wasmparser::Payload::End(_) => depth -= 1,
            _ => {}
        }
    }
    count
}

#[test]
fn stack() {
    exceeded(
        &stage(
            "(func $deep (param i64 i64 i64) (call $deep (local.get 0) (local.get 1) (local.get 2)) (call $deep (local.get 0) (local.get 1) (local.get 2)))",
            "(call $deep (i64.const 0) (i64.const 0) (i64.const 0)) (i32.const 1024)",
        ),
        &[],
        "bytes of stack",
    );
}

/// An outcome with a result whose text has that many bytes.
fn result_of(length: usize) -> Vec<u8> {
    let pages = length / 65536 + 1;
    stage(
        "",
        &format!(
            "(drop (memory.grow (i32.const {pages})))
             (memory.fill (i32.const 131072) (i32.const 32) (i32.const {length}))
             (i32.store8 (i32.const 1028) (i32.const 1))
             (i32.store (i32.const 1032) (i32.const 1200)) (i32.store (i32.const 1036) (i32.const 9))
             (i64.store (i32.const 1200) (i64.const {})) (i32.store8 (i32.const 1208) (i32.const 0x30))
             (i32.store (i32.const 1040) (i32.const 131072)) (i32.store (i32.const 1044) (i32.const {length}))
             {ANSWER}",
            i64::from_le_bytes(*b"cni/1.1."),
        ),
    )
}

#[test]
fn result() {
    let most = Limits::default().result;
    exceeded(&result_of(most + 1), &[], "bytes of a result");
    let error = error(&result_of(most), &[]);
    assert!(matches!(error, StageError::BadOutcome(_)), "blanks are no result: {error}");
}

#[test]
fn transfer() {
    exceeded(&result_of(limits::transfer(&Limits::default()) + 1), &[], "bytes in one call");
    // A list of 100,000 tags that are all the same 64 KiB: 6 GiB, if the host took them.
    let tags = "(drop (memory.grow (i32.const 20)))
        (loop $l
            (i32.store (i32.add (i32.const 131072) (i32.mul (local.get $i) (i32.const 8))) (i32.const 65536))
            (i32.store (i32.add (i32.const 131076) (i32.mul (local.get $i) (i32.const 8))) (i32.const 65536))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $l (i32.lt_u (local.get $i) (i32.const 100000))))
        (i32.store (i32.const 1048) (i32.const 131072)) (i32.store (i32.const 1052) (i32.const 100000))";
    exceeded(&stage("", &format!("(local $i i32) {tags} {ANSWER}")), &[], "bytes in one call");
}

const FIND: &str = r#"(import "catena:stage/links@0.1.0" "find" (func $find (param i32 i32 i32)))"#;
const APPLY: &str = r#"(import "catena:stage/routes@0.1.0" "apply" (func $apply (param i32 i32 i32)))"#;

#[test]
fn route_changes() {
    // All zero, each change adds a route to 0.0.0.0/0. There is no namespace here, so each call fails.
    let apply = |calls: u32, changes: u32| {
        let call = format!(
            "(drop (memory.grow (i32.const 4))) (call $apply (i32.const 131072) (i32.const {changes}) (i32.const 2048))"
        );
        stage(APPLY, &repeated(calls, &call))
    };
    let grant = &[r#"routes={"ops":["read"]}"#];
    exceeded(&apply(1, 1025), grant, "route changes in one call");
    exceeded(&apply(5, 1024), grant, "route changes in one run");
    let (answer, host, _) = run(&apply(4, 1024), grant);
    assert!(answer.is_ok() && host.failed_calls.len() == 4);
}

#[test]
fn the_calls_time() {
    let find = "(call $find (i32.const 0) (i32.const 4) (i32.const 2048))";
    let node = Node::new();
    node.install("x", &stage(FIND, &repeated(1, find)), &["links=true"]);
    let late = Host { until: Some(Instant::now()), ..host() };
    let (answer, host, _) = node.module("x").unwrap().run(&call(Command::Add), &document(), late);
    let error = answer.unwrap_err();
    assert!(error.code() == 11 && error.to_string().contains("deadlines.callSeconds"), "{error}");
    assert!(host.failed_calls.is_empty());
}

const WRITE: &str = r#"(import "catena:stage/log@0.1.0" "write" (func $write (param i32 i32 i32)))"#;

fn repeated(count: u32, call: &str) -> String {
    format!(
        "(local $i i32) (loop $l {call} (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $l (i32.lt_u (local.get $i) (i32.const {count})))) {ANSWER}"
    )
}

#[test]
fn host_calls() {
    let find = "(call $find (i32.const 0) (i32.const 4) (i32.const 2048))";
    exceeded(&stage(FIND, &repeated(257, find)), &["links=true"], "host calls");
    let (answer, host, _) = run(&stage(FIND, &repeated(256, find)), &["links=true"]);
    assert!(answer.is_ok());
    // There is no namespace here, so each has failed, and is known by its number.
    let numbers: Vec<u32> = host.failed_calls.iter().map(|failed| failed.call).collect();
    assert_eq!(numbers, (1..=256).collect::<Vec<u32>>());
}

#[test]
fn log_lines() {
    let write = "(call $write (i32.const 1) (i32.const 65536) (i32.const 2000))";
    let (answer, host, _) = run(&stage(WRITE, &repeated(100, write)), &["log=true"]);
    assert!(answer.is_ok(), "long and many lines are cut, not punished");
    assert_eq!((host.logs.len(), host.dropped_lines), (Limits::default().log_lines, 36));
    assert!(
        host.logs
            .iter()
            .all(|line| line.text.len() <= limits::LOG_LINE + 3 && line.text.starts_with("\\u{0}"))
    );
    exceeded(&stage(WRITE, &repeated(1025, write)), &["log=true"], "calls of log");
}

#[test]
fn a_trap_gives_everything_back() {
    let fields = format!(r#"{WRITE} (data (i32.const 8) "it was me")"#);
    let body = "(call $write (i32.const 3) (i32.const 8) (i32.const 9)) (unreachable)";
    let (answer, host, usage) = run(&stage(&fields, body), &["log=true"]);
    let error = answer.unwrap_err();
    assert_eq!(error.code(), 101);
    assert!(error.to_string().contains("unreachable") && error.to_string().contains("it was me"), "{error}");
    assert_eq!(host.logs.len(), 1);
    assert!(usage.fuel > 0);
}

#[test]
fn a_trap_names_the_functions() {
    let fields = "(func $parse_result (unreachable))";
    let (answer, ..) = run(&stage(fields, "(call $parse_result) (unreachable)"), &[]);
    let error = answer.unwrap_err();
    assert!(error.details().join("").contains("parse_result"), "{:?}", error.details());
}
