//! The power fails: after any prefix of catena's file operations, what was not synced yet is whole, empty, cut off or
//! missing, one file at a time. Then the machine starts, and a DEL comes.
//!
//! The delegates' own files are taken as whole: what they lose is theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use catena_tests::conf::{self, Stack, asking, gateway};
use catena_tests::runtime::Pod;
use catena_tests::sample::{self, Seed};
use catena_tests::trace::{self, Stop, Tracee};
use catena_tests::world::World;
use nix::libc;
use serde_json::{Value, json};

/// Files with their contents, by path.
type Files = BTreeMap<String, Vec<u8>>;

/// What CI tries of some hundred.
const SAMPLE: usize = 80;

/// What survives the end of power. /run does not.
const DISK: &str = "/var/lib";

/// The files as a program sees them, and as far as a disk must have them.
#[derive(Debug, Clone, Default)]
struct Disk {
    /// What is surely there: synced, with its name.
    synced: Files,
    /// What was there once and was taken away without a sync.
    removed: Files,
}

/// A disk after a loss.
#[derive(Debug)]
struct Loss {
    what: String,
    files: Files,
}

fn is_delegates(path: &str) -> bool {
    path.starts_with("/var/lib/cni/networks/")
}

impl Disk {
    /// Everything that may be on the disk instead of `now`, one file at a time.
    fn losses(&self, now: &Files, when: &str) -> Vec<Loss> {
        let mut losses = vec![Loss { what: format!("{when}: all whole"), files: now.clone() }];
        let mut lose = |path: &str, how: &str, content: Option<&[u8]>| {
            let mut files = now.clone();
            match content {
                Some(content) => files.insert(path.to_owned(), content.to_vec()),
                None => files.remove(path),
            };
            losses.push(Loss { what: format!("{when}: {path} {how}"), files });
        };
        for (path, content) in now.iter().filter(|(path, _)| !is_delegates(path)) {
            let synced = self.synced.get(path);
            if synced == Some(content) {
                continue;
            }
            let kept = synced.map_or(0, Vec::len).min(content.len());
            let half = kept + (content.len() - kept) / 2;
            if synced.is_none() {
                lose(path, "missing", None);
            }
            if kept < content.len() {
                lose(path, if kept == 0 { "empty" } else { "without its end" }, Some(&content[..kept]));
                let zeros = [&content[..kept], &vec![0; content.len() - kept]].concat();
                lose(path, "with zeros", Some(&zeros));
            }
            if kept < half {
                lose(path, "cut off", Some(&content[..half]));
            }
        }
        for (path, content) in self.removed.iter().filter(|(path, _)| !now.contains_key(*path)) {
            lose(path, "back again", Some(content));
        }
        losses
    }

    /// Follows one operation, before it happens.
    fn follow(&mut self, tracee: &Tracee, number: i64, arguments: [u64; 6], now: &Files) {
        if number == libc::SYS_fsync || number == libc::SYS_fdatasync {
            let Some(path) = tracee.descriptor(arguments[0]) else { return };
            if let Some(content) = now.get(&path) {
                self.synced.insert(path, content.clone());
            } else {
                // A folder: names that were taken away are gone for good.
                self.removed.retain(|removed, _| !removed.starts_with(&format!("{path}/")));
            }
        }
        if number == libc::SYS_unlink
            && let Some(path) = tracee.string(arguments[0])
            && let Some(content) = now.get(&path)
        {
            self.synced.remove(&path);
            self.removed.insert(path, content.clone());
        }
    }
}

/// Whether a system call changes files on the disk.
fn touches_disk(tracee: &Tracee, number: i64, arguments: [u64; 6]) -> bool {
    let path = |address| tracee.string(address).is_some_and(|path| path.starts_with(DISK));
    match number {
        libc::SYS_openat => {
            arguments[2] & u64::try_from(libc::O_CREAT).unwrap_or(0) != 0 && path(arguments[1])
        }
        libc::SYS_unlink | libc::SYS_mkdir | libc::SYS_rename => path(arguments[0]),
        libc::SYS_write | libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_ftruncate => {
            tracee.descriptor(arguments[0]).is_some_and(|path| path.starts_with(DISK))
        }
        _ => false,
    }
}

/// Every loss that one call can suffer.
fn record(world: &World, disk: &mut Disk, mut tracee: Tracee, command: &str) -> Vec<Loss> {
    let mut losses = Vec::new();
    let mut count = 0;
    while let Some(stop) = tracee.next() {
        let Stop::Entry { number, arguments, .. } = stop else { continue };
        if !touches_disk(&tracee, number, arguments) {
            continue;
        }
        let now = world.files(DISK);
        let when = format!("{command}, before file operation {count} ({})", trace::name(number));
        losses.extend(disk.losses(&now, &when));
        disk.follow(&tracee, number, arguments, &now);
        count += 1;
    }
    assert!(count > 5, "{command} has only {count} file operations");
    losses.extend(disk.losses(&world.files(DISK), &format!("after {command}")));
    let output = tracee.finish();
    assert_eq!(output.exit, Some(0), "{command}: {}{}", output.stdout, output.stderr);
    losses
}

fn lay_out(world: &World, files: &Files) {
    world.sh("rm -rf /var/lib/* /run/catena");
    for (path, content) in files {
        let at = world.path(path);
        fs::create_dir_all(at.parent().expect("a file in a folder")).expect("a folder of the world");
        fs::write(at, content).expect("a file of the world");
    }
}

/// Paths only, without what host-local keeps for ever.
fn left(world: &World) -> BTreeSet<String> {
    world
        .files(DISK)
        .into_keys()
        .chain(world.files("/run/catena").into_keys())
        .filter(|path| !path.ends_with("/lock") && !path.contains("last_reserved_ip"))
        .filter(|path| path != "/run/catena/versions.json")
        .collect()
}

#[test]
fn the_power_fails_at_any_file_operation() {
    let mut seed = Seed::of_test("power");
    let world = World::new();
    let pod = Pod::new(&world, "pod");
    let conf: Value = conf::catena(json!([
        conf::ptp(1, Stack::V4),
        asking(&conf::bridge_with_default(2, Stack::V4), &[&gateway(2, conf::Family::V4)])
    ]));
    let mut disk = Disk::default();
    let mut losses = record(&world, &mut disk, pod.trace("catena", "ADD", &conf), "ADD");
    losses.extend(record(&world, &mut disk, pod.trace("catena", "DEL", &conf), "DEL"));
    pod.vanish();
    world.sh("echo another-boot >/tmp/boot_id; mount --bind /tmp/boot_id /proc/sys/kernel/random/boot_id");
    let all = losses.len();
    let losses = seed.choose(losses, SAMPLE);
    let count = losses.len();
    for loss in losses {
        lay_out(&world, &loss.files);
        pod.without_netns().del(&conf, None).done();
        assert_eq!(left(&world), BTreeSet::new(), "{}", loss.what);
        let pod = Pod::new(&world, "pod");
        let result = pod.add(&conf).result();
        pod.del(&conf, Some(&result)).done();
        assert_eq!(left(&world), BTreeSet::new(), "{}, and a new life", loss.what);
        pod.vanish();
    }
    sample::tell(&format!("power: {count} of {all} losses"));
}
