//! Files that are there completely or not at all.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

use crate::node;

/// Writes `content` (mode 0600) to `temporary` and renames that to `path`, in the same folder; missing folders are made
/// with mode 0700. No two writers may use one `temporary` at a time; what a killed writer left there is overwritten.
/// Nothing is synced: what a crash of the machine loses is made again.
pub(super) fn write(path: &Path, temporary: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = match node::temporary(temporary) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            node::temporary(temporary)?
        }
        other => other?,
    };
    let written = file.write_all(content).and_then(|()| fs::rename(temporary, path));
    if written.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(temporary);
    }
    written
}

/// Reads a file, at most `limit` bytes. A link or a fifo that somebody has planted is not followed and not waited for.
pub(super) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = File::options().read(true).custom_flags(flags.bits()).open(path)?;
    node::regular(&file)?;
    let mut text = Vec::new();
    file.take(limit).read_to_end(&mut text)?;
    Ok(text)
}
