# SPDX-License-Identifier: MIT
"""Waits end when their event has occurred, and cancelled tasks lose no events."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import select
import socket
import statistics
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import pytest
from conftest import Pair, Peer, eventually

import hbmwire

Value = TypeVar("Value")
# Seconds. A worker checks by itself from time to time, so a wait which misses its event lasts
# about 0.75 s, or forever. A wait that is woken takes less than a millisecond, on a busy machine
# more.
ASLEEP_S = 0.3
CLOCK_S = 0.15  # a loop that is not woken checks after a quarter of a second
ROUNDS = 9


def run(main: Coroutine[Any, Any, Value], seconds: float = 30.0) -> Value:
    return asyncio.run(asyncio.wait_for(main, seconds))


async def _await(what: Awaitable[Value]) -> Value:
    return await what


def taken(call: Callable[[], object]) -> float:
    """The time of a call in seconds."""
    begin = time.monotonic()
    call()
    return time.monotonic() - begin


@pytest.fixture
def far(context: hbmwire.Context) -> hbmwire.Worker:
    """A worker with the library's thread."""
    return context.create_worker(progress_thread=True)


@pytest.fixture
def handed_out(make_pair: Callable[..., Pair]) -> Pair:
    """A pair whose messages are handed out."""
    return make_pair(messages="handed_out")


@pytest.fixture
def pool() -> Iterator[concurrent.futures.ThreadPoolExecutor]:
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        yield threads


# --- threads


def test_wait_any_does_not_sleep_beside_a_put_that_is_over(
    context: hbmwire.Context, peer: Peer
) -> None:
    endpoint = context.connect(peer.address, timeout=10)
    remote = endpoint.remote("memory")
    source = context.allocate("host", 1 << 20)
    times = []
    for _ in range(ROUNDS):
        put = endpoint.put(source, remote)
        times.append(taken(lambda: context.worker.wait_any([put], 10)))
        assert put.done
    assert statistics.median(times) < ASLEEP_S


def test_wait_any_does_not_sleep_beside_a_message_that_came_before(pair: Pair) -> None:
    times = []
    for i in range(ROUNDS):
        receive = pair.here.receive(pair.source, tag=i)
        pair.there.send(b"here", tag=i).wait(10)
        times.append(taken(lambda: pair.context.worker.wait_any([receive], 10)))
        assert receive.done
    assert statistics.median(times) < ASLEEP_S


def test_wait_any_ends_while_another_thread_makes_progress(
    context: hbmwire.Context, peer: Peer
) -> None:
    worker = context.worker
    endpoint = context.connect(peer.address, timeout=10)
    remote = endpoint.remote("memory")
    source = context.allocate("host", 1 << 20)
    ended = threading.Event()

    def drive() -> None:
        while not ended.is_set():
            worker.progress()

    thread = threading.Thread(target=drive)
    thread.start()
    try:
        times = [
            taken(lambda: worker.wait_any([endpoint.put(source, remote)], 10))
            for _ in range(ROUNDS)
        ]
    finally:
        ended.set()
        thread.join()
    assert statistics.median(times) < ASLEEP_S


def test_wait_closed_does_not_sleep_beside_a_goodbye_that_came_before(
    context: hbmwire.Context, far: hbmwire.Worker, pool: concurrent.futures.ThreadPoolExecutor
) -> None:
    times = []
    with context.listen(0, "127.0.0.1") as listener:
        for _ in range(5):
            connecting = pool.submit(far.connect, f"127.0.0.1:{listener.port}", timeout=10)
            accepted = listener.accept(10)
            peer = connecting.result(10)
            closing = pool.submit(peer.close, 10)
            select.select([context.worker.fileno()], [], [], 0.2)
            times.append(taken(lambda: accepted.wait_closed(10)))
            closing.result(10)
    assert max(times) < 5, times  # without a wake-up it would last until its time limit


def test_an_invitation_does_not_sleep_beside_a_peer_that_began_before(
    context: hbmwire.Context, far: hbmwire.Worker
) -> None:
    times = []
    for _ in range(5):
        one, other = context.invite(), far.invite()
        other._start(bytes(one))
        begin = time.monotonic()
        assert one.connect(bytes(other), 10).phase == "ready"
        times.append(time.monotonic() - begin)
    assert statistics.median(times) < ASLEEP_S


