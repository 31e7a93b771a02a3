// SPDX-License-Identifier: GPL-2.0

//! Rows about Write chunks and Reply chunks: what is read arrives where the client wants it, and
//! the lists that come back say how much did.

use super::{
    memory::{pattern, Memory},
    row::{begin, reply_to, require, Bench, Row},
};
use crate::{
    compound::{operation, Call, Compound, Results},
    error::{Error, Result},
    message::{procedure, Answer, Message, Reply},
    peer::Incoming,
};
use svcrdma_proto::chunk::{ReadSegment, Segment};

pub(super) const ROWS: &[Row] = &[
    Row::file_script("RFC 8166, 3.4.6", "Write chunk filled in order", |b| {
        let tried = Tried::new(b, &[&[1000, 4096, 100_000]], None, |c| c.read(0, 60_000))?;
        tried.written(&[&[1000, 4096, 54_904]])?;
        tried.results(|r| r.read_elsewhere())?;
        tried.holds(0, 0, 60_000)
    }),
    Row::file_script("RFC 8166, 3.4.6", "Write chunk just large enough", |b| {
        let tried = Tried::new(b, &[&[4000, 5001]], None, |c| c.read(1, 9001))?;
        tried.written(&[&[4000, 5001]])?;
        tried.results(|r| r.read_elsewhere())?;
        tried.holds(0, 1, 9001)
    }),
    Row::file_script("RFC 8166, 3.4.4", "empty segments in a Write chunk", |b| {
        let tried = Tried::new(b, &[&[0, 1000, 0, 9000]], None, |c| c.read(0, 5000))?;
        tried.written(&[&[0, 1000, 0, 4000]])?;
        tried.results(|r| r.read_elsewhere())?;
        tried.holds(0, 0, 5000)
    }),
    Row::file_script("RFC 8267, 6.4.1", "Write chunk for each READ", |b| {
        let tried = Tried::new(b, &[&[5000], &[2000, 9000]], None, |c| {
            c.read(0, PAGE).read(4096, 5002)
        })?;
        tried.written(&[&[PAGE], &[2000, 3002]])?;
        tried.results(|r| {
            r.read_elsewhere()?;
            r.read_elsewhere()
        })?;
        tried.holds(0, 0, PAGE as usize)?;
        tried.holds(1, 4096, 5002)
    }),
    Row::file_script("RFC 8267, 6.4.1", "more READs than Write chunks", |b| {
        let tried = Tried::new(b, &[&[5000]], None, |c| c.read(0, PAGE).read(4096, 501))?;
        tried.written(&[&[PAGE]])?;
        let data = expected(4096, 501);
        tried.results(|r| {
            r.read_elsewhere()?;
            (r.read()? == data).then_some(())
        })?;
        tried.holds(0, 0, PAGE as usize)
    }),
    Row::file_script("RFC 8267, 6.4.1", "17 READs, 16 Write chunks", |b| {
        let chunks = [&[PAGE][..]; 16];
        let reads = |c| {
            (0..16)
                .fold(c, |c: Compound, _| c.read(0, PAGE))
                .read(4096, 501)
        };
        // A server may have less room for chunks, and then says so.
        let Some(tried) = Tried::unless_refused(b, &chunks, None, reads)? else {
            return Ok(());
        };
        tried.written(&chunks)?;
        let data = expected(4096, 501);
        tried.results(|r| {
            for _ in 0..16 {
                r.read_elsewhere()?;
            }
            (r.read()? == data).then_some(())
        })?;
        (0..16).try_for_each(|nth| tried.holds(nth, 0, PAGE as usize))
    }),
    Row::file_script("RFC 8166, 4.3.2", "more Write chunks than READs", |b| {
        let tried = Tried::new(b, &[&[4000], &[10, 20], &[30]], None, |c| c.read(0, 3000))?;
        tried.written(&[&[3000], &[0, 0], &[0]])?;
        tried.results(|r| r.read_elsewhere())?;
        tried.holds(0, 0, 3000)
    }),
    Row::file_script(
        "RFC 8267, 6.4.1",
        "empty Write chunk asks for inline data",
        |b| {
            let tried = Tried::new(b, &[&[], &[100]], None, |c| c.read(0, 501))?;
            tried.written(&[&[], &[0]])?;
            let data = expected(0, 501);
            tried.results(|r| (r.read()? == data).then_some(()))
        },
    ),
    Row::file_script(
        "RFC 8267, 6.4.1",
        "empty Write chunk for the second READ",
        |b| {
            let tried = Tried::new(b, &[&[5000], &[]], None, |c| {
                c.read(0, PAGE).read(4096, 501)
            })?;
            tried.written(&[&[PAGE], &[]])?;
            let data = expected(4096, 501);
            tried.results(|r| {
                r.read_elsewhere()?;
                (r.read()? == data).then_some(())
            })?;
            tried.holds(0, 0, PAGE as usize)
        },
    ),
    Row::file_script(
        "RFC 8267, 6.4.1",
        "READ of no bytes has its Write chunk",
        |b| {
            let tried = Tried::new(b, &[&[4000], &[4000]], None, |c| {
                c.read(1 << 40, 100).read(0, 3000)
            })?;
            tried.written(&[&[0], &[3000]])?;
            tried.results(|r| {
                (r.read()?.is_empty()).then_some(())?;
                r.read_elsewhere()
            })?;
            tried.holds(1, 0, 3000)
        },
    ),
    Row::file_script("RFC 8267, 6.4.1", "READ that fails", |b| {
        let tried = Tried::new(b, &[&[4000]], None, |c| c.root().read(0, 100))?;
        tried.written(&[&[0]])?;
        tried.results(|r| {
            r.good(operation::PUTROOTFH)?;
            (r.status(operation::READ)? != 0).then_some(())
        })
    }),
    Row::file_script(
        "RFC 8166, 4.3.2",
        "Write list for a Call without data",
        |b| {
            let tried = Tried::new(b, &[&[100, 200], &[300]], None, |c| c)?;
            tried.written(&[&[0, 0], &[0]])?;
            tried.results(|_| Some(()))
        },
    ),
    Row::file_script("RFC 8166, 3.5.3", "Reply chunk filled in order", |b| {
        let tried = Tried::new(b, &[], Some(&[30_000, 0, 40_000]), |c| c.read(0, 60_000))?;
        let body = tried.reply_chunk()?;
        let data = expected(0, 60_000);
        tried.results_in(&body, |r| (r.read()? == data).then_some(()))
    }),
    Row::file_script(
        "RFC 8166, 3.5.3",
        "data with a pad in the Reply chunk",
        |b| {
            let tried = Tried::new(b, &[], Some(&[9001, 100]), |c| c.read(0, 8999))?;
            let body = tried.reply_chunk()?;
            let data = expected(0, 8999);
            tried.results_in(&body, |r| (r.read()? == data).then_some(()))
        },
    ),
    Row::file_script("RFC 8166, 3.5.3", "Write list and Reply chunk", |b| {
        let tried = Tried::new(b, &[&[5000]], Some(&[9000]), |c| {
            c.read(0, PAGE).read(4096, 5002)
        })?;
        tried.written(&[&[PAGE]])?;
        tried.holds(0, 0, PAGE as usize)?;
        let body = tried.reply_chunk()?;
        let data = expected(4096, 5002);
        tried.results_in(&body, |r| {
            r.read_elsewhere()?;
            (r.read()? == data).then_some(())
        })
    }),
    Row::file_script("RFC 8166, 3.5.1", "Reply chunk that is not needed", |b| {
        let tried = Tried::new(b, &[], Some(&[9000]), |c| c.read(0, 501))?;
        let data = expected(0, 501);
        let offered = tried.message.reply.as_deref().unwrap_or_default();
        require(
            tried.reply.reply == Some(with_lengths(offered, &[0])),
            "the Reply chunk does not come back, or with a length",
        )?;
        tried.results(|r| (r.read()? == data).then_some(()))
    }),
];

