//! A folder of network configurations, as libcni and containerd choose from it.

use std::collections::BTreeMap;

use crate::json::{self, JsonError};
use crate::list::{ListError, NetworkList, Plugin};
use crate::text::quoted;

/// The regular files of a configuration folder and of the folders in it, by their path relative to it
/// (`10-a.conflist`, `net/10-x.conf`). Their order is that of the bytes of their names.
#[derive(Debug, Clone, Default)]
pub struct ConfDir(BTreeMap<String, Vec<u8>>);

/// Why a folder gives no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfDirError {
    #[error("no network configuration files in the folder")]
    NoConfigs,
    #[error("no network named {0} in the folder")]
    NotFound(String),
    #[error("{file}: {error}")]
    File { file: String, error: ListError },
    /// Neither in the list nor in its drop-in folder.
    #[error("{file}: no plugins, neither in the list nor in the folder {folder}")]
    NoPlugins { file: String, folder: String },
}

impl ConfDir {
    pub fn new(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        Self(files.into_iter().collect())
    }

    /// The network of that name, as libcni and cnitool find it: the first `.conflist`, and only if none matches, the
    /// first `.conf` or `.json`. A broken file that is looked at before the match is the error.
    pub fn network(&self, name: &str) -> Result<NetworkList, ConfDirError> {
        for (file, text) in self.configs(&["conflist"]) {
            let list = self.read_list(file, text)?;
            if list.name == name {
                return Ok(list);
            }
        }
        for (file, text) in self.configs(&["conf", "json"]) {
            let list = read_single(file, text)?;
            if list.name == name {
                return Ok(list);
            }
        }
        match self.configs(&["conflist", "conf", "json"]).next() {
            Some(_) => Err(ConfDirError::NotFound(quoted(name))),
            None => Err(ConfDirError::NoConfigs),
        }
    }

    /// The first `max` networks (0: all) in the order of their file names, as containerd loads them for eth0, eth1 …
    pub fn first_networks(&self, max: usize) -> Result<Vec<NetworkList>, ConfDirError> {
        let configs = self.configs(&["conf", "conflist", "json"]);
        let networks: Result<Vec<_>, _> = configs
            .take(if max == 0 { usize::MAX } else { max })
            .map(|(file, text)| match file.ends_with(".conflist") {
                true => self.read_list(file, text),
                false => read_single(file, text),
            })
            .collect();
        networks.and_then(
            |networks| {
                if networks.is_empty() { Err(ConfDirError::NoConfigs) } else { Ok(networks) }
            },
        )
    }

    /// Files of the folder itself with one of these suffixes, which is what follows the last dot.
    fn configs(&self, suffixes: &[&str]) -> impl Iterator<Item = (&str, &[u8])> {
        let files = self.0.iter().map(|(file, text)| (file.as_str(), text.as_slice()));
        files.filter(move |(file, _)| !file.contains('/') && has_suffix(file, suffixes))
    }

    fn read_list(&self, file: &str, text: &[u8]) -> Result<NetworkList, ConfDirError> {
        let at = |file: &str| {
            let file = file.to_owned();
            move |error| ConfDirError::File { file, error }
        };
        let mut list = NetworkList::parse(text).map_err(at(file))?;
        if !list.load_only_inlined {
            let folder = format!("{}/", list.name);
            let inside = self.0.range(folder.clone()..).take_while(|(path, _)| path.starts_with(&folder));
            for (path, text) in inside {
                let name = path.get(folder.len()..).unwrap_or_default();
                if !name.contains('/') && has_suffix(name, &["conf"]) {
                    list.plugins
                        .push(parse(text).and_then(|doc| Plugin::from_value(&doc)).map_err(at(path))?);
                }
            }
        }
        if list.plugins.is_empty() {
            return Err(ConfDirError::NoPlugins { file: file.to_owned(), folder: quoted(&list.name) });
        }
        Ok(list)
    }
}

fn read_single(file: &str, text: &[u8]) -> Result<NetworkList, ConfDirError> {
    let list = parse(text).and_then(|doc| NetworkList::from_plugin(&doc));
    list.map_err(|error| ConfDirError::File { file: file.to_owned(), error })
}

fn parse(text: &[u8]) -> Result<json::Value, ListError> {
    json::parse(text).map_err(|error: JsonError| ListError::Json(error))
}

fn has_suffix(file: &str, suffixes: &[&str]) -> bool {
    file.rsplit_once('.').is_some_and(|(_, suffix)| suffixes.contains(&suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(files: &[(&str, &str)]) -> ConfDir {
        ConfDir::new(files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())))
    }

    #[test]
    fn a_list_needs_plugins_from_somewhere() {
        let error = dir(&[("a.conflist", r#"{"name":"n"}"#)]).network("n").expect_err("no plugins");
        assert_eq!(error.to_string(), "a.conflist: no plugins, neither in the list nor in the folder \"n\"");
        let inlined = r#"{"name":"n","loadOnlyInlinedPlugins":true,"plugins":[{"type":"a"}]}"#;
        let files =
            [("a.conflist", inlined), ("n/b.conf", r#"{"type":"b"}"#), ("n/c/d.conf", "{"), ("n0.conf", "{")];
        assert_eq!(dir(&files).network("n").map(|list| list.plugins.len()), Ok(1));
    }

    #[test]
    fn plugins_of_the_folder_are_not_part_of_the_list_document() {
        let text = r#"{"name":"n","plugins":[{"type":"a"}]}"#;
        let list = dir(&[("a.conflist", text), ("n/b.conf", r#"{"type":"b"}"#)]).network("n").expect("valid");
        assert_eq!((list.plugins.len(), list.to_value().to_string()), (2, text.to_owned()));
    }

    #[test]
    fn errors_name_the_file() {
        let error =
            dir(&[("a.conflist", r#"{"name":"n"}"#), ("n/b.conf", "{}")]).network("n").expect_err("no type");
        assert_eq!(
            error.to_string(),
            "n/b.conf: cannot read the network configuration: the document has no type"
        );
    }
}
