//! A network namespace, opened once and kept by its descriptor.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use nix::sys::statfs::{FsType, fstatfs};
use rtnetlink::sys::Socket;

use super::connection::{cookie, new_socket};
use crate::inject;

/// NSFS_MAGIC of linux/magic.h.
const NSFS_MAGIC: FsType = FsType(0x6e73_6673);

/// The namespace of the thread that asks.
const CURRENT: &str = "/proc/thread-self/ns/net";

/// A network namespace that lives at least as long as this value.
#[derive(Clone, Debug)]
pub struct Netns {
    file: Arc<File>,
    path: PathBuf,
    /// Device and inode: what tells namespaces apart that are there at one time.
    id: (u64, u64),
    /// What tells them apart for all of a boot.
    cookie: Option<u64>,
    /// Made where the namespace was entered for the first time, so that the first connection needs no second thread.
    socket: Arc<Mutex<Option<Socket>>>,
}

/// Why a path is no network namespace that can be entered (setns(2), ioctl_ns(2)).
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// ENOENT.
    #[error("no network namespace at {path}")]
    Missing { path: PathBuf },
    /// open(2) or fstatfs(2) fails.
    #[error("{path} cannot be opened: {source}")]
    Open { path: PathBuf, source: io::Error },
    /// It is not on nsfs.
    #[error(
        "{path} is no namespace; a network namespace is a file such as /run/netns/NAME or /proc/PID/ns/net"
    )]
    NotNamespace { path: PathBuf },
    /// setns(2) says EINVAL.
    #[error("{path} is a namespace, but no network namespace")]
    NotNetwork { path: PathBuf },
    /// setns(2) says EPERM.
    #[error("no right to enter the network namespace {path} (CAP_SYS_ADMIN, EPERM)")]
    Permission { path: PathBuf },
    /// setns(2) fails in another way.
    #[error("the network namespace {path} cannot be entered: {source}")]
    Enter { path: PathBuf, source: io::Error },
    /// pthread_create(3) fails.
    #[error("no thread for the network namespace {path}: {source}")]
    Thread { path: PathBuf, source: io::Error },
}

impl Netns {
    /// Opens the namespace and makes sure that it is one of networks and can be entered.
    pub fn open(path: impl AsRef<Path>) -> Result<Netns, NetnsError> {
        let mut netns = Netns::open_unchecked(path.as_ref())?;
        // Whoever needs one tries again, and has the error then.
        let socket = netns.run(|| new_socket().ok())?;
        netns.cookie = socket.as_ref().and_then(cookie);
        *netns.socket.lock().unwrap_or_else(PoisonError::into_inner) = socket;
        Ok(netns)
    }

    /// The namespace of the calling thread.
    pub fn current() -> Result<Netns, NetnsError> {
        Netns::open_unchecked(Path::new(CURRENT))
    }

    fn open_unchecked(path: &Path) -> Result<Netns, NetnsError> {
        let path = path.to_owned();
        // A fifo or a device must not make us wait.
        let flags =
            nix::fcntl::OFlag::O_CLOEXEC | nix::fcntl::OFlag::O_NONBLOCK | nix::fcntl::OFlag::O_NOCTTY;
        let file = match File::options().read(true).custom_flags(flags.bits()).open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(NetnsError::Missing { path }),
            Err(source) => return Err(NetnsError::Open { path, source }),
        };
        let open = |source: io::Error| NetnsError::Open { path: path.clone(), source };
        if fstatfs(&file).map_err(|e| open(e.into()))?.filesystem_type() != NSFS_MAGIC {
            return Err(NetnsError::NotNamespace { path });
        }
        let meta = file.metadata().map_err(open)?;
        let id = (meta.dev(), meta.ino());
        Ok(Netns { id, cookie: None, file: Arc::new(file), path, socket: Arc::default() })
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Device and inode.
    pub fn id(&self) -> (u64, u64) {
        self.id
    }

    /// The kernel's own number of the namespace, which it gives to no other until it is started anew (SO_NETNS_COOKIE,
    /// Linux 5.14).
    pub fn cookie(&self) -> Option<u64> {
        self.cookie
    }

    #[cfg(test)]
    pub(super) fn raw_fd(&self) -> i32 {
        std::os::fd::AsRawFd::as_raw_fd(&self.file)
    }

    /// A fresh netlink socket of the namespace, once.
    pub(super) fn take_socket(&self) -> Option<Socket> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether both are the same namespace.
    pub fn is(&self, other: &Netns) -> bool {
        self.id == other.id
    }

    /// Runs `work` inside the namespace, which the calling thread has left again when this returns, whatever `work`
    /// does. A thread of its own would be scheduled for ten times as long as that takes, and longer on a busy node;
    /// it is used where the way back is not allowed.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        let work = || {
            inject::point("routes/netns");
            work()
        };
        match Netns::current() {
            Ok(here) if here.is(self) => Ok(work()),
            Ok(here) if here.enter().is_ok() => self.run_between(&here, work),
            _ => self.run_on_thread(work),
        }
    }

    fn enter(&self) -> Result<(), NetnsError> {
        let path = || self.path.clone();
        setns(&self.file, CloneFlags::CLONE_NEWNET).map_err(|errno| match errno {
            // The kernel's answer to a namespace of another type.
            Errno::EINVAL => NetnsError::NotNetwork { path: path() },
            Errno::EPERM => NetnsError::Permission { path: path() },
            errno => NetnsError::Enter { path: path(), source: errno.into() },
        })
    }

    fn run_between<T>(&self, here: &Netns, work: impl FnOnce() -> T) -> Result<T, NetnsError> {
        self.enter()?;
        let done = catch_unwind(AssertUnwindSafe(work));
        if (0..BACK_ATTEMPTS).all(|_| here.enter().is_err()) {
            // Anything done from here on would be done in the pod.
            eprintln!("catena: the network namespace {} cannot be left again", self.path.display());
            std::process::abort();
        }
        done.map_or_else(|panic| resume_unwind(panic), Ok)
    }

    fn run_on_thread<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new()
                .name("netns".into())
                .stack_size(256 * 1024)
                .spawn_scoped(scope, || self.enter().map(|()| work()))
                .map_err(|source| NetnsError::Thread { path: self.path.clone(), source })?;
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }
}

/// The way back was allowed a moment ago, so only the kernel's memory can be short.
const BACK_ATTEMPTS: usize = 1000;
