# SPDX-License-Identifier: GPL-2.0
"""The lock diagram, and the files of lockdep."""

import unittest

from lockdep import Locks, arrows, classes, compare, drawn
from qemu import TOP

DIAGRAM = """\
// A comment -> of words
digraph locks {
	node [shape=box];
	device [label="\\N\\nmade"];
	"send queue" [label="\\N\\nposted"];
	device -> "send queue";
}
"""
LOCKDEP = """\
all lock classes:
000000005f1c21a8 OPS:      12 FD:   27 BD:    1 +.+.: svcrdma device
 -> [00000000e1f2a2b1] svcrdma send queue

00000000e1f2a2b1 FD:    1 BD:   14 ....: svcrdma send queue
00000000a1f2a2b2 FD:    9 BD:    3 +.+.: svcrdma close work
00000000a1f2a2b3 FD:    9 BD:    3 +.+.: &xprt->xpt_mutex
"""
CHAINS = """\
all lock chains:
irq_context: 0
[00000000a1f2a2b2] svcrdma close work
[000000005f1c21a8] svcrdma device
[00000000a1f2a2b3] &xprt->xpt_mutex
[00000000e1f2a2b1] svcrdma send queue

irq_context: 0
[00000000e1f2a2b1] svcrdma send queue

"""
SEEN = Locks({"device", "send queue"}, {("device", "send queue")})


class LockdepTest(unittest.TestCase):
    def test_classes_without_work_and_locks_of_others(self) -> None:
        self.assertEqual(classes(LOCKDEP.splitlines()), SEEN.classes)

    def test_locks_of_others_in_between_are_skipped(self) -> None:
        self.assertEqual(arrows(CHAINS.splitlines()), SEEN.arrows)

    def test_a_class_with_the_name_of_another_one_is_not_in_the_diagram(self) -> None:
        self.assertEqual(classes(["00000000e1f2a2b1 FD:    1 BD:   14 ....: svcrdma device#2"]), {"device#2"})

    def test_a_lock_without_a_name_is_not_in_the_diagram(self) -> None:
        self.assertEqual(
            classes(["00000000e1f2a2b1 FD:    1 BD:   14 ....: rust/svc/conn/quota.rs:108"]), {"rust/svc/conn/quota.rs:108"}
        )

    def test_whole_diagram(self) -> None:
        self.assertEqual(compare(SEEN, drawn(DIAGRAM.splitlines())), [])

    def test_each_line_is_needed(self) -> None:
        lines = DIAGRAM.splitlines()
        for line in lines[3:6]:
            self.assertTrue(compare(SEEN, drawn(each for each in lines if each != line)), line)

    def test_arrows_may_lead_through_others(self) -> None:
        diagram = Locks({"a", "b", "c"}, {("a", "b"), ("b", "c")})
        self.assertEqual(compare(Locks({"a", "c"}, {("a", "c")}), diagram), [])
        for arrow in ("c", "a"), ("a", "a"):
            self.assertEqual(len(compare(Locks({"a", "c"}, {arrow}), diagram)), 1)

    def test_no_circle(self) -> None:
        diagram = Locks({"a", "b"}, {("a", "b"), ("b", "a")})
        self.assertEqual(len(compare(Locks(), diagram)), 2)

    def test_two_arrows_on_a_line(self) -> None:
        with self.assertRaises(ValueError):
            drawn(["\tdevice -> lane -> inbox;"])

    def test_the_diagram_of_the_documentation(self) -> None:
        found = drawn((TOP / "Documentation/diagrams/locks.dot").read_text(encoding="utf-8").splitlines())
        self.assertEqual(compare(found, found), [])
        self.assertIn(("ports", "listener"), found.arrows)


if __name__ == "__main__":
    unittest.main()
