//! WASI 0.2, for modules that import it: a world in which nothing is there and no time passes, unless the node
//! grants folders, a clock or random numbers. A stage can never wait.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest as _, Sha256};
use wasmtime::component::{Linker, Resource, ResourceTable};
use wasmtime_wasi::cli::{WasiCli, WasiCliView as _};
use wasmtime_wasi::clocks::WasiClocksView as _;
use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemView as _};
use wasmtime_wasi::p2::bindings::clocks::monotonic_clock::Host as _;
use wasmtime_wasi::p2::bindings::{cli, filesystem, random, sync};
use wasmtime_wasi::p2::pipe::MemoryOutputPipe;
use wasmtime_wasi::p2::{self, DynPollable};
use wasmtime_wasi::random::{Deterministic, WasiRandom, WasiRandomView as _};
use wasmtime_wasi::{FsPerms, HostMonotonicClock, HostWallClock, WasiCtx, WasiCtxView, WasiView};

use catena_cni::error::code;

use super::error::StageError;
use super::host::{Host, Level, State};
use super::limits;
use crate::node::{DirAccess, Grants};

/// A run's WASI state.
pub(super) struct Wasi {
    ctx: WasiCtx,
    table: ResourceTable,
    output: [(Level, MemoryOutputPipe); 2],
    runtime: tokio::runtime::Runtime,
}

/// Time stands still at the call's start.
struct Frozen(Duration);

impl HostWallClock for Frozen {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        self.0
    }
}

impl HostMonotonicClock for Frozen {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        0
    }
}

/// Bytes that look random and are the same for the same container.
fn seeded(container_id: &str, purpose: &str, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 32);
    for counter in 0u64.. {
        if bytes.len() >= length {
            break;
        }
        let mut hash = Sha256::new();
        for part in [purpose.as_bytes(), &[0], container_id.as_bytes(), &[0], &counter.to_le_bytes()] {
            hash.update(part);
        }
        bytes.extend_from_slice(&hash.finalize());
    }
    bytes.truncate(length);
    bytes
}

/// What a module without real random numbers gets before they repeat.
const SEEDED: usize = 4096;

impl Wasi {
    /// # Errors
    /// A granted folder cannot be opened, or there is no memory.
    pub(super) fn new(name: &str, grants: &Grants, host: &Host) -> Result<Self, StageError> {
        let container_id = host.container_id.as_str();
        // No failure of the module's own, so nothing that may be passed over.
        let unusable = |code, message| StageError::Unusable { code, message };
        let pipe = || MemoryOutputPipe::new(limits::OUTPUT);
        let output = [(Level::Info, pipe()), (Level::Warn, pipe())];
        let mut builder = WasiCtx::builder();
        builder.stdout(output[0].1.clone()).stderr(output[1].1.clone());
        builder.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
        // No thread for file operations.
        builder.allow_blocking_current_thread(true);
        builder.max_random_size(limits::RANDOM);
        if !grants.clock {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            builder.wall_clock(Frozen(now)).monotonic_clock(Frozen(now));
        }
        if !grants.random {
            let random = |purpose| Deterministic::new(seeded(container_id, purpose, SEEDED));
            builder.secure_random(random("secure")).insecure_random(random("insecure"));
            let mut seed = [0; 16];
            seed.copy_from_slice(&seeded(container_id, "seed", 16));
            builder.insecure_random_seed(u128::from_le_bytes(seed));
        }
        for (path, access) in &grants.dirs {
            let perms = match access {
                DirAccess::Write if host.may_write() => FsPerms::ReadWrite,
                DirAccess::Read | DirAccess::Write => FsPerms::ReadOnly,
            };
            let guest = path.display().to_string();
            builder.preopened_dir(path, guest, perms).map_err(|error| {
                let message = format!(
                    "module {name}: the granted folder {} cannot be opened: {error:#}; make the folder, or take it out \
                     of modules.{name}.grants.dirs in /etc/catena/node.json",
                    path.display()
                );
                unusable(code::INTEGRITY, message)
            })?;
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .map_err(|error| unusable(code::IO, format!("module {name}: WASI cannot be set up: {error}")))?;
        Ok(Self { ctx: builder.build(), table: ResourceTable::new(), output, runtime })
    }

    /// The runtime that WASI's functions look for; without one they make a thread for each core.
    pub(super) fn runtime(&self) -> tokio::runtime::Handle {
        self.runtime.handle().clone()
    }

    /// What was last written to standard error, if anything.
    pub(super) fn last_words(&self) -> Option<String> {
        last_words(&String::from_utf8_lossy(&self.output[1].1.contents()))
    }

    /// What was written to standard output and error, line by line.
    pub(super) fn lines(&self) -> Vec<(Level, String)> {
        let mut lines = Vec::new();
        for (level, pipe) in &self.output {
            let bytes = pipe.contents();
            lines.extend(String::from_utf8_lossy(&bytes).lines().map(|line| (*level, line.to_owned())));
        }
        lines
    }
}

/// What of standard error says best why a module ended, in one line: languages write a panic or an exception there
/// before they trap. Most have the message in the last line; Rust and Go write more behind it.
fn last_words(stderr: &str) -> Option<String> {
    let lines = || stderr.lines().filter(|line| !line.trim().is_empty());
    // Rust: "thread '<unnamed>' panicked at src/lib.rs:1:2:", the message, a note.
    let panicked = |line: &&str| line.starts_with("thread ") && line.contains(" panicked at ");
    if let Some(at) = lines().collect::<Vec<_>>().iter().rposition(panicked) {
        return Some(lines().skip(at).take(2).collect::<Vec<_>>().join(" "));
    }
    // Go: "panic: " and the message, then its goroutines.
    let panic = |line: &&str| line.starts_with("panic: ") || line.starts_with("fatal error: ");
    lines().rfind(panic).or_else(|| lines().next_back()).map(|line| line.trim().to_owned())
}

impl WasiView for State {
    /// Each call of WASI asks for it.
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.wasi_calls = self.wasi_calls.saturating_add(1);
        // The linker has WASI only for modules that import it, and those have a state.
        let wasi = self
            .wasi
            .as_mut()
            .unwrap_or_else(|| unreachable!("WASI is linked for a module without its state"));
        WasiCtxView { ctx: &mut wasi.ctx, table: &mut wasi.table }
    }
}

