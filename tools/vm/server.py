#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Boots a plain Debian server and runs a test of the packages in it.

    server.py [--kernel 7.3] [--mem MiB] [--cpus N] [--limit S] [--out DIR] [--pool] [--client] TEST

TEST is a file of tools/vm/packages. The VM starts from a copy of the disk that server-root has made. It
sees the checkout as /src (read-only) and DIR as /job. When the VM reboots, it continues with the kernel
that /vmlinuz and /initrd.img of its disk name, as packages/agent copies them to /job: that is the work
of a boot loader, which the disk lacks. A test whose VM dies through no fault of the test is run again, on
new VMs.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import qemu
import vm
from qemu import TOP, CommandLine, Size

# The first kernel gets this unit from the command line, so that the disk has nothing of the tests.
UNIT = """\
[Unit]
After=nfs-server.service systemd-tmpfiles-setup.service
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'modprobe -a 9pnet_virtio 9p && mkdir -p /job /src && \
mount -t 9p -o trans=virtio,version=9p2000.L,cache=none job /job && \
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,ro,cache=loose src /src && \
exec /src/tools/vm/packages/agent'
"""


# How long the client's VM takes to end, and its kernel log to be read.
CLIENT_END = 120

# The attempts of a test whose VMs die.
ATTEMPTS = 3


class Died(OSError):
    """A VM died through no fault of the test."""


class Client:
    """A VM beside the server's, with the user space of other tests. Does what the server asks for, see packages/client."""

    def __init__(self, kernel: str, out: Path, limit: float):
        self.folder = out / "client"
        self.sockets = tempfile.TemporaryDirectory(prefix="svcrdma-")
        images = replace(vm.Images.prepare(kernel), module=None)
        env = {"MAC": "52:54:00:77:00:02", "IPV4": "10.0.0.2", "IPV6": "fd77::2", "SERVER": "10.0.0.1", "SERVER6": "fd77::1"}
        command = ["/src/tools/vm/packages/client"]
        job = vm.Job(command, self.folder, size=Size(1024), limit=limit, env=env, sockets=Path(self.sockets.name))
        self.result = vm.Result(None, 0, "the client's VM does not end")
        # The VM ends with its thread, and the thread with this program.
        self.thread = threading.Thread(target=self._run, args=(images, job), daemon=True)
        self.thread.start()

    def _run(self, images: vm.Images, job: vm.Job) -> None:
        self.result = vm.run(images, job)

    def end(self) -> int:
        """Ends the VM; returns its status, which is not 0 if its kernel complains.

        # Errors

        OSError if it has died, or does not end.
        """
        request = self.folder / "vm1/request"
        request.with_suffix(".new").write_text("end\n")
        request.with_suffix(".new").replace(request)
        self.thread.join(CLIENT_END)
        for why in self.result.repeats:
            print(f"FLAKY: {why}", file=sys.stderr)
        if self.result.why or self.result.status is None:
            raise OSError(self.result.why)
        return self.result.status


