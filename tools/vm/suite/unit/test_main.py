# SPDX-License-Identifier: GPL-2.0
"""The command line, as scripts/test is called."""

import importlib.machinery
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import qemu
import vm

from suite import catalogue, main
from suite.executor import Executor
from suite.report import Report
from suite.result import Outcome, Result
from suite.settings import Settings
from suite.slots import Slots
from suite.test import Machine, Test

SCRIPT = qemu.TOP / "scripts/test"


def call(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"KERNEL": "7.3", "TESTS": "", "SERVER": "", "KDIR": ""} | environ
    return subprocess.run([SCRIPT, *arguments], env=env, capture_output=True, text=True, check=False)


class MainTest(unittest.TestCase):
    def test_list_prints_names_and_runs_nothing(self) -> None:
        done = call("--list", TESTS="host.proto life.insmod")
        self.assertEqual((done.returncode, done.stdout), (0, "host.proto\nlife.insmod\n"), done.stderr)

    def test_list_of_benchmarks(self) -> None:
        names = call("--list", "--bench").stdout.split()
        self.assertTrue(names)
        self.assertTrue(all(name.startswith("bench.") for name in names), names)

    def test_list_of_long_tests(self) -> None:
        names = set(call("--list", "--long").stdout.split())
        self.assertTrue(names)
        self.assertFalse({name for name in names if name.startswith(("host.", "build.", "check."))})
        everything = set(call("--list").stdout.split())
        self.assertTrue(names - everything)

    def test_refusals_say_one_line(self) -> None:
        for environ in ({"TESTS": "no.such"}, {"SERVER": "other"}, {"KDIR": "/x"}):
            done = call(**environ)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, r"\Asvcrdma: .*\n\Z")

    def test_import_has_no_side_effects(self) -> None:
        path = list(sys.path)
        loader = importlib.machinery.SourceFileLoader("runner", str(SCRIPT))
        spec = importlib.util.spec_from_loader("runner", loader)
        assert spec is not None
        loader.exec_module(importlib.util.module_from_spec(spec))
        self.assertEqual(sys.path, path)


class WithoutKernelTest(unittest.TestCase):
    """A kernel that cannot be made fails its own tests only."""

    def test_kernels_are_those_of_vms_and_builds(self) -> None:
        settings = Settings(("7.3", "7.2", "debug"))
        built = catalogue.for_kernel("build.7.2", 1, "7.2", "scripts/build")
        self.assertEqual(main.wanted_kernels(settings, [built], {Machine("7.3", qemu.Size())}), ["7.3", "7.2"])

    def test_tests_on_other_kernels_run(self) -> None:
        settings = Settings(("7.3", "debug"))
        builds = [catalogue.for_kernel(catalogue.module_of(each), 1, each, "scripts/build") for each in settings.kernels]
        others = [
            Test(f"a.{each}", 1, (), (Machine(each, qemu.Size()),), needs=frozenset({catalogue.module_of(each)}))
            for each in settings.kernels
        ]
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        # The folder has no built module.
        (folder / "kernel").mkdir()
        (folder / "kernel/version").write_text("7.3.0")
        images = {"7.3": vm.Images(folder, folder, None)}
        ran = []

        def run(_: object, test: Test) -> Result:
            ran.append(test.name)
            return Result(test.name, Outcome.PASSED)

        self.enterContext(mock.patch.multiple(main, LOGS=folder, prepare=lambda *_: images, end_when_interrupted=lambda _: None))
        self.enterContext(mock.patch.object(Executor, "run", run))
        self.enterContext(mock.patch.object(qemu, "use_kvm", lambda: True))
        self.enterContext(mock.patch("sys.stdout", io.StringIO()))
        report = Report(io.StringIO())
        main.run_all(settings, builds, others, Slots(2), report)
        self.assertEqual(sorted(ran), ["a.7.3", "build.7.3"])
        self.assertEqual(
            report.has_failed(frozenset({"kernel.debug", "build.debug", "a.debug"})), ["a.debug", "build.debug", "kernel.debug"]
        )
        self.assertEqual(report.summary(), "2 passed, 3 failed")
