use crate::routes::kernel::Kernel;
use crate::routes::netns::{Netns, NetnsError};

use super::pod::*;

#[test]
fn what_is_no_network_namespace_is_named() {
    let missing = Netns::open("/run/netns/there-is-none").unwrap_err();
    assert!(matches!(missing, NetnsError::Missing { .. }), "{missing}");
    for path in ["/dev/null", "/proc", "/proc/self/status"] {
        let other = Netns::open(path).unwrap_err();
        assert!(matches!(other, NetnsError::NotNamespace { .. }), "{other}");
    }
    for path in ["/proc/self/ns/mnt", "/proc/self/ns/uts"] {
        let other = Netns::open(path).unwrap_err();
        assert!(matches!(other, NetnsError::NotNetwork { .. }), "{other}");
    }
}

#[test]
fn the_calling_thread_stays_where_it_is() {
    let here = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    let before = here();
    let mut pod = Pod::new();
    let inside = pod.netns.run(here).unwrap();
    assert_ne!(inside, before);
    pod.kernel.links().unwrap();
    assert_eq!(here(), before);
    let threads = std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|task| std::fs::read_link(task.ok()?.path().join("ns/net")).ok());
    assert!(threads.into_iter().all(|ns| ns != inside), "a thread is left in the pod's namespace");
}

#[test]
fn the_same_namespace_is_known_again() {
    let pod = Pod::new();
    let other = new_netns();
    let again = pod.netns.run(|| Netns::current().unwrap()).unwrap();
    assert!(again.is(&pod.netns));
    assert!(!other.is(&pod.netns));
    assert!(!Netns::current().unwrap().is(&pod.netns));
}

#[test]
fn a_kernel_can_go_to_another_thread() {
    let pod = Pod::new();
    let mut kernel = pod.kernel;
    kernel.links().unwrap();
    let (links, fresh) = std::thread::spawn(move || {
        let links = kernel.links().unwrap();
        let mut fresh = Kernel::of(kernel.netns());
        (links, fresh.links().unwrap())
    })
    .join()
    .unwrap();
    assert_eq!(links, fresh);
}

#[test]
fn links_are_found_by_name_alternative_name_and_mac() {
    let mut pod = Pod::new();
    pod.sh("ip link set net1 address 02:00:00:00:00:11; ip link property add dev net1 altname short \
         altname an-alternative-name-longer-than-fifteen");
    for text in ["net1", "short", "an-alternative-name-longer-than-fifteen", "02:00:00:00:00:11"] {
        let link = pod.kernel.find_link(text).unwrap().unwrap();
        assert_eq!((link.index, link.name.as_str()), (pod.net1, "net1"), "{text}");
        assert_eq!(link.kind.as_deref(), Some("veth"));
        assert!(link.up && link.carrier && link.mtu == 1500);
        assert_eq!(link.alt_names, ["short", "an-alternative-name-longer-than-fifteen"]);
        let by_name = pod.kernel.link(text).unwrap();
        assert_eq!(by_name, (!text.contains(':')).then_some(link), "{text}");
    }
    // Of several links with one address it is the first.
    pod.sh("ip link set eth0 address 02:00:00:00:00:11");
    assert_eq!(
        pod.kernel.find_link("02:00:00:00:00:11").unwrap().map(|l| l.index),
        Some(pod.eth0.min(pod.net1))
    );
    for text in ["net2", "an-alternative-name-that-nobody-has", "02:00:00:00:00:99", ""] {
        assert_eq!(pod.kernel.find_link(text).unwrap(), None, "{text}");
        assert_eq!(pod.kernel.link(text).unwrap(), None, "{text}");
    }
}

#[test]
fn the_calling_thread_comes_back_from_a_panic() {
    let before = Netns::current().unwrap();
    let pod = Pod::new();
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        pod.netns.run(|| panic!("{}", Netns::current().unwrap().is(&pod.netns)))
    }));
    let payload = panic.unwrap_err();
    let text = crate::panic::text(&*payload);
    assert_eq!(text, "true", "it was inside");
    assert!(Netns::current().unwrap().is(&before));
}
