// SPDX-License-Identifier: GPL-2.0

//! `load`: Calls of one kind, so many at a time, and how long they take.

use crate::{
    args::Args,
    compound::{Compound, Results},
    error::{Error, Result},
    ffi::Region,
    grant::{self, MOST},
    message::{Answer, Message, Reply},
    missing,
    peer::{self, Incoming, Manners, Peer, PATIENCE},
    rpc,
    times::Times,
};
use std::{
    collections::HashMap,
    time::{Duration, Instant}, //
};
use svcrdma_proto::chunk::{ReadSegment, Segment};

/// Its options.
pub(crate) const OPTIONS: &[&str] = &[
    "kind", "depth", "count", "size", "file", "pause", "patience", "valid",
];

/// How often the progress is told.
const PROGRESS: Duration = Duration::from_secs(1);

/// What the Calls do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Null,
    /// READ into a Write chunk.
    Read,
    /// WRITE to the disk from a Read chunk.
    Write,
}

/// What is measured.
struct Load {
    kind: Kind,
    /// Bytes of a READ or WRITE.
    size: u32,
    file: String,
    /// How long no reply may come.
    patience: Duration,
}

/// A Call under way.
struct Call {
    /// Whose piece of the memory it has.
    slot: u32,
    sent: Instant,
}

/// Credits that were granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Granted {
    first: u32,
    most: u32,
    last: u32,
    /// Replies so far.
    replies: usize,
    /// With which of them `most` came.
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
        // Nothing could be said any more with none at all.
        self.last = credits.max(1);
    }
}

/// What came of a load.
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
        Some(other) => return Err(Error::new(format!("--kind: nothing is called \"{other}\""))),
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
    /// Makes `count` Calls, `depth` at a time or as many as the server grants.
    fn make(&self, args: &Args, depth: u32, count: usize) -> Result<Done> {
        let manners = Manners {
            receives: depth,
            ..Manners::default()
        };
        let mut peer = Peer::connect(&args.target()?, manners)?;
        let mut granted = Granted::new(grant::first(&mut peer)?);
        if args.text("valid").is_some() {
            peer.getattr()?;
        }
        let memory = peer.region(depth as usize * self.size as usize)?;
        let mut idle: Vec<u32> = (0..depth).collect();
        let mut under_way = HashMap::new();
        let mut times = Vec::new();
        let mut told = Instant::now();
        while times.len() < count {
            while times.len() + under_way.len() < count
                && under_way.len() < depth.min(granted.last) as usize
            {
                let Some(slot) = idle.pop() else { break };
                self.send(&mut peer, &memory, slot, &mut under_way)?;
            }
            let reply = match peer.receive(self.patience)? {
                Incoming::Answer(Answer::Reply(reply)) => reply,
                other => return Err(Error::new(format!("no reply but {other:?}"))),
            };
            let Some(call) = under_way.remove(&reply.xid) else {
                return Err(Error::new(format!("an answer to nothing: {reply:?}")));
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

    /// Makes a Call with the piece of `memory` that is `slot`'s.
    fn send(
        &self,
        peer: &mut Peer,
        memory: &Region,
        slot: u32,
        under_way: &mut HashMap<u32, Call>,
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
        under_way.insert(xid, Call { slot, sent });
        peer.send(&message)
    }

    /// Whether `reply` says that all went well.
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
