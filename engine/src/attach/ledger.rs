//! The ledger: a folder of entries, written before anything is done.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::attach::entry::{Entry, EntryError, Event, Intended, line};
use crate::attach::key::Key;
use crate::attach::lock::{self, Lock, LockError};

/// More than any entry that we write: attachments are bounded by stdin (4 MiB), results by 1 MiB each.
const ENTRY_LIMIT: u64 = 256 << 20;

/// Why the ledger could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// A file operation failed.
    #[error("ledger: {operation} {path}: {source}; check the folder's owner, mode and free space")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The folder could be written by others.
    #[error("ledger: {path} {what}; make it a folder of the user that runs catena with mode 0700")]
    Unsafe {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A lock could not be taken.
    #[error("ledger: {0}")]
    Lock(#[from] LockError),
    /// A record could not be written as JSON.
    #[error("ledger: encode an entry: {0}")]
    Encode(#[from] serde_json::Error),
}

/// The folder.
#[derive(Debug, Clone)]
pub struct Ledger {
    folder: PathBuf,
}

/// What is recorded for a key.
#[derive(Debug)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// An entry.
    Entry(Box<Entry>),
    /// A file that cannot be read as an entry.
    Damaged(EntryError),
}

impl Ledger {
    /// Opens the folder, making it (mode 0700) where it is not there.
    pub fn open(folder: &Path) -> Result<Ledger, LedgerError> {
        let failed = |operation, source| LedgerError::Io { operation, path: folder.to_owned(), source };
        let metadata = match std::fs::symlink_metadata(folder) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let absent: Vec<&Path> = folder.ancestors().take_while(|path| !path.exists()).collect();
                for sub in [folder.to_owned(), folder.join("failed")] {
                    std::fs::DirBuilder::new()
                        .recursive(true)
                        .mode(0o700)
                        .create(&sub)
                        .map_err(|source| failed("create", source))?;
                }
                // An entry that is synced is lost all the same if its folder's own name is.
                for above in absent.iter().filter_map(|path| path.parent()) {
                    sync_folder(above).map_err(|source| failed("sync", source))?;
                }
                std::fs::symlink_metadata(folder).map_err(|source| failed("stat", source))?
            }
            Err(error) => return Err(failed("stat", error)),
        };
        safe(folder, &metadata)?;
        Ok(Ledger { folder: folder.to_owned() })
    }

    /// The same for a call that takes away: a folder that neither is there nor can be made has no entries.
    pub fn open_to_delete(folder: &Path) -> Result<Ledger, LedgerError> {
        Ledger::open(folder).or_else(|error| match std::fs::symlink_metadata(folder) {
            Err(absent) if absent.kind() == io::ErrorKind::NotFound => {
                Ok(Ledger { folder: folder.to_owned() })
            }
            _ => Err(error),
        })
    }

    fn path(&self, stem: &str, suffix: &str) -> PathBuf {
        self.folder.join(format!("{stem}{suffix}"))
    }

    fn failed_path(&self, stem: &str) -> PathBuf {
        self.folder.join("failed").join(stem)
    }

    /// Takes the lock of a key, waiting until `until` at most.
    pub fn lock(&self, key: &Key, until: Instant) -> Result<Slot, LedgerError> {
        self.lock_stem(key.stem(), until)
    }

    /// As [`Ledger::lock`], by the stem of an entry's file.
    pub fn lock_stem(&self, stem: String, until: Instant) -> Result<Slot, LedgerError> {
        let lock = Lock::take(&self.path(&stem, ".lock"), until)?;
        Ok(self.slot(stem, Some(lock)))
    }

    /// The same for a call that takes away, which goes on where no lock can be made: who makes something takes one
    /// first, so nobody does. Why there is none is the second value.
    pub fn lock_to_delete(
        &self,
        stem: String,
        until: Instant,
    ) -> Result<(Slot, Option<LockError>), LedgerError> {
        let path = self.path(&stem, ".lock");
        let error = match Lock::take(&path, until) {
            Ok(lock) => return Ok((self.slot(stem, Some(lock)), None)),
            Err(error @ LockError::Held { .. }) => return Err(error.into()),
            Err(error) => error,
        };
        let lock = match std::fs::symlink_metadata(&path) {
            // Somebody may hold it.
            Ok(there) if there.is_file() => return Err(error.into()),
            Err(absent) if absent.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            Ok(_) if lock::remove(&path).is_ok() => Lock::take(&path, until),
            // Two that take the same away keep each other waiting all the same.
            _ => Lock::take_existing(&self.path(&stem, ".json"), until),
        };
        match lock {
            Ok(lock) => Ok((self.slot(stem, Some(lock)), Some(error))),
            Err(held @ LockError::Held { .. }) => Err(held.into()),
            Err(LockError::Io { .. }) => Ok((self.slot(stem, None), Some(error))),
        }
    }

    fn slot(&self, stem: String, lock: Option<Lock>) -> Slot {
        Slot { ledger: self.clone(), stem, lock, file: None, children: None }
    }

    /// The stems of all entries.
    pub fn stems(&self) -> Result<Vec<String>, LedgerError> {
        stems(&self.folder, Some(".json"))
    }

    /// The stems of locks without an entry: of calls that run, and of killed ones whose DEL has not come.
    pub fn stems_without_entry(&self) -> Result<Vec<String>, LedgerError> {
        let mut found: BTreeSet<String> = stems(&self.folder, Some(".lock"))?.into_iter().collect();
        found.extend(stems(&self.folder, Some(".children"))?);
        for entry in self.stems()? {
            found.remove(&entry);
        }
        Ok(found.into_iter().collect())
    }

    /// The stems of the entries whose DEL has failed or never ended, longest untried first.
    pub fn failed_stems(&self) -> Result<Vec<String>, LedgerError> {
        let folder = self.folder.join("failed");
        let mut found: Vec<_> = stems(&folder, None)?
            .into_iter()
            .map(|stem| (std::fs::metadata(folder.join(&stem)).and_then(|m| m.modified()).ok(), stem))
            .collect();
        found.sort();
        Ok(found.into_iter().map(|(_, stem)| stem).collect())
    }

    /// When a failed entry was last tried, and how often.
    pub fn failed_attempts(&self, stem: &str) -> Result<(u64, Duration), LedgerError> {
        let path = self.failed_path(stem);
        let failed = |source| LedgerError::Io { operation: "stat", path: path.clone(), source };
        let metadata = std::fs::metadata(&path).map_err(failed)?;
        let age = metadata.modified().map_err(failed)?.elapsed().unwrap_or_default();
        Ok((metadata.len(), age))
    }

    /// Reads an entry without its lock, for people who look.
    pub fn read_stem(&self, stem: &str) -> Result<Found, LedgerError> {
        let path = self.path(stem, ".json");
        let failed = |operation, source| LedgerError::Io { operation, path: path.clone(), source };
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_CLOEXEC | nix::libc::O_NONBLOCK)
            .open(&path);
        let file = match file {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
            // A link, a socket, a device without a driver.
            Err(error) => match std::fs::symlink_metadata(&path) {
                Ok(there) if !there.is_file() => return Ok(Found::Damaged(EntryError::NoFile)),
                _ => return Err(failed("open", error)),
            },
        };
        let metadata = file.metadata().map_err(|source| failed("stat", source))?;
        if !metadata.is_file() {
            return Ok(Found::Damaged(EntryError::NoFile));
        }
        if metadata.uid() != nix::unistd::geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
            return Ok(Found::Damaged(EntryError::Foreign));
        }
        let mut bytes = Vec::new();
        file.take(ENTRY_LIMIT).read_to_end(&mut bytes).map_err(|source| failed("read", source))?;
        Ok(match Entry::read(&bytes) {
            Ok(entry) => Found::Entry(Box::new(entry)),
            Err(error) => Found::Damaged(error),
        })
    }
}

