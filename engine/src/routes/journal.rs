//! What was done to a namespace's routes and settings.

pub use catena_routes::{Entry, Journal, JsonError, Mark};
