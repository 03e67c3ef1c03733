//! How the C library's allocator is set: for a process that lives for milliseconds.

#![allow(unsafe_code, reason = "mallopt(3) has no safe wrapper")]

#[cfg(target_env = "gnu")]
use nix::libc;

/// By how much the heap grows: about what an ADD needs, in one system call.
#[cfg(target_env = "gnu")]
const GROWTH: libc::c_int = 512 << 10;

/// Heaps that grow in big steps and are never given back. Each thread keeps its own: two that share one wait for each
/// other all the time.
#[cfg(target_env = "gnu")]
pub fn settle() {
    // SAFETY: mallopt(3) changes nothing but the allocator's own parameters, and no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_TOP_PAD, GROWTH);
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
    }
}

/// Other C libraries have nothing to set.
#[cfg(not(target_env = "gnu"))]
pub fn settle() {}
