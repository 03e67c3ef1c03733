use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, Flock, FlockArg, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, mkdirat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use super::NodeError;

/// A folder that only the effective user can write to, held open: what is opened in it is found by a plain
/// name, without following links, and checked likewise.
#[derive(Debug)]
pub struct OwnedDir {
    fd: OwnedFd,
    path: PathBuf,
}

impl OwnedDir {
    /// Opens the folder; none if it is not there.
    ///
    /// # Errors
    /// It cannot be opened, is not a folder, is another user's, or others may write to it.
    pub fn open(path: &Path) -> Result<Option<Self>, NodeError> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        let fd = match nix::fcntl::open(path, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::ENOENT) => return Ok(None),
            Err(Errno::ELOOP | Errno::ENOTDIR) => {
                return Err(untrusted(path, "it is not a folder but a link or file; replace it by a folder"));
            }
            Err(errno) => return Err(NodeError::io("open", path, errno)),
        };
        let stat = fstat(&fd).map_err(|errno| NodeError::io("look at", path, errno))?;
        check_owner(path, &stat)?;
        Ok(Some(Self { fd, path: path.to_owned() }))
    }

    /// Opens the folder, making it and its missing ancestors (0755, the folder itself `mode`) first.
    ///
    /// Every ancestor up to the root is checked as well: whoever can write to one can exchange the folder.
    ///
    /// # Errors
    /// As [`OwnedDir::open`], and if one cannot be made.
    pub fn create(path: &Path, mode: u32) -> Result<Self, NodeError> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|error| NodeError::io("make", parent, error))?;
        }
        match mkdirat(nix::fcntl::AT_FDCWD, path, Mode::from_bits_truncate(mode)) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(NodeError::io("make", path, errno)),
        }
        for ancestor in path.ancestors().skip(1).filter(|ancestor| !ancestor.as_os_str().is_empty()) {
            check_ancestor(ancestor)?;
        }
        Self::open(path)?.ok_or_else(|| NodeError::io("open", path, Errno::ENOENT))
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file for reading; none if it is not there.
    ///
    /// # Errors
    /// It cannot be opened, is a link or no regular file, is another user's, or others may write to it.
    pub fn file(&self, name: &str) -> Result<Option<(File, u64)>, NodeError> {
        let path = self.path.join(name);
        // O_NONBLOCK: a FIFO must not hold us up; a regular file does not care.
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let fd = match openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::ENOENT) => return Ok(None),
            Err(Errno::ELOOP) => {
                return Err(untrusted(&path, "it is a symbolic link; put the file itself there"));
            }
            Err(errno) => return Err(NodeError::io("open", path, errno)),
        };
        let stat = fstat(&fd).map_err(|errno| NodeError::io("look at", &path, errno))?;
        if SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG {
            return Err(untrusted(&path, "it is not a regular file"));
        }
        check_owner(&path, &stat)?;
        Ok(Some((File::from(fd), u64::try_from(stat.st_size).unwrap_or(0))))
    }

    /// Reads a whole file of at most `limit` bytes; none if it is not there.
    ///
    /// # Errors
    /// As [`OwnedDir::file`], and if it is larger.
    pub fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, NodeError> {
        let Some((file, size)) = self.file(name)? else { return Ok(None) };
        let path = self.path.join(name);
        if size > limit {
            return Err(NodeError::TooBig { path, size, limit });
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        file.take(limit).read_to_end(&mut bytes).map_err(|error| NodeError::io("read", path, error))?;
        Ok(Some(bytes))
    }

    /// Puts a file there in one step: readers see the old one or the whole new one, also after a power cut.
    ///
    /// # Errors
    /// Any step failed; the old file is then still there.
    pub fn write(&self, name: &str, bytes: &[u8], mode: u32) -> Result<(), NodeError> {
        let temporary = format!(".{name}.{}", std::process::id());
        let path = self.path.join(&temporary);
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let fd = openat(&self.fd, temporary.as_str(), flags, Mode::from_bits_truncate(0o600))
            .map_err(|errno| NodeError::io("make", &path, errno))?;
        let mut file = File::from(fd);
        let written = file
            .write_all(bytes)
            .and_then(|()| Ok(fchmod(&file, Mode::from_bits_truncate(mode))?))
            .and_then(|()| file.sync_all())
            .and_then(|()| Ok(renameat(&self.fd, temporary.as_str(), &self.fd, name)?));
        if let Err(error) = written {
            // The error that is reported is the write's; the temporary file is replaced by the next try.
            let _ = unlinkat(&self.fd, temporary.as_str(), UnlinkatFlags::NoRemoveDir);
            return Err(NodeError::io("write", self.path.join(name), error));
        }
        self.sync()
    }

    /// Waits until the names in the folder are on disk.
    fn sync(&self) -> Result<(), NodeError> {
        nix::unistd::fsync(&self.fd).map_err(|errno| NodeError::io("sync", &self.path, errno))
    }

    /// Takes the folder's lock of that name and keeps it as long as the value lives. Waits for other holders.
    ///
    /// # Errors
    /// The lock file cannot be made or locked.
    pub fn lock(&self, name: &str) -> Result<Flock<File>, NodeError> {
        let path = self.path.join(name);
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let fd = openat(&self.fd, name, flags, Mode::from_bits_truncate(0o600))
            .map_err(|errno| NodeError::io("make", &path, errno))?;
        Flock::lock(File::from(fd), FlockArg::LockExclusive)
            .map_err(|(_, errno)| NodeError::io("lock", path, errno))
    }
}

