//! Everything that can happen to catena's files: no space, no inodes, read-only, another user's, damaged. The expected
//! codes of ADD, CHECK, DEL and STATUS are written down by hand; 0 is success. Whatever happened, a later DEL cleans
//! all.

use catena_tests::ground::{self, POSITIONS, made, nothing_left};
use catena_tests::runtime::{Pod, Reply};
use catena_tests::sample;
use catena_tests::scripted;
use catena_tests::state::Traces;
use catena_tests::world::{World, finish};
use serde_json::json;

/// What the scripts of the table may name.
const NAMES: &str = "state=/var/lib/catena/state; records=/var/lib/catena/records; stem=$state/id-pod@outer@meta@eth0
cache=/var/lib/cni/catena; status=/run/catena
modules=/var/lib/catena/modules; entry=$state/id-pod@outer@meta@eth0.json; result=$cache/results/net1-id-pod-net1
fill() { head -c 10000000 /dev/zero >$1/fill 2>/dev/null || true; }
take() { i=0; while [ $i -lt 100 ] && touch $1/fill$i 2>/dev/null; do i=$((i+1)); done; }
";

struct Row {
    name: &'static str,
    /// Before anything.
    prepare: &'static str,
    apply: &'static str,
    heal: &'static str,
    /// ADD, CHECK, DEL, STATUS.
    codes: [i64; 4],
    /// A word of each error.
    word: &'static str,
    /// Whether the delegates' DEL is done all the same where DEL says that it failed.
    deletes: bool,
}

const DONE: bool = true;
const NOT_DONE: bool = false;

const fn row(
    name: &'static str,
    prepare: &'static str,
    apply: &'static str,
    heal: &'static str,
    codes: [i64; 4],
    word: &'static str,
) -> Row {
    Row { name, prepare, apply, heal, codes, word, deletes: DONE }
}

/// A row whose DEL fails, and what it has done by then.
const fn failing(deletes: bool, row: Row) -> Row {
    Row { deletes, ..row }
}

/// A file system of its own for a folder, small.
const STATE: &str = "mkdir -p $state; mount -t tmpfs -o mode=0700,size=128k,nr_inodes=30 none $state";
const CACHE: &str = "mkdir -p $cache/results; mount -t tmpfs -o mode=0700,size=128k none $cache/results";
const STATUS: &str =
    "mkdir -p $status; mount -t tmpfs -o mode=0700,size=128k none $status; mkdir $status/status";
const NODE: &str = "echo {} >/etc/catena/node.json";
const LOG: &str = "mkdir -p /var/log; mount -t tmpfs -o size=64k none /var/log";
/// A file system for recordings; the node wants them. What it has no room for, no row leaves behind.
const RECORDS: &str = "mkdir -p $records; mount -t tmpfs -o mode=0700,size=64k none $records; fill $records\n\
    echo '{\"record\": {\"maxBytes\": 1000000, \"maxAgeHours\": 1}}' >/etc/catena/node.json";
/// The pass stage in place of result-conversion.
const MODULE: &str =
    "/opt/catena/catenactl install result-conversion /opt/catena/stages/pass.wasm >/dev/null";

