use std::net::IpAddr;

use catena_sdk::cni::net::IpNet;
use serde::{Deserialize, Deserializer};

/// The `config` of the pipeline entry.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// All routes of the interface go, except those that the kernel made for its addresses.
    pub flushroutes: bool,
    /// Its default routes go.
    pub flushgateway: bool,
    /// These go; without `gw` whatever their gateway is.
    pub delroutes: Vec<Wanted>,
    /// These come.
    pub addroutes: Vec<Wanted>,
}

/// A route by destination and gateway.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    #[serde(deserialize_with = "prefix")]
    pub dst: IpNet,
    #[serde(default)]
    pub gw: Option<IpAddr>,
}

fn prefix<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IpNet, D::Error> {
    let text = String::deserialize(deserializer)?;
    IpNet::parse(&text).map_err(serde::de::Error::custom)
}
