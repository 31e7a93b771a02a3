# SPDX-License-Identifier: GPL-2.0
"""Execution and judgement of one test."""

import tempfile
import unittest
from pathlib import Path
from unittest import mock

import qemu
import vm

from suite.executor import Executor
from suite.processes import Processes
from suite.result import Outcome, Result
from suite.settings import Settings
from suite.test import Machine, Test, kernel_of
from suite.unit.common import has_ended


class ExecutorTest(unittest.TestCase):
    def setUp(self) -> None:
        self.logs = Path(self.enterContext(tempfile.TemporaryDirectory()))
        images = {kernel: vm.Images(Path("root"), Path(kernel), None) for kernel in ("7.3", "debug")}
        self.executor = Executor(Settings(("7.3",)), images, Processes(), self.logs, frozenset({"a.skips"}))

    def host(self, script: str, limit: float = 60) -> Result:
        return self.executor.run(Test("host.x", limit, ("sh", "-c", script)))

    def guest(self, name: str, result: vm.Result, vms: int = 1, **flaky: str) -> tuple[Result, vm.Job]:
        """Runs a test in VMs that end with this result. `flaky` has what each VM has written as flaky."""
        jobs = []

        def run(_: vm.Images, job: vm.Job) -> vm.Result:
            jobs.append(job)
            for number in range(1, vms + 1):
                (job.out / f"vm{number}/out").mkdir(parents=True)
                (job.out / f"vm{number}/console.log").touch()
            for name, said in flaky.items():
                (job.out / name / "out/flaky").write_text(said)
            return result

        machines = (Machine("debug", qemu.Size(3072, 2)), Machine("7.3", qemu.Size()))
        with mock.patch.object(vm, "run", run):
            judged = self.executor.run(Test(name, 60, ("/src/x",), machines[:vms], needs=frozenset({kernel_of("debug")})))
        return judged, jobs[0]

    def test_host_command_passes(self) -> None:
        result = self.host("echo out; echo err >&2")
        self.assertEqual((result.outcome, result.why), (Outcome.PASSED, ""))
        self.assertEqual((self.logs / "host.x/log").read_text(), "out\nerr\n")

    def test_host_command_that_has_repeated_something_is_flaky(self) -> None:
        result = self.host("echo FLAKY: a VM died; echo not FLAKY: x")
        self.assertEqual((result.outcome, result.why), (Outcome.FLAKY, "a VM died"))

    def test_host_command_fails_by_its_status(self) -> None:
        result = self.host("exit 77")
        self.assertEqual((result.outcome, result.why, result.consoles), (Outcome.FAILED, "status 77", ()))

    def test_host_command_that_is_not_there(self) -> None:
        result = self.executor.run(Test("host.x", 1, ("/none",)))
        self.assertEqual(result.outcome, Outcome.FAILED)
        self.assertIn("No such file", result.why)

    def test_time_limit_ends_the_children_too(self) -> None:
        result = self.host("sleep 1000 & echo $!; wait", 15 / self.executor.slow)
        self.assertEqual((result.outcome, result.why), (Outcome.FAILED, "time limit"))
        child = int((self.logs / "host.x/log").read_text())
        self.assertTrue(has_ended(child))

    def test_guest_passes(self) -> None:
        result, job = self.guest("a.b", vm.Result(0, 1.0))
        self.assertEqual(result.outcome, Outcome.PASSED)
        self.assertEqual((job.vms, job.client, job.size), (1, None, qemu.Size(3072, 2)))
        self.assertEqual(job.limit, 60 * 4 * self.executor.slow)

    def test_guest_with_a_client(self) -> None:
        result, job = self.guest("a.b", vm.Result(0, 1.0), 2)
        self.assertEqual(result.log, self.logs / "a.b/vm2/out/log")
        self.assertEqual(job.client, (self.executor.images["7.3"], qemu.Size()))

    def test_guest_fails_by_its_own_checks(self) -> None:
        result, _ = self.guest("a.b", vm.Result(1, 1.0))
        self.assertEqual((result.outcome, result.why, result.consoles), (Outcome.FAILED, "status 1", ()))

    def test_guest_that_died_shows_its_consoles(self) -> None:
        for name, died in ("a.hung", vm.Result(None, 1.0, "time limit")), ("a.complaint", vm.Result(2, 1.0)):
            result, _ = self.guest(name, died, 2)
            self.assertEqual(result.why, died.why or "status 2")
            self.assertEqual([path.parent.name for path in result.consoles], ["vm1", "vm2"])

    def test_guest_that_was_repeated_is_flaky(self) -> None:
        died = vm.Result(0, 1.0, repeats=("a VM died", "a VM died again"))
        result, _ = self.guest("a.died", died)
        self.assertEqual((result.outcome, result.why), (Outcome.FLAKY, "a VM died; a VM died again"))
        result, _ = self.guest("a.said", vm.Result(0, 1.0), 2, vm2="storm 1 took more\n")
        self.assertEqual((result.outcome, result.why), (Outcome.FLAKY, "storm 1 took more"))
        result, _ = self.guest("a.server", vm.Result(0, 1.0), 2, vm1="a device was made again\n")
        self.assertEqual((result.outcome, result.why), (Outcome.FLAKY, "a device was made again"))

    def test_guest_that_was_repeated_and_fails(self) -> None:
        result, _ = self.guest("a.b", vm.Result(1, 1.0, repeats=("a VM died",)))
        self.assertEqual((result.outcome, result.why), (Outcome.FAILED, "status 1; before that: a VM died"))

    def test_skips_have_to_be_listed(self) -> None:
        self.assertEqual(self.guest("a.skips", vm.Result(77, 1.0))[0].outcome, Outcome.SKIPPED)
        result, _ = self.guest("a.b", vm.Result(77, 1.0))
        self.assertEqual((result.outcome, result.why), (Outcome.FAILED, "skipped, and tools/vm/skips does not list it"))