const TABLE: &[Row] = &[
    row("state full", STATE, "fill $state", "rm $state/fill", [5, 0, 0, 0], "space"),
    row("state without inodes", STATE, "take $state", "rm $state/fill*", [5, 0, 0, 0], "space"),
    // The entry stays, and is told of.
    failing(
        DONE,
        row(
            "state read-only",
            STATE,
            "mount -o remount,ro $state",
            "mount -o remount,rw $state",
            [5, 0, 5, 0],
            "read-only",
        ),
    ),
    failing(
        DONE,
        row(
            "state read-only and without locks",
            STATE,
            "rm -f $state/*.lock; mount -o remount,ro $state",
            "mount -o remount,rw $state",
            [5, 5, 5, 0],
            "read-only",
        ),
    ),
    // stdin tells all, and nothing is left to be removed.
    row(
        "state read-only and empty",
        STATE,
        "rm -f $state/id-*; mount -o remount,ro $state",
        "mount -o remount,rw $state",
        [5, 5, 0, 0],
        "read-only",
    ),
    row(
        "no state, and nowhere to make one",
        "mkdir -p $state; mount -t tmpfs -o mode=0755,size=128k none /var/lib/catena",
        "rm -rf $state; mount -o remount,ro /var/lib/catena",
        "mount -o remount,rw /var/lib/catena",
        [5, 5, 0, 5],
        "read-only",
    ),
    row(
        "state without inodes and locks",
        STATE,
        "rm -f $state/*.lock; take $state",
        "rm $state/fill*",
        [5, 5, 0, 0],
        "space",
    ),
    failing(
        NOT_DONE,
        row(
            "state another user's",
            "mkdir -p -m 0700 $state",
            "chown 1000 $state",
            "chown 0 $state",
            [5, 5, 5, 5],
            "another user",
        ),
    ),
    failing(
        NOT_DONE,
        row(
            "state writable by others",
            "mkdir -p -m 0700 $state",
            "chmod 0777 $state",
            "chmod 0700 $state",
            [5, 5, 5, 5],
            "by others",
        ),
    ),
    failing(
        NOT_DONE,
        row(
            "state no folder",
            "mkdir -p /var/lib/catena",
            "if [ -d $state ]; then mv $state $state.away; fi; touch $state",
            "rm $state; if [ -d $state.away ]; then mv $state.away $state; fi",
            [5, 5, 5, 5],
            "not a folder",
        ),
    ),
    row("cache full", CACHE, "fill $cache/results", "rm $cache/results/fill", [5, 0, 0, 0], "space"),
    failing(
        DONE,
        row(
            "cache read-only",
            CACHE,
            "mount -o remount,ro $cache/results",
            "mount -o remount,rw $cache/results",
            [5, 0, 5, 0],
            "read-only",
        ),
    ),
    row("status full", STATUS, "fill $status", "rm $status/fill", [5, 0, 0, 0], "space"),
    failing(
        DONE,
        row(
            "status read-only",
            STATUS,
            "mount -o remount,ro $status",
            "mount -o remount,rw $status",
            [5, 0, 5, 0],
            "read-only",
        ),
    ),
    failing(
        DONE,
        row(
            "cache another user's",
            "mkdir -p -m 0700 $cache/results",
            "chown 1000 $cache/results",
            "chown 0 $cache/results",
            [5, 0, 5, 0],
            "owner is user 1000",
        ),
    ),
    failing(
        DONE,
        row(
            "cache writable by others",
            "mkdir -p -m 0700 $cache/results",
            "chmod 0777 $cache/results",
            "chmod 0700 $cache/results",
            [5, 0, 5, 0],
            "others may write",
        ),
    ),
    failing(
        DONE,
        row(
            "cache a link",
            "mkdir -p -m 0700 $cache/results /tmp/elsewhere",
            "mv $cache/results $cache/away; ln -s /tmp/elsewhere $cache/results",
            "if [ -d $cache/away ]; then rm $cache/results; mv $cache/away $cache/results; fi",
            [5, 0, 5, 0],
            "not a folder",
        ),
    ),
    failing(
        DONE,
        row(
            "status another user's",
            "mkdir -p -m 0700 $status/status",
            "chown 1000 $status/status",
            "chown 0 $status/status",
            [5, 0, 5, 0],
            "owner is user 1000",
        ),
    ),
    failing(
        DONE,
        row(
            "status writable by others",
            "mkdir -p -m 0700 $status/status",
            "chmod 0777 $status/status",
            "chmod 0700 $status/status",
            [5, 0, 5, 0],
            "others may write",
        ),
    ),
    row("entry garbage", "", "if [ -e $entry ]; then echo garbage >$entry; fi", "", [0, 5, 0, 0], "damaged"),
    row("entry empty", "", "if [ -e $entry ]; then : >$entry; fi", "", [0, 5, 0, 0], "damaged"),
    row(
        "entry cut off in its first line",
        "",
        "if [ -e $entry ]; then truncate -s 300 $entry; fi",
        "",
        [0, 5, 0, 0],
        "damaged",
    ),
    row(
        "entry cut off in its last line",
        "",
        "if [ -e $entry ]; then truncate -s -5 $entry; fi",
        "",
        [0, 5, 0, 0],
        "never finished",
    ),
    row(
        "entry a link",
        "",
        "if [ -e $entry ]; then mv $entry /run/scripted/; ln -s /run/scripted/${entry##*/} $entry; fi",
        "",
        [0, 5, 0, 0],
        "no regular file",
    ),
    row(
        "entry a link to nothing",
        "",
        "if [ -e $entry ]; then ln -sf /absent $entry; fi",
        "",
        [0, 5, 0, 0],
        "no regular file",
    ),
    row(
        "entry a folder",
        "",
        "if [ -e $entry ]; then rm $entry; mkdir $entry; fi",
        "",
        [0, 5, 0, 0],
        "no regular file",
    ),
    // What is in it is nobody's to remove.
    failing(
        DONE,
        row(
            "entry a folder with files",
            "",
            "if [ -e $entry ]; then rm $entry; mkdir $entry; touch $entry/file; fi",
            "rm -f $entry/file",
            [5, 5, 5, 0],
            "id-pod",
        ),
    ),
    row(
        "entry a fifo",
        "",
        "if [ -e $entry ]; then rm $entry; mkfifo $entry; fi",
        "",
        [0, 5, 0, 0],
        "no regular file",
    ),
    row(
        "entry a device",
        "",
        // As the root of a user namespace there are none.
        "if [ -e $entry ]; then rm $entry; mknod $entry c 1 5 || mkfifo $entry; fi",
        "",
        [0, 5, 0, 0],
        "no regular file",
    ),
    row("entry gone", "", "rm -f $entry", "", [0, 3, 0, 0], "ledger"),
    row(
        "entry another user's",
        "",
        "if [ -e $entry ]; then chown 1000 $entry; fi",
        "",
        [0, 5, 0, 0],
        "another user",
    ),
    row(
        "entry writable by others",
        "",
        "if [ -e $entry ]; then chmod 0666 $entry; fi",
        "",
        [0, 5, 0, 0],
        "by others",
    ),
    row(
        "entry of a later schema",
        "",
        "if [ -e $entry ]; then sed -i '1s/\"schema\":1/\"schema\":99/' $entry; fi",
        "",
        [0, 5, 0, 0],
        "99",
    ),
    row("cached result garbage", "", "if [ -e $result ]; then echo { >$result; fi", "", [0, 0, 0, 0], ""),
    row("cached result gone", "", "rm -f $result", "", [0, 0, 0, 0], ""),
    row(
        "cached result another user's",
        "",
        "if [ -e $result ]; then chown 1000 $result; fi",
        "",
        [0, 0, 0, 0],
        "",
    ),
    row(
        "artifact garbage",
        MODULE,
        "f=$(ls $modules/*.cwasm); cp -p $f /tmp/keep; head -c 4096 /dev/zero | dd of=$f conv=notrunc 2>/dev/null",
        "cp -p /tmp/keep $(ls $modules/*.cwasm); rm /tmp/keep",
        [104, 0, 0, 50],
        "artifact",
    ),
    row(
        "artifact cut off",
        MODULE,
        "f=$(ls $modules/*.cwasm); cp -p $f /tmp/keep; truncate -s 100 $f",
        "cp -p /tmp/keep $(ls $modules/*.cwasm); rm /tmp/keep",
        [104, 0, 0, 50],
        "artifact",
    ),
    row(
        "artifact another user's",
        MODULE,
        "chown 1000 $modules/*.cwasm",
        "chown 0 $modules/*.cwasm",
        [104, 0, 0, 50],
        "cwasm",
    ),
    row(
        "artifact writable by others",
        MODULE,
        "chmod 0666 $modules/*.cwasm",
        "chmod 0600 $modules/*.cwasm",
        [104, 0, 0, 50],
        "cwasm",
    ),
    row(
        "artifact gone",
        MODULE,
        "mv $modules/*.cwasm /tmp/",
        "mv /tmp/*.cwasm $modules/",
        [104, 0, 0, 50],
        "artifact",
    ),
    row(
        "artifact a link",
        MODULE,
        "f=$(ls $modules/*.cwasm); mv $f /tmp/keep; ln -s /tmp/keep $f",
        "mv /tmp/keep $(ls $modules/*.cwasm)",
        [104, 0, 0, 50],
        "cwasm",
    ),
    row(
        "modules on a file system without exec",
        "mkdir -p $modules; mount -t tmpfs -o noexec,mode=0755 none $modules; mount -o remount,exec $modules\n\
         /opt/catena/catenactl install result-conversion /opt/catena/stages/pass.wasm >/dev/null",
        "mount -o remount,noexec $modules",
        "mount -o remount,exec $modules",
        [104, 0, 0, 50],
        "cwasm",
    ),
    row(
        "modules writable by others",
        MODULE,
        "chmod 0777 $modules",
        "chmod 0755 $modules",
        [104, 104, 0, 50],
        "modules",
    ),
    row(
        "lock.json garbage",
        MODULE,
        "cp -p $modules/lock.json /tmp/keep; echo { >$modules/lock.json",
        "mv /tmp/keep $modules/lock.json",
        [6, 6, 0, 50],
        "lock.json",
    ),
    // What the node says is unknown then: nothing is made by guesses, and what is there can go.
    row(
        "node.json another user's",
        NODE,
        "chown 1000 /etc/catena/node.json",
        "chown 0 /etc/catena/node.json",
        [104, 104, 0, 50],
        "owner is user 1000",
    ),
    row(
        "node.json writable by others",
        NODE,
        "chmod 0666 /etc/catena/node.json",
        "chmod 0644 /etc/catena/node.json",
        [104, 104, 0, 50],
        "others may write",
    ),
    row(
        "node.json a link",
        NODE,
        "mv /etc/catena/node.json /tmp/keep; ln -s /tmp/keep /etc/catena/node.json",
        "mv /tmp/keep /etc/catena/node.json",
        [104, 104, 0, 50],
        "symbolic link",
    ),
    row(
        "node.json a fifo",
        NODE,
        "rm /etc/catena/node.json; mkfifo /etc/catena/node.json",
        "rm /etc/catena/node.json; echo {} >/etc/catena/node.json",
        [104, 104, 0, 50],
        "regular file",
    ),
    row(
        "node.json garbage",
        NODE,
        "echo { >/etc/catena/node.json",
        "echo {} >/etc/catena/node.json",
        [6, 6, 0, 50],
        "node.json",
    ),
    row(
        "the node's folder another user's",
        NODE,
        "chown 1000 /etc/catena",
        "chown 0 /etc/catena",
        [104, 104, 0, 50],
        "owner is user 1000",
    ),
    // What was done stands, even where telling of it fails.
    row("log full", LOG, "fill /var/log", "rm /var/log/fill", [0, 0, 0, 0], ""),
    row(
        "log read-only",
        LOG,
        "mount -o remount,ro /var/log",
        "mount -o remount,rw /var/log",
        [5, 5, 0, 5],
        "log file",
    ),
    row(
        "log a link",
        "mkdir -p /var/log",
        "rm -f /var/log/catena.log; ln -s /tmp/log /var/log/catena.log",
        "rm /var/log/catena.log",
        [5, 5, 0, 5],
        "log file",
    ),
    row(
        "log a fifo",
        "mkdir -p /var/log",
        "rm -f /var/log/catena.log; mkfifo /var/log/catena.log",
        "rm /var/log/catena.log",
        [5, 5, 0, 5],
        "log file",
    ),
    // A mark only matters where a DEL has failed.
    row(
        "marks read-only",
        "mkdir -p $state/failed; chmod 0700 $state; mount -t tmpfs -o mode=0700 none $state/failed",
        "mount -o remount,ro $state/failed",
        "mount -o remount,rw $state/failed",
        [0, 0, 0, 0],
        "",
    ),
    row(
        "marks another user's",
        "mkdir -p $state/failed; chmod 0700 $state",
        "chown 1000 $state/failed",
        "chown 0 $state/failed",
        [0, 0, 0, 0],
        "",
    ),
    // In catena's own folder nobody else can have put them there, and nothing is read from them.
    row(
        "lock another user's",
        "",
        "mkdir -p -m 0700 $state; touch $stem.lock; chown 1000 $stem.lock",
        "",
        [0, 0, 0, 0],
        "",
    ),
    row(
        "children's lock another user's",
        "",
        "mkdir -p -m 0700 $state; touch $stem.children; chown 1000 $stem.children",
        "",
        [0, 0, 0, 0],
        "",
    ),
    // A recording that cannot be kept stops nothing.
    row("recordings full", RECORDS, "true", "true", [0, 0, 0, 0], ""),
    row(
        "recordings read-only",
        RECORDS,
        "mount -o remount,ro $records",
        "mount -o remount,rw $records",
        [0, 0, 0, 0],
        "",
    ),
    row("recordings another user's", RECORDS, "chown 1000 $records", "chown 0 $records", [0, 0, 0, 0], ""),
];

