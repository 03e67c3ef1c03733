//! Builds the built-in stages from source, each as a component and all as one, compiles the one with the engine
//! configuration that the binary uses, and writes the table `builtin.rs` that the binary includes.

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

use stages::Result;
use stages::component::{self, Description};
use stages::toolchain::{Request, Toolchain};
use strip::strip;

/// The built-in stages, the commands on which the `stage` of each does anything, and whether it does nothing where
/// nothing is asked for.
const BUILTINS: [(&str, &[&str], bool); 4] = [
    ("default-gateway", &["Add", "Check"], true),
    ("empty-result", &["Add"], false),
    ("network-status", &["Add"], false),
    ("result-conversion", &["Add"], false),
];

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
        "engine/builtins",
        "engine/build.rs",
        "engine/src/wasm/config.rs",
    ] {
        println!("cargo::rerun-if-changed={}", workspace.join(path).display());
    }

    let engine = wasmtime::Engine::new(&config()?);
    let engine = engine.map_err(|e| format!("cannot make the compiler of installed modules: {e:#}"))?;
    println!("cargo::rustc-env=CATENA_ENGINE={}", key::engine_key(&engine));

    let toolchain = Toolchain::find()?;
    let build = |select: &[&str]| {
        let args: Vec<&str> = ["--locked"].iter().chain(select).copied().collect();
        let target_dir = &target_dir;
        toolchain.build(&Request {
            workspace,
            target_dir,
            profile: "stage",
            args: &args,
            remap: &[],
            show: false,
        })
    };
    let component = |folder: &Path, name: &str| -> Result<Vec<u8>> {
        let core = folder.join(format!("{}.wasm", name.replace('-', "_")));
        let core = fs::read(&core).map_err(|e| format!("{}: {e}", core.display()))?;
        component::encode(&core).map_err(|e| format!("{name}: {e}"))
    };

    // In calls of their own: in one, cargo would give the stages in the common module exports of their own as well.
    let packages: Vec<String> = BUILTINS.iter().map(|(name, ..)| format!("-pcatena-plugin-{name}")).collect();
    let select: Vec<&str> = ["--lib"].into_iter().chain(packages.iter().map(String::as_str)).collect();
    let folder = build(&select)?;
    let mut table = String::new();
    for builtin @ (name, ..) in BUILTINS {
        let wasm = component(&folder, &format!("catena-plugin-{name}"))?;
        let description = component::describe(&wasm).map_err(|e| format!("stage {name}: {e}"))?;
        write_entry(&mut table, builtin, wasm.len(), &description);
    }
    let wasm = component(&build(&["--lib", "-pcatena-builtins"])?, "catena-builtins")?;
    let artifact = compile(&compiler()?, &target_dir, &wasm)?;
    write(&out_dir.join("builtins.cwasm"), &artifact)?;
    let table = format!(
        "pub static BUILTINS: [Builtin; {}] = [\n{table}];\n\
         static ARTIFACT: PageAligned<[u8; {}]> =\n    \
         PageAligned(*include_bytes!(concat!(env!(\"OUT_DIR\"), \"/builtins.cwasm\")));\n",
        BUILTINS.len(),
        artifact.len()
    );
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
fn compile(engine: &wasmtime::Engine, folder: &Path, wasm: &[u8]) -> Result<Vec<u8>> {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    // What the hash does not know: the optimisation level, and the missing symbols.
    "speed and size, stripped".hash(&mut hasher);
    component::digest(wasm).hash(&mut hasher);
    let cached = folder.join(format!("builtins-{:016x}.cwasm", hasher.finish()));
    if let Ok(artifact) = fs::read(&cached) {
        return Ok(artifact);
    }
    let artifact =
        engine.precompile_component(wasm).map_err(|e| format!("the stages do not compile: {e:#}"))?;
    let artifact = strip(&artifact).map_err(|e| format!("the stages' artifact: {e}"))?;
    // Builds of several profiles may run at once.
    let partial = cached.with_extension(std::process::id().to_string());
    write(&partial, &artifact)?;
    fs::rename(&partial, &cached).map_err(|e| format!("{}: {e}", cached.display()))?;
    Ok(artifact)
}

fn write_entry(
    table: &mut String,
    (name, commands, waits_to_be_asked): (&str, &[&str], bool),
    size: usize,
    description: &Description,
) {
    let Description { digest, exports, imports, contract, wants, .. } = description;
    // Writing to a String does not fail.
    let _ = write!(
        table,
        "    Builtin {{\n        name: {name:?},\n        digest: {digest:?},\n        size: {size},\n        \
         exports: &{exports:?},\n        imports: &{imports:?},\n        contract: {contract:?},\n        \
         wants: {:?},\n        role: Role::{},\n        commands: &[{}],\n        \
         waits_to_be_asked: {waits_to_be_asked},\n        artifact: &ARTIFACT.0,\n    }},\n",
        wants.to_string(),
        pascal_case(name),
        commands.iter().map(|command| format!("Command::{command}")).collect::<Vec<_>>().join(", "),
    );
}

/// As wasmtime's macro names the cases of an enum.
fn pascal_case(name: &str) -> String {
    let mut text = String::new();
    for word in name.split('-') {
        let (first, rest) = word.split_at(1);
        text.push_str(&first.to_uppercase());
        text.push_str(rest);
    }
    text
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display()))
}

fn var(name: &str) -> Result<String> {
    env::var(name).map_err(|e| format!("{name}: {e}"))
}
