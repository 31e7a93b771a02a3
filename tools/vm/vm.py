#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Boots one VM, or a server and a client joined by a network, and runs a script in it.

    vm.py run [--vms 2] [--mem MiB] [--cpus N] [--limit S] [--out DIR] [--server ours|stock] SCRIPT [ARG...]
    vm.py shell
    vm.py snapshot [--mem MiB] [--cpus N] DIR   saves a VM that has booted, see guest-snapshot
    vm.py kvm                                   has status 0 if VMs use KVM, 1 if they are emulated

The VMs see the checkout as /src (read-only) and DIR/NAME as /job. Every boot
starts from the same images with an empty overlay; only /job/out survives.
In `make test` emulated VMs start from a snapshot, see Snapshot.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import qemu
from qemu import TOP, CommandLine, Size

DISK = 16 << 30  # bytes of the export's disk, a sparse file
# How often a VM is booted at most. QEMU's emulator may end with SIGSEGV when it starts from a
# snapshot, before the VM has run anything.
BOOTS = 6
# How often rxe may spoil one test before the test has failed.
RXE_FAULTS = 3
# The status of a script whose kernels complain, see agent.
COMPLAINS = 2
# The line of init when the VM is ready to be saved, and how many seconds it may take until then.
READY = b"init: ready for a snapshot"
READY_LIMIT = 1200


# The servers that tests can run against: this module, or the kernel's own.
SERVERS = ("ours", "stock")


def server_chosen() -> str:
    """Returns the server that the variable SERVER chooses. Ends the program if it names none."""
    server = os.environ.get("SERVER") or SERVERS[0]
    if server not in SERVERS:
        sys.exit(f"svcrdma: SERVER={server}: one of {', '.join(SERVERS)}")
    return server


class Monitor:
    """The channel over which QEMU takes commands (QMP)."""

    def __init__(self) -> None:
        ours, self.theirs = socket.socketpair()
        ours.settimeout(60)
        self.stream = ours.makefile("rw", encoding="utf-8")
        ours.close()

    @property
    def arguments(self) -> list[str]:
        return ["-chardev", f"socket,id=monitor,fd={self.theirs.fileno()}", "-mon", "chardev=monitor,mode=control"]

    def begin(self) -> None:
        """Closes QEMU's end, which QEMU has inherited, and agrees on the capabilities of both sides."""
        self.theirs.close()
        self.answer("QMP")
        self.command("qmp_capabilities")
        # With mapped-ram each page has a fixed place in the file, so that neighbours are read at once.
        mapped = {"capability": "mapped-ram", "state": True}
        self.command("migrate-set-capabilities", capabilities=[mapped])

    def command(self, name: str, **arguments: object) -> Any:
        self.stream.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
        self.stream.flush()
        return self.answer("return")

    def close(self) -> None:
        self.theirs.close()
        self.stream.close()

    def answer(self, key: str) -> Any:
        """Returns the next message with that key; skips events. Raises OSError for an error of QEMU."""
        for line in self.stream:
            message = json.loads(line)
            if key in message:
                return message[key]
            if "error" in message:
                raise OSError(f"QEMU: {message['error'].get('desc')}")
        raise OSError("QEMU has gone")


class Snapshot:
    """A VM that has booted and waits for its job.

    The file stays open, so it may be deleted meanwhile. VMs that start from it do not share memory.
    """

    def __init__(self, folder: Path, mode: str = "rb"):
        self.state: IO[bytes] = open(folder / "state", mode)  # noqa: SIM115

    @property
    def uri(self) -> str:
        """Returns the name of the file in QEMU, which has inherited the descriptor."""
        return f"file:/proc/self/fd/{self.state.fileno()}"

    def save(self, vm: Vm) -> None:
        """Saves the running VM and ends QEMU. QEMU saves a VM as running, so VMs that start from it run."""
        monitor = vm.monitor
        if not monitor:
            raise OSError("QEMU takes no commands")
        monitor.command("migrate", uri=self.uri)
        while (status := monitor.command("query-migrate").get("status")) != "completed":
            if status in ("failed", "cancelled"):
                raise OSError("QEMU cannot save it")
            time.sleep(0.02)
        # QEMU ends, and with it the VM.
        monitor.command("quit")
        with contextlib.suppress(subprocess.TimeoutExpired):
            vm.process.wait(60)


