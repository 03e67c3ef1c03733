//! The folder of installed modules, for those who look and for those who change it.

use std::fs::File;

use catena::node::{Installed, ModuleLock, ModuleName, NodeConfig, OwnedDir, Root};
use catena::wasm::builtin::{BUILTINS, Builtin};
use nix::fcntl::Flock;

use crate::error::Error;

/// What is installed now. It may have changed a moment later.
pub(crate) fn installed(root: &Root) -> Result<ModuleLock, Error> {
    match OwnedDir::open(&root.modules())? {
        Some(dir) => Ok(ModuleLock::load(&dir)?),
        None => Ok(ModuleLock::default()),
    }
}

/// The folder, with its lock: two programs that change it do not lose each other's work. A change counts from
/// [`Store::commit`] on, in one step; a crash before it leaves files that [`Store::files`] does not name.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) dir: OwnedDir,
    pub(crate) lock: ModuleLock,
    _held: Flock<File>,
}

/// The name of the lock's file.
const LOCK: &str = "lock";

impl Store {
    /// Opens the folder, makes it if it is not there, and waits for its lock.
    pub(crate) fn open(root: &Root) -> Result<Store, Error> {
        let dir = OwnedDir::create(&root.modules(), 0o700)?;
        let held = dir.lock(LOCK)?;
        let lock = ModuleLock::load(&dir)?;
        Ok(Store { dir, lock, _held: held })
    }

    /// Makes the changed record count.
    pub(crate) fn commit(&self) -> Result<(), Error> {
        Ok(self.lock.store(&self.dir)?)
    }

    /// Every file that belongs here.
    pub(crate) fn files(&self) -> Vec<String> {
        let all = self.lock.modules.values().flat_map(|entry| entry.all());
        let mut files: Vec<String> = all.flat_map(files).collect();
        files.extend([LOCK.to_owned(), ModuleLock::FILE.to_owned()]);
        files
    }
}

fn files(installed: &Installed) -> Vec<String> {
    let artifacts = installed.artifacts.keys().map(|engine| installed.artifact_file(engine));
    artifacts.chain([installed.module_file()]).collect()
}

/// The built-in stage of that name.
pub(crate) fn builtin(name: &str) -> Option<&'static Builtin> {
    BUILTINS.iter().find(|builtin| builtin.name == name)
}

/// All names of modules, sorted.
pub(crate) fn names(lock: &ModuleLock) -> Vec<String> {
    let mut names: Vec<String> = BUILTINS.iter().map(|builtin| builtin.name.to_owned()).collect();
    names.extend(lock.modules.keys().map(ToString::to_string));
    names.sort();
    names.dedup();
    names
}

/// A module's name from the command line.
pub(crate) fn name(text: &str) -> Result<ModuleName, Error> {
    ModuleName::parse(text).ok_or_else(|| {
        Error::Refused(format!("{text:?} cannot be a module's name: 1 to 64 of a-z, 0-9, '.', '_', '-'"))
    })
}

/// A line for whoever changes a module that the node's file pins: what was done has no effect there.
pub(crate) fn pinned(root: &Root, node: &NodeConfig, name: &ModuleName) -> Option<String> {
    let pin = node.modules.get(name)?.digest.as_ref()?;
    Some(format!("{} pins {name} to {pin}, which wins until it is changed there", root.node_file().display()))
}
