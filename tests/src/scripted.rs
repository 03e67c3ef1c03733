//! Configs for the scripted delegate (src/bin/scripted.rs) and its log of calls.

use serde_json::{Value, json};

use crate::conf::{self, Family, Stack};
use crate::world::World;

/// A config of the scripted delegate that does `script`.
pub fn conf(name: &str, script: Value) -> Value {
    json!({"cniVersion": conf::VERSION, "name": name, "type": "scripted", "script": script})
}

/// A delegate that answers ADD with `result` and makes nothing.
pub fn answers(name: &str, result: Value) -> Value {
    conf(name, json!({"ADD": {"result": result}}))
}

/// A delegate whose ADD answers this text.
pub fn prints(name: &str, text: &str) -> Value {
    let quoted = text.replace('\'', r"'\''");
    conf(name, json!({"ADD": {"sh": format!("printf '%s' '{quoted}'")}}))
}

/// A delegate whose ADD runs a shell script, which makes the answer too.
pub fn runs(name: &str, script: &str) -> Value {
    conf(name, json!({"ADD": {"sh": script}}))
}

/// A delegate like ptp in miniature: a veth pair with addresses of network `n` and, if asked for, default routes
/// via the other end. Fast, as it does not wait for duplicate address detection. Host 9 is the pod.
pub fn veth(name: &str, n: u8, stack: Stack, default_routes: bool) -> Value {
    let mut sh = veth_script(n, stack);
    let mut routes = Vec::new();
    if default_routes {
        for family in stack.families() {
            let gateway = conf::gateway(n, *family);
            sh += &format!(
                "nsenter --net=$CNI_NETNS ip {} route add default via {gateway} dev $CNI_IFNAME\n",
                family.option()
            );
            routes.push(json!({"dst": family.any(), "gw": gateway}));
        }
    }
    let result = veth_result(n, stack, &routes);
    conf(name, json!({"ADD": {"sh": sh, "result": result}, "DEL": {"sh": delete_script(n)}}))
}

/// The shell script that makes the link of [`veth`] with its addresses.
pub fn veth_script(n: u8, stack: Stack) -> String {
    let mut sh = format!(
        "ip link add sv{n} type veth peer name $CNI_IFNAME netns $CNI_NETNS 2>/dev/null || {{\n\
         ip link add sv{n} type veth peer name svtmp{n}\n\
         exec 9<$CNI_NETNS; ip link set svtmp{n} netns /proc/self/fd/9\n\
         nsenter --net=$CNI_NETNS ip link set svtmp{n} name $CNI_IFNAME; }}\n\
         ip link set sv{n} up\n\
         nsenter --net=$CNI_NETNS ip link set $CNI_IFNAME up\n"
    );
    for family in stack.families() {
        let length = if *family == Family::V4 { 24 } else { 64 };
        let no_dad = if *family == Family::V6 { "nodad" } else { "" };
        sh += &format!(
            "ip addr add {}/{length} dev sv{n} {no_dad}\n\
             nsenter --net=$CNI_NETNS ip addr add {}/{length} dev $CNI_IFNAME {no_dad}\n",
            conf::gateway(n, *family),
            conf::host(n, *family, 9),
        );
    }
    sh
}

/// The result that tells what [`veth`] made.
pub fn veth_result(n: u8, stack: Stack, routes: &[Value]) -> Value {
    let ips: Vec<Value> = stack
        .families()
        .iter()
        .map(|family| {
            let length = if *family == Family::V4 { 24 } else { 64 };
            json!({
                "address": format!("{}/{length}", conf::host(n, *family, 9)),
                "gateway": conf::gateway(n, *family), "interface": 0,
            })
        })
        .collect();
    json!({
        "cniVersion": conf::VERSION,
        "interfaces": [{"name": "$CNI_IFNAME", "sandbox": "$CNI_NETNS"}],
        "ips": ips, "routes": routes,
    })
}

/// The shell script that removes what [`veth_script`] made; fine when it is gone.
pub fn delete_script(n: u8) -> String {
    format!("if ip link show sv{n} >/dev/null 2>&1; then ip link del sv{n}; fi")
}

/// Changes what the delegate of this network does from now on, whatever config it gets.
pub fn change(world: &World, network: &str, script: &Value) {
    world.write(&format!("/run/scripted/{network}.json"), script.to_string());
}

/// All calls so far, without VERSION.
pub fn calls(world: &World) -> Vec<Value> {
    if !world.path("/run/scripted/calls.jsonl").exists() {
        return Vec::new();
    }
    world
        .read("/run/scripted/calls.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).expect("a logged call"))
        .collect()
}

/// The calls so far as `COMMAND network ifname`.
pub fn call_lines(world: &World) -> Vec<String> {
    calls(world)
        .iter()
        .map(|call| {
            format!(
                "{} {} {}",
                call["command"].as_str().unwrap_or_default(),
                call["stdin"]["name"].as_str().unwrap_or_default(),
                call["ifname"].as_str().unwrap_or_default()
            )
        })
        .collect()
}
