# SPDX-License-Identifier: GPL-2.0
"""Choices of the caller, from the environment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

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
    # After these no test begins any more.
    minutes: float | None = None
    # Of the server's VM, if not 0.
    cpus: int = 0
    # For the environment of each test in a VM; they replace those of its header.
    variables: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, environ: Mapping[str, str], families: Callable[[], list[str]]) -> Settings:
        """Reads KERNEL, SERVER, SLOW, TESTS, MINUTES, CPUS and WITH; calls `families` only where KERNEL is not set."""
        if environ.get("KDIR"):
            sys.exit("svcrdma: tests run on packaged kernels: choose one with KERNEL=, not KDIR=")
        server = environ.get("SERVER") or vm.SERVERS[0]
        if server not in vm.SERVERS:
            sys.exit(f"svcrdma: SERVER={server}: one of {', '.join(vm.SERVERS)}")
        patterns = tuple(environ.get("TESTS", "").split())
        slow = positive("SLOW", environ.get("SLOW") or "1")
        minutes = positive("MINUTES", environ["MINUTES"]) if environ.get("MINUTES") else None
        if not (cpus := environ.get("CPUS") or "0").isdecimal():
            sys.exit(f"svcrdma: CPUS={cpus}: not a number")
        variables = assignments(environ.get("WITH") or "")
        if kernel := environ.get("KERNEL"):
            return cls((kernel,), server, slow, patterns, minutes=minutes, cpus=int(cpus), variables=variables)
        # The debug kernel examines the module, so it has no tests of the stock server.
        debug = [DEBUG] if server == "ours" else []
        return cls((*families(), *debug), server, slow, patterns, minutes=minutes, cpus=int(cpus), variables=variables)

    @property
    def home(self) -> str:
        """The kernel that every test runs on."""
        return self.kernels[0]

    @property
    def is_debug_only(self) -> bool:
        """Returns true for `make test-debug`, which runs all tests for the debug kernel."""
        return self.kernels == (DEBUG,)


def positive(name: str, text: str) -> float:
    """Returns the value of the variable `name`."""
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < 1000:
        sys.exit(f"svcrdma: {name}={text}: not a number above 0")
    return value


def assignments(text: str) -> dict[str, str]:
    """Returns the variables of WITH=."""
    pairs = [word.partition("=") for word in text.split()]
    if not all(name.isidentifier() and equals for name, equals, _ in pairs):
        sys.exit(f"svcrdma: WITH={text}: not NAME=VALUE ...")
    return {name: value for name, _, value in pairs}
