//! `catenactl install` and `inspect`.

use std::process::Output;

use catena::node::Digest;
use serde_json::{Value, json};

use crate::stage::{ANSWER, Node, appended, component, run, stage, wanting};

pub(crate) fn refused(output: Output, code: i32, words: &[&str]) {
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(output.stdout.is_empty());
    for word in words {
        assert!(text.contains(word), "{word:?} in {text}");
    }
}

pub(crate) fn json_of(output: Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn says_what_it_did() {
    let node = Node::new();
    let bytes = stage("", ANSWER);
    let file = node.write("/tmp/x.wasm", &bytes);
    let report =
        json_of(node.ctl(&["--json", "install", "x", file.to_str().unwrap(), "--grant", "log=true"]));
    assert_eq!(report["digest"], Digest::of(&bytes).as_str());
    assert_eq!(report["grants"], json!({"log": true}));
    assert_eq!((&report["exports"], &report["replaces"]), (&json!(["stage"]), &Value::Null));
    assert_eq!(node.module("x").unwrap().digest(), Digest::of(&bytes).as_str());
}

#[test]
fn refusals_say_what_to_do() {
    let node = Node::new();
    refused(node.try_install("x", b"hello", &[]), 1, &["not a WebAssembly component"]);
    refused(node.try_install("x", b"\0asm\x01\0\0\0", &[]), 1, &["core module", "wasm-tools component new"]);
    refused(node.ctl(&["install", "x", "/nowhere.wasm"]), 1, &["/nowhere.wasm", "No such file"]);
    // Garbage after a header that is right: nothing, zeros, noise, the beginning of a real one, and a real one's end.
    let header = b"\0asm\x0d\0\x01\0".as_slice();
    let whole = stage("", ANSWER);
    let noise: Vec<u8> = (0..4096u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for (what, garbage) in [
        ("a header alone", header.to_vec()),
        ("zeros", [header, &[0; 64]].concat()),
        ("noise", [header, noise.as_slice()].concat()),
        ("a part", whole[..whole.len() / 2].to_vec()),
        ("more behind it", [whole.as_slice(), noise.as_slice()].concat()),
        ("another beginning", [header, &whole[whole.len() / 2..]].concat()),
    ] {
        let output = node.try_install("x", &garbage, &[]);
        assert_eq!(output.status.code(), Some(1), "{what}");
        let text = String::from_utf8(output.stderr).unwrap();
        let why =
            text.contains("not a WebAssembly component") || text.contains("exports nothing of catena:stage");
        assert!(text.contains("x.wasm") && why, "{what}: {text}");
    }
    refused(node.ctl(&["install", "X/../y", "/nowhere.wasm"]), 1, &["module's name"]);
    refused(node.try_install("x", &stage("", ANSWER), &["log"]), 2, &["KEY=JSON"]);
    let twice = [r#"publish=["a"]"#, r#"publish=["b"]"#];
    refused(node.try_install("x", &stage("", ANSWER), &twice), 2, &["--grant publish is there twice"]);
    refused(node.ctl(&["install"]), 2, &["Usage"]);
    let large = node.path("/tmp/large.wasm");
    std::fs::File::create(&large).unwrap().set_len((64 << 20) + 1).unwrap();
    refused(
        node.ctl(&["install", "x", large.to_str().unwrap()]),
        1,
        &["67108864 bytes", "; build it in release mode"],
    );
    assert!(!node.path("/var/lib/catena/modules").exists(), "nothing was written");
}

#[test]
fn imports_need_grants() {
    let node = Node::new();
    let links = stage(
        r#"(import "catena:stage/links@0.1.0" "find" (func $find (param i32 i32 i32)))"#,
        &format!("(call $find (i32.const 0) (i32.const 0) (i32.const 2048)) {ANSWER}"),
    );
    refused(node.try_install("x", &links, &["log=true"]), 1, &[r#"{"links":true}"#, "--grant 'links=true'"]);
    node.install("x", &links, &["links=true"]);

    // The node takes it back: the module is not even loaded.
    node.write("/etc/catena/node.json", r#"{"modules": {"x": {"grants": {"log": true}}}}"#);
    let error = node.module("x").unwrap_err();
    assert_eq!(error.code(), 105);
    assert!(error.to_string().contains(r#"add {"links":true} to modules.x.grants in node.json"#), "{error}");
    refused(
        node.try_install("x", &links, &["links=true"]),
        1,
        &["node.json names the module x", r#"{"links":true}"#],
    );
}

#[test]
fn unknown_interfaces_and_contracts_are_named() {
    let node = Node::new();
    let more = r#"package test:more { world more { import example:unknown/thing; } }
        package example:unknown { interface thing { use-it: func(); } }"#;
    let export = format!(
        r#"(func (export "catena:stage/stage@0.1.0#run") (param i32) (result i32) (call $it) {ANSWER})"#
    );
    let unknown =
        component("runner", more, r#"(import "example:unknown/thing" "use-it" (func $it))"#, &export);
    refused(node.try_install("x", &unknown, &[]), 1, &["example:unknown/thing", "does not know"]);

    // The same bytes, but of another version of the contract.
    let later = String::from("catena:stage/stage@0.1.0");
    let bytes = stage("", ANSWER);
    let mut other = bytes.clone();
    let places: Vec<usize> = bytes
        .windows(later.len())
        .enumerate()
        .filter(|(_, w)| *w == later.as_bytes())
        .map(|(at, _)| at)
        .collect();
    for at in places {
        other[at..at + later.len()].copy_from_slice(b"catena:stage/stage@0.7.0");
    }
    refused(node.try_install("x", &other, &[]), 1, &["0.7.0", "speaks", "0.1"]);
}

/// A component that exports `stage` and, for another version of the contract, one more interface.
fn with_export(interface: &str, contract: &str) -> Vec<u8> {
    let text = format!(
        r#"(component
            (core module $m
                (memory (export "memory") 1)
                (func (export "run"))
            )
            (core instance $i (instantiate $m))
            (func $run (canon lift (core func $i "run")))
            (instance $one (export "run" (func $run)))
            (export "catena:stage/admit@{contract}" (instance $one))
            (export "catena:stage/{interface}@{contract}" (instance $one))
            (export "example:other/{interface}@{contract}" (instance $one)))"#
    );
    wat::parse_str(text).expect("a component")
}

/// What nobody calls enforces nothing.
#[test]
fn an_export_that_nobody_would_call_is_refused() {
    let node = Node::new();
    let veto = with_export("veto", "0.1.4");
    let words = ["catena:stage/veto@0.1.4", "catena:stage 0.1 ", "arrange, admit, stage, settings"];
    refused(node.try_install("x", &veto, &[]), 1, &words);
    let file = node.write("/tmp/veto.wasm", &veto);
    let report = json_of(node.ctl(&["inspect", file.to_str().unwrap(), "--json"]));
    assert!(report["refused"].as_str().unwrap().contains(words[0]), "{report}");
    // With known interfaces only it gets as far as their types.
    let known = with_export("stage", "0.1.4");
    refused(node.try_install("x", &known, &[]), 1, &["an export is not what the contract says"]);

    // One that was installed before is not run either.
    node.install("y", &stage("", ANSWER), &[]);
    let lock = node.path("/var/lib/catena/modules/lock.json");
    let recorded = std::fs::read_to_string(&lock).unwrap();
    std::fs::write(&lock, recorded.replacen(r#""stage""#, r#""stage","veto""#, 1)).unwrap();
    let error = node.module("y").unwrap_err();
    assert_eq!(error.code(), 104);
    assert!(error.to_string().contains("catena:stage/veto@0.1.0"), "{error}");
}

/// What a module exports for others than catena is nobody's business here.
#[test]
fn other_exports_are_tolerated() {
    let node = Node::new();
    let name = b"example:other/thing@1.0.0";
    // One export: the instance that is `stage`, under another name, without a type of its own.
    let mut section = vec![1, 0, name.len() as u8];
    section.extend(name);
    section.extend([5, 0, 0]);
    let other = appended(&stage("", ANSWER), 11, &section);
    let report =
        json_of(node.ctl(&["inspect", node.write("/tmp/o.wasm", &other).to_str().unwrap(), "--json"]));
    assert_eq!((&report["exports"], &report["refused"]), (&json!(["stage"]), &Value::Null), "{report:#}");
    let (answer, ..) = run(&other, &[]);
    assert!(answer.is_ok(), "{answer:?}");
}

#[test]
fn a_module_that_does_not_say_what_it_needs_may_have_less_than_the_usual() {
    let node = Node::new();
    let fields = r#"(import "catena:stage/routes@0.1.0" "list" (func $list (param i32 i32 i32 i32)))"#;
    let body = format!("(call $list (i32.const 0) (i32.const 1) (i32.const 254) (i32.const 2048)) {ANSWER}");
    let lists = stage(fields, &body);
    let usual = r#"routes={"links":["@attachment"],"ops":["read"],"tables":[254]}"#;
    refused(node.try_install("x", &lists, &[]), 1, &[&format!("--grant '{usual}'")]);
    let narrow = r#"routes={"links":["eth0"],"ops":["read"]}"#;
    node.install("x", &lists, &[narrow]);
    let rule = json!({"modules": {"x": {"grants": {"routes": {"links": ["eth0"], "ops": ["read"]}}}}});
    node.write("/etc/catena/node.json", rule.to_string());
    assert!(node.module("x").is_ok());
    node.write("/etc/catena/node.json", r#"{"modules": {"x": {"grants": {}}}}"#);
    assert!(node.module("x").unwrap_err().to_string().contains(r#""ops":["read"]"#));
    // One that says it gets no less.
    let says = wanting(&lists, r#"{"routes":{"ops":["read","add"]}}"#);
    refused(node.try_install("z", &says, &[narrow]), 1, &[r#""ops":["read","add"]"#]);
}

#[test]
fn pins() {
    let node = Node::new();
    let bytes = stage("", ANSWER);
    let (right, wrong) = (Digest::of(&bytes), Digest::of(b"other"));
    let file = node.write("/tmp/x.wasm", &bytes);
    let install = |digest: &str| node.ctl(&["install", "x", file.to_str().unwrap(), "--digest", digest]);
    refused(install(wrong.as_str()), 1, &[wrong.as_str(), right.as_str(), "--digest"]);
    refused(install("sha256:abc"), 1, &["64 lower-case hexadecimal"]);
    assert!(install(right.as_str()).status.success());

    node.write("/etc/catena/node.json", json!({"modules": {"x": {"digest": wrong.as_str()}}}).to_string());
    refused(node.try_install("x", &bytes, &[]), 1, &[wrong.as_str(), "node.json"]);
    let error = node.module("x").unwrap_err();
    assert_eq!(error.code(), 104);
    assert!(
        error.to_string().contains(wrong.as_str()) && error.to_string().contains(right.as_str()),
        "{error}"
    );
}

#[test]
fn the_module_before_is_kept() {
    let node = Node::new();
    let (one, two) = (stage("", ANSWER), stage("(func)", ANSWER));
    node.install("x", &one, &[]);
    node.install("x", &two, &[]);
    let report = json_of(node.ctl(&["inspect", "x", "--json"]));
    assert_eq!(report["digest"], Digest::of(&two).as_str());
    assert_eq!(report["previous"], json!([Digest::of(&one).as_str()]));
    // The node can go back without a file.
    node.write(
        "/etc/catena/node.json",
        json!({"modules": {"x": {"digest": Digest::of(&one).as_str()}}}).to_string(),
    );
    assert_eq!(node.module("x").unwrap().digest(), Digest::of(&one).as_str());
    // What is recorded is shown all the same, with a word about it.
    let report = json_of(node.ctl(&["inspect", "x", "--json"]));
    assert_eq!(
        (&report["digest"], &report["pin"]),
        (&json!(Digest::of(&two).as_str()), &json!(Digest::of(&one).as_str()))
    );
    let text = String::from_utf8(node.ctl(&["inspect", "x"]).stdout).unwrap();
    assert!(text.contains(&format!("node.json pins x to {}", Digest::of(&one))), "{text}");
}

#[test]
fn a_pin_of_the_built_in_one_wins_over_an_installed_one() {
    let node = Node::new();
    node.install("empty-result", &stage("", ANSWER), &[]);
    let builtin =
        catena::wasm::builtin::BUILTINS.iter().find(|builtin| builtin.name == "empty-result").unwrap();
    assert_ne!(node.module("empty-result").unwrap().digest(), builtin.digest);
    let wants: Value = serde_json::from_str(builtin.wants).unwrap();
    let rule = json!({"modules": {"empty-result": {"digest": builtin.digest, "grants": wants}}});
    node.write("/etc/catena/node.json", rule.to_string());
    assert_eq!(node.module("empty-result").unwrap().digest(), builtin.digest);
}

#[test]
fn many_at_once_lose_nothing() {
    let node = Node::new();
    std::thread::scope(|scope| {
        for number in 0..6 {
            let node = &node;
            scope.spawn(move || {
                node.install(&format!("m{number}"), &stage(&"(func)".repeat(number), ANSWER), &[])
            });
        }
    });
    for number in 0..6 {
        node.module(&format!("m{number}")).unwrap();
    }
}

#[test]
fn inspect_tells_how_to_install() {
    let node = Node::new();
    let file = node.write("/tmp/x.wasm", wanting(&stage("", ANSWER), r#"{"publish":["k\u001b[2J"]}"#));
    let output = node.ctl(&["inspect", file.to_str().unwrap()]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for word in
        ["exports    stage", "sha256:", "catena:stage 0.1.0", "catenactl install NAME", "--grant 'publish="]
    {
        assert!(text.contains(word), "{word:?} in {text}");
    }
    assert!(!text.contains('\u{1b}'));
    for builtin in &catena::wasm::builtin::BUILTINS {
        let report = json_of(node.ctl(&["inspect", builtin.name, "--json"]));
        assert_eq!(report["digest"], builtin.digest);
        assert_eq!(report["grants"], report["wants"]);
    }
    refused(node.ctl(&["inspect", "nothing"]), 1, &["nothing", "default-gateway"]);
    refused(node.ctl(&["show", "nothing"]), 1, &["nothing is recorded"]);
}

#[test]
fn a_damaged_node_file_is_named() {
    let node = Node::new();
    node.write("/etc/catena/node.json", r#"{"modules": {"x": {"limits": {"cpu": 1}}}}"#);
    refused(
        node.try_install("x", &stage("", ANSWER), &[]),
        3,
        &["unknown key modules.x.limits.cpu", "known are"],
    );
}
