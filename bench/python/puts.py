#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Python side of scripts/bench python: written as a Python program would be.

bench/python/python_end.cpp starts it with memory, a peer, and a socket. By the socket it learns
which work to measure, and tells how long that took. bench/python/cpp_end.cpp does the same in C++.
"""

from __future__ import annotations

import asyncio
import mmap
import socket
import struct
import sys
import time
from collections.abc import Callable

import hbmwire
import numpy as np
import numpy.typing as npt

# As in bench/endpoint/bytes.hpp and bench/python/cpp_end.hpp.
BULK = 2 * 4096
WORD = 8
PARTS, PART_BYTES = 64, 64 << 10
PAGES = 100_000
RECEIVES = 1000

PATIENCE = 20.0  # seconds
# As Command in bench/python/python_end.cpp, and KeyBytes in bench/endpoint/our_end.hpp.
COMMAND = struct.Struct("=16sQQQ")  # work, bytes, chunks, count
KEY = struct.Struct("=I1024s")
FIGURE = struct.Struct("=d")

# Does its work as often as the argument says, and waits each time until it is over.
Run = Callable[[int], None]


class Line:
    """The socket to the program that compares the two sides."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self, size: int) -> bytes:
        return self._socket.recv(size, socket.MSG_WAITALL)


class Side:
    """An endpoint with the default options, and memory at both ends: a dma-buf, or memory of this
    process if there is none (-1)."""

    def __init__(self, memory: int, size: int, port: int, line: Line) -> None:
        self.context = hbmwire.Context()
        what: object
        if memory < 0:
            what = self.bytes = np.zeros(size, np.uint8)
        else:
            self.bytes = np.frombuffer(mmap.mmap(memory, size), np.uint8)
            what = hbmwire.Dmabuf(memory, size, mapping=self.bytes.ctypes.data)
        self.region = self.context.register(
            what, access=("local_write", "remote_write", "remote_read")
        )
        self.endpoint = self.context.connect(
            f"127.0.0.1:{port}", timeout=PATIENCE, pre_shared_key=bytes([7]) * 32
        )
        self.key = self.region.pack_key()
        ours = bytes(self.key)
        line.send(KEY.pack(len(ours), ours))
        length, theirs = KEY.unpack(line.receive(KEY.size))
        self.remote = self.endpoint.remote(theirs[:length])
        self.loop = asyncio.new_event_loop()

    def put(self, nbytes: int) -> Run:
        put = self.endpoint.put
        here = self.region[BULK : BULK + nbytes]
        there = self.remote[BULK : BULK + nbytes]

        def run(count: int) -> None:
            for _ in range(count):
                put(here, there).wait(timeout=PATIENCE)

        return run

    def list(self) -> Run:
        starts = [BULK + i * PART_BYTES for i in range(PARTS)]
        prepared = self.endpoint.prepare_put(
            (self.region[here : here + PART_BYTES], self.remote[there : there + PART_BYTES])
            for here, there in zip(starts, reversed(starts))
        )

        def run(count: int) -> None:
            for _ in range(count):
                prepared.start().wait(timeout=PATIENCE)

        return run

    def blocks(self, nbytes: int) -> Run:
        local = hbmwire.BlockTable([self.region[BULK : BULK + PAGES * nbytes]], nbytes)
        remote = hbmwire.RemoteBlockTable([self.remote[BULK : BULK + PAGES * nbytes]], nbytes)
        pairs = pages()

        def run(count: int) -> None:
            for _ in range(count):
                self.endpoint.put_blocks(local, remote, pairs).wait(timeout=PATIENCE)

        return run

    def parts(self, nbytes: int, second: int) -> Run:
        """The blocks of blocks(), by offsets and lengths. Every second one has `second` bytes."""
        parts = np.empty((PAGES, 3), np.uint64)
        parts[:, :2] = BULK + pages() * nbytes
        parts[::2, 2] = nbytes
        parts[1::2, 2] = second

        def run(count: int) -> None:
            for _ in range(count):
                self.endpoint.put_list(self.region, self.remote, parts).wait(timeout=PATIENCE)

        return run

    def awaited(self, nbytes: int) -> Run:
        put = self.endpoint.put
        here = self.region[BULK : BULK + nbytes]
        there = self.remote[BULK : BULK + nbytes]

        async def put_all(count: int) -> None:
            for _ in range(count):
                await put(here, there)

        return lambda count: self.loop.run_until_complete(put_all(count))

    def gather(self, word_here: int, word_there: int) -> Run:
        """Receives messages. All receives are under way before the peer is told to send."""
        receive = self.endpoint.receive
        into = [self.region[BULK + i * WORD : BULK + (i + 1) * WORD] for i in range(RECEIVES)]
        here = self.region[word_here : word_here + WORD]
        there = self.remote[word_there : word_there + WORD]
        word = self.bytes[word_here : word_here + WORD].view(np.uint64)

        async def receive_all(count: int) -> None:
            for _ in range(count):
                receives = [receive(slice_) for slice_ in into]
                word[0] += 1  # the peer sends when it sees the next number
                await self.endpoint.put(here, there)
                await asyncio.gather(*receives)

        return lambda count: self.loop.run_until_complete(receive_all(count))


def pages() -> npt.NDArray[np.uint64]:
    """Pairs of numbers of all pages: in order here, in the reverse order there."""
    here = np.arange(PAGES, dtype=np.uint64)
    return np.column_stack((here, here[::-1]))


def median_ns(run: Run, chunks: int, count: int) -> float:
    times = []
    for _ in range(chunks):
        before = time.perf_counter_ns()
        run(count)
        times.append(time.perf_counter_ns() - before)
    return float(sorted(times)[chunks // 2])


def main() -> None:
    memory, fd, size, port, word_in, word_out = map(int, sys.argv[1:])
    line = Line(fd)
    side = Side(memory, size, port, line)
    works: dict[str, Callable[[int], Run]] = {
        "put": side.put,
        "list": lambda _: side.list(),
        "blocks": side.blocks,
        "parts": lambda nbytes: side.parts(nbytes, nbytes),
        "mixed": lambda nbytes: side.parts(nbytes, nbytes // 2),
        "await": side.awaited,
        "gather": lambda _: side.gather(word_out, word_in),
    }
    runs: dict[tuple[str, int], Run] = {}
    while command := line.receive(COMMAND.size):
        name, nbytes, chunks, count = COMMAND.unpack(command)
        work = name.rstrip(b"\0").decode()
        if (work, nbytes) not in runs:
            runs[work, nbytes] = works[work](nbytes)
        line.send(FIGURE.pack(median_ns(runs[work, nbytes], chunks, count)))


if __name__ == "__main__":
    main()
