// SPDX-License-Identifier: GPL-2.0

//! Any Read list is laid out as the model says, within its budget.

#![no_main]

#[path = "../../tests/common/mod.rs"]
mod common;

use common::layout::*;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| common::fuzz(bytes, any_list(), compare));
