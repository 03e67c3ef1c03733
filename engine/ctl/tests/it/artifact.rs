//! Installed artifacts are code that root runs: whatever is wrong with one, it is refused before it is loaded.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use catena::wasm::{ModuleError, Modules};

use crate::stage::{ANSWER, Node, call, document, host, stage};

fn installed() -> (Node, PathBuf) {
    let node = Node::new();
    node.install("x", &stage("", ANSWER), &[]);
    let folder = node.path("/var/lib/catena/modules");
    let artifact = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let artifact = artifact.into_iter().find(|path| path.extension().is_some_and(|e| e == "cwasm")).unwrap();
    (node, artifact)
}

fn refusal(node: &Node) -> ModuleError {
    let error = node.module("x").expect_err("an error");
    assert_eq!(error.code(), 104, "{error}");
    error
}

#[test]
fn files_are_the_owners_alone() {
    let (node, artifact) = installed();
    let folder = artifact.parent().unwrap();
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o7777, 0o700);
    for entry in std::fs::read_dir(folder).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o7777, 0o600);
    }
    node.module("x").unwrap();
}

#[test]
fn a_changed_byte() {
    let (node, artifact) = installed();
    let mut bytes = std::fs::read(&artifact).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&artifact, bytes).unwrap();
    let text = refusal(&node).to_string();
    assert!(text.contains("digest") && text.contains("catenactl install x"), "{text}");
}

#[test]
fn another_length() {
    let (node, artifact) = installed();
    std::fs::OpenOptions::new().write(true).open(&artifact).unwrap().set_len(100).unwrap();
    assert!(refusal(&node).to_string().contains("100 bytes"));
}

#[test]
fn gone() {
    let (node, artifact) = installed();
    std::fs::remove_file(artifact).unwrap();
    assert!(refusal(&node).to_string().contains("is not there"));
}

#[test]
fn a_link() {
    let (node, artifact) = installed();
    let elsewhere = artifact.with_file_name("elsewhere");
    std::fs::rename(&artifact, &elsewhere).unwrap();
    std::os::unix::fs::symlink(elsewhere, artifact).unwrap();
    assert!(refusal(&node).to_string().contains("symbolic link"));
}

#[test]
fn writable_by_others() {
    let (node, artifact) = installed();
    std::fs::set_permissions(&artifact, PermissionsExt::from_mode(0o602)).unwrap();
    assert!(refusal(&node).to_string().contains("0602"));
    std::fs::set_permissions(&artifact, PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::set_permissions(artifact.parent().unwrap(), PermissionsExt::from_mode(0o770)).unwrap();
    assert!(refusal(&node).to_string().contains("0770"));
}

/// An artifact of another engine says so, and what to do.
#[test]
fn another_engine() {
    let (node, artifact) = installed();
    let lock = node.path("/var/lib/catena/modules/lock.json");
    let mut record: serde_json::Value = serde_json::from_slice(&std::fs::read(&lock).unwrap()).unwrap();
    let bytes = std::fs::read(&artifact).unwrap();
    // The version that wasmtime writes into its artifacts: its length, then its text.
    let version = bytes.windows(4).position(|window| window == b"\0\x0248").expect("a version");
    let mut other = bytes;
    other[version + 2] = b'3';
    std::fs::write(&artifact, &other).unwrap();
    record["modules"]["x"]["current"]["artifacts"][catena::wasm::engine::KEY]["digest"] =
        catena::node::Digest::of(&other).as_str().into();
    std::fs::write(&lock, record.to_string()).unwrap();
    let text = refusal(&node).to_string();
    assert!(text.contains("not for this engine") && text.contains("catenactl install"), "{text}");
}

#[test]
fn the_built_in_ones_run_in_place() {
    let node = Node::new();
    let modules = Modules::open(&node.root(), &Default::default()).unwrap();
    for builtin in &catena::wasm::builtin::BUILTINS {
        assert_eq!(builtin.artifact.as_ptr().addr() % 4096, 0);
        let module = modules.get(builtin.name).unwrap();
        assert_eq!(module.digest(), builtin.digest);
    }
    let conversion = modules.get("result-conversion").unwrap();
    let outcome = conversion.run(&call(catena::wasm::Command::Add), &document(), host()).0;
    assert!(outcome.is_ok(), "{outcome:?}");
}
