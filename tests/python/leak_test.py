# SPDX-License-Identifier: MIT
"""100,000 cycles leak nothing: no descriptor, no memory, no reference."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import sys
from collections.abc import Callable

import pytest
from conftest import Pair, Peer

import hbmwire

# AddressSanitizer makes each cycle ten times slower, and keeps freed memory.
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")
CYCLES = 5_000 if SANITIZED else 100_000
# The growth of a process allowed in so many cycles. 100,000 leaks of malloc's smallest block would
# be 3.2 MB.
MOST_BYTES = 2 << 20

pytestmark = pytest.mark.limit(280)


class Owner(bytearray):
    """A bytearray that counts its instances."""

    alive = 0

    def __init__(self, nbytes: int) -> None:
        super().__init__(nbytes)
        Owner.alive += 1

    def __del__(self) -> None:
        Owner.alive -= 1


def resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def leaks_nothing(cycle: Callable[[], object], cycles: int) -> None:
    """Fails if descriptors, objects or memory grow over so many cycles."""
    # The first cycles make pools and free lists, which exist once or keep their largest size.
    for _ in range(max(200, cycles // 5)):
        cycle()
    gc.collect()
    open_before, objects_before, memory_before = descriptors(), len(gc.get_objects()), resident()
    blocks_before = sys.getallocatedblocks()
    for _ in range(cycles):
        cycle()
    gc.collect()
    assert descriptors() <= open_before
    assert len(gc.get_objects()) - objects_before < 50
    if not SANITIZED:
        # Objects that the collector does not track are in blocks of the interpreter's allocator.
        assert sys.getallocatedblocks() - blocks_before < 500
        assert resident() - memory_before < MOST_BYTES


@pytest.mark.parametrize(
    "what",
    ["descriptor", "object"] if SANITIZED else ["descriptor", "object", "reference", "bytes"],
)
def test_a_leak_is_noticed(what: str) -> None:
    kept: list[object] = []
    numbers = iter(range(1 << 30))
    makes: dict[str, Callable[[], object]] = {
        "reference": lambda: 10**9 + next(numbers),
        "bytes": lambda: bytes(1000),
        "descriptor": lambda: os.dup(0),
        "object": lambda: [None],
    }
    with pytest.raises(AssertionError):
        leaks_nothing(lambda: kept.append(makes[what]()), 700)
    if what == "descriptor":
        for number in kept:
            os.close(number)  # type: ignore[arg-type]


def test_register_and_put_leak_nothing(pair: Pair) -> None:
    owner = Owner(4096)
    before = sys.getrefcount(owner)

    def cycle() -> None:
        with pair.context.register(owner) as region:
            pair.here.put(region[0:64], pair.remote[0:64]).wait(10)

    leaks_nothing(cycle, CYCLES)
    assert sys.getrefcount(owner) == before


def test_memory_of_many_owners_is_let_go(pair: Pair) -> None:
    def cycle() -> None:
        region = pair.context.register(Owner(4096))
        pair.here.put(region, pair.remote[:4096]).wait(10)

    leaks_nothing(cycle, CYCLES // 5)
    assert Owner.alive == 0


def test_transfers_whose_handles_are_dropped_leak_nothing(pair: Pair) -> None:
    region = pair.context.register(Owner(4096))

    def cycle() -> None:
        pair.here.put(region[:64], pair.remote[:64])
        pair.here.get(region[:64], pair.remote[:64])
        pair.here.flush().wait(10)

    leaks_nothing(cycle, CYCLES // 5)
    while pair.context.worker.progress() != 0:
        pass
    assert pair.context.worker.in_flight == 0


@pytest.mark.parametrize("type", ["host", "gaudi", "cuda"])
def test_allocated_memory_leaks_nothing(context: hbmwire.Context, type: str) -> None:
    def cycle() -> None:
        with context.allocate(type, 1 << 16) as region:  # type: ignore[arg-type]
            region.write(b"text")

    leaks_nothing(cycle, CYCLES // 500)


def test_keys_lists_blocks_and_reports_leak_nothing(pair: Pair) -> None:
    blocks = pair.source.blocks(64)

    def cycle() -> None:
        key = pair.memory.pack_key()
        remote = pair.here.remote(bytes(key))
        repr((key, key.info, remote, hbmwire.RemoteKey(bytes(key)).info.nics, remote.access))
        pair.here.put_list(pair.source, remote, [(0, 0, 64), (64, 128, 32)]).wait(10)
        pair.here.put_blocks(blocks, remote.blocks(64), [(1, 2), (3, 4)]).wait(10)
        put = pair.here.put(pair.source[:64], remote[:64]).wait(10)
        repr((put, put.report, put.report.refusals, put.report.rails, put.explain()))
        prepared = pair.here.prepare_put([(pair.source[:64], remote[:64])])
        prepared.start().wait(10)

    leaks_nothing(cycle, CYCLES // 50)


def test_messages_leak_nothing(context: hbmwire.Context) -> None:
    pair = Pair(context, messages="handed_out")

    def cycle() -> None:
        pair.there.send(b"text" * 10, tag=4)
        with context.worker.next_message(10) as message:
            assert len(message.data) == 40
        pair.there.send(b"text")
        context.worker.next_message(10)

    leaks_nothing(cycle, CYCLES // 10)
    pair.close()


def test_failures_leak_nothing(pair: Pair) -> None:
    def cycle() -> None:
        calls: list[Callable[[], object]] = [
            lambda: pair.here.put(pair.source[:1], pair.remote[:2]),
            lambda: pair.context.register((1, 0)),
            lambda: pair.context.register("text"),
            lambda: pair.context.allocate("no such", 1),  # type: ignore[arg-type]
            lambda: pair.here.receive(pair.source[:1], tag=1).wait(0),
            lambda: hbmwire.RemoteKey(b"none"),
            lambda: pair.here.put(None, None),  # type: ignore[arg-type]
        ]
        for call in calls:
            with pytest.raises((hbmwire.Error, TypeError, ValueError)):
                call()
        pair.there.send(b"x", tag=1)

    leaks_nothing(cycle, CYCLES // 100)


def test_connections_leak_nothing(peer: Peer, context: hbmwire.Context) -> None:
    def cycle() -> None:
        with context.connect(peer.address, timeout=10) as endpoint:
            endpoint.remote("memory", timeout=10)

    leaks_nothing(cycle, CYCLES // 500)


def test_contexts_and_workers_leak_nothing() -> None:
    def cycle() -> None:
        with hbmwire.Context() as context, context.create_worker() as worker:
            with worker.listen(0, "127.0.0.1"), context.listen(0, "127.0.0.1"):
                worker.invite()

    leaks_nothing(cycle, CYCLES // 1000)


def test_asyncio_leaks_nothing(pair: Pair) -> None:
    async def many() -> None:
        for _ in range(100):
            receive = pair.here.receive(pair.source[:8], tag=1)
            waiting = asyncio.ensure_future(_await(receive))
            await asyncio.sleep(0)
            pair.there.send(b"some", tag=1)
            await waiting
            await pair.here.put(pair.source[:8], pair.remote[:8])

    leaks_nothing(lambda: asyncio.run(many()), CYCLES // 1000)


async def _await(what: hbmwire.Transfer) -> hbmwire.Transfer:
    return await what


def test_tensors_by_dlpack_leak_nothing(context: hbmwire.Context) -> None:
    numpy = pytest.importorskip("numpy", reason="python3-numpy is not installed")
    region = context.allocate("host", 4096)

    def cycle() -> None:
        array = numpy.from_dlpack(region)
        context.register(array).close()
        memoryview(region).release()  # type: ignore[arg-type]  # for mypy before 1.4
        numpy.frombuffer(region, dtype=numpy.uint8)

    leaks_nothing(cycle, CYCLES // 10)
    region.close()
