// SPDX-License-Identifier: GPL-2.0

//! A received message is decoded as the RFC says, and all operations on it stay in bounds.

#![no_main]

#[path = "../../tests/common/mod.rs"]
mod common;

use common::header::*;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|msg: &[u8]| {
    // The second half of the input also determines the server's parameters, as the contents of the
    // body hardly matter.
    let (_, body) = msg.split_at(msg.len() / 2);
    common::fuzz(body, served(), |served| {
        exercise(msg, served);
        understood(msg)
    });
});
