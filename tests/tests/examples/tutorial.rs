use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::time::Duration;

use catena_tests::binaries;
use catena_tests::world::{CATENACTL, OWN_BIN, Output, PLUGIN_BIN, World};

use crate::document::{Block, Command, section};

const TUTORIAL: &str = include_str!("../../../sdk/TUTORIAL.md");
/// What compiling a module of 12 MB may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);
/// Where the node's commands run in a world.
const WORK: &str = "/root/work";

/// Somebody who does what the tutorial says: an author in a folder of their own, and a node.
pub(crate) struct Reader {
    folder: tempfile::TempDir,
    /// The author's current folder.
    current: PathBuf,
    world: World,
    /// How many commands were run before the first pod.
    commands: usize,
    pods: usize,
}

impl Reader {
    pub(crate) fn new() -> Reader {
        let folder = tempfile::tempdir().expect("a folder");
        let world = World::new();
        world.sh(&format!("ln -s {PLUGIN_BIN}/* {OWN_BIN}/; mkdir -p {WORK}"));
        world.pod("web");
        Reader { current: folder.path().to_owned(), folder, world, commands: 0, pods: 0 }
    }

    fn follow(&mut self, heading: &str) {
        for block in section(TUTORIAL, heading) {
            match block {
                Block::Author(commands) => commands.iter().for_each(|command| self.author(command)),
                Block::Node(commands) => commands.iter().for_each(|command| self.node(command)),
                // A config is the node's, everything else the project's.
                Block::File(path, text) if ["pod.json", "next.json"].contains(&path.as_str()) => {
                    self.world.write(&format!("{WORK}/{path}"), text)
                }
                Block::File(path, text) => std::fs::write(self.current.join(path), text).expect("a file"),
            }
        }
    }

    fn count(&mut self, command: &Command) {
        self.pods += usize::from(command.text.starts_with("CNI_COMMAND=ADD"));
        if self.pods == 0 || (self.pods == 1 && command.text.starts_with("CNI_COMMAND=ADD")) {
            self.commands += 1;
        }
    }

    fn author(&mut self, command: &Command) {
        self.count(command);
        let script = format!("{}\nstatus=$?; pwd >\"$WHERE\"; exit $status\n", command.text.trim_end());
        let place = self.folder.path().join("where");
        let output = author_command(&script, &self.current).env("WHERE", &place).output().expect("bash");
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        judge(command, output.status.code(), &said);
        let place = std::fs::read_to_string(place).expect("the folder after the command");
        self.current = PathBuf::from(place.trim());
    }

    /// On the node there is what the author has built.
    fn node(&mut self, command: &Command) {
        self.count(command);
        for entry in std::fs::read_dir(&self.current).expect("the author's folder").flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "wasm") {
                let file = entry.file_name().into_string().expect("a name");
                self.world.write(&format!("{WORK}/{file}"), std::fs::read(entry.path()).expect("a module"));
            }
        }
        let bin = Path::new(CATENACTL).parent().expect("a folder").display();
        let script = format!("cd {WORK}; export PATH={bin}:{OWN_BIN}:$PATH\n{}", command.text);
        let output = self.world.run_within("bash", &["-c", &script], PATIENCE);
        judge(command, output.exit, &format!("{}{}", output.stdout, output.stderr));
    }

    /// Runs a program on the node.
    pub(crate) fn run(&self, program: &str, args: &[&str]) -> Output {
        self.world.run(program, args)
    }
}

/// bash in a folder, with our catenactl first in PATH, and nothing of the cargo that runs the tests.
pub(crate) fn author_command(script: &str, folder: &Path) -> Process {
    let mut process = Process::new("bash");
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let ours = text.starts_with("CARGO") && text != "CARGO_HOME"
            || text.starts_with("RUST") && text != "RUSTUP_HOME";
        if ours || text.starts_with("CATENA_") || text == "VIRTUAL_ENV" {
            process.env_remove(&name);
        }
    }
    let ctl = binaries::catenactl();
    let own = ctl.parent().expect("a folder").to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path =
        std::env::join_paths(std::iter::once(own).chain(std::env::split_paths(&path))).expect("a PATH");
    // The projects share what they build, as they use the same SDK.
    let target = ctl.ancestors().nth(2).expect("a target folder").join("examples");
    process.args(["-uo", "pipefail", "-c", script]).current_dir(folder).env("PATH", path);
    process.env("CARGO_TARGET_DIR", target).env("NO_COLOR", "1");
    process
}

fn judge(command: &Command, exit: Option<i32>, said: &str) {
    let text = command.text.trim_end();
    assert_eq!(exit, Some(command.exit), "{text}\n{said}");
    for words in &command.prints {
        assert!(said.contains(words), "{text}\ndoes not print {words:?} but\n{said}");
    }
}

/// From nothing to a pod in under ten commands.
fn under_ten(reader: &Reader) {
    assert!(reader.pods > 0 && reader.commands < 10, "{} commands before the first pod", reader.commands);
}

#[test]
fn rust() {
    let mut reader = Reader::new();
    reader.follow("Deny a network: Rust");
    under_ten(&reader);
    let author = reader.folder.path().to_owned();
    author.clone_into(&mut reader.current);
    reader.follow("Filter a gateway, and publish what was done");
    reader.follow("Exchange a policy, and go back");
    reader.follow("Try a policy on what the node has seen");
    let left = reader.run("sh", &["-c", "find /var/lib/catena/state /run/catena/status -name '*.json'"]);
    assert_eq!(left.stdout, "", "DEL leaves nothing");
}

#[test]
fn python() {
    let mut reader = Reader::new();
    reader.world.write(&format!("{WORK}/pod.json"), pod_config());
    reader.follow("Deny a network: Python");
    under_ten(&reader);
}

#[test]
fn javascript() {
    let mut reader = Reader::new();
    reader.world.write(&format!("{WORK}/pod.json"), pod_config());
    reader.follow("Deny a network: JavaScript");
    under_ten(&reader);
}

/// The config that the first section shows.
fn pod_config() -> String {
    section(TUTORIAL, "Deny a network: Rust")
        .into_iter()
        .find_map(|block| match block {
            Block::File(path, text) if path == "pod.json" => Some(text),
            _ => None,
        })
        .expect("pod.json")
}
