//! The power fails: after any prefix of catena's file operations, what was not synced yet is whole, empty, cut off or
//! missing, one file at a time. A file's name is its folder's: until that is synced, a new file may be missing with all of
//! its synced bytes, one that was taken away back again, a replaced one the old one, and a new folder lost with all that
//! is in it. Then the machine starts, and a DEL comes, with the config of the ADD and with another one, which leaves
//! the ledger alone to say what has to go.
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

/// What CI tries of each kind of loss; there are some hundred in all.
const SAMPLE: usize = 6;

/// What survives the end of power. /run does not.
const DISK: &str = "/var/lib";

const STATE: &str = "/var/lib/catena/state/";
const CACHE: &str = "/var/lib/cni/catena/results/";

/// What a disk must have of the files that a program sees.
#[derive(Debug, Clone, Default)]
struct Disk {
    /// Contents that are synced, by the files' names as they are now.
    synced: Files,
    /// Names that are surely there: they were before, or their folder was synced since.
    named: BTreeSet<String>,
    /// What was there under a name and was taken away or replaced, and may be there again.
    old: Files,
    /// Folders that were made, and may be lost with all that is in them.
    made: BTreeSet<String>,
}

/// A disk after a loss.
#[derive(Debug, Clone)]
struct Loss {
    what: String,
    kind: &'static str,
    files: Files,
}

fn is_delegates(path: &str) -> bool {
    path.starts_with("/var/lib/cni/networks/")
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

impl Disk {
    /// Everything that may be on the disk instead of `now`, one file at a time.
    fn losses(&self, now: &Files, when: &str) -> Vec<Loss> {
        let whole = Loss { what: format!("{when}: all whole"), kind: "whole", files: now.clone() };
        let mut losses = vec![whole];
        let mut lose = |path: &str, kind: &'static str, content: Option<&[u8]>| {
            let mut files = now.clone();
            match content {
                Some(content) => files.insert(path.to_owned(), content.to_vec()),
                None => files.remove(path),
            };
            losses.push(Loss { what: format!("{when}: {path} {kind}"), kind, files });
        };
        for (path, content) in now.iter().filter(|(path, _)| !is_delegates(path)) {
            if !self.named.contains(path) {
                lose(path, "missing", None);
            }
            let synced = self.synced.get(path);
            if synced == Some(content) {
                continue;
            }
            let kept = synced.map_or(0, Vec::len).min(content.len());
            let half = kept + (content.len() - kept) / 2;
            if kept < content.len() {
                lose(path, if kept == 0 { "empty" } else { "without its end" }, Some(&content[..kept]));
                let zeros = [&content[..kept], &vec![0; content.len() - kept]].concat();
                lose(path, "with zeros", Some(&zeros));
            }
            if kept < half {
                lose(path, "cut off", Some(&content[..half]));
            }
        }
        for (path, content) in &self.old {
            lose(path, if now.contains_key(path) { "the old one" } else { "back again" }, Some(content));
        }
        for folder in &self.made {
            let inside = format!("{folder}/");
            let mut files = now.clone();
            files.retain(|path, _| !path.starts_with(&inside) || is_delegates(path));
            if files.len() < now.len() {
                let what = format!("{when}: {folder} lost with all that is in it");
                losses.push(Loss { what, kind: "a folder", files });
            }
        }
        losses
    }

    /// Follows one operation, before it happens.
    fn follow(&mut self, tracee: &Tracee, world: &World, number: i64, arguments: [u64; 6], now: &Files) {
        let string = |index: usize| tracee.string(arguments[index]).unwrap_or_default();
        match number {
            libc::SYS_fsync | libc::SYS_fdatasync => {
                let Some(path) = tracee.descriptor(arguments[0]) else { return };
                if let Some(content) = now.get(&path) {
                    self.synced.insert(path, content.clone());
                    return;
                }
                self.old.retain(|old, _| folder_of(old) != path);
                self.made.retain(|made| folder_of(made) != path);
                self.named.extend(now.keys().filter(|file| folder_of(file) == path).cloned());
            }
            libc::SYS_unlink => {
                let path = string(0);
                let Some(content) = now.get(&path) else { return };
                self.synced.remove(&path);
                self.named.remove(&path);
                self.old.insert(path, content.clone());
            }
            libc::SYS_rename => {
                let (from, to) = (string(0), string(1));
                let Some(content) = now.get(&from) else { return };
                self.named.remove(&from);
                self.old.insert(from.clone(), content.clone());
                match now.get(&to) {
                    Some(replaced) => drop(self.old.insert(to.clone(), replaced.clone())),
                    None => drop(self.named.remove(&to)),
                }
                match self.synced.remove(&from) {
                    Some(synced) => drop(self.synced.insert(to, synced)),
                    None => drop(self.synced.remove(&to)),
                }
            }
            libc::SYS_mkdir if !world.path(&string(0)).exists() => {
                self.made.insert(string(0));
            }
            _ => {}
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
        disk.follow(&tracee, world, number, arguments, &now);
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
    // It has nothing in common with the other but the name.
    let changed = conf::catena(json!([conf::bridge(7, Stack::V4)]));
    let mut kinds = BTreeMap::<(&str, bool), Vec<Loss>>::new();
    for loss in losses {
        kinds.entry((loss.kind, false)).or_default().push(loss.clone());
        kinds.entry((loss.kind, true)).or_default().push(loss);
    }
    let all: usize = kinds.values().map(Vec::len).sum();
    let mut counts = BTreeMap::<&str, usize>::new();
    for ((kind, is_changed), losses) in kinds {
        let losses = seed.choose(losses, SAMPLE);
        *counts.entry(kind).or_default() += losses.len();
        for loss in losses {
            let when = if is_changed { format!("{}; DEL with another config", loss.what) } else { loss.what };
            lay_out(&world, &loss.files);
            pod.without_netns().del(if is_changed { &changed } else { &conf }, None).done();
            let mut stays = left(&world);
            if is_changed && !loss.files.keys().any(|path| path.starts_with(STATE) && path.ends_with(".json"))
            {
                // A cached result that comes back when its entry has gone: nobody knows of it.
                stays.retain(|path| !path.starts_with(CACHE));
            }
            assert_eq!(stays, BTreeSet::new(), "{when}");
            let pod = Pod::new(&world, "pod");
            let result = pod.add(&conf).result();
            pod.del(&conf, Some(&result)).done();
            assert_eq!(left(&world), BTreeSet::new(), "{when}, and a new life");
            pod.vanish();
        }
    }
    sample::tell(&format!("power: of {all} losses: {counts:?}"));
}
