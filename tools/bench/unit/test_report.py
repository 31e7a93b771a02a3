# SPDX-License-Identifier: GPL-2.0
"""Samples, the cells that still need rounds, and the report."""

import contextlib
import io
import json
import tempfile
import unittest
import xml.etree.ElementTree as tree
from pathlib import Path

from cells import CELLS, OURS, QUICK, STOCK, TCP, Cell, select
from report import write
from samples import Sample, Samples, figures_of_fio, per_rpc
from verdict import Rule

RULE = Rule((6,))
VISITS = (OURS, STOCK)
WRITE, CLIENTS = select("record.write.64k clients.8")


class RunTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.samples = Samples(self.folder / "samples.jsonl")

    def add(self, cell: Cell, rounds: int, ours: float, tcp: float = 100) -> None:
        """Adds rounds in which the stock server makes 100 per second."""
        for number in range(1, rounds + 1):
            for server, beside, rate in ((OURS, OURS, ours), (STOCK, STOCK, 100), (TCP, OURS, tcp), (TCP, STOCK, tcp)):
                if server in (beside, *cell.servers):
                    figures = {"rate": rate, "bytes": rate * cell.size, "p99": 1e6 / rate, "stack": 9000}
                    self.samples.add(Sample(cell.name, server, beside, number, figures))

    def report(self, cells: list[Cell]) -> tuple[int, str, dict[str, dict[str, object]]]:
        with contextlib.redirect_stdout(io.StringIO()):
            status = write(self.folder, cells, self.samples, RULE, "")
        document = json.loads((self.folder / "report.json").read_text())
        return status, (self.folder / "report.txt").read_text(), {each["cell"]: each for each in document["cells"]}

    def test_a_run_continues_where_its_file_ends(self) -> None:
        self.add(WRITE, 5, 120)
        self.assertFalse(self.samples.has_ended(WRITE, VISITS, RULE))
        again = Samples(self.samples.path)
        self.assertEqual((again.all, again.rounds(WRITE, VISITS)), (self.samples.all, 5))

    def test_a_line_that_was_cut_off_is_measured_again(self) -> None:
        self.add(CLIENTS, 1, 120)
        path, samples = self.samples.path, self.samples.all
        whole = path.read_text()
        path.write_text(whole[:-9])
        again = Samples(path)
        self.assertEqual(again.all, samples[:-1])
        again.add(samples[-1])
        self.assertEqual((path.read_text(), Samples(path).all), (whole, samples))

    def test_a_round_needs_each_server(self) -> None:
        self.add(WRITE, 6, 120)
        self.assertTrue(self.samples.has_ended(WRITE, VISITS, RULE))
        del self.samples.all[-1]
        self.assertEqual(self.samples.rounds(WRITE, VISITS), 5)

    def test_a_faster_server_meets_its_goals(self) -> None:
        self.add(WRITE, 6, 120)
        status, text, cells = self.report([WRITE])
        self.assertEqual((status, cells[WRITE.name]["verdict"]), (0, "above"))
        self.assertIn("median of the ratios to the stock server: 1.20", text)

    def test_a_slower_server_misses_one(self) -> None:
        self.add(CLIENTS, 6, 90)
        status, text, cells = self.report([CLIENTS])
        self.assertEqual((status, cells[CLIENTS.name]["verdict"]), (1, "below"))
        self.assertIn("missed: clients.8: slower than the stock server", text)
        self.assertEqual(cells[CLIENTS.name]["samples"], {OURS: 6, STOCK: 6, TCP: 0})

    def test_a_write_that_is_slower_than_tcp_misses_one(self) -> None:
        self.add(WRITE, 6, 120, tcp=150)
        status, text, _ = self.report([WRITE])
        self.assertEqual(status, 1)
        self.assertIn("missed: record.write.64k: slower than TCP", text)

    def test_too_few_rounds_are_no_verdict(self) -> None:
        self.add(WRITE, 5, 50)
        status, _, cells = self.report([WRITE])
        self.assertEqual((status, cells[WRITE.name]["verdict"]), (0, "open"))

    def test_the_picture_has_an_interval_for_each_comparison(self) -> None:
        self.add(WRITE, 6, 120)
        self.add(CLIENTS, 6, 120)
        self.report([WRITE, CLIENTS])
        circles = tree.parse(self.folder / "report.svg").getroot().findall("{http://www.w3.org/2000/svg}circle")
        self.assertEqual(len(circles), 3)


class InputTest(unittest.TestCase):
    def test_names_of_cells(self) -> None:
        self.assertEqual(len({cell.name for cell in CELLS}), len(CELLS))
        self.assertEqual(len(select("quick")), len(QUICK))
        self.assertEqual(select("all"), list(CELLS))
        self.assertEqual([cell.name for cell in select("clients.8 stat")], ["stat", "clients.8"])
        with self.assertRaisesRegex(ValueError, "none"):
            select("stat none")

    def test_fio(self) -> None:
        none = {"total_ios": 0, "iops": 0, "bw_bytes": 0, "clat_ns": {}, "lat_ns": {}}
        times = {"50.000000": 2000, "90.000000": 3000, "99.000000": 4000, "99.900000": 5000}
        some = {"total_ios": 9, "iops": 4.5, "bw_bytes": 18432, "clat_ns": {"percentile": times}, "lat_ns": {}}
        found = figures_of_fio(json.dumps({"jobs": [{"read": none, "write": some}]}))
        self.assertEqual(found, {"rate": 4.5, "bytes": 18432, "p50": 2, "p99": 4, "p99.9": 5})

    def test_what_the_rig_counts(self) -> None:
        self.assertEqual(per_rpc("rpcs 4\nstack 1000\n"), {"rpcs": 4, "stack": 250})
        with self.assertRaises(ValueError):
            per_rpc("rpcs 0\nstack 1000\n")
