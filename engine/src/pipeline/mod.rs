//! Which stages run for an attachment, in which order, on what, and what their failure means.

pub mod bench;
pub mod context;
pub mod error;
pub mod intent;
pub mod monitor;
pub mod ownership;
pub mod run;
pub mod selection;
