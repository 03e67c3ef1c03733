//! Running delegates for real: what libcni does not do, or does not do well.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catena::delegate::{
    Attachment, Chain, DelegateError, Escort, Exec, Search, Spawned, Versions, unrecorded,
};
use catena_cni::json::Map;
use catena_cni::list::NetworkList;
use serde_json::{Value, json};
use tempfile::TempDir;

struct Node {
    folder: TempDir,
}

impl Node {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Installs a plugin; `@` in the script is the folder.
    fn plugin(&self, name: &str, script: &str) {
        let text = format!("#!/bin/sh\n{}\n", script.replace('@', self.folder.path().to_str().unwrap()));
        // By rename, as a new file: then it is never open for writing when it is run.
        let path = self.path(&format!("{name}.new"));
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        fs::rename(path, self.path(name)).unwrap();
    }

    fn exec(&self) -> Exec<'static> {
        Exec {
            env: std::env::vars_os().collect(),
            search: Search::new([], self.folder.path().to_str().unwrap()),
            versions: Arc::new(Versions::at(&self.path("run/versions.json"))),
            network: "outer".to_owned(),
            deadline: Duration::from_secs(20),
            until: None,
            output_limit: 1024 * 1024,
            inherit: None,
            observer: None,
        }
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }
}

fn chain(version: &str, plugins: &[&str]) -> Chain {
    let plugins: Vec<Value> = plugins.iter().map(|name| json!({ "type": name })).collect();
    let list = json!({ "cniVersion": version, "name": "net1", "plugins": plugins });
    Chain::new(NetworkList::from_value(&list).unwrap())
}

