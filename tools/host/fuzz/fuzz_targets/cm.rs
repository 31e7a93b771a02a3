// SPDX-License-Identifier: GPL-2.0

//! Peers interpret each other's private data alike.

#![no_main]

#[path = "../../tests/common/mod.rs"]
mod common;

use common::cm::*;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| common::fuzz(bytes, meeting(), check));
