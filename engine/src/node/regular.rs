use std::fs::{File, Metadata};
use std::io;

/// What is known of an open file that has to be a regular one: a fifo or a device that somebody has planted is none.
///
/// # Errors
/// It is something else (`InvalidInput`), or fstat(2) fails.
pub fn regular(file: &File) -> io::Result<Metadata> {
    let metadata = file.metadata()?;
    if metadata.is_file() {
        return Ok(metadata);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"))
}
