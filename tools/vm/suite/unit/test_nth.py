# SPDX-License-Identifier: GPL-2.0
"""The sweeps of nth.py, with calls that count their allocations."""

import contextlib
import io
import unittest
from unittest import mock

import nth


class NthTest(unittest.TestCase):
    def sweep(self, allocations: int, step: int, error: str = "ENOMEM") -> bool:
        """Sweeps a call that makes so many allocations and returns the error if one of them fails."""

        def fails(_call: object, number: int) -> tuple[str, bool]:
            return (error, True) if number <= allocations else ("OK", False)

        self.output = io.StringIO()
        with mock.patch.object(nth, "fails", fails), contextlib.redirect_stdout(self.output):
            return nth.sweep(step, "read", nth.nothing)

    def test_each_allocation_fails_once(self) -> None:
        self.assertTrue(self.sweep(20, 1))
        self.assertIn("20 allocations: {'ENOMEM': 20}", self.output.getvalue())

    def test_one_in_step_fails(self) -> None:
        self.assertTrue(self.sweep(20, 7))
        self.assertIn("3 allocations", self.output.getvalue())

    def test_call_without_end_fails(self) -> None:
        for step in (1, 7):
            # Each of these allocations is optional, so the last one is no error.
            self.assertFalse(self.sweep(nth.MOST, step, "OK"))
            self.assertIn("has not ended", self.output.getvalue())

    def test_call_without_allocations_fails(self) -> None:
        self.assertFalse(self.sweep(0, 1))

    def test_error_not_of_memory_fails(self) -> None:
        self.assertFalse(self.sweep(5, 1, "EIO"))


if __name__ == "__main__":
    unittest.main()
