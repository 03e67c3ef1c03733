//! A file that gets its name when it is whole.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::regular::regular;

/// Opens it for writing, empty and with mode 0600, whatever a killed writer has left there. A link that somebody has
/// planted is not followed, and a fifo is not waited for: both are errors.
///
/// # Errors
/// It cannot be opened, or is no regular file.
pub fn temporary(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_CLOEXEC | nix::libc::O_NONBLOCK)
        .open(path)?;
    regular(&file)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_a_regular_file_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "left").unwrap();
        temporary(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        temporary(&path).unwrap_err();
        // With somebody at its other end it can be opened.
        let _reader = File::options().read(true).write(true).open(&path).unwrap();
        assert!(temporary(&path).unwrap_err().to_string().contains("no regular file"));
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(folder.path().join("target"), &path).unwrap();
        temporary(&path).unwrap_err();
        assert!(!folder.path().join("target").exists());
    }
}
