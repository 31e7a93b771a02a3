# SPDX-License-Identifier: GPL-2.0
"""Checks that changes of names and files are the same on client and server.

python3 namespace.py SERVER CLIENT VERSION: SERVER is the exported folder, CLIENT a mount of it.
"""

import contextlib
import errno
import fcntl
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

SERVER, CLIENT = (Path(argument) for argument in sys.argv[1:3])
VERSION = sys.argv[3]


@contextlib.contextmanager
def refused(number: int) -> Iterator[None]:
    """Asserts that the block fails with this errno."""
    try:
        yield
    except OSError as error:
        assert error.errno == number, error
    else:
        raise AssertionError(f"expected {errno.errorcode[number]}")


def wait_for(condition: Callable[[], bool]) -> None:
    """Waits until the condition holds, for 30 s at most."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def rename(name: str) -> None:
    (CLIENT / name).mkdir()
    (CLIENT / name / "old").write_text("old")
    (CLIENT / name / "other").write_text("other")
    os.rename(CLIENT / name / "old", CLIENT / name / "new")
    assert sorted(os.listdir(SERVER / name)) == ["new", "other"]
    os.rename(CLIENT / name / "new", CLIENT / name / "other")
    assert (SERVER / name / "other").read_text() == "old"
    (CLIENT / name / "sub" / "deep").mkdir(parents=True)
    os.rename(CLIENT / name / "other", CLIENT / name / "sub/deep/moved")
    os.rename(CLIENT / name / "sub", CLIENT / name / "sub2")
    assert (SERVER / name / "sub2/deep/moved").read_text() == "old"
    with refused(errno.ENOTEMPTY):
        (CLIENT / name / "empty").mkdir()
        os.rename(CLIENT / name / "empty", CLIENT / name / "sub2")
    with refused(errno.ENOENT):
        os.rename(CLIENT / name / "nothing", CLIENT / name / "x")


def unlink(name: str) -> None:
    (CLIENT / name).write_text("x")
    os.link(CLIENT / name, CLIENT / f"{name}.link")
    assert os.stat(SERVER / name).st_nlink == 2
    (CLIENT / name).unlink()
    assert not (SERVER / name).exists() and (SERVER / f"{name}.link").read_text() == "x"
    # Open while unlinked: the file stays until it is closed.
    with open(CLIENT / f"{name}.link", "r+") as file:
        (CLIENT / f"{name}.link").unlink()
        file.write("still here")
        file.flush()
        file.seek(0)
        assert file.read() == "still here"
    # The client removes it after the close, in its own time.
    wait_for(lambda: not [entry for entry in os.listdir(SERVER) if entry.startswith((f"{name}.", ".nfs"))])
    (CLIENT / f"{name}.dir").mkdir()
    (CLIENT / f"{name}.dir" / "x").touch()
    with refused(errno.ENOTEMPTY):
        (CLIENT / f"{name}.dir").rmdir()
    (CLIENT / f"{name}.dir" / "x").unlink()
    (CLIENT / f"{name}.dir").rmdir()
    assert not (SERVER / f"{name}.dir").exists()


def truncate(name: str) -> None:
    data = os.urandom(200_000)
    (CLIENT / name).write_bytes(data)
    for size in (150_001, 4096, 4095, 1, 0):
        os.truncate(CLIENT / name, size)
        assert (SERVER / name).read_bytes() == data[:size], size
        assert (CLIENT / name).read_bytes() == data[:size], size
    (CLIENT / name).write_bytes(data)
    os.truncate(CLIENT / name, 300_000)
    assert (SERVER / name).read_bytes() == data + bytes(100_000)
    # The server truncates the file.
    os.truncate(SERVER / name, 100)
    assert (CLIENT / name).read_bytes() == data[:100]


def append(name: str) -> None:
    (CLIENT / name).touch()
    expected = b""
    for turn in range(20):
        # Opened each time, as the client then asks for the size of the file.
        mount = (CLIENT, SERVER)[turn % 2]
        piece = bytes([65 + turn]) * (turn * 331)
        file = os.open(mount / name, os.O_WRONLY | os.O_APPEND)
        assert os.write(file, piece) == len(piece)
        os.close(file)
        expected += piece
    assert (SERVER / name).read_bytes() == expected


def elsewhere(function: Callable[[], int]) -> int:
    """Calls the function in another process, so that locks have another owner. Returns its status."""
    child = os.fork()
    if child == 0:
        status = 255
        with contextlib.suppress(Exception):
            status = function()
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def try_lock(path: Path, kind: int, start: int, length: int) -> bool:
    """Returns true if another process gets the lock."""

    def take() -> int:
        with open(path, "r+b") as file:
            try:
                fcntl.lockf(file, kind | fcntl.LOCK_NB, length, start)
            except BlockingIOError:
                return 0
        return 1

    got = elsewhere(take)
    assert got in (0, 1), path
    return got == 1


def holder(path: Path) -> tuple[int, int, int]:
    """Returns kind, start and length of the lock that conflicts with one on all of the file."""
    read, write = os.pipe()

    def ask() -> int:
        with open(path, "r+b") as file:
            query = struct.pack("hhllhh", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0, 0)
            os.write(write, fcntl.fcntl(file, fcntl.F_GETLK, query))
        return 0

    assert elsewhere(ask) == 0, path
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        kind, _, start, length = struct.unpack_from("hhll", answer.read())
    return kind, start, length


def lock(name: str) -> None:
    exclusive, shared = fcntl.LOCK_EX, fcntl.LOCK_SH
    (CLIENT / name).write_bytes(bytes(1000))
    with open(CLIENT / name, "r+b") as file:
        fcntl.lockf(file, exclusive | fcntl.LOCK_NB, 100, 50)
        for path in (CLIENT / name, SERVER / name):
            assert not try_lock(path, exclusive, 50, 1), path
            assert not try_lock(path, shared, 149, 100), path
            assert try_lock(path, exclusive, 150, 100), path
        assert holder(SERVER / name) == (fcntl.F_WRLCK, 50, 100)
        fcntl.lockf(file, shared | fcntl.LOCK_NB, 100, 50)
        assert try_lock(SERVER / name, shared, 50, 100)
        assert not try_lock(SERVER / name, exclusive, 50, 100)
    # Closing the file has released the locks.
    assert try_lock(SERVER / name, exclusive, 0, 1000)
    if VERSION != "3":
        wait_for_lock(name)


def wait_for_lock(name: str) -> None:
    """Checks that a waiting client gets the lock when a process of the server releases it.

    Not for NLM: its callback does not reach a client in the server's own lockd, and that client repeats
    its request only after half a minute.
    """
    with open(SERVER / name, "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        waiter = os.fork()
        if waiter == 0:
            with contextlib.suppress(Exception), open(CLIENT / name, "r+b") as other:
                fcntl.lockf(other, fcntl.LOCK_EX)
                os._exit(0)
            os._exit(1)
        time.sleep(1)
        assert os.waitpid(waiter, os.WNOHANG) == (0, 0), "got a lock that another process holds"
    assert os.waitstatus_to_exitcode(os.waitpid(waiter, 0)[1]) == 0


for test in (rename, unlink, truncate, append, lock):
    test(f"{test.__name__}-{VERSION}")
    print(VERSION, test.__name__)
