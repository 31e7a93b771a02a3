# SPDX-License-Identifier: GPL-2.0
"""Intervals of ratios of paired figures, and the rule that ends a cell.

A pair is a figure of each of two servers from the same round. The interval is that of Wilcoxon's signed rank test on the
logarithms of the ratios: it needs no normal distribution, and one bad slice moves it by one rank. With it comes the
Hodges-Lehmann estimate, the median of all means of two logarithms.

A cell is judged after a fixed number of rounds, and again after more rounds if there is no verdict. Each of these looks has its
share of the 5 % of errors (Bonferroni), or looking often would find a difference where there is none.
"""

import math
from collections.abc import Sequence
from enum import Enum
from itertools import combinations_with_replacement
from statistics import median
from typing import NamedTuple

ERRORS = 0.05
# An interval whose ends differ by less has a verdict, too.
NARROW = 1.1


class Interval(NamedTuple):
    low: float
    ratio: float
    high: float


class Verdict(Enum):
    ABOVE = "above"  # the interval is above 1
    BELOW = "below"  # the interval is below 1
    EQUAL = "equal"  # the interval has 1 and is narrow
    OPEN = "open"  # the interval has 1 and is wide, or there are too few pairs for one


class Rule(NamedTuple):
    """The numbers of rounds after which a cell is judged."""

    looks: tuple[int, ...]

    @property
    def confidence(self) -> float:
        return 1 - ERRORS / len(self.looks)

    def ends(self, rounds: int, verdict: Verdict) -> bool:
        """Returns true if a cell needs no more than these rounds."""
        return rounds >= self.looks[-1] or (rounds in self.looks and verdict is not Verdict.OPEN)


def left_out(pairs: int, confidence: float) -> int:
    """Returns which of the means in ascending order is the lower end of the interval, counted from 1; 0 if there is none.

    It is the largest number c for which the sum of positive ranks is below c with half of the probability of an error at most.
    """
    ways = [1]
    for rank in range(1, pairs + 1):
        ways = [a + b for a, b in zip(ways + [0] * rank, [0] * rank + ways, strict=True)]
    bound, below = (1 - confidence) / 2 * 2**pairs, 0
    for total, count in enumerate(ways):
        below += count
        if below > bound:
            return total
    return 0


def interval(ratios: Sequence[float], confidence: float) -> Interval | None:
    """Returns the interval, or None if there are too few ratios for that confidence."""
    end = left_out(len(ratios), confidence)
    if not end:
        return None
    logs = [math.log(ratio) for ratio in ratios]
    means = sorted((a + b) / 2 for a, b in combinations_with_replacement(logs, 2))
    return Interval(math.exp(means[end - 1]), math.exp(median(means)), math.exp(means[-end]))


def verdict(found: Interval | None) -> Verdict:
    if found is None:
        return Verdict.OPEN
    if found.low > 1:
        return Verdict.ABOVE
    if found.high < 1:
        return Verdict.BELOW
    return Verdict.EQUAL if found.high / found.low < NARROW else Verdict.OPEN
