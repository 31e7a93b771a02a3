// SPDX-License-Identifier: GPL-2.0

//! `fuzz`: sends generated messages, most of them malformed.
//!
//! Messages are sent in batches, each followed by a NULL Call, on one connection until the server
//! closes it. The server must survive: each answer is well-formed and belongs to a message that was
//! sent, the NULL Call is answered or the connection ends, and a new connection is served.
//!
//! A batch that makes the server fail is minimised: it is sent again on new connections, first
//! without each of its messages in turn and then with each of them cut shorter, as long as the
//! server still fails and still serves other connections.

mod case;
mod minimise;
mod random;

use self::case::{Area, Maker};
use crate::{
    args::Args,
    error::{Error, Result},
    ffi::Region,
    message::{Answer, Message},
    peer::{Incoming, Params, Peer, PATIENCE},
    rpc,
};
use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    time::{Duration, Instant}, //
};

/// Options of the command.
pub(crate) const OPTIONS: &[&str] = &["seed", "count", "file", "case"];

/// The number of messages in a batch.
const BATCH: u64 = 16;

/// The size of the memory for chunks, in bytes.
const AREA: usize = 1 << 20;

/// The interval of progress messages.
const PROGRESS: Duration = Duration::from_secs(10);

/// The first XID of NULL Calls. The XID of a case is its number.
const NULL_XID: u32 = 0x7fff_0000;

/// Counts of answers and connections.
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

/// A case to send, or the first bytes of it.
#[derive(Clone, Copy, Debug)]
struct Shot {
    case: u64,
    /// The maximum of bytes to send.
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

/// A connection and the memory that its chunks refer to.
struct Connection {
    peer: Peer,
    area: Region,
    /// The XIDs that may be answered, and how often.
    sent: BTreeMap<u32, u32>,
}

impl Connection {
    /// Sends a message that may be answered.
    fn send(&mut self, bytes: &[u8]) {
        if let Some((xid, _)) = bytes.split_first_chunk() {
            *self.sent.entry(u32::from_be_bytes(*xid)).or_default() += 1;
        }
        // An error of the connection shows when the answers are awaited.
        let _ = self.peer.send_bytes(bytes);
    }

    /// Counts an answer. Returns false if no message with this XID awaits one.
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

/// The state of the command.
struct Fuzzer<'a> {
    target: SocketAddr,
    file: &'a str,
    seed: u64,
    connection: Option<Connection>,
    tally: Tally,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut fuzzer = Fuzzer {
        target: args.target()?,
        file: args.text("file").unwrap_or_default(),
        seed: args.value("seed", 1)?,
        connection: None,
        tally: Tally::default(),
    };
    if args.text("case").is_some() {
        return fuzzer.show(args.value("case", 0)?);
    }
    let count: u64 = args.value("count", 100_000)?;
    // A server that cannot be reached has not failed.
    fuzzer.connection = Some(fuzzer.connect()?);
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
    /// Sends these cases and a NULL Call behind them. The error describes how the server failed.
    fn send(&mut self, shots: &[Shot]) -> Result {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let maker = self.maker(&connection.area);
        for shot in shots {
            let mut bytes = maker.make(shot.case, shot.case as u32 % NULL_XID);
            bytes.truncate(shot.len);
            connection.send(&bytes);
        }
        let first = shots.first().map_or(0, |shot| shot.case & 0xffff);
        let null = NULL_XID + first as u32;
        connection.send(&Message::inline(null, rpc::null(null)).encode());
        if self.collect(&mut connection, null)? {
            self.connection = Some(connection);
        }
        Ok(())
    }

    /// Receives answers until that to the NULL Call `null` arrives or the connection ends. Returns
    /// true if the connection is still established.
    fn collect(&mut self, connection: &mut Connection, null: u32) -> Result<bool> {
        loop {
            let answer = match connection.peer.receive(PATIENCE)? {
                Incoming::Answer(answer) => answer,
                Incoming::Closed => {
                    self.tally.count("closes");
                    return Ok(false);
                }
                Incoming::Silence => return Err(Error::new("a NULL Call was not answered")),
            };
            if !answer.xid().is_some_and(|xid| connection.answered(xid)) {
                return Err(Error::new(format!("unexpected answer: {answer:?}")));
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

    /// Connects and makes a NULL Call; an error means that the server no longer serves clients.
    fn connect(&mut self) -> Result<Connection> {
        let params = Params {
            receives: 4 * BATCH as u32,
            ..Params::default()
        };
        let mut peer = Peer::connect(&self.target, params)?;
        peer.null()?;
        self.tally.connections += 1;
        let area = peer.region(AREA)?;
        Ok(Connection {
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

    /// Minimises `shots`, after which the server failed with `error`.
    fn minimise(&mut self, shots: Vec<Shot>, error: Error) -> Error {
        let seed = self.seed;
        println!("seed {seed}, {shots:?}: {error}; minimising the batch");
        let found = minimise::minimise(shots, error, |shots| self.fails(shots));
        Error::new(format!("seed {seed}: {found}"))
    }

    /// Sends `shots` on a new connection. Returns the server's failure, if any.
    fn fails(&mut self, shots: &[Shot]) -> Option<Error> {
        self.connection = None;
        self.send(shots).err()
    }

    /// Prints one case and sends it alone.
    fn show(&mut self, case: u64) -> Result {
        let connection = self.connect()?;
        let bytes = self
            .maker(&connection.area)
            .make(case, case as u32 % NULL_XID);
        for (nth, words) in bytes.chunks(16).enumerate() {
            println!("{:5} {words:02x?}", nth * 16);
        }
        self.connection = Some(connection);
        self.send(&[Shot::whole(case)])?;
        println!("{}", self.tally);
        Ok(())
    }
}
