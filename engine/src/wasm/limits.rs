//! What a run of a stage may use: every number, and the only function that makes a store.

use std::fmt;

use wasmtime::{Engine, ResourceLimiter, Store};

use super::host::State;

/// Bytes of linear memory, all memories of a run together. A Rust stage begins with 1.1 MiB, a JavaScript one
/// with 9 and a Python one with 12.
pub const MEMORY: usize = 32 << 20;
/// Elements, all tables of a run together. A JavaScript stage has 7,688.
pub const TABLE_ELEMENTS: usize = 32_768;
/// Core instances. A Python stage has 65.
pub const INSTANCES: usize = 128;
/// Tables: no more than instances.
pub const TABLES: usize = 128;
/// Linear memories. Adapters need two or three.
pub const MEMORIES: usize = 8;
/// Bytes of stack; set in the engine's configuration, since it is compiled in. Far below a main thread's 8 MiB.
pub const STACK: usize = 512 << 10;
/// Units of fuel, which are about instructions: the verdict is the same on a loaded node. A Rust stage needs
/// 0.6 million for a result of 2 KB, a JavaScript one 7.3; all of it is 30 ms on an idle core.
pub const FUEL: u64 = 50_000_000;
/// Bytes of a document that a stage returns. Real results have some KB.
pub const RESULT: usize = 1 << 20;
/// Calls of `routes` and `links` in one run: each costs system calls.
pub const HOST_CALLS: u32 = 256;
/// Log lines that are kept of one run.
pub const LOG_LINES: usize = 64;
/// Bytes of a log line.
pub const LOG_LINE: usize = 1024;
/// Calls of `log` in one run. The lines beyond [`LOG_LINES`] are only
/// counted, but each still costs the host a copy.
pub const LOG_CALLS: u32 = 1024;
/// Bytes that one call may carry from a guest to the host: a result and its publications. Without it a list of
/// a million references to one long text would fill the host's memory.
pub const TRANSFER: usize = 4 << 20;
/// Bytes of an error text from a stage: what a CNI error's reader may still read.
pub const MESSAGE: usize = 4096;
/// Tags of one outcome.
pub const TAGS: usize = 32;
/// Bytes of a tag.
pub const TAG: usize = 64;
/// Bytes of all publications of one outcome: what the Kubernetes API takes as annotations of one object.
pub const PUBLICATIONS: usize = 256 << 10;
/// Resource handles that a guest may hold, such as WASI's open files.
pub const HANDLES: usize = 1024;
/// Bytes of standard output, and of standard error, through WASI. What is beyond is an error to the guest.
pub const OUTPUT: usize = 1 << 20;
/// Bytes of random numbers per WASI call.
pub const RANDOM: u64 = 64 << 10;

/// A limit that a run went over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more than {most} {what}")]
pub struct Exceeded {
    /// Of what.
    pub what: &'static str,
    /// How much is allowed.
    pub most: u64,
}

impl Exceeded {
    pub(super) fn new(what: &'static str, most: usize) -> Self {
        Self { what, most: most as u64 }
    }
}

/// Watches what a run uses.
#[derive(Default)]
pub(super) struct Meter {
    memory: usize,
    elements: usize,
    /// Most bytes of linear memory at once; memory never shrinks.
    pub(super) peak: usize,
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").field("memory", &self.memory).field("elements", &self.elements).finish()
    }
}

/// Allows growth up to a limit over all memories (or tables) of the run. Growth beyond the guest's own maximum
/// fails as the guest expects; growth beyond ours ends the run, so that the cause is known.
fn grow(
    total: &mut usize,
    current: usize,
    desired: usize,
    own: Option<usize>,
    what: &'static str,
    most: usize,
) -> wasmtime::Result<bool> {
    if own.is_some_and(|own| desired > own) {
        return Ok(false);
    }
    let grown = total.saturating_add(desired.saturating_sub(current));
    if grown > most {
        return Err(Exceeded::new(what, most).into());
    }
    *total = grown;
    Ok(true)
}

impl ResourceLimiter for Meter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        own: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let allowed = grow(&mut self.memory, current, desired, own, "bytes of memory", MEMORY)?;
        self.peak = self.peak.max(self.memory);
        Ok(allowed)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        own: Option<usize>,
    ) -> wasmtime::Result<bool> {
        grow(&mut self.elements, current, desired, own, "table elements", TABLE_ELEMENTS)
    }

    fn instances(&self) -> usize {
        INSTANCES
    }

    fn tables(&self) -> usize {
        TABLES
    }

    fn memories(&self) -> usize {
        MEMORIES
    }
}

/// A store with all limits set.
pub(super) fn store(engine: &Engine, state: State) -> Store<State> {
    let mut store = Store::new(engine, state);
    store.limiter(|state| &mut state.meter);
    // It fails only in an engine that counts no fuel, and then there is none: nothing would run.
    let _ = store.set_fuel(FUEL);
    store.set_hostcall_fuel(TRANSFER);
    store.set_max_component_handles(HANDLES);
    store
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_count_together() {
        let mut meter = Meter::default();
        assert!(meter.memory_growing(0, 20 << 20, None).unwrap());
        assert!(meter.memory_growing(0, 12 << 20, None).unwrap());
        let error = meter.memory_growing(12 << 20, (12 << 20) + 1, None).unwrap_err();
        assert_eq!(
            error.downcast_ref::<Exceeded>().unwrap().to_string(),
            "more than 33554432 bytes of memory"
        );
        assert!(!meter.memory_growing(0, 64 << 20, Some(1 << 20)).unwrap(), "beyond its own maximum");
        assert_eq!(meter.peak, 32 << 20);
    }

    #[test]
    fn tables_count_together() {
        let mut meter = Meter::default();
        assert!(meter.table_growing(0, 32_768, None).unwrap());
        assert!(meter.table_growing(0, 1, None).is_err());
    }

    #[test]
    fn one_place_makes_stores() {
        fn sources(dir: &std::path::Path, count: &mut usize) {
            for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() {
                    sources(&entry, count);
                } else if entry.extension().is_some_and(|e| e == "rs") {
                    // Written so that this line is not one of them.
                    *count +=
                        std::fs::read_to_string(&entry).unwrap().matches(concat!("Store::", "new(")).count();
                }
            }
        }
        let mut count = 0;
        let engine = std::path::Path::new(file!()).ancestors().nth(3).unwrap();
        let manifest = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let engine = [engine.to_owned(), manifest.to_owned(), manifest.join("..").join(engine)]
            .into_iter()
            .find(|dir| dir.join("src/wasm/limits.rs").is_file())
            .unwrap();
        sources(&engine.join("src"), &mut count);
        sources(&engine.join("ctl/src"), &mut count);
        assert_eq!(count, 1);
    }
}
