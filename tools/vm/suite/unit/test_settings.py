# SPDX-License-Identifier: GPL-2.0
"""Environment variables of make test."""

import unittest

from suite.settings import Settings


def families() -> list[str]:
    return ["7.3", "7.2"]


class SettingsTest(unittest.TestCase):
    def test_nothing_set_means_all_families_and_the_debug_kernel(self) -> None:
        settings = Settings.read({}, families)
        self.assertEqual(settings, Settings(("7.3", "7.2", "debug"), "ours", 1, ()))
        self.assertEqual(settings.home, "7.3")
        self.assertFalse(settings.is_debug_only)

    def test_kernel_chooses_one(self) -> None:
        self.assertEqual(Settings.read({"KERNEL": "7.2"}, families).kernels, ("7.2",))
        self.assertTrue(Settings.read({"KERNEL": "debug"}, families).is_debug_only)

    def test_stock_server_has_no_debug_kernel(self) -> None:
        self.assertEqual(Settings.read({"SERVER": "stock"}, families).kernels, ("7.3", "7.2"))

    def test_empty_values_count_as_not_set(self) -> None:
        environ = dict.fromkeys(("KDIR", "KERNEL", "SERVER", "SLOW", "TESTS"), "")
        self.assertEqual(Settings.read(environ, families), Settings.read({}, families))

    def test_slow_and_patterns(self) -> None:
        settings = Settings.read({"SLOW": "2.5", "TESTS": "wire  life.*"}, families)
        self.assertEqual((settings.slow, settings.patterns), (2.5, ("wire", "life.*")))

    def test_minutes(self) -> None:
        self.assertEqual(Settings.read({"MINUTES": "72"}, families).minutes, 72)
        self.assertIsNone(Settings.read({"MINUTES": ""}, families).minutes)
        with self.assertRaisesRegex(SystemExit, "MINUTES=x: not a number above 0"):
            Settings.read({"MINUTES": "x"}, families)

    def test_variables(self) -> None:
        settings = Settings.read({"WITH": "SEED=7  NAME=a=b EMPTY="}, families)
        self.assertEqual(settings.variables, {"SEED": "7", "NAME": "a=b", "EMPTY": ""})

    def test_cpus(self) -> None:
        self.assertEqual(Settings.read({"CPUS": "4"}, families).cpus, 4)

    def test_wrong_values_are_refused(self) -> None:
        for environ in (
            {"CPUS": "many"},
            {"WITH": "7"},
            {"WITH": "A=1 =2"},
            {"KDIR": "/x"},
            {"SERVER": "other"},
            {"SLOW": "much"},
            {"SLOW": "0"},
            {"SLOW": "nan"},
        ):
            with self.subTest(environ), self.assertRaises(SystemExit):
                Settings.read(environ, families)
