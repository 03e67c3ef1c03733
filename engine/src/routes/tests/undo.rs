//! The journal as the ledger keeps it, and undoing when something has gone meanwhile.

use catena_routes::{Change, Entry, Family, Hop, Journal, Mode, Route, RouteSpec};

use super::pod::*;
use crate::routes::kernel::Kernel;
use crate::routes::netns::Netns;

/// The journal after it was written and read by another process.
fn reread(journal: &Journal) -> Journal {
    let text = serde_json::to_string(&journal.to_json()).unwrap();
    Journal::from_json(&serde_json::from_str(&text).unwrap()).unwrap()
}

fn swap(pod: &mut Pod, family: Family, journal: &mut Journal) {
    let new = default_via(if family == Family::V4 { "10.1.0.1" } else { "fd01::1" }, pod.net1);
    let old = pod.defaults(family).remove(0);
    let scope = pod.both();
    pod.kernel.apply(&scope, &[Change::Add(new), delete(&old)], journal).unwrap();
}

fn pod() -> Pod {
    let pod = Pod::new();
    pod.sh("ip route add default via 10.0.0.1; ip -6 route add default via fd00::1");
    pod
}

#[test]
fn another_process_undoes_by_the_ledger() {
    let mut pod = pod();
    let before = pod.table();
    let mut journal = Journal::new();
    swap(&mut pod, Family::V4, &mut journal);
    swap(&mut pod, Family::V6, &mut journal);
    assert_ne!(pod.table(), before);
    let mut journal = reread(&journal);
    let mut kernel = Kernel::of(&pod.netns);
    let undo = kernel.undo(&mut journal, Journal::start());
    assert!(undo.exact && undo.errors.is_empty() && journal.is_empty(), "{undo:?}");
    assert_eq!(pod.table(), before);
    // Once more is nothing.
    assert!(kernel.undo(&mut journal, Journal::start()).exact);
}

#[test]
fn a_part_goes_back_and_later_the_rest() {
    let mut pod = pod();
    let before = pod.table();
    let mut all = Journal::new();
    swap(&mut pod, Family::V4, &mut all);
    let after_first = pod.table();
    let mark = all.mark();
    swap(&mut pod, Family::V6, &mut all);
    let mut stage = all.take_from(mark);
    assert!(pod.kernel.undo(&mut stage, Journal::start()).exact);
    assert_eq!(pod.table(), after_first);
    let mut later = Journal::new();
    swap(&mut pod, Family::V6, &mut later);
    all.append(later);
    let mark = Journal::start();
    assert!(pod.kernel.undo(&mut all, mark).exact);
    assert_eq!(pod.table(), before);
}

#[test]
fn what_somebody_else_did_meanwhile_stays() {
    let mut pod = pod();
    let mut journal = Journal::new();
    swap(&mut pod, Family::V4, &mut journal);
    pod.sh("ip route add default via 10.0.0.254 metric 77; ip route add 192.0.2.0/24 via 10.1.0.254");
    let undo = pod.kernel.undo(&mut journal, Journal::start());
    assert!(undo.exact, "{undo:?}");
    let table = pod.table().join("\n");
    for line in [
        "default via 10.0.0.1 dev eth0",
        "via 10.0.0.254 dev eth0 proto boot metric 77",
        "192.0.2.0/24 via 10.1.0.254",
    ] {
        assert!(table.contains(line), "{table}");
    }
    assert!(!table.contains("default via 10.1.0.1"), "{table}");
}

#[test]
fn a_link_that_has_gone_is_a_note() {
    let mut pod = pod();
    let mut journal = Journal::new();
    swap(&mut pod, Family::V4, &mut journal);
    let mut journal = reread(&journal);
    pod.sh("ip link del eth0");
    let undo = pod.kernel.undo(&mut journal, Journal::start());
    assert!(undo.exact && undo.errors.is_empty(), "{undo:?}");
    assert_eq!(undo.notes.len(), 1);
    assert!(undo.notes[0].starts_with("the link eth0 (index "), "{undo:?}");
    assert_eq!(pod.defaults(Family::V4), []);
}

#[test]
fn a_namespace_whose_name_has_gone_can_still_be_undone() {
    let mut pod = pod();
    let before = pod.table();
    // As `ip netns del` leaves it: the name is gone, the descriptor is not.
    let folder = std::env::temp_dir().join(format!("catena-netns-{}", std::process::id()));
    std::fs::write(&folder, "").unwrap();
    let task = std::path::PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), pod.netns.raw_fd()));
    let linked = folder.with_extension("link");
    std::os::unix::fs::symlink(&task, &linked).unwrap();
    let netns = Netns::open(&linked).unwrap();
    std::fs::remove_file(&linked).unwrap();
    std::fs::remove_file(&folder).unwrap();
    assert!(netns.is(&pod.netns));
    let mut kernel = Kernel::of(&netns);
    let mut journal = Journal::new();
    swap(&mut pod, Family::V4, &mut journal);
    assert!(kernel.undo(&mut journal, Journal::start()).exact);
    assert_eq!(pod.table(), before);
    assert!(Netns::open(&linked).is_err());
}

