use serde::de::DeserializeOwned;

use crate::{Context, Error, json};

/// The CNI command that is being carried out (CNI specification, section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    Add,
    Check,
    Del,
}

/// How catena itself was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// catena runs delegates; [`Call::position`] counts attachments.
    Meta,
    /// catena is the last plugin of somebody else's list and works on its `prevResult`.
    Chained,
}

/// One call of a stage; `C` is its own configuration.
#[derive(Debug, Clone)]
pub struct Call<C> {
    pub command: Command,
    pub mode: Mode,
    /// CNI_CONTAINERID.
    pub container_id: String,
    /// The CNI network name of the attachment (in `arrange`: of catena's own config).
    pub network: String,
    /// The attachment's interface name (in `arrange`: CNI_IFNAME).
    pub ifname: String,
    /// Index of the attachment in the order of the config; 0 is the primary.
    pub position: u32,
    /// The pipeline entry's own `config`; read from `{}` where the entry has none.
    pub config: C,
    /// What is known about pod, attachment, requests, intent and tags.
    pub context: Context,
}

impl<C> Call<C> {
    /// The attachment as error texts name it: `net1 (network "blue")`.
    pub fn subject(&self) -> String {
        format!("{} (network {:?})", self.ifname, self.network)
    }
}

/// Reads a stage's own configuration from its JSON text.
pub(crate) fn read_config<C: DeserializeOwned>(text: &str) -> Result<C, Error> {
    let bad = |reason: String| Error::InvalidConfig(format!("config: {reason}"));
    let value = json::parse(text).map_err(|e| bad(e.to_string()))?;
    // serde would read a struct from a list as well.
    if !value.is_object() {
        return Err(bad("not a JSON object".to_owned()));
    }
    serde_json::from_value(value).map_err(|e| bad(e.to_string()))
}
