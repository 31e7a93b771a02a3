// SPDX-License-Identifier: GPL-2.0

//! Calls on one connection, several of them in flight.
//!
//! [`Calls`] makes them, a [`Course`] decides when.

use crate::{
    compound::{Compound, Results},
    error::{Error, Result},
    ffi::Region,
    grant::{self, MOST},
    message::{Answer, Message, Reply},
    mix::{Kind, Mix, Turns},
    peer::{Incoming, Params, Peer},
    rpc,
    target::Target,
};
use std::{
    collections::HashMap,
    fmt,
    time::{Duration, Instant}, //
};
use svcrdma_proto::chunk::{ReadSegment, Segment};

/// The time after which a course that waits is asked again.
const TICK: Duration = Duration::from_millis(10);

/// NFS4ERR_NOENT.
const NO_ENTRY: u32 = 2;

/// The next step of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Make a Call.
    Call,
    /// Ask again after a reply or a moment.
    Wait,
    /// Make no more Calls.
    End,
}

/// Decides when a connection makes its Calls.
pub(crate) trait Course {
    /// Returns the next step of a connection that has made `calls` Calls and may make another one.
    fn next(&mut self, calls: usize) -> Next;

    /// Notes a reply.
    fn answered(&mut self, reply: Answered);
}

/// A Call that has had its reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) kind: Kind,
    /// The response time.
    pub(crate) time: Duration,
    /// The time of the reply.
    pub(crate) at: Instant,
}

/// The Calls of a connection.
pub(crate) struct Calls {
    pub(crate) mix: Mix,
    /// Bytes of a READ or WRITE.
    pub(crate) size: u32,
    /// Segments of the chunk of a READ or WRITE, at least 1.
    pub(crate) segments: u32,
    pub(crate) file: String,
    /// The most Calls in flight, from 1 to [`MOST`].
    pub(crate) depth: u32,
    /// The longest time without a reply.
    pub(crate) patience: Duration,
    /// Makes a GETATTR first, so that nfsd takes the peer for valid.
    pub(crate) is_valid: bool,
    /// See [`Params`].
    pub(crate) ack_timeout: Option<u8>,
}

/// A Call in flight.
struct Call {
    /// The slot whose piece of the memory the Call uses.
    slot: u32,
    kind: Kind,
    sent: Instant,
}

/// The course of the grant of credits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) first: u32,
    pub(crate) most: u32,
    pub(crate) last: u32,
    /// Replies so far.
    replies: usize,
    /// The number of the reply that first granted `most`.
    pub(crate) risen: usize,
}

impl Granted {
    fn new(first: u32) -> Self {
        Self {
            first,
            most: first,
            last: first,
            replies: 0,
            risen: 0,
        }
    }

    fn note(&mut self, credits: u32) {
        self.replies += 1;
        if credits > self.most {
            self.most = credits;
            self.risen = self.replies;
        }
        // At least one Call, or a grant of 0 would stall the connection for good.
        self.last = credits.max(1);
    }
}

impl fmt::Display for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} first, {} most (by reply {}), {} last",
            self.first, self.most, self.risen, self.last
        )
    }
}

/// A connection and its Calls in flight.
pub(crate) struct Line<'a> {
    calls: &'a Calls,
    peer: Peer,
    memory: Region,
    /// The slots that no Call uses.
    idle: Vec<u32>,
    in_flight: HashMap<u32, Call>,
    granted: Granted,
    turns: Turns,
    /// Calls that were made.
    made: usize,
    /// The time of the last reply, or of a Call when none was in flight.
    heard: Instant,
}

impl Calls {
    /// Returns NULL Calls, `depth` at a time.
    #[cfg(test)]
    pub(crate) fn null(depth: u32) -> Self {
        Self {
            mix: Mix::of(Kind::Null),
            size: 0,
            segments: 1,
            file: String::new(),
            depth,
            patience: crate::peer::PATIENCE,
            is_valid: false,
            ack_timeout: None,
        }
    }

