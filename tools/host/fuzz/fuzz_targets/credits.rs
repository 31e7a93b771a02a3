// SPDX-License-Identifier: GPL-2.0

//! No grant exceeds the request, the limit or the buffers.

#![no_main]

#[path = "../../tests/common/mod.rs"]
mod common;

use common::credits::*;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| common::fuzz(bytes, events(), check));
