#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs new seeds of the simulator and rounds in VMs, alternately, and goes on where the last soak has ended.

soak.py [--rounds N] [--seeds N] [--state DIR] HOURS

A round is a batch of seeds, or a test of `make test` with a seed or a number of turns. DIR
(build/soak) has state.json, the logs of failures and, at the end, summary.json. A round that has
begun is finished; one that was interrupted is repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import qemu

# A soak ends after that many failures: with that many there is one cause.
MOST_FAILURES = 10
MESSAGES, WARM, TURNS = 20000, 1000, 10
# The tests in VMs: name, what it counts, how many of that in a round, and its variables.
VM_ROUNDS = (
    ("wire.fuzz", "fuzzed messages", MESSAGES, f"COUNT={MESSAGES} WARM={WARM} SEED={{}}"),
    ("life.device-removal", "removals", TURNS, f"TURNS={TURNS} LINKS=1"),
    ("life.upgrade", "replacements", TURNS, f"TURNS={TURNS}"),
)
TOTALS = ("simulated Calls", "seeds", *(unit for _, unit, _, _ in VM_ROUNDS))
# Lines that the simulator and `make test` print.
ANSWERED = re.compile(r"^(\d+) seeds, (\d+) Calls answered", re.MULTILINE)
FAILING_SEED = re.compile(r"^seed (\d+): .*", re.MULTILINE)
LOGS = re.compile(r"^logs in (.+)$", re.MULTILINE)

# Runs a command with variables; returns its status and all that it has printed.
Run = Callable[[list[str], dict[str, str]], tuple[int, str]]


class Soak:
    """Rounds, and the file with what all of them together have done."""

    def __init__(self, folder: Path, seeds: int, run: Run):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.seeds, self._run = folder, seeds, run
        self.state: dict[str, Any] = {"rounds": 0, "next_seed": 1, "totals": dict.fromkeys(TOTALS, 0), "flaky": 0, "failures": []}
        if (saved := folder / "state.json").exists():
            self.state = json.loads(saved.read_text(encoding="utf-8"))

    @property
    def failures(self) -> list[dict[str, str]]:
        failures: list[dict[str, str]] = self.state["failures"]
        return failures

    def round(self) -> None:
        """Runs a batch of seeds after an even number of rounds, and else the next test in VMs. Saves the state."""
        turn, is_vms = divmod(self.state["rounds"], 2)
        if is_vms:
            self._vms(turn, *VM_ROUNDS[turn % len(VM_ROUNDS)])
        else:
            self._simulate()
        self.state["rounds"] += 1
        self.save("state.json", self.state)

    def _simulate(self) -> None:
        first = self.state["next_seed"]
        status, output = self._run(["scripts/cargo", "sim", "run", str(first), str(self.seeds)], {})
        done, failing = ANSWERED.search(output), FAILING_SEED.search(output)
        if status == 0 and done:
            self._count("seeds", int(done[1]))
            self._count("simulated Calls", int(done[2]))
            self.state["next_seed"] = first + self.seeds
            return
        if not failing:
            sys.exit(f"{output}\nsvcrdma: the simulator cannot run")
        seed = int(failing[1])
        self._count("seeds", seed - first + 1)
        self.state["next_seed"] = seed + 1
        (self.folder / f"seed-{seed}").write_text(output, encoding="utf-8")
        self._fail(failing[0], f"make sim SEED={seed}", f"seed-{seed}")

    def _vms(self, turn: int, test: str, unit: str, count: int, variables: str) -> None:
        # Seed 1 is that of the messages before those that count.
        variables = variables.format(turn + 2)
        status, output = self._run(["scripts/test"], {"TESTS": test, "WITH": variables})
        self.state["flaky"] += output.count(f"\nFLAKY {test}:")
        if status == 0 and re.search(rf"^(ok|FLAKY) +{test} ", output, re.MULTILINE):
            self._count(unit, count)
            return
        kept = f"{test}-{turn}"
        logs = LOGS.search(output)
        if logs and (of_test := Path(logs[1]) / test).exists():
            shutil.copytree(of_test, self.folder / f"{kept}.logs", ignore=shutil.ignore_patterns("*.ko"), dirs_exist_ok=True)
        (self.folder / kept).write_text(output, encoding="utf-8")
        self._fail(f"{test} has failed", f'make test TESTS={test} WITH="{variables}"', kept)

    def _count(self, unit: str, number: int) -> None:
        self.state["totals"][unit] += number

    def _fail(self, what: str, replay: str, log: str) -> None:
        failure = {"what": what, "replay": replay, "log": str(self.folder / log)}
        self.failures.append(failure)
        print(told(failure), flush=True)

    def save(self, name: str, content: object) -> None:
        """Replaces a file, so that an interrupted soak leaves the old or the new one."""
        new = self.folder / f"{name}.new"
        new.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        new.replace(self.folder / name)

    def progress(self) -> str:
        counts = ", ".join(f"{number:,} {unit}" for unit, number in self.state["totals"].items())
        return f"{counts}, {len(self.failures)} failures"

    def finish(self) -> int:
        """Prints and saves the summary; returns the exit status."""
        summary = {key: self.state[key] for key in ("totals", "rounds", "flaky", "failures")}
        self.save("summary.json", summary | {"outcome": "finding" if self.failures else "good"})
        flaky = f", {self.state['flaky']} flaky" if self.state["flaky"] else ""
        print("\n".join([*map(told, self.failures), f"{self.state['rounds']} rounds{flaky}: {self.progress()}"]), flush=True)
        return 1 if self.failures else 0


def told(failure: dict[str, str]) -> str:
    return f"FAIL  {failure['what']}\n      repeat with: {failure['replay']}\n      log: {failure['log']}"


def run(command: list[str], variables: dict[str, str]) -> tuple[int, str]:
    """Runs a command of the checkout, which ends with this program."""
    done = subprocess.run(
        command,
        cwd=qemu.TOP,
        env=os.environ | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        preexec_fn=qemu.die_with_parent,
    )
    return done.returncode, done.stdout


def left(seconds: float) -> str:
    minutes = max(0, int(seconds / 60))
    return f"{minutes // 60}:{minutes % 60:02} h left"


def main(argv: list[str]) -> int:
    """Returns 0 if no round has failed, in this soak or in those that it goes on with."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=sys.maxsize, help="end after that many rounds")
    parser.add_argument("--seeds", type=int, default=1000, help="in a batch")
    parser.add_argument("--state", type=Path, default=qemu.TOP / "build/soak")
    parser.add_argument("hours", type=float)
    args = parser.parse_args(argv)
    end = time.monotonic() + args.hours * 3600
    soak = Soak(args.state, args.seeds, run)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for _ in range(args.rounds):
            if time.monotonic() >= end or len(soak.failures) >= MOST_FAILURES:
                break
            soak.round()
            print(f"{soak.progress()}, {left(end - time.monotonic())}", flush=True)
    except KeyboardInterrupt:
        soak.finish()
        return 130
    return soak.finish()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
