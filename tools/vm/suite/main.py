# SPDX-License-Identifier: GPL-2.0
"""The command line of scripts/test."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import qemu
import vm

from suite import catalogue
from suite.executor import Executor
from suite.preparation import add_snapshots, keep_crates, prepare
from suite.processes import Processes
from suite.report import Report
from suite.result import Outcome, Result
from suite.run import Run
from suite.settings import Settings
from suite.slots import Slots, slots_here
from suite.test import Machine, Test, kernel_of

LOGS = qemu.TOP / "build/logs"
KEEP_RUNS = 10
# More than the tables of a benchmark.
BENCH_LINES = 1000
# The exit status after SIGINT and SIGTERM.
INTERRUPTED = 130


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/test",
        description='Runs the tests. The last line is "N passed, N failed"; flaky tests have passed, and have a line before it.',
        epilog="KERNEL=, SERVER=, SLOW= and TESTS= choose kernel, server, patience and tests, see make help.",
    )
    parser.add_argument("--list", action="store_true", help="print the names of the tests and run none")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the results to FILE as JUnit XML")
    parser.add_argument("--bench", action="store_true", help="run tools/vm/bench and print the tables")
    parser.add_argument("--long", action="store_true", help="run the tests that are too long for each run")
    parser.add_argument("--packages", action="store_true", help="run the tests of the Debian packages, also the long ones")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Returns 0 if no test has failed."""
    args = arguments(argv)
    settings = replace(Settings.read(os.environ, vm.families), is_long=args.long)
    builds = catalogue.builds(settings)
    # Both folders are read each time, so that no run passes while the other kind is broken.
    benches = catalogue.guest_tests(settings, catalogue.BENCH, catalogue.BENCH_LIMIT)
    guests = catalogue.guest_tests(settings, catalogue.TESTS, catalogue.TEST_LIMIT)
    tests = builds + catalogue.host_tests(settings) + guests
    if args.bench:
        tests = benches
    elif args.long:
        tests = guests
    elif args.packages:
        tests = catalogue.slow_package_tests(settings)
    tests = catalogue.selected(tests, settings)
    if args.list:
        print("\n".join(test.name for test in tests))
        return 0
    if args.junit:
        args.junit.touch()  # fails now, not after an hour
    report = Report(sys.stdout, BENCH_LINES if args.bench else 0)
    builds, others = catalogue.with_needed(tests, builds)
    run_all(settings, builds, others, Slots(slot_count(args)), report)
    if args.junit:
        report.write_junit(args.junit)
    print(report.summary(), flush=True)
    return 1 if report.count(Outcome.FAILED) else 0


def slot_count(args: argparse.Namespace) -> int:
    """Returns the number of slots for the tests that the arguments select."""
    if args.bench:
        return 1  # figures need a machine with one benchmark at a time
    if args.packages:
        return os.cpu_count() or 2  # the server of such a test computes nearly all the time
    return slots_here()


def run_all(settings: Settings, builds: list[Test], others: list[Test], slots: Slots, report: Report) -> None:
    """Sets up, then runs the builds, then the other tests."""
    start, logs, processes = time.monotonic(), make_logs(), Processes()
    end_when_interrupted(processes)
    machines = {machine for test in others for machine in test.machines}
    kernels = wanted_kernels(settings, builds, machines)
    try:
        images = prepare(kernels, others, processes)
    except OSError as error:
        for test in builds + others:
            report.add(Result(test.name, Outcome.FAILED, why=str(error)))
        return
    for kernel in kernels:
        if kernel not in images:
            report.add(Result(kernel_of(kernel), Outcome.FAILED, why="cannot be made, see above"))
    versions = " and ".join(each.version for each in images.values()) or "none"
    print(f"kernel {versions}, set up in {time.monotonic() - start:.0f} s; logs in {logs}", flush=True)
    run = Run(Executor(settings, images, processes, logs, skips()).run, slots, report)
    run.all(builds)
    for each in images.values():
        each.find_module()
    if not qemu.use_kvm():
        add_snapshots(images, machines, processes, slots)
    run.all(others, None if settings.minutes is None else start + 60 * settings.minutes)
    keep_crates(others, processes)
    print(f"logs in {logs}")


def wanted_kernels(settings: Settings, builds: list[Test], machines: set[Machine]) -> list[str]:
    """Returns the kernels that VMs boot, or that something is built for."""
    wanted = {machine.kernel for machine in machines}
    needs = {need for build in builds for need in build.needs}
    return [kernel for kernel in settings.kernels if kernel in wanted or kernel_of(kernel) in needs]


def make_logs() -> Path:
    """Makes the folder of this run's logs, and removes all but the last ones."""
    logs = LOGS / time.strftime("%Y%m%d-%H%M%S")
    logs.mkdir(parents=True)
    for old in sorted(LOGS.glob("[0-9]*"))[:-KEEP_RUNS]:
        shutil.rmtree(old, ignore_errors=True)
    return logs


def skips() -> frozenset[str]:
    """Returns the tests that tools/vm/skips lists."""
    lines = (qemu.TOP / "tools/vm/skips").read_text(encoding="utf-8").splitlines()
    return frozenset(line.split("#")[0].strip() for line in lines) - {""}


def end_when_interrupted(processes: Processes) -> None:
    """Ends at SIGINT and SIGTERM without waiting. VMs end with us, see qemu.die_with_parent."""

    def end(*_: object) -> None:
        processes.end_all()
        os._exit(INTERRUPTED)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
