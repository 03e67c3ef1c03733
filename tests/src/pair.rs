//! A pod under catena beside a pod whose delegates run without it.

use serde_json::Value;

use crate::runtime::Pod;
use crate::state::Traces;
use crate::world::World;

/// A life of the twin: what the delegates alone make and leave.
#[derive(Debug)]
pub struct Twin {
    pub world: World,
    pub netns: String,
    /// The state before ADD.
    pub before: Traces,
    /// The state between ADD and DEL.
    pub during: Traces,
    /// The state after DEL.
    pub after: Traces,
    /// The delegates' results.
    pub results: Vec<Value>,
}

impl Twin {
    /// Runs ADD and DEL of these configs, each with its interface name, without catena. `keep` stops before DEL, and
    /// leaves `after` as `during`.
    pub fn live(delegates: &[(&str, &Value)], keep: bool) -> Twin {
        let world = World::without_catena();
        let pod = Pod::new(&world, "pod");
        let netns = pod.netns.clone();
        let named = |ifname: &str| Pod { ifname: ifname.to_owned(), ..pod.clone() };
        let before = Traces::of(&world, Some(&netns));
        let results: Vec<Value> =
            delegates.iter().map(|(ifname, conf)| named(ifname).add_list(conf)).collect();
        let during = Traces::of(&world, Some(&netns));
        if !keep {
            for ((ifname, conf), result) in delegates.iter().zip(&results).rev() {
                named(ifname).del_list(conf, Some(result));
            }
        }
        let after = Traces::of(&world, Some(&netns));
        Twin { world, netns, before, during, after, results }
    }
}