class Server:
    """A VM with a disk of its own, which lasts until the object is deleted."""

    def __init__(self, images: Path, out: Path, size: Size, pool: Path | None, sockets: Path | None = None):
        """`sockets` is the folder of the socket of the client's VM, if there is one."""
        self.out = out
        self.size = size
        self.pool = pool
        self.sockets = sockets
        self.kernel = images / "vmlinuz"
        self.initrd = images / "initrd"
        # The copy has the holes of the original.
        self.disk = tempfile.NamedTemporaryFile(dir=out, prefix="disk.")  # noqa: SIM115
        subprocess.run(["cp", "--sparse=always", images / "disk.img", self.disk.name], check=True)

    def command_line(self) -> CommandLine:
        unit = base64.b64encode(UNIT.encode()).decode()
        append = f"root=/dev/vda rw net.ifnames=0 systemd.set_credential_binary=systemd.extra-unit.job.service:{unit}"
        append += " systemd.wants=job.service"
        # They change files, or take dpkg's lock, at fixed times of the day.
        append += "".join(f" systemd.mask={timer}.timer" for timer in ("apt-daily", "apt-daily-upgrade", "dpkg-db-backup"))
        # Emulated CPUs that take turns are no faster than one, see vm.py for their disadvantage.
        threads = "multi" if self.size.cpus > 1 else "single"
        visible = [self.out, self.kernel.parent, *([self.sockets] if self.sockets else [])]
        line = CommandLine(self.size, self.kernel, self.initrd, append, self.out / "console.log", visible, qemu.use_kvm(), threads)
        line.drive("root", Path(self.disk.name), "cache=unsafe,discard=unmap")
        if self.pool:
            line.read_only_drive("pool", self.pool)
        line.share("job", self.out, writable=True)
        line.share("src", TOP)
        if self.sockets:
            # The client's VM listens as long as the server boots and reboots.
            network = f"stream,id=net,server=off,reconnect-ms=1000,addr.type=unix,addr.path={self.sockets}/net"
            line.nic(network, "host_mtu=9000,mac=52:54:00:77:00:01")
        else:
            line.nic("user,id=net,restrict=on,net=10.77.0.0/24", "mac=52:54:00:77:00:01")
        return line

    def boot(self, deadline: float) -> int:
        """Boots the VM and waits until QEMU ends, which it does when the VM reboots, too. Returns QEMU's status.

        # Errors

        OSError if it does not end before the deadline.
        """
        with open(self.out / "qemu.log", "ab") as log:
            process = self.command_line().start(log)
        try:
            return process.wait(deadline - time.monotonic())
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise OSError("time limit") from None

    def run(self, deadline: float) -> int:
        """Boots until the test has ended; returns its status.

        # Errors

        OSError if the VM dies, or the deadline has passed: Died if the test may pass in another VM.
        """
        status, reboot = self.out / "status", self.out / "reboot"
        while True:
            reboot.unlink(missing_ok=True)
            ended = self.boot(deadline)
            if status.exists():
                return int(status.read_text())
            if ended < 0:
                raise Died(f"QEMU died with status {ended}")
            if (self.out / "clock").exists():
                raise Died("the clock of an emulated VM was wrong")
            if vm.died_of_rxe(self.out / "console.log"):
                raise Died("rxe took the VM down, with nothing of the module in the trace")
            if not reboot.exists():
                raise OSError("the VM died, see console.log")
            self.kernel, self.initrd = self.out / "vmlinuz", self.out / "initrd"


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default=os.environ.get("KERNEL"))
    parser.add_argument("--mem", type=int, default=2048)
    parser.add_argument("--cpus", type=int, default=1)
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds; the runner of the tests has its own limit")
    parser.add_argument("--out", type=Path, help="folder of the logs, build/packages/TEST if not given")
    parser.add_argument("--pool", action="store_true", help="give the VM a disk with packages, see server-pool")
    parser.add_argument("--client", action="store_true", help="boot a second VM, which is the client")
    parser.add_argument("test")
    return parser.parse_args(argv)


def main() -> int:
    args = arguments(sys.argv[1:])
    kernel = args.kernel or vm.families()[0]
    if status := subprocess.run([TOP / "scripts/need-qemu"], check=False).returncode:
        return status
    images = made_by("server-root", kernel)
    pool = made_by("server-pool", kernel) / "pool.img" if args.pool else None
    out = (args.out or TOP / "build/packages" / args.test).resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    tail = subprocess.Popen(["tail", "-q", "-n", "+1", "-F", out / "log"], stderr=subprocess.DEVNULL)
    try:
        return run(args, images, pool, out)
    except OSError as error:
        print(f"svcrdma: {args.test}: {error}; logs in {out}", file=sys.stderr)
        return 1
    finally:
        time.sleep(1.2)  # tail looks once a second
        tail.terminate()


def run(args: argparse.Namespace, images: Path, pool: Path | None, out: Path) -> int:
    """Runs the test, and again if a VM dies through no fault of the test. Returns its status.

    # Errors

    OSError if a VM dies or does not end.
    """
    deadline = time.monotonic() + args.limit
    number = 0
    while True:
        number += 1
        try:
            return attempt(args, images, pool, out, deadline)
        except Died as error:
            if number == ATTEMPTS:
                raise
            kept = out.with_name(f"{out.name}.died-{number}")
            print(f"FLAKY: {error}; logs in {kept}", file=sys.stderr)
        shutil.rmtree(kept, ignore_errors=True)
        out.rename(kept)
        out.mkdir()


def attempt(args: argparse.Namespace, images: Path, pool: Path | None, out: Path, deadline: float) -> int:
    """Runs the test on new VMs, and returns its status. Raises the errors of Server.run and Client.end."""
    (out / "test").write_text(args.test)
    client = Client(os.environ.get("KERNEL") or vm.families()[0], out, args.limit) if args.client else None
    server = Server(images, out, Size(args.mem, args.cpus), pool, Path(client.sockets.name) if client else None)
    try:
        status = server.run(deadline)
    except Died:
        if client:
            # What the server died of is what matters.
            with contextlib.suppress(OSError):
                client.end()
        raise
    finally:
        server.disk.close()
    return (client.end() or status) if client else status


def made_by(script: str, kernel: str) -> Path:
    """Returns the cache folder that a script has made. Ends the program if it could not."""
    done = subprocess.run([TOP / "tools/vm" / script, kernel], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return Path(done.stdout.strip())


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
