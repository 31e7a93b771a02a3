// SPDX-License-Identifier: GPL-2.0

//! The contents of RDMA_ERROR: a peer reports a message that it cannot handle (RFC 8166, section
//! 4.5).

use crate::error::Reason;
use crate::wire::Reader;

/// `rdma_err`: the version is not supported. The lowest and the highest supported version follow.
pub(crate) const VERS: u32 = 1;

/// `rdma_err`: the chunk lists are malformed or cannot be served.
pub(crate) const CHUNK: u32 = 2;

/// Reads the contents of an RDMA_ERROR. Returns true if the error is a known one.
///
/// # Errors
///
/// Returns [`Reason::Short`] if the message ends too early.
pub(crate) fn is_known(reader: &mut Reader<'_>) -> Result<bool, Reason> {
    match reader.word().ok_or(Reason::Short)? {
        CHUNK => Ok(true),
        VERS => {
            let _lowest = reader.word().ok_or(Reason::Short)?;
            let _highest = reader.word().ok_or(Reason::Short)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_known_or_not() {
        let says = |words: &[u32]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            is_known(&mut Reader::new(&bytes))
        };
        for more in [&[][..], &[1], &[1, 1], &[1, 1, 0]] {
            assert_eq!(says(&[&[CHUNK], more].concat()), Ok(true));
            assert_eq!(says(&[&[0], more].concat()), Ok(false));
            assert_eq!(says(&[&[3], more].concat()), Ok(false));
        }
        assert_eq!(says(&[]), Err(Reason::Short));
        assert_eq!(says(&[VERS]), Err(Reason::Short));
        assert_eq!(says(&[VERS, 1]), Err(Reason::Short));
        assert_eq!(says(&[VERS, 1, 1]), Ok(true));
        assert_eq!(says(&[VERS, 1, 1, 0]), Ok(true));
    }
}
