# SPDX-License-Identifier: MIT
"""asyncio: everything that can be awaited, and the cost of waiting."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import statistics
import threading
import time
import weakref
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from conftest import Pair, Peer

import hbmwire

Value = TypeVar("Value")


class Owner(bytearray):
    """A bytearray that supports weak references."""


def run(main: Coroutine[Any, Any, Value], seconds: float = 30.0) -> Value:
    """Runs asyncio.run() with a time limit. Slow callbacks and tasks that were never awaited are
    errors.
    """
    return asyncio.run(asyncio.wait_for(main, seconds))


async def _await(what: Any) -> Any:
    return await what


# --- everything that can be awaited


def test_a_put_is_awaited(pair: Pair) -> None:
    async def main() -> None:
        pair.source.write(b"asyncio")
        put = pair.here.put(pair.source[:7], pair.remote[:7])
        assert await put is put
        assert put.done and pair.memory.read(0, 7) == b"asyncio"
        assert await put is put  # awaited a second time

    run(main())


def test_a_get_an_atomic_a_list_and_a_flush_are_awaited(pair: Pair) -> None:
    async def main() -> None:
        pair.memory.write((5).to_bytes(8, "little") + b"list" * 4)
        assert (await pair.here.fetch_add(pair.remote[:8], 3)).value == 5
        assert (await pair.here.compare_swap(pair.remote[:8], 8, 1)).value == 8
        await pair.here.get_list(pair.source, pair.remote, [(0, 8, 4), (4, 12, 4)])
        assert pair.source.read(0, 8) == b"listlist"
        await pair.here.put_list(pair.source, pair.remote, [(0, 100), (4, 200)], length=4)
        await pair.here.flush()
        assert pair.memory.read(200, 4) == b"list"

    run(main())


def test_a_thousand_puts_are_gathered(pair: Pair) -> None:
    async def main() -> None:
        puts = [pair.here.put(pair.source[i : i + 1], pair.remote[i : i + 1]) for i in range(1000)]
        done = await asyncio.gather(*puts)
        assert list(done) == puts and all(put.done for put in puts)

    pair.source.write(bytes(i % 251 for i in range(1000)))
    run(main())
    assert pair.memory.read(0, 1000) == bytes(i % 251 for i in range(1000))
    assert pair.context.worker.in_flight == 0


def test_a_thousand_receives_are_gathered_in_any_order(pair: Pair) -> None:
    async def main() -> None:
        receives = [pair.here.receive(pair.source[i : i + 1], tag=i) for i in range(1000)]
        waiting = asyncio.gather(*receives)
        await asyncio.sleep(0)

        def send() -> None:
            for i in reversed(range(1000)):
                pair.there.send(bytes([i % 251]), tag=i).wait(20)

        sending = asyncio.get_running_loop().run_in_executor(None, send)
        await waiting
        await sending

    run(main())
    assert pair.source.read(0, 1000) == bytes(i % 251 for i in range(1000))


def test_messages_go_both_ways(pair: Pair) -> None:
    async def main() -> None:
        for i in range(100):
            receive = pair.here.receive(pair.source, tag=i)
            pair.there.send(b"x" * i, tag=i)
            assert (await receive).bytes == i
        immediate = pair.here.receive_immediate()
        pair.there.put(pair.memory[:8], pair.there.remote(bytes(key))[:8], immediate=9)
        assert (await immediate).value == 9

    key = pair.source.pack_key()
    run(main())


def test_messages_that_are_handed_out_are_awaited(context: hbmwire.Context) -> None:
    async def main() -> None:
        worker = context.worker
        with pytest.raises(hbmwire.TimedOut):
            await worker.anext_message(0.05)
        for i in range(50):
            pair.there.send(b"number %d" % i, tag=i)
        for i in range(50):
            with await worker.anext_message(10) as message:
                assert (message.tag, message.data) == (i, b"number %d" % i)
        pair.there.send(pair.memory)  # too long to arrive at once
        with await worker.anext_message(10) as message:
            assert not message.is_here and len(message) == len(pair.memory)
            await message.receive(pair.source)

    pair = Pair(context, messages="handed_out")
    run(main())
    pair.close()


def test_an_echo_is_awaited_by_many_tasks(peer: Peer, context: hbmwire.Context) -> None:
    async def main() -> None:
        async def ask(tag: int) -> None:
            receive = endpoint.receive(memory[tag * 16 : tag * 16 + 16], tag=tag)
            await endpoint.send(b"question %d" % tag, tag=tag)
            await receive
            assert memory.read(tag * 16, receive.bytes) == b"question %d" % tag

        async with context.aconnect(peer.address) as endpoint:
            memory = context.allocate("host", 16 * 200)
            await asyncio.gather(*(ask(tag) for tag in range(200)))

    run(main())


def test_connections_names_and_closes_are_awaited(peer: Peer, context: hbmwire.Context) -> None:
    async def main() -> None:
        endpoint = await context.aconnect(peer.address, timeout=10, hello=b"hello")
        remote = await endpoint.aremote("memory", timeout=10)
        await endpoint.put(source, remote[: len(source)])
        with pytest.raises(hbmwire.NotFound):
            await endpoint.aremote("nothing")
        await endpoint.aclose(10)
        phases: list[str] = [endpoint.phase]
        await endpoint.areconnect(10)
        assert [*phases, endpoint.phase] == ["closed", "ready"]
        remote = await endpoint.aremote("memory")
        await endpoint.put(source, remote[4 : 4 + len(source)])
        async with endpoint:
            pass
        assert endpoint.closed

    source = context.register(bytearray(b"\x01" * 4))
    run(main())
    assert peer.ask("sum") == "8"


def test_the_example_of_the_package_works(peer: Peer) -> None:
    async def main() -> None:
        async with hbmwire.Context() as context:
            region = context.register(bytearray(b"\x02" * 100))
            async with context.aconnect(peer.address, timeout=5) as endpoint:
                await endpoint.put(region, (await endpoint.aremote("memory"))[:100])
        assert context.closed

    run(main())
    assert peer.ask("sum") == "200"


def test_a_hundred_connections_are_made_at_the_same_time(
    peer: Peer, context: hbmwire.Context
) -> None:
    async def main() -> None:
        endpoints = await asyncio.gather(*(context.aconnect(peer.address) for _ in range(100)))
        remotes = await asyncio.gather(*(endpoint.aremote("memory") for endpoint in endpoints))
        await asyncio.gather(
            *(
                endpoint.put(source, remote[i : i + 1])
                for i, (endpoint, remote) in enumerate(zip(endpoints, remotes))
            )
        )
        await asyncio.gather(*(endpoint.aclose() for endpoint in endpoints))

    source = context.register(bytearray(b"\x01"))
    run(main())
    assert peer.ask("sum") == "100"


def test_a_server_accepts_clients_with_async_for(context: hbmwire.Context) -> None:
    clients = 20

    async def serve(listener: hbmwire.Listener, served: list[bytes]) -> None:
        async for endpoint in listener:
            memory = context.allocate("host", 64)
            received = await endpoint.receive(memory)
            served.append(memory.read(0, received.bytes))
            await endpoint.send(b"well")
            await endpoint.await_closed(10)
            if len(served) == clients:
                return

    async def ask(worker: hbmwire.Worker, port: int, number: int) -> None:
        memory = context.allocate("host", 64)
        async with worker.aconnect(f"127.0.0.1:{port}") as endpoint:
            answer = endpoint.receive(memory)
            await endpoint.send(b"client %d" % number)
            assert (await answer).bytes == 4

    async def main() -> None:
        served: list[bytes] = []
        with context.listen(0, "127.0.0.1") as listener, context.create_worker() as worker:
            serving = asyncio.ensure_future(serve(listener, served))
            await asyncio.gather(*(ask(worker, listener.port, n) for n in range(clients)))
            await serving
        assert sorted(served) == sorted(b"client %d" % n for n in range(clients))

    run(main())


def test_async_for_ends_when_its_listener_is_closed(context: hbmwire.Context) -> None:
    async def main() -> None:
        listener = context.listen(0, "127.0.0.1")
        taken: list[hbmwire.Endpoint] = []

        async def serve() -> str:
            async for endpoint in listener:
                taken.append(endpoint)
            return "over"

        serving = asyncio.ensure_future(serve())
        worker = context.create_worker()
        await worker.aconnect(f"127.0.0.1:{listener.port}")
        while not taken:
            await asyncio.sleep(0.01)
        listener.close()
        assert await asyncio.wait_for(serving, 5) == "over"

    run(main())


def test_an_await_on_a_closed_object_fails(pair: Pair) -> None:
    async def main() -> None:
        context = pair.context
        listener, invitation = context.listen(0, "127.0.0.1"), context.invite()
        tasks = [
            asyncio.ensure_future(listener.aaccept()),
            asyncio.ensure_future(invitation.aconnect(bytes(context.invite()))),
            asyncio.ensure_future(pair.here.await_closed()),
        ]
        await asyncio.sleep(0.05)
        listener.close()
        invitation.close()
        pair.here._let_go()
        done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
        assert all(isinstance(one, hbmwire.InvalidArgument) for one in done), done

    run(main())


def test_accept_is_awaited_with_a_timeout(context: hbmwire.Context) -> None:
    async def main() -> None:
        with context.listen(0, "127.0.0.1") as listener:
            begin = time.monotonic()
            with pytest.raises(hbmwire.TimedOut) as raised:
                await listener.aaccept(0.2)
            assert 0.15 < time.monotonic() - begin < 0.7
            assert isinstance(raised.value, TimeoutError)
            accepting = asyncio.ensure_future(listener.aaccept())
            async with context.create_worker().aconnect(f"127.0.0.1:{listener.port}") as endpoint:
                accepted = await accepting
                assert accepted.placement == endpoint.placement == "same_process"
                await accepted.aclose()

    run(main())


def test_invitations_are_awaited(context: hbmwire.Context) -> None:
    async def main() -> None:
        worker = context.create_worker()
        one, other = context.invite(hello=b"one"), worker.invite(hello=b"other")
        here, there = await asyncio.gather(
            one.aconnect(bytes(other), 10), other.aconnect(bytes(one), 10)
        )
        assert (here.peer_hello, there.peer_hello) == (b"other", b"one")
        third = context.invite()
        with pytest.raises(hbmwire.ProtocolError):
            await third.aconnect(b"no invitation", 10)
        with pytest.raises(hbmwire.TimedOut):
            await context.invite().aconnect(bytes(worker.invite()), 0.1)

    run(main())


# --- failures


def test_failures_are_raised_where_they_are_awaited(pair: Pair) -> None:
    async def main() -> None:
        receive = pair.here.receive(pair.source)
        receive.request_cancel()
        with pytest.raises(hbmwire.Cancelled):
            await receive
        short = pair.here.receive(pair.source[:4])
        pair.there.send(b"longer than that")
        with pytest.raises(hbmwire.Error):
            await short
        done = await asyncio.gather(short, receive, return_exceptions=True)
        assert all(isinstance(one, hbmwire.Error) for one in done)

    run(main())


def test_a_connection_that_fails_is_raised(context: hbmwire.Context) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as deaf:
            address = f"127.0.0.1:{deaf.getsockname()[1]}"
            with pytest.raises(hbmwire.TimedOut):
                await context.aconnect(address, timeout=0.2)
            with pytest.raises(hbmwire.TimedOut):
                async with context.aconnect(address, timeout=0.2):
                    pass
        with pytest.raises(hbmwire.Error):
            await context.aconnect(address, timeout=1)
        with pytest.raises(hbmwire.InvalidArgument):
            await context.aconnect("no port", timeout=1)
        with pytest.raises(TypeError, match="no argument 'colour'"):
            await context.aconnect(address, colour=1)  # type: ignore[call-arg]

    run(main())


def test_a_killed_peer_ends_every_await(peer: Peer, context: hbmwire.Context) -> None:
    async def main() -> None:
        endpoint = await context.aconnect(peer.address)
        tasks = [
            asyncio.ensure_future(endpoint.await_closed()),
            asyncio.ensure_future(_await(endpoint.receive(context.allocate("host", 64)))),
        ]
        await asyncio.sleep(0.1)
        peer.process.kill()
        begin = time.monotonic()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert time.monotonic() - begin < 5
        assert all(isinstance(one, hbmwire.PeerFailed) for one in done), done

    run(main())


def test_an_exception_in_async_with_closes_the_endpoint_at_once(
    peer: Peer, context: hbmwire.Context
) -> None:
    async def main() -> None:
        begin = time.monotonic()
        with pytest.raises(ZeroDivisionError):
            async with context.aconnect(peer.address) as endpoint:
                endpoint.receive(context.allocate("host", 64))
                1 // 0
        assert endpoint.closed
        assert time.monotonic() - begin < 2

    run(main())


def test_an_await_fails_when_the_context_is_closed(pair: Pair) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        listener = pair.context.listen(0, "127.0.0.1")
        tasks = [
            asyncio.ensure_future(_await(pair.here.receive(pair.source))),
            asyncio.ensure_future(pair.context.worker.anext_message()),
            asyncio.ensure_future(listener.aaccept()),
            asyncio.ensure_future(pair.here.await_closed()),
        ]
        loop.call_later(0.1, pair.context.close)
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, hbmwire.Error) for one in done), done
        await asyncio.sleep(0.1)  # a callback that was left would call the closed worker now

    run(main(), 10)


def test_an_await_fails_when_another_thread_closes_the_context(pair: Pair) -> None:
    async def main() -> None:
        receive = asyncio.ensure_future(_await(pair.here.receive(pair.source)))
        message = asyncio.ensure_future(pair.context.worker.anext_message())
        closing = asyncio.get_running_loop().run_in_executor(None, pair.context.close)
        done = await asyncio.gather(receive, message, return_exceptions=True)
        await closing
        assert all(isinstance(one, hbmwire.Error) for one in done), done

    run(main(), 10)


# --- cancelled tasks


def test_a_cancelled_task_leaves_its_transfer_under_way(pair: Pair) -> None:
    async def main() -> None:
        owner = Owner(64)
        weak = weakref.ref(owner)
        receive = pair.here.receive(pair.context.register(owner))
        del owner
        task = asyncio.ensure_future(_await(receive))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not receive.done
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(_await(receive), 0.05)
        assert not receive.done
        # The transfer's memory is kept, although every handle is dropped.
        del receive, task
        gc.collect()
        assert weak() is not None
        pair.there.send(b"late")
        while weak() is not None and bytes(weak() or b"")[:4] != b"late":
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        gc.collect()
        assert weak() is None

    run(main())


def test_a_transfer_is_awaited_again_after_its_task_was_cancelled(pair: Pair) -> None:
    async def main() -> None:
        receive = pair.here.receive(pair.source)
        for _ in range(3):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(_await(receive), 0.02)
        both = asyncio.gather(receive, receive)
        await asyncio.sleep(0)
        pair.there.send(b"for both")
        assert [one.bytes for one in await both] == [8, 8]

    run(main())


def test_cancelled_waits_for_peers_and_messages_take_none_away(context: hbmwire.Context) -> None:
    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(context.worker.anext_message(), 0.05)
        pair.there.send(b"not lost")
        with await context.worker.anext_message(10) as message:
            assert message.data == b"not lost"
        with context.listen(0, "127.0.0.1") as listener:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(listener.aaccept(), 0.05)
            connecting = asyncio.ensure_future(
                _await(pair.worker.aconnect(f"127.0.0.1:{listener.port}"))
            )
            await listener.aaccept(10)
            await connecting

    pair = Pair(context, messages="handed_out")
    run(main())
    pair.close()


def test_a_cancelled_connection_is_given_up(context: hbmwire.Context) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as deaf:
            address = f"127.0.0.1:{deaf.getsockname()[1]}"
            task = asyncio.ensure_future(_await(context.aconnect(address, timeout=None)))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            del task
            gc.collect()
            taken, _ = deaf.accept()
            taken.setblocking(False)
            while await asyncio.get_running_loop().sock_recv(taken, 4096):
                pass  # until the stream ends
            taken.close()

    run(main())


# --- event loops


def test_one_worker_is_used_by_one_event_loop_after_another(pair: Pair) -> None:
    async def main(value: int) -> None:
        pair.source.write(bytes([value]))
        await pair.here.put(pair.source[:1], pair.remote[:1])
        receive = pair.here.receive(pair.source)
        pair.there.send(b"again")
        assert (await receive).bytes == 5

    for value in range(5):
        run(main(value))
        assert pair.memory.read(0, 1) == bytes([value])
    pair.here.put(pair.source[:1], pair.remote[:1]).wait(10)


def test_a_task_left_by_one_event_loop_does_not_disturb_the_next(pair: Pair) -> None:
    receive = pair.here.receive(pair.source)

    async def leave() -> None:
        asyncio.ensure_future(_await(receive))
        await asyncio.sleep(0.05)

    async def wait() -> None:
        pair.there.send(b"at last")
        assert (await receive).bytes == 7

    run(leave())
    run(wait())


def test_a_worker_that_has_no_object_of_python_is_driven_by_one_loop(
    context: hbmwire.Context,
) -> None:
    """The program need not keep the object that context.worker gives."""

    async def main() -> None:
        gc.collect()
        with context.listen(0, "127.0.0.1") as listener:
            accepting = [asyncio.ensure_future(listener.aaccept(10)) for _ in range(3)]
            await asyncio.sleep(0)
            gc.collect()
            ends = [await context.aconnect(f"127.0.0.1:{listener.port}") for _ in range(3)]
            accepted = await asyncio.gather(*accepting)
            assert len({end.id for end in [*ends, *accepted]}) == 6

    run(main())


def test_an_event_loop_is_used_by_many_workers_one_after_another(
    context: hbmwire.Context, peer: Peer
) -> None:
    """The next worker's descriptor gets the number of the one before it."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(10):
            worker = context.create_worker()
            endpoint = await worker.aconnect(peer.address)
            await endpoint.aremote("memory")
            receive = endpoint.receive(context.allocate("host", 64))
            waiting = asyncio.ensure_future(_await(receive))
            await asyncio.sleep(0)
            await loop.run_in_executor(None, worker.close)
            with pytest.raises(hbmwire.Error):
                await waiting

    run(main())


