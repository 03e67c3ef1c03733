//! Any single system call of ADD, CHECK and DEL fails, with the errors that the kernel has for it. What is allowed to
//! come of it is written down by hand for each class of calls; whatever happens, there is one JSON document if it can be
//! written at all, an ADD that succeeded has made all of what an undisturbed one makes, an ADD that failed has left
//! nothing in the kernel, and a later DEL cleans all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use catena_tests::conf::{self, Stack, asking, gateway};
use catena_tests::runtime::{Pod, Reply, with_previous};
use catena_tests::sample::{self, Seed};
use catena_tests::scripted;
use catena_tests::state::Traces;
use catena_tests::trace::{Place, Stop, Tracee};
use catena_tests::world::World;
use nix::errno::Errno;
use nix::libc;
use nix::unistd::Pid;
use serde_json::{Value, json};

/// Cells that CI tries of each command and class; the table has some thousand in all.
const SAMPLE: usize = 3;

/// One in this many may be a place that this run did not come to: threads take turns as they like.
const STRAYS: usize = 10;

/// RTM_NEWROUTE and RTM_DELROUTE of rtnetlink(7).
const CHANGES: [u16; 2] = [24, 25];

/// What a system call is for, as far as its failure goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// Files of the ledger, the cache and the status.
    State,
    /// The node's files, devices and what /proc tells.
    Environment,
    /// The way into the sandbox's namespace.
    Namespace,
    /// The routes' connection to the kernel, and its sysctls.
    Netlink,
    /// A change of a route, and the kernel's word about it.
    Change,
    /// Pipes to delegates, their start and their end.
    Process,
    /// Memory and threads.
    Memory,
    /// stdin.
    Request,
    /// The answer.
    Reply,
}

/// The codes that a failing call may lead to; 0 is success.
fn allowed(class: Class, command: &str) -> &'static [i64] {
    match (class, command) {
        // What is not recorded has not happened; CHECK needs little more than the lock and the entry.
        (Class::State, _) => &[0, 5],
        (Class::Environment, _) => &[0, 3, 5, 7, 8, 104],
        // 8 where it is opened, 107 where a request cannot be verified, 108 and 109 in a change of routes; that one is
        // there already is a shortcut, and need not be known.
        (Class::Namespace, "ADD" | "CHECK") => &[0, 8, 107, 108, 109],
        (Class::Namespace, _) => &[0, 8],
        // 8 where links cannot be read, 107 where it cannot be verified, 108 where a change failed, 109 where its
        // undo failed too; a delegate's result without its links is no reason to fail.
        (Class::Netlink, "ADD" | "CHECK") => &[0, 5, 8, 107, 108, 109],
        (Class::Netlink, _) => &[0],
        // Neither is retried: what was asked for is unknown to have happened, so it has not.
        (Class::Change, "ADD") => &[108, 109],
        (Class::Change, _) => &[0],
        // 11 where trying again may help.
        (Class::Process, _) => &[0, 5, 7, 11, 110, 111, 112],
        // 101 where a module has none. Who has no memory may also end as a kill does.
        (Class::Memory, "ADD" | "CHECK") => &[0, 5, 8, 11, 101, 104, 107, 108, 109, 999],
        (Class::Memory, _) => &[0, 5, 8, 11, 999],
        // What was there before anything was read is a check of the language's.
        (Class::Request, _) => &[0, 5],
        (Class::Reply, _) => &[0],
    }
}