def test_next_message_ends_while_another_thread_waits_for_the_same_worker(
    handed_out: Pair,
) -> None:
    worker = handed_out.context.worker
    came = threading.Semaphore(0)
    ended = threading.Event()

    def read() -> None:
        try:
            while True:
                worker.next_message().close()
                came.release()
        except hbmwire.Error:
            assert worker.closed

    def wait() -> None:
        while not ended.is_set():
            try:
                worker.wait(0.05)
            except hbmwire.Error:
                continue
            time.sleep(0)

    threads = [threading.Thread(target=target) for target in (read, wait)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(50):
            handed_out.there.send(b"x" * 100)
            assert came.acquire(timeout=5), "a thread sleeps beside its message"
    finally:
        ended.set()
        threads[1].join()
        worker.close()
        threads[0].join()


def test_a_worker_with_a_waiting_message_is_not_armed(handed_out: Pair) -> None:
    worker = handed_out.context.worker
    handed_out.there.send(b"a message").wait(10)
    for _ in range(3):
        # As a helper thread may do: wait() takes the message out of the library.
        with suppress(hbmwire.TimedOut):
            worker.wait(0.2)
        assert not worker.arm()
        assert worker.wake_after == 0
    message = worker.try_message()
    assert message is not None and message.data == b"a message"
    message.close()
    eventually(worker.arm)
    assert worker.wake_after > 0


def test_an_invitation_is_used_again_after_its_time_was_over(
    context: hbmwire.Context, far: hbmwire.Worker, pool: concurrent.futures.ThreadPoolExecutor
) -> None:
    one, other = context.invite(), far.invite()
    for _ in range(2):
        with pytest.raises(hbmwire.TimedOut):
            one.connect(bytes(other), timeout=0.02)
    connecting = pool.submit(other.connect, bytes(one), 10)
    here, there = one.connect(bytes(other), 10), connecting.result(10)
    memory = context.allocate("host", 64)
    receive = here.receive(memory)
    there.send(b"hello").wait(10)
    assert receive.wait(10).bytes == 5 and memory.read(0, 5) == b"hello"


# --- the event loop continues


@pytest.mark.parametrize(("type", "path"), [("host", "host"), ("gaudi", "staged")])
def test_a_put_that_is_not_awaited_goes_on(peer: Peer, type: Any, path: str) -> None:
    async def main() -> list[float]:
        async with hbmwire.Context() as context:
            endpoint = await context.aconnect(peer.address)
            remote = await endpoint.aremote("memory")
            source = context.allocate(type, 1 << 20)
            assert source.path == path
            times = []
            for _ in range(ROUNDS):
                put = endpoint.put(source, remote)
                begin = time.monotonic()
                while not put.done:
                    await asyncio.sleep(0.001)
                times.append(time.monotonic() - begin)
            return times

    # A busy machine may delay many puts. If the loop were not woken, all would take longer.
    assert sorted(run(main()))[2] < CLOCK_S


def test_a_put_that_another_thread_starts_goes_on_in_the_loop(peer: Peer) -> None:
    async def main() -> list[float]:
        async with hbmwire.Context() as context:
            endpoint = await context.aconnect(peer.address)
            remote = await endpoint.aremote("memory")
            source = context.allocate("gaudi", 1 << 20)
            loop = asyncio.get_running_loop()
            times = []
            for _ in range(100):
                begin = time.monotonic()
                put = await loop.run_in_executor(None, endpoint.put, source, remote)
                while not put.done:
                    await asyncio.sleep(0.001)
                times.append(time.monotonic() - begin)
            return times

    # A busy machine may delay a few puts. A put that the loop does not check takes CLOCK_S.
    assert sorted(run(main()))[97] < CLOCK_S


@pytest.mark.parametrize("by", ["the loop", "another thread"])
def test_async_for_ends_at_once_when_its_listener_is_closed(
    context: hbmwire.Context, by: str
) -> None:
    async def serve(listener: hbmwire.Listener) -> None:
        async for _ in listener:
            pass

    async def main() -> float:
        times = []
        for _ in range(5):
            listener = context.listen(0, "127.0.0.1")
            serving = asyncio.ensure_future(serve(listener))
            await asyncio.sleep(0.02)
            begin = time.monotonic()
            if by == "the loop":
                listener.close()
            else:
                await asyncio.get_running_loop().run_in_executor(None, listener.close)
            await asyncio.wait_for(serving, 10)
            times.append(time.monotonic() - begin)
        return statistics.median(times)

    assert run(main()) < ASLEEP_S


def test_the_end_of_a_context_does_not_stop_the_loop(peer: Peer) -> None:
    async def main() -> int:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0.005)
                turns += 1

        async with hbmwire.Context() as context:
            endpoint = await context.aconnect(
                peer.address, timeout=10, peer_timeout=40, operation_timeout=None
            )
            peer.stop()
            endpoint.send(context.allocate("host", 1 << 16), level="arrived")
            counting = asyncio.ensure_future(count())
            await asyncio.sleep(0.02)
            turns = 0
        counting.cancel()
        return turns

    # The context's end takes half a second, because the peer does not answer.
    assert run(main()) > 5