def test_an_event_loop_in_another_thread_is_refused_with_a_sentence(pair: Pair) -> None:
    refused: list[BaseException] = []

    def other() -> None:
        async def main() -> None:
            receive = pair.here.receive(pair.source[:8], tag=2)
            try:
                await receive
            except RuntimeError as error:
                refused.append(error)

        run(main())

    async def main() -> None:
        receive = pair.here.receive(pair.source[8:], tag=1)
        waiting = asyncio.ensure_future(_await(receive))
        await asyncio.sleep(0.05)
        await asyncio.get_running_loop().run_in_executor(None, other)
        pair.there.send(b"text", tag=1)
        await waiting

    run(main())
    assert len(refused) == 1
    assert "another event loop" in str(refused[0]) and "create_worker()" in str(refused[0])


def test_each_of_two_event_loops_has_a_worker(context: hbmwire.Context, peer: Peer) -> None:
    def work(number: int) -> None:
        async def main() -> None:
            with context.create_worker() as worker:
                async with worker.aconnect(peer.address) as endpoint:
                    remote = await endpoint.aremote("memory")
                    for _ in range(200):
                        await endpoint.put(source, remote[number : number + 1])

        run(main())

    source = context.register(bytearray(b"\x01"))
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert peer.ask("sum") == "4"


