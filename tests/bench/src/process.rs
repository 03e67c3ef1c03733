//! One process, from start to end: what it cost and what it said.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// What is run, with its whole environment and its stdin.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) stdin: String,
}

/// What one run cost. Processor time and page faults include the children that it waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
    pub(crate) faults: i64,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.wall += other.wall;
        self.cpu += other.cpu;
        self.faults += other.faults;
    }
}

/// Runs processes; stdin and stdout are files, so that nobody has to feed or drain them meanwhile.
#[derive(Debug)]
pub(crate) struct Runner {
    stdin: PathBuf,
    stdout: PathBuf,
}

impl Runner {
    pub(crate) fn new(folder: &Path) -> Runner {
        Runner { stdin: folder.join("stdin"), stdout: folder.join("stdout") }
    }

    /// A command that is ready to be spawned.
    pub(crate) fn command(&self, spec: &Spec) -> Result<Command, String> {
        let at = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
        fs::write(&self.stdin, &spec.stdin).map_err(|error| at(&self.stdin, error))?;
        let stdin = File::open(&self.stdin).map_err(|error| at(&self.stdin, error))?;
        let stdout = File::create(&self.stdout).map_err(|error| at(&self.stdout, error))?;
        let mut command = Command::new(&spec.program);
        command
            .args(&spec.args)
            .env_clear()
            .envs(spec.env.iter().map(|(name, value)| (name, value)))
            .stdin(stdin)
            .stdout(stdout)
            .stderr(Stdio::inherit());
        Ok(command)
    }

    /// What the last process wrote to stdout.
    pub(crate) fn output(&self) -> String {
        fs::read_to_string(&self.stdout).unwrap_or_default()
    }

    /// Runs it; one that fails is an error with what it said.
    pub(crate) fn run(&self, spec: &Spec) -> Result<Cost, String> {
        let mut command = self.command(spec)?;
        let before = children()?;
        let start = Instant::now();
        let status = command.status().map_err(|error| format!("{}: {error}", spec.program.display()))?;
        let wall = start.elapsed();
        let after = children()?;
        if !status.success() {
            return Err(self.failure(spec, &status.to_string()));
        }
        Ok(Cost { wall, cpu: after.0.saturating_sub(before.0), faults: after.1 - before.1 })
    }

    pub(crate) fn failure(&self, spec: &Spec, how: &str) -> String {
        let command = spec.env.iter().find(|(name, _)| name == "CNI_COMMAND").map_or("", |(_, value)| value);
        let stdin: String = spec.stdin.chars().take(400).collect();
        format!("{} {command}: {how}: {}\nstdin: {stdin}", spec.program.display(), self.output().trim())
    }
}

/// Processor time and page faults of all children so far.
fn children() -> Result<(Duration, i64), String> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|errno| format!("getrusage: {errno}"))?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    let faults = usage.minor_page_faults() + usage.major_page_faults();
    Ok((Duration::from_micros(u64::try_from(micros).unwrap_or(0)), faults))
}