fn run(world: &World, script: &str) {
    world.sh(&format!("{NAMES}{script}"));
}

fn expect(reply: &Reply, row: &Row, command: usize, cell: &str) {
    match row.codes[command] {
        0 => reply.done(),
        code => {
            let failure = reply.failure();
            assert_eq!(failure.code, code, "{cell}: {failure:?}");
            assert!(
                failure.text().to_lowercase().contains(row.word),
                "{cell}: no {:?}: {failure:?}",
                row.word
            );
        }
    }
}

/// One world for all commands of a row.
fn all_commands(row: &Row) {
    let world = ground::world();
    run(&world, row.prepare);
    let pod = ground::pod(&world, "pod");
    let mut conf = ground::config();
    if row.name.starts_with("log") {
        conf["logFile"] = json!("/var/log/catena.log");
    }
    let result = pod.add(&conf).result();
    pod.del(&conf, Some(&result)).done();
    let before = Traces::of(&world, Some(&pod.netns));
    let cell = |command: &str| format!("{}: {command}", row.name);
    let clean = |pod: &Pod<'_>, when: &str| {
        run(&world, row.heal);
        pod.del(&conf, None).done();
        nothing_left(&world, &before, &pod.netns, &format!("{when}, after the last DEL"));
    };

    // ADD of what was never there, or for an entry's damage of what is there.
    if row.name.starts_with("entry") || row.name.starts_with("cached") {
        pod.add(&conf).result();
        // A live attachment is not added again, whatever became of its cached result.
        let own = row.name.starts_with("cached");
        run(&world, row.apply);
        if own {
            pod.add(&conf).fails_with(4, &["already attached"]);
        } else {
            expect(&pod.add(&conf), row, 0, &cell("ADD"));
            // What was there is deleted before it is added again.
            let expected = if row.codes[0] == 0 { 3 } else { 0 };
            assert_eq!(made(&world).len(), expected, "{}", cell("ADD"));
        }
    } else {
        run(&world, row.apply);
        expect(&pod.add(&conf), row, 0, &cell("ADD"));
        let expected = if row.codes[0] == 0 { 3 } else { 0 };
        assert_eq!(made(&world).len(), expected, "{}", cell("ADD"));
    }
    clean(&pod, &cell("ADD"));

    let result = pod.add(&conf).result();
    let there = made(&world);
    run(&world, row.apply);
    expect(&pod.check(&conf, &result), row, 1, &cell("CHECK"));
    assert_eq!(made(&world), there, "{}", cell("CHECK"));
    let mut newest = conf.clone();
    newest["cniVersion"] = json!("1.1.0");
    expect(&pod.call("catena", "STATUS", &newest), row, 3, &cell("STATUS"));
    clean(&pod, &cell("CHECK"));

    let result = pod.add(&conf).result();
    run(&world, row.apply);
    expect(&pod.del(&conf, Some(&result)), row, 2, &cell("DEL"));
    let expected = if row.deletes { Vec::new() } else { there };
    assert_eq!(made(&world), expected, "{}", cell("DEL"));
    clean(&pod, &cell("DEL"));
}

