# SPDX-License-Identifier: GPL-2.0
"""What a run prints and writes."""

import io
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

from suite.report import Report
from suite.result import Outcome, Result


class ReportTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.stream = io.StringIO()

    def file(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def test_lines_and_counts(self) -> None:
        report = Report(self.stream)
        report.add(Result("a.b", Outcome.PASSED, 1.25, log=self.file("log", "hidden")))
        report.add(Result("a.c", Outcome.SKIPPED))
        report.add(Result("a.d", Outcome.FAILED, 61, "time limit"))
        self.assertEqual(
            self.stream.getvalue().splitlines(),
            [
                f"ok    a.b{' ' * 37}    1.2 s",
                f"skip  a.c{' ' * 37}    0.0 s",
                f"FAIL  a.d{' ' * 37}   61.0 s  time limit",
            ],
        )
        self.assertEqual(report.summary(), "1 passed, 1 failed")
        self.assertEqual(report.has_failed(frozenset({"a.b", "a.d", "a.e"})), ["a.d"])

    def test_flaky_tests_have_passed_and_are_named(self) -> None:
        report = Report(self.stream)
        report.add(Result("a.b", Outcome.FLAKY, 1, "a VM died"))
        report.add(Result("a.c", Outcome.PASSED, 1))
        self.assertEqual(self.stream.getvalue().splitlines()[0], f"FLAKY a.b{' ' * 37}    1.0 s  a VM died")
        self.assertEqual(report.summary().splitlines(), ["FLAKY a.b: a VM died", "2 passed, 0 failed"])
        self.assertEqual(report.has_failed(frozenset({"a.b"})), [])

    def test_failure_shows_the_ends_of_its_files(self) -> None:
        log = self.file("log", "".join(f"line {number}\n" for number in range(100)))
        console = self.file("vm1/console.log", "Kernel panic\n")
        Report(self.stream).add(Result("a.b", Outcome.FAILED, why="status 1", log=log, consoles=(console,)))
        lines = self.stream.getvalue().splitlines()
        self.assertEqual((lines[1], lines[25]), ("      line 75", "      line 99"))
        self.assertEqual(lines[26:], ["      -- vm1/console.log", "      Kernel panic"])

    def test_benchmark_shows_its_table(self) -> None:
        Report(self.stream, 1000).add(Result("bench.a", Outcome.PASSED, log=self.file("log", "table\n")))
        self.assertTrue(self.stream.getvalue().endswith("\n      table\n"))

    def test_missing_log_is_named(self) -> None:
        Report(self.stream).add(Result("a.b", Outcome.FAILED, log=self.folder / "none"))
        self.assertIn("No such file", self.stream.getvalue())

    def test_junit(self) -> None:
        report = Report(self.stream)
        report.add(Result("a.b.c", Outcome.PASSED, 1.25))
        report.add(Result("a.c", Outcome.SKIPPED))
        log = self.file("log", "wanted <1> & got\x1b[0m 2\n")
        report.add(Result("wire.fuzz@debug", Outcome.FAILED, 61, "status 1", log))
        report.add(Result("a.d", Outcome.FLAKY, 1, "a VM died"))
        report.write_junit(self.folder / "junit.xml")
        suite = ElementTree.parse(self.folder / "junit.xml").getroot()
        self.assertEqual(
            suite.attrib,
            {"name": "svcrdma", "tests": "4", "failures": "1", "errors": "0", "skipped": "1", "flakes": "1", "time": "63.2"},
        )
        cases = [(case.get("classname"), case.get("name"), case.get("time")) for case in suite]
        self.assertEqual(cases, [("a", "b.c", "1.2"), ("a", "c", "0.0"), ("wire", "fuzz@debug", "61.0"), ("a", "d", "1.0")])
        self.assertIsNotNone(suite[1].find("skipped"))
        failure = suite[2].find("failure")
        assert failure is not None
        self.assertEqual(failure.get("message"), "status 1")
        self.assertEqual(failure.text, "wanted <1> & got?[0m 2")
        flaky = suite[3].find("flakyFailure")
        assert flaky is not None
        self.assertEqual((flaky.get("message"), suite[3].find("failure")), ("a VM died", None))
