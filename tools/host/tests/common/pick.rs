// SPDX-License-Identifier: GPL-2.0

//! A choice between strategies that consumes only the fuzzer's bytes of the chosen one.
//!
//! `prop_oneof!` reserves half of the bytes for each alternative to which it could shrink, so few
//! bytes are left after some choices. This choice never shrinks.

use proptest::prelude::*;
use proptest::strategy::{NewTree, ValueTree};
use proptest::test_runner::TestRunner;

/// Alternative strategies, each with its weight.
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

/// Creates a [`Pick`], with the syntax of `prop_oneof!`.
macro_rules! pick {
    ($($weight:literal => $strategy:expr),+ $(,)?) => {
        $crate::common::pick::Pick(vec![$(($weight, $strategy.boxed())),+])
    };
    ($($strategy:expr),+ $(,)?) => { $crate::common::pick!($(1 => $strategy),+) };
}
pub(crate) use pick;

/// Generates `None` or a value, with equal weight, like `prop::option::of`.
pub(crate) fn option<T: Clone + std::fmt::Debug + 'static>(
    strategy: impl Strategy<Value = T> + 'static,
) -> Pick<Option<T>> {
    pick![Just(None), strategy.prop_map(Some)]
}
