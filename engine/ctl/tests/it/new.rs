//! `catenactl new`, as far as it needs no toolchain; `make examples` builds what it makes.

use std::process::{Command as Process, Output};

use crate::install::refused;

fn new(folder: &std::path::Path, args: &[&str]) -> Output {
    let mut process = Process::new(env!("CARGO_BIN_EXE_catenactl"));
    process.arg("new").args(args).current_dir(folder).output().unwrap()
}

#[test]
fn a_project_has_everything_and_its_own_name() {
    let place = tempfile::tempdir().unwrap();
    for (lang, files) in [
        (
            "rust",
            &[
                "Cargo.toml",
                "Cargo.lock",
                "src/lib.rs",
                "README.md",
                ".gitignore",
                "catena/sdk/stage/src/lib.rs",
            ][..],
        ),
        (
            "python",
            &[
                "catena.json",
                "stage.py",
                "test_policy.py",
                "requirements.txt",
                "wit/deps/catena-stage/types.wit",
            ],
        ),
        (
            "js",
            &["catena.json", "stage.js", "policy.test.js", "package.json", "wit/deps/catena-stage/types.wit"],
        ),
    ] {
        let name = format!("my-{lang}");
        let output = new(place.path(), &[&name, "--lang", lang]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("catenactl build") && text.contains(&format!("cd {name}")), "{text}");
        for file in files.iter().chain(&["fixtures/denied.json", "fixtures/allowed.json"]) {
            assert!(place.path().join(&name).join(file).is_file(), "{name}/{file}");
        }
        let own = if lang == "rust" { "Cargo.toml" } else { "catena.json" };
        let text = std::fs::read_to_string(place.path().join(&name).join(own)).unwrap();
        assert!(text.contains(&format!("\"{name}\"")) && !text.contains("deny-network"), "{text}");
        let readme = std::fs::read_to_string(place.path().join(&name).join("README.md")).unwrap();
        let install = format!("catenactl install {name} {name}.wasm");
        let grant = if lang == "rust" { " --grant log=true\n" } else { "\n" };
        assert!(readme.contains(&(install + grant)) && !readme.contains("@GRANTS@"), "{readme}");
    }
}

/// An author's first panic has text, file and line: the SDK logs it unless it is told not to.
#[test]
fn a_rust_project_tells_its_panics() {
    let place = tempfile::tempdir().unwrap();
    assert!(new(place.path(), &["mine"]).status.success());
    let source = std::fs::read_to_string(place.path().join("mine/src/lib.rs")).unwrap();
    assert!(source.contains("impl Module for") && !source.contains("LOG_PANICS"), "{source}");
    let example = include_str!("../../../../sdk/examples/deny-network/src/lib.rs");
    assert!(example.contains("LOG_PANICS"), "which the example does");
}

/// Follows the path dependencies of a handed out crate, from its own manifest to the last.
#[test]
fn a_rust_project_has_every_crate_that_it_depends_on() {
    let place = tempfile::tempdir().unwrap();
    let output = new(place.path(), &["mine"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let sdk = place.path().join("mine/catena");
    let workspace = std::fs::read_to_string(sdk.join("Cargo.toml")).unwrap();
    let crates: Vec<(&str, &str)> = workspace
        .lines()
        .filter_map(|line| {
            let (name, rest) = line.split_once(" = { path = \"")?;
            Some((name, rest.split_once('"')?.0))
        })
        .collect();
    for (name, path) in &crates {
        let manifest = sdk.join(path).join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest)
            .unwrap_or_else(|error| panic!("{name}: {}: {error}", manifest.display()));
        assert!(text.contains(&format!("name = \"{name}\"")), "{text}");
        assert!(workspace.contains(&format!("\"{path}\"")), "{path} is a member");
        assert!(sdk.join(path).join("src/lib.rs").is_file(), "{path}");
        for used in text.lines().filter_map(|line| line.strip_suffix(".workspace = true")) {
            let known = used.starts_with("catena-") && !crates.iter().any(|(name, _)| name == &used);
            assert!(!known, "{name} depends on {used}, which is not handed out");
        }
    }
    assert!(crates.len() > 3, "{crates:?}");
}

#[test]
fn what_is_there_is_left_alone() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("taken")).unwrap();
    refused(new(place.path(), &["taken"]), 1, &["taken", "exists"]);
    refused(new(place.path(), &["../x"]), 1, &["name"]);
    refused(new(place.path(), &["1x"]), 1, &["crate's name"]);
    refused(new(place.path(), &["x", "--lang", "cobol"]), 2, &["rust", "python", "js"]);
    refused(new(place.path(), &["x", "--sdk", "/nowhere"]), 1, &["/nowhere", "sdk/stage"]);
    let left: Vec<_> =
        std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["taken"]);
    let empty = place.path().join("taken");
    let build =
        Process::new(env!("CARGO_BIN_EXE_catenactl")).arg("build").current_dir(&empty).output().unwrap();
    refused(build, 1, &["Cargo.toml", "catena.json", "catenactl new"]);
}
