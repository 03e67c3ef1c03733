//! The request text.

use std::io::{self, Read};

use catena_cni::error::code;

use super::error::CniError;

/// Bytes of stdin that are read; the largest requests seen, with all annotations of a pod, have some hundred KiB.
pub const LIMIT: usize = 4 * 1024 * 1024;

/// Reads the whole request. More than [`LIMIT`] is an error (code 6), as is a read that fails (code 5).
pub fn read() -> Result<Vec<u8>, CniError> {
    read_from(io::stdin().lock())
}

fn read_from(from: impl Read) -> Result<Vec<u8>, CniError> {
    let mut text = Vec::new();
    from.take(LIMIT as u64 + 1).read_to_end(&mut text).map_err(|error| {
        CniError::new(code::IO, format!("reading the request from stdin failed: {error}"))
    })?;
    if text.len() > LIMIT {
        return Err(CniError::new(code::DECODE, format!("the request on stdin has more than {LIMIT} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stdin_is_bounded() {
        assert_eq!(read_from(io::repeat(b' ').take(LIMIT as u64)).unwrap().len(), LIMIT);
        assert_eq!(read_from(io::repeat(b' ')).unwrap_err().code, code::DECODE);
    }
}
