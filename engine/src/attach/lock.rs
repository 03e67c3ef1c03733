//! Locks that live in files and vanish with what they protect.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::node;

/// How often a held lock is tried again.
const PAUSE: Duration = Duration::from_millis(2);

/// Why a lock could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else held it until the end.
    #[error("lock {path}: still held by another call after {waited:?}; try again when that call has ended")]
    Held {
        /// The lock's file.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// The file could not be opened or locked.
    #[error("lock {path}: {source}; check the folder's owner, mode and free space")]
    Io {
        /// The lock's file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// An exclusive flock(2) on a file. It is given up when the last process that has the descriptor has closed it: never
/// by unlocking, which would take it from children too.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// Takes the lock, waiting until `until` at most. The file is made if it is not there.
    pub fn take(path: &Path, until: Instant) -> Result<Lock, LockError> {
        Lock::of(path, until, make)
    }

    /// The same of a file that must be there, and is not written.
    pub fn take_existing(path: &Path, until: Instant) -> Result<Lock, LockError> {
        Lock::of(path, until, |path| options().open(path))
    }

    fn of(path: &Path, until: Instant, open: fn(&Path) -> io::Result<File>) -> Result<Lock, LockError> {
        let start = Instant::now();
        let failed = |source: io::Error| LockError::Io { path: path.to_owned(), source };
        loop {
            let file = open(path).map_err(failed)?;
            let ours = node::regular(&file).map_err(failed)?;
            loop {
                match file.try_lock() {
                    Ok(()) => break,
                    Err(TryLockError::WouldBlock) => {}
                    Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(TryLockError::Error(error)) => return Err(failed(error)),
                }
                if Instant::now() >= until {
                    return Err(LockError::Held { path: path.to_owned(), waited: start.elapsed() });
                }
                std::thread::sleep(PAUSE);
            }
            // Whoever held it may have removed the file: then this is a lock on nothing.
            match std::fs::symlink_metadata(path) {
                Ok(named) if named.ino() == ours.ino() && named.dev() == ours.dev() => {
                    return Ok(Lock { path: path.to_owned(), file });
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Writes into the file, to tell those that come later who has taken it.
    pub fn mark(&self) -> io::Result<()> {
        (&self.file).write_all(b"CHECK\n")
    }

    /// The descriptor, for children that shall hold the lock as well.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Removes the file and gives the lock up, in this order.
    pub fn remove(self) -> Result<(), LockError> {
        remove(&self.path).map_err(|source| LockError::Io { path: self.path, source })
    }
}

/// A link that somebody has planted is not followed, and a fifo is not waited for.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_CLOEXEC | nix::libc::O_NONBLOCK;
    options.read(true).mode(0o600).custom_flags(flags);
    options
}

fn make(path: &Path) -> io::Result<File> {
    match options().write(true).create(true).truncate(false).open(path) {
        // What is there can be locked on a read-only file system too, so that CHECK and DEL do what they can.
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            options().open(path).map_err(|_| error)
        }
        other => other,
    }
}

/// Removes a file, or what stands in its place: a link itself, and a folder if it is empty. That nothing is there is no
/// error.
pub fn remove(path: &Path) -> io::Result<()> {
    let removed = match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => std::fs::remove_dir(path),
        other => other,
    };
    removed.or_else(|error| match std::fs::symlink_metadata(path) {
        // A read-only file system refuses to remove what is not there.
        Err(absent) if absent.kind() == io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })
}

/// Sends SIGKILL to all processes but ourselves that have the lock's file open; their numbers. Whoever may not be
/// looked into is none of ours.
pub fn end_holders(path: &Path) -> Vec<i32> {
    let Ok(lock) = std::fs::symlink_metadata(path) else { return Vec::new() };
    let holds = |pid: &i32| {
        let Ok(open) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        open.flatten()
            .filter_map(|fd| std::fs::metadata(fd.path()).ok())
            .any(|file| (file.dev(), file.ino()) == (lock.dev(), lock.ino()))
    };
    let Ok(all) = std::fs::read_dir("/proc") else { return Vec::new() };
    all.flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| u32::try_from(*pid) != Ok(std::process::id()))
        .filter(holds)
        .filter(|pid| kill(Pid::from_raw(*pid), Signal::SIGKILL).is_ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_lock_is_waited_for_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let held = Lock::take(&path, Instant::now()).unwrap();
        let error = Lock::take(&path, Instant::now() + Duration::from_millis(10)).unwrap_err();
        assert!(error.to_string().contains("still held by another call"), "{error}");
        drop(held);
        Lock::take(&path, Instant::now()).unwrap();
    }

    #[test]
    fn a_removed_lock_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let first = Lock::take(&path, Instant::now()).unwrap();
        let waiting = {
            let path = path.clone();
            std::thread::spawn(move || Lock::take(&path, Instant::now() + Duration::from_secs(5)))
        };
        std::thread::sleep(Duration::from_millis(20));
        first.remove().unwrap();
        let second = waiting.join().unwrap().unwrap();
        assert!(path.exists());
        second.remove().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_planted_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        let path = folder.path().join("a.lock");
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(matches!(Lock::take(&path, Instant::now()), Err(LockError::Io { .. })));
        assert!(!target.exists());
    }

    #[test]
    fn only_a_regular_file_is_locked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for taken in [Lock::take(&path, Instant::now()), Lock::take_existing(&path, Instant::now())] {
            let error = taken.unwrap_err().to_string();
            assert!(error.contains("no regular file"), "{error}");
        }
    }

    #[test]
    fn what_is_there_can_be_locked_without_writing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        assert!(matches!(Lock::take_existing(&path, Instant::now()), Err(LockError::Io { .. })));
        assert!(!path.exists());
        std::fs::write(&path, "{}").unwrap();
        let held = Lock::take_existing(&path, Instant::now()).unwrap();
        assert!(matches!(Lock::take_existing(&path, Instant::now()), Err(LockError::Held { .. })));
        held.remove().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn whatever_is_in_a_files_place_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        remove(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        remove(&path).unwrap();
        std::os::unix::fs::symlink(folder.path(), &path).unwrap();
        remove(&path).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        std::fs::create_dir_all(path.join("full")).unwrap();
        remove(&path).unwrap_err();
        assert!(path.join("full").exists());
    }
}
