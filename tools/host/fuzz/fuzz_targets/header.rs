// SPDX-License-Identifier: GPL-2.0

//! A received message means what the RFC says, and all that follows from it stays in bounds.

#![no_main]

#[path = "../../tests/common/mod.rs"]
mod common;

use common::header::*;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|msg: &[u8]| {
    // What a Call brings along hardly matters: that stands for what the server has.
    let (_, body) = msg.split_at(msg.len() / 2);
    common::fuzz(body, served(), |served| {
        exercise(msg, served);
        understood(msg)
    });
});