/// The errors that the kernel has for a system call in its place, and what it is for.
fn faults(
    tracee: &Tracee,
    changing: bool,
    number: i64,
    arguments: [u64; 6],
) -> Option<(Class, &'static [Errno])> {
    let of_path = |path: Option<String>| {
        let path = path.unwrap_or_default();
        let state = ["/var/lib/", "/run/catena/"].iter().any(|folder| path.starts_with(folder));
        if state {
            Class::State
        } else if path.starts_with("/proc/sys/net") {
            Class::Netlink
        } else if ["/run/netns/", "net:"].iter().any(|start| path.starts_with(start))
            || path.ends_with("/ns/net")
        {
            Class::Namespace
        } else {
            Class::Environment
        }
    };
    let of_descriptor = |fd: u64| {
        let path = tracee.descriptor(fd).unwrap_or_default();
        // Those of an event loop, which have no errors.
        if path.starts_with("anon_inode:") {
            return None;
        }
        Some(if path.starts_with("socket:") {
            if changing { Class::Change } else { Class::Netlink }
        } else if path.starts_with("pipe:") {
            match (0..3).find(|own| tracee.descriptor(*own).as_ref() == Some(&path)) {
                Some(0) => Class::Request,
                Some(_) => Class::Reply,
                None => Class::Process,
            }
        } else {
            of_path(Some(path))
        })
    };
    Some(match number {
        libc::SYS_openat if arguments[2] & u64::from(libc::O_CREAT.cast_unsigned()) != 0 => (
            of_path(tracee.string(arguments[1])),
            &[Errno::EMFILE, Errno::EACCES, Errno::EIO, Errno::ENOSPC, Errno::EROFS],
        ),
        libc::SYS_openat | libc::SYS_openat2 => {
            (of_path(tracee.string(arguments[1])), &[Errno::EMFILE, Errno::EACCES, Errno::EIO])
        }
        libc::SYS_statx | libc::SYS_newfstatat => {
            let path = tracee.string(arguments[1]).filter(|path| !path.is_empty());
            let class = match path {
                Some(path) => of_path(Some(path)),
                None => of_descriptor(arguments[0])?,
            };
            (class, &[Errno::EACCES, Errno::EIO])
        }
        libc::SYS_fstat | libc::SYS_fstatfs | libc::SYS_getdents64 | libc::SYS_pread64 => {
            (of_descriptor(arguments[0])?, &[Errno::EIO])
        }
        libc::SYS_fcntl | libc::SYS_dup2 => (of_descriptor(arguments[0])?, &[Errno::EMFILE]),
        libc::SYS_mkdir | libc::SYS_rename | libc::SYS_unlink => {
            (of_path(tracee.string(arguments[0])), &[Errno::ENOSPC, Errno::EROFS, Errno::EIO])
        }
        libc::SYS_write => (of_descriptor(arguments[0])?, &[Errno::ENOSPC, Errno::EIO]),
        libc::SYS_read => (of_descriptor(arguments[0])?, &[Errno::EIO]),
        libc::SYS_fsync => (Class::State, &[Errno::EIO, Errno::ENOSPC]),
        libc::SYS_flock => (Class::State, &[Errno::ENOLCK]),
        libc::SYS_setns => (Class::Namespace, &[Errno::EPERM, Errno::ENOMEM]),
        libc::SYS_socket
        | libc::SYS_bind
        | libc::SYS_connect
        | libc::SYS_getsockname
        | libc::SYS_setsockopt => (Class::Netlink, &[Errno::ENOBUFS, Errno::EPERM]),
        libc::SYS_sendto | libc::SYS_recvfrom => {
            (of_descriptor(arguments[0])?, &[Errno::ENOBUFS, Errno::ENOMEM])
        }
        // struct pollfd begins with its descriptor.
        libc::SYS_poll => {
            let first = tracee.bytes(arguments[0], 4)?.try_into().ok()?;
            (of_descriptor(u64::from(u32::from_ne_bytes(first)))?, &[Errno::ENOMEM])
        }
        libc::SYS_epoll_create1 | libc::SYS_eventfd2 | libc::SYS_epoll_ctl => {
            (Class::Netlink, &[Errno::EMFILE, Errno::ENOMEM])
        }
        libc::SYS_pipe2 => (Class::Process, &[Errno::EMFILE]),
        libc::SYS_clone | libc::SYS_vfork => (Class::Process, &[Errno::EAGAIN, Errno::ENOMEM]),
        libc::SYS_waitid | libc::SYS_wait4 => (Class::Process, &[Errno::ECHILD]),
        libc::SYS_pidfd_open => (Class::Process, &[Errno::EMFILE]),
        libc::SYS_mmap | libc::SYS_mprotect => (Class::Memory, &[Errno::ENOMEM]),
        libc::SYS_clone3 => (Class::Memory, &[Errno::EAGAIN]),
        _ => return None,
    })
}

