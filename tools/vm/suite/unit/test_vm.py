# SPDX-License-Identifier: GPL-2.0
"""Repetition of jobs whose VMs died."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import qemu
import vm

IMAGES = vm.Images(Path("root"), Path("7.3"), None)
OOPS = "BUG: kernel NULL pointer dereference\nRIP: 0010:{}\nCall Trace:\n [{}]\nKernel panic - not syncing\n"
IN_RXE = OOPS.format("rxe_completer+0x1/0x2 [rdma_rxe]", "rdma_rxe")
IN_OURS = OOPS.format("rxe_completer+0x1/0x2 [rdma_rxe]", "svcrdma")
DIED = vm.Result(None, 1.0, "the VM died")
WARNS = "WARNING: at rxe_completer+0x1/0x2 [rdma_rxe], CPU#0: kworker/u10:0/28\nCall Trace:\n work+0x1/0x2{}\n"
COMPLAINS = vm.Result(vm.COMPLAINS, 1.0)


class SnapshotTest(unittest.TestCase):
    def test_deaths_before_it_is_saved_are_written_down(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        outcomes = [OSError("the VM died with status -11"), OSError("time limit"), None]
        with mock.patch.object(vm, "boot_and_save", side_effect=outcomes):
            vm.save_snapshot(IMAGES, qemu.Size(), folder)
        self.assertEqual((folder / "died").read_text(), "the VM died with status -11\ntime limit\n")
        with (
            mock.patch.object(vm, "boot_and_save", side_effect=OSError("x")),
            self.assertRaisesRegex(SystemExit, "no VM to save: x"),
        ):
            vm.save_snapshot(IMAGES, qemu.Size(), folder)


class RunTest(unittest.TestCase):
    def setUp(self) -> None:
        self.out = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.out / "vm1").mkdir()
        self.enterContext(mock.patch.object(qemu, "use_kvm", lambda: False))
        self.enterContext(contextlib.redirect_stderr(io.StringIO()))

    def run_job(self, *attempts: tuple[vm.Result, bool, str]) -> vm.Result:
        """Runs a job whose attempts end so: result, whether all VMs have booted, what the console shows."""
        left = list(attempts)

        def attempt(_: vm.Images, job: vm.Job) -> tuple[vm.Result, bool]:
            result, booted, console = left.pop(0)
            (job.out / "vm1/console.log").write_text(console)
            return result, booted

        with mock.patch.object(vm, "attempt", attempt):
            result = vm.run(IMAGES, vm.Job(["true"], self.out))
        self.assertEqual(left, [])
        return result

    def test_first_attempt_counts(self) -> None:
        self.assertEqual(self.run_job((vm.Result(0, 1.0), True, "")), vm.Result(0, 1.0))
        self.assertEqual(self.run_job((vm.Result(1, 1.0), True, "")), vm.Result(1, 1.0))

    def test_vm_that_died_is_named_and_its_console_kept(self) -> None:
        result = self.run_job((DIED, False, "boot"), (DIED, True, IN_RXE), (vm.Result(0, 1.0), True, ""))
        self.assertEqual(result.status, 0)
        self.assertRegex(result.repeats[0], r"died while it booted \(the VM died\)$")
        self.assertRegex(result.repeats[1], "^rxe took its VM down")
        self.assertEqual([(self.out / f"died-{n}-vm1.log").read_text() for n in (1, 2)], ["boot", IN_RXE])

    def test_death_in_the_module_is_not_repeated(self) -> None:
        self.assertEqual(self.run_job((DIED, True, IN_OURS)), DIED)

    def test_warning_of_rxe_is_repeated(self) -> None:
        result = self.run_job((COMPLAINS, True, WARNS.format("")), (vm.Result(0, 1.0), True, ""))
        self.assertEqual(result.status, 0)
        self.assertRegex(result.repeats[0], "^rxe warned")

    def test_other_complaints_are_not_repeated(self) -> None:
        for console in (WARNS.format(" [svcrdma]"), "WARNING: at nfsd+0x1/0x2 [nfsd]\n"):
            self.assertEqual(self.run_job((COMPLAINS, True, console)), COMPLAINS)
        failed = vm.Result(1, 1.0)
        self.assertEqual(self.run_job((failed, True, WARNS.format(""))), failed)

    def test_attempts_end(self) -> None:
        result = self.run_job(*[(DIED, True, IN_RXE)] * vm.RXE_FAULTS)
        self.assertEqual((result.why, len(result.repeats)), ("the VM died", vm.RXE_FAULTS - 1))
        result = self.run_job(*[(DIED, False, "")] * vm.BOOTS)
        self.assertEqual((result.why, len(result.repeats)), ("the VM died", vm.BOOTS - 1))
