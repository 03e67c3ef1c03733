//! Panics, caught.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::cni::CniError;

/// The message of a panic's payload ([`std::panic::catch_unwind`]).
pub fn text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Does some work; a panic is an error of code 999. What the work had borrowed may be half done: only what is left
/// in a usable state between any two steps may be used afterwards.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, CniError> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| CniError::from_panic(&*payload))
}