@dataclass
class Images:
    """The files that VMs boot from, made by guest-kernel and guest-root."""

    root: Path
    boot: Path
    module: Path | None
    snapshots: dict[Size, Snapshot] = field(default_factory=dict)

    @property
    def version(self) -> str:
        return (self.boot / "kernel/version").read_text().strip()

    @property
    def is_debug(self) -> bool:
        return self.version.endswith("-debug")

    @classmethod
    def prepare(cls, kernel: str, module: Path | None = None) -> Images:
        def made_by(*command: str) -> Path:
            script = TOP / "tools/vm" / command[0]
            done = subprocess.run([script, *command[1:]], stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                sys.exit(done.returncode)
            made = Path(done.stdout.strip())
            with contextlib.suppress(PermissionError):
                os.utime(made)  # still in use, see fill in scripts/lib.sh
            return made

        if status := subprocess.run([TOP / "scripts/need-qemu"], check=False).returncode:
            sys.exit(status)
        images = cls(made_by("guest-root"), made_by("guest-kernel", kernel), module)
        if module is None:
            images.find_module()
        return images

    def find_module(self) -> None:
        built = TOP / "build" / self.version / "svcrdma.ko"
        self.module = built if built.exists() else None


@dataclass
class Job:
    """A script and the VMs that it needs."""

    command: list[str]
    out: Path
    vms: int = 1
    size: Size = Size()  # noqa: RUF009
    limit: float = 300
    server: str = "ours"
    env: dict[str, str] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)  # for /job
    tree: Path | None = None  # a folder that the VMs can mount, as 9p's "tree"
    counted: bool = False  # the server's VM finds in /job/blocks what its kernel executes, see counts/blocks.c
    client: tuple[Images, Size] | None = None  # the client's VM, if it differs from the server's
    sockets: Path | None = None  # the folder of the network's socket, for a VM that another program joins

    def machine(self, images: Images, role: str) -> tuple[Images, Size]:
        """Returns the images and the size of the VM with that role."""
        return self.client if self.client and role == "client" else (images, self.size)


@dataclass
class Result:
    status: int | None  # of the script; None if it did not end
    seconds: float
    why: str = ""
    repeats: tuple[str, ...] = ()  # why earlier attempts did not count, see run()


# Lines of a dying kernel: that it dies, the cause and the place.
DYING = re.compile(r"(?:BUG: |Oops: |RIP: 0010:|Kernel panic|general protection fault|traps: PANIC).*")
DYING_LINES = 4
# The first line of a warning of rxe's completer.
RXE_WARNS = re.compile(r"WARNING: .*\brxe_completer\+\S+ \[rdma_rxe\]")


