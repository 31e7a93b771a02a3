// SPDX-License-Identifier: GPL-2.0

//! Private data: both sides interpret it alike.

mod common;

use common::cm::*;
use common::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(cases(2048))]

    #[test]
    fn peers_agree(meeting in meeting()) {
        check(&meeting)?;
    }
}
