# SPDX-License-Identifier: GPL-2.0
"""The command line of QEMU, which all VMs have in common, and its process."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import IO, NamedTuple

TOP = Path(__file__).resolve().parents[2]
# An emulated CPU runs string instructions byte by byte; without erms and fsrm the kernel avoids them. The
# VMs need no fifth level of page tables.
CPU = "max,erms=off,fsrm=off,la57=off"
APPEND = "console=ttyS0 loglevel=4 panic=-1 oops=panic random.trust_cpu=on"
# The emulated TSC is steady, but on a busy host the kernel's watchdog takes it for unsteady and changes to a
# timer that is far slower to read. With randomised addresses QEMU translates each program again, which takes
# three times as long as to run it. High-resolution timers cost QEMU a fifth of its time.
APPEND_EMULATED = "mitigations=off tsc=reliable norandmaps highres=off"


class Size(NamedTuple):
    """The size of a VM."""

    mem: int = 2048  # MiB
    cpus: int = 1


def use_kvm() -> bool:
    """Returns true if VMs can use KVM. /dev/kvm may exist although the CPU lacks the extension."""
    flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").split()
    return ("vmx" in flags or "svm" in flags) and os.access("/dev/kvm", os.R_OK | os.W_OK)


def die_with_parent() -> None:
    """Runs in a child: asks the kernel to kill the VM when this program ends, however it ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class CommandLine:
    """The arguments of a QEMU process that boots a kernel; methods add devices.

    QEMU is installed with the toolchain, maybe in a build root. It sees the checkout, the cache, and the
    folders that are `visible`.
    """

    def __init__(
        self, size: Size, kernel: Path, initrd: Path, append: str, console: Path, visible: Iterable[Path], kvm: bool, threads: str
    ):
        """`append` follows what every kernel gets. `threads` is single or multi: how emulated CPUs run."""
        accel = ["-accel", "kvm", "-cpu", "host"] if kvm else ["-accel", f"tcg,thread={threads}", "-cpu", CPU]
        append = " ".join([APPEND, *([] if kvm else [APPEND_EMULATED]), *append.split()])
        self.words = [
            f"{TOP}/scripts/in-root", *(word for path in visible for word in ("-b", str(path))), "qemu-system-x86_64",
            "-machine", "q35", *accel, "-m", str(size.mem), "-smp", str(size.cpus),
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", str(kernel), "-initrd", str(initrd), "-append", append,
            # A server's VM boots more than once; its console is one file.
            "-chardev", f"file,id=console,append=on,path={console}", "-serial", "chardev:console",
            "-device", "virtio-rng-pci",
        ]  # fmt: skip

    def add(self, *words: str) -> None:
        self.words += words

    def drive(self, name: str, path: Path, flags: str) -> None:
        """Adds a disk, whose image is a file."""
        self.add("-drive", f"if=none,id={name},file={path},format=raw,{flags}", "-device", f"virtio-blk-pci,drive={name}")

    def read_only_drive(self, name: str, path: Path) -> None:
        """Adds a disk that other VMs have at the same time."""
        self.drive(name, path, "readonly=on,file.locking=off")

    def share(self, tag: str, path: Path, writable: bool = False) -> None:
        """Adds a folder that the VM can mount by its tag."""
        flags = "" if writable else ",readonly=on"
        self.add("-virtfs", f"local,path={path},mount_tag={tag},security_model=none,multidevs=remap{flags}")

    def nic(self, backend: str, options: str) -> None:
        """Adds a network interface, without merged buffers.

        rxe frees packets of a broken queue pair with the pair's lock held and interrupts off. Freeing a merged
        buffer, which comes from a page pool, lets softirqs run, and a packet for the same pair in a softirq then
        waits for that lock for ever.
        """
        self.add("-netdev", backend, "-device", f"virtio-net-pci,netdev=net,mrg_rxbuf=off,{options}")

    def start(self, output: IO[bytes] | None, interactive: bool = False, inherited: Iterable[int] = ()) -> subprocess.Popen[bytes]:
        """Starts QEMU, which ends with this program. QEMU inherits the descriptors.

        `output` is the file for what QEMU prints. An interactive QEMU keeps the terminal.
        """
        return subprocess.Popen(
            self.words,
            cwd=TOP,
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=not interactive,
            pass_fds=tuple(inherited),
            preexec_fn=die_with_parent,  # noqa: PLW1509
        )
