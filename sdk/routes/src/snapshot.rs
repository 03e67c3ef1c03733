use std::collections::BTreeMap;

use crate::apply::{ACCEPT_RA_DEFRTR, DISABLE_IPV6};
use crate::context::plain;
use crate::{Family, Link, Route, RouteError, Wire};

/// The links, the routes of all tables and the settings of one namespace, as they were read. A
/// [`crate::SimulatedTable`] made from it takes changes instead of the namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The namespace's path, for messages.
    pub namespace: String,
    /// All links, in the kernel's order.
    pub links: Vec<Link>,
    /// IPv4 before IPv6, in the kernel's order.
    pub routes: Vec<Route>,
    /// Values of `net.ipv6.conf.LINK.KEY` by link and key, those that route changes read or write.
    pub sysctls: BTreeMap<(String, String), String>,
}

impl Snapshot {
    /// Reads all that there is; the first thing that cannot be read is the error.
    pub fn take(wire: &mut impl Wire) -> Result<Snapshot, RouteError> {
        let namespace = wire.namespace().to_owned();
        let links = wire.links().map_err(|failure| plain(&namespace, &failure, "links", None))?;
        let mut routes = Vec::new();
        for family in Family::ALL {
            let all = wire.dump(family, ALL_TABLES);
            routes.extend(all.map_err(|failure| plain(&namespace, &failure, "list", Some(family)))?);
        }
        let mut sysctls = BTreeMap::new();
        for link in &links {
            for key in [ACCEPT_RA_DEFRTR, DISABLE_IPV6] {
                let value = wire.sysctl(&link.name, key);
                let value =
                    value.map_err(|failure| plain(&namespace, &failure, "sysctl", Some(Family::V6)))?;
                if let Some(value) = value {
                    sysctls.insert((link.name.clone(), key.to_owned()), value.trim().to_owned());
                }
            }
        }
        Ok(Snapshot { namespace, links, routes, sysctls })
    }
}

/// RT_TABLE_UNSPEC: in a dump it stands for every table.
pub(crate) const ALL_TABLES: u32 = 0;
