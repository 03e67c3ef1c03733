//! Runs a program of a world under ptrace(2), from one of its system calls to the next.
//!
//! All threads of the program are followed, and no process that it starts. Out of reach is what happens between two
//! system calls, and a child between clone(2) and execve(2) beyond the instant at which it was made.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Event, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::world::{Drain, Output, World};

/// A program that hangs under the tracer is a failure after this long.
const PATIENCE: Duration = Duration::from_secs(90);

/// Where the program stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Before a system call with this number and these arguments.
    Entry { thread: Pid, number: i64, arguments: [u64; 6] },
    /// A child was made that shares the address space, and has not run yet.
    Vfork,
}

/// Where the program stands still, in words that are the same in the next run of the same call: how many other
/// system calls came before differs with what its threads wait for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Which thread, in the order of their births.
    pub thread: usize,
    /// The system call and what it is about, numbers masked.
    pub call: String,
    /// Which of these of this thread, from 0.
    pub nth: usize,
}

/// A program that stands still whenever its owner looks at it.
#[derive(Debug)]
pub struct Tracee {
    holder: Child,
    leader: Pid,
    threads: Vec<Pid>,
    /// All threads that there ever were.
    born: Vec<Pid>,
    /// How often each call was met.
    met: BTreeMap<(usize, String), usize>,
    /// Where it stands.
    place: Option<Place>,
    /// Who has to be told to go on.
    stopped: Option<Pid>,
    /// A child that was made and has not run yet.
    newborn: Option<Pid>,
    out: Drain,
    err: Drain,
    start: Instant,
}

/// The command that [`Tracee::start`] needs: it waits for a line on stdin before it becomes `program`.
pub fn command(world: &World, program: &str) -> Command {
    let mut command = world.command("sh");
    command.args(["-c", "read -r go; exec \"$0\"", program]);
    command
}

impl Tracee {
    /// Starts a [`command`]; it stands still at the end of its execve(2).
    pub fn start(mut command: Command, stdin: &[u8]) -> Tracee {
        let start = Instant::now();
        let mut holder = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("nsenter(1) from util-linux; run: make setup");
        let out = Drain::start(holder.stdout.take().expect("a piped stdout"));
        let err = Drain::start(holder.stderr.take().expect("a piped stderr"));
        let leader = only_child(&mut holder);
        let options = Options::PTRACE_O_TRACESYSGOOD
            | Options::PTRACE_O_TRACEEXEC
            | Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_TRACEVFORK
            | Options::PTRACE_O_EXITKILL;
        ptrace::seize(leader, options).expect("ptrace(2) of a process of ours");
        let mut tracee = Tracee {
            holder,
            leader,
            threads: vec![leader],
            born: vec![leader],
            met: BTreeMap::new(),
            place: None,
            stopped: None,
            newborn: None,
            out,
            err,
            start,
        };
        let mut pipe = tracee.holder.stdin.take().expect("a piped stdin");
        pipe.write_all(b"go\n")
            .and_then(|()| pipe.write_all(stdin))
            .expect("a request that fits into a pipe");
        drop(pipe);
        // The shell may be caught before its own execve.
        loop {
            match waitpid(leader, Some(WaitPidFlag::__WALL)).expect("waiting for a tracee") {
                WaitStatus::PtraceEvent(pid, _, event) if event == Event::PTRACE_EVENT_EXEC as i32 => {
                    let program = fs::read_link(format!("/proc/{pid}/exe")).expect("the tracee's program");
                    if !program.ends_with("nsenter") && !is_shell(&program) {
                        tracee.stopped = Some(leader);
                        return tracee;
                    }
                    ptrace::cont(pid, None).expect("continuing the shell");
                }
                WaitStatus::PtraceEvent(pid, ..) => {
                    ptrace::cont(pid, None).expect("continuing the shell");
                }
                other => panic!("the program was not started: {other:?}: {}", tracee.err.text()),
            }
        }
    }

    /// Where it stands still.
    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// Lets it go on to the place; whether it came there.
    pub fn reach(&mut self, place: &Place) -> bool {
        while self.next().is_some() {
            if self.place.as_ref() == Some(place) {
                return true;
            }
        }
        false
    }

    /// Lets the system call before which it stands fail with this error, without any effect.
    pub fn fail(&mut self, errno: Errno) {
        self.answer(-i64::from(errno as i32));
    }

