//! Places where a test build panics on demand. Without the feature `inject-panics`, which no build that people use
//! has, all of this is nothing.

/// The environment variable that names a point, such as `wasm/call`, or `wasm/call:2` for its second time. A
/// point's first word is the room that it is in.
#[cfg(feature = "inject-panics")]
pub const VARIABLE: &str = "CATENA_INJECT_PANIC";

/// Panics if the environment names this point.
#[cfg(feature = "inject-panics")]
pub fn point(name: &str) {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, PoisonError};

    static TIMES: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());
    let Ok(wanted) = std::env::var(VARIABLE) else { return };
    let (wanted, time) = match wanted.split_once(':') {
        Some((wanted, time)) => (wanted, time.parse().unwrap_or(1)),
        None => (wanted.as_str(), 1),
    };
    if wanted != name {
        return;
    }
    let reached = {
        let mut times = TIMES.lock().unwrap_or_else(PoisonError::into_inner);
        let count = times.entry(name.to_owned()).or_default();
        *count += 1;
        *count
    };
    assert!(reached != time, "injected at {name}");
}

/// Does nothing.
#[cfg(not(feature = "inject-panics"))]
#[inline(always)]
pub fn point(_name: &str) {}
