use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::sys::stat::Mode;
use nix::unistd::geteuid;

use super::NodeError;

/// A folder that only the effective user can write to, held open: what is opened in it is in it, is no link, and is
/// checked likewise.
#[derive(Debug)]
pub struct OwnedDir {
    dir: Dir,
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
        let folder = File::from(fd);
        check_owner(path, &folder)?;
        Ok(Some(Self { dir: Dir::from_std_file(folder), path: path.to_owned() }))
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
        match std::fs::DirBuilder::new().mode(mode).create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(NodeError::io("make", path, error)),
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
        let file = match self.open_with(name, OpenOptions::new().read(true), OFlag::O_NONBLOCK) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.raw_os_error() == Some(Errno::ELOOP as i32) => {
                return Err(untrusted(&path, "it is a symbolic link; put the file itself there"));
            }
            Err(error) => return Err(NodeError::io("open", path, error)),
        };
        let metadata = file.metadata().map_err(|error| NodeError::io("look at", &path, error))?;
        if !metadata.is_file() {
            return Err(untrusted(&path, "it is not a regular file"));
        }
        check_owner(&path, &file)?;
        Ok(Some((file, metadata.len())))
    }

    fn open_with(&self, name: &str, options: &mut OpenOptions, flags: OFlag) -> io::Result<File> {
        options.mode(0o600).custom_flags((flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC).bits());
        self.dir.open_with(name, options).map(cap_std::fs::File::into_std)
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
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let mut file = self
            .open_with(&temporary, &mut options, OFlag::O_NONBLOCK)
            .map_err(|error| NodeError::io("make", &path, error))?;
        let written = file
            .write_all(bytes)
            .and_then(|()| file.set_permissions(std::fs::Permissions::from_mode(mode)))
            .and_then(|()| file.sync_all())
            .and_then(|()| self.dir.rename(&temporary, &self.dir, name));
        if let Err(error) = written {
            // The error that is reported is the write's; the temporary file is replaced by the next try.
            let _ = self.dir.remove_file(&temporary);
            return Err(NodeError::io("write", self.path.join(name), error));
        }
        self.sync()
    }

    /// The names of all that is in the folder, sorted.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn names(&self) -> Result<Vec<String>, NodeError> {
        let failed = |error| NodeError::io("list", &self.path, error);
        let entries = self.dir.entries().map_err(failed)?;
        let names =
            entries.map(|entry| Ok(entry.map_err(failed)?.file_name().to_string_lossy().into_owned()));
        let mut names = names.collect::<Result<Vec<_>, NodeError>>()?;
        names.sort();
        Ok(names)
    }

    /// Removes a file, if it is there.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), NodeError> {
        match self.dir.remove_file(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(NodeError::io("remove", self.path.join(name), error))
            }
            _ => Ok(()),
        }
    }

    /// Waits until the names in the folder are on disk.
    fn sync(&self) -> Result<(), NodeError> {
        nix::unistd::fsync(self.dir.as_fd()).map_err(|errno| NodeError::io("sync", &self.path, errno))
    }

    /// Takes the folder's lock of that name and keeps it as long as the value lives. Waits for other holders.
    ///
    /// # Errors
    /// The lock file cannot be made or locked.
    pub fn lock(&self, name: &str) -> Result<Flock<File>, NodeError> {
        let path = self.path.join(name);
        let mut options = OpenOptions::new();
        let file = self
            .open_with(name, options.read(true).write(true).create(true), OFlag::empty())
            .map_err(|error| NodeError::io("make", &path, error))?;
        Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| NodeError::io("lock", path, errno))
    }
}

fn untrusted(path: &Path, reason: impl Into<String>) -> NodeError {
    NodeError::Untrusted { path: path.to_owned(), reason: reason.into() }
}

/// What is opened must be the effective user's, and nobody else may write to it.
fn check_owner(path: &Path, file: &File) -> Result<(), NodeError> {
    let metadata = file.metadata().map_err(|error| NodeError::io("look at", path, error))?;
    let user = geteuid().as_raw();
    if metadata.uid() != user {
        return Err(untrusted(
            path,
            format!("its owner is user {}, not {user}; change it with chown", metadata.uid()),
        ));
    }
    if metadata.mode() & 0o022 != 0 {
        let mode = metadata.mode() & 0o7777;
        return Err(untrusted(
            path,
            format!("its mode is {mode:04o}, so others may write to it; take that away with chmod go-w"),
        ));
    }
    Ok(())
}

/// An ancestor may be root's as well, and one where only owners may remove their files (/tmp) will do.
fn check_ancestor(path: &Path) -> Result<(), NodeError> {
    let metadata = std::fs::metadata(path).map_err(|error| NodeError::io("look at", path, error))?;
    let owner = metadata.uid();
    // In a user namespace the files of the system belong to the overflow user.
    let system = owner == 0 || owner == overflow_user();
    if owner != geteuid().as_raw() && !system {
        return Err(untrusted(path, format!("its owner is user {owner}, who could exchange what is in it")));
    }
    if metadata.mode() & 0o022 != 0 && metadata.mode() & 0o1000 == 0 {
        let mode = metadata.mode() & 0o7777;
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
            println!("left out: only root can give a file away");
            return;
        }
        let (_temp, dir) = folder();
        dir.write("x", b"one", 0o600).unwrap();
        std::os::unix::fs::chown(dir.path().join("x"), Some(1234), None).unwrap();
        assert!(dir.read("x", 10).unwrap_err().to_string().contains("owner is user 1234"));
    }
}
