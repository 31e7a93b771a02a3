# SPDX-License-Identifier: GPL-2.0
"""The order of visits, and the cells of each, without a server."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

from cells import OURS, STOCK, Cell, select
from main import Rig, Run
from samples import Sample, Samples
from verdict import Rule


class FakeRig(Rig):
    def __init__(self) -> None:
        super().__init__(Path("rig"), Path("/mnt"))
        self.done: list[str] = []

    def do(self, *words: str) -> str:
        self.done.append(" ".join(words))
        return ""


class FakeRun(Run):
    """This server is a fifth faster in the first cell, and like the other in the second one."""

    def slices_of(self, cell: Cell, beside: str, number: int) -> None:
        self.rig.do("slice", cell.name, beside)
        faster = 1.2 if cell == self.cells[0] else (1.3, 0.7)[number % 2]
        for server in (*cell.servers, beside):
            self.slices += 1
            self.add(Sample(cell.name, server, beside, number, {"rate": faster if server == OURS else 1.0}))


class RunTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "samples.jsonl"

    def run_all(self, cells: str, *looks: int) -> list[str]:
        """Returns what a run asks of its rig."""
        rig = FakeRig()
        with contextlib.redirect_stdout(io.StringIO()):
            FakeRun(rig, Samples(self.path), select(cells), Rule(looks), 1, "server").all()
        return rig.done

    def test_visits_alternate_with_few_changes(self) -> None:
        done = [words for words in self.run_all("clients.8", 3) if not words.startswith(("mount", "umount"))]
        slices = [words.split()[-1] for words in done if words.startswith("slice")]
        # The first two are the round without samples.
        self.assertEqual(slices, [STOCK, OURS, OURS, STOCK, STOCK, OURS, OURS, STOCK])
        changes = ["serve stock", "unserve", "serve ours", "unserve"]
        self.assertEqual([words for words in done if "serve" in words], [*changes, *changes, "serve stock", "unserve"])

    def test_first_round_has_no_samples(self) -> None:
        self.run_all("clients.8", 1)
        self.assertEqual([(s.round, s.server) for s in Samples(self.path).all], [(1, OURS), (1, STOCK)])

    def test_a_cell_with_a_verdict_gets_no_more_rounds(self) -> None:
        done = self.run_all("stat clients.8", 8, 10)
        self.assertEqual([done.count(f"slice {cell} {OURS}") for cell in ("stat", "clients.8")], [9, 11])

    def test_a_finished_run_does_nothing(self) -> None:
        self.run_all("stat clients.8", 6)
        self.assertEqual(self.run_all("stat clients.8", 6), [])

    def test_a_run_that_was_cut_repeats_nothing(self) -> None:
        self.run_all("stat", 6)
        lines = self.path.read_text().splitlines(keepends=True)
        self.path.write_text("".join(lines[:-2]))
        slices = [words for words in self.run_all("stat", 6) if words.startswith("slice")]
        self.assertEqual(slices, [f"slice stat {server}" for server in (STOCK, OURS, OURS)])

    def test_mounts_have_the_connections_of_their_cells(self) -> None:
        done = self.run_all("randread.4k.d64 connections.read.4k.n16", 1)
        self.assertEqual([words.split("=")[1] for words in done if words.startswith("mount tcp")], ["1", "16"] * 4)