#[test]
fn a_file_operation_fails() {
    let queue = std::sync::Mutex::new(TABLE.iter());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(row) = queue.lock().expect("the rows").next() else { break };
                    all_commands(row);
                }
            });
        }
    });
    sample::tell(&format!("storage: {} rows with ADD, CHECK, DEL and STATUS", TABLE.len()));
}

/// What stops nothing is told all the same.
#[test]
fn what_could_not_be_kept_is_told() {
    let world = ground::world();
    let pod = ground::pod(&world, "pod");
    let mut conf = ground::config();
    conf["logFile"] = json!("/var/log/catena.log");
    run(&world, RECORDS);
    world.sh("mkdir -p /var/log");
    pod.add(&conf).result();
    let log = world.read("/var/log/catena.log");
    assert!(log.contains("recording: ") && log.contains("No space left"), "{log}");
    run(&world, &format!("{LOG}; touch /var/log/catena.log; fill /var/log"));
    let reply = pod.del(&conf, None);
    reply.done();
    assert!(reply.output.stderr.contains("No space left"), "{:?}", reply.output.stderr);
    assert_eq!(made(&world), Vec::<String>::new());
}

/// A DEL or an undoing that fails where it cannot be marked to be tried again: both are told, and a later DEL cleans all.
#[test]
fn a_failure_that_cannot_be_marked() {
    for (name, apply, heal) in [
        ("read-only", "mount -o remount,ro $state/failed", "mount -o remount,rw $state/failed"),
        ("another user's", "chown 1000 $state/failed", "chown 0 $state/failed"),
        (
            "a link",
            "umount $state/failed; rmdir $state/failed; ln -s /tmp/away $state/failed",
            "rm $state/failed",
        ),
    ] {
        let world = ground::world();
        run(
            &world,
            "mkdir -p $state/failed /tmp/away; chmod 0700 $state; mount -t tmpfs -o mode=0700 none $state/failed\n\
             touch /tmp/away/${stem##*/}",
        );
        let pod = ground::pod(&world, "pod");
        let conf = ground::config();
        let before = Traces::of(&world, Some(&pod.netns));
        run(&world, apply);
        for (command, position) in
            POSITIONS.map(|position| ("DEL", position)).into_iter().chain([("ADD", 0), ("ADD", 1)])
        {
            let cell = format!("{command} at position {position}, marks {name}");
            let mut script = ground::script(position);
            script["DEL"]["sh"] = json!("exit 3");
            let reply = if command == "DEL" {
                pod.add(&conf).result();
                scripted::change(&world, &ground::network(position), &script);
                pod.del(&conf, None)
            } else {
                scripted::change(&world, &ground::network(position), &script);
                let mut last = ground::script(2);
                last["ADD"]["sh"] = json!("exit 3");
                scripted::change(&world, "net2", &last);
                pod.add(&conf)
            };
            let failure = reply.failure();
            assert_eq!(failure.code, 110, "{cell}: {failure:?}");
            assert!(failure.details.contains("state/failed"), "{cell}: {failure:?}");
            assert_eq!(made(&world), [format!("id-pod.net{position}")], "{cell}");
            for at in POSITIONS {
                scripted::change(&world, &ground::network(at), &ground::script(at));
            }
            pod.del(&conf, None).done();
            assert_eq!(made(&world), Vec::<String>::new(), "{cell}");
        }
        run(&world, heal);
        nothing_left(&world, &before, &pod.netns, name);
    }
}