    /// Answers the system call before which it stands with this value, in the kernel's place.
    pub fn answer(&mut self, value: i64) {
        let thread = self.stopped.expect("a stop before a system call");
        let mut registers = ptrace::getregs(thread).expect("the registers of a thread that stands still");
        // No call has this number, so the kernel does nothing.
        registers.orig_rax = u64::MAX;
        ptrace::setregs(thread, registers).expect("the registers of a thread that stands still");
        resume(thread, None);
        let status = waitpid(thread, Some(WaitPidFlag::__WALL)).expect("the end of the system call");
        assert_eq!(status, WaitStatus::PtraceSyscall(thread), "the end of the system call");
        let mut registers = ptrace::getregs(thread).expect("the registers of a thread that stands still");
        registers.rax = value.cast_unsigned();
        ptrace::setregs(thread, registers).expect("the registers of a thread that stands still");
    }

    /// Kills it where it stands and waits until it has gone.
    pub fn kill(mut self) -> Output {
        self.end()
    }

    /// Lets it go on, and kills it a moment later.
    pub fn kill_after(mut self, moment: Duration) -> Output {
        self.go_on();
        let until = Instant::now() + moment;
        while Instant::now() < until && !self.threads.is_empty() {
            match self.look() {
                Some((thread, WaitStatus::Exited(..) | WaitStatus::Signaled(..))) => {
                    self.threads.retain(|other| *other != thread);
                }
                Some((thread, status)) => {
                    if let WaitStatus::PtraceEvent(_, _, event) = status {
                        if event == Event::PTRACE_EVENT_VFORK as i32 {
                            self.newborn = Some(event_pid(thread));
                            self.release_newborn();
                        } else if event == Event::PTRACE_EVENT_CLONE as i32 {
                            self.birth(event_pid(thread));
                        }
                    }
                    let signal =
                        if let WaitStatus::Stopped(_, signal) = status { Some(signal) } else { None };
                    resume(thread, signal);
                }
                None => std::thread::sleep(Duration::from_micros(200)),
            }
        }
        self.end()
    }

    /// Lets it run to its end.
    pub fn finish(mut self) -> Output {
        self.by_ref().for_each(drop);
        self.output()
    }

    /// VmHWM of proc(5): the largest resident size so far, in KiB.
    pub fn peak_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.leader)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse().expect("VmHWM in kB")
    }

    /// Up to this many bytes of its memory.
    pub fn bytes(&self, address: u64, count: usize) -> Option<Vec<u8>> {
        use std::os::unix::fs::FileExt;
        let memory = fs::File::open(format!("/proc/{}/mem", self.leader)).ok()?;
        let mut bytes = vec![0; count];
        let count = memory.read_at(&mut bytes, address).ok()?;
        bytes.truncate(count);
        Some(bytes)
    }

    /// The bytes of a string in its memory, such as a path.
    pub fn string(&self, address: u64) -> Option<String> {
        let bytes = self.bytes(address, 4096)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        String::from_utf8(bytes[..end].to_vec()).ok()
    }

    /// What one of its descriptors is.
    pub fn descriptor(&self, fd: u64) -> Option<String> {
        let path = fs::read_link(format!("/proc/{}/fd/{fd}", self.leader)).ok()?;
        path.into_os_string().into_string().ok()
    }

    /// What a system call is about: a path or what a descriptor is, numbers masked.
    fn subject(&self, number: i64, arguments: [u64; 6]) -> String {
        let subject = match number {
            libc::SYS_openat | libc::SYS_openat2 | libc::SYS_newfstatat | libc::SYS_statx => {
                self.string(arguments[1])
            }
            libc::SYS_mkdir
            | libc::SYS_rename
            | libc::SYS_unlink
            | libc::SYS_rmdir
            | libc::SYS_access
            | libc::SYS_readlink => self.string(arguments[0]),
            libc::SYS_read
            | libc::SYS_write
            | libc::SYS_close
            | libc::SYS_pread64
            | libc::SYS_fsync
            | libc::SYS_fdatasync
            | libc::SYS_flock
            | libc::SYS_fstat
            | libc::SYS_fstatfs
            | libc::SYS_dup2
            | libc::SYS_getdents64
            | libc::SYS_fcntl
            | libc::SYS_ftruncate
            | libc::SYS_setns
            | libc::SYS_sendto
            | libc::SYS_recvfrom => self.descriptor(arguments[0]),
            _ => None,
        };
        let mut masked = String::new();
        for letter in subject.unwrap_or_default().chars() {
            if !letter.is_ascii_digit() {
                masked.push(letter);
            } else if !masked.ends_with('#') {
                masked.push('#');
            }
        }
        masked
    }

    fn came_to(&mut self, thread: Pid, call: String) {
        let thread = self.born.iter().position(|born| *born == thread).unwrap_or_default();
        let count = self.met.entry((thread, call.clone())).or_default();
        self.place = Some(Place { thread, call, nth: *count });
        *count += 1;
    }

    fn birth(&mut self, thread: Pid) {
        self.threads.push(thread);
        self.born.push(thread);
    }

    fn go_on(&mut self) {
        self.release_newborn();
        if let Some(thread) = self.stopped.take() {
            resume(thread, None);
        }
    }

    /// The child was caught with its parent; it is none of ours.
    fn release_newborn(&mut self) {
        if let Some(child) = self.newborn.take()
            && matches!(
                waitpid(child, Some(WaitPidFlag::__WALL)),
                Ok(WaitStatus::PtraceEvent(..) | WaitStatus::Stopped(..))
            )
        {
            // It may have been killed with its parent by now.
            ptrace::detach(child, None).ok();
        }
    }

    fn end(&mut self) -> Output {
        // The group's leader is traced, so its number is still its own.
        kill(self.leader, Signal::SIGKILL).ok();
        self.release_newborn();
        self.stopped = None;
        while let Some((thread, status)) = self.wait() {
            match status {
                WaitStatus::Exited(..) | WaitStatus::Signaled(..) => {
                    self.threads.retain(|other| *other != thread);
                }
                _ => resume(thread, None),
            }
        }
        self.output()
    }

    fn output(&mut self) -> Output {
        use std::os::unix::process::ExitStatusExt;
        let status = self.holder.wait().expect("waiting for nsenter");
        let elapsed = self.start.elapsed();
        let held = !(self.out.wait() & self.err.wait());
        Output {
            exit: status.code(),
            signal: status.signal(),
            stdout: self.out.text(),
            stderr: self.err.text(),
            elapsed,
            held,
        }
    }

    /// The next news of any thread; none once all have ended.
    fn wait(&mut self) -> Option<(Pid, WaitStatus)> {
        loop {
            match self.threads.as_slice() {
                [] => return None,
                [only] => match waitpid(*only, Some(WaitPidFlag::__WALL)) {
                    Ok(status) => return Some((*only, status)),
                    Err(Errno::EINTR) => {}
                    Err(_) => self.threads.clear(),
                },
                _ => match self.look() {
                    Some(news) => return Some(news),
                    None => std::thread::sleep(Duration::from_micros(50)),
                },
            }
            assert!(self.start.elapsed() < PATIENCE, "the traced program hangs: {}", self.err.text());
        }
    }

    fn look(&mut self) -> Option<(Pid, WaitStatus)> {
        for thread in self.threads.clone() {
            match waitpid(thread, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => {}
                Ok(status) => return Some((thread, status)),
                Err(_) => self.threads.retain(|other| *other != thread),
            }
        }
        None
    }
}

