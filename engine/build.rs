//! Builds the built-in stages from source to components, compiles them with the engine configuration that the
//! binary uses, and writes the table `builtin.rs` that the binary includes.

#[path = "build/mod.rs"]
#[allow(dead_code, reason = "each program that builds stages uses a part of it")]
mod stages;

#[path = "build/key.rs"]
mod key;

#[path = "build/strip.rs"]
mod strip;

#[path = "src/wasm/config.rs"]
#[allow(unreachable_pub, reason = "it is public where the binaries have it")]
mod config;

use std::env;
use std::fmt::Write;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use stages::Result;
use stages::component::{self, Description};
use stages::toolchain::{Request, Toolchain};
use strip::strip;

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
    pack_relocations();
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
    let mut args: Vec<&str> = vec!["--locked", "--lib"];
    args.extend(packages.iter().map(String::as_str));
    let modules = Toolchain::find()?.build(&Request {
        workspace,
        target_dir: &target_dir,
        profile: "stage",
        args: &args,
        remap: &[],
        show: false,
    })?;

    let engine = wasmtime::Engine::new(&config()?);
    let engine = engine.map_err(|e| format!("cannot make the compiler of installed modules: {e:#}"))?;
    println!("cargo::rustc-env=CATENA_ENGINE={}", key::engine_key(&engine));
    let engine = compiler()?;
    let mut stages = Vec::new();
    for name in BUILTINS {
        let core = modules.join(format!("catena_plugin_{}.wasm", name.replace('-', "_")));
        let core = fs::read(&core).map_err(|e| format!("{}: {e}", core.display()))?;
        let wasm = component::encode(&core).map_err(|e| format!("stage {name}: {e}"))?;
        let description = component::describe(&wasm).map_err(|e| format!("stage {name}: {e}"))?;
        stages.push((name, wasm, description));
    }
    // A compiler without optimisation, as build scripts are, takes seconds for each.
    let artifacts: Vec<Result<Vec<u8>>> = thread::scope(|scope| {
        let start = |(name, wasm, description): &(&'static str, Vec<u8>, Description)| {
            let (name, wasm, digest) = (*name, wasm.clone(), description.digest.clone());
            let (engine, folder) = (&engine, &target_dir);
            scope.spawn(move || compile(engine, folder, name, &wasm, &digest))
        };
        let threads: Vec<_> = stages.iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "the compiler panicked")?).collect()
    });
    let mut table = String::new();
    for ((name, wasm, description), artifact) in stages.iter().zip(artifacts) {
        let artifact = artifact?;
        write(&out_dir.join(format!("{name}.cwasm")), &artifact)?;
        write_entry(&mut table, name, wasm.len(), description, artifact.len());
    }
    let table = format!("pub static BUILTINS: [Builtin; {}] = [\n{table}];\n", BUILTINS.len());
    write(&out_dir.join("builtin.rs"), table.as_bytes())
}

/// A static-pie executable relocates itself when it starts. Packed, its 14,000 relocations are 5 KB instead of 340,
/// and applied in a third of the time. glibc can since 2.36.
fn pack_relocations() {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let version = text.trim().strip_prefix("glibc ").and_then(|version| {
        let (major, minor) = version.split_once('.')?;
        Some((major.parse::<u32>().ok()?, minor.split('.').next()?.parse::<u32>().ok()?))
    });
    if version.is_some_and(|version| version >= (2, 36)) {
        println!("cargo::rustc-link-arg-bin=catena=-Wl,-z,pack-relative-relocs");
    }
}

/// The binary's configuration with a compiler, for the baseline of the architecture: one binary fits all nodes.
fn config() -> Result<wasmtime::Config> {
    let mut config = config::engine_config();
    let target = format!("{}-unknown-linux-gnu", var("CARGO_CFG_TARGET_ARCH")?);
    config.target(&target).map_err(|e| format!("cannot compile stages for {target}: {e:#}"))?;
    Ok(config)
}

/// The engine that compiles the built-in stages.
fn compiler() -> Result<wasmtime::Engine> {
    let mut config = config()?;
    // The stages are stripped, so an offset into them would tell nobody anything; a tenth of the artifact.
    config.generate_address_map(false);
    // A stage runs a few hundred microseconds; what it costs most is to be read.
    config.cranelift_opt_level(wasmtime::OptLevel::SpeedAndSize);
    wasmtime::Engine::new(&config).map_err(|e| format!("cannot make the compiler of the stages: {e:#}"))
}

/// The artifact, compiled unless another profile's build has done so with this very configuration.
fn compile(
    engine: &wasmtime::Engine,
    folder: &Path,
    name: &str,
    wasm: &[u8],
    digest: &str,
) -> Result<Vec<u8>> {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    // What the hash does not know: the optimisation level, and the missing symbols.
    "speed and size, stripped".hash(&mut hasher);
    digest.hash(&mut hasher);
    let cached = folder.join(format!("{name}-{:016x}.cwasm", hasher.finish()));
    if let Ok(artifact) = fs::read(&cached) {
        return Ok(artifact);
    }
    let artifact =
        engine.precompile_component(wasm).map_err(|e| format!("stage {name} does not compile: {e:#}"))?;
    let artifact = strip(&artifact).map_err(|e| format!("stage {name}: {e}"))?;
    // Builds of several profiles may run at once.
    let partial = cached.with_extension(std::process::id().to_string());
    write(&partial, &artifact)?;
    fs::rename(&partial, &cached).map_err(|e| format!("{}: {e}", cached.display()))?;
    Ok(artifact)
}

fn write_entry(table: &mut String, name: &str, size: usize, description: &Description, length: usize) {
    let Description { digest, exports, imports, contract, wants, .. } = description;
    // Writing to a String does not fail.
    let _ = write!(
        table,
        "    Builtin {{\n        name: {name:?},\n        digest: {digest:?},\n        size: {size},\n        \
         exports: &{exports:?},\n        imports: &{imports:?},\n        contract: {contract:?},\n        \
         wants: {:?},\n        artifact: {{\n            \
         static ARTIFACT: PageAligned<[u8; {length}]> =\n                \
         PageAligned(*include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}.cwasm\")));\n            \
         &ARTIFACT.0\n        }},\n    }},\n",
        wants.to_string(),
    );
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display()))
}

fn var(name: &str) -> Result<String> {
    env::var(name).map_err(|e| format!("{name}: {e}"))
}