class Vm:
    """One QEMU process; `directory` becomes the VM's /job."""

    def __init__(self, images: Images, job: Job, role: str, index: int, directory: Path, sockets: Path):
        images, size = job.machine(images, role)
        self.out = directory / "out"
        self.out.mkdir(parents=True)
        self.console = directory / "console.log"
        module = ""
        if images.module:
            # A copy, so that a rebuild does not change what is tested.
            shutil.copy(images.module, directory / "svcrdma.ko")
            module = "/job/svcrdma.ko"
        for path in job.files:
            shutil.copy(path, directory)
        server = 1 if job.vms == 2 else index
        env = {
            "VM_ROLE": role,
            "VM_NAME": f"vm{index}",
            "VM_COUNT": str(job.vms),
            "VM_COMMAND": shlex.join(job.command),
            "VM_SERVER": job.server,
            "MAC": f"52:54:00:77:00:0{index}",
            "IPV4": f"10.77.0.{index}",
            "IPV6": f"fd77::{index}",
            "SERVER": f"10.77.0.{server}",
            "SERVER6": f"fd77::{server}",
            "MODULE": module,
            **job.env,
        }
        self.interactive = role == "shell"
        self.snapshot = None if self.interactive else images.snapshots.get(size)
        (directory / "env").write_text("".join(f"{k}={shlex.quote(v)}\n" for k, v in env.items()))
        with contextlib.ExitStack() as stack:
            # The disk has no name, so that it is deleted when the VM ends.
            disk = stack.enter_context(tempfile.TemporaryFile(dir=directory))
            disk.truncate(DISK)
            path = Path(f"/proc/self/fd/{disk.fileno()}")
            line = self.command_line(images, size, job, index, directory, sockets, path)
            inherited = [disk.fileno()]
            self.monitor: Monitor | None = None
            if self.snapshot:
                self.monitor = Monitor()
                line.add(*self.monitor.arguments, *([] if role == "snapshot" else ["-incoming", "defer"]))
                inherited += [self.monitor.theirs.fileno(), self.snapshot.state.fileno()]
            output = None if self.interactive else stack.enter_context(open(directory / "qemu.log", "wb"))
            self.process = line.start(output, self.interactive, inherited)
            if self.snapshot and self.monitor:
                with self.monitored():
                    self.monitor.begin()
                    if role != "snapshot":
                        self.monitor.command("migrate-incoming", uri=self.snapshot.uri)

    @contextlib.contextmanager
    def monitored(self) -> Iterator[None]:
        """Turns an error of QEMU into the end of the VM, with the error in qemu.log."""
        try:
            yield
        except OSError as error:
            with open(self.console.parent / "qemu.log", "a", encoding="utf-8") as log:
                log.write(f"{error}\n")
            self.stop()

    def command_line(
        self, images: Images, size: Size, job: Job, index: int, directory: Path, sockets: Path, disk: Path
    ) -> CommandLine:
        """Returns the command line of a VM. Those of a kernel have the same devices, as a VM can start only from a snapshot with
        its devices.
        """
        append = "snapshot" if self.snapshot else ""  # for init
        if images.is_debug:
            # Neither owner tracking (U) nor poison (P) of slabs: KASAN reports the owner as well, and finds
            # uses of freed memory in all code that is compiled with it. Checking poison takes long, as KASAN
            # handles each byte of it as one that must not be read.
            # Tests of locks alone set kernel.lock_stat to 1.
            append += " slab_debug=FZ lockdep.lock_stat=0"
        visible = [path for path in (directory, sockets, job.tree) if path]
        # The emulator alone has plugins. Two emulated CPUs of a VM take turns. In parallel they would run the
        # kernel's code while the kernel patches it, and wait for CPUs that the host is not running. More, as
        # with CPUS=4, run in parallel, for races that turns hide.
        kvm = qemu.use_kvm() and not job.counted
        threads = "multi" if size.cpus > 2 else "single"
        line = CommandLine(size, images.boot / "vmlinuz", images.boot / "initrd", append, self.console, visible, kvm, threads)
        line.add("-name", f"svcrdma-vm{index}")
        line.read_only_drive("root", images.root / "root.img")
        line.read_only_drive("modules", images.boot / "modules.img")
        line.drive("disk", disk, "cache=unsafe,discard=unmap,detect-zeroes=unmap")
        line.share("job", directory, writable=True)
        line.share("src", TOP)
        if job.tree:
            line.share("tree", job.tree)
        # The first VM listens, the second connects. With one VM, QEMU drops what the NIC sends; traffic to
        # the VM's own address never leaves the VM.
        first = index == 1
        line.nic(f"stream,id=net,server={'on' if first else 'off'},addr.type=unix,addr.path={sockets}/net", "host_mtu=9000")
        control = f"socket,id=control,path={sockets}/control" + (",server=on,wait=off" if first else "")
        line.add("-device", "virtio-serial-pci")
        line.add("-chardev", control, "-device", "virtserialport,chardev=control,name=control")
        line.add("-device", "vmgenid,guid=auto")
        if job.counted and first:
            line.add("-plugin", f"{TOP}/build/blocks.so,counts={directory}/blocks")
        if self.interactive:
            line.add("-chardev", "stdio,id=tty,signal=off", "-device", "virtconsole,chardev=tty")
        return line

    def status(self) -> int | None:
        """Returns the status that the VM has written, or None."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            return int((self.out / "status").read_text())
        return None

    def last_words(self) -> str:
        """Returns the status of QEMU, and what the dying kernel or else QEMU printed last."""
        said: list[str] = []
        with contextlib.suppress(OSError):
            said = (self.console.parent / "qemu.log").read_text().strip().splitlines()[-2:]
        with contextlib.suppress(OSError):
            console = self.console.read_text(encoding="utf-8", errors="replace")
            said = DYING.findall(console)[:DYING_LINES] or said
        return ": ".join([f" with status {self.process.poll()}", *said])

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.monitor:
            self.monitor.close()


def run(images: Images, job: Job) -> Result:
    """Runs the job on new VMs, and again if one dies while it boots, or in rxe, or if rxe alone complains."""
    boots, faults = BOOTS, RXE_FAULTS
    repeats: list[str] = []
    while True:
        result, booted = attempt(images, job)
        consoles = sorted(job.out.glob("vm*/console.log"))
        if not booted and not qemu.use_kvm() and boots > 1:
            boots -= 1
            how = "an emulated VM died while it booted"
        elif result.why and faults > 1 and any(map(died_of_rxe, consoles)):
            faults -= 1
            how = "rxe took its VM down, with nothing of the module in the trace"
        elif result.status == COMPLAINS and faults > 1 and any(map(complains_of_rxe, consoles)):
            faults -= 1
            how = "rxe warned of its completer, with nothing of the module in a trace"
        else:
            return replace(result, repeats=tuple(repeats))
        repeats.append(f"{how} ({result.why})")
        kept = [shutil.copy(path, job.out / f"died-{len(repeats)}-{path.parent.name}.log") for path in consoles]
        print(f"svcrdma: {repeats[-1]}: once more; {', '.join(map(str, kept))}", file=sys.stderr)


def died_of_rxe(console: Path) -> bool:
    """Returns true if the kernel died in rxe and its trace does not name the module.

    rxe may use queue pairs that are being destroyed; klog-allow has the harmless form of that.
    """
    text = console.read_text(encoding="utf-8", errors="replace")
    complaint = DYING.search(text)
    trace = text[complaint.start() :] if complaint else ""
    return "Kernel panic" in trace and "[rdma_rxe]" in trace and "[svcrdma]" not in trace


def complains_of_rxe(console: Path) -> bool:
    """Returns true if rxe's completer has warned of itself, and no trace names the module.

    The completer warns if it completes a work request in error without an error status.
    """
    text = console.read_text(encoding="utf-8", errors="replace")
    return RXE_WARNS.search(text) is not None and "[svcrdma]" not in text


def save_snapshot(images: Images, size: Size, folder: Path) -> None:
    """Boots a VM until it waits for its job, and saves it. The folder then has in `died` why it was booted again."""
    for left in reversed(range(BOOTS)):
        try:
            boot_and_save(images, size, folder)
            return
        except OSError as error:
            if not left:
                sys.exit(f"svcrdma: no VM to save: {error}")
            with open(folder / "died", "a", encoding="utf-8") as died:
                died.write(f"{error}\n")


def boot_and_save(images: Images, size: Size, folder: Path) -> None:
    snapshot = Snapshot(folder, "w+b")
    images = replace(images, module=None, snapshots={size: snapshot})
    with tempfile.TemporaryDirectory(prefix="svcrdma-") as name:
        directory = Path(name) / "vm1"
        vm = Vm(images, Job([], Path(name), size=size), "snapshot", 1, directory, Path(name))
        try:
            wait_until_ready(vm, time.monotonic() + READY_LIMIT)
            snapshot.save(vm)
        except OSError:
            print(vm.console.read_text(encoding="utf-8", errors="replace"), file=sys.stderr)
            raise
        finally:
            vm.stop()


def wait_until_ready(vm: Vm, deadline: float) -> None:
    while READY not in vm.console.read_bytes():
        if vm.process.poll() is not None:
            raise OSError(f"the VM died{vm.last_words()}")
        if time.monotonic() > deadline:
            raise OSError("time limit")
        time.sleep(0.05)


def attempt(images: Images, job: Job) -> tuple[Result, bool]:
    """Runs the job once. Returns its result, and true if no VM died before its user space began.

    The script runs in the last VM.
    """
    start = time.monotonic()
    vms: list[Vm] = []
    roles = {1: ["single"], 2: ["server", "client"]}[job.vms]
    if job.command == []:
        roles = ["shell"]
    with tempfile.TemporaryDirectory(prefix="svcrdma-") as folder:
        sockets = job.sockets or Path(folder)
        try:
            for index, role in enumerate(roles, 1):
                directory = job.out / f"vm{index}"
                shutil.rmtree(directory, ignore_errors=True)
                vms.append(Vm(images, job, role, index, directory, sockets))
                if index < job.vms:
                    wait_for_sockets(sockets, vms[-1])
            why = watch(vms, start + job.limit)
            booted = all(vm.process.poll() is None or (vm.out / "log").exists() for vm in vms)
        finally:
            for vm in vms:
                vm.stop()
    return Result(vms[-1].status(), time.monotonic() - start, why), booted


def is_listening(path: Path) -> bool:
    """Returns true if the socket listens, which it does only some time after its file is there."""
    lines = (line.split() for line in Path("/proc/net/unix").read_text(encoding="utf-8").splitlines())
    return any(words[-1] == str(path) and int(words[3], 16) & 0x10000 for words in lines)


def wait_for_sockets(sockets: Path, vm: Vm) -> None:
    while not all(is_listening(sockets / name) for name in ("net", "control")):
        if vm.process.poll() is not None:
            break
        time.sleep(0.02)


def watch(vms: list[Vm], deadline: float) -> str:
    """Waits until the script's VM ends. Returns what went wrong with the VMs, or an empty string."""
    while True:
        if vms[-1].process.poll() is not None:
            return "" if vms[-1].status() is not None else f"the VM died{vms[-1].last_words()} (console.log)"
        if len(vms) == 2 and vms[0].process.poll() is not None and vms[0].status() is None:
            return f"the server's VM died{vms[0].last_words()} (vm1/console.log)"
        if time.monotonic() > deadline:
            return "time limit"
        time.sleep(0.05)


