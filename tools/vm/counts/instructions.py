# SPDX-License-Identifier: GPL-2.0
"""Tells which functions of this VM's kernel executed how many instructions, from what the plugin blocks.c counts.

instructions.py save FILE                                copies the counts so far
instructions.py report RPCS FUNCTIONS FILE FILE FILE     prints the instructions of each part for each of RPCS

The report is about the time from the second FILE to the third, without what saving takes, which is what was executed from
the first to the second. It writes to FUNCTIONS a line for each function, the largest first. Functions that are called less
than once in RARE RPCs are left out, and so are those that only the watchdog calls: they depend on the time that the RPCs take.
"""

import bisect
import sys
from array import array
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

BLOCKS = Path("/job/blocks")
SYMBOLS = Path("/proc/kallsyms")
# 64-bit words of a block: address, instructions, atomic ones of them, executions.
WORDS = 4
CHUNK = 1 << 18
RARE = 40
# Parts of the mangled names of the watchdog's functions. RPCs of 1 MiB take so long that they are called often enough.
WATCHDOG = ("4tick", "4look", "12trim_replies")


class Function(NamedTuple):
    address: int
    name: str
    module: str

    @property
    def part(self) -> str:
        """Returns the part of the kernel to which the function belongs, see Documentation/testing.rst.

        The server's VM mounts nothing, so all that it executes of rpcrdma is the stock server.
        """
        if self.name.startswith(("rust_helper_", "rdma_rw_")) or (self.module == "[kernel]" and self.name.startswith("_R")):
            return "helpers"
        if self.module in ("[svcrdma]", "[rpcrdma]"):
            return "transport"
        return "stack" if self.module in ("[nfsd]", "[sunrpc]", "[ib_core]") else "kernel"


def save(target: Path) -> None:
    """Copies the blocks, down to the first chunk that ends with an unused one."""
    with BLOCKS.open("rb") as source, target.open("wb") as copy:
        while chunk := source.read(CHUNK):
            copy.write(chunk)
            if not any(chunk[-8 * WORDS :]):
                return
    sys.exit(f"{BLOCKS} is full")


def executed(files: list[Path]) -> Iterator[tuple[int, int, int, int]]:
    """Returns address, instructions, atomic ones of them, and executions of each block that was executed meanwhile."""
    saved = [array("Q", path.read_bytes()) for path in files]
    last = saved[-1]
    counts = (words[WORDS - 1 :: WORDS] for words in saved)
    for index, (first, second, third) in enumerate(zip_longest(*counts, fillvalue=0)):
        if third != first:
            address, instructions, atomics = last[WORDS * index : WORDS * index + 3]
            yield address, instructions, atomics, third - second - (second - first)


def functions() -> list[Function]:
    """Returns the functions of this kernel in the order of their addresses."""
    lines = (line.split() for line in SYMBOLS.read_text(encoding="ascii").splitlines())
    return sorted(Function(int(words[0], 16), words[2], (*words, "[kernel]")[3]) for words in lines if words[1] in "tTwW")


def report(rpcs: int, target: Path, files: list[Path]) -> None:
    known = functions()
    addresses = [function.address for function in known]
    total: Counter[Function] = Counter()
    atomics: Counter[Function] = Counter()
    calls: Counter[Function] = Counter()
    for address, instructions, of_these, executions in executed(files):
        function = known[bisect.bisect(addresses, address) - 1]
        total[function] += instructions * executions
        atomics[function] += of_these * executions
        if address == function.address:
            calls[function] += executions
    for function, count in calls.items():
        if count * RARE < rpcs or (function.name.startswith("_R") and any(part in function.name for part in WATCHDOG)):
            del total[function], atomics[function]
    with target.open("w", encoding="ascii") as table:
        for function, instructions in total.most_common():
            print(f"{instructions / rpcs:.1f} {atomics[function] / rpcs:.1f} {function.module} {function.name}", file=table)
    parts: Counter[str] = Counter()
    for function, instructions in total.items():
        parts[function.part] += instructions
    of_transport = sum(count for function, count in atomics.items() if function.part in ("transport", "helpers"))
    print(f"atomics {of_transport / rpcs:.0f}")
    # The last two include those before them.
    parts["stack"] += parts["transport"] + parts["helpers"]
    parts["kernel"] += parts["stack"]
    for part in ("transport", "helpers", "stack", "kernel"):
        print(f"{part} {parts[part] / rpcs:.0f}")


def main() -> None:
    match sys.argv[1:]:
        case ["save", target]:
            save(Path(target))
        case ["report", rpcs, target, first, second, third]:
            report(int(rpcs), Path(target), [Path(first), Path(second), Path(third)])
        case _:
            sys.exit(__doc__)


main()
