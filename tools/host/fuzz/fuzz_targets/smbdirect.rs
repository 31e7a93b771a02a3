// SPDX-License-Identifier: GPL-2.0

//! SMB Direct and the bulk protocol: arbitrary messages, and connections that receive them.

#![no_main]

#[path = "../../../smbdirect/tests/common/mod.rs"]
mod common;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    common::decode(bytes);
    common::arbitrary(bytes);
});
