// SPDX-License-Identifier: GPL-2.0

//! rpcrdma-probe: an RPC-over-RDMA client that builds its messages itself and can violate the
//! protocol on purpose.
//!
//! Each command has its own file or folder, with a struct of its options that is [`run`]; [`cli`]
//! lists them. The commands share [`peer`] (a connection), [`message`] (the transport header), [`rpc`]
//! (RPC Calls), [`compound`] (those of NFS version 4) and [`ffi`] (librdmacm and libibverbs).

#![deny(unsafe_code)]

mod bulk;
mod call;
mod callback;
mod calls;
mod cli;
mod compound;
mod conform;
mod crew;
mod echo;
mod error;
mod expose;
mod fabric;
#[allow(unsafe_code)]
mod ffi;
mod fuzz;
mod gateway;
mod grant;
mod hoard;
mod host;
mod idle;
mod load;
mod manual;
mod message;
mod mix;
mod output;
mod params;
mod peer;
mod ping;
mod rpc;
mod run;
mod scenario;
mod session;
mod share;
mod stage;
mod storm;
mod target;
mod times;
mod vanish;
mod xdr;
mod xids;

use crate::{
    cli::Cli,
    error::Outcome,
    output::Output, //
};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    ffi::end_with_reader();
    let cli = Cli::parse();
    let (name, command) = cli.command.parts();
    let mut output = Output::new(name, command.format());
    let result = command.run(&mut output);
    output.finish(&result);
    ExitCode::from(Outcome::of(&result).status())
}
