# SPDX-License-Identifier: MIT
"""Threads that share a worker or have one each, beside threads that compute in Python."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import pytest
from conftest import EVERYTHING, Pair, Peer

import hbmwire

THREADS = 8


def run_all(bodies: Sequence[Callable[[], object]], seconds: float = 40.0) -> None:
    """Runs each function in its own thread, and raises the first failure."""
    failures: list[BaseException] = []

    def run(body: Callable[[], object]) -> None:
        try:
            body()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(body,), daemon=True) for body in bodies]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    if failures:
        raise failures[0]
    assert not any(thread.is_alive() for thread in threads), "a thread did not end in time"


@contextmanager
def computing() -> Iterator[Callable[[], int]]:
    """A thread that only computes in Python; yields the number of its rounds so far."""
    ended = False
    rounds = 0

    def compute() -> None:
        nonlocal rounds
        while not ended:
            sum(range(100))
            rounds += 1

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        yield lambda: rounds
    finally:
        ended = True
        thread.join()


def put_and_check(pair: Pair, number: int, rounds: int) -> None:
    """Puts to a part of the peer's memory that no other thread uses, and reads it back."""
    part = slice(number * 64, number * 64 + 64)
    source, back = pair.context.register(bytearray(64)), pair.context.register(bytearray(64))
    for i in range(rounds):
        data = bytes([(number * 31 + i) % 256]) * 64
        source.write(data)
        pair.here.put(source, pair.remote[part]).wait(20)
        pair.here.get(back, pair.remote[part]).wait(20)
        assert back.read() == data


def test_many_threads_use_one_worker_and_one_endpoint(pair: Pair) -> None:
    run_all([partial(put_and_check, pair, n, 200) for n in range(THREADS)])


def test_each_thread_has_a_worker_of_its_own(context: hbmwire.Context, peer: Peer) -> None:
    def work(number: int) -> None:
        with context.create_worker() as worker:
            with worker.connect(peer.address, timeout=20) as endpoint:
                remote = endpoint.remote("memory")
                source, back = context.allocate("host", 64), context.allocate("host", 64)
                for i in range(200):
                    source.write(bytes([number, i % 256]) * 32)
                    endpoint.put(source, remote[number * 64 : number * 64 + 64]).wait(20)
                    endpoint.get(back, remote[number * 64 : number * 64 + 64]).wait(20)
                    assert back.read() == bytes([number, i % 256]) * 32

    run_all([partial(work, n) for n in range(THREADS)])


def test_transfers_started_by_one_thread_are_waited_for_by_another(pair: Pair) -> None:
    started: queue.Queue[hbmwire.Transfer | None] = queue.Queue()

    def start() -> None:
        for _ in range(500):
            started.put(pair.here.put(pair.source[:64], pair.remote[:64]))
        started.put(None)

    waited = 0

    def wait() -> None:
        nonlocal waited
        while (transfer := started.get()) is not None:
            assert transfer.wait(20).done
            waited += 1

    run_all([start, wait])
    assert waited == 500


def test_several_threads_wait_for_one_transfer(pair: Pair) -> None:
    receive = pair.here.receive(pair.source)
    over: list[bool] = []

    def send() -> None:
        time.sleep(0.2)
        pair.there.send(b"to all of them").wait(20)

    run_all([lambda: over.append(receive.wait(20).done) for _ in range(THREADS)] + [send])
    assert over == [True] * THREADS
    assert receive.bytes == 14


def test_each_of_several_threads_that_wait_is_woken_by_its_own_transfer(pair: Pair) -> None:
    receives = [pair.here.receive(pair.source[i : i + 1], tag=i) for i in range(THREADS)]
    order = list(range(THREADS))
    random.Random(1).shuffle(order)
    ended: list[int] = []

    def wait(number: int) -> None:
        receives[number].wait(20)
        ended.append(number)

    def send() -> None:
        for number in order:
            time.sleep(0.1)
            pair.there.send(bytes([number]), tag=number).wait(20)

    begin = time.monotonic()
    run_all([partial(wait, n) for n in range(THREADS)] + [send])
    assert ended == order
    assert time.monotonic() - begin < 0.1 * THREADS + 3
    assert pair.source.read(0, THREADS) == bytes(range(THREADS))


def test_threads_share_the_messages_of_a_worker(context: hbmwire.Context) -> None:
    pair = Pair(context, messages="handed_out")
    counts = [0] * 4
    seen: list[int] = []

    def take(number: int) -> None:
        while True:
            with pair.worker.next_message(20) as message:
                if message.tag is None:
                    return
                seen.append(message.tag)
                counts[number] += 1

    def send() -> None:
        for i in range(400):
            pair.here.send(b"x" * 100, tag=i).wait(20)
        for _ in counts:
            pair.here.send(b"end").wait(20)

    run_all([partial(take, n) for n in range(len(counts))] + [send])
    assert sorted(seen) == list(range(400))
    pair.close()


# --- the GIL


