# SPDX-License-Identifier: GPL-2.0
"""Choices of the caller, from the environment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import vm

DEBUG = "debug"


@dataclass(frozen=True)
class Settings:
    """Kernels, server, patience and selection of one run."""

    # The first is the home kernel, which runs every test; the others run those that ask for them.
    kernels: tuple[str, ...]
    server: str = vm.SERVERS[0]
    slow: float = 1
    patterns: tuple[str, ...] = ()
    # `make test-long`
    is_long: bool = False

    @classmethod
    def read(cls, environ: Mapping[str, str], families: Callable[[], list[str]]) -> Settings:
        """Reads KERNEL, SERVER, SLOW and TESTS; calls `families` only where KERNEL is not set."""
        if environ.get("KDIR"):
            sys.exit("svcrdma: tests run on packaged kernels: choose one with KERNEL=, not KDIR=")
        server = environ.get("SERVER") or vm.SERVERS[0]
        if server not in vm.SERVERS:
            sys.exit(f"svcrdma: SERVER={server}: one of {', '.join(vm.SERVERS)}")
        patterns = tuple(environ.get("TESTS", "").split())
        slow = positive(environ.get("SLOW") or "1")
        if kernel := environ.get("KERNEL"):
            return cls((kernel,), server, slow, patterns)
        # The debug kernel examines the module, so it has no tests of the stock server.
        debug = [DEBUG] if server == "ours" else []
        return cls((*families(), *debug), server, slow, patterns)

    @property
    def home(self) -> str:
        """The kernel that every test runs on."""
        return self.kernels[0]

    @property
    def is_debug_only(self) -> bool:
        """Returns true for `make test-debug`, which runs all tests for the debug kernel."""
        return self.kernels == (DEBUG,)


def positive(text: str) -> float:
    """Returns the value of SLOW=."""
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < 1000:
        sys.exit(f"svcrdma: SLOW={text}: not a factor above 0")
    return value