def test_a_descriptor_number_is_used_again_by_a_socket_of_the_same_loop() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        context = hbmwire.Context()
        listener = context.listen(0, "127.0.0.1")
        with pytest.raises(hbmwire.TimedOut):
            await listener.aaccept(0.01)
        number = context.worker.fileno()
        # The loop does not run until the number belongs to a socket.
        thread = threading.Thread(target=context.close)
        thread.start()
        thread.join()
        pairs: list[tuple[socket.socket, socket.socket]] = []
        while all(number not in (one.fileno(), other.fileno()) for one, other in pairs):
            assert len(pairs) < 500
            pairs.append(socket.socketpair())
        mine, other = pairs[-1] if pairs[-1][0].fileno() == number else pairs[-1][::-1]
        mine.setblocking(False)
        came: asyncio.Future[bytes] = loop.create_future()
        loop.add_reader(mine.fileno(), lambda: came.set_result(mine.recv(10)))
        await asyncio.sleep(0.02)
        other.send(b"hello")
        assert await asyncio.wait_for(came, 5) == b"hello"
        assert loop.remove_reader(mine.fileno())
        for both in pairs:
            for one in both:
                one.close()

    run(main())


# --- closed workers


def test_await_does_not_return_while_a_worker_is_being_closed(
    context: hbmwire.Context, peer: Peer
) -> None:
    async def main() -> None:
        endpoint = await context.aconnect(
            peer.address, timeout=10, peer_timeout=40, operation_timeout=None
        )
        memory = context.allocate("host", 1 << 16)
        peer.stop()
        before, later = (endpoint.send(memory, level="arrived") for _ in range(2))
        waiting = asyncio.ensure_future(_await(before))
        await asyncio.sleep(0.02)
        assert not before.done
        closing = asyncio.get_running_loop().run_in_executor(None, context.close)
        while not later.worker.closed:
            await asyncio.sleep(0)
        # The worker is being closed: everything in flight ends within a second.
        for awaited in (_await(later), waiting):
            with pytest.raises(hbmwire.Error):
                await asyncio.wait_for(awaited, 10)
        assert before.done and later.done
        await closing

    run(main())


# --- cancelled tasks


async def cancelled_as_it_comes(
    what: Coroutine[Any, Any, Value], worker: hbmwire.Worker, come: Callable[[], object]
) -> Value | None:
    """Cancels a task in the same turn of the loop in which its event is reported."""
    task = asyncio.ensure_future(what)
    await asyncio.sleep(0.02)
    # The callbacks of timers come last in a turn.
    asyncio.get_running_loop().call_later(0.001, task.cancel)
    come()
    select.select([worker.fileno()], [], [], 5)
    time.sleep(0.002)
    try:
        return await task
    except asyncio.CancelledError:
        return None


def connected(
    pair: Pair, connecting: concurrent.futures.Future[hbmwire.Endpoint]
) -> hbmwire.Endpoint:
    """The far end of a connection to the worker of `pair.here`, whose loop learns of it later."""
    worker = pair.context.worker
    while not connecting.done():
        worker.progress()
    eventually(worker.arm)
    pair.there.send(b"wakes the loop")
    return connecting.result()


