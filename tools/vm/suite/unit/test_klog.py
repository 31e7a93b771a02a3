# SPDX-License-Identifier: GPL-2.0
"""Complaints of a kernel log, with and without what is allowed."""

import subprocess
import unittest

import qemu

ALLOWED = "WARNING: drivers/infiniband/sw/rxe/rxe_task.c:262 at rxe_sched_task+0x5c/0x70 [rdma_rxe], CPU#0: kworker/u9:1"
TRACE = ["Modules linked in: svcrdma", "Call Trace:", " <TASK>", " refcount_warn_saturate+0x1/0x2", " </TASK>"]
END = "---[ end trace 0000000000000000 ]---"


def complaints(lines: list[str], allowed: str = "") -> list[str]:
    """Returns the lines that fail a test, of a log with these lines."""
    stamped = "".join(f"[   12.345678] {line}\n" for line in lines)
    script = '. "$0" && klog_disallowed "$1" | complaints'
    command = ["bash", "-c", script, f"{qemu.TOP}/tools/vm/klog.sh", allowed]
    done = subprocess.run(command, input=stamped, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    return [line.partition("] ")[2] for line in done.stdout.splitlines()]


class KlogTest(unittest.TestCase):
    def test_a_complaint_is_found(self) -> None:
        lines = ["BUG: unable to handle page fault", *TRACE]
        self.assertEqual(complaints(["all is well", *lines]), [lines[0], "Call Trace:", TRACE[3]])

    def test_an_allowed_warning_is_dropped_with_its_trace(self) -> None:
        self.assertEqual(complaints([ALLOWED, *TRACE, END, "all is well"]), [])

    def test_a_complaint_after_the_trace_is_found(self) -> None:
        self.assertEqual(complaints([ALLOWED, *TRACE, END, "BUG: x"]), ["BUG: x"])

    def test_a_complaint_within_an_allowed_trace_is_found(self) -> None:
        for line in "BUG: x", "WARNING: kernel/x.c:1 at f", "Oops: general protection fault", "rust_kernel: panicked at a.rs:1":
            self.assertEqual(complaints([ALLOWED, *TRACE[:1], line, *TRACE[1:], END]), [line, "Call Trace:", TRACE[3]])

    def test_an_allowed_trace_without_an_end_is_bounded(self) -> None:
        late = "unreferenced object: a leak"
        self.assertEqual(complaints([ALLOWED, *TRACE, *["frame"] * 90, late]), [])
        self.assertEqual(complaints([ALLOWED, *TRACE, *["frame"] * 100, late]), [late])

    def test_two_allowed_warnings(self) -> None:
        self.assertEqual(complaints([ALLOWED, *TRACE, ALLOWED, *TRACE, END, "a leak"]), ["a leak"])

    def test_an_allowed_line_takes_no_other_with_it(self) -> None:
        self.assertEqual(complaints(["BUG: this", "Call Trace:"], "BUG: (this|that)$"), ["Call Trace:"])
        self.assertEqual(complaints(["BUG: this", "BUG: those"], "BUG: (this|that)$"), ["BUG: those"])
