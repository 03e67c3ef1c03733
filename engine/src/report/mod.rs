//! What an invocation tells the world beside its answer.

pub mod delegates;
pub mod log;
pub mod record;
pub mod status;
