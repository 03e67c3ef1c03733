//! A world of its own for one test: mount, network and PID namespaces with the machine's programs and empty state
//! folders. Nothing in it reaches the machine's network or files, and it ends with its owner, however that ends.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

use crate::binaries;

/// Where a world has its own plugins, `catena` first.
pub const OWN_BIN: &str = "/opt/cni/bin";
/// Where a world has the reference plugins.
pub const PLUGIN_BIN: &str = "/opt/cni/plugins";
/// Where a world has `catenactl`.
pub const CATENACTL: &str = "/opt/catena/catenactl";
/// Where a world has the test stages.
pub const STAGES: &str = "/opt/catena/stages";

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Long enough for the slowest call (an IPv6 ADD on a loaded machine), short enough to find a hang.
const PATIENCE: Duration = Duration::from_secs(90);

/// The namespaces, held by a process that ends when its stdin is closed.
#[derive(Debug)]
pub struct World {
    holder: Child,
}

/// What a command in a world did.
#[derive(Debug, Clone)]
pub struct Output {
    /// The exit code; none if it died by a signal.
    pub exit: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub elapsed: Duration,
    /// Somebody else still held its stdout or stderr open five seconds after it had ended.
    pub held: bool,
}

impl World {
    /// A world with `catena`, `catenactl`, the test stages, the scripted delegate and the reference plugins.
    pub fn new() -> World {
        World::with_catena(binaries::catena())
    }

    /// The same with the `catena` that panics on demand.
    pub fn panicking() -> World {
        World::with_catena(binaries::panicking())
    }

    fn with_catena(catena: PathBuf) -> World {
        World::with_programs(catena, binaries::catenactl())
    }

    /// The same with these builds of the two programs.
    pub fn with_programs(catena: PathBuf, catenactl: PathBuf) -> World {
        World::with(&all_programs(catena, catenactl))
    }

    /// A world that a container runtime can work in: with the machine's control groups.
    pub fn for_runtimes() -> World {
        let mut binds = all_programs(binaries::catena(), binaries::catenactl());
        binds.push(bind(PathBuf::from("/sys/fs/cgroup"), "/sys/fs/cgroup"));
        World::with(&binds)
    }

    /// A world with the reference plugins and the scripted delegate, but nothing of ours: the twin that ours is
    /// compared with.
    pub fn without_catena() -> World {
        World::with(&[
            bind(binaries::scripted(), &format!("{OWN_BIN}/scripted")),
            bind(binaries::plugins(), PLUGIN_BIN),
        ])
    }