def families() -> list[str]:
    """Returns the kernel families of the archive, the newest first."""
    done = subprocess.run([TOP / "scripts/families"], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout.split()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    for name in ("run", "shell", "snapshot"):
        sub = commands.add_parser(name)
        sub.add_argument("--kernel", default=os.environ.get("KERNEL"))
        sub.add_argument("--mem", type=int, default=Size().mem)
        sub.add_argument("--cpus", type=int, default=Size().cpus)
        if name == "snapshot":
            sub.add_argument("folder", type=Path)
            continue
        sub.add_argument("--server", choices=SERVERS, default=SERVERS[0])
        sub.add_argument("--module", type=Path, help="svcrdma.ko, if not that of build/")
        if name == "run":
            sub.add_argument("--vms", type=int, choices=(1, 2), default=1)
            sub.add_argument("--limit", type=float, default=300)
            sub.add_argument("--out", type=Path)
            sub.add_argument("--counted", action="store_true", help="count what the server's kernel executes, see counts/blocks.c")
            sub.add_argument("--share", type=Path, action="append", default=[], help="a file to put into /job")
            sub.add_argument("--quiet", action="store_true", help="do not show the output as it comes")
            sub.add_argument("command", nargs=argparse.REMAINDER, help="script in the checkout, or any command")
    commands.add_parser("kvm")
    args = parser.parse_args()
    if args.what == "kvm":
        return 0 if qemu.use_kvm() else 1
    if args.what == "snapshot":
        save_snapshot(Images.prepare(args.kernel or families()[0]), Size(args.mem, args.cpus), args.folder.resolve())
        return 0
    if args.module and not args.module.is_file():
        parser.error(f"no file {args.module}")
    images = Images.prepare(args.kernel or families()[0], args.module)
    if args.server == SERVERS[0] and not images.module:
        print(f"svcrdma: no module for kernel {images.version} in build/: make KERNEL=...", file=sys.stderr)
    size = Size(args.mem, args.cpus)
    out = (getattr(args, "out", None) or Path(tempfile.mkdtemp(prefix="svcrdma-vm-"))).resolve()
    out.mkdir(parents=True, exist_ok=True)
    if args.what == "shell":
        with raw_terminal():
            run(images, Job([], out, size=size, server=args.server, limit=float("inf")))
        return 0
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        parser.error("no command")
    path = Path(command[0]).resolve()
    if path.is_file() and path.is_relative_to(TOP):
        command[0] = str(Path("/src") / path.relative_to(TOP))
    job = Job(command, out.resolve(), args.vms, size, args.limit, args.server, files=args.share, counted=args.counted)
    tail = None
    shutil.rmtree(job.out / f"vm{job.vms}", ignore_errors=True)
    if not args.quiet:
        log = job.out / f"vm{job.vms}" / "out/log"
        tail = subprocess.Popen(["tail", "-q", "-n", "+1", "-F", str(log)], stderr=subprocess.DEVNULL)
    try:
        result = run(images, job)
    finally:
        if tail:
            time.sleep(1.2)  # tail looks once a second
            tail.terminate()
    how = "; ".join([result.why or f"status {result.status}", *(f"FLAKY: {why}" for why in result.repeats)])
    print(f"svcrdma: {how}, {result.seconds:.1f} s, logs in {job.out}", file=sys.stderr)
    return 1 if result.why or result.status is None else result.status


@contextlib.contextmanager
def raw_terminal() -> Iterator[None]:
    if not sys.stdin.isatty():
        yield
        return
    saved = subprocess.run(["stty", "-g"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    subprocess.run(["stty", "raw", "-echo"], check=True)
    try:
        yield
    finally:
        subprocess.run(["stty", saved], check=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