def test_a_cancelled_task_loses_no_message(handed_out: Pair) -> None:
    async def main() -> None:
        worker = handed_out.context.worker
        for i in range(10):
            message = await cancelled_as_it_comes(
                worker.anext_message(), worker, lambda: handed_out.there.send(b"precious").wait(10)
            )
            if message is None:
                message = await worker.anext_message(5)
            assert message.data == b"precious", i
            message.close()

    run(main())


def test_a_cancelled_task_loses_no_accepted_peer(
    pair: Pair, pool: concurrent.futures.ThreadPoolExecutor
) -> None:
    async def main() -> None:
        worker = pair.context.worker
        with worker.listen(0, "127.0.0.1") as listener:
            address = f"127.0.0.1:{listener.port}"
            peers: list[hbmwire.Endpoint] = []

            def connect() -> None:
                connecting = pool.submit(pair.worker.connect, address, timeout=10)
                peers.append(connected(pair, connecting))

            for _ in range(5):
                accepted = await cancelled_as_it_comes(listener.aaccept(), worker, connect)
                if accepted is None:
                    accepted = await listener.aaccept(5)
                assert accepted.phase == peers[-1].phase == "ready"

    run(main())


def test_a_cancelled_task_loses_no_invitation(
    pair: Pair, pool: concurrent.futures.ThreadPoolExecutor
) -> None:
    async def main() -> None:
        worker = pair.context.worker
        for _ in range(5):
            one, other = worker.invite(), pair.worker.invite()
            peers: list[hbmwire.Endpoint] = []

            def connect() -> None:
                peers.append(connected(pair, pool.submit(other.connect, bytes(one), 10)))

            here = await cancelled_as_it_comes(one.aconnect(bytes(other), None), worker, connect)
            if here is None:
                here = await one.aconnect(bytes(other), 5)
            assert here.phase == peers[-1].phase == "ready"

    run(main())


def test_an_awaited_invitation_is_used_again_after_its_time_was_over(
    context: hbmwire.Context, far: hbmwire.Worker
) -> None:
    async def main() -> None:
        one, other = context.invite(), far.invite()
        for _ in range(2):
            with pytest.raises(hbmwire.TimedOut):
                await one.aconnect(bytes(other), 0.02)
        connecting = asyncio.get_running_loop().run_in_executor(
            None, other.connect, bytes(one), 10
        )
        here, there = await one.aconnect(bytes(other), 10), await connecting
        assert here.phase == there.phase == "ready"

    run(main())


def test_messages_stay_complete_while_tasks_time_out(handed_out: Pair) -> None:
    async def main() -> None:
        worker = handed_out.context.worker
        loop = asyncio.get_running_loop()
        messages = 1000
        sending = loop.run_in_executor(None, send, messages)
        came: list[bytes] = []
        end = time.monotonic() + 20
        while len(came) < messages and time.monotonic() < end:
            task = asyncio.ensure_future(worker.anext_message())
            loop.call_later(0.0005, task.cancel)
            with suppress(asyncio.CancelledError):
                with await task as message:
                    came.append(message.data)
        await sending
        assert came == [b"%d" % i for i in range(messages)]

    def send(messages: int) -> None:
        for i in range(messages):
            handed_out.there.send(b"%d" % i).wait(10)
            time.sleep(0.0002)

    run(main())


def test_thousands_of_awaits_with_a_time_limit_leave_nothing_behind(pair: Pair) -> None:
    async def main() -> None:
        receive = pair.here.receive(pair.source)

        async def time_out(times: int) -> None:
            for _ in range(times // 100):
                waits = [asyncio.wait_for(_await(receive), 0.001) for _ in range(100)]
                for one in await asyncio.gather(*waits, return_exceptions=True):
                    assert isinstance(one, asyncio.TimeoutError)

        def objects() -> int:
            gc.collect()
            return len(gc.get_objects())

        await time_out(200)
        before = objects()
        await time_out(3000)
        assert objects() - before < 1000
        pair.there.send(b"over")
        assert (await receive).bytes == 4

    run(main())