    fn with(binds: &[String]) -> World {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "--pid", "--fork", "--kill-child"]);
        if user_namespace() {
            command.args(["--user", "--map-root-user"]);
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/world.sh");
        let mut holder = command
            .args(["sh", script])
            .args(binds)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare(1) from util-linux; run: make setup");
        let mut line = String::new();
        let stdout = holder.stdout.take().expect("a piped stdout");
        BufReader::new(stdout).read_line(&mut line).expect("reading the world's first line");
        assert_eq!(line, "ready\n", "tests/world.sh did not make a world");
        World { holder }
    }

    /// A command that will run in the world, in its "host" network namespace, with a clean environment.
    pub fn command(&self, program: &str) -> Command {
        let ns = |name: &str| format!("/proc/{}/ns/{name}", self.holder.id());
        let mut command = Command::new("nsenter");
        if user_namespace() {
            command.arg(format!("--user={}", ns("user"))).arg("--preserve-credentials");
        }
        command
            .arg(format!("--mount={}", ns("mnt")))
            .arg(format!("--net={}", ns("net")))
            .arg(format!("--pid={}", ns("pid_for_children")))
            .args(["--", program])
            .env_clear()
            .env("PATH", PATH)
            .env("LC_ALL", "C");
        command
    }

    /// Runs `program` to its end.
    pub fn run(&self, program: &str, args: &[&str]) -> Output {
        self.run_within(program, args, PATIENCE)
    }

    /// Runs a `program` that may take so long.
    pub fn run_within(&self, program: &str, args: &[&str], patience: Duration) -> Output {
        let mut command = self.command(program);
        command.args(args);
        finish_within(command, b"", patience)
    }

    /// Runs a shell script that must succeed; the answer is its stdout.
    pub fn sh(&self, script: &str) -> String {
        let output = self.run("sh", &["-euc", script]);
        assert!(output.exit == Some(0), "in the world: {script}\n{}{}", output.stdout, output.stderr);
        output.stdout
    }

    /// Runs a shell script in a pod's network namespace.
    pub fn pod_sh(&self, netns: &str, script: &str) -> String {
        self.sh(&format!("nsenter --net={netns} sh -euc '{}'", script.replace('\'', r"'\''")))
    }

    /// Runs `ip -j ARGS`, in a pod's namespace if one is given, and reads its answer.
    pub fn ip(&self, netns: Option<&str>, args: &str) -> Vec<serde_json::Value> {
        let inside = netns.map(|path| format!("nsenter --net={path} ")).unwrap_or_default();
        let text = self.sh(&format!("{inside}ip -j {args}"));
        if text.trim().is_empty() {
            return Vec::new();
        }
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("ip -j {args}: {error}: {text}"))
    }

    /// Makes a pod's network namespace with its loopback up; the answer is its path.
    pub fn pod(&self, name: &str) -> String {
        self.sh(&format!("ip netns add {name}"));
        let path = format!("/run/netns/{name}");
        // Without duplicate address detection, which takes seconds, and on a loaded machine more than the
        // reference plugins wait.
        self.pod_sh(&path, "echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad; ip link set lo up");
        path
    }

    /// Where a file of the world can be reached from outside.
    pub fn path(&self, inside: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{inside}", self.holder.id()))
    }

    /// Writes a file of the world, with its folders, readable by its owner alone.
    pub fn write(&self, inside: &str, content: impl AsRef<[u8]>) {
        let path = self.path(inside);
        let folder = path.parent().expect("an absolute path");
        fs::create_dir_all(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        fs::write(&path, content).unwrap_or_else(|error| panic!("{inside}: {error}"));
        self.sh(&format!("chmod go-w {inside}"));
    }

    /// Reads a file of the world.
    pub fn read(&self, inside: &str) -> String {
        fs::read_to_string(self.path(inside)).unwrap_or_else(|error| panic!("{inside}: {error}"))
    }

    /// All files below a folder of the world with their contents. Folders do not count, absent is empty.
    pub fn files(&self, inside: &str) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        collect(&self.path(inside), inside, &mut found);
        found
    }

    /// The folders in /proc of the processes that live in the world.
    fn process_folders(&self) -> Vec<PathBuf> {
        let ours = fs::metadata(format!("/proc/{}/ns/pid_for_children", self.holder.id()))
            .expect("the world's PID namespace");
        let all = fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path());
        all.filter(|folder| {
            // Not a process, or gone meanwhile.
            let Ok(namespace) = fs::metadata(folder.join("ns/pid")) else { return false };
            (namespace.dev(), namespace.ino()) == (ours.dev(), ours.ino())
        })
        .collect()
    }

    /// Notes the largest resident size so far of each program that runs in the world, in KiB, by its name (VmHWM of
    /// proc(5)).
    pub fn note_peaks(&self, peaks: &mut BTreeMap<String, u64>) {
        for folder in self.process_folders() {
            let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
            let value = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
            let peak: Option<u64> =
                value("VmHWM:").and_then(|text| text.trim_end_matches(" kB").parse().ok());
            if let (Some(name), Some(peak)) = (value("Name:"), peak) {
                let known = peaks.entry(name.to_owned()).or_default();
                *known = peak.max(*known);
            }
        }
    }

    /// The command lines of the processes that live in the world, without those that hold it.
    pub fn processes(&self) -> Vec<String> {
        let mut found = Vec::new();
        for folder in self.process_folders() {
            // A zombie has no command line.
            let line = fs::read(folder.join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if !line.is_empty() && !line.contains("world.sh") && line.trim() != "cat" {
                found.push(line.trim().to_owned());
            }
        }
        found
    }
}

impl Default for World {
    fn default() -> Self {
        World::new()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        if let Err(error) = self.holder.wait() {
            eprintln!("a test's world did not end: {error}");
        }
    }
}

