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
    error::{Error, Result},
    ffi::Region,
    message::{Answer, Message},
    output::{Format, Output, Progress},
    peer::{Incoming, Params, Peer, PATIENCE},
    run::Run,
    target::{Server, Target}, //
};
use clap::value_parser;
use serde_json::json;
use std::{
    collections::BTreeMap,
    fmt,
    time::Duration, //
};

/// Send generated messages, most of them malformed; the server must keep working
#[derive(Debug, clap::Args)]
pub(crate) struct Fuzz {
    #[command(flatten)]
    server: Server,
    /// Seed of the generator
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Messages
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = value_parser!(u64).range(1..))]
    count: u64,
    /// Print and send only this message
    #[arg(long, value_name = "N")]
    case: Option<u64>,
    /// File below the root of NFS version 4, which is overwritten
    #[arg(
        long,
        value_name = "PATH",
        default_value = "",
        hide_default_value = true
    )]
    file: String,
}

/// The number of messages in a batch. With the NULL Call behind them they use the credits that
/// servers grant at least.
const BATCH: u64 = 7;

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
    /// The first error of a Send.
    failed: Option<Error>,
}

impl Connection {
    /// Sends a message that may be answered.
    fn send(&mut self, bytes: &[u8]) {
        if let Some((xid, _)) = bytes.split_first_chunk() {
            *self.sent.entry(u32::from_be_bytes(*xid)).or_default() += 1;
        }
        // If the connection has ended, that shows when the answers are awaited.
        if let Err(error) = self.peer.send_bytes(bytes) {
            self.failed.get_or_insert(error);
        }
    }

    /// Returns the reason for which a NULL Call was not answered.
    fn silence(&mut self) -> Error {
        let failed = self.failed.take();
        failed.unwrap_or_else(|| Error::new("a NULL Call was not answered"))
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
    target: Target,
    format: Format,
    file: &'a str,
    seed: u64,
    connection: Option<Connection>,
    tally: Tally,
}

impl Run for Fuzz {
    fn format(&self) -> Format {
        self.server.format()
    }

    fn run(&self, output: &mut Output) -> Result {
        let mut fuzzer = Fuzzer {
            target: self.server.target()?,
            format: output.format(),
            file: &self.file,
            seed: self.seed,
            connection: None,
            tally: Tally::default(),
        };
        let done = match self.case {
            Some(case) => fuzzer.show(output, case),
            None => fuzzer.send_all(output, self.count),
        };
        output.set("seed", self.seed);
        output.set("connections", fuzzer.tally.connections);
        output.set("answers", json!(fuzzer.tally.answers));
        done
    }
}

impl Fuzzer<'_> {
    /// Sends `count` messages.
    fn send_all(&mut self, output: &mut Output, count: u64) -> Result {
        // A server that cannot be reached has not failed.
        self.connection = Some(self.connect()?);
        let mut progress = Progress::new(PROGRESS);
        for first in (0..count).step_by(BATCH as usize) {
            let cases = first..count.min(first + BATCH);
            let batch: Vec<Shot> = cases.map(Shot::whole).collect();
            if let Err(error) = self.send(&batch) {
                return Err(self.minimise(batch, error));
            }
            progress.tell(|| format!("{} of {count}: {}", first + BATCH, self.tally));
        }
        output.line(format_args!(
            "{count} messages of seed {}: {}",
            self.seed, self.tally
        ));
        output.set("messages", count);
        Ok(())
    }

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
        let message = Message::inline(null, connection.peer.null_rpc(null));
        connection.send(&message.encode());
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
                Incoming::Silence => return Err(connection.silence()),
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
            failed: None,
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
        self.format
            .note(format_args!("seed {seed}, {shots:?}: {error}"));
        let found = minimise::minimise(shots, error, |shots| {
            self.connection = None;
            self.send(shots)
        });
        found.within(format_args!("seed {seed}"))
    }

    /// Prints one case and sends it alone.
    fn show(&mut self, output: &mut Output, case: u64) -> Result {
        let connection = self.connect()?;
        let bytes = self
            .maker(&connection.area)
            .make(case, case as u32 % NULL_XID);
        for (nth, words) in bytes.chunks(16).enumerate() {
            output.line(format_args!("{:5} {words:02x?}", nth * 16));
        }
        output.set("message", hex::encode(&bytes));
        self.connection = Some(connection);
        self.send(&[Shot::whole(case)])?;
        output.line(&self.tally);
        Ok(())
    }
}
