// SPDX-License-Identifier: GPL-2.0

//! Calls that a client has reduced are restored byte by byte.

#![no_main]

#[path = "../../tests/common/mod.rs"]
mod common;

use common::cuts;
use common::layout::*;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    common::fuzz(bytes, (reduced(), cuts()), |(call, cuts)| {
        budgeted(call)?;
        reassembled(call, cuts)
    });
});
