//! A network namespace as a pod has it.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use catena_routes::{Change, Family, Hop, Mode, Prefix, Request, Route, RouteSpec, Scope, Wire};

pub(super) use super::support::{ip, net};
use crate::routes::kernel::Kernel;
use crate::routes::netns::Netns;

/// eth0 (10.0.0.2/24, fd00::2/64) and net1 (10.1.0.2/24, fd01::2/64), with their peers in the same namespace.
pub(super) struct Pod {
    pub(super) netns: Netns,
    pub(super) kernel: Kernel,
    pub(super) eth0: u32,
    pub(super) net1: u32,
}

/// Stops a thread that watches this flag when it goes, a failed assertion included: a scope waits for its threads.
pub(super) struct Stopper<'a>(pub(super) &'a AtomicBool);

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A namespace that nobody else has.
pub(super) fn new_netns() -> Netns {
    let made = std::thread::spawn(|| {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)
            .expect("these tests make network namespaces, so they need root or `unshare -Urn`");
        Netns::current().expect("the new namespace opens")
    });
    made.join().expect("the thread that makes a namespace")
}

/// Runs a shell inside the namespace.
pub(super) fn sh(netns: &Netns, script: &str) -> String {
    let output = netns
        .run(|| Command::new("sh").arg("-ec").arg(script).output())
        .expect("the namespace can be entered")
        .expect("there is a shell");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(super) const LINKS: &str = "
    echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad
    ip link set lo up
    for i in 0 1; do
        n=eth0; [ $i = 1 ] && n=net1
        ip link add $n type veth peer name peer$i
        ip link set peer$i up; ip link set $n up
    done";

const ADDRESSES: &str = "
    for i in 0 1; do
        n=eth0; [ $i = 1 ] && n=net1
        ip addr add 10.$i.0.2/24 dev $n; ip -6 addr add fd0$i::2/64 dev $n nodad
    done";

/// The kernel adds link-local routes a little after a link is up, and the local route of an IPv6 address when its
/// worker gets to it.
const SETTLED: &str = "
    old=none
    for i in $(seq 100); do
        now=$(ip -6 route show table all)
        for address in $(ip -6 -o addr show | sed 's/.*inet6 //; s,/.*,,'); do
            case $now in *\"local $address \"*) ;; *) now=$now-without-$address ;; esac
        done
        case $now in *-without-*) ;; \"$old\") break ;; esac
        old=$now; sleep 0.05
    done";

impl Pod {
    pub(super) fn new() -> Pod {
        Pod::with(&format!("{LINKS}{ADDRESSES}"))
    }

    pub(super) fn with(script: &str) -> Pod {
        let netns = new_netns();
        sh(&netns, &format!("{script}\n{SETTLED}"));
        let mut kernel = Kernel::of(&netns);
        let mut index = |name: &str| kernel.find_link(name).unwrap().map_or(0, |link| link.index);
        let (eth0, net1) = (index("eth0"), index("net1"));
        Pod { netns, kernel, eth0, net1 }
    }

    pub(super) fn sh(&self, script: &str) -> String {
        sh(&self.netns, script)
    }

    pub(super) fn wire(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    pub(super) fn both(&self) -> Scope {
        Scope { links: vec![self.eth0, self.net1], tables: vec![254] }
    }

    pub(super) fn only(&self, link: u32) -> Scope {
        Scope { links: vec![link], tables: vec![254] }
    }

    pub(super) fn defaults(&mut self, family: Family) -> Vec<Route> {
        let routes = self.kernel.routes(family, 254).unwrap();
        routes.into_iter().filter(Route::is_default).collect()
    }

    /// All of the main table, as ip-route(8) would print it.
    pub(super) fn table(&mut self) -> Vec<String> {
        let names = self.kernel.links().unwrap();
        let name =
            |index: u32| names.iter().find(|l| l.index == index).map_or("?".into(), |l| l.name.clone());
        let mut lines = Vec::new();
        for family in Family::ALL {
            lines.extend(self.kernel.routes(family, 254).unwrap().iter().map(|route| route.text(&name)));
        }
        lines
    }

    /// Puts a route there without any of the operations.
    pub(super) fn force(&mut self, route: &Route, mode: Mode) {
        self.wire().send(&Request::add(route, mode)).unwrap();
    }
}

pub(super) fn default_via(gateway: &str, link: u32) -> RouteSpec {
    let gateway = ip(gateway);
    RouteSpec::new(Prefix::default_route(Family::of(gateway)), vec![Hop::via(gateway, link)])
}

pub(super) fn delete(route: &Route) -> Change {
    Change::Delete(route.to_spec())
}
