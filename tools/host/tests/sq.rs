// SPDX-License-Identifier: GPL-2.0

//! The send queue: entries and completions are counted correctly when their numbers wrap.

mod common;

use common::sq::*;
use common::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(cases(2048))]

    #[test]
    fn entries_are_counted_across_the_wrap(events in events()) {
        check(&events)?;
    }
}
