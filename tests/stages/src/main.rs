//! Builds the test modules of this crate as components: `build-test-stages [DIR]`, by default
//! `<target>/test-stages`. Prints name, size, digest and imports of each.

#[cfg(not(target_family = "wasm"))]
#[path = "../../../engine/build/mod.rs"]
#[allow(dead_code, reason = "each program that builds stages uses a part of it")]
mod stages;

#[cfg(not(target_family = "wasm"))]
mod native {
    use std::path::{Path, PathBuf};
    use std::{env, fs};

    use super::stages::Result;
    use super::stages::component;
    use super::stages::toolchain::{Request, Toolchain};

    pub(crate) fn run() -> Result<()> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let workspace = manifest.ancestors().nth(2).ok_or("this crate is not in the workspace")?;
        // The program is TARGET/PROFILE/build-test-stages; the built-in stages use the same folder.
        let program = env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
        let target = program.ancestors().nth(2).ok_or("this program is not where cargo puts it")?;
        let out = env::args_os().nth(1).map_or_else(|| target.join("test-stages"), PathBuf::from);
        let built = Toolchain::find()?.build(&Request {
            workspace,
            target_dir: &target.join("stages"),
            profile: "stage",
            args: &["--locked", "-p", "catena-test-stages", "--examples"],
            remap: &[],
            show: false,
        })?;

        let at = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
        fs::create_dir_all(&out).map_err(|e| at(&out, e))?;
        let sources = manifest.join("examples");
        let mut names: Vec<String> = Vec::new();
        for entry in fs::read_dir(&sources).map_err(|e| at(&sources, e))? {
            let path = entry.map_err(|e| at(&sources, e))?.path();
            names.extend(path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned));
        }
        names.sort();
        for name in names {
            let core = built.join("examples").join(format!("{}.wasm", name.replace('-', "_")));
            let core = fs::read(&core).map_err(|e| at(&core, e))?;
            let wasm = component::encode(&core).map_err(|e| format!("{name}: {e}"))?;
            let description = component::describe(&wasm).map_err(|e| format!("{name}: {e}"))?;
            let file = out.join(format!("{name}.wasm"));
            fs::write(&file, &wasm).map_err(|e| at(&file, e))?;
            println!(
                "{name:24} {:>7} bytes  {}  contract {}  exports {}  imports {}  wants {}",
                wasm.len(),
                description.digest,
                description.contract,
                description.exports.join(" "),
                description.imports.join(" "),
                description.wants
            );
        }
        Ok(())
    }
}

#[cfg(not(target_family = "wasm"))]
fn main() {
    if let Err(message) = native::run() {
        eprintln!("{message}");
        std::process::exit(1);
    }
}

#[cfg(target_family = "wasm")]
fn main() {}
