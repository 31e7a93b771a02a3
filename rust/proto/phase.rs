// SPDX-License-Identifier: GPL-2.0

//! Phases of a connection.
//!
//! A connection goes through its phases in order and may skip some. A phase holds what exists only in
//! that phase: `Id` is the identifier of the connection manager, `Half` a reference to the hardware half.
//! The caller keeps the phase under a lock, and does what a transition returns after it has released the
//! lock.

/// The phase of a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Phase<Id, Half> {
    /// The peer waits to be accepted.
    Pending(Id),
    /// An nfsd thread has taken the id and accepts the peer.
    Accepting,
    /// Calls arrive.
    Established(Half),
    /// The reason to close is known. The workqueue tears the rest down.
    Closing(Doomed<Id, Half>),
    /// The queue pair is gone. The peer has not confirmed the disconnect yet.
    Leaving(Id),
    /// No hardware object is left.
    Dead,
}

/// The part of a closing connection that is not torn down yet.
#[derive(Debug, PartialEq, Eq)]
pub enum Doomed<Id, Half> {
    /// An id that was not accepted, or whose queue pair is gone.
    Id(Id),
    /// An accepted connection.
    Half(Half),
    /// The accept is still in progress; [`Phase::settle`] decides what to tear down.
    Unsettled,
    /// Nothing.
    Nothing,
}

/// The next step of the caller of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// Nothing.
    Nothing,
    /// The caller queues the work that takes what is doomed and tears it down.
    TearDown,
}

