#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Measures NFS at the file: this server, the kernel's own, and TCP, in turns.

A round is a visit to each of the two servers over RDMA. In a visit each cell that has no verdict yet has a slice over RDMA and one
over TCP. Visits are in the order ABBA, so that what changes slowly meets both alike, and two of the same server need no change.

The rig is a program with these commands, of which a failure ends the run:

    serve ours|stock         starts that server over RDMA and TCP, with a file "data" in its export
    unserve                  stops it
    mount rdma|tcp DIR OPTIONS, umount DIR
    begin, end               begin and end a slice; end prints "rpcs N" and other "NAME NUMBER" of the server meanwhile
    fabric                   prints the answer of `rpcrdma-probe fabric --format json`, or nothing
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from cells import OURS, STOCK, TCP, Cell, select
from report import write
from samples import Sample, Samples, figures_of_fio, figures_of_probe, per_rpc
from verdict import Rule

VISITS = (OURS, STOCK)
# The round without samples.
WARM_UP = 0
# A subset has one look. Six is the smallest number of pairs that has an interval of 95 %.
RULES = {"quick": Rule((6,)), "all": Rule((8, 14, 20))}


class Rig:
    def __init__(self, program: Path, mounts: Path):
        self.program = program.resolve()
        self.mounts = mounts

    def do(self, *words: str) -> str:
        return subprocess.run([self.program, *words], stdout=subprocess.PIPE, text=True, check=True).stdout


class Run:
    """The rounds that are left."""

    def __init__(self, rig: Rig, samples: Samples, cells: list[Cell], rule: Rule, seconds: float, server: str):
        self.rig, self.samples, self.cells, self.rule = rig, samples, cells, rule
        self.seconds, self.server = seconds, server
        self.serving = ""
        self.begin, self.slices = time.monotonic(), 0

    def all(self) -> None:
        for number in range(WARM_UP, self.rule.looks[-1] + 1):
            cells = [cell for cell in self.cells if not self.samples.has_ended(cell, VISITS, self.rule)]
            for beside in VISITS if number % 2 else reversed(VISITS):
                missing = [cell for cell in cells if number not in self.samples.values(cell, beside, beside, "rate")]
                if missing:
                    self.visit(beside, number, missing)
        self.change("")

    def change(self, server: str) -> None:
        if self.serving not in ("", server):
            self.rig.do("unserve")
        if server and server != self.serving:
            self.rig.do("serve", server)
        self.serving = server

    def visit(self, beside: str, number: int, cells: list[Cell]) -> None:
        self.change(beside)
        for nconnect in sorted({cell.nconnect for cell in cells}):
            for protocol in ("rdma", "tcp"):
                self.rig.do("mount", protocol, str(self.rig.mounts / protocol), f"nconnect={nconnect}")
            for cell in cells:
                if cell.nconnect == nconnect:
                    self.slices_of(cell, beside, number)
            for protocol in ("rdma", "tcp"):
                self.rig.do("umount", str(self.rig.mounts / protocol))

    def slices_of(self, cell: Cell, beside: str, number: int) -> None:
        """Measures the cell over TCP first: a round is complete with the slice over RDMA."""
        for server in (*cell.servers, beside):
            mount = self.rig.mounts / ("tcp" if server == TCP else "rdma")
            self.rig.do("begin")
            command = cell.command(mount, self.server, self.seconds)
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            counted = per_rpc(self.rig.do("end"))
            found = figures_of_fio(done.stdout) if cell.program == "fio" else figures_of_probe(done.stdout, cell.size)
            self.slices += 1
            self.add(Sample(cell.name, server, beside, number, found | counted))

    def add(self, sample: Sample) -> None:
        """Keeps a sample, unless its round is the first one, and prints the progress."""
        if sample.round != WARM_UP:
            self.samples.add(sample)
        where = f"round {sample.round}, {sample.beside}: {sample.cell} over {sample.server}"
        print(f"{where}: {sample.figures['rate']:.0f} per second; {self.left(sample.round)}", flush=True)

    def left(self, number: int) -> str:
        """Returns how long the run takes until the next look and at most, at the speed so far."""
        done = sum(1 for s in self.samples.all)
        each = (time.monotonic() - self.begin) / self.slices
        per_round = sum(len(VISITS) * (1 + len(cell.servers)) for cell in self.cells)
        look = next(look for look in self.rule.looks if look >= number)
        until, most = (max(0, per_round * rounds - done) * each / 60 for rounds in (look, self.rule.looks[-1]))
        return f"{until:.0f} min to the next verdicts, {most:.0f} at most"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rig", type=Path, required=True, help="the program that controls the server")
    parser.add_argument("--server", required=True, help="address of the server")
    parser.add_argument("--out", type=Path, required=True, help="folder of the results; one that has samples is continued")
    parser.add_argument("--mounts", type=Path, default=Path("/mnt"), help="folder of the mount points")
    parser.add_argument("--cells", default="quick", help="quick, all, or patterns of names")
    parser.add_argument("--seconds", type=float, default=2, help="length of a slice")
    parser.add_argument("--rounds", type=int, help="judge after these rounds alone")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    try:
        cells = select(args.cells)
    except ValueError as error:
        sys.exit(str(error))
    rule = Rule((args.rounds,)) if args.rounds else RULES.get(args.cells, RULES["all"])
    args.out.mkdir(parents=True, exist_ok=True)
    rig, samples = Rig(args.rig, args.mounts), Samples(args.out / "samples.jsonl")
    fabric = args.out / "fabric.json"
    if not fabric.exists():
        fabric.write_text(rig.do("fabric"), encoding="utf-8")
    Run(rig, samples, cells, rule, args.seconds, args.server).all()
    return write(args.out, cells, samples, rule, fabric.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main())
