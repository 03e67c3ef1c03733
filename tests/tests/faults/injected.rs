//! Any single system call of ADD, CHECK and DEL fails, with the errors that the kernel has for it. What is allowed to
//! come of it is written down by hand for each class of calls; whatever happens, there is one JSON document if it can be
//! written at all, an ADD that failed has left nothing in the kernel, and a later DEL cleans all.

use std::collections::BTreeMap;
use std::sync::Mutex;

use catena_tests::conf::{self, Stack, asking, gateway};
use catena_tests::runtime::{Pod, Reply, with_previous};
use catena_tests::sample::{self, Seed};
use catena_tests::scripted;
use catena_tests::state::Traces;
use catena_tests::trace::{self, Stop, Tracee};
use catena_tests::world::World;
use nix::errno::Errno;
use nix::libc;
use serde_json::{Value, json};

/// Cells that CI tries; the table has some thousand.
const SAMPLE: usize = 60;

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
    /// Pipes to delegates, their start and their end.
    Process,
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
        // 11 where trying again may help.
        (Class::Process, _) => &[0, 5, 7, 11, 110, 111, 112],
        (Class::Reply, _) => &[0],
    }
}

/// The errors that the kernel has for a system call in its place, and what it is for.
fn faults(tracee: &Tracee, number: i64, arguments: [u64; 6]) -> Option<(Class, &'static [Errno])> {
    let of_path = |path: Option<String>| {
        let path = path.unwrap_or_default();
        let state = ["/var/lib/", "/run/catena/"].iter().any(|folder| path.starts_with(folder));
        if state {
            Class::State
        } else if path.starts_with("/proc/sys/net") {
            Class::Netlink
        } else if path.starts_with("/run/netns/") || path.ends_with("/ns/net") {
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
            Class::Netlink
        } else if path.starts_with("pipe:") {
            let ours = (0..3).any(|own| tracee.descriptor(own).as_ref() == Some(&path));
            if ours { Class::Reply } else { Class::Process }
        } else {
            of_path(Some(path))
        })
    };
    Some(match number {
        libc::SYS_openat => {
            (of_path(tracee.string(arguments[1])), &[Errno::EMFILE, Errno::EACCES, Errno::EIO])
        }
        libc::SYS_mkdir | libc::SYS_rename | libc::SYS_unlink => {
            (of_path(tracee.string(arguments[0])), &[Errno::ENOSPC, Errno::EROFS, Errno::EIO])
        }
        libc::SYS_write => (of_descriptor(arguments[0])?, &[Errno::ENOSPC, Errno::EIO]),
        libc::SYS_read => (of_descriptor(arguments[0])?, &[Errno::EIO]),
        libc::SYS_fsync => (Class::State, &[Errno::EIO, Errno::ENOSPC]),
        libc::SYS_flock => (Class::State, &[Errno::ENOLCK]),
        libc::SYS_setns => (Class::Namespace, &[Errno::EPERM, Errno::ENOMEM]),
        libc::SYS_socket | libc::SYS_bind | libc::SYS_setsockopt => {
            (Class::Netlink, &[Errno::ENOBUFS, Errno::EPERM])
        }
        libc::SYS_sendto => (Class::Netlink, &[Errno::ENOBUFS, Errno::ENOMEM]),
        libc::SYS_recvfrom => (Class::Netlink, &[Errno::ENOBUFS, Errno::ENOMEM]),
        libc::SYS_epoll_create1 | libc::SYS_eventfd2 | libc::SYS_epoll_ctl => {
            (Class::Netlink, &[Errno::EMFILE, Errno::ENOMEM])
        }
        libc::SYS_pipe2 => (Class::Process, &[Errno::EMFILE]),
        libc::SYS_clone => (Class::Process, &[Errno::EAGAIN, Errno::ENOMEM]),
        _ => return None,
    })
}

/// Lets it go on to the next call that can fail: which it is, its class and its errors.
fn next_fault(tracee: &mut Tracee) -> Option<(String, Class, &'static [Errno])> {
    loop {
        if let Stop::Entry { number, arguments, .. } = tracee.next()?
            && let Some((class, errors)) = faults(tracee, number, arguments)
        {
            let path = match number {
                libc::SYS_openat => tracee.string(arguments[1]),
                libc::SYS_mkdir | libc::SYS_rename | libc::SYS_unlink => tracee.string(arguments[0]),
                _ => tracee.descriptor(arguments[0]),
            };
            let call = format!("{} {}", trace::name(number), path.unwrap_or_default());
            return Some((call, class, errors));
        }
    }
}

