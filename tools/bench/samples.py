# SPDX-License-Identifier: GPL-2.0
"""Samples: what one slice has measured, and the file that keeps them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from cells import Cell
from verdict import Interval, Rule, Verdict, interval, verdict


@dataclass(frozen=True)
class Sample:
    """One slice. `beside` is the server over RDMA that was loaded: it differs from `server` for TCP."""

    cell: str
    server: str
    beside: str
    round: int
    # By name: rate (per second), bytes (per second), p50, p99, p99.9 (us), and for each RPC what the rig counts.
    figures: dict[str, float]


def figures_of_fio(output: str) -> dict[str, float]:
    """Returns the figures of fio's only job, of the direction that has any I/O."""
    job = json.loads(output)["jobs"][0]
    way = max(("read", "write"), key=lambda each: job[each]["total_ios"])
    found = job[way]
    times = found["clat_ns"].get("percentile") or found["lat_ns"].get("percentile", {})
    percentiles = {f"p{float(name):g}": ns / 1000 for name, ns in times.items() if float(name) in (50, 99, 99.9)}
    return {"rate": found["iops"], "bytes": found["bw_bytes"]} | percentiles


def figures_of_probe(output: str, size: int) -> dict[str, float]:
    found = json.loads(output)
    rate, times = found["calls_per_second"], found["times"]
    percentiles = {name: times[f"{key}_ns"] / 1000 for name, key in (("p50", "p50"), ("p99", "p99"), ("p99.9", "p99_9"))}
    return {"rate": rate, "bytes": rate * size} | percentiles


def per_rpc(output: str) -> dict[str, float]:
    """Returns what the rig has counted for each RPC, from its lines "NAME NUMBER"."""
    counted = {name: float(number) for name, number in (line.split() for line in output.splitlines())}
    rpcs = counted.pop("rpcs")
    if rpcs <= 0:
        raise ValueError("the server has processed no RPC")
    return {name: number / rpcs for name, number in counted.items()} | {"rpcs": rpcs}


class Samples:
    """All samples of a run, and the file to which each is appended, a JSON document in a line.

    A run that was cut off may leave a part of a line. It is removed, so that the next sample begins a line.
    """

    def __init__(self, path: Path):
        self.path = path
        text = path.read_bytes() if path.exists() else b""
        complete = text[: text.rfind(b"\n") + 1]
        if complete != text:
            os.truncate(path, len(complete))
        self.all = [Sample(**json.loads(line)) for line in complete.splitlines()]

    def add(self, sample: Sample) -> None:
        self.all.append(sample)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(sample)) + "\n")

    def values(self, cell: Cell, server: str, beside: str, figure: str) -> dict[int, float]:
        """Returns a figure by round."""
        found = (s for s in self.all if (s.cell, s.server, s.beside) == (cell.name, server, beside))
        return {s.round: s.figures[figure] for s in found if s.figures.get(figure)}

    def median(self, cell: Cell, server: str, figure: str) -> float | None:
        """Returns the median of all slices of that server, whatever was loaded beside it."""
        found = [s.figures[figure] for s in self.all if (s.cell, s.server) == (cell.name, server) and figure in s.figures]
        return median(found) if found else None

    def compare(self, cell: Cell, one: tuple[str, str], other: tuple[str, str], figure: str, confidence: float) -> Interval | None:
        """Returns the interval of the ratios of a figure; `one` and `other` are a server and what it was beside."""
        first, second = self.values(cell, *one, figure), self.values(cell, *other, figure)
        return interval([first[n] / second[n] for n in sorted(first.keys() & second.keys())], confidence)

    def rounds(self, cell: Cell, visits: Iterable[str]) -> int:
        """Returns how many rounds of a cell are complete."""
        keys = [(server, beside) for beside in visits for server in (beside, *cell.servers)]
        return min(len(self.values(cell, *key, "rate")) for key in keys)

    def has_ended(self, cell: Cell, visits: tuple[str, str], rule: Rule) -> bool:
        """Returns true if the cell needs no more rounds."""
        rounds = self.rounds(cell, visits)
        found = self.compare(cell, (visits[0], visits[0]), (visits[1], visits[1]), "rate", rule.confidence)
        return rule.ends(rounds, verdict(found))


__all__ = ["Sample", "Samples", "Verdict", "figures_of_fio", "figures_of_probe", "per_rpc"]
