//! libcni's result cache, in its own format: `<folder>/results/<network>-<container id>-<interface>`.
//!
//! Other programs read and write these files. Unlike libcni we write them by rename.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use catena_cni::args::CniArgs;
use catena_cni::json::{self, Map};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;

use super::atomic;
use super::exec::Attachment;
use crate::node::{NodeError, OwnedDir};

const KIND: &str = "cniCacheV1";

/// Why the cache could not be used.
#[derive(Debug, Error)]
pub enum CacheError {
    /// The file system said no.
    #[error("cache file {path} cannot be {operation}: {cause}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// Why it failed.
        #[source]
        cause: io::Error,
    },
    /// Not JSON, or not an object.
    #[error("cache file {path} is damaged: {cause}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// Others could put something else in a file's place.
    #[error("cache: {0}")]
    Folder(#[from] NodeError),
}

/// Where the result of an attachment is cached. `folder` is the `cniDir`.
pub fn path(folder: &Path, network: &str, container_id: &str, ifname: &str) -> PathBuf {
    folder.join("results").join(format!("{network}-{container_id}-{ifname}"))
}

/// A file of the cache.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cached<'a> {
    kind: &'static str,
    container_id: &'a str,
    /// The configuration list in base64.
    config: String,
    if_name: &'a str,
    network_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    netns: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cni_args: Vec<(&'a str, &'a str)>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    capability_args: &'a Map,
    result: &'a RawValue,
}

/// Caches `result` for the attachment. `list` is the text of the configuration list.
pub fn store(
    folder: &Path,
    network: &str,
    list: &[u8],
    at: &Attachment<'_>,
    result: &RawValue,
) -> Result<(), CacheError> {
    // Arguments that are no pairs never came from libcni, and it could not cache them either.
    let args = CniArgs::parse(at.args).ok();
    let entry = Cached {
        kind: KIND,
        container_id: at.container_id,
        config: base64(list),
        if_name: at.ifname,
        network_name: network,
        netns: at.netns.filter(|netns| !netns.is_empty()),
        cni_args: args.iter().flat_map(CniArgs::iter).collect(),
        capability_args: at.capability_args,
        result,
    };
    let path = path(folder, network, at.container_id, at.ifname);
    check(&path)?;
    serde_json::to_vec(&entry)
        .map_err(io::Error::from)
        .and_then(|text| atomic::write(&path, &temporary(&path), &text))
        .map_err(|cause| CacheError::Io { path, operation: "written", cause })
}

/// The cached result, in the version in which it was stored; `None` if there is no file.
///
/// Files of the old form hold nothing but the result. As in libcni, whatever is not of the known kind is read as that.
pub fn load(
    folder: &Path,
    network: &str,
    container_id: &str,
    ifname: &str,
) -> Result<Option<Value>, CacheError> {
    let path = path(folder, network, container_id, ifname);
    check(&path)?;
    let text = match atomic::read(&path, LIMIT + 1) {
        Ok(text) if text.len() as u64 <= LIMIT => text,
        Ok(_) => {
            let cause = format!("it is larger than {LIMIT} bytes, which no delegate's answer is");
            return Err(CacheError::Damaged { path, cause });
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename) => {
            return Ok(None);
        }
        Err(cause) => return Err(CacheError::Io { path, operation: "read", cause }),
    };
    match parse(&text) {
        Ok(result) => Ok(Some(result)),
        Err(cause) => Err(CacheError::Damaged { path, cause }),
    }
}

/// More than any file that we write: a config and a result of 4 MiB each, the one in base64.
const LIMIT: u64 = 16 << 20;

/// The result in the text of a cache file, or what is wrong with it.
pub fn parse(text: &[u8]) -> Result<Value, String> {
    let Value::Object(mut entry) = json::parse(text).map_err(|error| error.to_string())? else {
        return Err("it is not a JSON object".to_owned());
    };
    let mut result = if json::get(&entry, "kind").and_then(Value::as_str) == Some(KIND) {
        match json::get(&entry, "result") {
            Some(Value::Object(result)) => result.clone(),
            None | Some(Value::Null) => Map::new(),
            Some(_) => return Err("its result is not a JSON object".to_owned()),
        }
    } else {
        for member in [
            "kind",
            "containerId",
            "config",
            "ifName",
            "networkName",
            "netns",
            "cniArgs",
            "capabilityArgs",
            "result",
        ] {
            entry.remove(member);
        }
        entry
    };
    if json::get(&result, "cniVersion").is_none_or(|version| version.as_str() == Some("")) {
        result.insert("cniVersion".to_owned(), Value::from("0.1.0"));
    }
    Ok(Value::Object(result))
}

/// Removes the file and what a killed [`store`] left; that neither is there is no error.
pub fn remove(folder: &Path, network: &str, container_id: &str, ifname: &str) -> Result<(), CacheError> {
    let path = path(folder, network, container_id, ifname);
    check(&path)?;
    for path in [temporary(&path), path] {
        match fs::remove_file(&path) {
            // What no file system could name was never written.
            Err(cause)
                if !matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename) =>
            {
                return Err(CacheError::Io { path, operation: "removed", cause });
            }
            _ => {}
        }
    }
    Ok(())
}

/// The file's folder must be ours alone, or not be there.
fn check(path: &Path) -> Result<(), CacheError> {
    OwnedDir::open(path.parent().unwrap_or(Path::new("/")))?;
    Ok(())
}

/// One name per attachment, so that [`remove`] finds it; whoever writes holds the attachment's lock.
fn temporary(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    path.with_file_name(name)
}

/// RFC 4648, section 4, as Go marshals a byte slice.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for position in 0..4 {
            if position <= chunk.len() {
                let sextet = (group >> (18 - 6 * position)) & 63;
                text.push(char::from(ALPHABET[sextet as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn remove_takes_what_a_killed_store_left() {
        let folder = tempfile::tempdir().unwrap();
        let capability_args = Map::new();
        let at = Attachment {
            container_id: "c",
            ifname: "eth0",
            netns: None,
            args: "",
            capability_args: &capability_args,
        };
        let stored = serde_json::from_str(r#"{"cniVersion":"1.0.0"}"#).unwrap();
        store(folder.path(), "n", b"{}", &at, stored).unwrap();
        let results = folder.path().join("results");
        fs::write(results.join(".n-c-eth0"), "{").unwrap();
        let result = load(folder.path(), "n", "c", "eth0").unwrap().unwrap();
        assert_eq!(result.to_string(), r#"{"cniVersion":"1.0.0"}"#);
        remove(folder.path(), "n", "c", "eth0").unwrap();
        assert_eq!(fs::read_dir(results).unwrap().count(), 0);
        assert!(load(folder.path(), "n", "c", "eth0").unwrap().is_none());
        remove(folder.path(), "n", "c", "eth0").unwrap();
    }

    #[test]
    fn what_is_no_file_of_a_bounded_size_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let results = folder.path().join("results");
        fs::create_dir(&results).unwrap();
        let path = results.join("n-c-eth0");
        let refused = || load(folder.path(), "n", "c", "eth0").unwrap_err().to_string();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        assert!(refused().contains("cannot be read"), "{}", refused());
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(refused().contains("no regular file"), "{}", refused());
        fs::remove_file(&path).unwrap();
        File::create(&path).unwrap().set_len(LIMIT + 1).unwrap();
        assert!(refused().contains("larger than"), "{}", refused());
    }

    #[test]
    fn base64_pads_as_the_rfc_shows() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("\u{ff}\u{3fe}", "w7/Pvg=="),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
