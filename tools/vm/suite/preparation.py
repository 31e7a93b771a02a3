# SPDX-License-Identifier: GPL-2.0
"""What the cache has to hold before the first test: build root, kernels, user space, snapshots."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import vm

from suite.processes import Processes
from suite.slots import Slots
from suite.test import Machine, Test


def prepare(kernels: list[str], tests: list[Test], processes: Processes) -> dict[str, vm.Images]:
    """Makes what VMs boot from, all at the same time, and returns it for each kernel that could be made.

    # Errors

    OSError if what all VMs need cannot be made; the script has printed why.
    """
    commands = [["scripts/need-qemu"], ["tools/vm/guest-root"]]
    if compile_crates(tests):
        commands.append(["scripts/crates"])
    if any(test.name.startswith("package.") for test in tests):
        commands.append(["tools/vm/server-root"])
    commands += [["scripts/kernel", kernel] for kernel in kernels]
    with ThreadPoolExecutor(len(commands)) as pool:
        done = list(pool.map(lambda command: processes.run(command, stdout=subprocess.DEVNULL), commands))
    common = len(commands) - len(kernels)
    if any(each.returncode for each in done[:common]):
        raise OSError("the set-up failed")
    made = [kernel for kernel, each in zip(kernels, done[common:], strict=True) if each.returncode == 0]
    return {kernel: vm.Images.prepare(kernel) for kernel in made}


def compile_crates(tests: list[Test]) -> bool:
    """Returns true if the tests compile the dependencies of all tools. Others compile few of them."""
    return any(test.name == "host.fuzz" for test in tests)


def keep_crates(tests: list[Test], processes: Processes) -> None:
    """Puts the compiled dependencies into the cache, for the next checkout."""
    if compile_crates(tests):
        processes.run(["scripts/crates", "--keep"], stdout=subprocess.DEVNULL)


def add_snapshots(images: dict[str, vm.Images], machines: Iterable[Machine], processes: Processes, slots: Slots) -> None:
    """Gives the images a snapshot of each machine; one that cannot be made is left out."""

    def make(machine: Machine) -> Path | None:
        command = ["tools/vm/guest-snapshot", machine.kernel, *map(str, machine.size)]
        done = processes.run(command, stdout=subprocess.PIPE)
        return Path(done.stdout.decode().strip()) if done.returncode == 0 else None

    wanted = sorted(machine for machine in set(machines) if machine.kernel in images)
    with ThreadPoolExecutor(slots.count) as pool:
        folders = list(pool.map(make, wanted))
    for machine, folder in zip(wanted, folders, strict=True):
        if folder:
            images[machine.kernel].snapshots[machine.size] = vm.Snapshot(folder)
        else:
            print(f"svcrdma: no snapshot of kernel {machine.kernel}, its VMs boot", file=sys.stderr, flush=True)
