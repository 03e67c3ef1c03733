//! containerd with the kubelet's interface.

use std::time::{Duration, Instant};

use catena_tests::state::Traces;
use catena_tests::world::World;
use serde_json::{Value, json};

use crate::cri::Cri;
use crate::image;

const CONFIG: &str = r#"
version = 2
root = "/srv/containerd/root"
state = "/srv/containerd/state"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt"]
[grpc]
  address = "/srv/containerd/socket"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/catena-test:latest"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"
"#;

/// A node with containerd.
#[derive(Debug)]
pub struct Node {
    pub world: World,
    pub cri: Cri,
}

impl Node {
    /// Starts one whose pods have these networks.
    pub fn new(delegates: &Value) -> Node {
        let world = World::for_runtimes();
        // containerd has one folder for plugins.
        world.sh("cp /opt/cni/plugins/* /opt/cni/bin/; mkdir -p /srv/containerd /etc/cni/net.d; touch /etc/hosts /etc/resolv.conf");
        world.write("/srv/containerd/config.toml", CONFIG);
        let archive = image(&world);
        let node = Node { cri: Cri::new(&world.path("/srv/containerd/socket")), world };
        node.configure(delegates);
        node.start();
        node.world.sh(&format!("ctr -a /srv/containerd/socket -n k8s.io images import {archive}"));
        node
    }

    /// Writes the network config; containerd sees the change by itself.
    pub fn configure(&self, delegates: &Value) {
        let conf = json!({
            "cniVersion": "1.0.0", "name": "pods",
            "plugins": [{"type": "catena", "logFile": "/var/log/catena.log", "delegates": delegates}],
        });
        self.world.write("/etc/cni/net.d/.new", conf.to_string());
        self.world.sh("mv /etc/cni/net.d/.new /etc/cni/net.d/00-catena.conflist");
    }

    /// Starts the daemon and waits until it answers.
    pub fn start(&self) {
        self.world
            .sh("setsid containerd -c /srv/containerd/config.toml >>/srv/containerd/log 2>&1 </dev/null & \
             echo $! >/srv/containerd/pid");
        let start = Instant::now();
        while self.world.run("ctr", &["-a", "/srv/containerd/socket", "version"]).exit != Some(0) {
            assert!(start.elapsed() < Duration::from_secs(60), "{}", self.world.read("/srv/containerd/log"));
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Ends the daemon; pods go on.
    pub fn halt(&self) {
        self.world
            .sh("pid=$(cat /srv/containerd/pid); kill $pid; while [ -d /proc/$pid ]; do sleep 0.05; done");
    }

    /// Stops and removes a pod, as the kubelet does.
    pub fn end(&self, id: &str) {
        self.cri.stop(id).unwrap_or_else(|error| panic!("{error}"));
        self.cri.remove(id).unwrap_or_else(|error| panic!("{error}"));
    }

    /// What is on the host, without containerd's own.
    pub fn traces(&self) -> Traces {
        let all = Traces::of(&self.world, None).0;
        Traces(all.into_iter().filter(|line| !line.contains("containerd")).collect())
    }
}
