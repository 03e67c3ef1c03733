//! A router that advertises itself.

use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use catena_routes::{Change, Entry, ErrorKind, Family, Journal, Route};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn6, sendto, setsockopt, socket,
    sockopt,
};

use super::pod::*;
use crate::routes::netns::Netns;

struct Router {
    netns: Netns,
    pod_address: Ipv6Addr,
    own_address: Ipv6Addr,
}

impl Router {
    /// Takes eth0's peer into a namespace of its own.
    fn beside(pod: &Pod) -> Router {
        let netns = new_netns();
        pod.sh(&format!("ip link set peer0 netns /proc/{}/fd/{}", std::process::id(), netns.raw_fd()));
        sh(
            &netns,
            "echo 0 > /proc/sys/net/ipv6/conf/peer0/accept_dad; ip link set lo up; ip link set peer0 up",
        );
        let address = |netns: &Netns, link: &str| -> Ipv6Addr {
            let script = format!(
                "ip -6 -o addr show dev {link} scope link -tentative | sed 's/.*inet6 //; s,/.*,,' | head -n 1"
            );
            for _ in 0..100 {
                if let Ok(address) = sh(netns, &script).trim().parse() {
                    return address;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            panic!("{link} has no link-local address");
        };
        let (pod_address, own_address) = (address(&pod.netns, "eth0"), address(&netns, "peer0"));
        Router { netns, pod_address, own_address }
    }

    /// One router advertisement (RFC 4861, section 4.2) of half an hour.
    fn advertise(&self) {
        let index: u32 = sh(
            &self.netns,
            "cat /sys/class/net/peer0/ifindex 2>/dev/null || ip -o link show peer0 | cut -d: -f1",
        )
        .trim()
        .parse()
        .unwrap();
        let mut packet = vec![134, 0, 0, 0, 64, 0];
        packet.extend(1800u16.to_be_bytes());
        packet.extend([0; 8]);
        let to = SockaddrIn6::from(SocketAddrV6::new(self.pod_address, 0, 0, index));
        self.netns
            .run(|| {
                let raw = SockProtocol::IcmpV6;
                let socket =
                    socket(AddressFamily::Inet6, SockType::Raw, SockFlag::SOCK_CLOEXEC, raw).unwrap();
                setsockopt(&socket, sockopt::Ipv6Ttl, &255).unwrap();
                sendto(socket.as_raw_fd(), &packet, &to, MsgFlags::empty()).unwrap();
            })
            .unwrap();
    }
}

/// The defaults after a while: as soon as there is one, or after all of it.
fn defaults_within(pod: &mut Pod, time: Duration) -> Vec<Route> {
    let start = Instant::now();
    loop {
        let defaults = pod.defaults(Family::V6);
        if !defaults.is_empty() || start.elapsed() > time {
            return defaults;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_default_from_an_advertisement_goes_and_stays_away() {
    let mut pod = Pod::new();
    let router = Router::beside(&pod);
    router.advertise();
    let learned = defaults_within(&mut pod, Duration::from_secs(5)).remove(0);
    assert!(learned.is_from_ra() && learned.expires.0.is_some(), "{learned:?}");
    assert_eq!(learned.hops[0].gateway, Some(router.own_address.into()));
    let before = pod.table();
    let scope = pod.only(pod.eth0);

    // Deleted alone it comes back with the next one.
    pod.kernel.apply(&scope, &[delete(&learned)], &mut Journal::new()).unwrap();
    assert_eq!(pod.defaults(Family::V6), []);
    router.advertise();
    assert_eq!(defaults_within(&mut pod, Duration::from_secs(5)).len(), 1);

    let ignore = Change::IgnoreRouterAdvertisements(pod.eth0);
    let mut journal = Journal::new();
    pod.kernel.apply(&scope, &[delete(&learned), ignore.clone()], &mut journal).unwrap();
    assert!(matches!(&journal.entries()[0], Entry::Sysctl(s) if s.before == "1" && s.after == "0"));
    for _ in 0..3 {
        router.advertise();
    }
    assert_eq!(defaults_within(&mut pod, Duration::from_millis(300)), []);

    let mut journal = Journal::from_json(&journal.to_json()).unwrap();
    let undo = pod.kernel.undo(&mut journal, Journal::start());
    assert!(undo.exact && undo.notes.len() == 1, "{undo:?}");
    assert_eq!(pod.table(), before);
    assert_eq!(pod.sh("cat /proc/sys/net/ipv6/conf/eth0/accept_ra_defrtr").trim(), "1");
    router.advertise();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(pod.defaults(Family::V6).len(), 1);
}

#[test]
fn a_learned_default_makes_way_for_a_configured_one() {
    let mut pod = Pod::new();
    let router = Router::beside(&pod);
    router.advertise();
    let learned = defaults_within(&mut pod, Duration::from_secs(5)).remove(0);
    let scope = pod.only(pod.eth0);
    // By another gateway and by the router itself: the same metric, the same place.
    for gateway in ["fd00::1".to_owned(), router.own_address.to_string()] {
        let wanted = default_via(&gateway, pod.eth0);
        let mut journal = Journal::new();
        let changes =
            [Change::IgnoreRouterAdvertisements(pod.eth0), delete(&learned), Change::Add(wanted.clone())];
        pod.kernel.apply(&scope, &changes, &mut journal).unwrap();
        router.advertise();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(pod.defaults(Family::V6), [wanted.to_route()]);
        let undo = pod.kernel.undo(&mut journal, Journal::start());
        assert!(undo.exact, "{undo:?}");
        assert_eq!(pod.defaults(Family::V6), std::slice::from_ref(&learned));
    }
}

#[test]
fn the_setting_is_written_for_the_pods_link_only() {
    let mut pod = Pod::new();
    let outside = std::fs::read_to_string("/proc/sys/net/ipv6/conf/default/accept_ra_defrtr").ok();
    let scope = pod.only(pod.net1);
    let mut journal = Journal::new();
    let value = |pod: &Pod, link: &str| {
        pod.sh(&format!("cat /proc/sys/net/ipv6/conf/{link}/accept_ra_defrtr")).trim().to_owned()
    };
    let failure =
        pod.kernel.apply(&scope, &[Change::IgnoreRouterAdvertisements(pod.eth0)], &mut journal).unwrap_err();
    assert_eq!(failure.errors[0].kind, ErrorKind::Denied);
    let ignore = [Change::IgnoreRouterAdvertisements(pod.net1)];
    pod.kernel.apply(&scope, &ignore, &mut journal).unwrap();
    assert_eq!((value(&pod, "net1"), value(&pod, "eth0")), ("0".to_owned(), "1".to_owned()));
    let again = pod.kernel.apply(&scope, &ignore, &mut journal).unwrap();
    assert!(again.notes[0].contains("already"), "{again:?}");
    assert_eq!(journal.entries().len(), 1);
    // A failing change of the same call takes the setting back as well.
    assert!(pod.kernel.undo(&mut journal, Journal::start()).exact);
    let changes = [ignore[0].clone(), Change::Add(default_via("fd77::1", pod.net1))];
    let failure = pod.kernel.apply(&scope, &changes, &mut journal).unwrap_err();
    assert!(failure.changed && failure.undo.exact, "{failure:?}");
    assert_eq!(value(&pod, "net1"), "1");
    // Somebody else's value stays.
    pod.kernel.apply(&scope, &ignore, &mut journal).unwrap();
    pod.sh("echo 2 > /proc/sys/net/ipv6/conf/net1/accept_ra_defrtr 2>/dev/null || :");
    let now = value(&pod, "net1");
    let undo = pod.kernel.undo(&mut journal, Journal::start());
    assert_eq!(value(&pod, "net1"), if now == "0" { "1".to_owned() } else { now });
    assert!(undo.exact);
    assert_eq!(std::fs::read_to_string("/proc/sys/net/ipv6/conf/default/accept_ra_defrtr").ok(), outside);
}
