//! Finds a Rust toolchain that can build for wasm32-unknown-unknown, and builds with it.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Result;

pub(crate) const TARGET: &str = "wasm32-unknown-unknown";
/// Debian's packages rustc-web and rust-web-src put a compiler and its source there.
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
/// Settings of the surrounding cargo call that are not meant for the stages: another target, another profile,
/// another compiler (clippy's wrapper).
const FOREIGN: [&str; 7] = [
    "RUSTC",
    "RUSTDOC",
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_",
    "CARGO_PROFILE_",
    "CARGO_TARGET_",
];

/// A compiler, and where the standard library for wasm comes from.
#[derive(Debug)]
pub(crate) struct Toolchain {
    rustc: PathBuf,
    sysroot: PathBuf,
    std: Std,
}

#[derive(Debug)]
enum Std {
    Installed,
    Source { linker: Option<PathBuf> },
}

/// What cargo shall build.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// The folder of the workspace's Cargo.toml.
    pub(crate) workspace: &'a Path,
    /// A folder of its own, so that native builds and this one do not evict each other.
    pub(crate) target_dir: &'a Path,
    /// cargo's profile.
    pub(crate) profile: &'a str,
    /// cargo's other arguments: `--locked`, and what selects packages or targets.
    pub(crate) args: &'a [&'a str],
    /// More folders that get another name in the module, beside the workspace's and cargo's own.
    pub(crate) remap: &'a [(PathBuf, String)],
    /// What cargo says goes to this program's standard error as it comes.
    pub(crate) show: bool,
}

impl Toolchain {
    /// The first compiler with an installed standard library for wasm, else the first with the source of one.
    pub(crate) fn find() -> Result<Toolchain> {
        let usual = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut candidates: Vec<(PathBuf, PathBuf)> = Vec::new();
        for rustc in [PathBuf::from(usual), PathBuf::from(DEBIAN_RUSTC)] {
            if let Some(sysroot) = sysroot(&rustc) {
                candidates.push((rustc, sysroot));
            }
        }
        let rustlib = |sysroot: &Path| sysroot.join("lib/rustlib");
        if let Some((rustc, sysroot)) =
            candidates.iter().find(|(_, s)| rustlib(s).join(TARGET).join("lib").is_dir())
        {
            return Ok(Toolchain { rustc: rustc.clone(), sysroot: sysroot.clone(), std: Std::Installed });
        }
        let source =
            |(_, s): &&(PathBuf, PathBuf)| rustlib(s).join("src/rust/library/std/Cargo.toml").is_file();
        if let Some((rustc, sysroot)) = candidates.iter().find(source) {
            let linker = candidates.iter().find_map(|(_, s)| rust_lld(&rustlib(s)));
            return Ok(Toolchain {
                rustc: rustc.clone(),
                sysroot: sysroot.clone(),
                std: Std::Source { linker },
            });
        }
        Err(format!(
            "the stages need a standard library for {TARGET}: run `rustup target add {TARGET}`, or on Debian \
             `apt-get install -y --no-install-recommends rustc-web rust-web-src`"
        ))
    }

    /// Builds, and returns the folder that holds the core modules.
    pub(crate) fn build(&self, request: &Request<'_>) -> Result<PathBuf> {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        for (name, _) in env::vars_os() {
            if name.to_str().is_some_and(|name| FOREIGN.iter().any(|prefix| name.starts_with(prefix))) {
                cargo.env_remove(name);
            }
        }
        cargo
            .current_dir(request.workspace)
            .env("RUSTC", &self.rustc)
            .env("CARGO_ENCODED_RUSTFLAGS", self.rustflags(request))
            .args(["build", "--profile", request.profile, "--target", TARGET, "--target-dir"])
            .arg(request.target_dir)
            .args(request.args);
        if let Std::Source { linker } = &self.std {
            // -Z is open to a stable cargo and compiler only with this variable.
            cargo.env("RUSTC_BOOTSTRAP", "1").arg("-Zbuild-std=std,panic_abort");
            if let Some(linker) = linker {
                cargo.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
            }
        }
        if request.show {
            cargo.stdout(Stdio::null()).stderr(Stdio::inherit());
        }
        let output =
            cargo.output().map_err(|e| format!("cannot run {}: {e}", cargo.get_program().display()))?;
        if !output.status.success() {
            return Err(format!(
                "building the stages for {TARGET} with {} failed ({}):\n{}",
                self.rustc.display(),
                output.status,
                String::from_utf8_lossy(&output.stderr)
            ));
        }
        Ok(request.target_dir.join(TARGET).join(request.profile))
    }

    /// No path of this machine may get into the module, or the same source would have another digest elsewhere.
    fn rustflags(&self, request: &Request<'_>) -> OsString {
        let home = env::var_os("CARGO_HOME")
            .map(PathBuf::from)
            .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
        // The last prefix that fits wins.
        let mut prefixes =
            vec![(request.workspace.to_path_buf(), "/catena"), (request.target_dir.to_path_buf(), "/target")];
        prefixes.extend(request.remap.iter().map(|(path, name)| (path.clone(), name.as_str())));
        if let Some(home) = home {
            let registries = std::fs::read_dir(home.join("registry/src")).into_iter().flatten().flatten();
            let mut registries: Vec<PathBuf> = registries.map(|entry| entry.path()).collect();
            registries.sort();
            prefixes.push((home, "/cargo"));
            prefixes.extend(registries.into_iter().map(|path| (path, "/deps")));
        }
        let source = self.sysroot.join("lib/rustlib/src/rust");
        if let Ok(real) = source.canonicalize() {
            prefixes.push((real, "/rustc"));
        }
        prefixes.push((source, "/rustc"));
        let mut flags = OsString::new();
        for (path, name) in prefixes {
            if !flags.is_empty() {
                flags.push("\u{1f}");
            }
            flags.push("--remap-path-prefix=");
            flags.push(path);
            flags.push("=");
            flags.push(name);
        }
        flags
    }
}

fn sysroot(rustc: &Path) -> Option<PathBuf> {
    let output =
        Command::new(rustc).args(["--print", "sysroot"]).env_remove("RUSTC_WRAPPER").output().ok()?;
    output.status.success().then(|| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

/// The linker that rustup ships for the host; Debian's rustc finds its own where there is none.
fn rust_lld(rustlib: &Path) -> Option<PathBuf> {
    let hosts = std::fs::read_dir(rustlib).ok()?.flatten();
    hosts.map(|host| host.path().join("bin/rust-lld")).find(|path| path.is_file())
}
