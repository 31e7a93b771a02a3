// SPDX-License-Identifier: GPL-2.0

//! Credits: grants follow the load, and no more Calls are accepted than there is room for.

mod common;

use common::credits::*;
use common::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(cases(2048))]

    #[test]
    fn nobody_gets_more_than_there_is(events in events()) {
        check(&events)?;
    }
}
