#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prefill and decode with paged KV blocks: a request's blocks go from one cache to another.

    decoder$ paged_blocks.py --listen 7000 --memory gaudi
    prefill$ paged_blocks.py --connect decoder:7000 --memory gaudi

Each end has a region for each layer, cut into blocks. For each request the decoder takes free
blocks and tells prefill their numbers. Prefill puts its own blocks of the request there, of all
layers, as one transfer by pairs of block numbers. The request's number comes after the blocks and
tells the decoder that they have arrived. The decoder checks every block.
"""

from __future__ import annotations

import array
import json
import random
from collections.abc import Sequence
from typing import Any

import hbmwire

import ends

LAYERS = 4
BLOCKS = 1024  # of each layer
BLOCK_BYTES = 4096
REQUESTS = 8
BLOCKS_OF_REQUEST = 200  # of each layer


class Cache:
    """A paged KV cache: regions of memory, and which of their blocks are free."""

    def __init__(self, context: hbmwire.Context, memory: ends.Memory) -> None:
        self.layers = [context.allocate(memory, BLOCKS * BLOCK_BYTES) for _ in range(LAYERS)]
        self.table = hbmwire.BlockTable(self.layers, BLOCK_BYTES)
        self._free = list(range(BLOCKS))
        random.shuffle(self._free)  # as in a cache that has been used for a while

    def take(self, count: int) -> list[int]:
        taken, self._free = self._free[:count], self._free[count:]
        return taken

    def give_back(self, blocks: Sequence[int]) -> None:
        self._free.extend(blocks)


def compute(cache: Cache, request: int, blocks: Sequence[int]) -> None:
    """Fills the blocks of a request, as a model would."""
    for layer, region in enumerate(cache.layers):
        contents = bytearray(region.nbytes)
        for index, block in enumerate(blocks):
            begin = block * BLOCK_BYTES
            contents[begin : begin + BLOCK_BYTES] = contents_of(request, layer, index)
        region.write(contents)


def verify(cache: Cache, request: int, blocks: Sequence[int]) -> None:
    for layer, region in enumerate(cache.layers):
        contents = memoryview(region.read())
        for index, block in enumerate(blocks):
            begin = block * BLOCK_BYTES
            if contents[begin : begin + BLOCK_BYTES] != contents_of(request, layer, index):
                raise ends.Wrong(f"request {request}, layer {layer}: block {block} is wrong")


def contents_of(request: int, layer: int, index: int) -> bytes:
    return bytes((request, layer, index % 251, 7)) * (BLOCK_BYTES // 4)  # each must fit a byte


def pairs_of(here: Sequence[int], there: Sequence[int]) -> Any:
    """The pairs (block here, block there) of all layers. A table numbers all layers in turn."""
    try:
        import numpy
    except ImportError:
        first = [layer * BLOCKS for layer in range(LAYERS)]
        return (
            array.array("Q", [number + base for base in first for number in here]),
            array.array("Q", [number + base for base in first for number in there]),
        )
    layers = numpy.arange(LAYERS, dtype=numpy.uint64)[:, None, None] * numpy.uint64(BLOCKS)
    pairs = numpy.array([here, there], dtype=numpy.uint64).T
    return (pairs + layers).reshape(-1, 2)


# --- prefill


def prefill(options: ends.Options) -> None:
    with hbmwire.Context() as context, context.connect(options.connect, timeout=10) as peer:
        cache = Cache(context, options.memory)
        theirs = hbmwire.RemoteBlockTable(
            [peer.remote(f"layer {layer}", timeout=10) for layer in range(LAYERS)], BLOCK_BYTES
        )
        order = bytearray(64 * 1024)
        into = context.register(order)
        for _ in range(REQUESTS):
            length = peer.receive(into).wait(options.timeout).bytes
            asked = json.loads(order[:length])
            there = asked["blocks"]
            here = cache.take(len(there))
            compute(cache, asked["request"], here)
            put = peer.put_blocks(
                cache.table, theirs, pairs_of(here, there), immediate=asked["request"]
            )
            put.wait(options.timeout)
            cache.give_back(here)
        print(f"{len(here) * LAYERS} blocks at a time: {put.explain()}")


# --- decode


def decode(options: ends.Options) -> None:
    with hbmwire.Context() as context:
        cache = Cache(context, options.memory)
        with context.listen(options.listen, options.address) as listener:
            for layer, region in enumerate(cache.layers):
                listener.advertise(f"layer {layer}", region)
            ends.say_where(listener)
            with listener.accept(options.timeout) as peer:
                for request in range(REQUESTS):
                    decode_one(peer, cache, request, options.timeout)
                peer.wait_closed(options.timeout)
    print(f"verified {REQUESTS * BLOCKS_OF_REQUEST * LAYERS} blocks of {REQUESTS} requests")


def decode_one(peer: hbmwire.Endpoint, cache: Cache, request: int, timeout: float) -> None:
    blocks = cache.take(BLOCKS_OF_REQUEST)
    here = peer.receive_immediate()
    peer.send(json.dumps({"request": request, "blocks": blocks}).encode())
    if here.wait(timeout).value != request:
        raise ends.Wrong(f"blocks of another request came: {here.value}")
    for region in cache.layers:
        # After this flush, the card's own kernels see the bytes that its NIC has written.
        peer.worker.flush(region).wait(timeout)
    verify(cache, request, blocks)
    cache.give_back(blocks)


if __name__ == "__main__":
    ends.run(ends.parser_of(__doc__), listen=decode, connect=prefill)
