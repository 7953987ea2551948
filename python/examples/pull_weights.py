#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Pulls weights from another process in pieces, several at a time, and verifies them.

    node2$ pull_weights.py --listen 7000 --size 4G             serves them until Ctrl-C
    node1$ pull_weights.py --connect node2:7000 --memory gaudi

The server tells in the handshake how long the weights and the pieces are. It has the digest of
each piece in separate memory, which the client gets first. The rest happens without the server's
CPU. Progress goes to standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import hashlib
import json
import random
import sys
import time

import hbmwire

import ends

DIGEST_BYTES = 32


def digest_of(piece: bytes | memoryview) -> bytes:
    return hashlib.sha256(piece).digest()


class Progress:
    """A line on standard error that shows the progress, at most five times a second."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._begin = self._shown = time.monotonic()

    def show(self, done: int) -> None:
        now = time.monotonic()
        if now - self._shown < 0.2 and done < self._total:
            return
        self._shown = now
        rate = done / max(now - self._begin, 1e-9) / (1 << 30)
        percent = 100 * done // self._total
        begin, end = ("\r", "") if sys.stderr.isatty() else ("", "\n")
        line = f"{percent:3} % of {self._total / (1 << 30):.2f} GiB, {rate:.2f} GiB/s"
        print(f"{begin}{line}", end=end, file=sys.stderr, flush=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        if sys.stderr.isatty():
            print(file=sys.stderr)


# --- the server


def serve(options: ends.Options) -> None:
    about = {"bytes": options.size, "piece_bytes": options.piece}
    with hbmwire.Context() as context:
        weights = context.allocate(options.memory, options.size)
        digests = context.register(make_up(weights, options.piece))
        listener = context.listen(
            options.listen, options.address, hello=json.dumps(about).encode()
        )
        with listener:
            listener.advertise("weights", weights, access="remote_read")
            listener.advertise("digests", digests)
            asyncio.run(serve_all(listener, options.end_after))


async def serve_all(listener: hbmwire.Listener, end_after: int | None) -> None:
    ends.say_where(listener)
    clients: set[asyncio.Task[None]] = set()
    async with asyncio.TaskGroup() as tasks:
        async for peer in listener:
            clients.add(tasks.create_task(until_gone(peer)))
            if len(clients) == end_after:
                break


async def until_gone(peer: hbmwire.Endpoint) -> None:
    try:
        await peer.await_closed()
        print(f"{peer.peer} has left", flush=True)
    except hbmwire.Error as error:
        print(f"a client was lost: {error}", flush=True)


def make_up(weights: hbmwire.Region, piece_bytes: int) -> bytes:
    """Writes weights made of noise, and returns the digests of their pieces."""
    noise = random.Random(1).randbytes(min(piece_bytes, len(weights)))
    digests = bytearray()
    for number, begin in enumerate(range(0, len(weights), piece_bytes)):
        first = number * 4093 % len(noise)  # so that pieces differ
        piece = (noise[first:] + noise[:first])[: len(weights) - begin]
        weights.write(piece, begin)
        digests += digest_of(piece)
    return bytes(digests)


# --- the client


def pull(options: ends.Options) -> None:
    end = time.monotonic() + options.timeout
    with hbmwire.Context() as context:
        with context.connect(options.connect, timeout=min(options.timeout, 10)) as peer:
            about = json.loads(peer.peer_hello)
            weights = context.allocate(options.memory, about["bytes"])
            begin = time.monotonic()
            pull_pieces(context, peer, weights, about["piece_bytes"], options.in_flight, end)
            took = time.monotonic() - begin
    gib = about["bytes"] / (1 << 30)
    print(f"pulled and verified {gib:.2f} GiB in {took:.1f} s: {gib / took:.2f} GiB/s")


def pull_pieces(
    context: hbmwire.Context,
    peer: hbmwire.Endpoint,
    weights: hbmwire.Region,
    piece_bytes: int,
    in_flight: int,
    end: float,
) -> None:
    """Gets the weights, piece by piece. `end`: the deadline, as time.monotonic()."""

    def left() -> float:
        return max(end - time.monotonic(), 0)

    theirs = peer.remote("weights", timeout=left())
    remote_digests = peer.remote("digests", timeout=left())
    digests = bytearray(remote_digests.nbytes)
    peer.get(context.register(digests), remote_digests).wait(left())
    read = memoryview(bytearray(piece_bytes))
    pieces = [slice(at, at + piece_bytes) for at in range(0, len(weights), piece_bytes)]
    waiting = collections.deque(pieces)
    under_way: collections.deque[tuple[slice, hbmwire.Transfer]] = collections.deque()
    verified = 0
    with Progress(len(weights)) as progress:
        while waiting or under_way:
            while waiting and len(under_way) < in_flight:
                piece = waiting.popleft()
                under_way.append((piece, peer.get(weights[piece], theirs[piece])))
            # Transfers of one endpoint end in order; the others go on while this piece is read.
            piece, transfer = under_way.popleft()
            transfer.wait(left())
            here = read[: transfer.bytes]
            weights.read_into(here, piece.start)
            number = piece.start // piece_bytes
            if digest_of(here) != digests[number * DIGEST_BYTES : (number + 1) * DIGEST_BYTES]:
                raise ends.Wrong(f"the bytes from {piece.start} on are not those of the server")
            verified += transfer.bytes
            progress.show(verified)
    print(transfer.explain())


def parser() -> argparse.ArgumentParser:
    made = ends.parser_of(__doc__, timeout=600.0)
    made.add_argument(
        "--size", type=ends.size, default="1G", help="of the server's weights (default: 1G)"
    )
    made.add_argument(
        "--piece", type=ends.size, default="16M", help="of the server's weights (default: 16M)"
    )
    made.add_argument(
        "--in-flight", type=ends.count, default=4, metavar="N", help="pieces (default: 4)"
    )
    made.add_argument(
        "--end-after", type=ends.count, metavar="N", help="the server ends after N clients"
    )
    return made


if __name__ == "__main__":
    ends.run(parser(), listen=serve, connect=pull, demo=lambda options: ["--end-after", "1"])
