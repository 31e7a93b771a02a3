# SPDX-License-Identifier: GPL-2.0
"""Measures the memory of this VM's kernel by owner. Free memory also depends on CPUs, caches and threads.

memory.py save NAME             drops caches, and saves what each owner has
memory.py grown NAME NAME       prints by how many KiB all owners have grown from the first NAME to the second, and
                                below that a table of the owners that have grown most
memory.py lost NAME NAME N      prints the owners that have N objects or more gained; status 1 if there are any

An owner is a slab cache with its objects, a caller of vmalloc with its areas, or what else the kernel has taken from
the page allocator. Not counted: user space, its page tables, the stacks of threads, which workqueues keep for minutes,
free objects of slabs, and free pages of CPUs.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PAGE = 4  # KiB
# Lines of the table.
LARGEST = 15
# Callers of vmalloc that allocate stacks.
STACKS = {"kernel_clone", "copy_process", "dup_task_struct"}
# What /proc/meminfo counts elsewhere than under "pages". VmallocUsed includes the stacks.
COUNTED = (
    "MemFree", "Buffers", "Cached", "SwapCached", "AnonPages", "Slab", "PageTables", "SecPageTables", "VmallocUsed", "Percpu",
)  # fmt: skip
# vfree() leaves these to be freed later, many at a time.
LAZY = {"slab vmap_area"}
THREADS = "slab task_struct"
# Objects of one cache that a thread has at most.
OF_THREAD = 3


class Owned(NamedTuple):
    """What an owner has."""

    objects: int
    kib: float


class Cache(NamedTuple):
    """A line of /proc/slabinfo."""

    name: str
    objects: int
    size: int
    pages: int

    @classmethod
    def parse(cls, line: str) -> Cache:
        name, objects, _, size, _, pages, *more = line.split()
        # The line ends with "slabdata ACTIVE SLABS SHARED".
        return cls(name, int(objects), int(size), int(pages) * int(more[-2]))


def caches(lines: Iterable[str]) -> list[Cache]:
    return [Cache.parse(line) for line in lines if not line.startswith(("slabinfo", "#"))]


def of_slabs(found: Iterable[Cache]) -> dict[str, Owned]:
    """Returns the objects in use of each slab cache."""
    return {f"slab {each.name}": Owned(each.objects, each.objects * each.size / 1024) for each in found}


def of_vmalloc(lines: Iterable[str]) -> dict[str, Owned]:
    """Returns the areas of each caller of vmalloc, from /proc/vmallocinfo."""
    owned: dict[str, Owned] = {}
    for line in lines:
        match = re.search(r"^\S+ +\d+ ([\w.$]+)\+\S+ .*\bpages=(\d+) .*\bvmalloc\b", line)
        if match and match[1] not in STACKS:
            objects, kib = owned.get(f"vmalloc {match[1]}", Owned(0, 0))
            owned[f"vmalloc {match[1]}"] = Owned(objects + 1, kib + int(match[2]) * PAGE)
    return owned


def of_pages(meminfo: Iterable[str], zoneinfo: Iterable[str], slab_pages: int) -> dict[str, Owned]:
    """Returns the pages of large kmallocs, of per-CPU memory, and of those who allocate pages."""
    kib = {name: int(value.split()[0]) for name, value in (line.split(":") for line in meminfo)}
    # The free pages of each CPU in each zone, which MemFree does not include.
    free = sum(int(words[1]) for words in map(str.split, zoneinfo) if words[0] == "count:")
    found = {
        "pages": kib["MemTotal"] - sum(kib.get(name, 0) for name in COUNTED) - free * PAGE,
        # Those of more than 8 KiB count as slab, and are in no cache.
        "large kmallocs": kib["Slab"] - slab_pages * PAGE,
        "percpu": kib["Percpu"],
    }
    return {name: Owned(number // PAGE, number) for name, number in found.items()}


def difference(before: dict[str, Owned], after: dict[str, Owned]) -> dict[str, Owned]:
    """Returns by how much each owner has grown."""
    none = Owned(0, 0)
    pairs = {name: (before.get(name, none), after.get(name, none)) for name in before | after}
    return {name: Owned(new.objects - old.objects, new.kib - old.kib) for name, (old, new) in pairs.items()}


def lost(growth: dict[str, Owned], bound: int) -> dict[str, Owned]:
    """Returns the owners with at least so many objects more, besides those of new threads."""
    bound += OF_THREAD * max(0, growth.get(THREADS, Owned(0, 0)).objects)
    return {name: owned for name, owned in growth.items() if owned.objects >= bound and name not in LAZY}


def table(growth: dict[str, Owned]) -> str:
    """Returns a line for each owner, the one that has grown most first."""
    rows = sorted(growth.items(), key=lambda item: -abs(item[1].kib))
    return "".join(f"{kib:10.0f} KiB {objects:8d} objects  {name}\n" for name, (objects, kib) in rows)


def shrink() -> None:
    """Drops caches and empty slabs."""
    Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")
    for cache in Path("/sys/kernel/slab").iterdir():
        (cache / "shrink").write_text("1", encoding="ascii")
    # What RCU frees, it frees later.
    time.sleep(2)


def read(name: str) -> list[str]:
    return (Path("/proc") / name).read_text(encoding="ascii").splitlines()


def file_of(name: str) -> Path:
    return Path(f"/tmp/memory.{name}")


def save(name: str) -> None:
    shrink()
    found = caches(read("slabinfo"))
    pages = of_pages(read("meminfo"), read("zoneinfo"), sum(each.pages for each in found))
    owned = of_slabs(found) | of_vmalloc(read("vmallocinfo")) | pages
    file_of(name).write_text("".join(f"{objects}\t{kib}\t{owner}\n" for owner, (objects, kib) in owned.items()), encoding="ascii")


def load(name: str) -> dict[str, Owned]:
    rows = (line.split("\t") for line in file_of(name).read_text(encoding="ascii").splitlines())
    return {owner: Owned(int(objects), float(kib)) for objects, kib, owner in rows}


def main() -> int:
    match sys.argv[1:]:
        case ["save", name]:
            save(name)
        case ["grown", before, after]:
            growth = difference(load(before), load(after))
            print(round(sum(kib for _, kib in growth.values())))
            print("".join(table(growth).splitlines(keepends=True)[:LARGEST]), end="")
        case ["lost", before, after, bound]:
            found = lost(difference(load(before), load(after)), int(bound))
            print(table(found), end="")
            return 1 if found else 0
        case _:
            sys.exit(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
