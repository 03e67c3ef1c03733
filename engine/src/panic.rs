//! What a caught panic says.

use std::any::Any;

/// The message of a panic's payload ([`std::panic::catch_unwind`]).
pub fn text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