/// A call of which each system call that can fail is looked at.
struct Walk {
    tracee: Tracee,
    /// Threads that change a route, or wait for the kernel's word about it.
    changing: BTreeSet<Pid>,
}

impl Walk {
    fn new(tracee: Tracee) -> Walk {
        Walk { tracee, changing: BTreeSet::new() }
    }

    /// Lets it go on to the next call that can fail: its class and its errors.
    fn next_fault(&mut self) -> Option<(Place, Class, &'static [Errno])> {
        loop {
            let Stop::Entry { thread, number, arguments } = self.tracee.next()? else { continue };
            if number == libc::SYS_sendto {
                // struct nlmsghdr has its type after its length.
                let header = self.tracee.bytes(arguments[1], 6).unwrap_or_default();
                let changes =
                    header.get(4..).and_then(|kind| Some(u16::from_ne_bytes(kind.try_into().ok()?)));
                if changes.is_some_and(|kind| CHANGES.contains(&kind)) {
                    self.changing.insert(thread);
                } else {
                    self.changing.remove(&thread);
                }
            }
            let changing = self.changing.contains(&thread);
            if let Some((class, errors)) = faults(&self.tracee, changing, number, arguments) {
                return Some((self.tracee.place()?.clone(), class, errors));
            }
        }
    }
}

/// A single failure.
#[derive(Debug, Clone)]
struct Cell {
    command: &'static str,
    place: Place,
    class: Class,
    errno: Errno,
}

fn conf() -> Value {
    let mut outer = conf::catena(json!([
        scripted::veth("one", 1, Stack::Dual, true),
        scripted::veth("two", 2, Stack::V4, false),
        asking(
            &scripted::veth("three", 3, Stack::Dual, true),
            &[&gateway(3, conf::Family::V4), &gateway(3, conf::Family::V6)]
        ),
    ]));
    outer["logFile"] = json!("/var/log/catena.log");
    outer
}

struct Ground<'a> {
    world: World,
    conf: Value,
    before: Traces,
    /// What an undisturbed ADD makes, and what it answers.
    during: Traces,
    answer: Value,
    /// Codes that are not allowed.
    wrong: &'a Mutex<Vec<String>>,
}

impl<'a> Ground<'a> {
    fn new(wrong: &'a Mutex<Vec<String>>) -> Ground<'a> {
        let world = World::new();
        let conf = conf();
        let pod = Pod::new(&world, "pod");
        let answer = pod.add(&conf).result();
        let during = Traces::of(&world, Some(&pod.netns));
        pod.del(&conf, Some(&answer)).done();
        let before = Traces::of(&world, Some(&pod.netns));
        Ground { world, conf, before, during, answer, wrong }
    }

    fn pod(&self) -> Pod<'_> {
        Pod::existing(&self.world, "pod")
    }

    /// Makes the state that the call needs; the config for it.
    fn prepare(&self, command: &str) -> Value {
        if command == "ADD" {
            return self.conf.clone();
        }
        let result = self.pod().add(&self.conf).result();
        with_previous(&self.conf, Some(&result))
    }

    fn cells(&self, command: &'static str) -> Vec<Cell> {
        let conf = self.prepare(command);
        let mut walk = Walk::new(self.pod().trace("catena", command, &conf));
        let mut cells = Vec::new();
        while let Some((place, class, errors)) = walk.next_fault() {
            let cell = |errno: &Errno| Cell { command, place: place.clone(), class, errno: *errno };
            cells.extend(errors.iter().map(cell));
        }
        assert_eq!(walk.tracee.finish().exit, Some(0), "{command} under the tracer");
        self.pod().del(&self.conf, None).done();
        cells
    }

