//! Compiled modules. wasmtime checks that an artifact fits the engine, but not its code: whoever can write one
//! is root here. So it is either part of the executable, or a file that only `catenactl install` wrote.

#![allow(unsafe_code, reason = "artifacts are native code")]

use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use wasmtime::Engine;
use wasmtime::component::Component;

use super::builtin::Builtin;
use super::engine;
use super::error::ModuleError;
use crate::node::{Digest, Installed, OwnedDir};

/// Runs the artifact of the built-in stages in place, inside the executable. wasmtime takes each place once, so all
/// that a process makes of it is one and the same.
pub(super) fn builtin(engine: &Engine, builtin: &Builtin) -> Result<Component, ModuleError> {
    static LOADED: Mutex<Option<Component>> = Mutex::new(None);
    // A panic while it was held leaves it as it was.
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(component) = &*loaded {
        return Ok(component.clone());
    }
    // SAFETY: the bytes are what the build script compiled with this very configuration; they live as long as
    // the process and nothing writes to them.
    let component = unsafe { Component::deserialize_raw(engine, NonNull::from(builtin.artifact)) };
    let component = component.map_err(|error| ModuleError::Artifact {
        name: builtin.name.to_owned(),
        digest: builtin.digest.to_owned(),
        cause: format!("its artifact is not for this engine: {error:#}"),
    })?;
    Ok(loaded.insert(component).clone())
}

/// Maps an installed artifact.
///
/// # Errors
/// It was not compiled for this engine, or the file is missing, another user's, writable by others, or not the one
/// of record.
pub(super) fn installed(
    host: &Engine,
    dir: &OwnedDir,
    name: &str,
    installed: &Installed,
) -> Result<Component, ModuleError> {
    let Some(record) = installed.artifacts.get(engine::KEY) else {
        return Err(ModuleError::Stale {
            name: name.to_owned(),
            digest: installed.digest.to_string(),
            engines: installed.artifacts.keys().cloned().collect::<Vec<_>>().join(", "),
        });
    };
    let file_name = installed.artifact_file(engine::KEY);
    let fail = |cause: String| ModuleError::Artifact {
        name: name.to_owned(),
        digest: installed.digest.to_string(),
        cause: format!("its artifact {} {cause}", dir.path().join(&file_name).display()),
    };
    let Some((mut file, size)) = dir.file(&file_name)? else { return Err(fail("is not there".into())) };
    if size != record.size {
        return Err(fail(format!("has {size} bytes, not the {} of record", record.size)));
    }
    let digest = Digest::of_file(&mut file).map_err(|error| fail(format!("cannot be read: {error}")))?;
    if digest != record.digest {
        return Err(fail(format!("has digest {digest}, not {} of record", record.digest)));
    }
    // The checked file itself, whatever its name leads to by now.
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    // SAFETY: only the effective user can write to the file and its folder, and its digest is the one that
    // `catenactl install` recorded after compiling it. Files there are replaced, never rewritten, so the mapping
    // does not change.
    let component = unsafe { Component::deserialize_file(host, &path) };
    component.map_err(|error| fail(format!("is not for this engine: {error:#}")))
}
