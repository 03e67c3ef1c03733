//! The pod's network namespace, as a command finds it.

use std::sync::Arc;

use catena_cni::error::code;
use nix::errno::Errno;

use crate::cni::CniError;
use crate::routes::netns::{Netns, NetnsError};

fn bad(error: &NetnsError) -> CniError {
    CniError::new(code::INVALID_NETNS, error.to_string())
}

/// Opens CNI_NETNS, which must be there and, unless allowed, not be our own.
pub fn open(path: &str, own_allowed: bool) -> Result<Arc<Netns>, CniError> {
    let netns = Netns::open(path).map_err(|error| bad(&error))?;
    refuse_own(&netns, own_allowed)?;
    Ok(Arc::new(netns))
}

/// Opens CNI_NETNS for DEL. One that has gone, or is our own, is none; the second value says why. One that is there
/// and cannot be entered is an error: what is in it would stay.
pub fn open_if_there(
    path: Option<&str>,
    own_allowed: bool,
) -> Result<(Option<Arc<Netns>>, Option<String>), CniError> {
    let Some(path) = path else { return Ok((None, None)) };
    match Netns::open(path) {
        Ok(netns) => Ok(unless_own(Arc::new(netns), own_allowed)),
        Err(error) if is_gone(&error) => Ok((None, Some(bad(&error).msg))),
        Err(error) => Err(bad(&error)),
    }
}

/// The namespace, for DEL. Our own is none, unless it is allowed; the second value says so.
pub fn unless_own(netns: Arc<Netns>, own_allowed: bool) -> (Option<Arc<Netns>>, Option<String>) {
    match refuse_own(&netns, own_allowed) {
        Ok(()) => (Some(netns), None),
        Err(error) => (None, Some(error.msg)),
    }
}

/// Whether there is no namespace, in contrast to one that we could not get at this time.
fn is_gone(error: &NetnsError) -> bool {
    match error {
        NetnsError::Missing { .. } | NetnsError::NotNamespace { .. } | NetnsError::NotNetwork { .. } => true,
        NetnsError::Open { source, .. } => !matches!(
            source.raw_os_error().map(Errno::from_raw),
            Some(Errno::EACCES | Errno::EPERM | Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::EIO)
        ),
        NetnsError::Permission { .. } | NetnsError::Enter { .. } | NetnsError::Thread { .. } => false,
    }
}

fn refuse_own(netns: &Netns, allowed: bool) -> Result<(), CniError> {
    if allowed || !is_own(netns)? {
        return Ok(());
    }
    Err(CniError::new(
        code::INVALID_NETNS,
        format!(
            "CNI_NETNS {} is catena's own network namespace, where nothing may be changed; \
             give the sandbox a namespace, or set CNI_NETNS_OVERRIDE=1 if you mean it",
            netns.path().display()
        ),
    ))
}

fn is_own(netns: &Netns) -> Result<bool, CniError> {
    let own = Netns::current().map_err(|error| bad(&error))?;
    Ok(netns.is(&own))
}
