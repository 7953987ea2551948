#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""An asyncio server that looks up rows of a table for many clients.

    node2$ async_server.py --listen 7000                      ends with Ctrl-C
    node1$ async_server.py --connect node2:7000 --clients 100

A client gives the key to its memory when it connects, and sends the numbers of the rows that it
wants. The server puts each row from the table's memory into the client's, which no CPU touches, and
then a number that tells the client. There is one coroutine for each client, one thread, no polling.
"""

from __future__ import annotations

import argparse
import asyncio
import struct

import hbmwire

import ends

ROWS = 4096
ROW_BYTES = 2048
REQUEST = struct.Struct("<I")
PLACES = 4  # rows that a client asks for at a time


def row(number: int) -> bytes:
    return number.to_bytes(4, "little") * (ROW_BYTES // 4)


# --- the server


def listen(options: ends.Options) -> None:
    with hbmwire.Context() as context:
        asyncio.run(serve(context, options))


async def serve(context: hbmwire.Context, options: ends.Options) -> None:
    table = context.allocate(options.memory, ROWS * ROW_BYTES)
    table.write(b"".join(row(number) for number in range(ROWS)))
    served = 0
    with context.listen(options.listen, options.address) as listener:
        ends.say_where(listener)
        async with asyncio.TaskGroup() as clients:
            async for peer in listener:
                clients.create_task(serve_client(context, peer, table))
                served += 1
                if served == options.end_after:
                    break
    print(f"served {served} clients")


async def serve_client(
    context: hbmwire.Context, peer: hbmwire.Endpoint, table: hbmwire.Region
) -> None:
    """Answers until the client leaves. A client that fails does not affect the others."""
    memory = bytearray(REQUEST.size)
    request = context.register(memory)
    try:
        async with peer:
            theirs = await peer.aremote(peer.peer_hello)  # it is a key, so the client is not asked
            answered = 0
            while await is_there(peer, request):
                (number,) = REQUEST.unpack(memory)
                begin, place = number * ROW_BYTES, answered % PLACES * ROW_BYTES
                # The put goes on by itself, behind earlier ones. put() refuses a row that does not
                # exist.
                peer.put(
                    table[begin : begin + ROW_BYTES],
                    theirs[place : place + ROW_BYTES],
                    immediate=number,
                )
                answered += 1
    except hbmwire.Error as error:
        print(f"a client was lost: {error}", flush=True)


async def is_there(peer: hbmwire.Endpoint, request: hbmwire.Region) -> bool:
    """Waits for the next request. False: the client has said goodbye."""
    try:
        await peer.receive(request)
    except hbmwire.PeerFailed:
        if peer.phase == "closed":
            return False
        raise
    return True


# --- the clients


def connect(options: ends.Options) -> None:
    with hbmwire.Context() as context:
        asyncio.run(ask_all(context, options))


async def ask_all(context: hbmwire.Context, options: ends.Options) -> None:
    try:
        async with asyncio.timeout(options.timeout):
            answers = await asyncio.gather(
                *(ask(context, options, first) for first in range(options.clients))
            )
    except TimeoutError:
        raise ends.Wrong(f"no answers within {options.timeout} s") from None
    print(f"verified {sum(answers)} rows of {len(answers)} clients")


async def ask(context: hbmwire.Context, options: ends.Options, first: int) -> int:
    """One client, which asks for some rows and checks them. Returns how many there were."""
    rows = context.allocate("host", PLACES * ROW_BYTES)
    key = rows.pack_key(access="remote_write")  # kept: the server's access ends with it
    verified = 0
    async with context.aconnect(
        options.connect, timeout=options.timeout, hello=bytes(key)
    ) as peer:
        while verified < options.rows:
            numbers = [(first + verified + place) % ROWS for place in range(PLACES)]
            answers = [peer.receive_immediate() for _ in numbers]
            for number in numbers:
                peer.send(REQUEST.pack(number))
            for place, (number, answer) in enumerate(zip(numbers, answers)):
                told = (await answer).value
                got = rows.read(place * ROW_BYTES, ROW_BYTES)
                if told != number or got != row(number):
                    raise ends.Wrong(f"row {number} has other contents than it should have")
                verified += 1
    return verified


def parser() -> argparse.ArgumentParser:
    made = ends.parser_of(__doc__)
    made.add_argument("--clients", type=ends.count, default=16, help="at a time (default: 16)")
    made.add_argument("--rows", type=ends.count, default=64, help="of each client (default: 64)")
    made.add_argument(
        "--end-after", type=ends.count, metavar="N", help="the server ends after N clients"
    )
    return made


if __name__ == "__main__":
    ends.run(
        parser(), listen, connect, demo=lambda options: ["--end-after", str(options.clients)]
    )
