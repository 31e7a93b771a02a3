// SPDX-License-Identifier: GPL-2.0

//! A Call with Write chunks and a Reply chunk, and what they hold when it is answered.

use super::{
    memory::Memory,
    replies::expected,
    row::{begin, expect_quiet, reply_to, require, Bench},
};
use crate::{
    compound::{Compound, Results},
    error::{Error, Result},
    message::{procedure, Message, Reply},
};
use svcrdma_proto::chunk::Segment;

/// A Call that was made, and its reply.
pub(super) struct Tried<'a> {
    file: &'a str,
    memory: Memory,
    message: Message,
    reply: Reply,
}

impl<'a> Tried<'a> {
    /// Makes a Call of `operations` on the file, and a GETATTR, with Write chunks and Reply chunk
    /// of segments of these lengths.
    pub(super) fn new(
        bench: &'a Bench<'_>,
        writes: &[&[u32]],
        reply: Option<&[u32]>,
        operations: impl FnOnce(Compound) -> Compound,
    ) -> Result<Self> {
        let mut peer = bench.peer()?;
        let mut memory = Memory::of(&peer)?;
        let xid = peer.xid();
        let call = operations(Compound::at(xid, bench.file()))
            .getattr()
            .finish();
        let mut message = Message::inline(xid, call.inline);
        message.writes = writes
            .iter()
            .map(|lengths| memory.segments(lengths))
            .collect();
        message.reply = reply.map(|lengths| memory.segments(lengths));
        let reply = reply_to(&mut peer, &message)?;
        expect_quiet(&mut peer)?;
        Ok(Self {
            file: bench.file(),
            memory,
            message,
            reply,
        })
    }

    /// The Write list must have come back with these lengths, and nothing was written behind them.
    pub(super) fn written(&self, lengths: &[&[u32]]) -> Result {
        let offered = self.message.writes.iter().zip(lengths);
        let expected: Vec<Vec<Segment>> = offered
            .map(|(chunk, lengths)| with_lengths(chunk, lengths))
            .collect();
        require(
            self.reply.writes == expected,
            format!("the Write list came back as {:?}", self.reply.writes),
        )?;
        for (chunk, lengths) in self.message.writes.iter().zip(lengths) {
            for (segment, &length) in chunk.iter().zip(*lengths) {
                let untouched = self.memory.is_untouched_behind(segment, length)?;
                require(untouched, "more was written than is said")?;
            }
        }
        Ok(())
    }

    /// There must have been one Write chunk, and it have come back with no segment in it.
    pub(super) fn has_empty_write_chunk(&self) -> Result {
        require(
            self.reply.writes == [[]],
            format!("the Write list came back as {:?}", self.reply.writes),
        )
    }

    /// Write chunk number `nth` must hold what is in the file at `offset`.
    pub(super) fn holds(&self, nth: usize, offset: usize, len: usize) -> Result {
        self.holds_bytes(nth, &expected(offset, len))
    }

    /// Write chunk number `nth` must hold `bytes`.
    pub(super) fn holds_bytes(&self, nth: usize, bytes: &[u8]) -> Result {
        let segments = self.reply.writes.get(nth).map_or(&[][..], Vec::as_slice);
        require(
            self.memory.content(segments)? == bytes,
            format!("other bytes are in Write chunk {nth}"),
        )
    }

    /// The Reply chunk must have come back, with nothing in it.
    pub(super) fn reply_chunk_is_unused(&self) -> Result {
        let offered = self.message.reply.as_deref().unwrap_or_default();
        require(
            self.reply.reply == Some(with_lengths(offered, &vec![0; offered.len()])),
            format!("the Reply chunk came back as {:?}", self.reply.reply),
        )
    }

    /// Returns the RPC message in the Reply chunk, which must be there.
    pub(super) fn reply_chunk(&self) -> Result<Vec<u8>> {
        let Some(written) = &self.reply.reply else {
            return Err(Error::new("the Reply chunk did not come back"));
        };
        let nomsg = self.reply.procedure == procedure::NOMSG && self.reply.body.is_empty();
        require(nomsg, "the reply is not an RDMA_NOMSG")?;
        let offered = self.message.reply.as_deref().unwrap_or_default();
        let lengths: Vec<u32> = written.iter().map(|segment| segment.length).collect();
        let in_order = fill(offered, lengths.iter().sum());
        require(
            *written == with_lengths(offered, &in_order),
            format!("the Reply chunk came back as {written:?}"),
        )?;
        self.memory.content(written)
    }

    /// The results behind those that lead to the file must be as `check` says, with those of a
    /// GETATTR behind them if there was no error, and then end.
    pub(super) fn results<T>(&self, check: impl FnOnce(&mut Results<'_>) -> Option<T>) -> Result {
        require(
            self.reply.procedure == procedure::MSG,
            "the reply is not an RDMA_MSG",
        )?;
        self.results_in(&self.reply.body, check)
    }

    /// Likewise, in the RPC message `body`.
    pub(super) fn results_in<T>(
        &self,
        body: &[u8],
        check: impl FnOnce(&mut Results<'_>) -> Option<T>,
    ) -> Result {
        let read = || {
            let mut results = Results::new(self.message.xid, body)?;
            results.at(self.file)?;
            check(&mut results)?;
            results.end()
        };
        require(read().is_some(), format!("other results: {}", begin(body)))
    }
}

/// Returns `segments` with other lengths.
fn with_lengths(segments: &[Segment], lengths: &[u32]) -> Vec<Segment> {
    let pairs = segments.iter().zip(lengths);
    pairs
        .map(|(&segment, &length)| Segment { length, ..segment })
        .collect()
}

/// Returns how much of `total` bytes is in each of `segments` when they are filled in order.
fn fill(segments: &[Segment], total: u32) -> Vec<u32> {
    let mut rest = total;
    let take = |segment: &Segment| {
        let taken = segment.length.min(rest);
        rest -= taken;
        taken
    };
    segments.iter().map(take).collect()
}
