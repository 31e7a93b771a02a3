# SPDX-License-Identifier: GPL-2.0
"""Measures the latency of single requests of mounts: python3 latency.py OUT SECONDS DIR...

For each DIR, a mount with actimeo=0, one thread makes GETATTRs of a file and another one WRITEs of 64 KiB,
one after the other. Prints "ready" before the first request. After SECONDS or with SIGTERM it writes to OUT a
line "DIR OPERATION COUNT P50 P99 LONGEST" for each kind of request, times in ms. A request that has no reply
by then counts with the time that has passed.
"""

import mmap
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

SIZE = 64 << 10
# Between one request and the next: a thread that never waits would keep an emulated CPU busy.
PAUSE = 0.002


class Series(threading.Thread):
    """Requests of one kind to one mount."""

    def __init__(self, name: str, request: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.name, self.request = name, request
        self.times: list[float] = []
        self.began: float | None = None

    def run(self) -> None:
        while True:
            self.began = time.monotonic()
            self.request()
            self.times.append(time.monotonic() - self.began)
            self.began = None
            time.sleep(PAUSE)

    def report(self) -> str:
        began, now = self.began, time.monotonic()
        times = sorted([*self.times, *([now - began] if began else [])])

        def at(percent: int) -> float:
            """Returns that percentile, in ms."""
            return 1000 * times[max(0, -(-len(times) * percent // 100) - 1)]

        return f"{self.name} {len(times)} {at(50):.0f} {at(99):.0f} {at(100):.0f}"


def opened(folder: Path) -> list[Series]:
    """Opens the files of a mount, and returns the series of its GETATTRs and of its WRITEs."""
    looked_at = os.open(folder / "looked-at", os.O_RDWR | os.O_CREAT)
    written = os.open(folder / "written", os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
    data = mmap.mmap(-1, SIZE)
    return [
        Series(f"{folder} getattr", lambda: os.fstat(looked_at)),
        Series(f"{folder} write", lambda: os.pwrite(written, data, 0)),
    ]


def main() -> None:
    out, seconds, *folders = sys.argv[1:]
    series = [one for folder in folders for one in opened(Path(folder))]
    # The threads inherit the mask, so that this thread gets the signal.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    print("ready", flush=True)
    for one in series:
        one.start()
    signal.sigtimedwait({signal.SIGTERM}, float(seconds))
    Path(out).write_text("".join(one.report() + "\n" for one in series), encoding="utf-8")
    # Without waiting for a request that has no reply.
    os._exit(0)


main()
