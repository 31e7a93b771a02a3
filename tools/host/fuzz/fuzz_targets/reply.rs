// SPDX-License-Identifier: GPL-2.0

//! Every byte of a Reply arrives once, and no chunk is filled beyond its length.

#![no_main]

#[path = "../../tests/common/mod.rs"]
mod common;

use common::reply::*;
use common::{cuts, pick};
use libfuzzer_sys::fuzz_target;
use proptest::prelude::*;

fuzz_target!(|bytes: &[u8]| {
    let cases = pick![case(), fitting()];
    common::fuzz(bytes, (cases, cuts()), |(case, cuts)| check(case, cuts));
});
