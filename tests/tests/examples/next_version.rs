//! When the contract has a 0.2: in a throwaway copy of the source one is added, with records that are others, and
//! catena is built with both. A module that was built for 0.1 runs as before, beside one of 0.2.

use std::path::{Path, PathBuf};
use std::process::Command;

use catena_tests::binaries;
use catena_tests::conf::{self, Family, Stack};
use catena_tests::runtime::Pod;
use catena_tests::scripted;
use catena_tests::state::{self, Traces};
use catena_tests::world::{CATENACTL, STAGES, World};
use serde_json::{Value, json};

use crate::tutorial::author_command;

/// The host's own part of it.
const HOST: &str = include_str!("next/host.rs");
const MODULE: &str = include_str!("next/module.rs");

/// Changes of the source: file, what is there, what comes in its place.
const CHANGES: [(&str, &str, &str); 13] = [
    ("engine/Cargo.toml", "[[bin]]\nname = \"catena\"", "[[bin]]\nname = \"catena-next\""),
    ("engine/build.rs", "rustc-link-arg-bin=catena=", "rustc-link-arg-bin=catena-next="),
    (
        "engine/ctl/Cargo.toml",
        "[dependencies]",
        "[[bin]]\nname = \"catenactl-next\"\npath = \"src/main.rs\"\n\n[dependencies]",
    ),
    ("wit/0.2.0/types.wit", "package catena:stage@0.1.0;", "package catena:stage@0.2.0;"),
    ("wit/0.2.0/types.wit", "        position: u32,", "        position: u32,\n        attempt: u32,"),
    (
        "wit/0.2.0/exports.wit",
        "        tolerated: list<toleration>,",
        "        tolerated: list<toleration>,\n        remark: option<string>,",
    ),
    ("engine/src/wasm/mod.rs", "mod pointer;", "mod next;\nmod pointer;"),
    (
        "engine/src/wasm/grants.rs",
        "    let patch = version.strip_prefix(CONTRACT).and_then(|rest| rest.strip_prefix('.'));",
        "    let patch = [CONTRACT, \"0.2\"].into_iter().find_map(|one| version.strip_prefix(one)?.strip_prefix('.'));",
    ),
    (
        "engine/src/wasm/module.rs",
        "        log::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;",
        "        log::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;\n        \
         super::bindings::next::catena::stage::log::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;",
    ),
    (
        "engine/src/wasm/module.rs",
        "    pub(super) stage: Option<stage::GuestIndices>,",
        "    pub(super) stage: Option<stage::GuestIndices>,\n    \
         pub(super) next: Option<super::bindings::next::exports::catena::stage::stage::GuestIndices>,",
    ),
    (
        "engine/src/wasm/module.rs",
        "                stage: export(Export::Stage).then(|| stage::GuestIndices::new(&pre)).transpose()?,",
        "                stage: (export(Export::Stage) && facts.contract.starts_with(\"0.1.\"))\n                    \
         .then(|| stage::GuestIndices::new(&pre)).transpose()?,\n                \
         next: (export(Export::Stage) && facts.contract.starts_with(\"0.2.\"))\n                    \
         .then(|| super::bindings::next::exports::catena::stage::stage::GuestIndices::new(&pre)).transpose()?,",
    ),
    (
        "engine/src/wasm/instance.rs",
        "        let Some(indices) = &linked.stage else { return missing(Export::Stage, host) };",
        "        if let Some(indices) = &linked.next {\n            \
         return self.run_next(linked, indices, call, document, host);\n        }\n        \
         let Some(indices) = &linked.stage else { return missing(Export::Stage, host) };",
    ),
    ("engine/src/wasm/instance.rs", "    fn call<T>(", "    pub(super) fn call<T>("),
];

const BINDINGS: &str = r#"
pub mod next {
    wasmtime::component::bindgen!({
        inline: "
            package catena:next-host;
            world host {
                import catena:stage/log@0.2.0;
                export catena:stage/stage@0.2.0;
            }
        ",
        path: "../wit/0.2.0",
        world: "catena:next-host/host",
        imports: { default: trappable },
    });
}
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the source")
}

