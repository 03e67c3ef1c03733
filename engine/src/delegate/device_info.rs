//! The file in which a delegate describes the device that it has attached: the CNI plugin's file of the Network
//! Plumbing Working Group's Device Information Specification 1.1, section 4.2. A plugin that declares the capability
//! [`CAPABILITY`] gets its path in `runtimeConfig`.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use catena_cni::error::code;
use catena_cni::json;
use catena_cni::list::NetworkList;
use serde_json::Value;
use sha2::{Digest, Sha256};
use thiserror::Error;

/// The capability's name, and the member's in `runtimeConfig`.
pub const CAPABILITY: &str = "CNIDeviceInfoFile";

/// Bytes of a file: a device is described by a dozen short texts.
const LIMIT: u64 = 64 << 10;

/// Bytes of a file name, with room for a suffix below NAME_MAX.
const NAME: usize = 240;

/// Why the file could not be used.
#[derive(Debug, Error)]
pub enum DeviceInfoError {
    /// The file system said no.
    #[error("device information: {operation} {}: {cause}; check the folder's owner, mode and free space", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        cause: io::Error,
    },
    /// The delegate has written something else.
    #[error("device information: what the delegate has written to {} {cause}", path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
}

impl DeviceInfoError {
    /// The CNI error code.
    pub fn code(&self) -> u32 {
        match self {
            Self::Io { .. } => code::IO,
            Self::Bad { .. } => code::DELEGATE_OUTPUT,
        }
    }
}

/// The file of one attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfoFile {
    path: PathBuf,
}

impl DeviceInfoFile {
    /// The file for an attachment, if a plugin of its list declares the capability.
    pub fn wanted(
        folder: &Path,
        list: &NetworkList,
        container_id: &str,
        ifname: &str,
    ) -> Option<DeviceInfoFile> {
        if !list.plugins.iter().any(|plugin| plugin.capabilities().contains(&CAPABILITY)) {
            return None;
        }
        let mut name = format!("{}-{container_id}_{ifname}", list.name);
        if name.len() > NAME {
            name = Sha256::digest(name.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        }
        Some(DeviceInfoFile { path: folder.join(name) })
    }

    /// A file as the ledger names it.
    pub fn at(path: impl Into<PathBuf>) -> DeviceInfoFile {
        DeviceInfoFile { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes its folder, and removes what an earlier attachment may have left: the next is not described by it.
    pub fn prepare(&self) -> Result<(), DeviceInfoError> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        // Readable for all, as device plugins and other programs of the standard make it.
        let made = DirBuilder::new().recursive(true).mode(0o755).create(folder);
        made.map_err(|cause| self.io("create the folder of", cause))?;
        self.remove()
    }

    /// What a delegate has written; none if it has written nothing.
    pub fn read(&self) -> Result<Option<Value>, DeviceInfoError> {
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK | nix::libc::O_CLOEXEC)
            .open(&self.path);
        let file = match opened {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|cause| self.io("open", cause))?,
        };
        if !file.metadata().map_err(|cause| self.io("look at", cause))?.is_file() {
            return Err(self.bad("is no regular file"));
        }
        let mut bytes = Vec::new();
        file.take(LIMIT + 1).read_to_end(&mut bytes).map_err(|cause| self.io("read", cause))?;
        if bytes.len() as u64 > LIMIT {
            return Err(self.bad(format!("has more than {LIMIT} bytes")));
        }
        DeviceInfoFile::parse(&bytes).map(Some).map_err(|cause| self.bad(cause))
    }

    /// The description in a file's bytes, or what is wrong with them.
    pub fn parse(bytes: &[u8]) -> Result<Value, String> {
        match json::parse(bytes) {
            Ok(value @ Value::Object(_)) => Ok(value),
            Ok(_) => Err("is not a JSON object".to_owned()),
            Err(error) => Err(format!("is not JSON: {error}")),
        }
    }

    /// Removes it, if it is there.
    pub fn remove(&self) -> Result<(), DeviceInfoError> {
        match fs::remove_file(&self.path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(self.io("remove", cause)),
            _ => Ok(()),
        }
    }

    fn io(&self, operation: &'static str, cause: io::Error) -> DeviceInfoError {
        DeviceInfoError::Io { operation, path: self.path.clone(), cause }
    }

    fn bad(&self, cause: impl Into<String>) -> DeviceInfoError {
        DeviceInfoError::Bad { path: self.path.clone(), cause: cause.into() }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use serde_json::json;

    use super::*;

    fn list(capabilities: Value) -> NetworkList {
        let list = json!({"cniVersion": "1.0.0", "name": "blue", "plugins": [
            {"type": "first"}, {"type": "second", "capabilities": capabilities}
        ]});
        NetworkList::from_value(&list).unwrap()
    }

    #[test]
    fn only_a_plugin_that_declares_the_capability_gets_a_file() {
        let folder = Path::new("/d");
        let of = |capabilities| DeviceInfoFile::wanted(folder, &list(capabilities), "c1", "net1");
        assert_eq!(of(json!({CAPABILITY: true})).unwrap().path(), Path::new("/d/blue-c1_net1"));
        assert_eq!(of(json!({CAPABILITY: false})), None);
        assert_eq!(of(json!({"ips": true})), None);
        let long = DeviceInfoFile::wanted(folder, &list(json!({CAPABILITY: true})), &"c".repeat(300), "net1");
        assert_eq!(long.unwrap().path().file_name().unwrap().len(), 64);
    }

    #[test]
    fn what_is_there_is_read_within_bounds() {
        let folder = tempfile::tempdir().unwrap();
        let file = DeviceInfoFile::at(folder.path().join("a/b/blue-c1_net1"));
        file.prepare().unwrap();
        assert!(matches!(file.read(), Ok(None)));
        fs::write(file.path(), r#"{"type":"pci","version":"1.1.0"}"#).unwrap();
        assert_eq!(file.read().unwrap(), Some(json!({"type": "pci", "version": "1.1.0"})));
        let cases: [(&[u8], &str); 3] =
            [(b"[]", "not a JSON object"), (b"{", "not JSON"), (&[b' '; 70_000], "more than 65536 bytes")];
        for (content, part) in cases {
            fs::write(file.path(), content).unwrap();
            let error = file.read().unwrap_err();
            assert!(error.code() == 110 && error.to_string().contains(part), "{error}");
        }
        // The next attachment starts without it.
        file.prepare().unwrap();
        assert!(!file.path().exists());
        file.remove().unwrap();
    }

    #[test]
    fn only_a_regular_file_is_opened_for_long() {
        let folder = tempfile::tempdir().unwrap();
        let file = DeviceInfoFile::at(folder.path().join("x"));
        symlink("/etc/hostname", file.path()).unwrap();
        assert!(matches!(file.read(), Err(DeviceInfoError::Io { operation: "open", .. })));
        file.remove().unwrap();
        nix::unistd::mkfifo(file.path(), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(file.read().unwrap_err().to_string().contains("no regular file"));
        fs::remove_file(file.path()).unwrap();
        fs::create_dir(file.path()).unwrap();
        assert!(file.read().unwrap_err().to_string().contains("no regular file"));
        assert!(matches!(file.prepare(), Err(DeviceInfoError::Io { operation: "remove", .. })));
    }
}
