//! One delegate process from start to end: three pipes of its own, a deadline, bounded output, and no waiting for
//! anybody but the process itself.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{Pid, pipe2};

use super::spawn::{self, Child, Image};
use crate::{inject, timeline};

/// Bytes of stderr that are kept: the end, where the cause usually is.
const STDERR_TAIL: usize = 64 * 1024;
/// How long somebody may keep the delegate's file open for writing before we give up. Installers copy a plugin over
/// in far less.
const BUSY_FOR: Duration = Duration::from_secs(2);
/// After SIGKILL: a process in an uninterruptible system call (a dead network file system) may not die at all.
const DEATH_WITHIN: Duration = Duration::from_secs(2);

/// Bytes of one read. Most answers fit, and each page of a larger buffer would be touched for nothing.
const BLOCK: usize = 4 * 1024;
/// Reads in a row: a few pipes' worth.
const READS: usize = 256;

/// How long only the end of a process is waited for where that is near: what it writes, closes and how it ends would
/// wake us three times. One that has more to say than a pipe takes is kept waiting that long.
const SOON: Duration = Duration::from_millis(1);

/// What to run and within which bounds.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) path: &'a CString,
    pub(super) env: &'a [CString],
    pub(super) stdin: &'a [u8],
    pub(super) inherit: Option<BorrowedFd<'a>>,
    pub(super) until: Instant,
    /// When it has to be over even if nobody looked after it for a time.
    pub(super) latest: Option<Instant>,
    /// Largest stdout in bytes.
    pub(super) output_limit: usize,
    /// Whether a larger stdout ends the process at once (where stdout is the answer), or is dropped.
    pub(super) output_matters: bool,
}

/// A delegate that runs and has not been given its request yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spawned {
    /// Process id.
    pub pid: i32,
    /// Its process group: the children of the delegate are in it as well, unless they leave it.
    pub pgid: i32,
    /// When it started, in clock ticks since boot (proc(5), `/proc/PID/stat` field 22), to tell it from a later
    /// process of the same number. `None` where `/proc` cannot be read.
    pub start_time: Option<u64>,
}

/// Who goes along with the processes of an operation.
pub trait Escort {
    /// A process runs and has not got a byte of its request; an error ends it.
    fn spawned(&mut self, spawned: &Spawned) -> Result<(), String>;

    /// It has its request, and there is nothing to do but to wait for it. Nobody looks after it meanwhile, so this is for
    /// what takes less time than a process; where it takes longer (a disk that does not answer), the process is given
    /// that time too.
    fn waiting(&mut self) {}
}

/// How much of the time that an escort's work took is not the process's. It did its own beside that, so a moment is not
/// worth the distinction.
pub fn own_share(worked: Duration) -> Duration {
    if worked > SOON { worked } else { Duration::ZERO }
}

/// For those who only want to know about the processes.
impl<F: FnMut(&Spawned) -> Result<(), String>> Escort for F {
    fn spawned(&mut self, spawned: &Spawned) -> Result<(), String> {
        self(spawned)
    }
}

/// How the process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this status.
    Status(i32),
    /// By this signal, which we did not send.
    Signal(Signal),
    /// Killed by us: the deadline was over.
    Deadline,
    /// Killed by us: too much on stdout.
    Output,
}

#[derive(Debug)]
pub(super) struct Ended {
    pub(super) exit: Exit,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// Set when SIGKILL did not end it in time; it is left behind.
    pub(super) undying: Option<i32>,
    /// What of the time was the escort's.
    pub(super) own_share: Duration,
}

