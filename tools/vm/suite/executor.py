# SPDX-License-Identifier: GPL-2.0
"""Runs one test, on this host or in VMs, and judges it."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import qemu
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
# With this begins a line of a command that has repeated something and gives the reason.
FLAKY = "FLAKY: "
# Emulated VMs are that much slower than the limits assume.
EMULATED_SLOW = 3


@dataclass(frozen=True)
class Ended:
    """How a test ended: its exit status, or None and the reason why it has none."""

    status: int | None
    why: str
    log: Path
    repeats: tuple[str, ...] = ()  # why earlier attempts did not count


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
        return self.settings.slow * (1 if qemu.use_kvm() else EMULATED_SLOW)

    def run(self, test: Test) -> Result:
        """Runs the test; its log files are in a folder of its name."""
        out = self.logs / test.name
        out.mkdir()
        start = time.monotonic()
        try:
            ended = self._guest(test, out) if test.machines else self._host(test, out)
        except OSError as error:
            ended = Ended(None, str(error), out / "log")
        return self._judge(test, ended, time.monotonic() - start)

    def _host(self, test: Test, out: Path) -> Ended:
        log = out / "log"
        with open(log, "wb") as stream:
            try:
                done = self.processes.run(test.command, test.seconds(self.slow), stdout=stream, stderr=stream)
            except subprocess.TimeoutExpired:
                return Ended(None, "time limit", log)
        return Ended(done.returncode, "", log, said_by_command(log))

    def _guest(self, test: Test, out: Path) -> Ended:
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
        said = (line for number in range(1, job.vms + 1) for line in said_flaky(out / f"vm{number}/out/flaky"))
        return Ended(result.status, result.why, out / f"vm{job.vms}/out/log", (*result.repeats, *said))

    def _judge(self, test: Test, ended: Ended, seconds: float) -> Result:
        if not ended.why and ended.status == 0:
            outcome = Outcome.FLAKY if ended.repeats else Outcome.PASSED
            return Result(test.name, outcome, seconds, "; ".join(ended.repeats), ended.log)
        if not ended.why and ended.status == SKIPPED and test.machines:
            if test.name in self.skips:
                return Result(test.name, Outcome.SKIPPED, seconds, log=ended.log)
            return Result(test.name, Outcome.FAILED, seconds, "skipped, and tools/vm/skips does not list it", ended.log)
        is_own = not ended.why and ended.status == FAILED
        consoles = () if is_own or not test.machines else tuple(sorted(ended.log.parents[2].glob("vm*/console.log")))
        why = "; before that: ".join([ended.why or f"status {ended.status}", *ended.repeats])
        return Result(test.name, Outcome.FAILED, seconds, why, ended.log, consoles)


def said_by_command(log: Path) -> tuple[str, ...]:
    """Returns what a command of this host has repeated: the rest of its lines that begin with FLAKY."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return tuple(line.removeprefix(FLAKY) for line in lines if line.startswith(FLAKY))


def said_flaky(path: Path) -> tuple[str, ...]:
    """Returns what the test itself has repeated: the lines that `flaky` of verdicts.sh has written."""
    try:
        return tuple(path.read_text(encoding="utf-8", errors="replace").splitlines())
    except FileNotFoundError:
        return ()
