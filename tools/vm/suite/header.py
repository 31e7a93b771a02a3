# SPDX-License-Identifier: GPL-2.0
"""The `# key: value` lines at the beginning of a test in tools/vm, see Documentation/testing.rst."""

from __future__ import annotations

import re
from collections.abc import Mapping

from suite.settings import DEBUG, Settings

KEYS = ("limit", "vms", "mem", "cpus", "server", "klog-allow", "kernels", "debug", "long", "counted", "needs", "takes")
LINE = re.compile(rf"# ({'|'.join(KEYS)}):\s*(.*?)\s*$")


class Header:
    """The keys of one test."""

    def __init__(self, text: str):
        self._values: dict[str, str] = {}
        for line in text.splitlines():
            if not line.startswith("#"):
                break
            if match := LINE.match(line):
                self._values[match[1]] = match[2]

    def number(self, key: str, default: int) -> int:
        """Returns the number that the value begins with; a remark may follow it."""
        match = re.match(r"\d+", self._values.get(key, ""))
        return int(match[0]) if match else default

    def words(self, key: str) -> list[str]:
        return self._values.get(key, "").split()

    @property
    def server(self) -> str:
        """Returns ours, stock or both."""
        return (self.words("server") or ["ours"])[0]

    @property
    def klog_allow(self) -> str:
        """Returns the kernel messages that the test provokes, as a regular expression."""
        return self._values.get("klog-allow", "")

    @property
    def needs(self) -> frozenset[str]:
        """Returns the builds that the test needs beside those that all tests need."""
        return frozenset(self.words("needs"))

    @property
    def counted(self) -> bool:
        """Returns true if the test reads what the server's kernel executes, see counts/blocks.c."""
        return "counted" in self._values

    @property
    def is_long(self) -> bool:
        """Returns true if the test is for `make test-long` alone, and not only with other variables there."""
        return "yes" in self.words("long")

    def runs_on(self, kernel: str, settings: Settings) -> bool:
        """Returns true if the test is one of that kernel's."""
        if settings.is_long and not self.is_long:
            # The other kernels have their own variables.
            return "long" in self._values and kernel == settings.home
        if kernel == DEBUG:
            return "debug" in self._values
        wanted = self.words("kernels")
        if kernel == settings.home and "only" not in wanted:
            return "none" not in wanted
        return kernel in wanted or "all" in wanted

    def taken(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Returns those of the caller's variables that the test takes."""
        return {name: environ[name] for name in self.words("takes") if environ.get(name)}

    def variables(self, kernel: str, settings: Settings) -> dict[str, str]:
        """Returns what makes the test do less on a kernel that is not the home kernel, or more in `make test-long`: COUNT=100.

        Variables of the caller replace these.
        """
        if kernel == DEBUG:
            words = self.words("debug")
        elif kernel != settings.home:
            words = self.words("kernels")
        else:
            words = self.words("long") if settings.is_long else []
        pairs = (word.partition("=") for word in words if "=" in word)
        return {name: value for name, _, value in pairs} | dict(settings.variables)
