//! The stages inside the executable. The build script writes the table (see `engine/build.rs`).

use super::bindings::Role;

/// A built-in stage: what its component says about itself, and the artifact that has it. That is one for all of them,
/// since most of their code is the same; an instance is told which stage it is, and is linked with what that stage was
/// granted.
#[derive(Debug)]
pub struct Builtin {
    pub name: &'static str,
    /// `sha256:…` of the stage's own component (not of the artifact).
    pub digest: &'static str,
    /// Size of the component in bytes.
    pub size: usize,
    /// The interfaces of catena:stage that it exports: `admit`, `arrange`, `settings`, `stage`.
    pub exports: &'static [&'static str],
    /// What it imports, as `catena:stage/routes@0.1.0`.
    pub imports: &'static [&'static str],
    /// The version of catena:stage that it was built for, as `0.1.0`.
    pub contract: &'static str,
    /// The grants that it needs, as JSON (custom section `catena:wants`).
    pub wants: &'static str,
    /// What an instance answers when it asks for its role.
    pub(crate) role: Role,
    /// The compiled artifact of all built-in stages; starts on a page of its own, so that it can run where it is.
    pub artifact: &'static [u8],
}

/// Fills whole pages, so that making the code executable touches nothing else.
#[repr(C, align(4096))]
struct PageAligned<T>(T);

include!(concat!(env!("OUT_DIR"), "/builtin.rs"));