/// Without an entry in the ledger DEL gives delegates what the cache has. A result that cannot be had stops no delegate.
#[test]
fn a_cached_result_that_the_ledger_has_not() {
    const LOG: &str = "/var/log/catena.log";
    let world = ground::world();
    world.sh("mkdir -p /var/log");
    let pod = ground::pod(&world, "pod");
    let mut conf = ground::config();
    conf["logFile"] = json!(LOG);
    pod.add(&conf).result();
    pod.del(&conf, None).done();
    let before = Traces::of(&world, Some(&pod.netns));
    for (name, apply, note, handed_on) in [
        ("whole", "true", None, true),
        ("garbage", "echo { >$file", Some("is damaged"), false),
        ("a list", "echo [] >$file", Some("is damaged"), false),
        ("empty", ": >$file", Some("is damaged"), false),
        ("cut off", "truncate -s -20 $file", Some("is damaged"), false),
        ("gone", "rm $file", None, false),
        // The folder is catena's alone, so nobody else has put it there.
        ("another user's", "chown 1000 $file", None, true),
        ("a link", "ln -sf /nowhere $file", Some("cannot be read"), false),
        ("a folder", "rm $file; mkdir $file", Some("cannot be read"), false),
        ("a fifo", "rm $file; mkfifo $file", Some("no regular file"), false),
        ("a device", "rm $file; mknod $file c 1 5 || mkfifo $file", Some("no regular file"), false),
    ] {
        for position in POSITIONS {
            let cell = format!("{name} at position {position}");
            let (network, ifname) = (ground::network(position), ground::ifname(position));
            pod.add(&conf).result();
            run(&world, &format!("rm $entry; file=$cache/results/{network}-id-pod-{ifname}; {apply}"));
            world.sh(&format!("rm -f {LOG} /run/scripted/calls.jsonl"));
            let reply = pod.del(&conf, None);
            if name == "a folder" {
                reply.fails_with(5, &["cache file"]);
                run(&world, &format!("rmdir $cache/results/{network}-id-pod-{ifname}"));
            } else {
                reply.done();
            }
            let log = world.read(LOG);
            assert_eq!(log.contains("cache file"), note.is_some() || name == "a folder", "{cell}: {log}");
            assert!(log.contains(note.unwrap_or_default()), "{cell}: {log}");
            assert_eq!(made(&world), Vec::<String>::new(), "{cell}");
            let calls = scripted::calls(&world);
            let order: Vec<String> = POSITIONS.iter().rev().map(|at| ground::network(*at)).collect();
            let names: Vec<&str> =
                calls.iter().map(|call| call["stdin"]["name"].as_str().unwrap_or_default()).collect();
            assert_eq!(names, order, "{cell}");
            for (call, at) in calls.iter().zip(POSITIONS.iter().rev()) {
                let expected = handed_on || *at != position;
                assert_eq!(call["stdin"].get("prevResult").is_some(), expected, "{cell}: {call}");
            }
            pod.del(&conf, None).done();
            nothing_left(&world, &before, &pod.netns, &cell);
        }
    }
}

