// SPDX-License-Identifier: GPL-2.0

//! The send queue agrees with a model whose numbers never wrap.

#![no_main]

#[path = "../../tests/common/mod.rs"]
mod common;

use common::sq::*;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| common::fuzz(bytes, events(), check));
