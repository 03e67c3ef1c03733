//! Finding the file of a delegate.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use catena_cni::identifier::PluginType;

/// The folders that are searched for plugins, in order.
///
/// Unlike libcni, empty and relative elements of CNI_PATH are skipped: libcni looks them up in the current folder and
/// then runs whatever `$PATH` has under that name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search(Vec<PathBuf>);

impl Search {
    /// `first`, then the elements of `cni_path` (colon separated).
    pub fn new(first: impl IntoIterator<Item = PathBuf>, cni_path: &str) -> Self {
        let elements = cni_path.split(':').map(PathBuf::from);
        let mut folders: Vec<PathBuf> = Vec::new();
        for folder in first.into_iter().chain(elements) {
            if folder.is_absolute() && !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        Self(folders)
    }

    /// The folders, for messages.
    pub fn folders(&self) -> &[PathBuf] {
        &self.0
    }

    /// The CNI_PATH that delegates get, so that they find their own delegates (IPAM) where we found them.
    pub fn cni_path(&self) -> OsString {
        let mut joined = Vec::new();
        for folder in &self.0 {
            if !joined.is_empty() {
                joined.push(b':');
            }
            joined.extend_from_slice(folder.as_os_str().as_encoded_bytes());
        }
        OsString::from_vec(joined)
    }

    /// The first regular file of that name (links are followed; as in libcni, the mode is not looked at, so that a
    /// file without x bit is an error that names it, not a file further on).
    pub fn find(&self, plugin: &PluginType) -> Option<PathBuf> {
        self.0
            .iter()
            .map(|folder| folder.join(Path::new(plugin.as_str())))
            .find(|path| fs::metadata(path).is_ok_and(|meta| meta.is_file()))
    }
}