impl Iterator for Tracee {
    type Item = Stop;

    /// Lets it go on to the next stop; none once it has ended.
    fn next(&mut self) -> Option<Stop> {
        self.go_on();
        loop {
            let (thread, status) = self.wait()?;
            match status {
                WaitStatus::PtraceSyscall(_) => {
                    let info = ptrace::syscall_info(thread).expect("the kernel's word about a system call");
                    if info.op == libc::PTRACE_SYSCALL_INFO_ENTRY
                        && let Some((number, arguments)) = system_call(thread)
                    {
                        self.stopped = Some(thread);
                        let subject = self.subject(number, arguments);
                        self.came_to(thread, format!("{} {subject}", name(number)).trim_end().to_owned());
                        return Some(Stop::Entry { thread, number, arguments });
                    }
                    resume(thread, None);
                }
                WaitStatus::PtraceEvent(_, _, event) if event == Event::PTRACE_EVENT_CLONE as i32 => {
                    self.birth(event_pid(thread));
                    resume(thread, None);
                }
                WaitStatus::PtraceEvent(_, _, event) if event == Event::PTRACE_EVENT_VFORK as i32 => {
                    self.stopped = Some(thread);
                    self.newborn = Some(event_pid(thread));
                    self.came_to(thread, "birth of a delegate".to_owned());
                    return Some(Stop::Vfork);
                }
                WaitStatus::PtraceEvent(..) => resume(thread, None),
                WaitStatus::Stopped(_, signal) => resume(thread, Some(signal)),
                WaitStatus::Exited(..) | WaitStatus::Signaled(..) => {
                    self.threads.retain(|other| *other != thread);
                }
                _ => {}
            }
        }
    }
}

/// A thread that was killed meanwhile need not go on.
fn resume(thread: Pid, signal: Option<Signal>) {
    match ptrace::syscall(thread, signal) {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(errno) => panic!("ptrace(PTRACE_SYSCALL): {errno}"),
    }
}

fn event_pid(thread: Pid) -> Pid {
    let pid = ptrace::getevent(thread).expect("the new thread's number");
    Pid::from_raw(i32::try_from(pid).expect("a process number"))
}

/// proc(5), /proc/PID/syscall: `number argument… stack program-counter`; none where the thread has died.
fn system_call(thread: Pid) -> Option<(i64, [u64; 6])> {
    let text = fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
    let mut words = text.split_whitespace();
    let number = words.next()?.parse().ok()?;
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok()?;
    }
    Some((number, arguments))
}

