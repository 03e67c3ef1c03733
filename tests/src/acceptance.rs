//! What each runtime needs of an answer to ADD, as code.

use catena_cni::json::Value;
use catena_cni::net::parse_ip;
use catena_cni::result::{self, CniResult};
use catena_cni::version::SpecVersion;

/// Who reads the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    /// containerd, and kubelet over it.
    Containerd,
    /// podman with its CNI backend.
    Podman,
    /// libcni alone, as in cnitool.
    Libcni,
}

impl Runtime {
    /// The addresses that the pod gets, in order, or why the runtime refuses the answer.
    pub fn addresses(self, answer: &Value, ifname: &str) -> Result<Vec<String>, String> {
        match self {
            Runtime::Containerd => eth0_addresses(answer).map_err(|error| error.to_string()),
            Runtime::Podman => sandbox_addresses(answer),
            Runtime::Libcni => {
                let (result, _) = CniResult::read(answer).map_err(|error| error.to_string())?;
                if result
                    .interfaces
                    .iter()
                    .any(|interface| interface.sandbox.is_some() && interface.name != ifname)
                {
                    return Err(format!("a sandbox interface is not called {ifname}"));
                }
                Ok(result.ips.iter().map(|ip| ip.address.addr().to_string()).collect())
            }
        }
    }
}

/// containerd: the addresses of the interface called eth0, and those that name no interface; it refuses the sandbox if
/// there are none. Interfaces count by name, so it does not matter which of two with one name an address points to. An
/// error is a result that containerd refuses or crashes on.
pub fn eth0_addresses(answer: &Value) -> Result<Vec<String>, result::ResultError> {
    let (result, _) = CniResult::read(answer)?;
    let on_eth0 = result.ips.iter().filter(|ip| {
        ip.interface
            .and_then(|index| result.interfaces.get(index))
            .is_none_or(|interface| interface.name == "eth0")
    });
    Ok(on_eth0.map(|ip| ip.address.addr().to_string()).collect())
}

/// podman: converts down to 0.4.0, takes the interfaces with a sandbox, of which each needs a MAC that can be parsed,
/// and only addresses that name one of them; name servers must be addresses.
fn sandbox_addresses(answer: &Value) -> Result<Vec<String>, String> {
    let down = result::convert(answer, SpecVersion::V0_4_0).map_err(|error| error.to_string())?;
    let (result, _) = CniResult::read(&down).map_err(|error| error.to_string())?;
    for interface in result.interfaces.iter().filter(|interface| interface.sandbox.is_some()) {
        let mac = interface.mac.as_deref().unwrap_or_default();
        let is_octet = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        if mac.split(':').count() != 6 || !mac.split(':').all(is_octet) {
            return Err(format!("interface {} has the MAC {mac:?}", interface.name));
        }
    }
    if let Some(server) = result.dns.nameservers.iter().find(|server| parse_ip(server).is_none()) {
        return Err(format!("the name server {server:?} is no address"));
    }
    let in_sandbox = result.ips.iter().filter(|ip| {
        let interface = ip.interface.and_then(|index| result.interfaces.get(index));
        interface.is_some_and(|interface| interface.sandbox.is_some())
    });
    Ok(in_sandbox.map(|ip| ip.address.addr().to_string()).collect())
}

/// What holds for every runtime: the version that was asked for, interfaces of the pod with a sandbox, no null and no
/// index that names nothing.
pub fn is_safe(answer: &Value, asked: &str) -> Result<(), String> {
    if answer["cniVersion"] != asked {
        return Err(format!("the answer is of version {}, asked for was {asked}", answer["cniVersion"]));
    }
    if has_null(answer) {
        return Err("there is a null in the answer".to_owned());
    }
    let (result, _) = CniResult::read(answer).map_err(|error| error.to_string())?;
    let interfaces = result.interfaces.len();
    match result.ips.iter().find_map(|ip| ip.interface.filter(|index| *index >= interfaces)) {
        Some(index) => Err(format!("the index {index} names none of {interfaces} interfaces")),
        None => Ok(()),
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(elements) => elements.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        _ => false,
    }
}

/// What an error of DEL must not say, since go-cni takes it for success then.
pub fn is_failed_del(message: &str) -> Result<(), String> {
    let lower = message.to_lowercase();
    match ["not found", "no such file or directory"].iter().find(|words| lower.contains(*words)) {
        Some(words) => Err(format!("go-cni would take this for success, because of {words:?}: {message}")),
        None => Ok(()),
    }
}
