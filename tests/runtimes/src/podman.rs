//! podman with its CNI backend.

use catena_tests::world::{Output, World};
use serde_json::{Value, json};

use crate::image;

const CONTAINERS: &str = r#"
[containers]
default_sysctls = []
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "runc"
[network]
network_backend = "cni"
cni_plugin_dirs = ["/opt/cni/bin"]
network_config_dir = "/etc/cni/net.d"
default_network = "first"
"#;

const STORAGE: &str = r#"
[storage]
driver = "overlay"
graphroot = "/srv/podman/root"
runroot = "/srv/podman/run"
"#;

/// A machine with podman.
#[derive(Debug)]
pub struct Host {
    pub world: World,
}

impl Host {
    /// Sets one up with these networks, each a list with catena in it.
    pub fn new(networks: &[Value]) -> Host {
        let world = World::for_runtimes();
        world.sh("cp /opt/cni/plugins/* /opt/cni/bin/; mkdir -p /srv/podman /etc/cni/net.d /etc/containers");
        world.write("/etc/containers/containers.conf", CONTAINERS);
        world.write("/etc/containers/storage.conf", STORAGE);
        world.write("/etc/containers/policy.json", r#"{"default":[{"type":"insecureAcceptAnything"}]}"#);
        for network in networks {
            let name = network["name"].as_str().expect("a network's name");
            world.write(&format!("/etc/cni/net.d/{name}.conflist"), network.to_string());
        }
        let archive = image(&world);
        let host = Host { world };
        host.must(&["load", "-i", archive]);
        host
    }

    /// Runs podman.
    pub fn podman(&self, args: &[&str]) -> Output {
        self.world.run("podman", args)
    }

    /// Runs podman, which must succeed; its stdout.
    pub fn must(&self, args: &[&str]) -> String {
        let output = self.podman(args);
        assert!(output.exit == Some(0), "podman {args:?}: {}{}", output.stdout, output.stderr);
        output.stdout
    }
}

/// A network of podman whose only plugin is catena.
pub fn network(name: &str, delegates: Value) -> Value {
    json!({
        "cniVersion": "1.0.0", "name": name, "plugins": [{"type": "catena", "delegates": delegates}],
    })
}
