//! What only a tracer sees: the system calls of one process with its threads, and its own peak memory. (`ru_maxrss`
//! begins with the memory of whoever started the process.)

use std::collections::BTreeMap;
use std::fs;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Event, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::process::{Runner, Spec};

/// What one traced run has shown. Delegates are processes of their own and do not count.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Trace {
    /// VmHWM of proc(5).
    pub(crate) peak_kib: u64,
    pub(crate) calls: u64,
}

impl Trace {
    pub(crate) fn peak_mib(&self) -> f64 {
        self.peak_kib as f64 / 1024.0
    }
}

/// Argument of this program that stops, and then becomes the program that the rest of the arguments name.
pub(crate) const STOP: &str = "stop-then-exec";

/// Runs it under ptrace(2).
pub(crate) fn trace(runner: &Runner, spec: &Spec) -> Result<Trace, String> {
    let own = std::env::current_exe().map_err(|error| format!("this program's own path: {error}"))?;
    let mut args = vec![STOP.to_owned(), spec.program.display().to_string()];
    args.extend(spec.args.iter().cloned());
    let stopping = Spec { program: own, args, ..spec.clone() };
    let child = runner.command(&stopping)?.spawn().map_err(|error| format!("{STOP}: {error}"))?;
    let main = Pid::from_raw(i32::try_from(child.id()).map_err(|error| error.to_string())?);
    follow(main).map_err(|errno| format!("ptrace of {}: {errno}", spec.program.display())).and_then(
        |(trace, exit)| match exit {
            0 => Ok(trace),
            exit => Err(runner.failure(spec, &format!("exit status {exit}"))),
        },
    )
}

fn follow(main: Pid) -> nix::Result<(Trace, i32)> {
    waitpid(main, Some(WaitPidFlag::WUNTRACED))?;
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEEXIT;
    ptrace::seize(main, options)?;
    kill(main, Signal::SIGCONT)?;
    let mut trace = Trace::default();
    let mut started = false;
    // Whether a thread's next stop is the end of a call.
    let mut inside: BTreeMap<Pid, bool> = BTreeMap::new();
    loop {
        match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::__WALL))? {
            WaitStatus::PtraceSyscall(thread) => {
                let inside = inside.entry(thread).or_default();
                *inside = !*inside;
                trace.calls += u64::from(*inside && started);
                go_on(thread, None)?;
            }
            WaitStatus::PtraceEvent(thread, _, event) => {
                if event == Event::PTRACE_EVENT_EXEC as i32 {
                    started = true;
                    inside.insert(thread, true);
                }
                if event == Event::PTRACE_EVENT_EXIT as i32 && thread == main {
                    trace.peak_kib = peak(main);
                }
                go_on(thread, None)?;
            }
            WaitStatus::Stopped(thread, signal) => go_on(thread, Some(signal))?,
            WaitStatus::Exited(process, status) if process == main => return Ok((trace, status)),
            WaitStatus::Signaled(process, signal, _) if process == main => {
                return Ok((trace, 128 + signal as i32));
            }
            _ => {}
        }
    }
}

/// Another thread's exit_group(2) may end a thread that has stopped (ptrace(2), "Death under ptrace").
fn go_on(thread: Pid, signal: Option<Signal>) -> nix::Result<()> {
    match ptrace::syscall(thread, signal) {
        Err(Errno::ESRCH) => Ok(()),
        other => other,
    }
}

fn peak(process: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|text| text.trim().strip_suffix("kB")?.trim().parse().ok()).unwrap_or(0)
}
