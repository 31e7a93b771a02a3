# SPDX-License-Identifier: GPL-2.0
"""The number of VMs and commands that run at a time."""

from __future__ import annotations

import os
import threading
from pathlib import Path

# Memory that is available for each VM at least: the largest have 4 GiB and use less.
MIB_PER_VM = 3072


class Slots:
    """A fixed number of slots, which tests take in the order in which they ask."""

    def __init__(self, count: int):
        self.count = count
        self._free = count
        self._changed = threading.Condition()

    def take(self, wanted: int) -> int:
        """Waits for `wanted` slots, or for all if there are fewer; returns how many it took."""
        taken = min(wanted, self.count)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= taken)
            self._free -= taken
        return taken

    def give(self, taken: int) -> None:
        """Gives back what take() returned."""
        with self._changed:
            self._free += taken
            self._changed.notify_all()


def slots_of(cpus: int, available_mib: int) -> int:
    """Returns the number of slots of a machine.

    A test waits for timeouts about as long as it computes, so two tests keep a CPU busy. One more
    slot fills the gap while a test with two VMs waits for its second slot. Two slots are the
    least, as a server and a client run at the same time.
    """
    return max(2, min(2 * cpus + 1, available_mib // MIB_PER_VM))


def slots_here() -> int:
    """Returns the number of slots of this machine."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    kib = {name: int(value.split()[0]) for name, value in (line.split(":") for line in lines)}
    return slots_of(os.cpu_count() or 2, kib["MemAvailable"] >> 10)
