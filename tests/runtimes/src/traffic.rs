//! Whether packets go the way that routes say.

use catena_tests::world::World;

/// An address that only default routes lead to.
pub const FAR: &str = "198.51.100.7";
/// The same for IPv6.
pub const FAR_V6: &str = "2001:db8::7";

/// Answers every TCP connection with the address that it came from.
const SERVER: &str = r#"
import socket
server = socket.create_server(("::", 8080), family=socket.AF_INET6, dualstack_ipv6=True)
print("ready", flush=True)
while True:
    connection, peer = server.accept()
    connection.sendall(peer[0].removeprefix("::ffff:").encode())
    connection.close()
"#;

const CLIENT: &str = r#"
import socket, sys
connection = socket.create_connection((sys.argv[1], 8080), timeout=5)
print(connection.recv(100).decode())
"#;

/// Starts the server on the host, which also has the far addresses.
pub fn serve(world: &World) {
    world.write("/srv/server.py", SERVER);
    world.write("/srv/client.py", CLIENT);
    world.sh(&format!(
        "ip addr add {FAR}/32 dev lo; ip addr add {FAR_V6}/128 dev lo\n\
         python3 /srv/server.py >/srv/server.out 2>/srv/server.err </dev/null &\n\
         until grep -q ready /srv/server.out; do sleep 0.05; done"
    ));
}

/// Ends the server, and takes the far addresses away.
pub fn end(world: &World) {
    world.sh(&format!("kill $(pidof python3); ip addr del {FAR}/32 dev lo; ip addr del {FAR_V6}/128 dev lo"));
}

/// Pings a host from a pod, connects to it, and tells which of the pod's addresses it has seen.
pub fn source(world: &World, netns: &str, to: &str) -> String {
    world.pod_sh(netns, &format!("ping -c 1 -W 5 {to} >/dev/null"));
    world.pod_sh(netns, &format!("python3 /srv/client.py {to}")).trim().to_owned()
}
