use std::net::IpAddr;

use catena_sdk::cni::net::IpNet;
use catena_sdk::cni::result::{CniResult, Interface};
use catena_sdk::{Call, Error, Host};

/// The links of an attachment, by the kernel's names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Links {
    /// CNI_IFNAME's, else the first.
    main: String,
    all: Vec<String>,
    /// The subnets of the attachment's addresses, and the link that has each.
    subnets: Vec<(IpNet, String)>,
}

impl Links {
    /// The interfaces that the result reports in the sandbox; CNI_IFNAME where it reports none. One that the
    /// kernel does not have is an error: its routes could be anywhere. A device that never was a kernel link
    /// (it has a PCI address or a socket) can have no routes, which is enough where none shall be left.
    pub(crate) fn find<C>(
        call: &Call<C>,
        result: &CniResult,
        host: &Host,
        routes_wanted: bool,
    ) -> Result<Links, Error> {
        let reported: Vec<(Option<usize>, &str)> = result
            .interfaces
            .iter()
            .enumerate()
            .filter(|(_, i)| i.sandbox.as_ref().is_some_and(|sandbox| !sandbox.is_empty()))
            .map(|(index, i)| (Some(index), i.name.as_str()))
            .collect();
        let reported = if reported.is_empty() { vec![(None, call.ifname.as_str())] } else { reported };

        let mut names: Vec<(Option<usize>, String)> = Vec::new();
        for (index, name) in reported {
            let interface = index.and_then(|index| result.interfaces.get(index));
            match host.link(name)? {
                Some(link) => names.push((index, link.name)),
                None if !routes_wanted && interface.is_some_and(is_no_kernel_link) => {}
                None => {
                    let whose =
                        if interface.is_some() { "the delegate's result reports" } else { "expected" };
                    return Err(Error::failed(format!(
                        "cannot set the default routes of {}: the link {name:?} that {whose} does not exist in \
                         the pod",
                        call.subject()
                    )));
                }
            }
        }
        let all: Vec<String> = names.iter().map(|(_, name)| name.clone()).collect();
        let main = all.iter().find(|name| **name == call.ifname).or(all.first()).cloned().unwrap_or_default();
        let link_of = |interface: Option<usize>| match interface {
            // An address of an interface outside the sandbox says nothing about the pod's links.
            Some(_) => names.iter().find(|(index, _)| *index == interface).map(|(_, name)| name.clone()),
            None => Some(main.clone()),
        };
        let subnets =
            result.ips.iter().filter_map(|ip| Some((ip.address.masked(), link_of(ip.interface)?))).collect();
        Ok(Links { main, all, subnets })
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.all
    }

    pub(crate) fn has(&self, link: &str) -> bool {
        self.all.iter().any(|name| name == link)
    }

    /// The link on which a gateway is to be reached: the one with an address of its subnet, else the main one.
    pub(crate) fn towards(&self, gateway: IpAddr) -> &str {
        self.subnet(gateway).unwrap_or(&self.main)
    }

    /// The link with an address whose subnet holds the gateway.
    pub(crate) fn subnet(&self, gateway: IpAddr) -> Option<&str> {
        self.subnets.iter().find(|(net, _)| net.contains(gateway)).map(|(_, link)| link.as_str())
    }
}

fn is_no_kernel_link(interface: &Interface) -> bool {
    interface.pci_id.is_some() || interface.socket_path.is_some()
}