/// Links WASI 0.2, without sockets: a module that imports them is refused before, and their code is a large part.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    p2::add_to_linker_proxy_interfaces_sync(linker)?;
    filesystem::preopens::add_to_linker::<State, WasiFilesystem>(linker, State::filesystem)?;
    sync::filesystem::types::add_to_linker::<State, WasiFilesystem>(linker, State::filesystem)?;
    random::insecure::add_to_linker::<State, WasiRandom>(linker, State::random)?;
    random::insecure_seed::add_to_linker::<State, WasiRandom>(linker, State::random)?;
    cli::environment::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::exit::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_input::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_output::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_stdin::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_stdout::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    cli::terminal_stderr::add_to_linker::<State, WasiCli>(linker, State::cli)?;
    // Who waits for a moment is told at once that it has come: a call must not hang on a sleeping stage.
    linker.allow_shadowing(true);
    let mut clock = linker.instance("wasi:clocks/monotonic-clock@0.2.12")?;
    for function in ["subscribe-instant", "subscribe-duration"] {
        clock.func_wrap(function, |mut store: wasmtime::StoreContextMut<'_, State>, (_,): (u64,)| {
            let pollable: Resource<DynPollable> = store.data_mut().clocks().subscribe_duration(0)?;
            Ok((pollable,))
        })?;
    }
    linker.allow_shadowing(false);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::At;
    use crate::routes::kernel::Scope;

    #[test]
    fn seeds_differ_by_container_and_purpose() {
        let one = seeded("a", "secure", 100);
        assert_eq!(one, seeded("a", "secure", 100));
        assert_ne!(one, seeded("b", "secure", 100));
        assert_ne!(one, seeded("a", "seed", 100));
        assert_eq!(one.len(), 100);
    }

    #[test]
    fn the_words_that_say_why() {
        let python =
            "Traceback (most recent call last):\n  File \"app.py\", line 3, in run\nValueError: no tier\n\n";
        let rust = "thread '<unnamed>' (1) panicked at src/lib.rs:3:5:\nno tier\n\
                    note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n";
        let go = "panic: no tier\n\ngoroutine 1 [running]:\nmain.run()\n\t/src/main.go:3 +0x2\n";
        for (stderr, words) in [
            (python, Some("ValueError: no tier")),
            (rust, Some("thread '<unnamed>' (1) panicked at src/lib.rs:3:5: no tier")),
            (go, Some("panic: no tier")),
            ("one\n two \n", Some("two")),
            (" \n\n", None),
            ("", None),
        ] {
            assert_eq!(last_words(stderr).as_deref(), words);
        }
    }

    #[test]
    fn a_granted_folder_must_be_there() {
        let grants =
            Grants::parse(At::Document, &serde_json::json!({"dirs": {"/nowhere/at/all": "ro"}})).unwrap();
        let error = Wasi::new("x", &grants, &Host::new("c", Scope::default(), false)).err().unwrap();
        assert_eq!(error.code(), 104);
        let text = error.to_string();
        assert!(text.contains("/nowhere/at/all") && text.contains("modules.x.grants.dirs"), "{text}");
    }
}
