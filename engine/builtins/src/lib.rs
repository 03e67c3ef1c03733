//! The built-in stages in one module. Each instance is one of them: it asks the host which, and the host links it with
//! what that stage was granted.

#[cfg(target_family = "wasm")]
mod exports;
