# SPDX-License-Identifier: MIT
"""One thread closes an object that another one uses."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from conftest import EVERYTHING, Pair, Peer, eventually

import hbmwire

# The closing thread does not always come in time, but often enough in so many rounds.
ROUNDS = 30


class Owner(bytearray):
    """A bytearray that supports weak references."""


@contextmanager
def nothing_interrupts() -> Iterator[None]:
    """Threads switch only when a call releases the GIL."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def during(call: Callable[[], Any], meanwhile: Callable[[], object]) -> Any:
    """Returns the value of `call`, or the library's error that it raises. `call` runs in another
    thread, and `meanwhile` in this one as soon as `call` has released the GIL.
    """
    begun = threading.Lock()
    begun.acquire()
    results: list[Any] = []

    def run() -> None:
        begun.release()
        try:
            results.append(call())
        except hbmwire.Error as error:
            results.append(error)

    thread = threading.Thread(target=run)
    with nothing_interrupts():
        thread.start()
        begun.acquire()
        meanwhile()
    thread.join()
    return results.pop()


def owned_region(context: hbmwire.Context, nbytes: int) -> tuple[hbmwire.Region, Any]:
    """A region that holds the only reference to its owner, and a weak reference to the owner."""
    owner = Owner(nbytes)
    return context.register(owner), weakref.ref(owner)


def is_gone(reference: Any) -> bool:
    if reference() is not None:
        gc.collect()
    return reference() is None


# --- memory


def test_a_key_keeps_memory_whose_region_is_closed_while_it_is_packed(
    context: hbmwire.Context,
) -> None:
    for _ in range(ROUNDS):
        region, owner = owned_region(context, 1 << 20)
        key = during(lambda: region.pack_key(revocable=True), region.close)
        if isinstance(key, hbmwire.MemoryKey):
            assert key.valid and owner() is not None
        else:
            assert isinstance(key, hbmwire.InvalidArgument)
        del key
        eventually(lambda: is_gone(owner))


def test_a_name_keeps_memory_whose_region_is_closed_while_it_is_advertised(pair: Pair) -> None:
    for i in range(ROUNDS):
        region, owner = owned_region(pair.context, 1 << 20)
        advertised = during(
            lambda: pair.listener.advertise(f"number {i}", region, revocable=True), region.close
        )
        if advertised is None:
            assert owner() is not None
            pair.listener.withdraw(f"number {i}")
        else:
            assert isinstance(advertised, hbmwire.InvalidArgument)
        eventually(lambda: is_gone(owner))


