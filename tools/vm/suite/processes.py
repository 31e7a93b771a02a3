# SPDX-License-Identifier: GPL-2.0
"""Commands on this host, none of which outlives the run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import qemu


class Processes:
    """The commands that are running. Each leads a session, so that its children end with it."""

    def __init__(self) -> None:
        self._running: set[int] = set()
        # Held while a command begins, so that end_all() misses none. A signal handler may call
        # end_all() in a thread that holds it.
        self._lock = threading.RLock()

    def run(
        self,
        command: Sequence[str | Path],
        limit: float | None = None,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs a command in the checkout, and kills it with its children after `limit` seconds.

        # Errors

        subprocess.TimeoutExpired at the limit; OSError if the command cannot be started.
        """
        with self._lock:
            process = subprocess.Popen(
                command,
                cwd=qemu.TOP,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                preexec_fn=qemu.die_with_parent,  # noqa: PLW1509
            )
            self._running.add(process.pid)
        try:
            output, _ = process.communicate(timeout=limit)
        finally:
            self._end(process.pid)
            process.wait()
        return subprocess.CompletedProcess(process.args, process.returncode, output)

    def end_all(self) -> None:
        """Kills all of them."""
        with self._lock:
            for pid in list(self._running):
                self._end(pid)

    def _end(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        self._running.discard(pid)
