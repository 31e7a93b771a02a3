// SPDX-License-Identifier: GPL-2.0

//! The layout of any Read list agrees with the model and stays within its budget.

#![no_main]

#[path = "../../tests/common/mod.rs"]
mod common;

use common::layout::*;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| common::fuzz(bytes, any_list(), compare));
