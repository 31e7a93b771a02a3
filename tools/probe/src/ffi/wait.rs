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
}
