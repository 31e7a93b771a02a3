# SPDX-License-Identifier: GPL-2.0
"""One run of the selected tests, as many at a time as there are slots."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from suite.report import Report
from suite.result import Outcome, Result
from suite.slots import Slots
from suite.test import Test


class Run:
    """Runs tests once each and reports their results."""

    def __init__(self, execute: Callable[[Test], Result], slots: Slots, report: Report):
        self._execute = execute
        self._slots = slots
        self._report = report

    def all(self, tests: list[Test], end: float | None = None) -> None:
        """Runs the tests, the longest first, so that none of them is left over at the end.

        No test overtakes another, or one with two VMs would wait for most of the run. At the time `end` of the monotonic clock no
        test begins any more. Those of equal length have another order in each such run, so that none is always late.
        """
        if end is not None:
            tests = random.sample(tests, len(tests))
        with ThreadPoolExecutor(self._slots.count) as pool:
            running = []
            for test in sorted(tests, key=lambda test: -test.limit):
                taken = self._slots.take(test.slots)
                running.append(pool.submit(self._one, test, taken, end))
        for each in running:
            each.result()

    def _one(self, test: Test, taken: int, end: float | None) -> None:
        try:
            if missing := self._report.has_failed(test.needs):
                result = Result(test.name, Outcome.FAILED, why=f"without {' '.join(missing)}")
            elif end is not None and time.monotonic() >= end:
                result = Result(test.name, Outcome.LATE, why="not run: MINUTES= are over")
            else:
                result = self._execute(test)
            self._report.add(result)
        finally:
            self._slots.give(taken)
