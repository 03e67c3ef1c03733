//! Three attachments whose delegates make files, so that a fault can be put at each of them cheaply: the delegate of
//! network `netN` is the program `sN`, and what it makes for a container is the file /run/made/ID.netN.

use serde_json::{Value, json};

use crate::conf;
use crate::runtime::Pod;
use crate::scripted;
use crate::state::Traces;
use crate::world::{OWN_BIN, World};

/// Where faults put programs that are found before the others.
pub const FIRST_BIN: &str = "/opt/cni/first";

/// The positions of the three.
pub const POSITIONS: [usize; 3] = [0, 1, 2];

/// The network at a position.
pub fn network(position: usize) -> String {
    format!("net{position}")
}

/// The program at a position.
pub fn program(position: usize) -> String {
    format!("s{position}")
}

/// The interface at a position.
pub fn ifname(position: usize) -> String {
    if position == 0 { "eth0".to_owned() } else { format!("net{position}") }
}

/// What a delegate does when nothing is wrong.
pub fn script(position: usize) -> Value {
    let made = format!("/run/made/$CNI_CONTAINERID.{}", network(position));
    json!({
        "ADD": {
            "sh": format!("touch {made}"),
            "result": {"cniVersion": conf::VERSION, "ips": [{"address": format!("10.90.{position}.9/24")}]},
        },
        "CHECK": {"sh": format!("test -e {made}")},
        "DEL": {"sh": format!("rm -f {made}")},
    })
}

/// The config with all three.
pub fn config() -> Value {
    let delegates = POSITIONS.map(|position| {
        let mut conf = scripted::conf(&network(position), script(position));
        conf["type"] = json!(program(position));
        conf
    });
    conf::catena(json!(delegates))
}

/// A world with the programs.
pub fn world() -> World {
    let world = World::new();
    world.sh(&format!("mkdir -p /run/made {FIRST_BIN}"));
    for position in POSITIONS {
        world.sh(&format!("cp {OWN_BIN}/scripted {OWN_BIN}/{}", program(position)));
    }
    world
}

/// Writes the node's deadlines, in seconds.
pub fn set_deadlines(world: &World, delegate: u64, rollback: u64, call: u64) {
    let deadlines = json!({"delegateSeconds": delegate, "rollbackSeconds": rollback, "callSeconds": call});
    world.write("/etc/catena/node.json", json!({ "deadlines": deadlines }).to_string());
}

/// A pod that looks for programs in [`FIRST_BIN`] first.
pub fn pod<'w>(world: &'w World, name: &str) -> Pod<'w> {
    let pod = Pod::new(world, name);
    Pod { path: format!("{FIRST_BIN}:{}", pod.path), ..pod }
}

/// What delegates have made and not taken away, for all containers.
pub fn made(world: &World) -> Vec<String> {
    world.files("/run/made").into_keys().map(|path| path.replace("/run/made/", "")).collect()
}

/// Fails if anything of any pod is left.
pub fn nothing_left(world: &World, before: &Traces, netns: &str, when: &str) {
    assert_eq!(made(world), Vec::<String>::new(), "{when}");
    Traces::of(world, Some(netns)).same_as(before, when);
}
