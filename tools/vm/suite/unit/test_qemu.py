# SPDX-License-Identifier: GPL-2.0
"""Command lines of QEMU, of the VMs of the tests and of the server of the packages."""

import re
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import qemu
import server
import vm


class CommandLineTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "kernel").mkdir()
        (self.folder / "kernel/version").write_text("7.3.4")
        (self.folder / "disk.img").touch()
        self.lines: list[list[str]] = []
        self.kvm(False)

        def start(line: qemu.CommandLine, *_: object) -> mock.Mock:
            self.lines.append(line.words)
            return mock.Mock()

        self.enterContext(mock.patch.object(qemu.CommandLine, "start", start))

    def kvm(self, usable: bool) -> None:
        self.enterContext(mock.patch.object(qemu, "use_kvm", lambda: usable))

    def value(self, words: list[str], option: str) -> str:
        return words[words.index(option) + 1]

    def guest(self, index: int = 1, **job: object) -> list[str]:
        """Returns the command line of a VM of a test."""
        images = vm.Images(self.folder, self.folder, None)
        out = Path(self.enterContext(tempfile.TemporaryDirectory()))
        vm.Vm(images, vm.Job(["true"], out, **job), "single", index, out / "vm", self.folder)  # type: ignore[arg-type]
        return self.lines[-1]

    def plain(self, cpus: int = 1, sockets: Path | None = None) -> list[str]:
        """Returns the command line of a server of the packages."""
        machine = server.Server(self.folder, self.folder, qemu.Size(1024, cpus), self.folder / "pool.img", sockets)
        return machine.command_line().words

    def test_both_kinds_have_the_same_base(self) -> None:
        for words in self.guest(), self.plain():
            append = self.value(words, "-append")
            self.assertTrue(append.startswith(f"{qemu.APPEND} {qemu.APPEND_EMULATED}"), append)
            self.assertEqual(self.value(words, "-cpu"), qemu.CPU)
            self.assertEqual(self.value(words, "-accel"), "tcg,thread=single")
            self.assertTrue({"-no-reboot", "-nodefaults"} <= set(words))
            self.assertEqual(len([word for word in words if "virtio-net-pci" in word and "mrg_rxbuf=off" in word]), 1)
            self.assertEqual([word for word in words if ",mount_tag=src," in word and "readonly=on" not in word], [])

    def test_kvm(self) -> None:
        self.kvm(True)
        for words in self.guest(), self.plain():
            self.assertEqual((self.value(words, "-accel"), self.value(words, "-cpu")), ("kvm", "host"))
            self.assertNotIn(qemu.APPEND_EMULATED, self.value(words, "-append"))
        self.assertEqual(self.value(self.guest(counted=True), "-accel"), "tcg,thread=single")

    def test_cpus_of_a_test_take_turns(self) -> None:
        self.assertEqual(self.value(self.guest(size=qemu.Size(2048, 2)), "-accel"), "tcg,thread=single")
        self.assertEqual(self.value(self.guest(size=qemu.Size(2048, 4)), "-accel"), "tcg,thread=multi")
        self.assertEqual(self.value(self.plain(2), "-accel"), "tcg,thread=multi")

    def test_the_server_listens_and_is_counted(self) -> None:
        first, second = self.guest(1, vms=2, counted=True), self.guest(2, vms=2, counted=True)
        self.assertRegex(self.value(first, "-netdev"), ",server=on,")
        self.assertRegex(self.value(second, "-netdev"), ",server=off,")
        self.assertIn("-plugin", first)
        self.assertNotIn("-plugin", second)

    def test_the_client_of_the_packages_listens(self) -> None:
        sockets = f"addr.path={self.folder}/net"
        for words, side in (self.guest(), "on"), (self.plain(sockets=self.folder), "off"):
            self.assertRegex(self.value(words, "-netdev"), f"^stream,.*server={side},.*{sockets}$")
        self.assertNotIn(sockets, self.value(self.plain(), "-netdev"))

    def test_disks_come_in_the_order_that_init_expects(self) -> None:
        names = [re.sub(r".*drive=", "", word) for word in self.guest() if word.startswith("virtio-blk")]
        self.assertEqual(names, ["root", "modules", "disk"])
        names = [re.sub(r".*drive=", "", word) for word in self.plain() if word.startswith("virtio-blk")]
        self.assertEqual(names, ["root", "pool"])

    def test_nothing_else_starts_a_machine(self) -> None:
        command = ["grep", "-rlF", "--exclude-dir=unit", "--", "-machine", f"{qemu.TOP}/tools/vm", f"{qemu.TOP}/scripts"]
        found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
        self.assertEqual(found, [str(qemu.TOP / "tools/vm/qemu.py")])
