// SPDX-License-Identifier: GPL-2.0

//! rpcrdma-probe: an RPC-over-RDMA client that builds its messages itself and can violate the
//! protocol on purpose.
//!
//! Each command has its own file or folder. The commands share [`peer`] (a connection), [`message`]
//! (the transport header), [`rpc`] (RPC Calls) and [`ffi`] (librdmacm and libibverbs).

#![deny(unsafe_code)]

mod args;
mod call;
mod callback;
mod calls;
mod compound;
mod conform;
mod error;
#[allow(unsafe_code)]
mod ffi;
mod fuzz;
mod grant;
mod hoard;
mod idle;
mod load;
mod message;
mod peer;
mod ping;
mod rpc;
mod scenario;
mod session;
mod share;
mod stage;
mod storm;
mod target;
mod times;
mod vanish;
mod xdr;

use crate::{
    args::Args,
    error::{Error, Result},
};
use std::{
    env,
    ffi::OsString,
    iter,
    process::ExitCode, //
};

const USAGE: &str = "\
usage: rpcrdma-probe COMMAND HOST[:PORT] [OPTION...]

  ping       connect, make NULL Calls, and print the connection parameters and percentiles of
             the response times
               --count N        number of Calls (5)
               --reads N        RDMA Reads that the server may have in flight (16)
  call       make the RPC Call from standard input; print as JSON the bytes of the reply and
             where they arrived
               --write N        bytes of a Write chunk to offer (0: none)
               --reply N        bytes of a Reply chunk to offer (0: none)
  idle       open connections, make a NULL Call and a GETATTR on each, and hold them until
             standard input ends
               --count N        number of connections (1)
               --calls N        further NULL Calls on each connection, as many at a time as the
                                server grants (0)
  hoard      keep as many WRITEs in flight as the server grants, each with a Read chunk and an
             unknown file handle, and reconnect when a connection ends; at the end, print the
             number of connections and Calls
               --count N        number of peers (1)
               --depth N        limit of WRITEs in flight per peer (128)
               --size N         bytes of a WRITE (65536)
               --seconds N      duration (60)
               --over N         use N times the granted credits (1)
               --calls N        NULL Calls at the start of each connection, as many at a time
                                as the server grants (0)
               --valid          make a GETATTR at the start of each connection, so that nfsd
                                takes the peer for valid
  load       make Calls of one kind at a given depth, and print their response times
               --kind KIND      null; or read or write, which need --file (null)
               --depth N        Calls in flight, at most 128 and what the server grants (1)
               --count N        number of Calls (1000)
               --size N         bytes of a READ or WRITE (4096)
               --file PATH      a file below the root of NFS version 4; write overwrites it, and
                                read needs one of at least depth times size bytes
               --pause MS       wait after connecting, before the first message (0)
               --patience S     give up after S seconds without a reply (60)
               --valid          make a GETATTR first, so that nfsd takes the peer for valid
  share      let two peers with equal demand compete, and print how many Calls of each were
             answered. The large one keeps Calls in flight on several connections. The small one
             makes on one connection a Call for each answer to the large one
               --kind KIND      read or write
               --file PATH      files below the root of NFS version 4: PATH0 of the small peer,
                                PATH1 and so on of the connections of the large one, as for load
               --connections N  connections of the large peer (16)
               --depth N        Calls in flight on each of them, at most 128 (1)
               --size N         bytes of its READs or WRITEs (1048576)
               --small-size N   bytes of those of the small peer (4096)
               --count N        answers to the large peer, after which all Calls end (300)
  storm      open connections at once, retry failed ones, then close all at once
               --count N        number of connections (1)
               --calls N        GETATTRs per connection (2)
               --from ADDRESS   local address to connect from
               --parallel N     threads, each of which makes one connection at a time (32)
               --how HOW        disconnect; or silent: destroy the queue pairs before the server
                                is told (disconnect)
  vanish     connect and disappear at some stage, repeatedly
               --stage STAGE    the stage to reach: all, or one of
                                request response established call reply read read-rkey
                                write-chunk reply-chunk no-receive no-receive-calls
                                no-receive-reads no-receive-errors send overrun immediate
                                (all); or a misbehaviour that all does not include: unasked,
                                invalidation, greedy, which starts when standard input has a
                                line, or overrun-seen, which waits until all Calls have arrived
                                or the server has closed the connection
               --how HOW        disconnect, silent, kill, all; or hold: stay connected until
                                standard input ends (all)
               --count N        number of peers (one of each kind)
               --parallel N     threads, each with a group of up to 8 peers at a time (4)
               --pause MS       wait after each peer; groups then have one peer (0)
               --file PATH      a file of at least 128 KiB below the root of NFS version 4, for
                                write-chunk, reply-chunk and no-receive-reads
               --key N          key of a memory registration of the server, for invalidation
               --calls N        READs of each peer, for no-receive-reads (32)
  conform    check a server against RFC 8166, 8167, 8267 and 8797, and print a table. The exit
             status is 0 if a requirement is met and none is violated. Rows that need an
             optional feature are not tried without it: NFS version 3 that accepts handles of
             version 4; callbacks about locks (OPEN4_RESULT_MAY_NOTIFY_LOCK); READ_PLUS
               --file PATH      a file below the root of NFS version 4, in a directory where
                                links can be made; it is overwritten. Rows that need a file
                                are not tried without it
               --call-limit N   bytes of the longest Call that the server accepts. Rows that
                                need it are not tried without it
               --part PART      messages, headers, calls, replies, links, version3, eligibility,
                                agreement, invalidation, credits, callbacks, directions or
                                endings (all)
               --only TEXT      only rows whose name contains TEXT (all)
               --pause MS       wait after connecting, before the first message (0)
               --quick          try 12 of the 256 size codes
               --json           print JSON instead of a table
  fuzz       send generated messages, most of them malformed; the server must keep working
               --seed N         seed of the generator (1)
               --count N        number of messages (100000)
               --case N         print and send only this message
               --file PATH      a file below the root of NFS version 4, which is overwritten