    /// What happened: the class, and how the call ended. None if the call never came to the place.
    fn inject(&self, cell: &Cell) -> Option<String> {
        let pod = self.pod();
        let Cell { command, place, class, errno } = cell;
        let conf = self.prepare(command);
        let mut walk = Walk::new(pod.trace("catena", command, &conf));
        loop {
            match walk.next_fault() {
                Some((at, met, _)) if at == *place && met == *class => break,
                Some(_) => {}
                None => {
                    walk.tracee.finish();
                    pod.del(&self.conf, None).done();
                    return None;
                }
            }
        }
        walk.tracee.fail(*errno);
        let output = walk.tracee.finish();
        // Its stdout has another number by then, and a pipe has no name that tells.
        let unanswered = output.stderr.contains("the answer could not be written to stdout");
        let class = if unanswered { Class::Reply } else { *class };
        let when = format!("{command}: {errno} at {place:?} ({class:?})");
        let reply = Reply { what: when.clone(), output };
        let code = match reply.output.exit {
            Some(0) => Some(0),
            // Without an answer that can be read it has failed for the runtime, whatever it did.
            Some(1) if unanswered => Some(0),
            Some(1) if reply.output.stderr.contains("stdout cannot be used") => None,
            Some(1..) if class != Class::Memory || !reply.output.stdout.is_empty() => {
                Some(reply.failure().code)
            }
            _ if class == Class::Memory => None,
            _ => panic!("{when}: died: {reply:?}"),
        };
        if code.is_some_and(|code| !allowed(class, command).contains(&code)) {
            self.differs(format!("{when}: code {code:?}: {}", reply.output.stdout));
        }
        let now = Traces::of(&self.world, Some(&pod.netns));
        match (*command, code) {
            // The lock for its delegates' children may be left where the disk refuses to let it go, and is where it died.
            ("CHECK", _) if class == Class::State || code.is_none() => {
                now.without_files().same_as(&self.during.without_files(), &when);
            }
            ("CHECK", _) => now.same_as(&self.during, &when),
            ("ADD", Some(0)) if reply.output.exit == Some(0) => {
                now.same_as(&self.during, &when);
                assert_eq!(reply.result(), self.answer, "{when}");
                pod.check(&self.conf, &self.answer).done();
            }
            // Files may be left where the disk itself refuses to let them go.
            ("ADD", Some(1..)) => now
                .without_files()
                .same_as(&self.before.without_files(), &format!("{when}, after the failed ADD")),
            ("DEL", Some(0)) => now.same_as(&self.before, &when),
            _ => {}
        }
        pod.del(&self.conf, None).done();
        Traces::of(&self.world, Some(&pod.netns))
            .same_as(&self.before, &format!("{when}, after the last DEL"));
        Some(match code {
            Some(code) => format!("{command} {class:?} {code}"),
            None => format!("{command} {class:?} without an answer"),
        })
    }

    fn differs(&self, text: String) {
        self.wrong.lock().expect("the differences").push(text);
    }
}

#[test]
fn any_system_call_fails() {
    let mut seed = Seed::of_test("injected");
    let wrong = Mutex::new(Vec::new());
    let ground = Ground::new(&wrong);
    let cells: Vec<Cell> =
        ["ADD", "CHECK", "DEL"].into_iter().flat_map(|command| ground.cells(command)).collect();
    let all = cells.len();
    let mut strata = BTreeMap::<(&str, Class), Vec<Cell>>::new();
    for cell in cells {
        strata.entry((cell.command, cell.class)).or_default().push(cell);
    }
    let cells: Vec<Cell> = strata.into_values().flat_map(|cells| seed.choose(cells, SAMPLE)).collect();
    let count = cells.len();
    let queue = Mutex::new(cells.into_iter());
    let ends = Mutex::new(BTreeMap::<String, usize>::new());
    let strays = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let work = |ground: Ground<'_>| {
            loop {
                let Some(cell) = queue.lock().expect("the cells left").next() else { break };
                match ground.inject(&cell) {
                    Some(end) => *ends.lock().expect("the ends").entry(end).or_default() += 1,
                    None => strays.lock().expect("the places not reached").push(cell),
                }
            }
        };
        scope.spawn(move || work(ground));
        let wrong = &wrong;
        scope.spawn(move || work(Ground::new(wrong)));
    });
    let (ends, strays) =
        (ends.into_inner().expect("the ends"), strays.into_inner().expect("the places not reached"));
    sample::tell(&format!(
        "injected: {} of {all} failing system calls, {} more not reached: {ends:?}",
        count - strays.len(),
        strays.len()
    ));
    assert!(strays.len() * STRAYS <= count, "too many places were not reached: {strays:#?}");
    let wrong = wrong.into_inner().expect("the differences");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