@pytest.mark.parametrize("type", ["host", "gaudi"])
def test_a_copy_is_complete_though_its_region_is_closed_meanwhile(
    context: hbmwire.Context, type: Any
) -> None:
    data = bytes(range(256)) * 4096
    for _ in range(ROUNDS // 2):
        region = context.allocate(type, len(data))
        region.write(data)
        copy = during(region.read, region.close)
        assert copy == data or isinstance(copy, hbmwire.InvalidArgument)
        assert region.closed
        region = context.allocate(type, len(data))
        written = during(lambda: region.write(data), region.close)
        assert written is None or isinstance(written, hbmwire.InvalidArgument)


def test_a_write_keeps_the_owner_of_a_region_that_is_closed_meanwhile(
    context: hbmwire.Context,
) -> None:
    data = b"x" * (1 << 20)
    for _ in range(ROUNDS // 2):
        region, owner = owned_region(context, len(data))
        during(lambda: region.write(data), region.close)
        eventually(lambda: is_gone(owner))


def test_a_table_of_blocks_keeps_memory_whose_region_is_closed(pair: Pair) -> None:
    for _ in range(ROUNDS // 2):
        region, owner = owned_region(pair.context, 1 << 16)
        table = region.blocks(4096)
        put = pair.here.put_blocks(table, pair.remote.blocks(4096), [(0, 0), (3, 5)])
        assert isinstance(during(lambda: put.wait(10), region.close), hbmwire.Transfer)
        assert owner() is not None
        del table, put
        eventually(lambda: is_gone(owner))


def test_a_key_is_closed_while_another_thread_revokes_it(context: hbmwire.Context) -> None:
    region, _ = owned_region(context, 1 << 20)
    for _ in range(ROUNDS * 6):
        key = region.pack_key(revocable=True)
        revoked = during(key.revoke, key.close)
        assert revoked is None or isinstance(revoked, hbmwire.InvalidArgument)
        assert not key.valid


def test_an_attach_listener_and_a_region_are_closed_while_memory_is_published(
    context: hbmwire.Context,
) -> None:
    for _ in range(ROUNDS * 6):
        listener = hbmwire.AttachListener()
        region = context.allocate("gaudi", 1 << 20)

        def close() -> None:
            region.close()
            listener.close()

        published = during(lambda: listener.publish(region), close)
        assert isinstance(published, (hbmwire.Publication, hbmwire.InvalidArgument))
        del published, region, listener


# --- peers


@pytest.fixture
def client(context: hbmwire.Context) -> hbmwire.Worker:
    return context.create_worker(progress_thread=True)


def accept_while(
    context: hbmwire.Context,
    client: hbmwire.Worker,
    close: Callable[[hbmwire.Worker, hbmwire.Listener], object],
    memory: Any,
) -> tuple[Any, hbmwire.Endpoint | None]:
    """The value of accept() if `close` is called when a peer has connected, and the peer's end.

    The listener advertises `memory`.
    """
    worker = context.create_worker(progress_thread=True)
    listener = worker.listen(0, "127.0.0.1")
    listener.advertise("memory", context.register(memory, access=EVERYTHING))
    address = f"127.0.0.1:{listener.port}"
    peers: list[hbmwire.Endpoint] = []

    def connect_and_close() -> None:
        # The library's threads connect both ends, while accept() cannot get the GIL.
        pending = client._start_connect(address, 5.0)
        end = time.monotonic() + 1
        while not pending.done and time.monotonic() < end:
            pass
        close(worker, listener)
        with suppress(hbmwire.PeerFailed):  # if close() came during the handshake
            if pending.poll():
                peers.append(pending.take())

    accepted = during(lambda: listener.accept(10), connect_and_close)
    return accepted, peers.pop() if peers else None


def test_accept_gives_no_peer_of_a_listener_that_is_closed_meanwhile(
    context: hbmwire.Context, client: hbmwire.Worker
) -> None:
    for _ in range(5):
        owner = Owner(1 << 16)
        kept = weakref.ref(owner)
        accepted, peer = accept_while(context, client, lambda _, one: one.close(), owner)
        assert isinstance(accepted, hbmwire.InvalidArgument)
        del owner
        eventually(lambda: is_gone(kept))
        if peer is not None:
            with pytest.raises(hbmwire.PeerFailed):
                peer.remote("memory", timeout=10)


def test_accept_gives_no_living_peer_of_a_worker_that_is_closed_meanwhile(
    context: hbmwire.Context, client: hbmwire.Worker
) -> None:
    for _ in range(5):
        accepted, peer = accept_while(context, client, lambda one, _: one.close(), Owner(64))
        if isinstance(accepted, hbmwire.Endpoint):
            assert accepted.closed
            with pytest.raises(hbmwire.InvalidArgument):
                accepted.send(b"")
        else:
            assert isinstance(accepted, hbmwire.InvalidArgument)
        if peer is not None:
            with pytest.raises(hbmwire.PeerFailed):
                peer.remote("memory", timeout=10)


# --- contexts and workers


def test_many_threads_that_first_use_a_context_have_one_worker() -> None:
    for _ in range(10):
        with hbmwire.Context() as context:
            together = threading.Barrier(8)
            workers: list[hbmwire.Worker] = []

            def use(
                context: hbmwire.Context = context,
                together: threading.Barrier = together,
                workers: list[hbmwire.Worker] = workers,
            ) -> None:
                together.wait()
                workers.append(context.worker)

            threads = [threading.Thread(target=use) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(workers) == 8 and all(one is context.worker for one in workers)
            assert not context.worker.closed


@pytest.mark.parametrize("name", ["worker", "create_worker"])
def test_a_context_that_is_closed_meanwhile_leaves_no_open_worker(name: str) -> None:
    for _ in range(ROUNDS):
        context = hbmwire.Context()
        calls: dict[str, Callable[[], Any]] = {
            "worker": lambda: context.worker,
            "create_worker": context.create_worker,
        }
        made = during(calls[name], context.close)
        if isinstance(made, hbmwire.Worker):
            assert made.closed
        else:
            assert isinstance(made, hbmwire.InvalidArgument)


@pytest.mark.parametrize("name", ["listen", "invite"])
def test_a_worker_that_is_closed_meanwhile_leaves_no_open_listener_or_invitation(
    context: hbmwire.Context, name: str
) -> None:
    for _ in range(ROUNDS // 2):
        worker = context.create_worker()
        calls: dict[str, Callable[[], Any]] = {
            "listen": lambda: worker.listen(0, "127.0.0.1"),
            "invite": worker.invite,
        }
        made = during(calls[name], worker.close)
        if isinstance(made, hbmwire.Listener):
            assert made.closed
        elif isinstance(made, hbmwire.Invitation):
            with pytest.raises(hbmwire.InvalidArgument):
                bytes(made)
        else:
            assert isinstance(made, hbmwire.InvalidArgument)


def stopped(context: hbmwire.Context, peer: Peer) -> hbmwire.Endpoint:
    """An endpoint to a stopped peer, whose absence is not noticed for a long time."""
    endpoint = context.connect(
        peer.address, timeout=10, peer_timeout=40, operation_timeout=None, eager_bytes=4096
    )
    peer.stop()
    return endpoint


def test_a_worker_that_is_closed_settles_all_that_is_awaited(
    context: hbmwire.Context, peer: Peer
) -> None:
    async def main() -> None:
        async def wait(transfer: hbmwire.Transfer) -> str:
            with pytest.raises(hbmwire.Error):
                await transfer
            return "over" if transfer.done else "under way"

        waiting = [asyncio.ensure_future(wait(one)) for one in transfers]
        await asyncio.sleep(0)
        closing = asyncio.get_running_loop().run_in_executor(None, context.close)
        assert await asyncio.gather(*waiting) == ["over"] * len(transfers)
        await closing

    endpoint = stopped(context, peer)
    region, owner = owned_region(context, 1 << 16)
    transfers = [endpoint.receive(region[i : i + 1], tag=i) for i in range(100)]
    transfers += [endpoint.send(region, level="arrived") for _ in range(10)]
    asyncio.run(asyncio.wait_for(main(), 20))
    del region, transfers
    eventually(lambda: is_gone(owner))


def test_a_context_is_closed_soon_though_a_peer_does_not_answer(
    context: hbmwire.Context, peer: Peer
) -> None:
    endpoint = stopped(context, peer)
    region, owner = owned_region(context, 1 << 16)
    transfer = endpoint.send(region, level="arrived")
    begin = time.monotonic()
    context.close()
    assert time.monotonic() - begin < 10
    assert transfer.done
    with pytest.raises(hbmwire.Error):
        transfer.wait(1)
    del region, transfer
    eventually(lambda: is_gone(owner))


@pytest.mark.parametrize("name", ["wait", "wait_any", "wait_all", "next_message", "accept"])
def test_a_wait_ends_if_its_worker_is_closed_meanwhile(
    context: hbmwire.Context, peer: Peer, name: str
) -> None:
    endpoint = stopped(context, peer)
    worker = context.worker
    transfer = endpoint.send(context.allocate("host", 1 << 16), level="arrived")
    listener = worker.listen(0, "127.0.0.1")
    calls: dict[str, Callable[[], Any]] = {
        "wait": transfer.wait,
        "wait_any": lambda: worker.wait_any([transfer]),
        "wait_all": lambda: worker.wait_all([transfer]),
        "next_message": worker.next_message,
        "accept": listener.accept,
    }
    begin = time.monotonic()
    assert isinstance(during(calls[name], worker.close), hbmwire.Error)
    assert time.monotonic() - begin < 10
    assert transfer.done
