# SPDX-License-Identifier: GPL-2.0
"""One test: a command of this host, or a script for VMs."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field
from typing import NamedTuple

import qemu

from suite.settings import DEBUG, Settings

# The debug kernel takes about four times as long for all that it does.
DEBUG_SLOW = 4


def kernel_of(kernel: str) -> str:
    """Returns the name under which a kernel that cannot be made is reported as failed."""
    return f"kernel.{kernel}"


class Machine(NamedTuple):
    """The kernel and the size of a VM."""

    kernel: str
    size: qemu.Size


@dataclass(frozen=True)
class Test:
    """A test that can run as soon as the builds in `needs` have passed."""

    name: str
    limit: float  # seconds on an idle machine, to end what hangs
    command: tuple[str, ...]
    # The VMs, the server's before the client's; none for a command of this host.
    machines: tuple[Machine, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    needs: frozenset[str] = frozenset()
    counted: bool = False  # see vm.Job
    is_long: bool = False  # for `make test-long`

    @property
    def slots(self) -> int:
        """Returns how many slots the test takes: one for each VM."""
        return max(1, len(self.machines))

    @property
    def is_debug(self) -> bool:
        """Returns true if it is for the debug kernel, which has to be compiled first."""
        return kernel_of(DEBUG) in self.needs

    def seconds(self, slow: float) -> float:
        """Returns the time limit on a machine that is `slow` times slower."""
        return self.limit * slow * (DEBUG_SLOW if self.is_debug else 1)

    def matches(self, pattern: str, settings: Settings) -> bool:
        """Returns true if a pattern of TESTS= selects the test.

        `make test` runs a long test by name only, and one on the debug kernel also by a pattern with "@".
        """
        if not self.is_for(settings) and not (self.is_debug and "@" in pattern):
            return self.name == pattern
        return fnmatch.fnmatch(self.name, pattern) or self.name.startswith(pattern + ".")

    def is_for(self, settings: Settings) -> bool:
        """Returns true if the run has the test without a pattern that selects it."""
        return settings.is_debug_only or (not self.is_debug and (settings.is_long or not self.is_long))
