// SPDX-License-Identifier: GPL-2.0

//! Several connections that make their Calls at the same time, each in its own thread.

use crate::{
    calls::{Calls, Course, Granted},
    error::{Error, Outcome, Result},
    target::Target, //
};
use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration, //
};

/// The state that all connections share.
#[derive(Debug, Default)]
pub(crate) struct Crew {
    connections: usize,
    /// Connections that are ready to make Calls.
    ready: AtomicUsize,
    /// True if a connection has failed.
    failed: AtomicBool,
}

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct Member<'a> {
    crew: &'a Crew,
    is_ready: bool,
}

impl Crew {
    /// Creates a crew of this size.
    pub(crate) fn new(connections: usize) -> Self {
        Self {
            connections,
            ..Self::default()
        }
    }

    /// Returns the state of a connection that is not ready yet.
    pub(crate) fn member(&self) -> Member<'_> {
        Member {
            crew: self,
            is_ready: false,
        }
    }

    /// Returns true if a connection has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Makes the Calls of all connections; each has a course, which decides when it makes them.
    /// Connects one after the other, because a server may refuse an address that has many requests
    /// to connect at a time. Returns the grants and the course of each connection.
    pub(crate) fn run<C: Course + Send>(
        &self,
        target: &Target,
        all: &[Calls],
        courses: Vec<C>,
    ) -> Result<Vec<(Granted, C)>> {
        thread::scope(|scope| {
            let start = |(nth, (calls, course))| {
                let running = thread::Builder::new()
                    .spawn_scoped(scope, move || self.make(target, calls, course))
                    .map_err(|error| self.fail(Error::os("thread", error)))?;
                while self.ready.load(Ordering::Relaxed) <= nth && !running.is_finished() {
                    thread::sleep(Duration::from_millis(1));
                }
                Ok(running)
            };
            let running = all.iter().zip(courses).enumerate().map(start);
            let running: Vec<_> = running.collect();
            // All threads are joined before an error is returned.
            let joined = running.into_iter().map(|running| joined(running?));
            all_of(joined.collect())
        })
    }

    /// Makes the Calls of one connection.
    fn make<C: Course>(
        &self,
        target: &Target,
        calls: &Calls,
        mut course: C,
    ) -> Result<(Granted, C)> {
        let done = calls.make(target, &mut course);
        done.map(|granted| (granted, course))
            .map_err(|error| self.fail(error))
    }

    /// Notes that a connection has failed. Returns its error.
    fn fail(&self, error: Error) -> Error {
        self.failed.store(true, Ordering::Relaxed);
        error
    }
}

impl Member<'_> {
    /// Counts this connection as ready. Returns true if all are.
    pub(crate) fn all_are_ready(&mut self) -> bool {
        let ready = &self.crew.ready;
        if !self.is_ready {
            self.is_ready = true;
            ready.fetch_add(1, Ordering::Relaxed);
        }
        ready.load(Ordering::Relaxed) == self.crew.connections
    }
}

/// Returns all results, or the error that says most about the server: the first one of the server, or
/// else the first one.
fn all_of<T>(mut results: Vec<Result<T>>) -> Result<Vec<T>> {
    let is_finding = |result: &Result<T>| Outcome::of(result) == Outcome::Finding;
    match results.iter().position(is_finding) {
        Some(nth) => results.swap_remove(nth).map(|_| Vec::new()),
        None => results.into_iter().collect(),
    }
}

/// Waits for a thread and returns its result.
fn joined<T>(thread: thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    let panicked = |_| Err(Error::unavailable("a thread has panicked"));
    thread.join().unwrap_or_else(panicked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_ready_when_the_last_one_is() {
        let crew = Crew::new(2);
        let (mut first, mut second) = (crew.member(), crew.member());
        assert!(!first.all_are_ready());
        assert!(!first.all_are_ready());
        assert!(second.all_are_ready());
        assert!(first.all_are_ready());
    }

    #[test]
    fn a_failure_of_the_server_counts_more_than_one_of_this_side() {
        let local = || Err(Error::unavailable("no memory"));
        let text = |results| all_of::<u8>(results).map_err(|error| error.to_string());
        assert_eq!(text(vec![Ok(1), Ok(2)]), Ok(vec![1, 2]));
        assert_eq!(text(vec![Ok(1), local()]), Err("no memory".to_owned()));
        let both = vec![local(), Ok(1), Err(Error::new("wrong"))];
        assert_eq!(text(both), Err("wrong".to_owned()));
    }

    #[test]
    fn an_unreachable_server_fails_the_crew() {
        let crew = Crew::new(1);
        struct Never;
        impl Course for Never {
            fn next(&mut self, _: usize) -> crate::calls::Next {
                crate::calls::Next::End
            }
            fn answered(&mut self, _: crate::calls::Answered) {}
        }
        // TEST-NET-3 (RFC 5737): no RDMA device has a route to it.
        let target = Target::new(([203, 0, 113, 1], 20049).into(), None);
        let calls = [Calls::null(1)];
        assert!(crew.run(&target, &calls, vec![Never]).is_err());
        assert!(crew.has_failed());
    }
}
