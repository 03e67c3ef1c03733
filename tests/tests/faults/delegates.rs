//! Every way in which a delegate can fail, at each position of three, in ADD, CHECK and DEL. The expected codes are
//! written down by hand; 0 is success. The delegates make links with default routes, of which the middle one's is asked
//! for: an ADD that fails must have put back the first one's before that is deleted.

use std::fs::File;
use std::time::Duration;

use catena_tests::conf::{self, Stack, asking};
use catena_tests::ground::{self, FIRST_BIN, POSITIONS, ifname, made, network, nothing_left, program};
use catena_tests::runtime::{Pod, Reply};
use catena_tests::sample::{self, Seed};
use catena_tests::scripted;
use catena_tests::state::{Traces, defaults, via};
use catena_tests::world::{OWN_BIN, World};
use serde_json::{Value, json};

/// What is wrong with one delegate.
enum Fault {
    /// Its file is not there.
    Missing,
    /// This script breaks the file `$program` of the folder `$bin`.
    File(&'static str),
    /// A file system without exec has it.
    NoExec,
    /// An installer writes to it.
    Busy,
    /// It works, but does this for the command.
    Step(Value),
    /// It does its work, then this.
    After(&'static str),
}

struct Row {
    name: &'static str,
    fault: Fault,
    /// The codes of ADD, CHECK and DEL.
    codes: [i64; 3],
    /// Some seconds for each cell, so that CI tries one position.
    slow: bool,
}

fn table() -> Vec<Row> {
    let quick = |name, fault, codes| Row { name, fault, codes, slow: false };
    let slow = |name, fault, codes| Row { name, fault, codes, slow: true };
    let error = json!({"cniVersion": "1.0.0", "code": 77, "msg": "no luck"});
    vec![
        quick("missing", Fault::Missing, [7, 7, 7]),
        quick("not executable", Fault::File("chmod 644 $bin/$program"), [7, 7, 7]),
        quick(
            "no program",
            Fault::File("rm $bin/$program; echo x >$bin/$program; chmod 755 $bin/$program"),
            [7, 7, 7],
        ),
        quick(
            "no interpreter",
            Fault::File("rm $bin/$program; echo '#!/absent' >$bin/$program; chmod 755 $bin/$program"),
            [7, 7, 7],
        ),
        quick("on a file system without exec", Fault::NoExec, [7, 7, 7]),
        slow("busy", Fault::Busy, [11, 11, 11]),
        quick("an error object", Fault::Step(json!({"result": error, "exit": 1})), [77, 77, 77]),
        quick("an exit status alone", Fault::Step(json!({"exit": 3})), [110, 110, 110]),
        quick("no result", Fault::Step(json!({"sh": "true"})), [110, 0, 0]),
        quick("garbage", Fault::Step(json!({"sh": "echo no json"})), [110, 0, 0]),
        quick("half a result", Fault::Step(json!({"sh": "echo '{\"cniVersion\": '"})), [110, 0, 0]),
        quick("two results", Fault::Step(json!({"sh": "echo '{} {}'"})), [110, 0, 0]),
        quick("a signal", Fault::Step(json!({"sh": "kill -KILL $PPID; sleep 5"})), [112, 112, 112]),
        quick("100 MB on stdout", Fault::Step(json!({"sh": "head -c 100000000 /dev/zero"})), [110, 0, 0]),
        quick("100 MB on stderr", Fault::After("head -c 100000000 /dev/zero >&2"), [0, 0, 0]),
        quick("stdout held open", Fault::After("sleep 1000 & echo $! >/run/daemon"), [0, 0, 0]),
        slow("never ends", Fault::Step(json!({"sh": "sleep 1000"})), [111, 111, 111]),
        slow(
            "ignores SIGTERM",
            Fault::Step(json!({"sh": "trap '' TERM; while :; do sleep 1; done"})),
            [111, 111, 111],
        ),
        slow(
            "leaves a child that never ends",
            Fault::Step(json!({"sh": "sleep 1000 & sleep 1000"})),
            [111, 111, 111],
        ),
    ]
}

/// Where each DEL notes the default routes that it finds in the pod.
const NOTES: &str = "/run/scripted/notes";

/// A network's delegate: a file as in [`ground::script`], and a link, with a default route for the first two.
fn script(position: usize) -> Value {
    let mut script = ground::script(position);
    let n = u8::try_from(position).expect("one of three");
    let link = scripted::veth(&network(position), n, Stack::V4, position < 2);
    let sh = |step: &Value| step["sh"].as_str().expect("a script").to_owned();
    let add = [sh(&script["ADD"]), sh(&link["script"]["ADD"])].join("\n");
    script["ADD"] = json!({"sh": add, "result": link["script"]["ADD"]["result"]});
    let note = format!(
        "if [ -n \"$CNI_NETNS\" ]; then\n\
         echo {} $(nsenter --net=$CNI_NETNS ip route show default) >>{NOTES}\n\
         fi",
        network(position)
    );
    script["DEL"]["sh"] = json!([note, sh(&script["DEL"]), sh(&link["script"]["DEL"])].join("\n"));
    script
}

/// All three; the second is asked for the default route.
fn config() -> Value {
    let mut outer = ground::config();
    for position in POSITIONS {
        outer["delegates"][position]["script"] = script(position);
    }
    outer["delegates"][1] = asking(&outer["delegates"][1], &[&conf::gateway(1, conf::Family::V4)]);
    outer
}

/// A fault while it is there.
struct Applied<'w> {
    world: &'w World,
    position: usize,
    /// Kept open for writing.
    busy: Option<File>,
}

impl<'w> Applied<'w> {
    fn apply(world: &'w World, row: &Row, command: &str, code: i64, position: usize) -> Applied<'w> {
        let program = program(position);
        let mut busy = None;
        let mut script = script(position);
        match &row.fault {
            Fault::Missing => drop(world.sh(&format!("rm {OWN_BIN}/{program}"))),
            Fault::File(sh) => drop(world.sh(&format!("bin={OWN_BIN} program={program}; {sh}"))),
            Fault::NoExec => drop(world.sh(&format!(
                "mount -t tmpfs -o noexec none {FIRST_BIN}; cp {OWN_BIN}/{program} {FIRST_BIN}/"
            ))),
            Fault::Busy => {
                let path = world.path(&format!("{OWN_BIN}/{program}"));
                busy = Some(File::options().write(true).open(path).expect("the program, for writing"));
            }
            // Whoever says that a DEL is done has done it.
            Fault::Step(step) if command == "DEL" && code == 0 => {
                let before = script[command]["sh"].as_str().unwrap_or("true");
                script[command]["sh"] = json!(format!("{before}\n{}", step["sh"].as_str().unwrap_or("true")));
            }
            Fault::Step(step) => script[command] = step.clone(),
            Fault::After(sh) => {
                let before = script[command]["sh"].as_str().unwrap_or("true");
                script[command]["sh"] = json!(format!("{before}\n{sh}"));
            }
        }
        scripted::change(world, &network(position), &script);
        Applied { world, position, busy }
    }

    fn heal(mut self) {
        self.busy = None;
        let program = program(self.position);
        self.world.sh(&format!(
            "umount {FIRST_BIN} 2>/dev/null || true\n\
             rm -f {OWN_BIN}/{program}; cp {OWN_BIN}/scripted {OWN_BIN}/{program}\n\
             if [ -e /run/daemon ]; then kill $(cat /run/daemon); rm /run/daemon; fi"
        ));
        scripted::change(self.world, &network(self.position), &script(self.position));
    }
}

/// The reply must have the code, name the delegate, come in time, and leave the pipes free.
fn expect(reply: &Reply, code: i64, position: usize, cell: &str) {
    // Three seconds for the delegate, two for a busy file, as much for undoing it, and a busy machine.
    assert!(reply.output.elapsed < Duration::from_secs(20), "{cell} took {:?}", reply.output.elapsed);
    if code == 0 {
        return reply.done();
    }
    reply.fails_with(code, &[&program(position), &ifname(position), &network(position)]);
}

fn cell(pod: &Pod<'_>, before: &Traces, row: &Row, command: usize, position: usize) {
    let name = ["ADD", "CHECK", "DEL"][command];
    let cell = format!("{}: {name} at position {position}", row.name);
    let (world, conf, code) = (pod.world, config(), row.codes[command]);
    ground::set_deadlines(world, if row.slow { 3 } else { 30 }, 30, 60);
    if name == "ADD" {
        let fault = Applied::apply(world, row, name, code, position);
        world.sh(&format!("rm -f {NOTES}"));
        let reply = pod.add(&conf);
        expect(&reply, code, position, &cell);
        fault.heal();
        if code != 0 {
            nothing_left(world, before, &pod.netns, &format!("{cell}, after the failed ADD"));
            if position > 0 {
                let notes = world.read(NOTES);
                let first = notes.lines().find(|line| line.starts_with("net0 "));
                assert_eq!(
                    first.map(str::trim),
                    Some("net0 default via 10.90.0.1 dev eth0"),
                    "{cell}, when the first delegate was deleted"
                );
            }
        } else {
            let owner = via(&conf::gateway(1, conf::Family::V4), "net1", 0);
            assert_eq!(defaults(world, &pod.netns, conf::Family::V4), [owner], "{cell}");
        }
    } else {
        let result = pod.add(&conf).result();
        let fault = Applied::apply(world, row, name, code, position);
        let all = made(world);
        if name == "CHECK" {
            expect(&pod.check(&conf, &result), code, position, &cell);
            assert_eq!(made(world), all, "{cell}");
        } else {
            expect(&pod.del(&conf, Some(&result)), code, position, &cell);
            let own = format!("{}.{}", pod.id, network(position));
            assert!(made(world).iter().all(|file| *file == own && code != 0), "{cell}: {:?}", made(world));
        }
        fault.heal();
    }
    pod.del(&conf, None).done();
    nothing_left(world, before, &pod.netns, &format!("{cell}, after the last DEL"));
}

#[test]
fn a_delegate_fails() {
    let mut seed = Seed::of_test("delegates");
    let mut cells = Vec::new();
    for row in table() {
        let row = std::sync::Arc::new(row);
        let only = seed.below(POSITIONS.len());
        for command in 0..3 {
            for position in POSITIONS {
                if !row.slow || position == only || sample::soak() {
                    cells.push((row.clone(), command, position));
                }
            }
        }
    }
    let count = cells.len();
    let queue = std::sync::Mutex::new(cells.into_iter());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let world = ground::world();
                let pod = ground::pod(&world, "pod");
                let conf = config();
                ground::set_deadlines(&world, 30, 30, 60);
                pod.add(&conf).result();
                pod.del(&conf, None).done();
                let before = Traces::of(&world, Some(&pod.netns));
                loop {
                    let Some((row, command, position)) = queue.lock().expect("the cells").next() else {
                        break;
                    };
                    cell(&pod, &before, &row, command, position);
                }
            });
        }
    });
    sample::tell(&format!("delegates: {count} cells of fault, command and position"));
}
