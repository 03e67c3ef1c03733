//! From a stage's source to a component: what the build script of `catena` and the build step of the tests'
//! modules share.

pub(crate) mod component;
pub(crate) mod toolchain;

/// What went wrong, as one line for a person.
pub(crate) type Result<T> = std::result::Result<T, String>;
