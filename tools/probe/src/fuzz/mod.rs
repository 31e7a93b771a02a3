// SPDX-License-Identifier: GPL-2.0

//! `fuzz`: messages nobody thought of, by the thousand.
//!
//! They go out in batches, each with a NULL Call behind it, on one connection until the server ends
//! it. Whatever they are, the server must go on: each answer is well-formed and to a message that
//! was sent, the NULL Call is answered or the connection ends, and a new connection is served.
//!
//! A batch after which that does not hold is tried again on new connections, without each of its
//! messages in turn and then with each of them cut shorter, as long as it still fails and the server
//! serves others.

mod case;
mod minimise;
mod random;

use self::case::{Area, Maker};
use crate::{
    args::Args,
    error::{Error, Result},
    ffi::Region,
    message::{Answer, Message},
    peer::{Incoming, Manners, Peer, PATIENCE},
    rpc,
};
use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    time::{Duration, Instant}, //
};

/// Its options.
pub(crate) const OPTIONS: &[&str] = &["seed", "count", "file", "case"];

/// Messages of a batch: fewer than the credits that any server grants to begin with.
const BATCH: u64 = 16;

/// Memory for chunks, in bytes.
const AREA: usize = 1 << 20;

/// How often the progress is told.
const PROGRESS: Duration = Duration::from_secs(10);

/// XIDs of NULL Calls; those of messages are their numbers.
const NULL_XID: u32 = 0x7fff_0000;

/// What became of the messages.
#[derive(Debug, Default)]
struct Tally {
    answers: BTreeMap<&'static str, u64>,
    connections: u64,
}

impl Tally {
    fn count(&mut self, what: &'static str) {
        *self.answers.entry(what).or_default() += 1;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} connections", self.connections)?;
        self.answers
            .iter()
            .try_for_each(|(what, count)| write!(f, ", {count} {what}"))
    }
}

/// A case to send, or its beginning.
#[derive(Clone, Copy, Debug)]
struct Shot {
    case: u64,
    /// The most bytes of it.
    len: usize,
}

impl Shot {
    fn whole(case: u64) -> Self {
        Self {
            case,
            len: usize::MAX,
        }
    }
}

/// A connection, and memory that its chunks lie in.
struct Line {
    peer: Peer,
    area: Region,
    /// XIDs that may be answered, and how often.
    sent: BTreeMap<u32, u32>,
}

impl Line {
    /// Sends a message that may be answered.
    fn send(&mut self, bytes: &[u8]) {
        if let Some((xid, _)) = bytes.split_first_chunk() {
            *self.sent.entry(u32::from_be_bytes(*xid)).or_default() += 1;
        }
        // An error of the connection shows when answers are awaited.
        let _ = self.peer.send_bytes(bytes);
    }

    /// Counts an answer; says whether there may be one.
    fn answered(&mut self, xid: u32) -> bool {
        match self.sent.get_mut(&xid) {
            Some(left @ 1..) => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }
}

/// Messages for the server.
struct Fuzzer<'a> {
    target: SocketAddr,
    file: &'a str,
    seed: u64,
    line: Option<Line>,
    tally: Tally,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut fuzzer = Fuzzer {
        target: args.target()?,
        file: args.text("file").unwrap_or_default(),
        seed: args.value("seed", 1)?,
        line: None,
        tally: Tally::default(),
    };
    if args.text("case").is_some() {
        return fuzzer.show(args.value("case", 0)?);
    }
    let count: u64 = args.value("count", 100_000)?;
    // A server that is not there is none that has failed.
    fuzzer.line = Some(fuzzer.connect()?);
    let mut told = Instant::now();
    for first in (0..count).step_by(BATCH as usize) {
        let cases = first..count.min(first + BATCH);
        let batch: Vec<Shot> = cases.map(Shot::whole).collect();
        if let Err(error) = fuzzer.send(&batch) {
            return Err(fuzzer.minimise(batch, error));
        }
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            println!("{} of {count}: {}", first + BATCH, fuzzer.tally);
        }
    }
    println!("{count} messages of seed {}: {}", fuzzer.seed, fuzzer.tally);
    Ok(())
}