    /// Connects to `target` and makes Calls as `course` decides, at most `depth` at a time and at
    /// most as many as the server grants. Disconnects after the last reply, and returns the grants.
    pub(crate) fn make(&self, target: &Target, course: &mut impl Course) -> Result<Granted> {
        let mut line = Line::new(self, target)?;
        line.make(course)?;
        line.end()
    }

    /// Returns an error unless `reply`, to a Call of this kind, reports success and the full length.
    fn check(&self, kind: Kind, reply: &Reply) -> Result {
        let good = || match kind {
            Kind::Null => rpc::results(reply.xid, &reply.body).map(|_| ()),
            Kind::Read => {
                let mut results = Results::new(reply.xid, &reply.body)?;
                results.at(&self.file)?;
                results.read_elsewhere(self.size)?;
                let written = reply.writes.iter().flatten().map(|s| u64::from(s.length));
                (written.sum::<u64>() == u64::from(self.size)).then_some(())
            }
            Kind::Write => {
                let mut results = Results::new(reply.xid, &reply.body)?;
                results.at(&self.file)?;
                (results.write()? == self.size).then_some(())
            }
        };
        good().ok_or_else(|| self.failure(kind, reply))
    }

    /// Returns the error for the reply to a Call that has failed.
    fn failure(&self, kind: Kind, reply: &Reply) -> Error {
        let results = Results::new(reply.xid, &reply.body);
        match results.map(|results| results.last_status()) {
            Some(NO_ENTRY) => {
                Error::unavailable(format!("the server has no file {} in its root", self.file))
            }
            Some(status @ 1..) => Error::new(format!("a {kind} failed with NFS status {status}")),
            _ => Error::new(format!("a {kind} failed: {reply:?}")),
        }
    }
}

impl<'a> Line<'a> {
    /// Connects to `target`.
    pub(crate) fn new(calls: &'a Calls, target: &Target) -> Result<Self> {
        let params = Params {
            receives: calls.depth,
            ack_timeout: calls.ack_timeout,
            ..Params::default()
        };
        let mut peer = Peer::connect(target, params)?;
        let granted = Granted::new(grant::first(&mut peer)?);
        if calls.is_valid {
            peer.getattr()?;
        }
        Ok(Self {
            calls,
            memory: peer.region(calls.depth as usize * calls.size as usize)?,
            peer,
            idle: (0..calls.depth).collect(),
            in_flight: HashMap::new(),
            granted,
            turns: calls.mix.turns(),
            made: 0,
            heard: Instant::now(),
        })
    }

    /// Makes Calls as `course` decides, at most `depth` at a time and at most as many as the server
    /// grants. Returns after the last reply.
    pub(crate) fn make(&mut self, course: &mut impl Course) -> Result {
        while self.fill(course)? != Next::End || !self.in_flight.is_empty() {
            if let Some(reply) = self.receive()? {
                course.answered(reply);
            }
        }
        Ok(())
    }

    /// Disconnects, and returns the grants.
    pub(crate) fn end(self) -> Result<Granted> {
        self.peer.disconnect()?;
        Ok(self.granted)
    }

    /// Makes Calls until there is no room, or `course` wants none. Returns its last answer, or
    /// [`Next::Call`] if there is no room.
    fn fill(&mut self, course: &mut impl Course) -> Result<Next> {
        while self.in_flight.len() < self.granted.last as usize {
            let Some(&slot) = self.idle.last() else { break };
            match course.next(self.made) {
                Next::Call => self.send(slot)?,
                next => return Ok(next),
            }
            self.idle.pop();
        }
        Ok(Next::Call)
    }

