//! Files that are there completely or not at all.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Writes `content` (mode 0600) to `temporary` and renames that to `path`, in the same folder; missing folders are made
/// with mode 0700. No two writers may use one `temporary` at a time; what a killed writer left there is overwritten.
/// Nothing is synced: what a crash of the machine loses is made again.
pub(super) fn write(path: &Path, temporary: &Path, content: &[u8]) -> io::Result<()> {
    let open = || {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_CLOEXEC)
            .open(temporary)
    };
    let mut file = match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            open()?
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