All commands take --allow-remote; without it, HOST must be on a network of this host.
";

/// A command of the program.
struct Command {
    name: &'static str,
    options: &'static [&'static str],
    run: fn(&Args) -> Result<()>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "call",
        options: call::OPTIONS,
        run: call::run,
    },
    Command {
        name: "conform",
        options: conform::OPTIONS,
        run: conform::run,
    },
    Command {
        name: "fuzz",
        options: fuzz::OPTIONS,
        run: fuzz::run,
    },
    Command {
        name: "hoard",
        options: hoard::OPTIONS,
        run: hoard::run,
    },
    Command {
        name: "idle",
        options: idle::OPTIONS,
        run: idle::run,
    },
    Command {
        name: "load",
        options: load::OPTIONS,
        run: load::run,
    },
    Command {
        name: "ping",
        options: ping::OPTIONS,
        run: ping::run,
    },
    Command {
        name: "share",
        options: share::OPTIONS,
        run: share::run,
    },
    Command {
        name: "storm",
        options: storm::OPTIONS,
        run: storm::run,
    },
    Command {
        name: "vanish",
        options: vanish::OPTIONS,
        run: vanish::run,
    },
];

fn main() -> ExitCode {
    ffi::end_with_reader();
    let mut args = env::args_os().skip(1);
    let name = args.next().unwrap_or_default();
    let args: Vec<OsString> = args.collect();
    if name == "help" || iter::once(&name).chain(&args).any(asks_for_help) {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let Some(command) = COMMANDS.iter().find(|command| name == command.name) else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    let args = args.into_iter();
    match Args::parse(args, command.options).and_then(|args| (command.run)(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rpcrdma-probe {}: {error}", command.name);
            ExitCode::FAILURE
        }
    }
}

fn asks_for_help(arg: &OsString) -> bool {
    arg == "--help" || arg == "-h"
}

/// Returns the error for a missing option `name`.
fn missing(name: &str) -> Error {
    Error::new(format!("--{name} is required"))
}
