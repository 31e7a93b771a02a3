# SPDX-License-Identifier: GPL-2.0
"""The command line, as scripts/test is called."""

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import unittest

import vm

SCRIPT = vm.TOP / "scripts/test"


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
