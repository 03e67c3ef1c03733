//! A deadline for everything: no input keeps catena longer than `callSeconds` and `rollbackSeconds` and 10 seconds; and
//! whoever kills it need not wait for anybody.

use std::io::{Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use catena_tests::conf::{self, Stack, asking};
use catena_tests::ground::{self, POSITIONS, made, network, nothing_left};
use catena_tests::runtime::{Pod, Reply, with_previous};
use catena_tests::sample::{self, Seed};
use catena_tests::scripted;
use catena_tests::state::Traces;
use catena_tests::trace::{Stop, Tracee};
use catena_tests::world::{OWN_BIN, World};
use nix::libc;
use serde_json::{Value, json};

/// What a machine that does many other things may add.
const SLACK: Duration = Duration::from_secs(5);

/// A world whose deadlines are these seconds.
fn world(delegate: u64, rollback: u64, call: u64) -> World {
    let world = ground::world();
    ground::set_deadlines(&world, delegate, rollback, call);
    world
}

fn within(reply: &Reply, seconds: u64) {
    let limit = Duration::from_secs(seconds) + SLACK;
    assert!(
        reply.output.elapsed < limit,
        "took {:?}, more than {limit:?}: {}",
        reply.output.elapsed,
        reply.what
    );
}

fn change_all(world: &World, command: &str, step: &Value) {
    for position in POSITIONS {
        let mut script = ground::script(position);
        script[command] = step.clone();
        scripted::change(world, &network(position), &script);
    }
}

/// Starts catena without closing its stdin; its exit code and how long it took, with what it wrote.
fn open_ended(pod: &Pod<'_>, command: &str, stdin: &[u8], drip: bool) -> (Option<i32>, Duration, String) {
    let mut process = pod.world.command(&format!("{OWN_BIN}/catena"));
    pod.describe(&mut process, command);
    let start = Instant::now();
    let mut child =
        process.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("nsenter(1) from util-linux");
    let mut pipe = child.stdin.take().expect("a piped stdin");
    pipe.write_all(stdin).expect("a request");
    let status = loop {
        if let Some(status) = child.try_wait().expect("waiting for a child") {
            break status;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "waits for its stdin for ever");
        std::thread::sleep(Duration::from_millis(20));
        if drip {
            // It may have ended meanwhile.
            pipe.write_all(b" ").ok();
        }
    };
    let mut text = String::new();
    child.stdout.take().expect("a piped stdout").read_to_string(&mut text).expect("its stdout");
    (status.code(), start.elapsed(), text)
}

#[test]
fn a_stdin_that_never_ends() {
    let world = world(1, 1, 1);
    let pod = ground::pod(&world, "pod");
    let conf = ground::config().to_string();
    for (command, drip) in [("ADD", false), ("ADD", true), ("DEL", false)] {
        let (exit, elapsed, text) = open_ended(&pod, command, conf.as_bytes(), drip);
        assert_eq!(exit, Some(1), "{command}");
        assert!(elapsed < Duration::from_secs(1) + SLACK, "{command} took {elapsed:?}");
        let error: Value = serde_json::from_str(&text).expect("one error object");
        assert_eq!(error["code"], 5, "{error}");
    }
    assert_eq!(made(&world), Vec::<String>::new());
}

/// The answer is larger than a pipe, and nobody reads it.
#[test]
fn an_answer_that_nobody_reads() {
    let world = world(1, 1, 1);
    let pod = Pod::new(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    let routes: Vec<Value> = (0..4000)
        .map(|i| json!({"dst": format!("10.{}.{}.0/24", i / 250, i % 250), "gw": "10.90.1.1"}))
        .collect();
    let conf =
        conf::catena(json!([scripted::answers("big", json!({"cniVersion": "1.0.0", "routes": routes}))]));
    let mut process = world.command(&format!("{OWN_BIN}/catena"));
    pod.describe(&mut process, "ADD");
    let start = Instant::now();
    let mut child =
        process.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("nsenter(1) from util-linux");
    let mut pipe = child.stdin.take().expect("a piped stdin");
    pipe.write_all(conf.to_string().as_bytes()).expect("a request");
    drop(pipe);
    let status = loop {
        if let Some(status) = child.try_wait().expect("waiting for a child") {
            break status;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "waits for its reader for ever");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(!status.success());
    let elapsed = start.elapsed();
    assert!(elapsed < Duration::from_secs(1 + 1 + 10) + SLACK, "took {elapsed:?}");
    ground::set_deadlines(&world, 30, 30, 60);
    pod.del(&conf, None).done();
    Traces::of(&world, Some(&pod.netns)).same_as(&before, "after DEL");
}

#[test]
fn delegates_that_never_end() {
    let world = world(2, 2, 3);
    let pod = ground::pod(&world, "pod");
    let conf = ground::config();
    let before = Traces::of(&world, Some(&pod.netns));
    let hang = json!({"sh": "sleep 1000"});

    // ADD and its undoing both meet delegates that hang.
    for position in POSITIONS {
        let mut script = ground::script(position);
        script["DEL"] = hang.clone();
        if position == 2 {
            script["ADD"] = hang.clone();
        }
        scripted::change(&world, &network(position), &script);
    }
    let reply = pod.add(&conf);
    reply.fails_with(111, &["s2", "net2"]);
    within(&reply, 3 + 2);

    let reply = pod.del(&conf, None);
    reply.fails_with(111, &["s0", "s1", "s2"]);
    within(&reply, 3);

    change_all(&world, "CHECK", &json!({}));
    pod.del(&conf, None).done();
    nothing_left(&world, &before, &pod.netns, "after the last DEL");

    let result = pod.add(&conf).result();
    change_all(&world, "CHECK", &hang);
    let reply = pod.check(&conf, &result);
    reply.fails_with(111, &["s0"]);
    within(&reply, 3);
    change_all(&world, "STATUS", &hang);
    let mut newest = conf.clone();
    newest["cniVersion"] = json!("1.1.0");
    newest["delegates"]
        .as_array_mut()
        .expect("a list")
        .iter_mut()
        .for_each(|conf| conf["cniVersion"] = json!("1.1.0"));
    let reply = pod.call("catena", "STATUS", &newest);
    reply.fails_with(111, &["s0"]);
    within(&reply, 3);
    change_all(&world, "GC", &hang);
    let valid = catena_tests::runtime::gc_conf(&newest, &[(&pod.id, "eth0")]);
    let reply = pod.call("catena", "GC", &valid);
    reply.fails_with(111, &["s0", "s1", "s2"]);
    within(&reply, 3);
    assert_eq!(made(&world).len(), 3);
    change_all(&world, "CHECK", &json!({}));
    pod.del(&conf, Some(&result)).done();
    nothing_left(&world, &before, &pod.netns, "after the last DEL");
}

#[test]
fn a_pipeline_without_end() {
    let world = world(30, 30, 3);
    let pod = ground::pod(&world, "pod");
    let before = Traces::of(&world, Some(&pod.netns));
    let mut conf = ground::config();
    conf["pipeline"] = json!(vec![json!({"stage": "network-status"}); 50_000]);
    let reply = pod.add(&conf);
    // Time is over for a stage, or for the delegate that comes after so many.
    assert!([11, 111].contains(&reply.failure().code), "{:?}", reply.output.stdout);
    within(&reply, 3 + 30);
    nothing_left(&world, &before, &pod.netns, "after the failed ADD");
}

#[test]
fn a_lock_that_is_held() {
    let world = ground::world();
    let pod = ground::pod(&world, "pod");
    let conf = ground::config();
    let result = pod.add(&conf).result();
    ground::set_deadlines(&world, 1, 1, 1);
    world.sh(
        "flock /var/lib/catena/state/id-pod@outer@meta@eth0.lock sleep 1000 >/dev/null 2>&1 & echo $! >/run/holder\n\
         sleep 0.3",
    );
    for command in ["ADD", "CHECK", "DEL"] {
        let reply = pod.call("catena", command, &with_previous(&conf, Some(&result)));
        reply.fails_with(11, &["lock"]);
        within(&reply, 1);
    }
    world.sh("kill $(cat /run/holder); for pid in $(pidof sleep); do kill $pid; done");
    ground::set_deadlines(&world, 30, 30, 60);
    pod.del(&conf, Some(&result)).done();
    assert_eq!(made(&world), Vec::<String>::new());
}

/// Waits until a file of the world is there.
fn wait_for(world: &World, path: &str) {
    let start = Instant::now();
    while !world.path(path).exists() {
        assert!(start.elapsed() < Duration::from_secs(30), "{path} never came");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// How long the delegate and the pipes of a catena that was killed may live on.
const AT_ONCE: Duration = Duration::from_millis(500);

/// A kill by the runtime: the delegate dies, and nobody holds the pipes.
#[test]
fn killed_while_a_delegate_runs() {
    let world = world(60, 60, 180);
    let pod = ground::pod(&world, "pod");
    let conf = ground::config();
    let before = Traces::of(&world, Some(&pod.netns));
    let mut slowest = Duration::ZERO;
    for command in ["ADD", "CHECK", "DEL"] {
        for position in POSITIONS {
            let result = (command != "ADD").then(|| pod.add(&conf).result());
            let mut script = ground::script(position);
            script[command]["sh"] =
                json!("echo $PPID >/run/delegate.new; mv /run/delegate.new /run/delegate; sleep 1000");
            scripted::change(&world, &network(position), &script);
            let stdin = with_previous(&conf, result.as_ref());
            let reply = std::thread::scope(|scope| {
                let call = scope.spawn(|| pod.call("catena", command, &stdin));
                wait_for(&world, "/run/delegate");
                // The shell that waits is there before the kill.
                let script = "read -r go; kill -9 $(pidof catena); while kill -0 $(cat /run/delegate) 2>/dev/null; do :; done";
                let mut shell =
                    world.command("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().expect("sh(1)");
                std::thread::sleep(Duration::from_millis(50));
                let start = Instant::now();
                drop(shell.stdin.take());
                shell.wait().expect("the shell");
                let reply = call.join().expect("the call that was killed");
                slowest = slowest.max(start.elapsed());
                reply
            });
            let when = format!("{command} killed at position {position}");
            assert_eq!(reply.output.exit, None, "{when}: {reply:?}");
            assert!(!reply.output.held, "{when}: an orphan holds the pipes");
            world.sh("rm /run/delegate");
            scripted::change(&world, &network(position), &ground::script(position));
            // The delegate's own child lives on, and is ended by DEL after ten seconds.
            if position > 0 && !sample::soak() {
                world.sh("kill $(pidof sleep)");
            }
            let reply = pod.del(&conf, None);
            reply.done();
            within(&reply, 12);
            nothing_left(&world, &before, &pod.netns, &format!("{when}, after DEL"));
        }
    }
    assert!(slowest < AT_ONCE, "the delegate and the pipes were gone after {slowest:?}");
    sample::tell(&format!(
        "deadline: {slowest:?} at most from SIGKILL until the delegate had died and all pipes were closed"
    ));
}

/// A child that leaves its process group, and holds on to nothing but the lock.
#[test]
fn a_child_that_hides() {
    let world = world(60, 60, 180);
    let pod = ground::pod(&world, "pod");
    let conf = ground::config();
    let before = Traces::of(&world, Some(&pod.netns));
    let mut script = ground::script(1);
    script["ADD"]["sh"] =
        json!("setsid sleep 1000 </dev/null >/dev/null 2>&1 & touch /run/hidden; sleep 1000");
    scripted::change(&world, &network(1), &script);
    std::thread::scope(|scope| {
        let add = scope.spawn(|| pod.add(&conf));
        wait_for(&world, "/run/hidden");
        std::thread::sleep(Duration::from_millis(50));
        world.sh("kill -9 $(pidof catena)");
        add.join().expect("the ADD that was killed")
    });
    world.sh("rm /run/hidden");
    scripted::change(&world, &network(1), &ground::script(1));
    let reply = pod.del(&conf, None);
    reply.done();
    within(&reply, 10 + 2 + 2);
    nothing_left(&world, &before, &pod.netns, "after DEL");
}

/// The children of a CHECK that was killed are waited for by the next CHECK as well. What a CHECK that ended has left is
/// left on purpose.
#[test]
fn children_of_a_check() {
    let world = world(60, 60, 180);
    let pod = ground::pod(&world, "pod");
    let conf = ground::config();
    let before = Traces::of(&world, Some(&pod.netns));
    let result = pod.add(&conf).result();
    let mut script = ground::script(1);
    script["CHECK"]["sh"] = json!("(sleep 2; touch /run/late) & touch /run/begun; wait");
    scripted::change(&world, &network(1), &script);
    std::thread::scope(|scope| {
        let check = scope.spawn(|| pod.check(&conf, &result));
        wait_for(&world, "/run/begun");
        world.sh("kill -9 $(pidof catena)");
        check.join().expect("the CHECK that was killed")
    });
    script["CHECK"]["sh"] =
        json!("test -e /run/late || exit 1; sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >/run/daemon");
    scripted::change(&world, &network(1), &script);
    pod.check(&conf, &result).done();
    scripted::change(&world, &network(1), &ground::script(1));
    let reply = pod.check(&conf, &result);
    reply.done();
    within(&reply, 0);
    world.sh("rm /run/late /run/begun");
    let reply = pod.del(&conf, Some(&result));
    reply.done();
    within(&reply, 0);
    world.sh("kill $(cat /run/daemon); rm /run/daemon");
    nothing_left(&world, &before, &pod.netns, "after DEL");
}

/// Netlink requests that the kernel never gets, and so never answers.
#[derive(Debug, Clone, Copy)]
struct Unanswered {
    command: &'static str,
    /// Which of the call's requests, from 0.
    first: usize,
    /// Whether all that come after it are lost as well.
    for_good: bool,
}

/// The deadlines of a call and of undoing, in seconds.
const CALL: u64 = 6;
const ROLLBACK: u64 = 4;

/// Lets a call run to its end, and swallows requests; how many there were.
fn swallow(tracee: &mut Tracee, is_lost: impl Fn(usize) -> bool) -> usize {
    let mut requests = 0;
    while let Some(stop) = tracee.next() {
        let Stop::Entry { number: libc::SYS_sendto, arguments, .. } = stop else { continue };
        if is_lost(requests) {
            tracee.answer(i64::try_from(arguments[2]).expect("a length"));
        }
        requests += 1;
    }
    requests
}

/// Nothing that a call waits for keeps it longer than its deadlines, the kernel included; what it can undo, it undoes.
#[test]
fn a_kernel_that_never_answers() {
    let mut seed = Seed::of_test("unanswered");
    let conf = conf::catena(json!([
        scripted::veth("one", 1, Stack::V4, true),
        asking(&scripted::veth("two", 2, Stack::V4, true), &[&conf::gateway(2, conf::Family::V4)]),
    ]));
    let ground = || {
        let world = World::new();
        ground::set_deadlines(&world, 30, ROLLBACK, CALL);
        let pod = Pod::new(&world, "pod");
        pod.add(&conf).result();
        pod.del(&conf, None).done();
        let before = Traces::of(&world, Some(&pod.netns));
        (world, before)
    };
    let start = |world: &World, command: &str| {
        let pod = Pod::existing(world, "pod");
        let result = (command != "ADD").then(|| pod.add(&conf).result());
        pod.trace("catena", command, &with_previous(&conf, result.as_ref()))
    };
    let mut cells = Vec::new();
    let (world, _) = ground();
    for command in ["ADD", "CHECK", "DEL"] {
        let mut tracee = start(&world, command);
        let requests = swallow(&mut tracee, |_| false);
        assert_eq!(tracee.finish().exit, Some(0), "{command} under the tracer");
        Pod::existing(&world, "pod").del(&conf, None).done();
        for first in 0..requests {
            cells.extend([true, false].map(|for_good| Unanswered { command, first, for_good }));
        }
    }
    let all = cells.len();
    assert!(all >= 10, "{all} netlink requests");
    let cells = seed.choose(cells, 6);
    let count = cells.len();
    let queue = std::sync::Mutex::new(cells.into_iter());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let (world, before) = ground();
                let pod = Pod::existing(&world, "pod");
                loop {
                    let Some(cell) = queue.lock().expect("the cells").next() else { break };
                    let mut tracee = start(&world, cell.command);
                    let during = Traces::of(&world, Some(&pod.netns));
                    let lost = |n: usize| n == cell.first || cell.for_good && n > cell.first;
                    swallow(&mut tracee, lost);
                    let reply = Reply { what: format!("{cell:?}"), output: tracee.finish() };
                    within(&reply, CALL + ROLLBACK + 10);
                    if cell.command == "DEL" {
                        reply.done();
                    } else {
                        // 11 where it is told that trying again may help, else what could not be done.
                        let code = reply.failure().code;
                        assert!([8, 11, 107, 108, 109].contains(&code), "{reply:?}");
                    }
                    let now = Traces::of(&world, Some(&pod.netns));
                    let expected = if cell.command == "CHECK" { &during } else { &before };
                    now.without_processes().same_as(&expected.without_processes(), &format!("{cell:?}"));
                    pod.del(&conf, None).done();
                    Traces::of(&world, Some(&pod.netns)).same_as(&before, &format!("{cell:?}, after DEL"));
                }
            });
        }
    });
    sample::tell(&format!("deadline: {count} of {all} cells of netlink requests without an answer"));
}