/// Length of a first READ behind which the data of a second one begins a page of the reply, 16 bytes
/// later: Linux's nfsd, over any transport, gets the data of others wrong.
pub(super) const PAGE: u32 = 4096 - 16;

/// Bytes at the beginning of the file whose content is known.
const KNOWN: usize = 64 << 10;

/// What these bytes are made from.
const SEED: u32 = 8166;

/// What is in the file at `offset`.
pub(super) fn expected(offset: usize, len: usize) -> Vec<u8> {
    pattern(SEED, KNOWN)[offset..offset + len].to_vec()
}

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
        let tried = Self::unless_refused(bench, writes, reply, operations)?;
        tried.ok_or_else(|| Error::new("no reply but ERR_CHUNK"))
    }

    /// Likewise; `None` if the server answers with ERR_CHUNK.
    fn unless_refused(
        bench: &'a Bench<'_>,
        writes: &[&[u32]],
        reply: Option<&[u32]>,
        operations: impl FnOnce(Compound) -> Compound,
    ) -> Result<Option<Self>> {
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
        let reply = match peer.exchange(&message)? {
            Incoming::Answer(Answer::Reply(reply)) => reply,
            Incoming::Answer(Answer::ErrChunk { .. }) => return Ok(None),
            other => return Err(Error::new(format!("no reply but {other:?}"))),
        };
        peer.null()?;
        Ok(Some(Self {
            file: bench.file(),
            memory,
            message,
            reply,
        }))
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

    /// Returns the RPC message in the Reply chunk, which must be there.
    fn reply_chunk(&self) -> Result<Vec<u8>> {
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
    fn results_in<T>(
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

/// Writes what is [`expected`] to the beginning of the file.
pub(super) fn fill_file(bench: &Bench<'_>) -> Result {
    let file = bench.file();
    let mut peer = bench.peer()?;
    let mut memory = Memory::of(&peer)?;
    let xid = peer.xid();
    let call = Compound::at(xid, file).write(0, KNOWN as u32).finish();
    let message = reduced(
        xid,
        call,
        &memory.filled(&expected(0, KNOWN), &[KNOWN as u32])?,
    );
    let reply = reply_to(&mut peer, &message)?;
    let written = || {
        let mut results = Results::new(xid, &reply.body)?;
        results.at(file)?;
        results.write()
    };
    require(
        written() == Some(KNOWN as u32),
        "the file cannot be written",
    )
}

/// Returns `call` with `segments` as its first Read chunk.
pub(super) fn reduced(xid: u32, call: Call, segments: &[Segment]) -> Message {
    let mut message = Message::inline(xid, call.inline);
    let position = call.positions.first().copied().unwrap_or_default();
    message.reads = segments
        .iter()
        .map(|&segment| ReadSegment { position, segment })
        .collect();
    message
}