@pytest.mark.parametrize(
    "name", ["wait", "wait_any", "wait_all", "worker_wait", "next_message", "accept"]
)
def test_other_threads_run_while_one_waits(pair: Pair, name: str) -> None:
    receive = pair.here.receive(pair.source)
    worker = pair.context.worker
    listener = pair.context.listen(0, "127.0.0.1")

    def wait_on() -> None:
        while True:  # unrelated events may occur at first
            worker.wait(0.5)

    waits: dict[str, Callable[[], object]] = {
        "wait": lambda: receive.wait(0.5),
        "wait_any": lambda: worker.wait_any([receive], 0.5),
        "wait_all": lambda: worker.wait_all([receive], 0.5),
        "worker_wait": wait_on,
        "next_message": lambda: worker.next_message(0.5),
        "accept": lambda: listener.accept(0.5),
    }
    with computing() as rounds:
        begin, before = time.monotonic(), rounds()
        time.sleep(0.5)
        alone = (rounds() - before) / (time.monotonic() - begin)
        begin, before = time.monotonic(), rounds()
        with pytest.raises(hbmwire.TimedOut):
            waits[name]()
        beside = (rounds() - before) / (time.monotonic() - begin)
    # It gets nearly a whole CPU if the wait releases the GIL, else a hundredth.
    assert beside > alone / 4


@pytest.mark.parametrize("name", ["read", "write", "allocate", "register", "connect"])
def test_other_threads_run_during_a_blocking_call(pair: Pair, name: str) -> None:
    data = bytearray(64 << 20)
    large = pair.context.register(data)
    calls: dict[str, Callable[[], object]] = {
        "read": lambda: large.read_into(bytearray(len(data))),
        "write": lambda: large.write(data),
        "allocate": lambda: pair.context.allocate("host", len(data)).close(),
        "register": lambda: pair.context.register(data).close(),
        "connect": lambda: pair.context.connect(
            f"127.0.0.1:{pair.listener.port}", timeout=10
        ).close(),
    }
    with computing() as rounds:
        before = rounds()
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            calls[name]()
        assert rounds() - before > 100


def test_a_wait_ends_soon_beside_a_thread_that_computes(pair: Pair) -> None:
    waits = []
    with computing():
        for _ in range(50):
            begin = time.monotonic()
            pair.here.put(pair.source[:64], pair.remote[:64]).wait(20)
            waits.append(time.monotonic() - begin)
    # Python's switch interval is 5 ms; a wait takes the GIL once or twice.
    assert sorted(waits)[len(waits) // 2] < 0.05


def test_a_thread_of_the_library_serves_peers_while_python_computes(pair: Pair) -> None:
    """`there` answers a get of memory by name while no Python thread uses its worker."""
    with computing() as rounds:
        before = rounds()
        for _ in range(20):
            pair.here.remote("memory", timeout=10)
        assert rounds() > before


def test_many_threads_start_and_end_workers_and_connections(
    context: hbmwire.Context, peer: Peer
) -> None:
    def work() -> None:
        for _ in range(5):
            worker = context.create_worker()
            endpoint = worker.connect(peer.address, timeout=20)
            receive = endpoint.receive(context.allocate("host", 64))
            worker.close()
            assert receive.done
            with pytest.raises(hbmwire.Error):
                receive.wait(1)

    run_all([work for _ in range(THREADS)])


def test_threads_close_one_worker_at_the_same_time(context: hbmwire.Context, peer: Peer) -> None:
    for _ in range(10):
        worker = context.create_worker()
        endpoint = worker.connect(peer.address, timeout=20)
        source = context.allocate("host", 1 << 20, access=EVERYTHING)
        endpoint.put(source, endpoint.remote("memory"))
        run_all([worker.close for _ in range(4)])
        assert worker.closed


def test_a_worker_is_closed_while_threads_use_it(context: hbmwire.Context, peer: Peer) -> None:
    for _ in range(5):
        worker = context.create_worker()
        endpoint = worker.connect(peer.address, timeout=20)
        source, remote = context.allocate("host", 4096), endpoint.remote("memory")[:4096]

        def use() -> None:
            with pytest.raises(hbmwire.Error):
                while True:
                    endpoint.put(source, remote).wait(20)
                    endpoint.send(b"some")
                    worker.progress()

        def close() -> None:
            time.sleep(0.1)
            worker.close()

        run_all([use] * 4 + [close])


def test_a_wait_for_a_list_outlives_another_thread_emptying_it(pair: Pair) -> None:
    receives = [pair.here.receive(pair.source[i : i + 1], tag=i) for i in range(2)]

    def empty_and_send() -> None:
        time.sleep(0.2)
        receives.clear()
        pair.there.send(b"a", tag=0).wait(20)
        pair.there.send(b"b", tag=1).wait(20)

    run_all([lambda: pair.context.worker.wait_all(receives, 20), empty_and_send])
    assert pair.source.read(0, 2) == b"ab"
