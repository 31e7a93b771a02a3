# SPDX-License-Identifier: GPL-2.0
"""Compares the lock diagram with what lockdep has seen on this VM's kernel, which must be the debug kernel.

lockdep.py DIAGRAM      fails, and prints what is missing, if DIAGRAM lacks a class of svcrdma's locks, or if no
                        arrows lead from a lock that was held to one that was taken. Prints what was not seen.

DIAGRAM is Documentation/diagrams/locks.dot, one node or arrow on a line. A node is named as lockdep names the class
behind "svcrdma". Locks of other code that are held in between are skipped, and so are work items, which lockdep
treats as locks and the module names "svcrdma NAME work".
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

NODE = re.compile(r'\s*("?)([a-z_ ]+)\1 \[label=')
ARROW = re.compile(r'\s*("?)([a-z_ ]+)\1 -> ("?)([a-z_ ]+)\3;$')
# The end of "ADDRESS OPS: N FD: N BD: N USAGE: NAME" in /proc/lockdep, and of "[ADDRESS] NAME" in /proc/lockdep_chains.
CLASS = re.compile(r"[0-9a-f]+ .*? [.+?-]+: (.+)$")
HELD = re.compile(r"\[[0-9a-f]+\] (.+)$")
# What Rust calls a lock without a name.
UNNAMED = re.compile(r"\.rs:\d+$")

Arrow = tuple[str, str]


@dataclass
class Locks:
    """Classes of locks, and which may be taken while which other one is held."""

    classes: set[str] = field(default_factory=set)
    arrows: set[Arrow] = field(default_factory=set)


def drawn(lines: Iterable[str]) -> Locks:
    """Returns what the diagram has."""
    found = Locks()
    for line in lines:
        if match := NODE.match(line):
            found.classes.add(match[2])
        elif " -> " in line and not line.startswith("//"):
            match = ARROW.match(line)
            if not match:
                raise ValueError(f"not one arrow on a line: {line.strip()}")
            found.arrows.add((match[2], match[4]))
    return found


def lock(name: str) -> str | None:
    """Returns the name in the diagram of a class; None if it is no lock of svcrdma."""
    if not name.startswith("svcrdma "):
        return name if UNNAMED.search(name) else None
    return None if name.endswith(" work") else name.removeprefix("svcrdma ")


def classes(lines: Iterable[str]) -> set[str]:
    """Returns the classes of svcrdma's locks in /proc/lockdep."""
    return {name for line in lines if (match := CLASS.match(line)) and (name := lock(match[1]))}


def chains(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yields the svcrdma locks of each chain in /proc/lockdep_chains, the outermost first."""
    chain: list[str] = []
    for line in lines:
        match = HELD.match(line)
        if not match:
            yield chain
            chain = []
        elif name := lock(match[1]):
            chain.append(name)
    yield chain


def arrows(lines: Iterable[str]) -> set[Arrow]:
    """Returns each pair of locks of which the second was taken while the first was the innermost of svcrdma's."""
    return {pair for chain in chains(lines) for pair in itertools.pairwise(chain)}


def show(arrow: Arrow) -> str:
    return " -> ".join(f'"{name}"' if " " in name else name for name in arrow)


def below(diagram: Locks, held: str) -> set[str]:
    """Returns the locks to which arrows lead from `held`, directly or through others."""
    found: set[str] = set()
    waiting = [held]
    while waiting:
        last = waiting.pop()
        new = {taken for above, taken in diagram.arrows if above == last} - found
        found |= new
        waiting += new
    return found


def compare(seen: Locks, diagram: Locks) -> list[str]:
    """Returns what is wrong with the diagram. Prints what was not seen."""
    wrong = [f"lockdep has the lock {name}, the diagram does not" for name in sorted(seen.classes - diagram.classes)]
    for held, taken in sorted(seen.arrows):
        if taken not in below(diagram, held):
            wrong.append(f"lockdep has seen {show((held, taken))}, the diagram does not have it")
    ends = {name for arrow in diagram.arrows for name in arrow}
    wrong += [f"the diagram has arrows of {name}, but does not describe it" for name in sorted(ends - diagram.classes)]
    wrong += [f"arrows of the diagram lead from {name} to itself" for name in sorted(ends) if name in below(diagram, name)]
    for name in sorted(diagram.classes - seen.classes):
        print(f"not seen: {name}")
    for arrow in sorted(diagram.arrows - seen.arrows):
        print(f"not seen: {show(arrow)}")
    return wrong


def main(diagram: str) -> int:
    """Returns 0 if the diagram has all that lockdep has seen."""
    proc = Path("/proc")
    seen = Locks(
        classes((proc / "lockdep").read_text(encoding="utf-8").splitlines()),
        arrows((proc / "lockdep_chains").read_text(encoding="utf-8").splitlines()),
    )
    print(f"lockdep: {len(seen.classes)} classes of svcrdma, {len(seen.arrows)} pairs")
    wrong = compare(seen, drawn(Path(diagram).read_text(encoding="utf-8").splitlines()))
    if not seen.arrows:
        wrong.append("lockdep has seen no svcrdma lock that was taken while another one was held")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
