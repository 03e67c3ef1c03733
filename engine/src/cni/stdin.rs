//! The request text.

use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

use catena_cni::error::code;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd;

use super::error::CniError;

/// Bytes of stdin that are read; the largest requests seen, with all annotations of a pod, have some hundred KiB.
pub const LIMIT: usize = 4 * 1024 * 1024;

/// Bytes of one read. Most requests fit, and each page of a larger block would be touched for nothing.
const BLOCK: usize = 4 * 1024;

/// Reads the whole request. More than [`LIMIT`] is an error (code 6), as is a read that fails or has not come to its
/// end at `until` (code 5): a caller that forgets to close its end of the pipe must not make us wait for ever.
pub fn read(until: Instant) -> Result<Vec<u8>, CniError> {
    read_from(io::stdin(), until)
}

/// Reads the descriptor itself: what a buffer holds is not seen by poll(2).
fn read_from(from: impl AsFd, until: Instant) -> Result<Vec<u8>, CniError> {
    let failed =
        |cause: String| CniError::new(code::IO, format!("reading the request from stdin failed: {cause}"));
    let mut text = Vec::new();
    let mut block = [0; BLOCK];
    loop {
        if !is_ready(&from, until).map_err(|errno| failed(format!("poll: {errno}")))? {
            let sofar = text.len();
            return Err(failed(format!(
                "the time for this call is over, and after {sofar} bytes it has not ended; the caller has to close it"
            )));
        }
        match unistd::read(&from, &mut block) {
            Ok(0) => return Ok(text),
            Ok(count) => text.extend_from_slice(block.get(..count).unwrap_or_default()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(failed(errno.to_string())),
        }
        if text.len() > LIMIT {
            return Err(CniError::new(
                code::DECODE,
                format!("the request on stdin has more than {LIMIT} bytes"),
            ));
        }
    }
}

/// Waits until a read does not block; false when the time is over.
fn is_ready(from: &impl AsFd, until: Instant) -> Result<bool, Errno> {
    loop {
        let left = until.saturating_duration_since(Instant::now()).as_millis().min(i32::MAX as u128);
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(from.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(0) if Instant::now() >= until => return Ok(false),
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return Ok(true),
            Err(errno) => return Err(errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::time::Duration;

    use super::*;

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn stdin_is_bounded() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(LIMIT as u64).unwrap();
        assert_eq!(read_from(&file, later()).unwrap().len(), LIMIT);
        assert_eq!(read_from(File::open("/dev/zero").unwrap(), later()).unwrap_err().code, code::DECODE);
    }

    #[test]
    fn a_stdin_that_does_not_end_is_an_error() {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"{}").unwrap();
        let error = read_from(&reader, Instant::now() + Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.code, code::IO);
        assert!(error.msg.contains("after 2 bytes"), "{}", error.msg);
        writer.write_all(b"[]").unwrap();
        drop(writer);
        assert_eq!(read_from(&reader, later()).unwrap(), b"[]");
    }
}
