//! Builds the built-in stages from source to components, compiles them with the engine configuration that the
//! binary uses, and writes the table `builtin.rs` that the binary includes.

#[path = "build/mod.rs"]
mod stages;

#[path = "src/wasm/config.rs"]
#[allow(unreachable_pub, reason = "it is public where the binaries have it")]
mod config;

use std::env;
use std::fmt::Write;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use stages::Result;
use stages::component::{self, Description};
use stages::toolchain::{Request, Toolchain};

const BUILTINS: [&str; 4] = ["default-gateway", "empty-result", "network-status", "result-conversion"];

fn main() {
    if let Err(message) = run() {
        let (first, rest) = message.split_once('\n').unwrap_or((&message, ""));
        println!("cargo::error={first}");
        eprintln!("{rest}");
        std::process::exit(1);
    }
}

fn run() -> Result<()> {
    let engine_dir = PathBuf::from(var("CARGO_MANIFEST_DIR")?);
    let workspace = engine_dir.parent().ok_or("the engine is not in a workspace")?;
    let out_dir = PathBuf::from(var("OUT_DIR")?);
    // OUT_DIR is TARGET/PROFILE/build/PACKAGE/out; all profiles share one build of the stages.
    let target_dir = out_dir.ancestors().nth(4).ok_or("OUT_DIR is not where cargo puts it")?.join("stages");
    for path in [
        "Cargo.toml",
        "Cargo.lock",
        "plugins",
        "sdk",
        "wit",
        "engine/build",
        "engine/build.rs",
        "engine/src/wasm/config.rs",
    ] {
        println!("cargo::rerun-if-changed={}", workspace.join(path).display());
    }

    let packages: Vec<String> = BUILTINS.iter().map(|name| format!("-pcatena-plugin-{name}")).collect();
    let mut select: Vec<&str> = vec!["--lib"];
    select.extend(packages.iter().map(String::as_str));
    let modules =
        Toolchain::find()?.build(&Request { workspace, target_dir: &target_dir, select: &select })?;

    let engine = compiler()?;
    let mut table = String::new();
    for name in BUILTINS {
        let core = modules.join(format!("catena_plugin_{}.wasm", name.replace('-', "_")));
        let core = fs::read(&core).map_err(|e| format!("{}: {e}", core.display()))?;
        let wasm = component::encode(&core).map_err(|e| format!("stage {name}: {e}"))?;
        let description = component::describe(&wasm).map_err(|e| format!("stage {name}: {e}"))?;
        let length = compile(&engine, &out_dir, name, &wasm, &description.digest)?;
        write_entry(&mut table, name, &wasm, &description, length);
    }
    let table = format!("pub static BUILTINS: [Builtin; {}] = [\n{table}];\n", BUILTINS.len());
    write(&out_dir.join("builtin.rs"), table.as_bytes())
}

/// The binary's engine with a compiler, for the baseline of the architecture: one binary fits all nodes.
fn compiler() -> Result<wasmtime::Engine> {
    let mut config = config::engine_config();
    let target = format!("{}-unknown-linux-gnu", var("CARGO_CFG_TARGET_ARCH")?);
    config.target(&target).map_err(|e| format!("cannot compile stages for {target}: {e:#}"))?;
    // The stages are stripped, so an offset into them would tell nobody anything; a tenth of the artifact.
    config.generate_address_map(false);
    wasmtime::Engine::new(&config).map_err(|e| format!("cannot make the compiler of the stages: {e:#}"))
}

/// Compiles unless this very component has been compiled with this very configuration before.
fn compile(
    engine: &wasmtime::Engine,
    out_dir: &Path,
    name: &str,
    wasm: &[u8],
    digest: &str,
) -> Result<usize> {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    let stamp = format!("{digest} {:016x}", hasher.finish());
    let (artifact, stamp_file) =
        (out_dir.join(format!("{name}.cwasm")), out_dir.join(format!("{name}.stamp")));
    if fs::read_to_string(&stamp_file).is_ok_and(|old| old == stamp)
        && let Ok(metadata) = fs::metadata(&artifact)
    {
        return Ok(metadata.len() as usize);
    }
    let compiled =
        engine.precompile_component(wasm).map_err(|e| format!("stage {name} does not compile: {e:#}"))?;
    write(&artifact, &compiled)?;
    write(&out_dir.join(format!("{name}.wasm")), wasm)?;
    write(&stamp_file, stamp.as_bytes())?;
    Ok(compiled.len())
}

fn write_entry(table: &mut String, name: &str, wasm: &[u8], description: &Description, length: usize) {
    let Description { digest, exports, imports, contract, wants } = description;
    // Writing to a String does not fail.
    let _ = write!(
        table,
        "    Builtin {{\n        name: {name:?},\n        digest: {digest:?},\n        size: {},\n        \
         exports: &{exports:?},\n        imports: &{imports:?},\n        contract: {contract:?},\n        \
         wants: {:?},\n        artifact: {{\n            \
         static ARTIFACT: PageAligned<[u8; {length}]> =\n                \
         PageAligned(*include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}.cwasm\")));\n            \
         &ARTIFACT.0\n        }},\n    }},\n",
        wasm.len(),
        wants.to_string(),
    );
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display()))
}

fn var(name: &str) -> Result<String> {
    env::var(name).map_err(|e| format!("{name}: {e}"))
}
