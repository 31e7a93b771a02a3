# SPDX-License-Identifier: GPL-2.0
"""Fragments the free memory of this VM: the pages that the kernel allocates next are not adjacent.

It fills two pipes in turns, one page each time, and more pairs of pipes. Then it empties the second one of each pair, so
that between any two of its pages is one of the other pipe. Prints "ready", and keeps these until it is ended.
"""

import fcntl
import os
import signal

PAGE = b"\0" * 4096
# Pages of a pipe, which is the most that pipes may have, and pairs of pipes: 64 MiB of single pages.
PAGES = 256
PAIRS = 64


def pipe() -> tuple[int, int]:
    """Returns both ends of a pipe with room for PAGES pages."""
    ends = os.pipe()
    fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, PAGES * len(PAGE))
    return ends


def main() -> None:
    freed: list[int] = []
    for _ in range(PAIRS):
        kept, other = pipe(), pipe()
        for _ in range(PAGES):
            os.write(kept[1], PAGE)
            os.write(other[1], PAGE)
        freed += other
    for end in freed:
        os.close(end)
    print("ready", flush=True)
    signal.pause()


main()
