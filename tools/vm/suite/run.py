# SPDX-License-Identifier: GPL-2.0
"""One run of the selected tests, as many at a time as there are slots."""

from __future__ import annotations

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

    def all(self, tests: list[Test]) -> None:
        """Runs the tests, the longest first, so that none of them is left over at the end.

        No test overtakes another, or one with two VMs would wait for most of the run.
        """
        with ThreadPoolExecutor(self._slots.count) as pool:
            running = []
            for test in sorted(tests, key=lambda test: -test.limit):
                taken = self._slots.take(test.slots)
                running.append(pool.submit(self._one, test, taken))
        for each in running:
            each.result()

    def _one(self, test: Test, taken: int) -> None:
        try:
            if missing := self._report.has_failed(test.needs):
                result = Result(test.name, Outcome.FAILED, why=f"without {' '.join(missing)}")
            else:
                result = self._execute(test)
            self._report.add(result)
        finally:
            self._slots.give(taken)
