# SPDX-License-Identifier: GPL-2.0
"""The tests there are, and the selection of some."""

import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from unittest import mock

import qemu
import server

from suite import catalogue, main
from suite.executor import EMULATED_SLOW
from suite.settings import Settings
from suite.test import Machine, Test, kernel_of

ALL = Settings(("7.3", "7.2", "debug"))


def names(tests: list[Test]) -> list[str]:
    return [test.name for test in tests]


def selected(patterns: str, kernels: tuple[str, ...] = ALL.kernels) -> list[str]:
    settings = Settings(kernels, patterns=tuple(patterns.split()))
    size = qemu.Size()
    tests = [Test(name, 10, (), (Machine("7.3", size),)) for name in ("wire.fuzz", "wire.rnr", "wires.x")]
    name = "wire.fuzz@debug" if len(kernels) > 1 else "wire.fuzz"
    tests.append(Test(name, 10, (), (Machine("debug", size),), needs=frozenset({kernel_of("debug")})))
    return names(catalogue.selected(tests, settings))


class SelectionTest(unittest.TestCase):
    def test_no_pattern_selects_all_but_the_debug_kernel(self) -> None:
        self.assertEqual(selected(""), ["wire.fuzz", "wire.rnr", "wires.x"])
        self.assertIn("wire.fuzz", selected("", ("debug",)))

    def test_debug_kernel_is_built_if_a_selected_test_needs_it(self) -> None:
        for patterns, expected in ((), False), (("lanes.life",), False), (("lanes.life@debug",), True):
            settings = replace(ALL, patterns=patterns)
            builds = catalogue.builds(settings)
            tests = builds + catalogue.guest_tests(settings, catalogue.TESTS, 180)
            needed, _ = catalogue.with_needed(catalogue.selected(tests, settings), builds)
            self.assertEqual([test.is_debug for test in needed].count(True) > 0, expected, patterns)

    def test_areas_and_patterns_leave_out_the_debug_kernel(self) -> None:
        self.assertEqual(selected("wire"), ["wire.fuzz", "wire.rnr"])
        self.assertEqual(selected("wire.f*"), ["wire.fuzz"])

    def test_debug_kernel_is_selected_by_name_or_at_sign(self) -> None:
        self.assertEqual(selected("wire.fuzz@debug"), ["wire.fuzz@debug"])
        self.assertEqual(selected("*@debug wire.rnr"), ["wire.rnr", "wire.fuzz@debug"])
        self.assertIn("wire.fuzz", selected("wire", ("debug",)))

    def test_long_tests_are_selected_by_name(self) -> None:
        size = qemu.Size()
        tests = [Test("a.b", 1, (), (Machine("7.3", size),)), Test("a.long", 1, (), (Machine("7.3", size),), is_long=True)]
        for patterns, expected in ((), ["a.b"]), (("a",), ["a.b"]), (("a.l*", "a.b"), None), (("a.long",), ["a.long"]):
            settings = Settings(ALL.kernels, patterns=patterns)
            if expected is None:
                self.assertRaises(SystemExit, catalogue.selected, tests, settings)
            else:
                self.assertEqual(names(catalogue.selected(tests, settings)), expected)
        for settings in Settings(ALL.kernels, is_long=True), Settings(("debug",)):
            self.assertEqual(names(catalogue.selected(tests, settings)), ["a.b", "a.long"])

    def test_pattern_that_selects_nothing_is_refused(self) -> None:
        with self.assertRaisesRegex(SystemExit, "no test has such a name: nothing$"):
            selected("wire nothing")


