//! The two formats before 1.0.0.

use std::net::IpAddr;

use crate::json::{Map, TypeError};
use crate::members::{Members, Node};
use crate::net::IpNet;
use crate::result::{
    CniResult, Dns, IP, IpConfig, ResultError, Route, TOP, document, read_ip, read_net, read_routes,
};
use crate::version::SpecVersion;
use crate::write::Object;

/// 0.1.0 and 0.2.0: one address per family, and its routes.
pub(crate) struct Blocks {
    ip4: Option<Block>,
    ip6: Option<Block>,
    dns: Dns,
    extra: Map,
}

struct Block {
    /// Not checked to be of the block's family.
    ip: IpNet,
    gateway: Option<IpAddr>,
    routes: Vec<Route>,
    extra: Map,
}

/// 0.3.0, 0.3.1 and 0.4.0: the lists of 1.x, each address with a family in words, which nobody checks.
pub(crate) struct Labelled {
    result: CniResult,
    labels: Vec<String>,
}

impl Blocks {
    pub(crate) fn read<'a, N: Node<'a>>(members: &Members<'a, '_, N>) -> Result<Self, ResultError> {
        Ok(Self {
            ip4: Block::read(members, "ip4")?,
            ip6: Block::read(members, "ip6")?,
            dns: Dns::read(members)?,
            extra: members.others(TOP),
        })
    }

    pub(crate) fn write(&self, version: SpecVersion) -> String {
        let mut text = String::new();
        let mut doc = document(&mut text, version);
        for (name, block) in [("ip4", &self.ip4), ("ip6", &self.ip6)] {
            if let Some(block) = block {
                doc.object(name, |object| block.write(object));
            }
        }
        self.dns.write(&mut doc, true);
        doc.others(&self.extra, TOP);
        doc.end();
        text
    }
}

impl Block {
    fn read<'a, N: Node<'a>>(members: &Members<'a, '_, N>, name: &str) -> Result<Option<Self>, ResultError> {
        let Some(members) = members.object(name)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            ip: read_net(&members, "ip")?,
            gateway: read_ip(&members, "gateway")?,
            routes: read_routes(&members)?,
            extra: members.others(IP),
        }))
    }

    fn write(&self, object: &mut Object<'_>) {
        object.net("ip", &self.ip);
        object.ip("gateway", self.gateway);
        object.list("routes", &self.routes, |out, route| route.write(out));
        object.others(&self.extra, IP);
    }
}

impl Labelled {
    pub(crate) fn read<'a, N: Node<'a>>(members: &Members<'a, '_, N>) -> Result<Self, ResultError> {
        let result = CniResult::read_lists(members, false)?;
        let labels = members.list("ips")?.enumerate();
        let labels = labels.map(|(i, ip)| {
            let ip = Members::of(ip, members.element("ips", i))?;
            Ok(ip.text("version")?.unwrap_or_default().to_owned())
        });
        Ok(Self { labels: labels.collect::<Result<_, TypeError>>()?, result })
    }

    pub(crate) fn write(&self, version: SpecVersion) -> Result<String, ResultError> {
        self.result.write(version, false, &self.labels)
    }

    /// The first address labelled 4 and the first labelled 6, whatever interface they are on; routes below the family
    /// of their destination, with destination and gateway only.
    pub(crate) fn into_blocks(self, target: SpecVersion) -> Result<Blocks, ResultError> {
        let CniResult { ips, routes, dns, extra, interfaces: _ } = self.result;
        let (mut ip4, mut ip6) = (None, None);
        for (ip, label) in ips.into_iter().zip(self.labels) {
            let place = match label.as_str() {
                "4" => &mut ip4,
                "6" => &mut ip6,
                _ => continue,
            };
            place.get_or_insert(Block {
                ip: ip.address,
                gateway: ip.gateway,
                routes: Vec::new(),
                extra: ip.extra,
            });
        }
        if ip4.is_none() && ip6.is_none() {
            return Err(ResultError::NoAddress { target });
        }
        for route in routes {
            let block = if route.dst.is_ipv4() { &mut ip4 } else { &mut ip6 };
            if let Some(block) = block {
                block.routes.push(Route { extra: route.extra, ..Route::new(route.dst, route.gw) });
            }
        }
        Ok(Blocks { ip4, ip6, dns, extra })
    }
}

impl From<Blocks> for Labelled {
    fn from(blocks: Blocks) -> Self {
        let mut result = CniResult { dns: blocks.dns, extra: blocks.extra, ..CniResult::default() };
        let mut labels = Vec::new();
        for (label, block) in [("4", blocks.ip4), ("6", blocks.ip6)] {
            if let Some(Block { ip, gateway, routes, extra }) = block {
                result.ips.push(IpConfig { address: ip, gateway, interface: None, extra });
                result.routes.extend(routes);
                labels.push(label.to_owned());
            }
        }
        Self { result, labels }
    }
}

impl From<CniResult> for Labelled {
    fn from(result: CniResult) -> Self {
        let label = |ip: &IpConfig| if ip.address.is_ipv4() { "4" } else { "6" }.to_owned();
        Self { labels: result.ips.iter().map(label).collect(), result }
    }
}

impl From<Labelled> for CniResult {
    fn from(labelled: Labelled) -> Self {
        labelled.result
    }
}
