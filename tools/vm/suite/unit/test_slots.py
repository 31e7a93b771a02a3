# SPDX-License-Identifier: GPL-2.0
"""Slots: how many there are, and who waits for them."""

import threading
import unittest

from suite.slots import Slots, slots_of


class SlotsTest(unittest.TestCase):
    def test_two_for_each_cpu_and_one_more_as_far_as_memory_goes(self) -> None:
        self.assertEqual(slots_of(2, 16 << 10), 5)
        self.assertEqual(slots_of(2, 10 << 10), 3)
        self.assertEqual(slots_of(1, 1 << 10), 2)
        self.assertEqual(slots_of(16, 64 << 10), 21)

    def test_no_test_takes_more_than_all(self) -> None:
        slots = Slots(1)
        self.assertEqual(slots.take(2), 1)
        slots.give(1)
        self.assertEqual(slots.take(1), 1)

    def test_taker_waits_until_enough_are_free(self) -> None:
        slots = Slots(3)
        slots.take(2)
        taken = threading.Event()

        def take() -> None:
            slots.take(2)
            taken.set()

        thread = threading.Thread(target=take)
        thread.start()
        self.assertFalse(taken.wait(0.1))
        slots.give(2)
        thread.join()
        self.assertTrue(taken.is_set())
