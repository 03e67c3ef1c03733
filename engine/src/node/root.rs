use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The folder that stands for `/` for all files of catena itself.
///
/// `CATENA_ROOT` in the environment sets it. The environment is the runtime's, as trusted as `CNI_PATH`;
/// nothing on stdin can change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// The environment variable that names the folder.
    pub const VARIABLE: &'static str = "CATENA_ROOT";

    /// The root that the process's environment asks for, `/` without.
    pub fn from_env() -> Self {
        Self::from_value(std::env::var_os(Self::VARIABLE).as_deref())
    }

    /// The root for a value of `CATENA_ROOT`; an empty one counts as absent.
    pub fn from_value(value: Option<&OsStr>) -> Self {
        match value {
            Some(dir) if !dir.is_empty() => Self(PathBuf::from(dir)),
            _ => Self(PathBuf::from("/")),
        }
    }

    /// Where `path` (absolute, as documented) really is.
    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Whether paths are as documented, without a prefix.
    pub fn is_system(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// The node's own configuration.
    pub fn node_file(&self) -> PathBuf {
        self.join("/etc/catena/node.json")
    }

    /// Installed modules, their artifacts and the lock file.
    pub fn modules(&self) -> PathBuf {
        self.join("/var/lib/catena/modules")
    }

    /// Ledger entries and locks.
    pub fn state(&self) -> PathBuf {
        self.join("/var/lib/catena/state")
    }

    /// What the pipelines of ADDs saw.
    pub fn records(&self) -> PathBuf {
        self.join("/var/lib/catena/records")
    }

    /// The files in which delegates describe devices, where the Device Information Specification puts them.
    pub fn device_info(&self) -> PathBuf {
        self.join("/var/run/k8s.cni.cncf.io/devinfo/cni")
    }

    /// What other programs may read while a sandbox is there.
    pub fn run(&self) -> PathBuf {
        self.join("/run/catena")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_applies_to_absolute_paths() {
        let root = Root::from_value(Some(OsStr::new("/tmp/x")));
        assert_eq!(root.node_file(), Path::new("/tmp/x/etc/catena/node.json"));
        assert!(!root.is_system());
    }

    #[test]
    fn absent_and_empty_are_the_system() {
        for value in [None, Some(OsStr::new(""))] {
            let root = Root::from_value(value);
            assert_eq!(root.modules(), Path::new("/var/lib/catena/modules"));
            assert!(root.is_system());
        }
    }
}