/// nsenter(1) forks once to enter a PID namespace.
fn only_child(holder: &mut Child) -> Pid {
    let id = holder.id();
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until {
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        if let Some(pid) = children.split_whitespace().next().and_then(|word| word.parse().ok()) {
            return Pid::from_raw(pid);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    panic!("nsenter did not start anything");
}

fn is_shell(program: &std::path::Path) -> bool {
    program
        .file_name()
        .is_some_and(|name| ["sh", "dash", "bash", "busybox"].iter().any(|shell| name == *shell))
}

/// The name of a system call that catena makes, for reports.
pub fn name(number: i64) -> String {
    const NAMES: &[(i64, &str)] = &[
        (libc::SYS_read, "read"),
        (libc::SYS_write, "write"),
        (libc::SYS_openat, "openat"),
        (libc::SYS_openat2, "openat2"),
        (libc::SYS_close, "close"),
        (libc::SYS_fstat, "fstat"),
        (libc::SYS_newfstatat, "newfstatat"),
        (libc::SYS_getdents64, "getdents64"),
        (libc::SYS_pread64, "pread64"),
        (libc::SYS_access, "access"),
        (libc::SYS_rmdir, "rmdir"),
        (libc::SYS_fdatasync, "fdatasync"),
        (libc::SYS_ftruncate, "ftruncate"),
        (libc::SYS_connect, "connect"),
        (libc::SYS_dup2, "dup2"),
        (libc::SYS_getpid, "getpid"),
        (libc::SYS_prlimit64, "prlimit64"),
        (libc::SYS_arch_prctl, "arch_prctl"),
        (libc::SYS_set_tid_address, "set_tid_address"),
        (libc::SYS_set_robust_list, "set_robust_list"),
        (libc::SYS_rseq, "rseq"),
        (libc::SYS_vfork, "vfork"),
        (libc::SYS_madvise, "madvise"),
        (libc::SYS_epoll_create1, "epoll_create1"),
        (libc::SYS_eventfd2, "eventfd2"),
        (libc::SYS_pidfd_open, "pidfd_open"),
        (libc::SYS_pidfd_send_signal, "pidfd_send_signal"),
        (libc::SYS_kill, "kill"),
        (libc::SYS_getrandom, "getrandom"),
        (libc::SYS_sched_yield, "sched_yield"),
        (libc::SYS_sched_getaffinity, "sched_getaffinity"),
        (libc::SYS_poll, "poll"),
        (libc::SYS_mmap, "mmap"),
        (libc::SYS_munmap, "munmap"),
        (libc::SYS_mprotect, "mprotect"),
        (libc::SYS_brk, "brk"),
        (libc::SYS_pipe2, "pipe2"),
        (libc::SYS_clone, "clone"),
        (libc::SYS_clone3, "clone3"),
        (libc::SYS_wait4, "wait4"),
        (libc::SYS_waitid, "waitid"),
        (libc::SYS_fsync, "fsync"),
        (libc::SYS_flock, "flock"),
        (libc::SYS_rename, "rename"),
        (libc::SYS_unlink, "unlink"),
        (libc::SYS_mkdir, "mkdir"),
        (libc::SYS_statx, "statx"),
        (libc::SYS_fcntl, "fcntl"),
        (libc::SYS_setns, "setns"),
        (libc::SYS_socket, "socket"),
        (libc::SYS_sendto, "sendto"),
        (libc::SYS_recvfrom, "recvfrom"),
        (libc::SYS_epoll_wait, "epoll_wait"),
        (libc::SYS_futex, "futex"),
        (libc::SYS_exit_group, "exit_group"),
        (libc::SYS_exit, "exit"),
        (libc::SYS_rt_sigaction, "rt_sigaction"),
        (libc::SYS_rt_sigprocmask, "rt_sigprocmask"),
        (libc::SYS_sigaltstack, "sigaltstack"),
        (libc::SYS_fstatfs, "fstatfs"),
        (libc::SYS_prctl, "prctl"),
        (libc::SYS_epoll_ctl, "epoll_ctl"),
        (libc::SYS_memfd_create, "memfd_create"),
        (libc::SYS_getsockname, "getsockname"),
        (libc::SYS_bind, "bind"),
        (libc::SYS_geteuid, "geteuid"),
        (libc::SYS_gettid, "gettid"),
        (libc::SYS_alarm, "alarm"),
        (libc::SYS_readlink, "readlink"),
        (libc::SYS_setsockopt, "setsockopt"),
    ];
    NAMES
        .iter()
        .find(|(known, _)| *known == number)
        .map_or_else(|| number.to_string(), |(_, name)| (*name).to_owned())
}
