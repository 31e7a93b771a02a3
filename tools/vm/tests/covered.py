# SPDX-License-Identifier: GPL-2.0
"""Checks where READs with each service of RPCSEC_GSS return their data if the Call offers chunks.

python3 covered.py PROBE HOST FILE NAME: FILE is what the server has as NAME in its root; the caller has a
ticket. The Linux client offers no Write chunk where RPCSEC_GSS covers the results (RFC 2203), so the probe
makes the Calls, those of NFS 4.0 that need no client ID.
"""

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import gssapi

PROBE, HOST, FILE, NAME = sys.argv[1:]
DATA = Path(FILE).read_bytes()
PROGRAM, VERSION = 100003, 4
RPCSEC_GSS = 6
GSS_DATA, GSS_INIT = 0, 1
NONE, INTEGRITY, PRIVACY = 1, 2, 3
PUTROOTFH, LOOKUP, READ = 24, 15, 25
CHUNK = 1 << 20


def words(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}I", *numbers)


def opaque(data: bytes) -> bytes:
    return words(len(data)) + data + bytes(-len(data) % 4)


class Reader:
    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def word(self) -> int:
        self.at += 4
        assert self.at <= len(self.data), self.data
        return int.from_bytes(self.data[self.at - 4 : self.at], "big")

    def opaque(self) -> bytes:
        size = self.word()
        begin, self.at = self.at, self.at + (size + 3 & ~3)
        return self.data[begin : begin + size]

    def rest(self) -> bytes:
        return self.data[self.at :]


def exchange(call: bytes, *options: str) -> tuple[dict[str, Any], bytes, Reader]:
    """Makes a Call. Returns what the probe prints of the reply, the verifier, and a reader of the results."""
    done = subprocess.run([PROBE, "call", HOST, *options], input=call, stdout=subprocess.PIPE, check=True)
    answer = json.loads(done.stdout)
    reply = Reader(bytes.fromhex(answer["reply"]))
    assert (reply.word(), reply.word(), reply.word()) == (int.from_bytes(call[:4], "big"), 1, 0), answer
    flavor, verifier, status = reply.word(), reply.opaque(), reply.word()
    assert (flavor, status) == (RPCSEC_GSS, 0), answer
    return answer, verifier, reply


class Session:
    def __init__(self) -> None:
        name = gssapi.Name(f"nfs@{HOST}", gssapi.NameType.hostbased_service)
        # Without flags for the order of messages (RFC 2203, section 5.2.2).
        flags = gssapi.RequirementFlag.mutual_authentication
        self.context = gssapi.SecurityContext(name=name, usage="initiate", flags=flags)
        self.handle, self.sequence = b"", 0
        call = self.header(GSS_INIT, NONE, 0) + words(0, 0) + opaque(self.context.step())
        _, verifier, reply = exchange(call)
        self.handle = reply.opaque()
        major, _minor, window = reply.word(), reply.word(), reply.word()
        assert major == 0, major
        self.context.step(reply.opaque())
        self.context.verify_signature(words(window), verifier)

    def header(self, procedure: int, service: int, nfs_procedure: int) -> bytes:
        self.sequence += 1
        credential = words(1, procedure, self.sequence, service) + opaque(self.handle)
        call = words(0x6E000000 + self.sequence, 0, 2, PROGRAM, VERSION, nfs_procedure)
        return call + words(RPCSEC_GSS) + opaque(credential)

    def call(self, service: int, arguments: bytes, *options: str) -> tuple[dict[str, Any], Reader]:
        """Makes a COMPOUND. Returns what the probe prints of the reply, and the verified results."""
        head = self.header(GSS_DATA, service, 1)
        sequence = words(self.sequence)
        covered = sequence + arguments
        body = {
            NONE: lambda: arguments,
            INTEGRITY: lambda: opaque(covered) + opaque(self.context.get_signature(covered)),
            PRIVACY: lambda: opaque(self.context.wrap(covered, True).message),
        }[service]()
        call = head + words(RPCSEC_GSS) + opaque(self.context.get_signature(head)) + body
        answer, verifier, reply = exchange(call, *options)
        self.context.verify_signature(sequence, verifier)
        if service == NONE:
            return answer, Reader(reply.rest())
        covered = reply.opaque()
        if service == INTEGRITY:
            self.context.verify_signature(covered, reply.opaque())
        else:
            result = self.context.unwrap(covered)
            assert result.encrypted
            covered = result.message
        assert covered[:4] == sequence, covered[:4]
        return answer, Reader(covered[4:])


def read(session: Session, service: int, count: int) -> tuple[bool, bytes, bytes]:
    """Makes a READ with a Write chunk and a Reply chunk.

    Returns true if the reply was inline, the data in the Write chunk, and the data in the reply.
    """
    arguments = opaque(b"") + words(0, 3, PUTROOTFH, LOOKUP) + opaque(NAME.encode())
    # This special state ID ignores locks and grace periods.
    arguments += words(READ, *[0xFFFFFFFF] * 4, 0, 0, count)
    answer, results = session.call(service, arguments, "--write", str(CHUNK), "--reply", str(CHUNK))
    head = (results.word(), results.opaque(), results.word())
    assert head == (0, b"", 3), head
    for operation in (PUTROOTFH, LOOKUP, READ):
        got = (results.word(), results.word())
        assert got == (operation, 0), got
    results.word()  # eof
    assert results.word() == count
    return answer["inline"], bytes.fromhex(answer["written"]), results.rest()[:count]


def main() -> None:
    session = Session()
    for count in (1000, 1 << 16):
        # RPCSEC_GSS covers only the header: the data is in the Write chunk.
        assert read(session, NONE, count) == (True, DATA[:count], b""), count
        for service in (INTEGRITY, PRIVACY):
            # The whole reply is inline or in the Reply chunk.
            assert read(session, service, count) == (count == 1000, b"", DATA[:count]), (service, count)


main()
