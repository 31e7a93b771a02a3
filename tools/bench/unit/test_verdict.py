# SPDX-License-Identifier: GPL-2.0
"""Intervals of known samples, and the rule."""

import random
import unittest

from verdict import Interval, Rule, Verdict, interval, left_out, verdict

# Ratios of a server that is about a fifth faster, and those of one that differs by chance alone.
FASTER = [1.18, 1.24, 1.02, 1.31, 1.20, 1.15, 1.22, 1.09]
ALIKE = [1.20, 0.84, 1.05, 0.93, 0.80, 1.17, 1.01, 0.99]


class IntervalTest(unittest.TestCase):
    def test_ends_are_those_of_the_tables_of_the_signed_rank_test(self) -> None:
        # Critical values of Wilcoxon's test for 5 % on both sides, plus 1.
        self.assertEqual([left_out(n, 0.95) for n in (5, 6, 7, 8, 9, 10, 12, 15, 20)], [0, 1, 3, 4, 6, 9, 14, 26, 53])
        self.assertEqual([left_out(n, 0.99) for n in (7, 8, 10, 20)], [0, 1, 4, 38])

    def test_too_few_pairs_have_no_interval(self) -> None:
        self.assertIsNone(interval([2.0] * 5, 0.95))
        self.assertEqual(interval([2.0] * 6, 0.95), interval([2.0] * 20, 0.95))

    def test_six_pairs_span_all_of_them(self) -> None:
        found = interval([1, 2, 4, 8, 16, 32], 0.95)
        assert found
        self.assertAlmostEqual(found.low, 1)
        self.assertAlmostEqual(found.ratio, 32**0.5)
        self.assertAlmostEqual(found.high, 32)

    def test_known_samples(self) -> None:
        found = interval(FASTER, 0.95)
        assert found
        for value, expected in zip(found, (1.09, 1.1822, 1.2538), strict=True):
            self.assertAlmostEqual(value, expected, 3)

    def test_the_inverse_ratios_have_the_inverse_interval(self) -> None:
        found, inverse = interval(FASTER, 0.95), interval([1 / ratio for ratio in FASTER], 0.95)
        assert found and inverse
        for value, other in zip(found, reversed(inverse), strict=True):
            self.assertAlmostEqual(value * other, 1)

    def test_one_bad_slice_does_not_turn_the_verdict(self) -> None:
        self.assertIs(verdict(interval([*FASTER, *FASTER, 0.2], 0.95)), Verdict.ABOVE)

    def test_the_interval_has_the_truth_as_often_as_it_says(self) -> None:
        source = random.Random(7)
        runs = [interval([source.lognormvariate(0, 0.3) for _ in range(8)], 0.95) for _ in range(1000)]
        wrong = sum(verdict(found) in (Verdict.ABOVE, Verdict.BELOW) for found in runs)
        self.assertTrue(20 <= wrong <= 60, wrong)


class VerdictTest(unittest.TestCase):
    def test_a_difference_has_a_verdict(self) -> None:
        self.assertIs(verdict(interval(FASTER, 0.95)), Verdict.ABOVE)
        self.assertIs(verdict(interval([1 / ratio for ratio in FASTER], 0.95)), Verdict.BELOW)

    def test_no_difference_has_none(self) -> None:
        self.assertIs(verdict(interval(ALIKE, 0.95)), Verdict.OPEN)
        self.assertIs(verdict(interval(FASTER[:5], 0.95)), Verdict.OPEN)

    def test_a_narrow_interval_is_equal(self) -> None:
        self.assertIs(verdict(Interval(0.97, 1.0, 1.04)), Verdict.EQUAL)
        self.assertIs(verdict(Interval(0.94, 1.0, 1.04)), Verdict.OPEN)


class RuleTest(unittest.TestCase):
    def test_a_cell_ends_at_a_look_with_a_verdict(self) -> None:
        rule = Rule((8, 14, 20))
        ended = [[rule.ends(rounds, each) for rounds in (7, 8, 9, 14, 19, 20)] for each in (Verdict.ABOVE, Verdict.OPEN)]
        self.assertEqual(ended, [[False, True, False, True, False, True], [False] * 5 + [True]])

    def test_looks_share_the_errors(self) -> None:
        self.assertAlmostEqual(Rule((6,)).confidence, 0.95)
        self.assertAlmostEqual(Rule((8, 14, 20)).confidence, 1 - 0.05 / 3)
        self.assertGreater(left_out(8, Rule((8, 14, 20)).confidence), 0)