def test_a_thread_waits_while_an_event_loop_uses_the_same_worker(pair: Pair) -> None:
    async def main() -> None:
        for i in range(300):
            await pair.here.put(pair.source[:64], pair.remote[:64])

    def wait() -> None:
        for _ in range(300):
            pair.here.get(pair.source[64:128], pair.remote[64:128]).wait(20)

    thread = threading.Thread(target=wait)
    thread.start()
    run(main())
    thread.join(20)
    assert not thread.is_alive()


def test_nothing_is_awaited_without_an_event_loop(pair: Pair) -> None:
    receive = pair.here.receive(pair.source)
    with pytest.raises(RuntimeError, match="no running event loop"):
        receive.__await__().send(None)


def test_control_c_ends_asyncio_run(pair: Pair) -> None:
    async def main() -> None:
        await pair.here.receive(pair.source)

    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(main())
    timer.join()
    assert time.monotonic() - begin < 1


def test_the_library_wakes_a_program_that_only_sleeps(pair: Pair) -> None:
    """The loop drives the worker even if no coroutine waits for it."""

    async def main() -> None:
        await pair.here.put(pair.source[:1], pair.remote[:1])
        receive = pair.here.receive(pair.source)
        pair.there.send(b"seen")
        begin = time.monotonic()
        while not receive.done and time.monotonic() < begin + 5:
            await asyncio.sleep(0.01)
        assert receive.done

    run(main())


