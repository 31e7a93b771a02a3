// SPDX-License-Identifier: GPL-2.0

//! `load`: makes Calls of one kind at a given depth and measures their response times.

use crate::{
    args::Args,
    compound::{Compound, Results},
    error::{Error, Result},
    ffi::Region,
    grant::{self, MOST},
    message::{Answer, Message, Reply},
    missing,
    peer::{self, Incoming, Params, Peer, PATIENCE},
    rpc,
    times::Times,
};
use std::{
    collections::HashMap,
    time::{Duration, Instant}, //
};
use svcrdma_proto::chunk::{ReadSegment, Segment};

/// Options of the command.
pub(crate) const OPTIONS: &[&str] = &[
    "kind", "depth", "count", "size", "file", "pause", "patience", "valid",
];

/// The interval of progress messages.
const PROGRESS: Duration = Duration::from_secs(1);

/// The kind of Calls to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Null,
    /// READs into a Write chunk.
    Read,
    /// FILE_SYNC WRITEs from a Read chunk.
    Write,
}

/// The parameters of a measurement.
struct Load {
    kind: Kind,
    /// Bytes of a READ or WRITE.
    size: u32,
    file: String,
    /// The longest time without a reply.
    patience: Duration,
}

/// A Call in flight.
struct Call {
    /// The slot whose piece of the memory the Call uses.
    slot: u32,
    sent: Instant,
}

/// The course of the grant of credits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Granted {
    first: u32,
    most: u32,
    last: u32,
    /// Replies so far.
    replies: usize,
    /// The number of the reply that first granted `most`.
    risen: usize,
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

/// The result of a measurement.
struct Done {
    times: Times,
    granted: Granted,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    peer::set_pause(args.value("pause", 0)?);
    let kind = match args.text("kind") {
        None | Some("null") => Kind::Null,
        Some("read") => Kind::Read,
        Some("write") => Kind::Write,
        Some(other) => return Err(Error::new(format!("--kind: unknown value \"{other}\""))),
    };
    let file = match (kind, args.text("file")) {
        (Kind::Null, _) => String::new(),
        (_, file) => file.ok_or_else(|| missing("file"))?.to_owned(),
    };
    let load = Load {
        kind,
        size: args.value("size", 4096)?,
        file,
        patience: Duration::from_secs(args.value("patience", PATIENCE.as_secs())?),
    };
    let depth: u32 = args.value("depth", 1)?;
    let count: usize = args.value("count", 1000)?;
    if !(1..=MOST).contains(&depth) {
        return Err(Error::new(format!("--depth: 1 to {MOST}")));
    }
    let begin = Instant::now();
    let done = load.make(args, depth, count)?;
    let rate = count as f64 / begin.elapsed().as_secs_f64().max(0.001);
    println!("{rate:.0} Calls per second");
    let Granted {
        first,
        most,
        last,
        risen,
        ..
    } = done.granted;
    println!("credits: {first} first, {most} most (by reply {risen}), {last} last");
    println!("{}", done.times);
    done.times
        .histogram()
        .iter()
        .for_each(|line| println!("{line}"));
    Ok(())
}

impl Load {
    /// Makes `count` Calls, at most `depth` at a time and at most as many as the server grants.
    fn make(&self, args: &Args, depth: u32, count: usize) -> Result<Done> {
        let params = Params {
            receives: depth,
            ..Params::default()
        };
        let mut peer = Peer::connect(&args.target()?, params)?;
        let mut granted = Granted::new(grant::first(&mut peer)?);
        if args.text("valid").is_some() {
            peer.getattr()?;
        }
        let memory = peer.region(depth as usize * self.size as usize)?;
        let mut idle: Vec<u32> = (0..depth).collect();
        let mut in_flight = HashMap::new();
        let mut times = Vec::new();
        let mut told = Instant::now();
        while times.len() < count {
            while times.len() + in_flight.len() < count
                && in_flight.len() < depth.min(granted.last) as usize
            {
                let Some(slot) = idle.pop() else { break };
                self.send(&mut peer, &memory, slot, &mut in_flight)?;
            }
            let reply = match peer.receive(self.patience)? {
                Incoming::Answer(Answer::Reply(reply)) => reply,
                other => return Err(Error::new(format!("no reply but {other:?}"))),
            };
            let Some(call) = in_flight.remove(&reply.xid) else {
                return Err(Error::new(format!("unexpected answer: {reply:?}")));
            };
            self.check(&reply)?;
            granted.note(reply.credits);
            times.push(call.sent.elapsed());
            idle.push(call.slot);
            if told.elapsed() >= PROGRESS {
                told = Instant::now();
                eprintln!("{} of {count}, {} credits", times.len(), granted.last);
            }
        }
        peer.disconnect()?;
        Ok(Done {
            times: times.into_iter().collect(),
            granted,
        })
    }

    /// Makes a Call that uses the piece of `memory` that belongs to `slot`.
    fn send(
        &self,
        peer: &mut Peer,
        memory: &Region,
        slot: u32,
        in_flight: &mut HashMap<u32, Call>,
    ) -> Result {
        let xid = peer.xid();
        let offset = u64::from(slot) * u64::from(self.size);
        let segment = Segment {
            handle: memory.rkey(),
            length: self.size,
            offset: memory.address() + offset,
        };
        let mut message = Message::inline(xid, Vec::new());
        match self.kind {
            Kind::Null => message.body = rpc::null(xid),
            Kind::Read => {
                let call = Compound::at(xid, &self.file).read(offset, self.size);
                message.body = call.finish().inline;
                message.writes = vec![vec![segment]];
            }
            Kind::Write => {
                let call = Compound::at(xid, &self.file).write(offset, self.size);
                let call = call.finish();
                let positions = call.positions.into_iter();
                let reads = positions.map(|position| ReadSegment { position, segment });
                message.reads = reads.collect();
                message.body = call.inline;
            }
        }
        message.credits = MOST;
        let sent = Instant::now();
        in_flight.insert(xid, Call { slot, sent });
        peer.send(&message)
    }

    /// Returns an error unless `reply` reports success and the full length.
    fn check(&self, reply: &Reply) -> Result {
        let good = || match self.kind {
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
        good().ok_or_else(|| Error::new(format!("a Call failed: {reply:?}")))
    }
}
