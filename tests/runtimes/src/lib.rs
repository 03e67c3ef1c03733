//! Container runtimes in a world of their own, with catena at /opt/cni/bin/catena as on any node.

pub mod containerd;
pub mod cri;
pub mod podman;
pub mod traffic;

use catena_tests::world::World;

/// The image that pods and containers run.
pub const IMAGE: &str = "localhost/catena-test:latest";

/// Writes the image into a world and tells its path.
pub fn image(world: &World) -> &'static str {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/image.sh");
    let script = std::fs::read_to_string(script).unwrap_or_else(|error| panic!("{script}: {error}"));
    world.write("/srv/image.sh", script);
    world.sh(&format!("sh /srv/image.sh {IMAGE} /srv/image.tar /bin/sleep 100000"));
    "/srv/image.tar"
}
