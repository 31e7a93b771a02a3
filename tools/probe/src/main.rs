// SPDX-License-Identifier: GPL-2.0

//! rpcrdma-probe: a raw RPC-over-RDMA peer that talks to a server at the wire, also in ways no NFS
//! client does.
//!
//! One file per command, on top of [`peer`] (a connection), [`message`] (the transport header),
//! [`rpc`] (the Calls) and [`ffi`] (librdmacm and libibverbs).

#![deny(unsafe_code)]

mod args;
mod call;
mod callback;
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
mod session;
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

  ping       connect, make NULL Calls, print what was agreed on and percentiles of the times
               --count N        Calls to make (5)
               --reads N        RDMA Reads that the server may have under way at once (16)
  call       make the RPC Call on standard input, print where its reply was and the bytes, in JSON
               --write N        bytes of a Write chunk to offer (0: none)
               --reply N        bytes of a Reply chunk to offer (0: none)
  idle       open connections, a NULL Call and a GETATTR each, and hold them until standard
             input ends
               --count N        connections (1)
               --calls N        NULL Calls that each makes then, as many at a time as are
                                granted (0)
  hoard      keep as many WRITEs under way as are granted, to a file that there is not and with
             a Read chunk each, and connect again when a connection ends; print in the end how
             many connections and Calls there were
               --count N        peers (1)
               --depth N        the most WRITEs of each at a time (128)
               --size N         bytes of a WRITE (65536)
               --seconds N      until the end (60)
               --over N         how many times as many as are granted (1)
               --calls N        NULL Calls of each connection at first, as many at a time as are
                                granted (0)
               --valid          a GETATTR of each connection at first, so that nfsd knows the peer
  load       make Calls of one kind, so many at a time, and print how long they took
               --kind KIND      null; read or write, which need --file (null)
               --depth N        at a time, up to 128 and what the server grants (1)
               --count N        in all (1000)
               --size N         bytes of a READ or WRITE (4096)
               --file PATH      a file below the root of NFS version 4, which write overwrites;
                                for read it has to have depth times size bytes
               --pause MS       time to let go by when connected, before anything is sent (0)
               --patience S     seconds without any reply before it gives up (60)
               --valid          with a GETATTR first, after which Linux servers know the peer
  storm      open connections at once, retry those that fail, then end all at once
               --count N        connections (1)
               --calls N        GETATTRs of each (2)
               --from ADDRESS   of this host, to connect from
               --parallel N     threads that connect, one connection after the other (32)
               --how HOW        disconnect, or silent: no queue pair is left when the server
                                hears of it (disconnect)
  vanish     connect and go away at some stage, again and again
               --stage STAGE    how far to get: all, or one of
                                request response established call reply read read-rkey
                                write-chunk reply-chunk no-receive no-receive-calls
                                no-receive-reads no-receive-errors send overrun immediate
                                (all); or of what no client does: unasked invalidation
                                greedy, which begins with a line on standard input;
                                overrun-seen, which waits until the server has seen it
               --how HOW        disconnect, silent, kill, all; or hold: stay until
                                standard input ends (all)
               --count N        peers (one of each kind)
               --parallel N     threads, each with a group of up to 8 peers at a time (4)
               --pause MS       that a thread lets go by after each peer; groups have one peer
                                then (0)
               --file PATH      file of at least 128 KiB below the root of NFS version 4,
                                for write-chunk and reply-chunk
               --key N          of a registration of the server's, for invalidation
               --calls N        READs of each peer, for no-receive-reads (32)
  conform    try what RFC 8166, 8167, 8267 and 8797 require of a server, and print a table;
             the status is 0 if something is met and nothing violated. What the server need
             not have is not tried without: NFS version 3, and that handles of version 4 are
             good there; callbacks about locks (OPEN4_RESULT_MAY_NOTIFY_LOCK); READ_PLUS
               --file PATH      a file below the root of NFS version 4, in a folder where
                                links can be made; it is overwritten. Without it the rows
                                that need one are not tried
               --call-limit N   the most bytes of a Call that the server takes, likewise
               --part PART      messages, headers, calls, replies, links, version3, eligibility,
                                agreement, invalidation, credits, callbacks, directions or
                                endings (all)
               --only TEXT      the rows whose name has it (all)
               --pause MS       time to let go by when connected, before anything is sent (0)
               --quick          a dozen in place of all 256 codes of sizes
               --json           JSON in place of the table
  fuzz       send messages nobody thought of; the server must go on
               --seed N         what they are made from (1)
               --count N        messages (100000)
               --case N         one of them only, which is shown
               --file PATH      a file below the root of NFS version 4, which is overwritten

All take --allow-remote, without which only hosts on a network of this host are talked to.
";

/// One command.
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

/// Says that the option `name` is needed.
fn missing(name: &str) -> Error {
    Error::new(format!("--{name} is needed"))
}
