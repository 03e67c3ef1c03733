//! Puts the SDK's source, the contract and the lock file into the program: `catenactl new` hands them out.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The crates that a stage of somebody else's is built from.
const CRATES: [&str; 4] = ["sdk/cni", "sdk/contract", "sdk/routes", "sdk/stage"];

fn main() {
    if let Err(error) = run() {
        println!("cargo::error={error}");
    }
}

fn run() -> io::Result<()> {
    let missing = |name: &str| io::Error::other(format!("{name} is not set"));
    let manifest = env::var_os("CARGO_MANIFEST_DIR").ok_or_else(|| missing("CARGO_MANIFEST_DIR"))?;
    let out = env::var_os("OUT_DIR").ok_or_else(|| missing("OUT_DIR"))?;
    let root = Path::new(&manifest).join("../..").canonicalize()?;

    let mut table = String::from("&[\n");
    for folder in CRATES.iter().map(|name| format!("{name}/src")).chain(["wit".to_owned()]) {
        println!("cargo::rerun-if-changed={}", root.join(&folder).display());
        let mut files = Vec::new();
        collect(&root.join(&folder), &mut files)?;
        files.sort();
        files.iter().for_each(|file| entry(&mut table, &root, file));
    }
    for file in CRATES.iter().map(|name| format!("{name}/Cargo.toml")).chain(["Cargo.lock".to_owned()]) {
        println!("cargo::rerun-if-changed={}", root.join(&file).display());
        entry(&mut table, &root, &root.join(&file));
    }
    table.push(']');
    fs::write(Path::new(&out).join("sdk.rs"), table)?;

    // The workspace that the SDK's crates inherit from, without the members that are not handed out.
    println!("cargo::rerun-if-changed={}", root.join("Cargo.toml").display());
    let workspace = fs::read_to_string(root.join("Cargo.toml"))?;
    let mut reduced = String::new();
    let mut inside = false;
    for line in workspace.lines() {
        if line.starts_with("members = [") {
            // Writing to a String does not fail.
            let _ = writeln!(reduced, "members = {CRATES:?}");
            inside = true;
        }
        if !inside && !line.starts_with("default-members") && !line.contains("{ path = \"engine\" }") {
            reduced.push_str(line);
            reduced.push('\n');
        }
        inside = inside && !line.starts_with(']');
    }
    fs::write(Path::new(&out).join("workspace.toml"), reduced)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { collect(&path, files)? } else { files.push(path) }
    }
    Ok(())
}

fn entry(table: &mut String, root: &Path, file: &Path) {
    let name = file.strip_prefix(root).unwrap_or(file).display().to_string();
    // Writing to a String does not fail.
    let _ = writeln!(table, "    ({name:?}, include_str!({:?})),", file.display().to_string());
}
