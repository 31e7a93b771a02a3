# SPDX-License-Identifier: GPL-2.0
"""The cells: what is measured, and how."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from pathlib import Path

# The servers: this module, the kernel's own over RDMA, and nfsd over TCP.
OURS, STOCK, TCP = "ours", "stock", "tcp"
# MiB of the file that all cells read and write, and the number of files of the metadata cells.
FILE_MIB = 64
FILES = 16


@dataclass(frozen=True)
class Cell:
    """A load. `program` is fio on a mount, or rpcrdma-probe, which has no TCP, over many connections."""

    name: str
    options: tuple[str, ...]
    program: str = "fio"
    nconnect: int = 1
    # A READ or WRITE of that size, for the limit of the fabric.
    way: str = ""
    size: int = 0

    @property
    def servers(self) -> tuple[str, ...]:
        """Returns the servers of a visit beside the one over RDMA."""
        return (TCP,) if self.program == "fio" else ()

    def command(self, mount: Path, server: str, seconds: float) -> list[str]:
        """Returns the command line, whose standard output is JSON."""
        if self.program == "probe":
            duration = str(max(1, round(seconds)))
            return ["rpcrdma-probe", "load", server, *self.options, "--duration", duration, "--format", "json"]
        time = ["--time_based", f"--runtime={seconds:g}s"]
        return ["fio", f"--name={self.name}", f"--directory={mount}", *self.options, *time, "--output-format=json"]


def bytes_of(size: str) -> int:
    return int(size[:-1]) << {"k": 10, "m": 20}[size[-1]]


def data(pattern: str, size: str, depth: int, prefix: str = "", nconnect: int = 1) -> Cell:
    """Returns direct I/O to one file; `pattern` is fio's."""
    options = [f"--rw={pattern}", f"--bs={size}", f"--iodepth={depth}", "--ioengine=libaio", "--direct=1", "--filename=data"]
    options += [f"--size={FILE_MIB}m", "--randrepeat=0", "--norandommap"]
    way = pattern.removeprefix("rand")
    name = f"{prefix or pattern}.{way + '.' if prefix else ''}{size}"
    name += f".n{nconnect}" if nconnect > 1 else ("" if prefix else f".d{depth}")
    return Cell(name, tuple(options), nconnect=nconnect, way=way, size=bytes_of(size))


def metadata(name: str, engine: str) -> Cell:
    """Returns a loop over the metadata of small files, one operation at a time."""
    options = (f"--ioengine={engine}", f"--nrfiles={FILES}", "--filesize=4k", "--bs=4k", "--rw=read", "--openfiles=1")
    return Cell(name, options)


def clients(count: int) -> Cell:
    """Returns READs of 4 KiB, four at a time on each of `count` connections: as many clients, as the server sees them."""
    options = ("--kind", "read", "--file", "data", "--size", "4096", "--depth", "4", "--connections", str(count))
    return Cell(f"clients.{count}", options, program="probe", way="read", size=4096)


WAYS = ("read", "write")
SIZES = ("1k", "4k", "16k", "64k", "256k", "1m", "4m", "16m")
CELLS = (
    *(data(f"rand{way}", size, depth) for size in ("4k", "8k") for way in WAYS for depth in (1, 16, 64)),
    *(data(way, "1m", 8) for way in WAYS),
    *(data(way, size, 1, "record") for way in ("write", "read") for size in SIZES),
    metadata("stat", "filestat"),
    *(clients(count) for count in (1, 8, 32, 64)),
    *(data(f"rand{way}", "4k", 64, "connections", nconnect) for way in WAYS for nconnect in (4, 16)),
)
QUICK = ("randread.4k.d16", "randwrite.4k.d16", "read.1m.d8", "write.1m.d8", "record.write.64k", "stat", "clients.8")


def select(words: str) -> list[Cell]:
    """Returns the cells of a list of patterns, or those of the words `quick` and `all`. Raises ValueError if one matches none."""
    patterns = [each for word in words.split() for each in {"quick": QUICK, "all": ("*",)}.get(word, (word,))]
    for pattern in patterns:
        if not fnmatch.filter((cell.name for cell in CELLS), pattern):
            raise ValueError(f"no cell has the name {pattern}")
    return [cell for cell in CELLS if any(fnmatch.fnmatch(cell.name, pattern) for pattern in patterns)]
