# SPDX-License-Identifier: GPL-2.0
"""Order, slots and dependencies of a run."""

import io
import threading
import time
import unittest

import qemu

from suite.report import Report
from suite.result import Outcome, Result
from suite.run import Run
from suite.slots import Slots
from suite.test import Machine, Test

PAIR = (Machine("7.3", qemu.Size()),) * 2


class Recorder:
    """Stands for the executor: tests that are in `failing` fail, all others pass."""

    def __init__(self, failing: frozenset[str] = frozenset()):
        self.order: list[str] = []
        self.most = 0
        self._failing = failing
        self._running = 0
        self._lock = threading.Lock()

    def run(self, test: Test) -> Result:
        with self._lock:
            self.order.append(test.name)
            self._running += test.slots
            self.most = max(self.most, self._running)
        with self._lock:
            self._running -= test.slots
        return Result(test.name, Outcome.FAILED if test.name in self._failing else Outcome.PASSED)


class RunTest(unittest.TestCase):
    def setUp(self) -> None:
        self.report = Report(io.StringIO())

    def test_longest_first(self) -> None:
        recorder = Recorder()
        tests = [Test("a.short", 1, ()), Test("a.long", 9, ()), Test("a.middle", 5, ())]
        Run(recorder.run, Slots(1), self.report).all(tests)
        self.assertEqual(recorder.order, ["a.long", "a.middle", "a.short"])

    def test_no_more_than_the_slots(self) -> None:
        recorder = Recorder()
        tests = [Test(f"a.{number}", number, (), PAIR if number % 3 == 0 else ()) for number in range(60)]
        Run(recorder.run, Slots(3), self.report).all(tests)
        self.assertLessEqual(recorder.most, 3)
        self.assertEqual(self.report.summary(), "60 passed, 0 failed")

    def test_without_its_build_a_test_fails_and_is_not_run(self) -> None:
        recorder = Recorder(frozenset({"build.7.3"}))
        run = Run(recorder.run, Slots(2), self.report)
        run.all([Test("build.7.3", 1, ()), Test("build.fsx", 1, ())])
        needs = frozenset({"build.7.3", "build.fsx"})
        run.all([Test("a.b", 1, (), PAIR, needs=needs), Test("a.c", 1, ())])
        self.assertNotIn("a.b", recorder.order)
        self.assertEqual(self.report.summary(), "2 passed, 2 failed")

    def test_no_test_begins_after_the_end(self) -> None:
        recorder = Recorder()
        run = Run(recorder.run, Slots(2), self.report)
        run.all([Test("a.b", 1, ()), Test("a.c", 1, (), PAIR)], time.monotonic() + 1000)
        run.all([Test("a.d", 1, ()), Test("a.e", 1, (), PAIR)], time.monotonic())
        self.assertEqual(sorted(recorder.order), ["a.b", "a.c"])
        self.assertEqual(self.report.summary().splitlines(), ["2 NOT RUN, as MINUTES= were over: a.d a.e", "2 passed, 0 failed"])

    def test_each_test_runs_once(self) -> None:
        recorder = Recorder(frozenset({"a.b"}))
        Run(recorder.run, Slots(2), self.report).all([Test("a.b", 1, ())])
        self.assertEqual(recorder.order, ["a.b"])

    def test_error_of_the_runner_is_not_lost(self) -> None:
        def broken(test: Test) -> Result:
            raise RuntimeError(test.name)

        slots = Slots(2)
        with self.assertRaisesRegex(RuntimeError, "a.b"):
            Run(broken, slots, self.report).all([Test("a.b", 1, ())])
        self.assertEqual(slots.take(2), 2)
