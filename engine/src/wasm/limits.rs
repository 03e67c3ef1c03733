//! What a run of a stage may use: the numbers that no node changes (the others are [`Limits`]), and the only function
//! that makes a store.

use std::fmt;

use wasmtime::{CallHook, Engine, ResourceLimiter, Store};

use super::host::State;
use crate::node::Limits;

/// Bytes of stack; set in the engine's configuration, since it is compiled in. Far below a main thread's 8 MiB.
pub const STACK: usize = 512 << 10;
/// Bytes of a log line.
pub const LOG_LINE: usize = 1024;
/// Bytes of an error text from a stage: what a CNI error's reader may still read.
pub const MESSAGE: usize = 4096;
/// Resource handles that a guest may hold, such as WASI's open files.
pub const HANDLES: usize = 1024;
/// Bytes of standard output, and of standard error, through WASI. What is beyond is an error to the guest.
pub const OUTPUT: usize = 1 << 20;
/// Bytes of random numbers per WASI call.
pub const RANDOM: u64 = 64 << 10;

/// Routes that one call may change: a pod has a few dozen, and each is judged on the whole table.
pub const CHANGES: usize = 1024;
/// Routes that one run may change: all of them are in the journal until the ADD has ended.
pub const CHANGES_OF_RUN: usize = 4096;
/// Next hops of one route that is to be changed. An error tells the whole route, and the kernel refuses more than some
/// thousand.
pub const NEXT_HOPS: usize = 256;
/// Errors of failed calls that are kept of one run; the others are counted.
pub const ERRORS: usize = 64;
/// Problems of one config that are told.
pub const PROBLEMS: usize = 16;
/// Bytes of the route in such an error: it may have many hops.
pub const ROUTE: usize = 1024;
/// Bytes of a name or place from a guest in an error text.
pub const NAME: usize = 256;

/// Units of fuel for each byte that a call hands over, beyond those of [`Limits`]: a result may have a megabyte, and
/// whoever reads one needs more the longer it is. The built-in stages take 140 to 250 a byte.
pub const FUEL_PER_BYTE: u64 = 500;

/// The limits of a call that hands over so many bytes.
pub(super) fn of_call(limits: Limits, bytes: usize) -> Limits {
    let more = FUEL_PER_BYTE.saturating_mul(bytes as u64);
    Limits { fuel: limits.fuel.saturating_add(more), ..limits }
}

/// Calls of `log` in one run. The lines beyond the limit are only counted, but each still costs the host a copy.
pub fn log_calls(limits: &Limits) -> usize {
    limits.log_lines.saturating_mul(16)
}

/// Calls of WASI in one run. Most are cheap, and a language's own library makes some that nobody wrote.
pub fn wasi_calls(limits: &Limits) -> u32 {
    limits.host_calls.saturating_mul(16)
}

/// Bytes that one call may carry from a guest to the host: a result and its publications. Without it a list of
/// a million references to one long text would fill the host's memory.
pub fn transfer(limits: &Limits) -> usize {
    limits.result.saturating_mul(4)
}

/// A limit that a run went over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more than {most} {what}; {}", remedy(*key))]
pub struct Exceeded {
    /// Of what.
    pub what: &'static str,
    /// How much is allowed.
    pub most: u64,
    /// Where the node can change it; none where nobody can.
    pub key: Option<&'static str>,
}

impl Exceeded {
    /// A limit that a node can change.
    pub(super) fn new(what: &'static str, most: usize, key: &'static str) -> Self {
        Self { what, most: most as u64, key: Some(key) }
    }

    /// A limit that nobody can change.
    pub(super) fn fixed(what: &'static str, most: usize) -> Self {
        Self { what, most: most as u64, key: None }
    }
}

/// The whole call's time was over when a run asked the host for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the call's time is over")]
pub(super) struct Late;

/// What to do about a limit.
pub(super) fn remedy(key: Option<&str>) -> String {
    match key {
        Some(key) => {
            format!("if the module needs more, raise limits.{key} under its name in /etc/catena/node.json")
        }
        None => "this limit is fixed, so the module has to do with less".to_owned(),
    }
}

/// Watches what a run uses.
pub(super) struct Meter {
    pub(super) limits: Limits,
    memory: usize,
    elements: usize,
    /// Most bytes of linear memory at once; memory never shrinks.
    pub(super) peak: usize,
}

impl Meter {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, memory: 0, elements: 0, peak: 0 }
    }
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
    limit: Exceeded,
) -> wasmtime::Result<bool> {
    if own.is_some_and(|own| desired > own) {
        return Ok(false);
    }
    let grown = total.saturating_add(desired.saturating_sub(current));
    if grown as u64 > limit.most {
        return Err(limit.into());
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
        let limit = Exceeded::new("bytes of memory", self.limits.memory, "memoryMiB");
        let allowed = grow(&mut self.memory, current, desired, own, limit)?;
        self.peak = self.peak.max(self.memory);
        Ok(allowed)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        own: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let limit = Exceeded::new("table elements", self.limits.table_elements, "tableElements");
        grow(&mut self.elements, current, desired, own, limit)
    }

    fn instances(&self) -> usize {
        self.limits.instances
    }

    fn tables(&self) -> usize {
        self.limits.tables
    }

    fn memories(&self) -> usize {
        self.limits.memories
    }
}

/// A store with all limits set.
pub(super) fn store(engine: &Engine, state: State) -> Store<State> {
    let limits = state.meter.limits;
    let has_wasi = state.wasi.is_some();
    let mut store = Store::new(engine, state);
    store.limiter(|state| &mut state.meter);
    // WASI is somebody else's code, which asks for neither number nor time.
    if has_wasi {
        store.call_hook(|context, hook| match hook {
            CallHook::CallingHost | CallHook::ReturningFromHost => context.data().go_on(),
            CallHook::CallingWasm | CallHook::ReturningFromWasm => Ok(()),
        });
    }
    // It fails only in an engine that counts no fuel, and then there is none: nothing would run.
    let _ = store.set_fuel(limits.fuel);
    store.set_hostcall_fuel(transfer(&limits));
    store.set_max_component_handles(HANDLES);
    store
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_count_together() {
        let mut meter = Meter::new(Limits::default());
        assert!(meter.memory_growing(0, 20 << 20, None).unwrap());
        assert!(meter.memory_growing(0, 12 << 20, None).unwrap());
        let error = meter.memory_growing(12 << 20, (12 << 20) + 1, None).unwrap_err();
        let text = error.downcast_ref::<Exceeded>().unwrap().to_string();
        assert!(
            text.starts_with("more than 33554432 bytes of memory; ") && text.contains("limits.memoryMiB")
        );
        assert!(!meter.memory_growing(0, 64 << 20, Some(1 << 20)).unwrap(), "beyond its own maximum");
        assert_eq!(meter.peak, 32 << 20);
    }

    #[test]
    fn a_call_gets_more_fuel_the_more_it_hands_over() {
        let limits = Limits { fuel: 7, ..Limits::default() };
        assert_eq!(of_call(limits, 0), limits);
        assert_eq!(of_call(limits, 1 << 20).fuel, 7 + (500 << 20));
        assert_eq!(of_call(Limits { fuel: u64::MAX, ..limits }, 9).fuel, u64::MAX);
    }

    #[test]
    fn tables_count_together() {
        let mut meter = Meter::new(Limits::default());
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
