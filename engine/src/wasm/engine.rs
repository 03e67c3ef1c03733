//! The only engine.

#![allow(unsafe_code, reason = "the protection of code pages is changed here")]

use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use nix::sys::mman::{ProtFlags, mprotect};
use wasmtime::{CustomCodeMemory, Engine};

use super::config::engine_config;
use super::error::ModuleError;

/// The name of the engine's configuration: an installed module runs if it was compiled for this one.
pub const KEY: &str = env!("CATENA_ENGINE");

/// The engine of this process, made on first use.
///
/// # Errors
/// wasmtime cannot work here, for want of memory or processor features.
pub fn engine() -> Result<&'static Engine, ModuleError> {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    if let Some(engine) = ENGINE.get() {
        return Ok(engine);
    }
    let mut config = engine_config();
    config.with_custom_code_memory(Some(Arc::new(InPlace)));
    let engine = Engine::new(&config).map_err(|error| ModuleError::Engine(format!("{error:#}")))?;
    Ok(ENGINE.get_or_init(|| engine))
}

/// Makes code executable where it lies, by changing nothing but the protection of its pages: built-in
/// artifacts are run inside the executable's own read-only data.
struct InPlace;

/// What every Linux kernel of the supported architectures uses.
const PAGE: usize = 4096;

impl InPlace {
    fn protect(start: *const u8, length: usize, protection: ProtFlags) -> wasmtime::Result<()> {
        let start = NonNull::new(start.cast_mut().cast())
            .ok_or_else(|| wasmtime::Error::msg("code memory without an address"))?;
        // SAFETY: wasmtime hands over the text of an artifact, which begins on a page. An artifact fills whole
        // pages that hold nothing else (`PageAligned`, or a file's mapping), so no other data changes its
        // protection, and neither protection allows to write.
        unsafe { mprotect(start, length.next_multiple_of(PAGE), protection) }?;
        Ok(())
    }
}

impl CustomCodeMemory for InPlace {
    fn required_alignment(&self) -> usize {
        PAGE
    }

    fn publish_executable(&self, start: *const u8, length: usize) -> wasmtime::Result<()> {
        Self::protect(start, length, ProtFlags::PROT_READ | ProtFlags::PROT_EXEC)
    }

    fn unpublish_executable(&self, start: *const u8, length: usize) -> wasmtime::Result<()> {
        Self::protect(start, length, ProtFlags::PROT_READ)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn is_one() {
        assert!(std::ptr::eq(super::engine().unwrap(), super::engine().unwrap()));
    }
}
