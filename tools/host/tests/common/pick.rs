// SPDX-License-Identifier: GPL-2.0

//! A choice between strategies that takes no more of a fuzzer's bytes than what it chooses.
//!
//! `prop_oneof!` puts half of them aside for each alternative it could fall back to when a case is
//! made smaller, so few are left after some choices. This one never falls back.

use proptest::prelude::*;
use proptest::strategy::{NewTree, ValueTree};
use proptest::test_runner::TestRunner;

/// Alternatives, each with its weight.
#[derive(Clone, Debug)]
pub(crate) struct Pick<T>(pub(crate) Vec<(u32, BoxedStrategy<T>)>);

impl<T: std::fmt::Debug> Strategy for Pick<T> {
    type Tree = Box<dyn ValueTree<Value = T>>;
    type Value = T;

    fn new_tree(&self, runner: &mut TestRunner) -> NewTree<Self> {
        let sum = self.0.iter().map(|(weight, _)| weight).sum();
        let mut drawn = (0..sum).new_tree(runner)?.current();
        for (weight, strategy) in &self.0 {
            match drawn.checked_sub(*weight) {
                Some(rest) => drawn = rest,
                None => return strategy.new_tree(runner),
            }
        }
        Err("nothing to pick from".into())
    }
}

/// As `prop_oneof!`.
macro_rules! pick {
    ($($weight:literal => $strategy:expr),+ $(,)?) => {
        $crate::common::pick::Pick(vec![$(($weight, $strategy.boxed())),+])
    };
    ($($strategy:expr),+ $(,)?) => { $crate::common::pick!($(1 => $strategy),+) };
}
pub(crate) use pick;

/// As `prop::option::of`, with as many of either.
pub(crate) fn option<T: Clone + std::fmt::Debug + 'static>(
    strategy: impl Strategy<Value = T> + 'static,
) -> Pick<Option<T>> {
    pick![Just(None), strategy.prop_map(Some)]
}
