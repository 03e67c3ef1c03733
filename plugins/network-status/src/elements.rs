//! The elements of one attachment.

use std::net::IpAddr;

use catena_sdk::cni::result::{CniResult, Dns, Interface};
use catena_sdk::cni::version::SpecVersion;
use catena_sdk::link::Link;
use catena_sdk::route::Route;
use catena_sdk::{Call, Error, Host};
use serde_json::{Map, Value, json};

/// What one element is about.
#[derive(Debug, Default)]
struct Element {
    interface: Option<String>,
    mac: Option<String>,
    mtu: Option<i64>,
    ips: Vec<IpAddr>,
}

/// One element for each interface in the sandbox, else one for the whole attachment. `defaults` are the
/// attachment's default routes in the kernel, the preferred first; `own_link` finds the link of its name.
pub(crate) fn elements<C>(
    call: &Call<C>,
    result: &CniResult,
    defaults: &[Route],
    own_link: impl FnOnce() -> Result<Option<Link>, Error>,
) -> Result<Vec<Value>, Error> {
    let sandboxed: Vec<(usize, &Interface)> =
        result.interfaces.iter().enumerate().filter(|(_, i)| in_sandbox(i)).collect();
    let mut elements = if result.interfaces.len() > 1 && !sandboxed.is_empty() {
        by_interface(result, &sandboxed)
    } else {
        let mut whole = sandboxed.first().map(|(_, i)| of_interface(i)).unwrap_or_default();
        whole.ips = result.ips.iter().map(|ip| ip.address.addr()).collect();
        vec![whole]
    };
    // Results before 0.3.0 have no interfaces; theirs is the one of the attachment.
    if let [only] = elements.as_mut_slice()
        && result.interfaces.is_empty()
        && !only.ips.is_empty()
        && is_before_interfaces(call.context.delegate_version.as_deref())
        && let Some(link) = own_link()?
    {
        only.mac = link.mac;
        only.interface = Some(link.name);
    }
    let default = call.context.primary.then(|| default_element(result, &sandboxed, elements.len()));
    let value = |(i, element)| to_value(call, element, default == Some(i), &result.dns, defaults);
    Ok(elements.into_iter().enumerate().map(value).collect())
}

/// The link of the attachment's name.
pub(crate) fn own_link<C>(call: &Call<C>, host: &Host) -> Result<Option<Link>, Error> {
    Ok(host.link(&call.ifname)?)
}

fn in_sandbox(interface: &Interface) -> bool {
    interface.sandbox.as_ref().is_some_and(|sandbox| !sandbox.is_empty())
}

fn is_before_interfaces(version: Option<&str>) -> bool {
    version.and_then(SpecVersion::from_text).is_some_and(|version| version < SpecVersion::V0_3_0)
}

fn of_interface(interface: &Interface) -> Element {
    Element {
        interface: Some(interface.name.clone()),
        mac: interface.mac.clone().filter(|mac| !mac.is_empty()),
        mtu: interface.mtu.filter(|mtu| *mtu > 0),
        ips: Vec::new(),
    }
}

/// An address that names no interface of the sandbox goes to the last one: none is lost.
fn by_interface(result: &CniResult, sandboxed: &[(usize, &Interface)]) -> Vec<Element> {
    let mut elements: Vec<Element> = sandboxed.iter().map(|(_, i)| of_interface(i)).collect();
    for ip in &result.ips {
        let own = sandboxed.iter().position(|(index, _)| ip.interface == Some(*index));
        let element = match own {
            Some(i) => elements.get_mut(i),
            None => elements.last_mut(),
        };
        if let Some(element) = element {
            element.ips.push(ip.address.addr());
        }
    }
    elements
}

/// Exactly one element of the primary is the default: that of the first address with a gateway, else the first.
fn default_element(result: &CniResult, sandboxed: &[(usize, &Interface)], elements: usize) -> usize {
    let index = result.ips.iter().filter(|ip| ip.gateway.is_some()).find_map(|ip| ip.interface);
    let element = sandboxed.iter().position(|(i, _)| Some(*i) == index);
    element.filter(|i| *i < elements).unwrap_or_default()
}

fn to_value<C>(call: &Call<C>, element: Element, default: bool, dns: &Dns, defaults: &[Route]) -> Value {
    let text = |addresses: &[IpAddr]| json!(addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>());
    let gateways = gateways(element.interface.as_deref(), defaults);
    let is_minimal = element.interface.is_none() && element.ips.is_empty();
    let dns = dns_value(dns);
    let mut value = Map::new();
    let mut put = |key: &str, member: Option<Value>| {
        if let Some(member) = member {
            value.insert(key.to_owned(), member);
        }
    };
    put("name", Some(json!(call.context.name)));
    put("interface", element.interface.map(Value::from));
    put("ips", (!element.ips.is_empty()).then(|| text(&element.ips)));
    put("mac", element.mac.map(Value::from));
    put("mtu", element.mtu.map(Value::from));
    put("default", Some(json!(default)));
    put("dns", (!is_minimal || !dns.is_empty()).then_some(Value::Object(dns)));
    put("device-info", call.context.device_info.clone());
    put("gateway", (!gateways.is_empty()).then(|| text(&gateways)));
    put("default-route", call.context.request.default_route.as_deref().map(text));
    Value::Object(value)
}

/// The gateways of the default routes over the interface, or of all of the attachment's.
fn gateways(interface: Option<&str>, defaults: &[Route]) -> Vec<IpAddr> {
    let mut gateways: Vec<IpAddr> = Vec::new();
    for hop in defaults.iter().flat_map(|route| &route.hops) {
        if interface.is_none_or(|name| name == hop.link)
            && let Some(gateway) = hop.gateway
            && !gateways.contains(&gateway)
        {
            gateways.push(gateway);
        }
    }
    gateways
}

fn dns_value(dns: &Dns) -> Map<String, Value> {
    let list = |list: &[String]| (!list.is_empty()).then(|| json!(list));
    let members = [
        ("nameservers", list(&dns.nameservers)),
        ("domain", dns.domain.as_ref().map(|domain| json!(domain))),
        ("search", list(&dns.search)),
        ("options", list(&dns.options)),
    ];
    members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}
