//! Makes stages, installs and runs them.

use std::path::{Path, PathBuf};
use std::process::{Command as Process, Output};
use std::sync::Arc;

use catena::node::{NodeConfig, Root};
use catena::routes::kernel::Scope;
use catena::wasm::{
    Call, Command, Document, Host, Mode, Module, ModuleError, Modules, Outcome, StageError, Usage,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// Where a stage's answer is; all zero, it is an outcome without anything.
pub(crate) const ANSWER: &str = "(i32.const 1024)";

/// A stage whose `run` has this body (`$args` points to its arguments) and whose module has these fields.
pub(crate) fn stage(fields: &str, body: &str) -> Vec<u8> {
    component(
        "runner",
        "",
        fields,
        &format!(r#"(func (export "catena:stage/stage@0.1.0#run") (param $args i32) (result i32) {body})"#),
    )
}

/// A component of a world of the contract, with more WIT packages (nested) whose world is imported as well.
pub(crate) fn component(world: &str, more: &str, fields: &str, export: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/0.1.0");
    let (contract, _) = resolve.push_dir(&wit).expect("the contract");
    let world = if more.is_empty() {
        resolve.select_world(&[contract], Some(world)).expect("a world")
    } else {
        let text = format!(
            "package test:it;\nworld test {{ include catena:stage/{world}@0.1.0; include test:more/more; }}\n{more}"
        );
        let package = resolve.push_str("test.wit", &text).expect("the packages");
        resolve.select_world(&[package], Some("test")).expect("a world")
    };
    // Imports must come first.
    let text = format!(
        r#"(module {fields}
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                (local.set 0 (global.get $heap))
                (local.set 0 (i32.and (i32.add (local.get 0) (i32.const 7)) (i32.const -8)))
                (global.set $heap (i32.add (local.get 0) (local.get 3)))
                (local.get 0))
            (memory (export "memory") 2)
            (global $heap (mut i32) (i32.const 16384))
            {export})"#
    );
    let mut module = wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("metadata");
    let mut encoder = ComponentEncoder::default();
    let encoded = encoder.module(&module).and_then(|encoder| encoder.validate(true).encode());
    encoded.unwrap_or_else(|error| panic!("{error:#}\n{text}"))
}

/// The same component with the custom section `catena:wants`.
pub(crate) fn wanting(component: &[u8], wants: &str) -> Vec<u8> {
    let name = "catena:wants";
    let mut section = vec![name.len() as u8];
    section.extend(name.bytes());
    section.extend(wants.bytes());
    appended(component, 0, &section)
}

/// A component with one more section at its end.
pub(crate) fn appended(component: &[u8], id: u8, section: &[u8]) -> Vec<u8> {
    let mut bytes = component.to_vec();
    bytes.push(id);
    let mut length = section.len();
    loop {
        let low = (length & 0x7f) as u8;
        length >>= 7;
        if length == 0 {
            bytes.push(low);
            break;
        }
        bytes.push(low | 0x80);
    }
    bytes.extend(section);
    bytes
}

/// A node of its own.
pub(crate) struct Node {
    folder: tempfile::TempDir,
}

impl Node {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    pub(crate) fn root(&self) -> Root {
        Root::from_value(Some(self.folder.path().as_os_str()))
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, content).expect("a file");
        path
    }

    pub(crate) fn ctl(&self, args: &[&str]) -> Output {
        Process::new(env!("CARGO_BIN_EXE_catenactl"))
            .args(args)
            .env(Root::VARIABLE, self.folder.path())
            .output()
            .expect("catenactl")
    }

    /// Installs; panics with catenactl's words if it refuses.
    pub(crate) fn install(&self, name: &str, component: &[u8], grants: &[&str]) {
        let output = self.try_install(name, component, grants);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    pub(crate) fn try_install(&self, name: &str, component: &[u8], grants: &[&str]) -> Output {
        let file = self.write(&format!("/tmp/{name}.wasm"), component);
        let mut args = vec!["install", name, file.to_str().expect("a path")];
        args.extend(grants.iter().flat_map(|grant| ["--grant", grant]));
        self.ctl(&args)
    }

    pub(crate) fn module(&self, name: &str) -> Result<Arc<Module>, ModuleError> {
        let node = NodeConfig::load(&self.root())?;
        Modules::open(&self.root(), &node)?.get(name)
    }
}

pub(crate) fn call(command: Command) -> Call {
    Call {
        command,
        mode: Mode::Meta,
        container_id: "c1".into(),
        network: "net".into(),
        ifname: "eth0".into(),
        position: 0,
        config: "{}".into(),
        context: r#"{"schema":1}"#.into(),
    }
}

pub(crate) fn document() -> Document {
    Document {
        format: "cni/1.1.0".into(),
        text: r#"{"cniVersion":"1.1.0","interfaces":[{"name":"eth0"}]}"#.into(),
    }
}

pub(crate) fn host() -> Host {
    Host::new("c1", Scope::default(), false)
}

/// Installs a stage and runs it once on add.
pub(crate) fn run(component: &[u8], grants: &[&str]) -> (Result<Outcome, StageError>, Host, Usage) {
    let node = Node::new();
    node.install("x", component, grants);
    node.module("x").expect("a module").run(&call(Command::Add), &document(), host())
}
