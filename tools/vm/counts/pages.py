# SPDX-License-Identifier: GPL-2.0
"""Prints how many instructions this VM's kernel has executed so far, in all and in some modules, a line "NAME NUMBER" each.

Reads the counts of pages of code that the plugin blocks.c keeps. It takes far less time than instructions.py, as it does not know
functions. pages.py scan notes where the code is, after the modules were loaded.
"""

import sys
from array import array
from pathlib import Path

BLOCKS = Path("/job/blocks")
# As in blocks.c: the bytes before the pages, the address of the first page, and the size of a number.
BEFORE = (1 << 20) * 32
FIRST = 0xFFFFFFFF80000000
WORD = 8
PLACES = Path("/run/places")
PARTS = {
    "svcrdma": "transport",
    "rpcrdma": "transport",
    "nfsd": "nfsd",
    "sunrpc": "sunrpc",
    "ib_core": "ib_core",
    "rdma_rxe": "rxe",
    "": "image",
}
# Parts that the stack does not include.
OTHERS = ("rxe", "image")


def scan() -> None:
    """Writes a line "PART FIRST LAST" with the pages of the code of the kernel and of each module to PLACES."""
    places: dict[str, list[int]] = {}
    for line in Path("/proc/kallsyms").read_text(encoding="ascii").splitlines():
        address, kind, _, *module = line.split()
        name = module[0][1:-1] if module else ""
        page = (int(address, 16) - FIRST) >> 12
        if kind in "tT" and name in PARTS and page >= 0:
            places.setdefault(name, []).append(page)
    PLACES.write_text("".join(f"{PARTS[name]} {min(pages)} {max(pages)}\n" for name, pages in places.items()), encoding="ascii")


def counts() -> None:
    stack = others = 0
    with BLOCKS.open("rb") as blocks:
        for line in PLACES.read_text(encoding="ascii").splitlines():
            part, first, last = line.split()
            blocks.seek(BEFORE + int(first) * WORD)
            count = sum(array("Q", blocks.read((int(last) - int(first) + 1) * WORD)))
            print(f"{part} {count}")
            if part in OTHERS:
                others += count
            else:
                stack += count
    print(f"stack {stack}")
    print(f"server {stack + others}")


if __name__ == "__main__":
    scan() if sys.argv[1:] == ["scan"] else counts()
