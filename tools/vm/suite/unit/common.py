# SPDX-License-Identifier: GPL-2.0
"""Helpers of the unit tests."""

import time
from pathlib import Path


def has_ended(pid: int) -> bool:
    """Returns true if the process ends within ten seconds; a zombie has ended."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2][0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False
