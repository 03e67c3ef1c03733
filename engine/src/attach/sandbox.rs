//! The pod's network namespace, as a command finds it.

use std::sync::Arc;

use catena_cni::error::code;

use crate::cni::CniError;
use crate::routes::netns::{Netns, NetnsError};

fn bad(error: &NetnsError) -> CniError {
    CniError::new(code::INVALID_NETNS, error.to_string())
}

/// Opens CNI_NETNS, which must be there and, unless allowed, not be our own.
pub fn open(path: &str, own_allowed: bool) -> Result<Arc<Netns>, CniError> {
    let netns = Netns::open(path).map_err(|error| bad(&error))?;
    if !own_allowed && is_own(&netns)? {
        return Err(CniError::new(
            code::INVALID_NETNS,
            format!(
                "CNI_NETNS {path} is catena's own network namespace, where nothing may be changed; \
                 give the sandbox a namespace, or set CNI_NETNS_OVERRIDE=1 if you mean it"
            ),
        ));
    }
    Ok(Arc::new(netns))
}

/// Opens CNI_NETNS for DEL. One that has gone, or is our own, is none; the second value says why.
pub fn open_if_there(path: Option<&str>, own_allowed: bool) -> (Option<Arc<Netns>>, Option<String>) {
    let Some(path) = path else { return (None, None) };
    match open(path, own_allowed) {
        Ok(netns) => (Some(netns), None),
        Err(error) => (None, Some(error.msg)),
    }
}

fn is_own(netns: &Netns) -> Result<bool, CniError> {
    let own = Netns::current().map_err(|error| bad(&error))?;
    Ok(netns.is(&own))
}
