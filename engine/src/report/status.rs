//! The network status of a sandbox, as a file for other programs.

use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::inject;
use crate::node::{self, NodeError, OwnedDir};
use sha2::{Digest, Sha256};

/// The publication that the host collects over the attachments (the annotation of the de-facto standard).
pub const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";

/// Why a status file could not be written or removed.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// A file operation failed.
    #[error("network status: {operation} {path}: {source}; check the folder's owner, mode and free space")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Others could put something else in a file's place.
    #[error("network status: {0}")]
    Folder(#[from] NodeError),
}

/// The status file of one sandbox.
#[derive(Debug, Clone)]
pub struct StatusFile {
    path: PathBuf,
}

impl StatusFile {
    /// The file `<network>-<containerID>-<ifname>.json` in `folder`; a name that would be too long for a
    /// file system ends in a digest instead.
    pub fn new(folder: &Path, network: &str, container_id: &str, ifname: &str) -> StatusFile {
        let mut name = format!("{network}-{container_id}-{ifname}");
        if name.len() > 240 {
            name = Sha256::digest(name.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        }
        StatusFile { path: folder.join(name + ".json") }
    }

    /// Where it is, or would be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn error(&self, operation: &'static str, source: io::Error) -> StatusError {
        StatusError::Io { operation, path: self.path.clone(), source }
    }

    /// Writes the list, mode 0600, in one step.
    pub fn write(&self, list: &str) -> Result<(), StatusError> {
        inject::point("report/status");
        let folder = self.folder();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|source| self.error("create the folder of", source))?;
        OwnedDir::open(folder)?;
        let new = self.new_path();
        let written = node::temporary(&new)
            .and_then(|mut file| file.write_all(list.as_bytes()))
            .and_then(|()| std::fs::rename(&new, &self.path));
        written.map_err(|source| {
            // The error that counts is the first; a leftover goes with the sandbox.
            drop(std::fs::remove_file(&new));
            self.error("write", source)
        })
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// The file before it has its name.
    fn new_path(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".new");
        PathBuf::from(name)
    }

    /// Removes the file, if it is there, and what a killed [`StatusFile::write`] left.
    pub fn remove(&self) -> Result<(), StatusError> {
        OwnedDir::open(self.folder())?;
        for path in [&self.new_path(), &self.path] {
            match std::fs::remove_file(path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(self.error("remove", source));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_status_is_written_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let status = StatusFile::new(&folder.path().join("status"), "net", "c1", "eth0");
        status.write("[]").unwrap();
        status.write("[1]").unwrap();
        let path = folder.path().join("status/net-c1-eth0.json");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "[1]");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(folder.path().join("status/net-c1-eth0.json.new"), "[").unwrap();
        status.remove().unwrap();
        status.remove().unwrap();
        assert_eq!(std::fs::read_dir(folder.path().join("status")).unwrap().count(), 0);
    }
}
