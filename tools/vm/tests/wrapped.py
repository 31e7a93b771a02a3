# SPDX-License-Identifier: GPL-2.0
"""Checks WRITEs, READs, listings and links on a mount with GSS, with sizes around the inline threshold and larger.

python3 wrapped.py SERVER CLIENT: SERVER is the exported folder, CLIENT a mount of it. How much data fits inline
depends on what GSS adds to Calls and replies, so the sizes begin well below the threshold.
"""

import os
import sys
from pathlib import Path

SERVER, CLIENT = (Path(argument) for argument in sys.argv[1:3])
DATA = os.urandom(3 << 20)
LARGE = (8192, 65539, 1 << 20, (1 << 20) + 1, 3 << 20)
FILES = 80  # whose names do not fit inline


def compare(got: bytes, size: int) -> None:
    assert got == DATA[:size], f"{len(got)} of {size} bytes"


def around_the_threshold() -> None:
    """Makes one WRITE and one READ of each size."""
    here = os.open(CLIENT / "direct", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    with open(SERVER / "direct", "rb", buffering=0) as there:
        for size in (1, 1023, *range(3500, 4120, 20)):
            # Each size has other data, written at the same offset.
            data = DATA[size : 2 * size]
            os.pwrite(here, data, 0)
            assert os.pread(there.fileno(), size, 0) == data, f"WRITE of {size} bytes"
            assert os.pread(here, size, 0) == data, f"READ of {size} bytes"
    os.close(here)
    os.unlink(CLIENT / "direct")


def files() -> None:
    """Writes and reads large files through the cache."""
    for size in LARGE:
        (CLIENT / f"up.{size}").write_bytes(DATA[:size])
        compare((SERVER / f"up.{size}").read_bytes(), size)
        (SERVER / f"down.{size}").write_bytes(DATA[:size])
        compare((CLIENT / f"down.{size}").read_bytes(), size)
        os.unlink(CLIENT / f"down.{size}")
        os.unlink(CLIENT / f"up.{size}")


def names() -> None:
    """Makes a listing that needs a Reply chunk, and symbolic links on both sides."""
    os.mkdir(CLIENT / "names")
    expected = [f"{number}.{'n' * 60}" for number in range(FILES)]
    for name in expected:
        (SERVER / "names" / name).touch()
    assert sorted(os.listdir(CLIENT / "names")) == sorted(expected)
    for name in expected:
        os.unlink(SERVER / "names" / name)
    # With krb5p nfsd takes no link text of more than 3800 bytes, over any transport.
    for length in (100, 3700):
        text = "t" * length
        os.symlink(text, CLIENT / "names/here")
        assert os.readlink(SERVER / "names/here") == text
        os.symlink(text, SERVER / f"names/there.{length}")
        assert os.readlink(CLIENT / f"names/there.{length}") == text
        os.unlink(CLIENT / "names/here")
        os.unlink(CLIENT / f"names/there.{length}")
    os.rmdir(CLIENT / "names")


around_the_threshold()
files()
names()
