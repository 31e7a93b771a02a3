# SPDX-License-Identifier: GPL-2.0
"""Makes a system call with its first allocation failing, then its second, until none has failed: nth.py STEP CALL ARG...

    load FILE, unload FILE   loads and unloads the module in FILE; the one that is named fails
    read FILE...             opens and reads each FILE
    write FILE TEXT          opens FILE and writes TEXT; {} in it is the number of the turn, as four digits

With a STEP above 1 only one allocation in STEP fails. Only allocations that the kernel's fault
injection selects are counted. Prints for each system call how many of its allocations have failed,
and the errors that it returned. Has status 1 if an error is not one of memory, if a module cannot
be unloaded, if a call other than unload allocates nothing, or if a call makes MOST allocations,
so that some were not tried.
"""

import ctypes
import errno
import os
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

# System calls of x86-64.
FINIT_MODULE, DELETE_MODULE = 313, 176
MOST = 4000
MEMORY = ("OK", "ENOMEM", "EAGAIN", "ENOBUFS")
NTH = "/proc/self/fail-nth"
libc = ctypes.CDLL(None, use_errno=True)


def system_call(*arguments: object) -> None:
    """Raises OSError if the system call fails."""
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "system call")


def load(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        system_call(FINIT_MODULE, fd, b"", 0)
    finally:
        os.close(fd)


def unload(path: str) -> None:
    system_call(DELETE_MODULE, Path(path).stem.encode(), os.O_NONBLOCK)


def read(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        while os.read(fd, 1 << 16):
            pass
    finally:
        os.close(fd)


def write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def fails(call: Callable[[], None], nth: int) -> tuple[str, bool]:
    """Makes the call with the nth allocation failing; returns its error, or OK, and true if it made at least nth allocations."""
    fd = os.open(NTH, os.O_RDWR)
    os.pwrite(fd, str(nth).encode(), 0)
    error = "OK"
    try:
        call()
    except OSError as failed:
        error = errno.errorcode.get(failed.errno or 0, str(failed))
    left = int(os.pread(fd, 16, 0))
    os.pwrite(fd, b"0", 0)
    os.close(fd)
    return error, left == 0


def nothing() -> None:
    pass


def sweep(
    step: int, name: str, call: Callable[[], None], before: Callable[[], None] = nothing, after: Callable[[], None] = nothing
) -> bool:
    """Lets each allocation of a call fail. Calls `after` when it has succeeded. Returns true if all were reached and all errors
    are of memory."""
    errors: Counter[str] = Counter()
    for nth in range(1, MOST, step):
        before()
        error, was_made = fails(call, nth)
        if error == "OK":
            after()
        if error not in MEMORY:
            print(f"{name}: {error} when allocation {nth} fails")
        if not was_made:
            break
        errors[error] += 1
    else:
        print(f"{name}: has not ended after {MOST} allocations")
        return False
    print(f"{name}: {sum(errors.values())} allocations: {dict(errors)}", flush=True)
    return set(errors) <= set(MEMORY) and error == "OK" and (bool(errors) or name == "unload")


def main(skip: str, what: str, *arguments: str) -> int:
    path, step = arguments[0], int(skip)
    good = True
    if what == "load":
        good = sweep(step, what, partial(load, path), after=partial(unload, path))
    elif what == "unload":
        good = sweep(step, what, partial(unload, path), before=partial(load, path))
    elif what == "write":
        turns = count(1)
        good = sweep(step, path, lambda: write(path, arguments[1].replace("{}", f"{next(turns):04}")))
    else:
        for each in arguments:
            good &= sweep(step, each, partial(read, each))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