/// Whether it is a folder into which nobody else can plant anything.
fn safe(folder: &Path, metadata: &Metadata) -> Result<(), LedgerError> {
    let wrong = |what| Err(LedgerError::Unsafe { path: folder.to_owned(), what });
    if !metadata.is_dir() {
        return wrong("is not a folder");
    }
    if metadata.uid() != nix::unistd::geteuid().as_raw() {
        return wrong("belongs to another user");
    }
    if metadata.mode() & 0o022 != 0 {
        return wrong("can be written by others");
    }
    Ok(())
}

/// Whether the last line has no end: the power failed, or the disk was full.
fn is_cut_off(file: &File) -> io::Result<bool> {
    let length = file.metadata()?.len();
    let mut last = [b'\n'];
    if length > 0 {
        file.read_exact_at(&mut last, length - 1)?;
    }
    Ok(last != [b'\n'])
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn stems(folder: &Path, suffix: Option<&str>) -> Result<Vec<String>, LedgerError> {
    let failed = |source| LedgerError::Io { operation: "list", path: folder.to_owned(), source };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        let Some(name) = OsStr::to_str(&name) else { continue };
        match suffix {
            None => found.push(name.to_owned()),
            Some(suffix) => found.extend(name.strip_suffix(suffix).map(str::to_owned)),
        }
    }
    Ok(found)
}

