# SPDX-License-Identifier: GPL-2.0
"""The results of a run as text, CSV, JSON and SVG."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from cells import OURS, STOCK, TCP, Cell
from samples import Samples
from verdict import Interval, Rule, Verdict, verdict

# The comparisons: of what with what, each a server and the one it was beside. The last one compares TCP with itself: an
# interval without 1 there says that the visits differ in more than the server.
PAIRS = {
    "ours/stock": ((OURS, OURS), (STOCK, STOCK)),
    "ours/tcp": ((OURS, OURS), (TCP, OURS)),
    "stock/tcp": ((STOCK, STOCK), (TCP, STOCK)),
    "tcp/tcp": ((TCP, OURS), (TCP, STOCK)),
}
SERVERS = (OURS, STOCK, TCP)
# Compared beside the rate, as far as the rig has them.
COMPARED = ("p50", "p99", "p99.9", "transport", "stack", "server", "cpu_ns")
# The RDMA that the server's device does for an operation, in the answer of rpcrdma-probe fabric.
FABRIC = {"read": "push", "write": "pull"}


def fabric_limits(text: str) -> dict[tuple[str, int], float]:
    """Returns bytes per second by operation and size: the best of all depths."""
    limits: dict[tuple[str, int], float] = {}
    for cell in json.loads(text)["cells"] if text.strip() else []:
        key = (cell["operation"], cell["size"])
        limits[key] = max(limits.get(key, 0), cell["per_second"]["median"] * cell["size"])
    return limits


def results(cells: Sequence[Cell], samples: Samples, rule: Rule, fabric: str) -> list[dict[str, Any]]:
    """Returns a document for each cell that has samples."""
    limits = fabric_limits(fabric)
    return [result(cell, samples, rule, limits) for cell in cells if samples.values(cell, OURS, OURS, "rate")]


def result(cell: Cell, samples: Samples, rule: Rule, limits: dict[tuple[str, int], float]) -> dict[str, Any]:
    figures = sorted({name for s in samples.all if s.cell == cell.name for name in s.figures})
    servers = {server: {name: samples.median(cell, server, name) for name in figures} for server in SERVERS}
    rates = {pair: samples.compare(cell, *sides, "rate", rule.confidence) for pair, sides in PAIRS.items()}
    others = {name: samples.compare(cell, *PAIRS["ours/stock"], name, rule.confidence) for name in COMPARED if name in figures}
    return {
        "cell": cell.name,
        "rounds": samples.rounds(cell, (OURS, STOCK)),
        "samples": {server: sum((s.cell, s.server) == (cell.name, server) for s in samples.all) for server in SERVERS},
        "medians": {server: found for server, found in servers.items() if found.get("rate")},
        "fabric_bytes": limits.get((FABRIC.get(cell.way, ""), cell.size)),
        "rate_ratios": {pair: found and found._asdict() for pair, found in rates.items()},
        "ours_to_stock": {name: found and found._asdict() for name, found in others.items()},
        "verdict": verdict(rates["ours/stock"]).value,
    }


def as_interval(found: dict[str, float] | None) -> Interval | None:
    return Interval(**found) if found else None


def ratio(found: dict[str, float] | None) -> str:
    return f"{found['ratio']:5.2f} [{found['low']:.2f} {found['high']:.2f}]" if found else "-"


def number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def rates_table(found: list[dict[str, Any]]) -> list[str]:
    head = f"{'cell':26} {'rounds':>6} {'ours':>8} {'stock':>8} {'tcp':>8} {'fabric':>8}  {'ours/stock':18} {'verdict':7} "
    lines = [head + f"{'ours/tcp':18} {'stock/tcp':18} tcp/tcp"]
    for each in found:
        medians = [each["medians"].get(server, {}).get("rate") for server in SERVERS]
        rates = " ".join(f"{number(rate, 1):>8}" for rate in medians)
        # The limit in operations per second, as the rates are.
        limit = each["fabric_bytes"] / median_size(each) if each["fabric_bytes"] else None
        ratios = {pair: ratio(interval) for pair, interval in each["rate_ratios"].items()}
        lines.append(
            f"{each['cell']:26} {each['rounds']:6} {rates} {number(limit, 1):>8}  {ratios['ours/stock']:18} {each['verdict']:7} "
            f"{ratios['ours/tcp']:18} {ratios['stock/tcp']:18} {ratios['tcp/tcp']}"
        )
    return lines


def median_size(each: dict[str, Any]) -> float:
    ours = each["medians"][OURS]
    return float(ours["bytes"] / ours["rate"])


def details_table(found: list[dict[str, Any]]) -> list[str]:
    """Returns latencies and costs of the servers, and the ratio of each."""
    lines = [f"{'cell':26} {'figure':10} {'ours':>10} {'stock':>10} {'tcp':>10}  ours/stock"]
    for each in found:
        for name, compared in each["ours_to_stock"].items():
            values = " ".join(f"{number(each['medians'].get(server, {}).get(name)):>10}" for server in SERVERS)
            lines.append(f"{each['cell']:26} {name:10} {values}  {ratio(compared)}")
    return lines


def goals(found: list[dict[str, Any]]) -> list[str]:
    """Returns a line for each cell in which this server is slower, and the median of all cells."""
    intervals = {each["cell"]: as_interval(each["rate_ratios"]["ours/stock"]) for each in found}
    missed = [f"missed: {cell}: slower than the stock server" for cell, i in intervals.items() if verdict(i) is Verdict.BELOW]
    tcp = {each["cell"]: as_interval(each["rate_ratios"]["ours/tcp"]) for each in found if each["cell"].startswith("record.write")}
    missed += [
        f"missed: {cell}: slower than TCP" for cell, i in tcp.items() if verdict(i) is Verdict.BELOW and not cell.endswith(".1k")
    ]
    known = [i.ratio for i in intervals.values() if i]
    return [*missed, f"median of the ratios to the stock server: {median(known):.2f}" if known else "no cell has an interval yet"]


def picture(found: list[dict[str, Any]], pairs: Sequence[str] = ("ours/stock", "ours/tcp")) -> str:
    """Returns an SVG with the interval of each cell on a logarithmic axis."""
    colours, left, width, row = ("#1f5fa8", "#b8860b"), 190, 420, 22
    intervals = [(each["cell"], [as_interval(each["rate_ratios"][pair]) for pair in pairs]) for each in found]
    ends = [abs(math.log(end)) for _, both in intervals for i in both if i for end in (i.low, i.high)]
    most = max([*ends, math.log(2)])
    height = row * (len(intervals) + 2)

    def x(value: float) -> float:
        return left + width / 2 * (1 + math.log(value) / most)

    size = f'width="{left + width + 20}" height="{height}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">']
    parts.append('<rect width="100%" height="100%" fill="white"/>')
    for tick in (0.1, 0.25, 0.5, 1, 2, 4, 10):
        if abs(math.log(tick)) <= most:
            colour = "#555" if tick == 1 else "#ddd"
            parts.append(f'<line x1="{x(tick):.1f}" y1="4" x2="{x(tick):.1f}" y2="{height - 18}" stroke="{colour}"/>')
            parts.append(f'<text x="{x(tick):.1f}" y="{height - 5}" text-anchor="middle">{tick:g}</text>')
    for pair, colour, at in zip(pairs, colours, (4, 90), strict=True):
        parts.append(f'<text x="{at}" y="{row - 6}" fill="{colour}">{pair}</text>')
    for line, (cell, both) in enumerate(intervals, 1):
        parts.append(f'<text x="4" y="{row * line + 15}">{cell}</text>')
        for i, colour, down in zip(both, colours, (7, 14), strict=True):
            if i:
                y = row * line + down
                parts.append(
                    f'<line x1="{x(i.low):.1f}" y1="{y}" x2="{x(i.high):.1f}" y2="{y}" stroke="{colour}" stroke-width="2"/>'
                )
                parts.append(f'<circle cx="{x(i.ratio):.1f}" cy="{y}" r="3" fill="{colour}"/>')
    return "\n".join([*parts, "</svg>", ""])


def write(folder: Path, cells: Sequence[Cell], samples: Samples, rule: Rule, fabric: str) -> int:
    """Writes all files and prints the text. Returns 1 if a goal is missed."""
    found = results(cells, samples, rule, fabric)
    said = goals(found)
    confidence = f"Rates per second, medians. Ratios of pairs with intervals of {rule.confidence * 100:.1f} %."
    text = "\n".join(
        [confidence, *rates_table(found), "", "Times in us; the others for each RPC.", *details_table(found), "", *said, ""]
    )
    (folder / "report.txt").write_text(text, encoding="utf-8")
    document = {"schema": 1, "confidence": rule.confidence, "looks": rule.looks, "cells": found}
    (folder / "report.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (folder / "report.svg").write_text(picture(found), encoding="utf-8")
    with (folder / "report.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["cell", "server", "beside", "round", "figure", "value"])
        for s in samples.all:
            rows.writerows([s.cell, s.server, s.beside, s.round, name, value] for name, value in s.figures.items())
    print(text, end="")
    return 1 if any(line.startswith("missed") for line in said) else 0