#[test]
fn a_gap_of_rights_leaves_the_journal_whole() {
    let mut pod = pod();
    let mut journal = Journal::new();
    swap(&mut pod, Family::V4, &mut journal);
    pod.sh("ip link set eth0 down");
    let undo = pod.kernel.undo(&mut journal, Journal::start());
    assert!(!undo.exact && !undo.errors.is_empty(), "{undo:?}");
    assert!(
        undo.leftover.iter().any(|line| line.contains("missing: default via 10.0.0.1 dev eth0")),
        "{undo:?}"
    );
    assert!(!journal.is_empty());
    pod.sh("ip link set eth0 up; ip addr add 10.0.0.2/24 dev eth0 2>/dev/null || :");
    let undo = pod.kernel.undo(&mut journal, Journal::start());
    assert!(undo.exact && journal.is_empty(), "{undo:?}");
    assert!(pod.table()[0].starts_with("default via 10.0.0.1 dev eth0"));
}

#[test]
fn all_that_a_route_has_comes_back() {
    let mut pod = Pod::new();
    pod.sh(
        "ip route add default via 10.0.0.1 mtu lock 1400 advmss 1300 hoplimit 33 initcwnd 20 quickack 1 proto 77 src 10.0.0.2
         ip route add 192.0.2.0/24 via inet6 fe80::1 dev eth0 realm 5 metric 3
         ip route add 192.0.3.0/24 via 10.9.9.9 dev eth0 onlink tos 0x10 congctl reno
         ip route add 192.0.4.0/24 nexthop via 10.0.0.1 weight 3 nexthop via 10.9.9.9 dev net1 weight 7 onlink
         ip -6 route add default via fd00::1 mtu 1400 hoplimit 33 proto 77 src fd00::2 pref high
         ip -6 route add fd77::/64 from fd00::/64 via fe80::1 dev eth0 || ip -6 route add fd77::/64 via fe80::1 dev eth0
         ip -6 route add fd78::/64 via fd00::1 expires 1000
         ip nexthop add id 5 via 10.0.0.1 dev eth0; ip route add 192.0.5.0/24 nhid 5
         ip nexthop add id 6 via fd00::1 dev eth0; ip -6 route add fd79::/64 nhid 6",
    );
    let details = |pod: &Pod| -> Vec<String> {
        let text = pod.sh("ip -d route show table main; ip -d -6 route show table main");
        let mut lines: Vec<String> = Vec::new();
        for line in text.lines() {
            let line = line.split(" expires ").next().unwrap().trim_end();
            lines.push(line.to_owned());
        }
        lines
    };
    let before = details(&pod);
    let mut scope = pod.both();
    scope.links.push(0);
    let mut all = Vec::new();
    for family in Family::ALL {
        all.extend(pod.kernel.routes(family, 254).unwrap().into_iter().filter(|r| !r.is_kernels()));
    }
    assert_eq!(all.len(), 9);
    let mut journal = Journal::new();
    let changes: Vec<Change> = all.iter().map(delete).collect();
    pod.kernel.apply(&scope, &changes, &mut journal).unwrap();
    let mut journal = reread(&journal);
    let undo = pod.kernel.undo(&mut journal, Journal::start());
    assert!(undo.exact, "{undo:#?}");
    let (mut after, mut wanted) = (details(&pod), before);
    after.sort();
    wanted.sort();
    assert_eq!(after, wanted);
}

#[test]
fn what_could_not_come_back_is_not_taken_away() {
    let mut pod = Pod::new();
    let taken = pod.sh(
        "ip route add 192.0.2.0/24 nexthop encap ip id 1 dst 10.0.0.9 via 10.0.0.1 nexthop via 10.1.0.1 2>/dev/null && echo yes || :",
    );
    if taken.trim() != "yes" {
        // This kernel has no lightweight tunnels, so such a route cannot be.
        return;
    }
    let route = pod
        .kernel
        .routes(Family::V4, 254)
        .unwrap()
        .into_iter()
        .find(|r| r.dst == net("192.0.2.0/24"))
        .unwrap();
    let scope = pod.both();
    let failure = pod.kernel.apply(&scope, &[delete(&route)], &mut Journal::new()).unwrap_err();
    assert!(failure.errors[0].to_string().contains("could not be put back"), "{}", failure.errors[0]);
}

#[test]
fn the_journal_says_what_was_done() {
    let mut pod = pod();
    let mut journal = Journal::new();
    swap(&mut pod, Family::V4, &mut journal);
    assert_eq!(
        journal.describe(),
        ["+ default via 10.1.0.1 dev net1 proto static", "- default via 10.0.0.1 dev eth0 proto boot"]
            .map(str::to_owned)
    );
    assert!(journal.entries().iter().all(|entry| matches!(entry, Entry::Route(_))));
    let mut beside = Route::new(net("::/0"), vec![Hop::via(ip("fd00::9"), pod.eth0)]);
    beside.protocol = 3;
    pod.force(&beside, Mode::Append);
    let scope = pod.only(pod.eth0);
    let leg = RouteSpec::new(beside.dst, beside.hops.clone());
    pod.kernel.apply(&scope, &[Change::Delete(leg)], &mut journal).unwrap();
    assert_eq!(journal.describe()[2], "- default via fd00::9 dev eth0 proto boot metric 1024");
}
