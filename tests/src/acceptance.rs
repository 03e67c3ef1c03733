//! What each runtime needs of an answer to ADD, as code.

use catena_cni::json::{Value, has_null};
use catena_cni::net::parse_ip;
use catena_cni::result::{self, CniResult, Interface};
use catena_cni::version::SpecVersion;
use serde_json::json;

/// Who reads the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    /// containerd, and kubelet over it.
    Containerd,
    /// podman with its CNI backend.
    Podman,
    /// CRI-O, over ocicni.
    Crio,
    /// libcni alone, as in cnitool.
    Libcni,
}

impl Runtime {
    /// The addresses that the pod gets, in order, or why the runtime refuses the answer.
    pub fn addresses(self, answer: &Value, ifname: &str) -> Result<Vec<String>, String> {
        match self {
            Runtime::Containerd => {
                let addresses = eth0_addresses(answer).map_err(|error| error.to_string())?;
                if addresses.is_empty() {
                    return Err("no address is on eth0".to_owned());
                }
                Ok(addresses)
            }
            Runtime::Podman => sandbox_addresses(answer),
            Runtime::Crio => cached_addresses(&libcni_cache(answer, ifname)),
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
        if !is_mac(interface.mac.as_deref()) {
            return Err(format!("interface {} has the MAC {:?}", interface.name, interface.mac));
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

/// What libcni caches after an ADD that gave this answer, without the config.
pub fn libcni_cache(answer: &Value, ifname: &str) -> Value {
    json!({ "kind": "cniCacheV1", "ifName": ifname, "result": answer })
}

/// CRI-O: every address in the result that libcni has cached is the pod's, in order, whatever interface it is on.
pub fn cached_addresses(cache: &Value) -> Result<Vec<String>, String> {
    if cache["kind"] != "cniCacheV1" {
        return Err(format!("the cache is of the kind {}", cache["kind"]));
    }
    let (result, _) = CniResult::read(&cache["result"]).map_err(|error| error.to_string())?;
    Ok(result.ips.iter().map(|ip| ip.address.addr().to_string()).collect())
}

/// What the runtime asked for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// `cniVersion` of the request.
    pub version: &'a str,
    /// CNI_IFNAME.
    pub ifname: &'a str,
    /// CNI_NETNS.
    pub netns: &'a str,
}

/// What is safe for every runtime: the version that was asked for, no null; the interfaces of the host, if any, first,
/// and then the pod's, of the name and the sandbox that were asked for, with a MAC; all addresses on that one.
pub fn is_safe(answer: &Value, asked: &Asked<'_>) -> Result<(), String> {
    let Asked { version, ifname, netns } = *asked;
    if answer["cniVersion"] != version {
        return Err(format!("the answer is of version {}, asked for was {version}", answer["cniVersion"]));
    }
    if has_null(answer) {
        return Err("there is a null in the answer".to_owned());
    }
    let (result, _) = CniResult::read(answer).map_err(|error| error.to_string())?;
    if version < "0.3.0" {
        // There are only addresses in it.
        return Ok(());
    }
    let is_pods = |interface: &Interface| interface.sandbox.is_some();
    let Some(at) = result.interfaces.iter().position(is_pods) else {
        return Err("no interface is the pod's".to_owned());
    };
    let pods = &result.interfaces[at];
    if result.interfaces.len() > at + 1 {
        return Err("something follows the pod's interface".to_owned());
    }
    if result.interfaces[..at].iter().any(|interface| interface.name == ifname) {
        return Err(format!("an interface of the host is called {ifname}, too"));
    }
    if pods.name != ifname {
        return Err(format!("the pod's interface is called {}, not {ifname}", pods.name));
    }
    if pods.sandbox.as_deref() != Some(netns) {
        return Err(format!("the sandbox is {:?}, not {netns}", pods.sandbox));
    }
    if !is_mac(pods.mac.as_deref()) {
        return Err(format!("the MAC of {ifname} is {:?}", pods.mac));
    }
    match result.ips.iter().find(|ip| ip.interface != Some(at)) {
        Some(ip) => {
            Err(format!("the address {} is not on the pod's interface: {:?}", ip.address, ip.interface))
        }
        None => Ok(()),
    }
}

fn is_mac(text: Option<&str>) -> bool {
    let is_octet = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.is_some_and(|mac| mac.split(':').count() == 6 && mac.split(':').all(is_octet))
}

/// What an error of DEL must not say, since go-cni takes it for success then.
pub fn is_failed_del(message: &str) -> Result<(), String> {
    let lower = message.to_lowercase();
    match ["not found", "no such file or directory"].iter().find(|words| lower.contains(*words)) {
        Some(words) => Err(format!("go-cni would take this for success, because of {words:?}: {message}")),
        None => Ok(()),
    }
}