fn bind(source: PathBuf, target: &str) -> String {
    format!("{}={target}", source.display())
}

fn all_programs(catena: PathBuf, catenactl: PathBuf) -> Vec<String> {
    vec![
        bind(catena, &format!("{OWN_BIN}/catena")),
        bind(binaries::scripted(), &format!("{OWN_BIN}/scripted")),
        bind(catenactl, CATENACTL),
        bind(binaries::stages(), STAGES),
        bind(binaries::plugins(), PLUGIN_BIN),
    ]
}

/// Runs a command to its end with `stdin`. Panics when it hangs.
pub fn finish(command: Command, stdin: &[u8]) -> Output {
    finish_within(command, stdin, PATIENCE)
}

fn finish_within(mut command: Command, stdin: &[u8], patience: Duration) -> Output {
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("nsenter(1) from util-linux; run: make setup");
    let out = Drain::start(child.stdout.take().expect("a piped stdout"));
    let err = Drain::start(child.stderr.take().expect("a piped stderr"));
    let mut pipe = child.stdin.take().expect("a piped stdin");
    let request = stdin.to_vec();
    // A program that ends without reading its stdin is no error of ours.
    std::thread::spawn(move || pipe.write_all(&request).is_ok());
    let status = loop {
        if let Some(status) = child.try_wait().expect("waiting for a child") {
            break status;
        }
        if start.elapsed() > patience {
            child.kill().expect("killing a child that hangs");
            panic!(
                "hangs for more than {patience:?}: {command:?}\nstdout: {}\nstderr: {}",
                out.text(),
                err.text()
            );
        }
        // As often as the time that it took is worth: many threads may wait at once.
        let pause = start.elapsed() / 20;
        std::thread::sleep(pause.clamp(Duration::from_micros(500), Duration::from_millis(20)));
    };
    let elapsed = start.elapsed();
    let held = !(out.wait() & err.wait());
    Output {
        exit: status.code(),
        signal: status.signal(),
        stdout: out.text(),
        stderr: err.text(),
        elapsed,
        held,
    }
}

/// Reads a pipe in a thread, so that somebody who never closes it cannot hold the test.
#[derive(Debug)]
pub(crate) struct Drain {
    text: Arc<Mutex<Vec<u8>>>,
    end: mpsc::Receiver<()>,
}

impl Drain {
    pub(crate) fn start(mut pipe: impl Read + Send + 'static) -> Drain {
        let text = Arc::new(Mutex::new(Vec::new()));
        let (sender, end) = mpsc::channel();
        let shared = Arc::clone(&text);
        std::thread::spawn(move || {
            let mut block = [0; 8192];
            while let Ok(count @ 1..) = pipe.read(&mut block) {
                shared.lock().expect("the text so far").extend_from_slice(&block[..count]);
            }
            // Nobody listens when the test has ended before the pipe.
            sender.send(()).ok();
        });
        Drain { text, end }
    }

    /// Whether the pipe ended.
    pub(crate) fn wait(&self) -> bool {
        self.end.recv_timeout(Duration::from_secs(5)).is_ok()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().expect("the text so far")).into_owned()
    }
}

fn collect(folder: &Path, inside: &str, found: &mut BTreeMap<String, Vec<u8>>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = format!("{inside}/{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type().expect("a file's type");
        if kind.is_dir() {
            collect(&entry.path(), &name, found);
        } else if kind.is_file() {
            found.insert(name, fs::read(entry.path()).unwrap_or_default());
        } else {
            found.insert(name, Vec::new());
        }
    }
}

/// Whether worlds need a user namespace, because we may not make the other namespaces ourselves.
fn user_namespace() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let works = |extra: &[&str]| {
            Command::new("unshare")
                .args(extra)
                .args(["--mount", "--net", "--pid", "--fork", "true"])
                .stderr(Stdio::null())
                .status()
                .expect("unshare(1) from util-linux; run: make setup")
                .success()
        };
        if works(&[]) {
            return false;
        }
        assert!(
            works(&["--user", "--map-root-user"]),
            "the tests need root or unprivileged user namespaces \
             (sysctl kernel.unprivileged_userns_clone, user.max_user_namespaces)"
        );
        true
    })
}
