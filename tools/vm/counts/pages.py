# SPDX-License-Identifier: GPL-2.0
"""Prints how many instructions this VM's kernel has executed so far in some modules, a line "NAME NUMBER" each.

Reads the counts of pages of code that the plugin blocks.c keeps. It takes far less time than instructions.py, as it knows neither
functions nor the code outside of modules. pages.py scan notes where the modules are, after they were loaded.
"""

import sys
from array import array
from pathlib import Path

BLOCKS = Path("/job/blocks")
# As in blocks.c: the bytes before the pages, the address of the first page, and the size of a number.
BEFORE = (1 << 20) * 32
FIRST = 0xFFFFFFFFC0000000
WORD = 8
PLACES = Path("/run/places")
PARTS = {
    "svcrdma": "transport",
    "rpcrdma": "transport",
    "nfsd": "nfsd",
    "sunrpc": "sunrpc",
    "ib_core": "ib_core",
    "rdma_rxe": "rxe",
}


def scan() -> None:
    """Writes a line "PART FIRST LAST" with the pages of each module's code to PLACES."""
    places: dict[str, list[int]] = {}
    for line in Path("/proc/kallsyms").read_text(encoding="ascii").splitlines():
        if line.endswith("]"):
            address, kind, *_, module = line.split()
            if kind in "tT" and module[1:-1] in PARTS:
                places.setdefault(module[1:-1], []).append((int(address, 16) - FIRST) >> 12)
    PLACES.write_text("".join(f"{PARTS[name]} {min(pages)} {max(pages)}\n" for name, pages in places.items()), encoding="ascii")


def counts() -> None:
    total = 0
    with BLOCKS.open("rb") as blocks:
        for line in PLACES.read_text(encoding="ascii").splitlines():
            part, first, last = line.split()
            blocks.seek(BEFORE + int(first) * WORD)
            count = sum(array("Q", blocks.read((int(last) - int(first) + 1) * WORD)))
            print(f"{part} {count}")
            total += 0 if part == "rxe" else count
    print(f"stack {total}")


if __name__ == "__main__":
    scan() if sys.argv[1:] == ["scan"] else counts()