# --- cost


def test_an_idle_event_loop_uses_no_processor_time(pair: Pair) -> None:
    async def main() -> float:
        receives = [pair.here.receive(pair.source[i : i + 1], tag=i) for i in range(1000)]
        waiting = asyncio.gather(*receives, pair.here.await_closed(), return_exceptions=True)
        await asyncio.sleep(0.2)
        turns = 0
        loop = asyncio.get_running_loop()
        inner = loop._run_once  # type: ignore[attr-defined]

        def count() -> None:
            nonlocal turns
            turns += 1
            inner()

        loop._run_once = count  # type: ignore[attr-defined]
        before = time.thread_time()
        await asyncio.sleep(2)
        used = time.thread_time() - before
        assert turns < 100
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return used

    # A loop that never sleeps would use 2 s.
    assert run(main()) < 0.1


def test_the_price_of_a_completion_does_not_grow_with_the_number_in_flight(pair: Pair) -> None:
    async def one_by_one(in_flight: int) -> float:
        """The median time in seconds of an awaited put while so many receives are awaited."""
        receives = [pair.here.receive(pair.source[:1], tag=i) for i in range(in_flight)]
        waiting = [asyncio.ensure_future(_await(receive)) for receive in receives]
        await asyncio.sleep(0.05)
        times = []
        for _ in range(300):
            begin = time.perf_counter()
            await pair.here.put(pair.source[:8], pair.remote[:8])
            times.append(time.perf_counter() - begin)
        for receive in receives:
            receive.request_cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return statistics.median(times)

    few = min(run(one_by_one(10)) for _ in range(3))
    many = min(run(one_by_one(3000)) for _ in range(3))
    # Scanning 3,000 futures would take a hundred times as long.
    assert many < 5 * few


def test_a_thousand_awaited_in_flight_are_over_in_the_order_of_completion(pair: Pair) -> None:
    async def main() -> None:
        order: list[int] = []

        async def wait(number: int) -> None:
            await pair.here.receive(pair.source[:1], tag=number)
            order.append(number)

        tasks = [asyncio.ensure_future(wait(number)) for number in range(1000)]
        await asyncio.sleep(0.05)
        for number in reversed(range(1000)):
            pair.there.send(b"x", tag=number)
        await asyncio.gather(*tasks)
        assert order == list(reversed(range(1000)))

    run(main())


def test_the_futures_and_drivers_of_a_loop_are_let_go(pair: Pair) -> None:
    async def main() -> None:
        for _ in range(100):
            await pair.here.put(pair.source[:8], pair.remote[:8])

    run(main())
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(10):
        run(main())
    gc.collect()
    assert len(gc.get_objects()) - before < 200
