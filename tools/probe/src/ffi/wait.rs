// SPDX-License-Identifier: GPL-2.0

//! Waits for file descriptors.

use crate::error::{Error, Result};
use nix::{
    errno::Errno,
    poll::{poll, PollFd, PollFlags, PollTimeout},
};
use std::{os::fd::BorrowedFd, time::Duration};

/// Waits until one of `fds` is readable. Returns for each if it is.
pub(super) fn wait_readable<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    timeout: Duration,
) -> Result<[bool; N]> {
    let mut polled = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    // Rounded up, as a remainder below 1 ms would become a busy loop.
    let timeout = PollTimeout::try_from(timeout.as_millis().saturating_add(1));
    match poll(&mut polled, timeout.unwrap_or(PollTimeout::MAX)) {
        Ok(_) => Ok(polled.map(|entry| entry.any().unwrap_or(true))),
        Err(Errno::EINTR) => Ok([false; N]),
        Err(errno) => Err(Error::os("poll", errno.into())),
    }
}

/// Waits like [`wait_readable`] for `own` and, if there is another one, for `other`.
pub(super) fn wait_readable_or(
    own: [BorrowedFd<'_>; 2],
    other: Option<BorrowedFd<'_>>,
    timeout: Duration,
) -> Result<[bool; 3]> {
    let [first, second] = own;
    match other {
        Some(other) => wait_readable([first, second, other], timeout),
        None => wait_readable(own, timeout).map(|[first, second]| [first, second, false]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Write,
        os::{fd::AsFd, unix::net::UnixStream},
    };

    #[test]
    fn what_is_readable_is_told() {
        let (mut writer, readable) = UnixStream::pair().unwrap();
        let (_open, silent) = UnixStream::pair().unwrap();
        let ready = || wait_readable([silent.as_fd(), readable.as_fd()], Duration::ZERO).unwrap();
        assert_eq!(ready(), [false, false]);
        writer.write_all(&[1]).unwrap();
        assert_eq!(ready(), [false, true]);
    }

    #[test]
    fn what_is_not_waited_for_is_not_readable() {
        let (mut writer, readable) = UnixStream::pair().unwrap();
        let (_open, silent) = UnixStream::pair().unwrap();
        writer.write_all(&[1]).unwrap();
        let own = [readable.as_fd(), silent.as_fd()];
        let ready = |other| wait_readable_or(own, other, Duration::ZERO).unwrap();
        assert_eq!(ready(None), [true, false, false]);
        assert_eq!(ready(Some(silent.as_fd())), [true, false, false]);
        assert_eq!(ready(Some(readable.as_fd())), [true, false, true]);
    }
}