/// Why a process could not be run to its end.
#[derive(Debug)]
pub(super) enum Failure {
    /// Somebody has the file open for writing (ETXTBSY), for this long.
    Busy(Duration),
    /// `execve` or a preparation for it.
    Spawn(Errno),
    /// Our own pipes.
    Io(&'static str, Errno),
    /// The escort said no; the process was killed.
    Withheld(String),
}

/// Runs `job`.
pub(super) fn run(job: &Job<'_>, escort: &mut dyn Escort) -> Result<Ended, Failure> {
    let pipe = || pipe2(OFlag::O_CLOEXEC).map_err(|errno| Failure::Io("pipe2", errno));
    let (child_in, our_in) = pipe()?;
    let (our_out, child_out) = pipe()?;
    let (our_err, child_err) = pipe()?;
    for fd in [&our_in, &our_out, &our_err] {
        fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
            .map_err(|errno| Failure::Io("fcntl(O_NONBLOCK)", errno))?;
    }
    let image = Image {
        path: job.path,
        env: job.env,
        stdin: child_in.as_fd(),
        stdout: child_out.as_fd(),
        stderr: child_err.as_fd(),
        inherit: job.inherit,
    };
    timeline::mark("a delegate's pipes, environment and request are made");
    let mut child = Running::new(spawn_patiently(&image, job.until)?);
    timeline::mark("it is started (execve has begun)");
    drop((child_in, child_out, child_err));

    let pid = child.pid();
    let spawned = Spawned { pid, pgid: pid, start_time: start_time(pid) };
    escort.spawned(&spawned).map_err(Failure::Withheld)?;
    inject::point("delegate/spawned");
    timeline::mark("the ledger knows of it, and is synced");
    let pipes = Pipes {
        stdin: Some(our_in.into()),
        written: 0,
        stdout: Some(our_out.into()),
        stderr: Some(our_err.into()),
    };
    converse(job, &mut child, pipes, escort)
}

/// libcni's retry runs a command object again that cannot be run twice; this one starts afresh each time.
fn spawn_patiently(image: &Image<'_>, until: Instant) -> Result<Child, Failure> {
    let began = Instant::now();
    let mut pause = Duration::from_millis(2);
    loop {
        match spawn::spawn(image) {
            Ok(child) => return Ok(child),
            Err(Errno::ETXTBSY) if Instant::now() + pause < until.min(began + BUSY_FOR) => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            Err(Errno::ETXTBSY) => return Err(Failure::Busy(began.elapsed())),
            Err(errno) => return Err(Failure::Spawn(errno)),
        }
    }
}

#[derive(Default)]
struct Pipes {
    stdin: Option<File>,
    written: usize,
    stdout: Option<File>,
    stderr: Option<File>,
}

fn converse(
    job: &Job<'_>,
    child: &mut Running,
    mut pipes: Pipes,
    escort: &mut dyn Escort,
) -> Result<Ended, Failure> {
    let mut stdout = Vec::new();
    let mut stderr = Vec::new();
    // One that has its request may be done at once, and one that has answered is about to end.
    let mut ends_soon = true;
    let mut own_share = Duration::ZERO;
    let mut deadline = job.until;
    loop {
        let had_more = pipes.stdin.is_some();
        feed(job.stdin, &mut pipes)?;
        if had_more && pipes.stdin.is_none() {
            let start = Instant::now();
            escort.waiting();
            own_share = self::own_share(start.elapsed());
            timeline::mark("it has its request; instances for the stages are made");
            deadline = job.latest.map_or(deadline + own_share, |latest| latest.min(deadline + own_share));
        }
        let timeout = deadline.saturating_duration_since(Instant::now());
        let gone = if ends_soon && pipes.stdin.is_none() {
            ends_soon = false;
            wait(&child.process.pidfd, &Pipes::default(), timeout.min(SOON))?
        } else {
            wait(&child.process.pidfd, &pipes, timeout)?
        };
        let had = stdout.len();
        // What a process wrote is in the pipe by the time it has ended, so reading once more after that gets all
        // of it; whoever else holds the pipe open is not waited for.
        let fits = read_stdout(job, &mut pipes, &mut stdout)?;
        read_stderr(&mut pipes, &mut stderr)?;
        ends_soon |= stdout.len() > had;
        let killed = if gone {
            None
        } else if !fits {
            Some(Exit::Output)
        } else if Instant::now() >= deadline {
            Some(Exit::Deadline)
        } else {
            continue;
        };
        if let Some(exit) = killed {
            let undying = (!child.end()).then_some(child.pid());
            read_stderr(&mut pipes, &mut stderr)?;
            return Ok(Ended { exit, stdout, stderr, undying, own_share });
        }
        inject::point("delegate/ended");
        timeline::mark("it has ended");
        let exit = child.reap()?;
        let exit = if fits { exit } else { Exit::Output };
        return Ok(Ended { exit, stdout, stderr, undying: None, own_share });
    }
}

/// Waits for something to do; true once the process has ended.
fn wait(pidfd: &OwnedFd, pipes: &Pipes, timeout: Duration) -> Result<bool, Failure> {
    let mut fds = Vec::with_capacity(4);
    fds.push(PollFd::new(pidfd.as_fd(), PollFlags::POLLIN));
    for file in [&pipes.stdout, &pipes.stderr].into_iter().flatten() {
        fds.push(PollFd::new(file.as_fd(), PollFlags::POLLIN));
    }
    if let Some(file) = &pipes.stdin {
        fds.push(PollFd::new(file.as_fd(), PollFlags::POLLOUT));
    }
    // Rounded up, so that the loop does not spin through the last millisecond.
    let millis = timeout.as_millis().saturating_add(1).min(i32::MAX as u128) as i32;
    match poll(&mut fds, PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)) {
        Ok(_) => Ok(fds.first().and_then(PollFd::any).unwrap_or(false)),
        Err(Errno::EINTR) => Ok(false),
        Err(errno) => Err(Failure::Io("poll", errno)),
    }
}