/// Without rights: every command says what it lacks, and a later DEL with them cleans all.
#[test]
fn called_by_a_user_without_rights() {
    for (name, wrap) in [
        ("a user", vec!["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"]),
        ("the root of a user namespace", vec!["unshare", "--user", "--map-root-user"]),
    ] {
        let world = ground::world();
        let pod = ground::pod(&world, "pod");
        let conf = ground::config();
        let before = Traces::of(&world, Some(&pod.netns));
        let call = |command: &str| {
            let mut process = world.command(wrap[0]);
            process.args(&wrap[1..]).arg("/opt/cni/bin/catena");
            pod.describe(&mut process, command);
            let output = finish(process, conf.to_string().as_bytes());
            Reply { what: format!("{command} by {name}"), output }
        };
        let refused = |command: &str| {
            let failure = call(command).failure();
            assert!([5, 8, 104].contains(&failure.code), "{command} by {name}: {failure:?}");
            assert!(
                ["permission", "no right", "another user", "not trusted"]
                    .iter()
                    .any(|word| failure.text().to_lowercase().contains(word)),
                "{command} by {name}: {failure:?}"
            );
        };
        refused("ADD");
        nothing_left(&world, &before, &pod.netns, &format!("after a refused ADD by {name}"));
        let result = pod.add(&conf).result();
        let there = made(&world);
        refused("CHECK");
        pod.check(&conf, &result).done();
        refused("DEL");
        assert_eq!(made(&world), there, "after a refused DEL by {name}");
        pod.del(&conf, Some(&result)).done();
        nothing_left(&world, &before, &pod.netns, "after DEL");
    }
}
