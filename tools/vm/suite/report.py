# SPDX-License-Identifier: GPL-2.0
"""Lines and counts of a run, and the JUnit file."""

from __future__ import annotations

import re
import textwrap
import threading
from pathlib import Path
from typing import TextIO
from xml.etree import ElementTree

from suite.result import Outcome, Result

LOG_LINES = 25
# Characters that XML 1.0 does not allow; consoles have escape sequences.
NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Report:
    """The results so far, each of which is printed as it comes."""

    def __init__(self, stream: TextIO, passed_lines: int = 0):
        """`passed_lines` of the log are printed for a test that passes: benchmarks print tables."""
        self._stream = stream
        self._passed_lines = passed_lines
        self._results: list[Result] = []
        self._lock = threading.Lock()

    def add(self, result: Result) -> None:
        """Prints a result and counts it."""
        line = f"{result.outcome.value:<5} {result.name:<40} {result.seconds:6.1f} s  {result.why}"
        lines = LOG_LINES if result.outcome is Outcome.FAILED else self._passed_lines
        explanation = result.explanation(lines) if lines else ""
        with self._lock:
            self._results.append(result)
            print(line.rstrip(), file=self._stream)
            if explanation:
                print(textwrap.indent(explanation, " " * 6), file=self._stream)
            self._stream.flush()

    def count(self, outcome: Outcome) -> int:
        return sum(result.outcome is outcome for result in self._results)

    @property
    def passed(self) -> int:
        return self.count(Outcome.PASSED) + self.count(Outcome.FLAKY)

    def has_failed(self, names: frozenset[str]) -> list[str]:
        """Returns those of the names whose tests have failed."""
        return sorted(names & {result.name for result in self._results if result.outcome is Outcome.FAILED})

    def summary(self) -> str:
        """Returns the last lines of a run: a line for each flaky test, one with the tests that were not run, and the counts."""
        lines = [f"FLAKY {result.name}: {result.why}" for result in self._results if result.outcome is Outcome.FLAKY]
        if late := sorted(result.name for result in self._results if result.outcome is Outcome.LATE):
            lines.append(f"{len(late)} NOT RUN, as MINUTES= were over: {' '.join(late)}")
        return "\n".join([*lines, f"{self.passed} passed, {self.count(Outcome.FAILED)} failed"])

    def write_junit(self, path: Path) -> None:
        """Writes the results as JUnit XML, which CI systems read."""
        suite = ElementTree.Element(
            "testsuite",
            name="svcrdma",
            tests=str(len(self._results)),
            failures=str(self.count(Outcome.FAILED)),
            errors="0",
            skipped=str(self.count(Outcome.SKIPPED) + self.count(Outcome.LATE)),
            flakes=str(self.count(Outcome.FLAKY)),
            time=f"{sum(result.seconds for result in self._results):.1f}",
        )
        suite.extend(junit_case(result) for result in self._results)
        ElementTree.indent(suite)
        ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def junit_case(result: Result) -> ElementTree.Element:
    """Returns the `testcase` of a result; the area of the test is its class."""
    area, _, behaviour = result.name.partition(".")
    case = ElementTree.Element("testcase", classname=area, name=behaviour, time=f"{result.seconds:.1f}")
    if result.outcome in (Outcome.SKIPPED, Outcome.LATE):
        ElementTree.SubElement(case, "skipped", message=result.why)
    if result.outcome is Outcome.FLAKY:
        # As Maven Surefire reports a test that has passed when it was run again.
        ElementTree.SubElement(case, "flakyFailure", message=NOT_IN_XML.sub("?", result.why), type="repeated")
    if result.outcome is Outcome.FAILED:
        failure = ElementTree.SubElement(case, "failure", message=NOT_IN_XML.sub("?", result.why))
        failure.text = NOT_IN_XML.sub("?", result.explanation(LOG_LINES))
    return case
