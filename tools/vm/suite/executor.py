# SPDX-License-Identifier: GPL-2.0
"""Runs one test, on this host or in VMs, and judges it."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import vm

from suite.processes import Processes
from suite.result import Outcome, Result
from suite.settings import Settings
from suite.test import Test

# The exit status of a test that cannot run here.
SKIPPED = 77
# That of a test whose own checks have failed. With any other the consoles of its VMs are shown:
# a VM died or hung, or a kernel complained.
FAILED = 1
# Emulated VMs are that much slower than the limits assume.
EMULATED_SLOW = 3


@dataclass(frozen=True)
class Executor:
    """What every test of a run has in common."""

    settings: Settings
    images: dict[str, vm.Images]
    processes: Processes
    logs: Path
    # Tests that may end as skipped.
    skips: frozenset[str] = frozenset()

    @property
    def slow(self) -> float:
        return self.settings.slow * (1 if vm.use_kvm() else EMULATED_SLOW)

    def run(self, test: Test) -> Result:
        """Runs the test; its log files are in a folder of its name."""
        out = self.logs / test.name
        out.mkdir()
        start = time.monotonic()
        try:
            status, why, log = self._guest(test, out) if test.machines else self._host(test, out)
        except OSError as error:
            status, why, log = None, str(error), out / "log"
        return self._judge(test, status, why, time.monotonic() - start, log)

    def _host(self, test: Test, out: Path) -> tuple[int | None, str, Path]:
        log = out / "log"
        with open(log, "wb") as stream:
            try:
                done = self.processes.run(test.command, test.seconds(self.slow), stdout=stream, stderr=stream)
            except subprocess.TimeoutExpired:
                return None, "time limit", log
        return done.returncode, "", log

    def _guest(self, test: Test, out: Path) -> tuple[int | None, str, Path]:
        server, *clients = test.machines
        job = vm.Job(
            list(test.command),
            out,
            len(test.machines),
            server.size,
            test.seconds(self.slow),
            self.settings.server,
            test.env | {"VM_SLOW": f"{self.slow:g}"},
            counted=test.counted,
            client=next(((self.images[client.kernel], client.size) for client in clients), None),
        )
        result = vm.run(self.images[server.kernel], job)
        return result.status, result.why, out / f"vm{job.vms}/out/log"

    def _judge(self, test: Test, status: int | None, why: str, seconds: float, log: Path) -> Result:
        if not why and status == 0:
            return Result(test.name, Outcome.PASSED, seconds, log=log)
        if not why and status == SKIPPED and test.machines:
            if test.name in self.skips:
                return Result(test.name, Outcome.SKIPPED, seconds, log=log)
            return Result(test.name, Outcome.FAILED, seconds, "skipped, and tools/vm/skips does not list it", log)
        is_own = not why and status == FAILED
        consoles = () if is_own or not test.machines else tuple(sorted(log.parents[2].glob("vm*/console.log")))
        return Result(test.name, Outcome.FAILED, seconds, why or f"status {status}", log, consoles)
