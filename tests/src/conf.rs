//! Configs of the reference plugins and of catena around them. Network number N has the subnets 10.90.N.0/24 and
//! fd00:90:N::/64 with the gateways 10.90.N.1 and fd00:90:N::1.

use serde_json::{Value, json};

/// The version that most tests ask for: the newest that Debian's plugins know.
pub const VERSION: &str = "1.0.0";

/// Which families a network has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stack {
    V4,
    V6,
    Dual,
}

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

impl Stack {
    /// All of them.
    pub const ALL: [Stack; 3] = [Stack::V4, Stack::V6, Stack::Dual];

    /// Its families.
    pub fn families(self) -> &'static [Family] {
        match self {
            Stack::V4 => &[Family::V4],
            Stack::V6 => &[Family::V6],
            Stack::Dual => &[Family::V4, Family::V6],
        }
    }
}

impl Family {
    /// Both.
    pub const ALL: [Family; 2] = [Family::V4, Family::V6];

    /// The option of ip(8).
    pub fn option(self) -> &'static str {
        match self {
            Family::V4 => "-4",
            Family::V6 => "-6",
        }
    }

    /// The name in catena's configs.
    pub fn name(self) -> &'static str {
        match self {
            Family::V4 => "ipv4",
            Family::V6 => "ipv6",
        }
    }

    /// The other one.
    pub fn other(self) -> Family {
        match self {
            Family::V4 => Family::V6,
            Family::V6 => Family::V4,
        }
    }

    /// The default route's destination in a result.
    pub fn any(self) -> &'static str {
        match self {
            Family::V4 => "0.0.0.0/0",
            Family::V6 => "::/0",
        }
    }

    /// The metric of a first default route.
    pub fn metric(self) -> u64 {
        match self {
            Family::V4 => 0,
            Family::V6 => 1024,
        }
    }

    /// Whether the text is an address or prefix of this family.
    pub fn owns(self, address: &str) -> bool {
        (self == Family::V6) == address.contains(':')
    }
}

/// The gateway of network `n`.
pub fn gateway(n: u8, family: Family) -> String {
    host(n, family, 1)
}

/// Host `last` of network `n`.
pub fn host(n: u8, family: Family, last: u8) -> String {
    match family {
        Family::V4 => format!("10.90.{n}.{last}"),
        Family::V6 => format!("fd00:90:{n}::{last:x}"),
    }
}

/// The subnet of network `n`.
pub fn subnet(n: u8, family: Family) -> String {
    match family {
        Family::V4 => format!("10.90.{n}.0/24"),
        Family::V6 => format!("fd00:90:{n}::/64"),
    }
}

/// host-local on the subnets of network `n`, with default routes or without routes.
pub fn host_local(n: u8, stack: Stack, default_routes: bool) -> Value {
    let families = stack.families();
    let ranges: Vec<Value> = families.iter().map(|family| json!([{"subnet": subnet(n, *family)}])).collect();
    let mut ipam = json!({"type": "host-local", "ranges": ranges});
    if default_routes {
        let routes: Vec<Value> = families.iter().map(|family| json!({"dst": family.any()})).collect();
        ipam["routes"] = json!(routes);
    }
    ipam
}

/// ptp with default routes.
pub fn ptp(n: u8, stack: Stack) -> Value {
    json!({
        "cniVersion": VERSION, "name": format!("ptp{n}"), "type": "ptp",
        "ipam": host_local(n, stack, true),
    })
}

/// bridge as a gateway, without default routes.
pub fn bridge(n: u8, stack: Stack) -> Value {
    json!({
        "cniVersion": VERSION, "name": format!("bridge{n}"), "type": "bridge", "bridge": format!("br{n}"),
        "isGateway": true, "ipam": host_local(n, stack, false),
    })
}

/// bridge as a gateway, with default routes.
pub fn bridge_with_default(n: u8, stack: Stack) -> Value {
    let mut conf = bridge(n, stack);
    conf["ipam"] = host_local(n, stack, true);
    conf
}

/// A list of bridge and tuning.
pub fn bridge_and_tuning(n: u8, stack: Stack) -> Value {
    let mut first = bridge_with_default(n, stack);
    let object = first.as_object_mut().expect("a config object");
    object.remove("name");
    object.remove("cniVersion");
    json!({
        "cniVersion": VERSION, "name": format!("list{n}"),
        "plugins": [first, {"type": "tuning", "sysctl": {"net.core.somaxconn": "500"}}],
    })
}

/// catena around these delegates.
pub fn catena(delegates: Value) -> Value {
    json!({"cniVersion": VERSION, "name": "outer", "type": "catena", "delegates": delegates})
}

/// An attachment object that asks for the default route.
pub fn asking(conf: &Value, gateways: &[&str]) -> Value {
    json!({"config": conf, "default-route": gateways})
}

/// catena's default pipeline with a config for the default-gateway stage.
pub fn pipeline(default_gateway: Value) -> Value {
    json!([
        {"stage": "result-conversion"}, {"stage": "empty-result"},
        {"stage": "default-gateway", "unless": ["empty"], "config": default_gateway},
        {"stage": "network-status"},
    ])
}
