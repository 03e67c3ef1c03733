//! What plugins answered to VERSION, remembered until their file changes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::atomic;
use crate::node::OwnedDir;

/// A writer that has not renamed its file after this long was killed.
const ABANDONED: Duration = Duration::from_secs(5);

/// Far more than the answers of all plugins of a node.
const LIMIT: u64 = 4 << 20;

/// The memory, a file (formats.md: `/run/catena/versions.json`) that is read when first needed.
///
/// It is an optimisation: a damaged file counts as empty and is written anew, and a write that fails is not an error.
#[derive(Debug)]
pub struct Versions {
    file: PathBuf,
    known: Mutex<Option<BTreeMap<PathBuf, Answer>>>,
}

/// What one plugin answered, and which file it was.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answer {
    inode: u64,
    /// Seconds and nanoseconds.
    mtime: (i64, i64),
    versions: Vec<String>,
}

impl Answer {
    fn of(path: &Path, versions: Vec<String>) -> Option<Self> {
        let meta = fs::metadata(path).ok()?;
        Some(Self { inode: meta.ino(), mtime: (meta.mtime(), meta.mtime_nsec()), versions })
    }
}

impl Versions {
    /// Nothing is read yet.
    pub fn at(file: &Path) -> Self {
        Self { file: file.to_owned(), known: Mutex::new(None) }
    }

    /// The answers in the text of the file, by plugin; none where it is damaged.
    pub fn parse(text: &[u8]) -> BTreeMap<PathBuf, Answer> {
        serde_json::from_slice(text).unwrap_or_default()
    }

    /// What the plugin listed, if the file is still the one that was asked.
    pub fn known(&self, plugin: &Path) -> Option<Vec<String>> {
        let mut guard = self.lock();
        let answer = self.loaded(&mut guard).get(plugin)?;
        let now = Answer::of(plugin, Vec::new())?;
        ((now.inode, now.mtime) == (answer.inode, answer.mtime)).then(|| answer.versions.clone())
    }

    /// Remembers an answer.
    pub(super) fn remember(&self, plugin: &Path, versions: &[String]) {
        let Some(answer) = Answer::of(plugin, versions.to_vec()) else { return };
        let mut guard = self.lock();
        // Another process may have written since; what it lost to us, if anything, is asked again.
        *guard = None;
        let known = self.loaded(&mut guard);
        known.insert(plugin.to_owned(), answer);
        if let Ok(text) = serde_json::to_vec(known) {
            // One name for all, or each killed writer would leave a file for ever. Who meets another writer lets it
            // have its way.
            let temporary = self.file.with_extension("json.new");
            let written = |meta: fs::Metadata| meta.modified().ok()?.elapsed().ok();
            let abandoned = |age| age > ABANDONED;
            if self.is_ours() && fs::metadata(&temporary).ok().and_then(written).is_none_or(abandoned) {
                // See the type's documentation.
                let _ = atomic::write(&self.file, &temporary, &text);
            }
        }
    }

    /// Whether nobody else can write to the folder, so that the file says what plugins said.
    fn is_ours(&self) -> bool {
        self.file.parent().is_some_and(|folder| OwnedDir::open(folder).is_ok())
    }

    fn lock(&self) -> MutexGuard<'_, Option<BTreeMap<PathBuf, Answer>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn loaded<'g>(
        &self,
        guard: &'g mut MutexGuard<'_, Option<BTreeMap<PathBuf, Answer>>>,
    ) -> &'g mut BTreeMap<PathBuf, Answer> {
        guard.get_or_insert_with(|| {
            let text =
                if self.is_ours() { atomic::read(&self.file, LIMIT).unwrap_or_default() } else { Vec::new() };
            Self::parse(&text)
        })
    }
}
