//! The operations on a simulated table: what they do, what they refuse, and that a fault at any moment leaves
//! everything as it was or is reported.

mod cases;
mod exhaustive;
mod json;
mod random;
#[path = "../support/mod.rs"]
mod support;
mod world;