fn with_attachment<T>(act: impl FnOnce(&Attachment<'_>) -> T) -> T {
    act(&Attachment {
        container_id: "c1",
        ifname: "eth0",
        netns: Some("/run/netns/x"),
        args: "",
        capability_args: &Map::new(),
    })
}

fn add(node: &Node, chain: &Chain) -> Result<Value, DelegateError> {
    with_attachment(|at| chain.add(&node.exec(), at, &mut unrecorded))
}

fn gone_within(pid: i32, limit: Duration) -> bool {
    let began = Instant::now();
    while began.elapsed() < limit {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // A zombie is somebody else's to reap.
        if stat.is_empty() || stat.contains(") Z ") {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

/// A plugin of an old library: code 1 for a version that it does not list.
const OLD: &str = r#"
request=$(cat); echo "$CNI_COMMAND ${0##*/} $request" >> @/calls
[ $CNI_COMMAND = VERSION ] && echo '{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"]}' && exit
case $request in *'"cniVersion":"1.1.0"'*) echo '{"code":1,"msg":"incompatible CNI versions"}'; exit 1;; esac
[ $CNI_COMMAND = ADD ] && echo '{"cniVersion":"1.0.0","ips":[{"address":"192.0.2.5/24"}]}'
exit 0"#;
/// A plugin that takes whatever version it is asked in.
const NEW: &str = r#"
request=$(cat); echo "$CNI_COMMAND ${0##*/} $request" >> @/calls
[ $CNI_COMMAND = ADD ] && echo '{"cniVersion":"1.1.0","ips":[{"address":"192.0.2.5/24"}]}'
exit 0"#;

/// A plugin that lists 1.1.0 alone.
const NEWEST: &str = r#"
request=$(cat); echo "$CNI_COMMAND ${0##*/} $request" >> @/calls
[ $CNI_COMMAND = VERSION ] && echo '{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}'
exit 0"#;

fn commands(node: &Node) -> Vec<String> {
    let words = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let commands = node.read("calls").lines().map(words).collect();
    fs::write(node.path("calls"), "").unwrap();
    commands
}

#[test]
fn a_delegate_is_asked_in_a_version_that_it_lists() {
    let node = Node::new();
    node.plugin("old", OLD);
    node.plugin("new", NEW);
    let list = chain("1.1.0", &["old", "new", "old"]);

    assert_eq!(add(&node, &list).unwrap()["cniVersion"], "1.0.0");
    let calls = node.read("calls");
    let third = calls.lines().last().unwrap();
    assert!(third.contains(r#""prevResult":{"cniVersion":"1.0.0""#), "converted for the third: {third}");
    assert_eq!(commands(&node), ["ADD old", "VERSION old", "ADD old", "ADD new", "ADD old"]);

    // Another process remembers: no call is wasted any more.
    add(&node, &list).unwrap();
    assert_eq!(commands(&node), ["ADD old", "ADD new", "ADD old"]);
    let prev = json!({ "cniVersion": "1.1.0", "interfaces": [{ "name": "eth0", "mtu": 1500 }] });
    with_attachment(|at| {
        list.check(&node.exec(), at, Some(&prev), &mut unrecorded).unwrap();
        assert!(list.del(&node.exec(), at, Some(&prev), &mut unrecorded).is_empty());
    });
    commands(&node);

    // STATUS and GC are for those that list 1.1.0; NEW answers nothing to VERSION, so it lists nothing.
    list.status(&node.exec()).unwrap();
    assert!(list.gc(&node.exec(), &[]).is_empty());
    assert_eq!(commands(&node), ["VERSION new", "VERSION new"]);

    // A new file is asked anew, and so is everything when the memory is damaged.
    node.plugin("old", &OLD.replace(r#""0.4.0","1.0.0""#, r#""0.4.0""#).replace(r#""1.1.0"'*"#, r#""1.'*"#));
    assert_eq!(add(&node, &chain("1.1.0", &["old"])).unwrap()["cniVersion"], "1.0.0");
    assert_eq!(commands(&node), ["ADD old", "VERSION old", "ADD old"]);
    fs::write(node.path("run/versions.json"), "{\"").unwrap();
    add(&node, &chain("1.1.0", &["old"])).unwrap();
    assert_eq!(commands(&node), ["ADD old", "VERSION old", "ADD old"]);
    serde_json::from_str::<Value>(&node.read("run/versions.json")).unwrap();
}

#[test]
fn what_a_list_disables_is_not_sent() {
    let node = Node::new();
    node.plugin("p", NEWEST);
    let cases: [(&str, &[&str]); 3] = [
        ("neither", &["CHECK p", "VERSION p", "GC p"]),
        ("disableCheck", &["VERSION p", "GC p"]),
        ("disableGC", &["CHECK p"]),
    ];
    for (key, sent) in cases {
        let list = json!({ "cniVersion": "1.1.0", "name": "net1", key: true, "plugins": [{ "type": "p" }] });
        let chain = Chain::new(NetworkList::from_value(&list).unwrap());
        with_attachment(|at| chain.check(&node.exec(), at, None, &mut unrecorded)).unwrap();
        assert!(chain.gc(&node.exec(), &[]).is_empty());
        assert_eq!(commands(&node), sent, "{key}");
        // What it lists is asked anew.
        drop(fs::remove_file(node.path("run/versions.json")));
    }
}

#[test]
fn a_version_that_no_common_one_replaces_is_an_error_with_both_sides() {
    let node = Node::new();
    node.plugin("old", OLD);
    let error = add(&node, &chain("0.3.1", &["old"]));
    assert!(error.is_ok(), "0.3.1 is not refused by the plugin: {error:?}");
    node.plugin("old", &OLD.replace("\"1.1.0\"", "\"0.3.1\"").replace("1.1.0", "0.3.1"));
    let error = add(&node, &chain("0.3.1", &["old"])).unwrap_err();
    assert_eq!(error.code(), 1);
    assert_eq!(
        error.to_string(),
        "delegate old for eth0 (ADD): it does not speak CNI 0.3.1; it lists 0.4.0, 1.0.0"
    );
    // Nonsense in answer to VERSION: the plugin's own refusal says more.
    node.plugin(
        "odd",
        r#"[ $CNI_COMMAND = VERSION ] && echo hello && exit; echo '{"code":1,"msg":"no"}'; exit 1"#,
    );
    let error = add(&node, &chain("1.1.0", &["odd"])).unwrap_err();
    assert_eq!((error.code(), error.to_string().as_str()), (1, "delegate odd for eth0 (ADD): no"));
}

#[test]
fn errors_come_through_with_the_name_of_the_delegate() {
    let node = Node::new();
    node.plugin("p", r#"echo '{"code":11,"msg":"pool is empty","details":"10.0.0.0/30"}'; exit 1"#);
    let error = add(&node, &chain("1.1.0", &["p"])).unwrap_err();
    assert_eq!(error.code(), 11);
    assert_eq!(error.to_string(), "delegate p for eth0 (ADD): pool is empty");
    assert_eq!(error.details(), Some("10.0.0.0/30"));

    for silent in [r#"{"code":11}"#, r#"{"code":11,"msg":""}"#, r#"{"code":11,"msg":null,"details":"d"}"#] {
        node.plugin("p", &format!("echo '{silent}'; exit 1"));
        let error = add(&node, &chain("1.1.0", &["p"])).unwrap_err();
        assert_eq!(error.code(), 11, "{silent}");
        let text = "delegate p for eth0 (ADD): it failed with code 11 and says nothing more";
        assert_eq!(error.to_string(), text, "{silent}");
        assert_eq!(error.details(), silent.contains("details").then_some("d"), "{silent}");
    }

    let error = add(&node, &chain("1.1.0", &["absent"])).unwrap_err();
    assert_eq!(error.code(), 7);
    let text = error.to_string();
    assert!(text.contains(node.folder.path().to_str().unwrap()), "{text}");
    assert!(!text.to_lowercase().contains("not found"), "{text}");
}

#[test]
fn the_request_waits_for_before_stdin() {
    let node = Node::new();
    node.plugin("p", "cat > @/got; echo '{}'");
    let list = chain("1.1.0", &["p"]);
    let mut seen: Option<Spawned> = None;
    with_attachment(|at| {
        list.add(&node.exec(), at, &mut |spawned: &Spawned| {
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(node.read("got"), "");
            assert!(Path::new(&format!("/proc/{}", spawned.pid)).exists());
            assert!(seen.replace(*spawned).is_none(), "once per process");
            Ok(())
        })
    })
    .unwrap();
    let spawned = seen.unwrap();
    assert_eq!(spawned.pid, spawned.pgid);
    assert!(spawned.start_time.unwrap() > 0);
    assert_ne!(node.read("got"), "");

    fs::remove_file(node.path("got")).unwrap();
    let mut pid = 0;
    let error = with_attachment(|at| {
        list.add(&node.exec(), at, &mut |spawned: &Spawned| {
            pid = spawned.pid;
            Err("the disk is full".to_owned())
        })
    })
    .unwrap_err();
    assert_eq!(error.code(), 5);
    assert!(error.to_string().contains("the disk is full"), "{error}");
    assert!(gone_within(pid, Duration::from_secs(2)));
    assert_eq!(node.read("got"), "");
}

/// Counts, and notes what a plugin had read by then.
struct Counting<'a> {
    node: &'a Node,
    spawned: usize,
    waited: Vec<usize>,
}

impl Escort for Counting<'_> {
    fn spawned(&mut self, _: &Spawned) -> Result<(), String> {
        self.spawned += 1;
        Ok(())
    }

    fn waiting(&mut self) {
        // It has the request, and needs a moment to write it down.
        std::thread::sleep(Duration::from_millis(200));
        self.waited.push(self.node.read("got").len());
    }
}

#[test]
fn there_is_time_once_a_process_has_all_of_its_request() {
    let node = Node::new();
    node.plugin("p", "cat >> @/got; echo '{}'");
    node.plugin("early", "echo '{}'");
    let mut list = chain("1.1.0", &["p", "early", "p"]);
    // More than a pipe takes.
    list.list.plugins[2].raw.insert("big".to_owned(), json!("x".repeat(300_000)));
    let mut escort = Counting { node: &node, spawned: 0, waited: Vec::new() };
    with_attachment(|at| list.add(&node.exec(), at, &mut escort)).unwrap();
    assert_eq!((escort.spawned, escort.waited.len()), (3, 3));
    assert!(escort.waited[0] < 300_000 && escort.waited[2] > 300_000, "{:?}", escort.waited);
}

#[test]
fn a_deadline_ends_the_whole_group() {
    let node = Node::new();
    node.plugin("p", "sleep 60 & echo $! > @/child; echo last words >&2; wait");
    let mut exec = node.exec();
    exec.deadline = Duration::from_millis(300);
    let error = with_attachment(|at| chain("1.1.0", &["p"]).add(&exec, at, &mut unrecorded)).unwrap_err();
    assert_eq!(error.code(), 111);
    assert_eq!(error.details(), Some("last words"));
    assert!(gone_within(node.read("child").trim().parse().unwrap(), Duration::from_secs(2)));

    // The end of the whole operation counts as well.
    exec.deadline = Duration::from_secs(20);
    exec.until = Some(Instant::now() + Duration::from_millis(200));
    let error = with_attachment(|at| chain("1.1.0", &["p"]).add(&exec, at, &mut unrecorded)).unwrap_err();
    assert_eq!(error.code(), 111);
}

#[test]
fn endless_output_ends_the_delegate_at_once() {
    let node = Node::new();
    node.plugin("p", "exec cat /dev/zero");
    let began = Instant::now();
    assert_eq!(add(&node, &chain("1.1.0", &["p"])).unwrap_err().code(), 110);
    assert!(began.elapsed() < Duration::from_secs(5));

    // Endless stderr only costs its own time.
    node.plugin("p", "head -c 3000000 /dev/zero >&2; echo end >&2; exit 1");
    let error = add(&node, &chain("1.1.0", &["p"])).unwrap_err();
    let details = error.details().unwrap();
    assert!(details.ends_with("end") && details.len() <= 64 * 1024, "{}", details.len());

    // What DEL writes is not looked at, however much it is.
    node.plugin("p", "head -c 3000000 /dev/zero; exit 0");
    let errors = with_attachment(|at| chain("1.1.0", &["p"]).del(&node.exec(), at, None, &mut unrecorded));
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn a_request_larger_than_a_pipe_gets_there() {
    let node = Node::new();
    node.plugin("p", "cat >&2; echo '{}'");
    node.plugin("q", "exec sleep 0.1; exit 0");
    let big = "x".repeat(700_000);
    for (plugin, ok) in [("p", true), ("q", false)] {
        let list = json!({ "cniVersion": "1.1.0", "name": "n", "plugins": [{ "type": plugin, "big": big }] });
        let chain = Chain::new(NetworkList::from_value(&list).unwrap());
        assert_eq!(add(&node, &chain).is_ok(), ok, "{plugin}: {:?}", add(&node, &chain));
    }
}

#[test]
fn children_hold_the_lock_that_they_inherit() {
    let node = Node::new();
    node.plugin(
        "p",
        "readlink /proc/$$/fd/* > @/fds; grep Sig /proc/self/status > @/signals; echo $CATENA_NESTED > @/nested
         sleep 1 > /dev/null 2>&1 < /dev/null & echo '{}'",
    );
    let lock = OpenOptions::new().create(true).truncate(true).write(true).open(node.path("lock")).unwrap();
    lock.lock().unwrap();
    let mut exec = node.exec();
    exec.inherit = Some(lock.as_fd());
    with_attachment(|at| chain("1.1.0", &["p"]).add(&exec, at, &mut unrecorded)).unwrap();
    drop(exec);
    drop(lock);

    let again = File::open(node.path("lock")).unwrap();
    assert!(matches!(again.try_lock(), Err(TryLockError::WouldBlock)), "the child has it");
    let began = Instant::now();
    while again.try_lock().is_err() {
        assert!(began.elapsed() < Duration::from_secs(5));
        std::thread::sleep(Duration::from_millis(20));
    }
    let locks = || node.read("fds").lines().filter(|target| target.ends_with("/lock")).count();
    assert_eq!(locks(), 1);
    let _open_here = File::open(node.path("lock")).unwrap();
    add(&node, &chain("1.1.0", &["p"])).unwrap();
    assert_eq!(locks(), 0, "only the lock is inherited, and only when it is to be");
    let signals = node.read("signals");
    let mask = |name: &str| {
        let line = signals.lines().find(|line| line.starts_with(name)).unwrap();
        u64::from_str_radix(line.split_ascii_whitespace().nth(1).unwrap(), 16).unwrap()
    };
    assert_eq!(mask("SigBlk"), 0, "{signals}");
    assert_eq!(mask("SigIgn") & (1 << 12), 0, "SIGPIPE: {signals}");
    assert_eq!(node.read("nested").trim(), "outer");
}

/// Not a test of its own: the process that `a_delegate_dies_with_us` kills.
#[test]
fn victim() {
    let Some(folder) = std::env::var_os("CATENA_TEST_VICTIM") else { return };
    let node = Node { folder: TempDir::new().unwrap() };
    let mut exec = node.exec();
    exec.search = Search::new([PathBuf::from(folder)], "");
    // Returns only if the delegate ends by itself.
    let done = with_attachment(|at| chain("1.1.0", &["p"]).add(&exec, at, &mut unrecorded));
    panic!("{done:?}");
}

#[test]
fn a_delegate_dies_with_us() {
    let node = Node::new();
    node.plugin("p", "echo $$ > @/pid.new; mv @/pid.new @/pid; exec sleep 60");
    let mut victim = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim"])
        .env("CATENA_TEST_VICTIM", node.folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while node.read("pid").is_empty() {
        assert!(began.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(10));
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(gone_within(node.read("pid").trim().parse().unwrap(), Duration::from_secs(2)));
}

#[test]
fn several_threads_run_delegates_at_once() {
    let node = Node::new();
    node.plugin("p", "cat > /dev/null; sleep 0.2; echo '{}'");
    let exec = node.exec();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                with_attachment(|at| chain("1.1.0", &["p"]).add(&exec, at, &mut unrecorded)).unwrap();
            });
        }
    });
    assert!(began.elapsed() < Duration::from_millis(1500), "one after the other: {:?}", began.elapsed());
}
