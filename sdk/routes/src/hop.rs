use std::net::IpAddr;

/// One leg of a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop {
    /// None: the destination is on the link itself. An IPv4 route may have an IPv6 gateway (RTA_VIA).
    pub gateway: Option<IpAddr>,
    /// The interface index.
    pub link: u32,
    /// The kernel's value, which is one less than what ip-route(8) shows. 0 where the route has one hop.
    pub weight: u8,
    /// The gateway counts as reachable though no route says so (RTNH_F_ONLINK).
    pub onlink: bool,
}

impl Hop {
    /// A hop without a gateway.
    pub fn dev(link: u32) -> Hop {
        Hop { gateway: None, link, weight: 0, onlink: false }
    }

    /// A hop by a gateway, which a route must make reachable.
    pub fn via(gateway: IpAddr, link: u32) -> Hop {
        Hop { gateway: Some(gateway), link, weight: 0, onlink: false }
    }

    /// What names a hop within its route.
    pub(crate) fn name(&self) -> (Option<IpAddr>, u32) {
        (self.gateway, self.link)
    }
}