impl<Id, Half> Phase<Id, Half> {
    /// Returns the name that debugfs shows.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pending(_) => "pending",
            Self::Accepting => "accepting",
            Self::Established(_) => "established",
            Self::Closing(_) => "closing",
            Self::Leaving(_) => "leaving",
            Self::Dead => "dead",
        }
    }

    /// Returns the hardware half of an established connection.
    pub fn half(&self) -> Option<&Half> {
        match self {
            Self::Established(half) => Some(half),
            _ => None,
        }
    }

    /// Starts the accept of a pending connection and returns its id.
    pub fn take_pending(&mut self) -> Option<Id> {
        match core::mem::replace(self, Self::Accepting) {
            Self::Pending(id) => Some(id),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Ends the accept, with the hardware half that it made, or without one if it failed. Does nothing if
    /// the accept has ended before.
    pub fn settle(&mut self, half: Option<&Half>) -> Next
    where
        Half: Clone,
    {
        match (&*self, half) {
            (Self::Accepting, Some(half)) => *self = Self::Established(half.clone()),
            (Self::Closing(Doomed::Unsettled), half) => {
                *self = Self::Closing(half.cloned().map_or(Doomed::Nothing, Doomed::Half));
                return Next::TearDown;
            }
            _ => {}
        }
        Next::Nothing
    }

    /// Starts to close. Returns `None` if the connection was closing already.
    pub fn close(&mut self) -> Option<Next> {
        let (doomed, next) = match core::mem::replace(self, Self::Dead) {
            Self::Pending(id) => (Doomed::Id(id), Next::TearDown),
            Self::Accepting => (Doomed::Unsettled, Next::Nothing),
            Self::Established(half) => (Doomed::Half(half), Next::TearDown),
            closing => {
                *self = closing;
                return None;
            }
        };
        *self = Self::Closing(doomed);
        Some(next)
    }

    /// Takes what is to be torn down. The connection stays in [`Phase::Closing`].
    pub fn take_doomed(&mut self) -> Doomed<Id, Half> {
        match core::mem::replace(self, Self::Closing(Doomed::Nothing)) {
            Self::Closing(Doomed::Unsettled) => {
                *self = Self::Closing(Doomed::Unsettled);
                Doomed::Nothing
            }
            Self::Closing(doomed) => doomed,
            other => {
                *self = other;
                Doomed::Nothing
            }
        }
    }

    /// Keeps the id of a connection that was torn down until the peer confirms the disconnect.
    ///
    /// # Errors
    ///
    /// The id, if the connection is in any other phase.
    pub fn leave(&mut self, id: Id) -> Result<(), Id> {
        match self {
            Self::Closing(Doomed::Nothing) => {
                *self = Self::Leaving(id);
                Ok(())
            }
            _ => Err(id),
        }
    }

    /// Stops waiting for the peer's confirmation, because it has arrived or takes too long.
    pub fn hang_up(&mut self) -> Next {
        match core::mem::replace(self, Self::Dead) {
            Self::Leaving(id) => {
                *self = Self::Closing(Doomed::Id(id));
                Next::TearDown
            }
            other => {
                *self = other;
                Next::Nothing
            }
        }
    }

    /// Marks a connection dead after everything was torn down. Returns false, and does nothing, in any
    /// other phase.
    pub fn end(&mut self) -> bool {
        let is_over = matches!(self, Self::Closing(Doomed::Nothing));
        if is_over {
            *self = Self::Dead;
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Op {
        TakePending,
        SettleWith,
        SettleWithout,
        Close,
        TakeDoomed,
        Leave,
        HangUp,
        End,
    }

    const OPS: [Op; 8] = [
        Op::TakePending,
        Op::SettleWith,
        Op::SettleWithout,
        Op::Close,
        Op::TakeDoomed,
        Op::Leave,
        Op::HangUp,
        Op::End,
    ];

    /// A connection with its id and half (both 7) wherever they are.
    #[derive(Debug)]
    struct Model {
        phase: Phase<u8, u8>,
        /// The id, while neither the phase nor the half has it.
        id: Option<u8>,
        /// True while the accept runs, which has the id.
        accepts: bool,
        /// True from the first close on.
        closing: bool,
        /// Work that was queued and has not taken what is doomed yet.
        queued: u32,
    }

    impl Model {
        fn new() -> Self {
            Self {
                phase: Phase::Pending(7),
                id: None,
                accepts: false,
                closing: false,
                queued: 0,
            }
        }

        fn follow(&mut self, next: Next) {
            if next == Next::TearDown {
                self.queued += 1;
            }
        }

        /// Runs `op` as the server would; returns false if the server never does that here.
        fn run(&mut self, op: Op) -> bool {
            match op {
                Op::TakePending => {
                    let was_pending = matches!(self.phase, Phase::Pending(_));
                    assert_eq!(self.phase.take_pending(), was_pending.then_some(7));
                    self.accepts |= was_pending;
                }
                Op::SettleWith | Op::SettleWithout => {
                    let half = matches!(op, Op::SettleWith).then_some(&7);
                    // A failed accept closes the connection first.
                    if !self.accepts || half.is_none() && !self.closing {
                        return false;
                    }
                    self.accepts = false;
                    let next = self.phase.settle(half);
                    self.follow(next);
                }
                Op::Close => {
                    let next = self.phase.close();
                    assert_eq!(next.is_some(), !self.closing);
                    self.closing = true;
                    self.follow(next.unwrap_or(Next::Nothing));
                }
                Op::TakeDoomed => {
                    if self.queued == 0 || self.id.is_some() {
                        return false;
                    }
                    self.queued -= 1;
                    match self.phase.take_doomed() {
                        Doomed::Half(id) => self.id = Some(id),
                        Doomed::Id(_) | Doomed::Nothing => {}
                        Doomed::Unsettled => panic!("work for an accept that runs"),
                    }
                }
                Op::Leave => match self.id.take() {
                    Some(id) => assert_eq!(self.phase.leave(id), Ok(())),
                    None => return false,
                },
                Op::HangUp => {
                    let next = self.phase.hang_up();
                    self.follow(next);
                }
                Op::End => {
                    if self.queued > 0 || self.id.take().is_some() {
                        return false;
                    }
                    let was_closing = self.phase == Phase::Closing(Doomed::Nothing);
                    assert_eq!(self.phase.end(), was_closing);
                }
            }
            true
        }

        fn check(&self) {
            let is_closing = matches!(
                self.phase,
                Phase::Closing(_) | Phase::Leaving(_) | Phase::Dead
            );
            assert_eq!(is_closing, self.closing, "{self:?}");
            let is_doomed = matches!(self.phase, Phase::Closing(Doomed::Id(_) | Doomed::Half(_)));
            // Exactly one work item is queued for each doomed part.
            assert!(!is_doomed || self.queued == 1, "{self:?}");
            let is_unsettled = matches!(
                self.phase,
                Phase::Accepting | Phase::Closing(Doomed::Unsettled)
            );
            assert_eq!(is_unsettled, self.accepts, "{self:?}");
        }
    }

    fn walk(done: &mut Vec<Op>, ends: &mut u32) {
        let mut model = Model::new();
        for op in done.iter() {
            if !model.run(*op) {
                return;
            }
            model.check();
        }
        *ends += u32::from(model.phase == Phase::Dead);
        if done.len() < 8 {
            for op in OPS {
                done.push(op);
                walk(done, ends);
                done.pop();
            }
        }
    }

    #[test]
    fn all_transitions_keep_what_is_doomed_until_work_takes_it() {
        let mut ends = 0;
        walk(&mut Vec::new(), &mut ends);
        assert!(ends > 0, "no walk ends in Dead");
    }

    #[test]
    fn no_phase_comes_back() {
        let mut phase: Phase<u8, u8> = Phase::Established(1);
        assert_eq!(phase.take_pending(), None);
        assert_eq!(phase.settle(Some(&2)), Next::Nothing);
        assert_eq!(phase.half(), Some(&1));
        assert_eq!(phase.leave(1), Err(1));
        assert!(!phase.end());
        assert_eq!(phase.name(), "established");
        assert_eq!(phase.close(), Some(Next::TearDown));
        assert_eq!(phase.close(), None);
        assert_eq!(phase.take_doomed(), Doomed::Half(1));
        assert_eq!(phase.take_doomed(), Doomed::Nothing);
        assert_eq!(phase.leave(1), Ok(()));
        assert_eq!(phase.hang_up(), Next::TearDown);
        assert_eq!(phase.hang_up(), Next::Nothing);
        assert_eq!(phase.take_doomed(), Doomed::Id(1));
        assert!(phase.end());
        assert_eq!(phase, Phase::Dead);
        assert_eq!(phase.settle(Some(&2)), Next::Nothing);
    }
}
