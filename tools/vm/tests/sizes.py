# SPDX-License-Identifier: GPL-2.0
"""sizes.py EXPORT MOUNT SIZE...: what a client writes is what the server has, and the other way round.

MOUNT is a mount of the folder EXPORT, whose files up.* and down.* of those sizes in bytes, the largest
one last, go over it by direct I/O and through the cache. Ends with what is not so.
"""

import mmap
import os
import sys

BLOCK = 4 << 20  # bytes that one call of write() or read() has at most


def write(path: str, data: memoryview, flags: int) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | flags)
    for start in range(0, len(data), BLOCK):
        part = data[start : start + BLOCK]
        if os.write(file, part) != len(part):
            sys.exit(f"{path}: not all was written")
    os.fsync(file)
    os.close(file)


def read(path: str, buffer: mmap.mmap, flags: int) -> bytes:
    file, size = os.open(path, os.O_RDONLY | flags), 0
    while count := os.readv(file, [memoryview(buffer)[size : size + BLOCK]]):
        size += count
    os.close(file)
    return buffer[:size]


export, mount, *sizes = sys.argv[1:]
# Both begin with a page.
reference, buffer = (mmap.mmap(-1, int(sizes[-1]) + BLOCK) for _ in range(2))
for start in range(0, len(reference), 1 << 20):
    reference[start : start + (1 << 20)] = os.urandom(1 << 20)
for size in map(int, sizes):
    data = memoryview(reference)[:size]
    write(f"{export}/down.{size}", data, 0)
    # Direct first, which fills no cache.
    for how, flags in ("direct", os.O_DIRECT), ("buffered", 0):
        write(f"{mount}/up.{how}.{size}", data, flags)
        if read(f"{export}/up.{how}.{size}", buffer, 0) != reference[:size]:
            sys.exit(f"{size} bytes, {how}: the server has others than were written")
        if read(f"{mount}/down.{size}", buffer, flags) != reference[:size]:
            sys.exit(f"{size} bytes, {how}: others were read than the server has")
print(f"{len(sizes)} sizes up to {sizes[-1]} bytes")