/// A single failure.
#[derive(Debug, Clone, Copy)]
struct Cell {
    command: &'static str,
    /// Which of the calls that can fail, from 0: others differ in number from run to run.
    nth: usize,
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
    /// Codes that are not allowed.
    wrong: &'a Mutex<Vec<String>>,
}

impl<'a> Ground<'a> {
    fn new(wrong: &'a Mutex<Vec<String>>) -> Ground<'a> {
        let world = World::new();
        let conf = conf();
        let pod = Pod::new(&world, "pod");
        let result = pod.add(&conf).result();
        pod.del(&conf, Some(&result)).done();
        let before = Traces::of(&world, Some(&pod.netns));
        Ground { world, conf, before, wrong }
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
        let mut tracee = self.pod().trace("catena", command, &conf);
        let mut cells = Vec::new();
        let mut nth = 0;
        while let Some((_, _, errors)) = next_fault(&mut tracee) {
            cells.extend(errors.iter().map(|errno| Cell { command, nth, errno: *errno }));
            nth += 1;
        }
        assert_eq!(tracee.finish().exit, Some(0), "{command} under the tracer");
        self.pod().del(&self.conf, None).done();
        cells
    }

    /// What happened: the class, and how the call ended.
    fn inject(&self, cell: Cell) -> String {
        let pod = self.pod();
        let conf = self.prepare(cell.command);
        let during = (cell.command == "CHECK").then(|| Traces::of(&self.world, Some(&pod.netns)));
        let mut tracee = pod.trace("catena", cell.command, &conf);
        let mut reached = None;
        for _ in 0..=cell.nth {
            reached = next_fault(&mut tracee);
        }
        let Some((call, class, errors)) = reached else {
            tracee.finish();
            pod.del(&self.conf, None).done();
            return "not reached".to_owned();
        };
        // The threads of a call take turns as they like, so it may be another one this time.
        let errno = if errors.contains(&cell.errno) { cell.errno } else { errors[0] };
        tracee.fail(errno);
        let output = tracee.finish();
        // Its stdout has another number by then, and a pipe has no name that tells.
        let unanswered = output.stderr.contains("the answer could not be written to stdout");
        let class = if unanswered { Class::Reply } else { class };
        let when = format!("{cell:?}: {errno} of {call} ({class:?})");
        let reply = Reply { what: when.clone(), output };
        let code = match reply.output.exit {
            Some(0) => 0,
            // Without an answer that can be read it has failed for the runtime.
            Some(1) if class == Class::Reply => 0,
            Some(1..) => reply.failure().code,
            _ => panic!("{when}: died: {reply:?}"),
        };
        if !allowed(class, cell.command).contains(&code) {
            let text = format!("{when}: code {code}: {}", reply.output.stdout);
            self.wrong.lock().expect("the differences").push(text);
        }
        if let Some(during) = during {
            Traces::of(&self.world, Some(&pod.netns)).same_as(&during, &when);
        }
        match cell.command {
            "ADD" if reply.output.exit != Some(0) && class != Class::Reply => {
                // Files may be left where the disk itself refuses to let them go.
                Traces::of(&self.world, Some(&pod.netns))
                    .without_files()
                    .same_as(&self.before.without_files(), &format!("{when}, after the failed ADD"));
            }
            "DEL" if code == 0 => Traces::of(&self.world, Some(&pod.netns)).same_as(&self.before, &when),
            _ => {}
        }
        pod.del(&self.conf, None).done();
        Traces::of(&self.world, Some(&pod.netns))
            .same_as(&self.before, &format!("{when}, after the last DEL"));
        format!("{} {class:?} {code}", cell.command)
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
    let cells = seed.choose(cells, SAMPLE);
    let count = cells.len();
    let queue = Mutex::new(cells.into_iter());
    let ends = Mutex::new(BTreeMap::<String, usize>::new());
    std::thread::scope(|scope| {
        let work = |ground: Ground<'_>| {
            loop {
                let Some(cell) = queue.lock().expect("the cells left").next() else { break };
                let end = ground.inject(cell);
                *ends.lock().expect("the ends").entry(end).or_default() += 1;
            }
        };
        scope.spawn(move || work(ground));
        let wrong = &wrong;
        scope.spawn(move || work(Ground::new(wrong)));
    });
    sample::tell(&format!(
        "injected: {count} of {all} failing system calls: {:?}",
        ends.lock().expect("the ends")
    ));
    let wrong = wrong.into_inner().expect("the differences");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