class GuestTest(unittest.TestCase):
    """Reads scripts of a temporary folder as tests."""

    def setUp(self) -> None:
        self.top = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(mock.patch.object(qemu, "TOP", self.top))

    def script(self, name: str, *lines: str, mode: int = 0o755) -> None:
        path = self.top / name
        path.write_text("\n".join(["#!/bin/bash", *lines, ""]))
        path.chmod(mode)

    def read(self, settings: Settings = ALL) -> dict[str, Test]:
        return {test.name: test for test in catalogue.guest_tests(settings, self.top, 180)}

    def test_one_test_for_each_kernel(self) -> None:
        self.script("a.b", "# limit: 60", "# kernels: all", "# debug: COUNT=2", "# klog-allow: rxe")
        tests = self.read()
        self.assertEqual(list(tests), ["a.b", "a.b@7.2", "a.b@debug"])
        self.assertEqual(tests["a.b"].command, ("/src/a.b",))
        self.assertEqual(tests["a.b"].env, {"VM_KLOG_ALLOW": "rxe"})
        self.assertEqual(tests["a.b@debug"].env, {"VM_KLOG_ALLOW": "rxe", "COUNT": "2"})
        self.assertEqual(tests["a.b@debug"].machines, (Machine("debug", catalogue.DEBUG_SIZE),))

    def test_instructions_are_counted_if_asked_for(self) -> None:
        self.script("a.b")
        self.script("a.c", "# counted: yes")
        self.assertEqual({name: test.counted for name, test in self.read().items()}, {"a.b": False, "a.c": True})

    def test_limits_are_four_times_as_long_on_the_debug_kernel(self) -> None:
        self.script("a.b", "# limit: 60", "# debug: yes")
        tests = self.read()
        self.assertEqual((tests["a.b"].seconds(3), tests["a.b@debug"].seconds(3)), (180, 720))

    def test_client_of_the_debug_kernel_has_the_home_kernel(self) -> None:
        self.script("a.b", "# vms: 2", "# cpus: 2", "# debug: yes")
        tests = self.read()
        self.assertEqual(tests["a.b"].machines, (Machine("7.3", qemu.Size(cpus=2)),) * 2)
        self.assertEqual([machine.kernel for machine in tests["a.b@debug"].machines], ["debug", "7.3"])
        only = self.read(Settings(("debug",)))["a.b"]
        self.assertEqual([machine.kernel for machine in only.machines], ["debug", "debug"])
        chosen = self.read(Settings(ALL.kernels, cpus=4))
        self.assertEqual([machine.size.cpus for machine in chosen["a.b"].machines], [4, 2])
        self.assertEqual([machine.size for machine in chosen["a.b@debug"].machines], [qemu.Size(3072, 4), catalogue.CLIENT_SIZE])

    def test_server(self) -> None:
        self.script("a.both", "# server: both")
        self.script("a.ours")
        self.script("a.stock", "# server: stock")
        self.assertEqual(list(self.read()), ["a.both", "a.ours"])
        self.assertEqual(list(self.read(Settings(("7.3",), "stock"))), ["a.both", "a.stock"])

    def test_long(self) -> None:
        self.script("a.b", "# debug: yes")
        self.script("a.larger", "# debug: yes", "# long: COUNT=9")
        self.script("a.long", "# debug: yes", "# long: yes")
        self.assertEqual([name for name, test in self.read().items() if test.is_long], ["a.long", "a.long@debug"])
        tests = self.read(Settings(ALL.kernels, is_long=True))
        self.assertEqual(
            {name: test.env for name, test in tests.items()}, {"a.larger": {"COUNT": "9"}, "a.long": {}, "a.long@debug": {}}
        )

    def test_files_that_are_no_tests(self) -> None:
        self.script("common", mode=0o644)
        self.script("sizes.py", mode=0o644)
        self.assertEqual(self.read(), {})

    def test_mistakes_end_the_program(self) -> None:
        self.script("a.b", mode=0o644)
        self.assertRaisesRegex(SystemExit, "a.b: not executable", self.read)
        self.script("a.b", "# server: other")
        self.assertRaisesRegex(SystemExit, "a.b: .*server", self.read)

    def test_needs(self) -> None:
        self.script("a.b", "# kernels: all", "# debug: yes")
        self.script("a.c", "# debug: yes", "# vms: 2")
        self.script("a.d", "# needs: build.smb")
        tests = self.read()
        tools = {"build.probe", "build.ctl", "build.fsx", "build.blocks"}
        self.assertEqual(tests["a.b"].needs, {"kernel.7.3", "build.7.3", "build.faults", *tools})
        self.assertEqual(tests["a.b@7.2"].needs, {"kernel.7.2", "build.7.2", *tools})
        self.assertEqual(tests["a.b@debug"].needs, {"kernel.debug", "build.debug", "build.faults@debug", *tools})
        self.assertEqual(tests["a.c@debug"].needs - tests["a.b@debug"].needs, {"kernel.7.3"})
        self.assertEqual(tests["a.d"].needs - tests["a.b"].needs, {"build.smb"})
        builds = names(catalogue.builds(ALL))
        self.assertEqual(builds[:3], ["build.7.3", "build.7.2", "build.debug"])
        needs = {need for test in tests.values() for need in test.needs if not need.startswith("kernel.")}
        self.assertLessEqual(needs, set(builds))


class NeededTest(unittest.TestCase):
    def test_builds_of_the_selected_tests_are_added(self) -> None:
        builds = [Test("build.7.3", 1, ()), Test("build.7.2", 1, ()), Test("build.fsx", 1, ())]
        tests = [builds[1], Test("a.b", 1, (), needs=frozenset({"build.7.3"}))]
        first, others = catalogue.with_needed(tests, builds)
        self.assertEqual((names(first), names(others)), (["build.7.3", "build.7.2"], ["a.b"]))

    def test_only_tests_on_the_debug_kernel_wait_for_it(self) -> None:
        builds = catalogue.builds(ALL)
        debug = {kernel_of("debug")}
        tests = catalogue.host_tests(ALL) + catalogue.guest_tests(ALL, catalogue.TESTS, 180)
        for test in tests:
            first, _ = catalogue.with_needed([test], builds)
            needed = test.needs.union(*(build.needs for build in first))
            self.assertEqual(needed & debug, debug if test.is_debug else set(), test.name)
            # Nor is the kernel made for it, as it would be on a cold cache.
            made = main.wanted_kernels(ALL, first, set(test.machines))
            self.assertEqual("debug" in made, test.is_debug, test.name)

    def test_host_tests_examine_our_code(self) -> None:
        self.assertEqual(catalogue.host_tests(Settings(("7.3",), "stock")), [])
        self.assertEqual(catalogue.host_tests(Settings(("debug",))), [])
        found = {test.name: test for test in catalogue.host_tests(Settings(("7.2",)))}
        self.assertEqual(found["check.stack"].needs, {"build.7.2"})
        self.assertEqual(found["check.shell"].needs, frozenset())


class PackageTest(unittest.TestCase):
    def test_each_test_of_the_packages_is_listed(self) -> None:
        found = sorted(path.name for path in (qemu.TOP / "tools/vm/packages").glob("package.*"))
        self.assertEqual(sorted(names(catalogue.slow_package_tests(ALL))), found)

    def test_the_runner_alone_limits_their_time(self) -> None:
        for test in catalogue.slow_package_tests(ALL):
            options = test.command[test.command.index("tools/vm/server.py") + 1 :]
            self.assertGreaterEqual(server.arguments(list(options)).limit, test.seconds(EMULATED_SLOW), test.name)

    def test_they_need_the_packages(self) -> None:
        built, others = catalogue.with_needed(catalogue.slow_package_tests(ALL), catalogue.builds(ALL))
        self.assertEqual(names(built), ["build.deb"])
        self.assertEqual(names(others), names(catalogue.slow_package_tests(ALL)))
