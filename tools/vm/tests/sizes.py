# SPDX-License-Identifier: GPL-2.0
"""Checks that files of given sizes are the same on client and server: sizes.py EXPORT MOUNT SIZE...

MOUNT is a mount of the folder EXPORT. For each SIZE in bytes, the largest one last, it writes and reads files
up.* and down.* by direct I/O and through the cache. Ends with a message at the first difference.
"""

import mmap
import os
import sys

BLOCK = 4 << 20  # the most bytes of one call of write() or read()


def write(path: str, data: memoryview, flags: int) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | flags)
    for start in range(0, len(data), BLOCK):
        part = data[start : start + BLOCK]
        if os.write(file, part) != len(part):
            sys.exit(f"{path}: a write was short")
    os.fsync(file)
    os.close(file)


def read(path: str, buffer: mmap.mmap, flags: int) -> bytes:
    file, size = os.open(path, os.O_RDONLY | flags), 0
    while count := os.readv(file, [memoryview(buffer)[size : size + BLOCK]]):
        size += count
    os.close(file)
    return buffer[:size]


export, mount, *sizes = sys.argv[1:]
# Page aligned, as direct I/O needs it.
reference, buffer = (mmap.mmap(-1, int(sizes[-1]) + BLOCK) for _ in range(2))
for start in range(0, len(reference), 1 << 20):
    reference[start : start + (1 << 20)] = os.urandom(1 << 20)
for size in map(int, sizes):
    data = memoryview(reference)[:size]
    write(f"{export}/down.{size}", data, 0)
    # Direct I/O first, as it fills no cache.
    for how, flags in ("direct", os.O_DIRECT), ("buffered", 0):
        write(f"{mount}/up.{how}.{size}", data, flags)
        if read(f"{export}/up.{how}.{size}", buffer, 0) != reference[:size]:
            sys.exit(f"{size} bytes, {how}: the server has other data than was written")
        if read(f"{mount}/down.{size}", buffer, flags) != reference[:size]:
            sys.exit(f"{size} bytes, {how}: other data was read than the server has")
print(f"{len(sizes)} sizes up to {sizes[-1]} bytes")