/// Writes as much of the request as the pipe takes, and closes it after the last byte.
fn feed(request: &[u8], pipes: &mut Pipes) -> Result<(), Failure> {
    let Some(file) = &mut pipes.stdin else { return Ok(()) };
    while let Some(rest) = request.get(pipes.written..).filter(|rest| !rest.is_empty()) {
        match file.write(rest) {
            Ok(count) => pipes.written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            // A plugin need not read its request.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            Err(error) => return Err(Failure::Io("write of the request", errno_of(&error))),
        }
    }
    pipes.stdin = None;
    Ok(())
}

/// False once there is more than the limit and that matters.
fn read_stdout(job: &Job<'_>, pipes: &mut Pipes, into: &mut Vec<u8>) -> Result<bool, Failure> {
    let mut fits = true;
    drain(&mut pipes.stdout, "read of stdout", |bytes| {
        let room = job.output_limit.saturating_sub(into.len());
        into.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        fits = bytes.len() <= room || !job.output_matters;
        fits
    })?;
    Ok(fits)
}

fn read_stderr(pipes: &mut Pipes, into: &mut Vec<u8>) -> Result<(), Failure> {
    drain(&mut pipes.stderr, "read of stderr", |bytes| {
        into.extend_from_slice(bytes);
        if into.len() > 2 * STDERR_TAIL {
            into.drain(..into.len() - STDERR_TAIL);
        }
        true
    })?;
    into.drain(..into.len().saturating_sub(STDERR_TAIL));
    Ok(())
}

/// Reads what is there, at most [`READS`] times, so that an endless writer does not keep us from the deadline.
fn drain(
    pipe: &mut Option<File>,
    what: &'static str,
    mut take: impl FnMut(&[u8]) -> bool,
) -> Result<(), Failure> {
    let Some(file) = pipe else { return Ok(()) };
    let mut buffer = [0; BLOCK];
    for _ in 0..READS {
        match file.read(&mut buffer) {
            Ok(0) => {
                *pipe = None;
                return Ok(());
            }
            Ok(count) => {
                if !take(buffer.get(..count).unwrap_or_default()) {
                    return Ok(());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(Failure::Io(what, errno_of(&error))),
        }
    }
    Ok(())
}

/// A process that is ended, with its group, when nobody waits for it any more: whatever the cause, a panic included.
struct Running {
    process: Child,
    over: bool,
}

impl Running {
    fn new(process: Child) -> Self {
        Self { process, over: false }
    }

    fn pid(&self) -> i32 {
        self.process.pid
    }

    /// SIGKILL to the whole group and to the process, which may have left it; false if it does not die.
    fn end(&mut self) -> bool {
        self.over = true;
        // ESRCH: nobody is left in the group, or the process has ended. It is not yet waited for, so both numbers
        // are still its own.
        let _ = killpg(Pid::from_raw(self.pid()), Signal::SIGKILL);
        let _ = kill(Pid::from_raw(self.pid()), Signal::SIGKILL);
        let until = Instant::now() + DEATH_WITHIN;
        let nothing = Pipes::default();
        while Instant::now() < until {
            let patience = until.saturating_duration_since(Instant::now());
            if matches!(wait(&self.process.pidfd, &nothing, patience), Ok(true)) {
                return reap(self.pid()).is_ok();
            }
        }
        false
    }

    /// How it ended, once it has.
    fn reap(&mut self) -> Result<Exit, Failure> {
        let pid = Pid::from_raw(self.pid());
        // One that died by a signal cannot have meant to leave anybody behind. It is not yet waited for, so the
        // group's number is still its own.
        let how = waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
        if matches!(how, Ok(WaitStatus::Signaled(..))) {
            // ESRCH: nobody is left.
            let _ = killpg(pid, Signal::SIGKILL);
        }
        self.over = true;
        reap(self.pid())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.over {
            self.end();
        }
    }
}

/// Called once the process has ended, so it does not block.
fn reap(pid: i32) -> Result<Exit, Failure> {
    loop {
        match waitpid(Pid::from_raw(pid), None) {
            Ok(WaitStatus::Exited(_, status)) => return Ok(Exit::Status(status)),
            Ok(WaitStatus::Signaled(_, signal, _)) => return Ok(Exit::Signal(signal)),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(Failure::Io("waitpid", errno)),
        }
    }
}

/// When a process was started (field 22 of proc(5) `/proc/PID/stat`); none where there is no such process.
///
/// The name in field 2 may hold anything, so fields are counted after its last `)`.
pub fn start_time(pid: i32) -> Option<u64> {
    // Some 300 bytes, which the kernel gives at once.
    let mut stat = [0; 1024];
    let length = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut stat).ok()?;
    let stat = String::from_utf8_lossy(stat.get(..length)?);
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

fn errno_of(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(0))
}
