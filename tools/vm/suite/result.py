# SPDX-License-Identifier: GPL-2.0
"""The result of one test."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path


class Outcome(enum.Enum):
    """What a test ended with, as the report prints it.

    A flaky test has passed, but not at the first attempt. A late one was not run, for lack of time.
    """

    PASSED = "ok"
    FLAKY = "FLAKY"
    SKIPPED = "skip"
    LATE = "late"
    FAILED = "FAIL"


@dataclass(frozen=True)
class Result:
    """Outcome and duration of one test, and the files that explain a failure.

    `why` has the reason of a failure, or why a flaky test was repeated.
    """

    name: str
    outcome: Outcome
    seconds: float = 0
    why: str = ""
    log: Path | None = None
    consoles: tuple[Path, ...] = ()

    def explanation(self, lines: int, console_lines: int = 15) -> str:
        """Returns the ends of the log and of the consoles."""
        parts = [tail(self.log, lines)] if self.log else []
        for console in self.consoles:
            parts.append(f"-- {console.parent.name}/{console.name}\n{tail(console, console_lines)}")
        return "\n".join(part for part in parts if part)


def tail(path: Path, lines: int) -> str:
    """Returns the last lines of a file, or the reason why it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return str(error)
    return "\n".join(text.splitlines()[-lines:])
