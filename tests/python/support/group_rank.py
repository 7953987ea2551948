# SPDX-License-Identifier: MIT
"""One rank of a group, as a launcher starts it: group_rank.py WORK.

Prints a line of JSON at its end. WORK is

all: exchanges, talks to each other rank, and takes part in a broadcast.
until_lost: barriers until one fails.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import hbmwire


def talk_to_all(context: hbmwire.Context, group: hbmwire.Group) -> None:
    inbox = context.allocate("host", 64 * group.size)
    transfers = []
    for other in range(group.size):
        if other == group.rank:
            continue
        peer = group.endpoint(other)
        transfers.append(peer.receive(inbox[64 * other : 64 * other + 64]))
        transfers.append(peer.send(b"from %d to %d" % (group.rank, other)))
    group.worker.wait_all(transfers, 30)
    for other in range(group.size):
        expected = b"from %d to %d" % (other, group.rank)
        if other != group.rank and inbox.read(64 * other, len(expected)) != expected:
            raise AssertionError(f"rank {other} said something else")


def work_on_all(context: hbmwire.Context, group: hbmwire.Group) -> None:
    names = group.exchange(b"rank %d" % group.rank)
    assert names == [b"rank %d" % rank for rank in range(group.size)], names
    talk_to_all(context, group)
    memory = context.register(bytearray(bytes([group.rank]) * 100_000))
    group.broadcast(memory, 1, piece_bytes=4096)
    assert memory.read() == bytes([1]) * 100_000
    group.barrier()


def run(work: str) -> dict[str, Any]:
    with hbmwire.Context() as context, hbmwire.Group.create(context, timeout=30) as group:
        end: dict[str, Any] = {"rank": group.rank, "size": group.size, "launcher": group.launcher}
        try:
            if work == "all":
                work_on_all(context, group)
            while work == "until_lost":
                print("met", flush=True)
                group.barrier(20)
            return end
        except hbmwire.Error as error:
            return {
                **end,
                "error": error.code,
                "subject": error.subject,
                "failed": group.failed,
                "text": str(error),
            }


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1])), flush=True)
