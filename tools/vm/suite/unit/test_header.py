# SPDX-License-Identifier: GPL-2.0
"""Headers of tests in tools/vm."""

import unittest

from suite.header import Header
from suite.settings import Settings

ALL = Settings(("7.3", "7.2", "debug"))
DEBUG_ONLY = Settings(("debug",))


def kernels(lines: str, settings: Settings = ALL) -> list[str]:
    return [kernel for kernel in settings.kernels if Header(lines).runs_on(kernel, settings)]


class HeaderTest(unittest.TestCase):
    def test_keys_end_with_the_comments(self) -> None:
        header = Header("#!/bin/bash\n# limit: 30\n# A sentence: no key.\n. guest.sh\n# limit: 60\n")
        self.assertEqual(header.number("limit", 180), 30)

    def test_defaults(self) -> None:
        header = Header("#!/bin/bash\n")
        self.assertEqual((header.number("limit", 180), header.server, header.klog_allow), (180, "ours", ""))
        self.assertEqual(kernels(""), ["7.3"])

    def test_remark_behind_a_value(self) -> None:
        header = Header("# vms: 2              or 1\n# server: both        or ours\n# klog-allow: a b|c\n")
        self.assertEqual((header.number("vms", 1), header.server, header.klog_allow), (2, "both", "a b|c"))

    def test_kernels(self) -> None:
        self.assertEqual(kernels("# kernels: all FILES=8"), ["7.3", "7.2"])
        self.assertEqual(kernels("# kernels: 7.2"), ["7.3", "7.2"])
        self.assertEqual(kernels("# kernels: none\n# debug: yes"), ["debug"])
        self.assertEqual(kernels("# debug: COUNT=1"), ["7.3", "debug"])
        self.assertEqual(kernels("# kernels: only 7.3   a remark"), ["7.3"])
        self.assertEqual(kernels("# kernels: only 7.3", Settings(("7.2",))), [])

    def test_debug_kernel_has_tests_that_say_so(self) -> None:
        self.assertEqual(kernels("# debug: COUNT=1", DEBUG_ONLY), ["debug"])
        self.assertEqual(kernels("# limit: 3", DEBUG_ONLY), [])

    def test_long_tests(self) -> None:
        long = Settings(("7.3", "7.2", "debug"), is_long=True)
        self.assertEqual(kernels("# kernels: all\n# debug: yes", long), [])
        self.assertEqual(kernels("# kernels: all\n# debug: yes\n# long: yes   as x has it", long), ["7.3", "7.2", "debug"])
        self.assertEqual(kernels("# kernels: all\n# debug: yes\n# long: COUNT=9", long), ["7.3"])
        header = Header("# long: COUNT=9\n# debug: COUNT=1\n")
        self.assertFalse(header.is_long)
        self.assertEqual((header.variables("7.3", ALL), header.variables("7.3", long)), ({}, {"COUNT": "9"}))
        header = Header("# long: yes   as x has it\n# debug: COUNT=1\n")
        self.assertTrue(header.is_long)
        self.assertEqual((header.variables("7.3", long), header.variables("debug", long)), ({}, {"COUNT": "1"}))

    def test_variables_of_the_caller(self) -> None:
        environ = {"CELLS": "stat", "ROUNDS": "", "TESTS": "bench.io"}
        self.assertEqual(Header("# takes: CELLS ROUNDS FROM\n").taken(environ), {"CELLS": "stat"})
        self.assertEqual(Header("# limit: 3\n").taken(environ), {})

    def test_variables_are_for_other_kernels_than_home(self) -> None:
        header = Header("# kernels: all FILES=8 QUICK=\n# debug: alone COUNT=100 A=b=c\n")
        self.assertEqual(header.variables("7.3", ALL), {})
        self.assertEqual(header.variables("7.2", ALL), {"FILES": "8", "QUICK": ""})
        self.assertEqual(header.variables("debug", ALL), {"COUNT": "100", "A": "b=c"})

    def test_variables_of_the_caller_come_first(self) -> None:
        header = Header("# debug: COUNT=100 SIZE=1\n")
        settings = Settings(("7.3", "debug"), variables={"COUNT": "7"})
        self.assertEqual(header.variables("debug", settings), {"COUNT": "7", "SIZE": "1"})
        self.assertEqual(header.variables("7.3", settings), {"COUNT": "7"})
