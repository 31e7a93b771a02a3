// SPDX-License-Identifier: GPL-2.0

//! How long a client has been quiet.

use std::time::{Duration, Instant};

/// The time since a client was last active, and the limit of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quiet {
    limit: Duration,
    since: Instant,
}

impl Quiet {
    /// Creates the state of a client that is active `now`.
    pub(super) fn new(limit: Duration, now: Instant) -> Self {
        Self { limit, since: now }
    }

    /// Notes that the client is active: it has sent something, or got the Reply to a Call.
    pub(super) fn end(&mut self, now: Instant) {
        self.since = now;
    }

    /// Returns the time that is left until the limit.
    pub(super) fn left(&self, now: Instant) -> Duration {
        self.limit
            .saturating_sub(now.saturating_duration_since(self.since))
    }

    /// Returns the limit.
    pub(super) fn limit(&self) -> Duration {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activity_starts_the_time_again() {
        let start = Instant::now();
        let second = |n| Duration::from_secs(n);
        let mut quiet = Quiet::new(second(10), start);
        assert_eq!(quiet.left(start), second(10));
        assert_eq!(quiet.left(start + second(7)), second(3));
        quiet.end(start + second(7));
        assert_eq!(quiet.left(start + second(10)), second(7));
        assert_eq!(quiet.left(start + second(17)), Duration::ZERO);
        assert_eq!(quiet.left(start + second(99)), Duration::ZERO);
    }
}