    /// Makes a Call that uses the piece of the memory that belongs to `slot`.
    fn send(&mut self, slot: u32) -> Result {
        let xid = self.peer.xid();
        let size = self.calls.size;
        let offset = u64::from(slot) * u64::from(size);
        let segments = self.segments(offset);
        let mut message = Message::inline(xid, Vec::new());
        let kind = self.turns.next();
        match kind {
            Kind::Null => message.body = self.peer.null_rpc(xid),
            Kind::Read => {
                let call = Compound::at(xid, &self.calls.file).read(offset, size);
                message.body = call.finish().inline;
                message.writes = vec![segments.collect()];
            }
            Kind::Write => {
                let call = Compound::at(xid, &self.calls.file).write(offset, size);
                let call = call.finish();
                let position = call.positions.first().copied().unwrap_or_default();
                let reads = segments.map(|segment| ReadSegment { position, segment });
                message.reads = reads.collect();
                message.body = call.inline;
            }
        }
        message.credits = MOST;
        let sent = Instant::now();
        if self.in_flight.is_empty() {
            self.heard = sent;
        }
        self.made += 1;
        self.in_flight.insert(xid, Call { slot, kind, sent });
        self.peer.send(&message)
    }

    /// Returns the segments of the chunk at `offset` of the memory, of equal length but for the last
    /// one.
    fn segments(&self, offset: u64) -> impl Iterator<Item = Segment> {
        let (size, handle) = (self.calls.size, self.memory.rkey());
        let start = self.memory.address() + offset;
        let step = size.div_ceil(self.calls.segments.max(1)).max(1);
        (0..size).step_by(step as usize).map(move |at| Segment {
            handle,
            length: step.min(size - at),
            offset: start + u64::from(at),
        })
    }

    /// Waits for a moment for a reply. Returns it, if one has arrived.
    fn receive(&mut self) -> Result<Option<Answered>> {
        let reply = match self.peer.receive(TICK)? {
            Incoming::Answer(Answer::Reply(reply)) => reply,
            Incoming::Silence if !self.is_late() => return Ok(None),
            other => return Err(Error::new(format!("no reply but {other:?}"))),
        };
        let Some(call) = self.in_flight.remove(&reply.xid) else {
            return Err(Error::new(format!("unexpected answer: {reply:?}")));
        };
        self.heard = Instant::now();
        self.calls.check(call.kind, &reply)?;
        self.granted.note(reply.credits);
        self.idle.push(call.slot);
        Ok(Some(Answered {
            kind: call.kind,
            time: self.heard.duration_since(call.sent),
            at: self.heard,
        }))
    }

    /// Returns true if the server has not answered for longer than the patience.
    fn is_late(&self) -> bool {
        !self.in_flight.is_empty() && self.heard.elapsed() >= self.calls.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{error::Outcome, xdr::Xdr};

    #[test]
    fn grants_have_a_first_a_largest_and_a_last_one() {
        let mut granted = Granted::new(8);
        [9, 12, 12, 0].into_iter().for_each(|n| granted.note(n));
        let Granted {
            first, most, last, ..
        } = granted;
        assert_eq!((first, most, last, granted.risen), (8, 12, 1, 2));
    }

    #[test]
    fn a_missing_file_says_nothing_about_the_server() {
        let calls = Calls {
            mix: Mix::of(Kind::Read),
            file: "nothing".to_owned(),
            ..Calls::null(1)
        };
        let reply = |status| Reply {
            xid: 7,
            credits: 1,
            procedure: 0,
            writes: Vec::new(),
            reply: None,
            body: Xdr::new()
                .words(&[7, 1, 0, 0, 0, 0])
                .words(&[status, 0, 2, 24, 0, 15, status])
                .into_bytes(),
        };
        let failed = |status| calls.check(Kind::Read, &reply(status)).unwrap_err();
        assert_eq!(failed(NO_ENTRY).outcome(), Outcome::Untested);
        assert_eq!(failed(5).outcome(), Outcome::Finding);
        assert_eq!(failed(5).to_string(), "a read failed with NFS status 5");
    }
}