/// The place of one key in the ledger, locked.
#[derive(Debug)]
pub struct Slot {
    ledger: Ledger,
    stem: String,
    /// None where none can be made, and nothing can be begun.
    lock: Option<Lock>,
    file: Option<File>,
    children: Option<Lock>,
}

impl Slot {
    fn io(&self, operation: &'static str, path: PathBuf, source: io::Error) -> LedgerError {
        LedgerError::Io { operation, path, source }
    }

    /// The stem of its files.
    pub fn stem(&self) -> &str {
        &self.stem
    }

    /// What is recorded.
    pub fn read(&self) -> Result<Found, LedgerError> {
        self.ledger.read_stem(&self.stem)
    }

    /// Writes the first line of a new entry, and `events` with it; the file is whole on disk, under its
    /// name, when this returns.
    pub fn begin(&mut self, intended: &Intended, events: &[Event]) -> Result<(), LedgerError> {
        let path = self.ledger.path(&self.stem, ".json");
        let mut bytes = line(intended)?;
        for event in events {
            bytes.extend(line(event)?);
        }
        let mut file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_CLOEXEC)
            .open(&path)
            .map_err(|source| self.io("create", path.clone(), source))?;
        file.write_all(&bytes).map_err(|source| self.io("write", path.clone(), source))?;
        file.sync_all().map_err(|source| self.io("sync", path.clone(), source))?;
        sync_folder(&self.ledger.folder)
            .map_err(|source| self.io("sync", self.ledger.folder.clone(), source))?;
        self.file = Some(file);
        Ok(())
    }

    /// Appends a line; it may be lost with the power.
    pub fn append(&mut self, event: &Event) -> Result<(), LedgerError> {
        let path = self.ledger.path(&self.stem, ".json");
        let mut bytes = line(event)?;
        let mut file = match self.file.take() {
            Some(file) => file,
            None => {
                let file = OpenOptions::new()
                    .read(true)
                    .append(true)
                    .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_CLOEXEC)
                    .open(&path)
                    .map_err(|source| self.io("open", path.clone(), source))?;
                if is_cut_off(&file).map_err(|source| self.io("read", path.clone(), source))? {
                    bytes.insert(0, b'\n');
                }
                file
            }
        };
        file.write_all(&bytes).map_err(|source| self.io("append to", path, source))?;
        // Kept only where the last line is whole.
        self.file = Some(file);
        Ok(())
    }

    /// A lock that the delegates' children inherit: as long as one of them lives, it is held.
    pub fn children_lock(&mut self, until: Instant) -> Result<&Lock, LedgerError> {
        let path = self.ledger.path(&self.stem, ".children");
        let lock = match self.children.take() {
            Some(lock) => lock,
            None => Lock::take(&path, until)?,
        };
        Ok(self.children.insert(lock))
    }

    /// The same for a CHECK. Of an attachment that was recorded as finished the file itself says that a CHECK has
    /// not ended; its content tells it from what is left by an ADD that was killed after that.
    pub fn check_lock(&mut self, until: Instant) -> Result<&Lock, LedgerError> {
        let path = self.ledger.path(&self.stem, ".children");
        if let Err(source) = self.children_lock(until)?.mark() {
            self.end_children_lock()?;
            return Err(LedgerError::Io { operation: "write", path, source });
        }
        self.children_lock(until)
    }

    /// Whether a CHECK was killed, so that its delegates' children may still be at work: also where nobody can tell.
    pub fn has_check(&self) -> bool {
        match std::fs::symlink_metadata(self.ledger.path(&self.stem, ".children")) {
            Ok(file) => file.is_file() && file.len() > 0,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Ends all processes that hold the children's lock; their numbers.
    pub fn end_children(&self) -> Vec<i32> {
        lock::end_holders(&self.ledger.path(&self.stem, ".children"))
    }

    /// Makes a new lock for children, whoever may still hold the old one.
    pub fn renew_children_lock(&mut self) -> Result<(), LedgerError> {
        let path = self.ledger.path(&self.stem, ".children");
        lock::remove(&path).map_err(|source| self.io("remove", path, source))
    }

    /// Gives up our hold of the children's lock and removes its file.
    pub fn end_children_lock(&mut self) -> Result<(), LedgerError> {
        match self.children.take() {
            Some(lock) => Ok(lock.remove()?),
            None => self.renew_children_lock(),
        }
    }

    /// Marks the entry as one whose DEL has begun or failed once more, so that later calls try it again.
    pub fn mark_failed(&mut self) -> Result<(), LedgerError> {
        let path = self.ledger.failed_path(&self.stem);
        let folder = self.ledger.folder.join("failed");
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(|source| self.io("create", folder.clone(), source))?;
        let metadata = std::fs::symlink_metadata(&folder);
        safe(&folder, &metadata.map_err(|source| self.io("stat", folder.clone(), source))?)?;
        // One byte an attempt: size and time of change are all that the back-off needs.
        OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_CLOEXEC | nix::libc::O_NONBLOCK)
            .open(&path)
            .and_then(|mut file| file.write_all(b"."))
            .map_err(|source| self.io("mark", path, source))
    }

    /// Drops a damaged entry's file, or what stands in its place, keeping nothing.
    pub fn discard(&mut self) -> Result<(), LedgerError> {
        self.file = None;
        let remove = |path: PathBuf| lock::remove(&path).map_err(|source| self.io("remove", path, source));
        remove(self.ledger.path(&self.stem, ".json"))?;
        let failed = self.ledger.folder.join("failed");
        match std::fs::symlink_metadata(&failed) {
            Ok(folder) if folder.is_dir() => remove(self.ledger.failed_path(&self.stem)),
            // What a planted link leads to is not ours.
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(self.io("look at", failed, source)),
        }
    }

    /// Removes entry and locks: nothing of this key is left.
    pub fn remove(mut self) -> Result<(), LedgerError> {
        self.discard()?;
        self.end_children_lock()?;
        Ok(self.lock.map_or(Ok(()), Lock::remove)?)
    }

    /// Leaves the ledger as it is, without a lock file where there is no entry. Children that hold theirs keep it.
    pub fn release(mut self) -> Result<(), LedgerError> {
        let held =
            matches!(self.children_lock(Instant::now()), Err(LedgerError::Lock(LockError::Held { .. })));
        if held {
            return Ok(());
        }
        match std::fs::symlink_metadata(self.ledger.path(&self.stem, ".json")) {
            Err(absent) if absent.kind() == io::ErrorKind::NotFound => self.remove(),
            _ => self.end_children_lock(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::entry::tests::intended;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(1)
    }

    #[test]
    fn an_entry_lives_and_goes_without_a_trace() {
        let root = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(&root.path().join("state")).unwrap();
        let mut slot = ledger.lock_stem("a".into(), soon()).unwrap();
        assert!(matches!(slot.read().unwrap(), Found::Nothing));
        slot.begin(&intended(), &[]).unwrap();
        slot.append(&Event::Finished).unwrap();
        slot.children_lock(soon()).unwrap();
        slot.mark_failed().unwrap();
        drop(slot);

        let slot = ledger.lock_stem("a".into(), soon()).unwrap();
        let Found::Entry(entry) = slot.read().unwrap() else { panic!("no entry") };
        assert!(entry.is_finished());
        assert_eq!(ledger.stems().unwrap(), ["a"]);
        assert_eq!(ledger.failed_stems().unwrap(), ["a"]);
        slot.remove().unwrap();
        let left: Vec<_> = std::fs::read_dir(root.path().join("state")).unwrap().collect();
        assert_eq!(left.len(), 1, "only the folder `failed`: {left:?}");
        assert!(ledger.failed_stems().unwrap().is_empty());
    }

    #[test]
    fn a_slot_without_an_entry_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(root.path()).unwrap();
        ledger.lock_stem("a".into(), soon()).unwrap().release().unwrap();
        assert!(std::fs::read_dir(root.path()).unwrap().next().is_none());
    }

    #[test]
    fn locks_without_an_entry_are_found_and_those_of_children_stay() {
        let root = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(root.path()).unwrap();
        let mut entry = ledger.lock_stem("a".into(), soon()).unwrap();
        entry.begin(&intended(), &[]).unwrap();
        drop(ledger.lock_stem("b".into(), soon()).unwrap());
        let mut child = ledger.lock_stem("c".into(), soon()).unwrap();
        let held = child.children_lock(soon()).unwrap().as_fd().try_clone_to_owned().unwrap();
        drop(child);
        assert_eq!(ledger.stems_without_entry().unwrap(), ["b", "c"]);
        for stem in ["b", "c"] {
            ledger.lock_stem(stem.into(), soon()).unwrap().release().unwrap();
        }
        assert_eq!(ledger.stems_without_entry().unwrap(), ["c"]);
        drop(held);
        ledger.lock_stem("c".into(), soon()).unwrap().release().unwrap();
        assert!(ledger.stems_without_entry().unwrap().is_empty());
    }

    #[test]
    fn who_takes_away_goes_on_without_a_lock() {
        let root = tempfile::tempdir().unwrap();
        let absent = root.path().join("absent");
        let ledger = Ledger { folder: absent.clone() };
        let (slot, why) = ledger.lock_to_delete("a".into(), soon()).unwrap();
        assert!(why.is_some() && matches!(slot.read().unwrap(), Found::Nothing));
        slot.remove().unwrap();

        // What is planted makes room, if it can.
        let ledger = Ledger::open(&absent).unwrap();
        let lock = absent.join("a.lock");
        std::os::unix::fs::symlink("/etc/hostname", &lock).unwrap();
        let (slot, why) = ledger.lock_to_delete("a".into(), soon()).unwrap();
        assert!(
            why.is_some() && lock.is_file() && ledger.lock_to_delete("a".into(), Instant::now()).is_err()
        );
        slot.remove().unwrap();
        std::fs::create_dir_all(lock.join("full")).unwrap();
        std::fs::write(absent.join("a.json"), "{}").unwrap();
        let (held, why) = ledger.lock_to_delete("a".into(), soon()).unwrap();
        assert!(why.is_some_and(|why| why.to_string().contains("a.lock")));
        let second = ledger.lock_to_delete("a".into(), Instant::now());
        assert!(matches!(second, Err(LedgerError::Lock(LockError::Held { .. }))));
        held.remove().unwrap();
        assert!(!absent.join("a.json").exists() && lock.join("full").exists());
    }

    #[test]
    fn a_folder_that_others_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(Ledger::open(root.path()), Err(LedgerError::Unsafe { .. })));
    }

    #[test]
    fn what_is_planted_is_no_entry() {
        let root = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(root.path()).unwrap();
        let mut slot = ledger.lock_stem("a".into(), soon()).unwrap();
        let path = root.path().join("a.json");
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(slot.read().unwrap(), Found::Damaged(EntryError::NoFile)));
        slot.discard().unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(matches!(slot.read().unwrap(), Found::Damaged(EntryError::NoFile)));
        slot.discard().unwrap();
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(matches!(slot.read().unwrap(), Found::Damaged(EntryError::NoFile)));
        slot.discard().unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        assert!(matches!(slot.read().unwrap(), Found::Damaged(EntryError::NoFile)));
        assert!(matches!(slot.begin(&intended(), &[]), Err(LedgerError::Io { .. })));
        let elsewhere = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), root.path().join("failed")).unwrap();
        assert!(matches!(slot.mark_failed(), Err(LedgerError::Unsafe { what: "is not a folder", .. })));
        assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }
}
