//! What containerd makes of the result of its first network: the acceptance rule for an answer to that runtime.

use catena_cni::json::Value;
use catena_cni::result::{CniResult, ResultError};

/// The addresses that the sandbox gets, in their order: those of the interface called eth0, and those that name no
/// interface. containerd refuses the sandbox if there are none. Interfaces count by name, so it does not matter which
/// of two with one name an address points to. An error is a result that containerd refuses or crashes on.
pub(crate) fn eth0_addresses(doc: &Value) -> Result<Vec<String>, ResultError> {
    let (result, _) = CniResult::read(doc)?;
    let on_eth0 = result.ips.iter().filter(|ip| {
        ip.interface
            .and_then(|index| result.interfaces.get(index))
            .is_none_or(|interface| interface.name == "eth0")
    });
    Ok(on_eth0.map(|ip| ip.address.addr().to_string()).collect())
}