/// Writes what differs, so that cargo builds no more than it must.
fn write(path: &Path, text: &[u8]) {
    if std::fs::read(path).is_ok_and(|old| old == text) {
        return;
    }
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// The source with the next contract.
fn copy(folder: &Path) {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let mut files: Vec<(String, Vec<u8>)> = String::from_utf8(listed.stdout)
        .expect("names")
        .split_terminator('\0')
        .filter_map(|name| Some((name.to_owned(), std::fs::read(root().join(name)).ok()?)))
        .collect();
    let contract: Vec<(String, Vec<u8>)> = files
        .iter()
        .filter_map(|(name, text)| {
            Some((format!("wit/0.2.0/{}", name.strip_prefix("wit/0.1.0/")?), text.clone()))
        })
        .collect();
    assert!(!contract.is_empty(), "wit/0.1.0 is there");
    files.extend(contract);
    for (name, text) in &mut files {
        let mut changed = String::from_utf8_lossy(text).into_owned();
        for (_, old, new) in CHANGES.iter().filter(|(file, ..)| file == name) {
            assert_eq!(changed.matches(old).count(), 1, "{name} has {old:?} once");
            changed = changed.replace(old, new);
        }
        if name == "engine/src/wasm/bindings.rs" {
            changed.push_str(BINDINGS);
        }
        write(&folder.join(name.as_str()), if changed.is_empty() { text } else { changed.as_bytes() });
    }
    write(&folder.join("engine/src/wasm/next.rs"), HOST.as_bytes());
}

/// Both programs, built from the copy under other names. To cargo the copy's packages are those of the project, so they
/// are built in a copy of its target folder: the crates that they use are there already, and nothing of the next
/// contract is taken for the project's own afterwards. In one call, so that the library that both have is built once;
/// unoptimised, as nobody measures it.
fn build(folder: &Path) -> (PathBuf, PathBuf) {
    let target = target();
    let next = target.join("next");
    let script = format!(
        "set -e
         rm -rf {next}
         mkdir {next}
         tar -C {target} --exclude=incremental -cf - fast | tar -C {next} -xf -
         rm -rf {next}/fast/.fingerprint/catena*
         cargo build --locked --quiet --profile fast -p catena -p catenactl --bin catena-next --bin catenactl-next \
             --target-dir {next} --config profile.fast.package.catena.opt-level=0 \
             --config profile.fast.package.catenactl.opt-level=0
         mv {next}/fast/catena-next {next}/fast/catenactl-next {next}/
         rm -rf {next}/fast",
        next = next.display(),
        target = target.display()
    );
    let output = author_command(&script, folder).output().expect("bash");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (next.join("catena-next"), next.join("catenactl-next"))
}

/// The folder of what is tested.
fn target() -> PathBuf {
    binaries::catenactl().ancestors().nth(2).expect("a target folder").to_owned()
}

/// A module of the next contract, as its author would build it.
fn module(folder: &Path, catenactl: &Path) -> Vec<u8> {
    let project = folder.join("module");
    let manifest = "[package]\nname = \"next\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n[lib]\ncrate-type = [\"cdylib\"]\n\
         [dependencies]\nwit-bindgen = { version = \"0.61\", default-features = false, features = [\"macros\", \"realloc\"] }\n";
    write(&project.join("Cargo.toml"), manifest.as_bytes());
    let wit = folder.join("wit/0.2.0").display().to_string();
    write(&project.join("src/lib.rs"), MODULE.replace("@WIT@", &wit).as_bytes());
    let output = author_command(&format!("{} build", catenactl.display()), &project).output().expect("bash");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(project.join("next.wasm")).expect("a module")
}

#[test]
fn a_module_of_the_first_contract_runs_beside_one_of_the_next() {
    let folder = target().join("next-source");
    copy(&folder);
    let (catena, catenactl) = build(&folder);
    let module = module(&folder, &catenactl);

    let conf = || {
        let mut outer = conf::catena(json!([scripted::veth("legacy", 1, Stack::Dual, true)]));
        outer["pipeline"] = json!([
            {"stage": "result-conversion"},
            {"stage": "first", "config": {"filter": ["legacy"]}},
            {"stage": "second"},
        ]);
        outer
    };
    let first = format!("{STAGES}/site-policy.wasm");
    let grants = [
        r#"--grant=routes={"ops":["read","delete-default"]}"#,
        r#"--grant=result=["routes"]"#,
        "--grant=log=true",
    ];
    let install_first = |world: &World| {
        let output = world.run(CATENACTL, &[&["install", "first", &first], &grants[..]].concat());
        assert_eq!(output.exit, Some(0), "{}", output.stderr);
    };
    let install_second = |world: &World| {
        world.write("/tmp/second.wasm", &module);
        world.run(
            CATENACTL,
            &[
                "install",
                "second",
                "/tmp/second.wasm",
                "--grant=log=true",
                r#"--grant=publish=["example.com/next"]"#,
            ],
        )
    };

    let world = World::with_programs(catena, catenactl);
    install_first(&world);
    let output = install_second(&world);
    assert_eq!(output.exit, Some(0), "{}", output.stderr);
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    let result = pod.add(&conf()).result();
    assert_eq!(result["routes"], Value::Null, "the module of 0.1 has done its work: {result}");
    assert_eq!(state::defaults(&world, &pod.netns, Family::V4), []);
    let shown = world.run(CATENACTL, &["show", &pod.id, "--json"]).stdout;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let attached = &shown["entries"][0]["attachments"][0]["attached"];
    assert_eq!(attached["publications"]["example.com/next"], 7, "that of 0.2 as well: {shown:#}");
    assert!(attached["report"].to_string().contains("of the next contract"), "{shown:#}");
    pod.check(&conf(), &result).done();
    pod.del(&conf(), Some(&result)).done();
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after DEL");

    // The catena of today has none of it, and says so.
    let world = World::new();
    install_first(&world);
    let output = install_second(&world);
    assert_eq!(output.exit, Some(1), "{}", output.stdout);
    for words in ["catena:stage 0.2.0", "this catena speaks 0.1"] {
        assert!(output.stderr.contains(words), "{words:?} in {}", output.stderr);
    }
}