impl AsFd for OwnedDir {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn untrusted(path: &Path, reason: impl Into<String>) -> NodeError {
    NodeError::Untrusted { path: path.to_owned(), reason: reason.into() }
}

/// What is opened must be the effective user's, and nobody else may write to it.
fn check_owner(path: &Path, stat: &FileStat) -> Result<(), NodeError> {
    let user = geteuid().as_raw();
    if stat.st_uid != user {
        return Err(untrusted(
            path,
            format!("its owner is user {}, not {user}; change it with chown", stat.st_uid),
        ));
    }
    if stat.st_mode & 0o022 != 0 {
        let mode = stat.st_mode & 0o7777;
        return Err(untrusted(
            path,
            format!("its mode is {mode:04o}, so others may write to it; take that away with chmod go-w"),
        ));
    }
    Ok(())
}

/// An ancestor may be root's as well, and one where only owners may remove their files (/tmp) will do.
fn check_ancestor(path: &Path) -> Result<(), NodeError> {
    let stat = nix::sys::stat::fstatat(nix::fcntl::AT_FDCWD, path, AtFlags::empty())
        .map_err(|errno| NodeError::io("look at", path, errno))?;
    let user = geteuid().as_raw();
    // In a user namespace the files of the system belong to the overflow user.
    let system = stat.st_uid == 0 || stat.st_uid == overflow_user();
    if stat.st_uid != user && !system {
        return Err(untrusted(
            path,
            format!("its owner is user {}, who could exchange what is in it", stat.st_uid),
        ));
    }
    if stat.st_mode & 0o022 != 0 && stat.st_mode & 0o1000 == 0 {
        let mode = stat.st_mode & 0o7777;
        return Err(untrusted(
            path,
            format!("its mode is {mode:04o}, so others could exchange what is in it"),
        ));
    }
    Ok(())
}

fn overflow_user() -> u32 {
    let read: io::Result<String> = std::fs::read_to_string("/proc/sys/kernel/overflowuid");
    read.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(65534)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn folder() -> (tempfile::TempDir, OwnedDir) {
        let temp = tempfile::tempdir().unwrap();
        let dir = OwnedDir::create(&temp.path().join("a/b"), 0o700).unwrap();
        (temp, dir)
    }

    #[test]
    fn writes_and_reads() {
        let (_temp, dir) = folder();
        assert_eq!(dir.read("x", 10).unwrap(), None);
        dir.write("x", b"one", 0o600).unwrap();
        dir.write("x", b"two", 0o644).unwrap();
        assert_eq!(dir.read("x", 3).unwrap().as_deref(), Some(&b"two"[..]));
        let mode = dir.path().join("x").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o644);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn what_others_may_write_is_refused() {
        let (_temp, dir) = folder();
        dir.write("x", b"one", 0o666).unwrap();
        let error = dir.read("x", 10).unwrap_err();
        assert!(matches!(error, NodeError::Untrusted { .. }), "{error}");
        assert!(error.to_string().contains("0666"), "{error}");
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(OwnedDir::open(dir.path()), Err(NodeError::Untrusted { .. })));
    }

    #[test]
    fn links_fifos_and_large_files_are_refused() {
        let (_temp, dir) = folder();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("link")).unwrap();
        assert!(dir.read("link", 1 << 20).unwrap_err().to_string().contains("symbolic link"));
        nix::unistd::mkfifo(&dir.path().join("fifo"), Mode::S_IRUSR).unwrap();
        assert!(dir.read("fifo", 10).unwrap_err().to_string().contains("regular"));
        dir.write("big", b"0123456789", 0o600).unwrap();
        assert!(matches!(dir.read("big", 9), Err(NodeError::TooBig { size: 10, limit: 9, .. })));
    }

    #[test]
    fn another_users_file_is_refused() {
        if !geteuid().is_root() {
            return;
        }
        let (_temp, dir) = folder();
        dir.write("x", b"one", 0o600).unwrap();
        std::os::unix::fs::chown(dir.path().join("x"), Some(1234), None).unwrap();
        assert!(dir.read("x", 10).unwrap_err().to_string().contains("owner is user 1234"));
    }
}