impl Fuzzer<'_> {
    /// Sends these cases and a NULL Call behind them; an error says how the server failed.
    fn send(&mut self, shots: &[Shot]) -> Result {
        let mut line = match self.line.take() {
            Some(line) => line,
            None => self.connect()?,
        };
        let maker = self.maker(&line.area);
        for shot in shots {
            let mut bytes = maker.make(shot.case, shot.case as u32 % NULL_XID);
            bytes.truncate(shot.len);
            line.send(&bytes);
        }
        let first = shots.first().map_or(0, |shot| shot.case & 0xffff);
        let null = NULL_XID + first as u32;
        line.send(&Message::inline(null, rpc::null(null)).encode());
        if self.collect(&mut line, null)? {
            self.line = Some(line);
        }
        Ok(())
    }

    /// Takes answers until that to `null` is there, or the connection has ended; says whether it
    /// stays.
    fn collect(&mut self, line: &mut Line, null: u32) -> Result<bool> {
        loop {
            let answer = match line.peer.receive(PATIENCE)? {
                Incoming::Answer(answer) => answer,
                Incoming::Closed => {
                    self.tally.count("closes");
                    return Ok(false);
                }
                Incoming::Silence => return Err(Error::new("a NULL Call was not answered")),
            };
            if !answer.xid().is_some_and(|xid| line.answered(xid)) {
                return Err(Error::new(format!("an answer to nothing: {answer:?}")));
            }
            self.tally.count(match &answer {
                Answer::Reply(_) => "replies",
                Answer::ErrVers { .. } => "ERR_VERS",
                Answer::ErrChunk { .. } => "ERR_CHUNK",
                Answer::Malformed(_) => "malformed",
            });
            if answer.xid() == Some(null) {
                return match answer {
                    Answer::Reply(_) => Ok(true),
                    other => Err(Error::new(format!("a NULL Call was answered: {other:?}"))),
                };
            }
        }
    }

    /// Connects; a server that does not serve any more fails here.
    fn connect(&mut self) -> Result<Line> {
        let manners = Manners {
            receives: 4 * BATCH as u32,
            ..Manners::default()
        };
        let mut peer = Peer::connect(&self.target, manners)?;
        peer.null()?;
        self.tally.connections += 1;
        let area = peer.region(AREA)?;
        Ok(Line {
            peer,
            area,
            sent: BTreeMap::new(),
        })
    }

    fn maker(&self, area: &Region) -> Maker<'_> {
        Maker {
            seed: self.seed,
            area: Area {
                handle: area.rkey(),
                address: area.address(),
                len: area.len() as u32,
            },
            file: self.file,
        }
    }

    /// Finds out which of `shots`, after which the server has failed with `error`, matter.
    fn minimise(&mut self, shots: Vec<Shot>, error: Error) -> Error {
        let seed = self.seed;
        println!("seed {seed}, {shots:?}: {error}; looking for the messages that matter");
        let found = minimise::minimise(shots, error, |shots| self.fails(shots));
        Error::new(format!("seed {seed}: {found}"))
    }

    /// How the server fails after these, sent on a connection of their own.
    fn fails(&mut self, shots: &[Shot]) -> Option<Error> {
        self.line = None;
        self.send(shots).err()
    }

    /// Sends one case alone, and shows it.
    fn show(&mut self, case: u64) -> Result {
        let line = self.connect()?;
        let bytes = self.maker(&line.area).make(case, case as u32 % NULL_XID);
        for (nth, words) in bytes.chunks(16).enumerate() {
            println!("{:5} {words:02x?}", nth * 16);
        }
        self.line = Some(line);
        self.send(&[Shot::whole(case)])?;
        println!("{}", self.tally);
        Ok(())
    }
}
