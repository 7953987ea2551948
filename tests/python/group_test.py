# SPDX-License-Identifier: MIT
"""Groups: ranks as threads, as tasks of an event loop, and as processes that a launcher starts."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from process_test import in_child

import hbmwire

HERE = pathlib.Path(__file__).parent
KEY = b"a key that only this test has"
Work = Callable[[hbmwire.Context, hbmwire.Group], None]


@pytest.fixture
def place(tmp_path: pathlib.Path) -> str:
    """Where the ranks of a test meet."""
    return f"file://{tmp_path / 'group'}"


def options(place: str, rank: int | None, size: int, timeout: float = 20.0) -> dict[str, Any]:
    return {
        "meeting": place,
        "rank": rank,
        "size": size,
        "address": "127.0.0.1",
        "timeout": timeout,
        "pre_shared_key": KEY,
    }


class Ranks:
    """Ranks as threads, each with a context of its own. An exception of one fails the test."""

    def __init__(self, place: str, size: int) -> None:
        self.place, self.size = place, size
        self.threads: list[threading.Thread] = []
        self.failures: list[BaseException] = []

    def begin(self, rank: int | None, work: Work) -> threading.Thread:
        def body() -> None:
            try:
                given = options(self.place, rank, self.size)
                with hbmwire.Context() as context:
                    with hbmwire.Group.create(context, **given) as group:
                        work(context, group)
            except BaseException as failure:
                self.failures.append(failure)

        self.threads.append(threading.Thread(target=body))
        self.threads[-1].start()
        return self.threads[-1]

    def end(self) -> None:
        for thread in self.threads:
            thread.join(40)
            assert not thread.is_alive()
        for failure in self.failures:
            raise failure


def at_all_ranks(place: str, size: int, work: Work) -> None:
    ranks = Ranks(place, size)
    for rank in range(size):
        ranks.begin(rank, work)
    ranks.end()


# --- meeting and exchanging


def test_ranks_know_each_other(place: str) -> None:
    def work(_context: hbmwire.Context, group: hbmwire.Group) -> None:
        assert (group.size, group.epoch, group.closed) == (3, 1, False)
        assert group.launcher
        assert [member.rank for member in group.members] == [0, 1, 2]
        assert all(member.host == socket.gethostname() for member in group.members)
        assert all(member.addresses[0].startswith("127.0.0.1:") for member in group.members)
        assert repr(group) == f"<hbmwire.Group rank {group.rank} of 3, epoch 1>"
        assert group.worker.counters().started >= 0
        group.barrier()

    at_all_ranks(place, 3, work)


def test_each_rank_gets_the_bytes_of_all(place: str) -> None:
    def work(_context: hbmwire.Context, group: hbmwire.Group) -> None:
        for number in range(20):
            mine = bytearray(b"%d of %d" % (number, group.rank)) if group.rank else b""
            assert group.exchange(mine, timeout=20) == [
                b"",
                b"%d of 1" % number,
                b"%d of 2" % number,
            ]

    at_all_ranks(place, 3, work)


def test_a_meeting_point_can_give_the_ranks(place: str) -> None:
    found: set[int] = set()
    ranks = Ranks(place, 3)
    for _ in range(3):
        # barrier() returns None, as the work of a rank must.
        ranks.begin(None, lambda _context, group: (found.add(group.rank), group.barrier())[1])
    ranks.end()
    assert found == {0, 1, 2}


def test_ranks_that_do_not_come_are_the_subject_of_the_error(
    context: hbmwire.Context, place: str
) -> None:
    with pytest.raises(hbmwire.TimedOut) as raised:
        hbmwire.Group.create(context, **options(place, 0, 5, timeout=0.3))
    assert raised.value.subject == "ranks 1-4"
    assert raised.value.hint == "group_rank_late"
    assert isinstance(raised.value, TimeoutError)


def test_a_rank_that_has_ended_is_named(place: str) -> None:
    def work(_context: hbmwire.Context, group: hbmwire.Group) -> None:
        if group.rank == 1:
            return
        with pytest.raises(hbmwire.PeerFailed) as raised:
            group.barrier(20)
        assert raised.value.subject == "rank 1"
        assert raised.value.hint == "group_rank_gone"
        assert group.failed == [1]
        assert group.exchange_among_present(b"here", timeout=20) == [b"here", None, b"here"]

    at_all_ranks(place, 3, work)


def test_a_replacement_joins_under_a_new_epoch(place: str) -> None:
    ranks = Ranks(place, 3)

    def stay(context: hbmwire.Context, group: hbmwire.Group) -> None:
        before = group.endpoint(1 - group.rank)
        with pytest.raises(hbmwire.PeerFailed):
            group.barrier(20)
        group.rejoin(20)
        assert (group.epoch, group.failed) == (2, [])
        assert before.closed
        with pytest.raises(hbmwire.InvalidArgument, match="group"):
            before.send(b"by the endpoint of before")
        after = group.endpoint(1 - group.rank)
        assert after is not before and after.phase == "ready"
        group.barrier(20)

    ranks.begin(0, stay)
    ranks.begin(1, stay)
    ranks.begin(2, lambda _context, _group: None).join(30)  # a rank that ends at once
    epochs: list[int] = []
    ranks.begin(2, lambda _context, group: (epochs.append(group.epoch), group.barrier(20))[1])
    ranks.end()
    assert epochs == [2]


def test_options_that_cannot_be_are_refused(context: hbmwire.Context, place: str) -> None:
    create: Any = hbmwire.Group.create
    for wrong in (
        {"rank": 2, "size": 2},
        {"size": 5000},
        {"meeting": "gopher://here"},
        {"hello": b"me"},
    ):
        with pytest.raises(hbmwire.InvalidArgument):
            create(context, **{**options(place, 0, 2), **wrong})
    with pytest.raises(TypeError, match="no argument 'colour'"):
        create(context, colour=1, **options(place, 0, 2))
    with pytest.raises(TypeError, match="a Worker or a Context"):
        create("worker")
    with pytest.raises(ValueError, match="rank"):
        create(context, **options(place, -1, 2))


def test_without_a_place_to_meet_the_group_is_not_found(context: hbmwire.Context) -> None:
    with pytest.raises(hbmwire.NotFound) as raised:
        hbmwire.Group.create(context)
    assert raised.value.hint == "group_launcher"


# --- endpoints


def test_endpoints_are_the_groups(place: str) -> None:
    def work(context: hbmwire.Context, group: hbmwire.Group) -> None:
        other = 1 - group.rank
        for number in range(3):
            peer = group.endpoint(other, timeout=20)
            assert group.endpoint(other) is peer
            inbox = context.allocate("host", 64)
            receiving = peer.receive(inbox)
            peer.send(b"%d" % number)
            assert inbox.read(0, receiving.wait(20).bytes) == b"%d" % number
            group.barrier(20)
            group.drop_endpoint(other)
            assert peer.closed
            group.barrier(20)
        for none in (group.rank, 2):
            with pytest.raises(hbmwire.InvalidArgument):
                group.endpoint(none)
        group.barrier(20)

    at_all_ranks(place, 2, work)


def test_an_endpoint_that_was_closed_is_made_anew(place: str) -> None:
    def work(_context: hbmwire.Context, group: hbmwire.Group) -> None:
        peer = group.endpoint(1 - group.rank)
        with pytest.raises(hbmwire.NotSupported, match="endpoint()"):
            peer.reconnect()
        peer.close(10)
        group.barrier(20)
        assert group.endpoint(1 - group.rank).phase == "ready"
        group.barrier(20)

    at_all_ranks(place, 2, work)


def test_an_endpoint_does_not_outlive_its_group(place: str) -> None:
    def work(_context: hbmwire.Context, group: hbmwire.Group) -> None:
        peer = group.endpoint(1 - group.rank)
        group.barrier(20)
        group.close()
        assert group.closed and peer.closed
        assert repr(group) == f"<hbmwire.Group rank {group.rank} of 2, closed>"
        for call in (group.barrier, lambda: group.failed, lambda: peer.send(b"late")):
            with pytest.raises(hbmwire.InvalidArgument):
                call()
        group.close()

    at_all_ranks(place, 2, work)


# --- broadcast


@pytest.mark.parametrize("memory", ["host", "gaudi"])
def test_broadcast_brings_the_roots_bytes_to_all(place: str, memory: Any) -> None:
    nbytes = 300_000

    def work(context: hbmwire.Context, group: hbmwire.Group) -> None:
        # There is one card.
        region = context.allocate(memory if group.rank == 1 else "host", nbytes)
        for root in (0, 2):
            region.write(bytes([root + 10 if group.rank == root else 0]) * nbytes)
            group.barrier(20)
            group.broadcast(region, root, timeout=20, piece_bytes=65536)
            assert region.read() == bytes([root + 10]) * nbytes
        group.broadcast(region[100:200], 1, verify=False)
        with pytest.raises(hbmwire.InvalidArgument):
            group.broadcast(region, 3)
        with pytest.raises(hbmwire.InvalidArgument):
            group.broadcast(region, piece_bytes=1)
        with pytest.raises(TypeError):
            group.broadcast(b"not registered")  # type: ignore[arg-type]
        group.barrier(20)

    at_all_ranks(place, 3, work)


# --- threads and signals


@pytest.fixture
def alone(context: hbmwire.Context, place: str) -> Iterator[hbmwire.Group]:
    """Rank 1 of two; the other one has joined, makes progress, and no call."""
    over = threading.Event()
    ranks = Ranks(place, 2)

    def other(_context: hbmwire.Context, group: hbmwire.Group) -> None:
        while not over.is_set():
            group.worker.progress()
            time.sleep(0.001)

    ranks.begin(0, other)
    with hbmwire.Group.create(context, **options(place, 1, 2)) as group:
        yield group
    over.set()
    ranks.end()


def test_other_threads_run_while_one_waits(alone: hbmwire.Group) -> None:
    turns = 0
    ended = threading.Event()

    def turn() -> None:
        nonlocal turns
        while not ended.is_set():
            turns += 1
            time.sleep(0.001)

    thread = threading.Thread(target=turn)
    thread.start()
    with pytest.raises(hbmwire.TimedOut) as raised:
        alone.barrier(0.3)
    ended.set()
    thread.join()
    assert raised.value.subject == "rank 0"
    assert turns > 20


def test_control_c_ends_a_call(alone: hbmwire.Group) -> None:
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        alone.barrier(20)
    timer.join()
    assert time.monotonic() - begin < 3


def test_control_c_ends_a_meeting(context: hbmwire.Context, place: str) -> None:
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        hbmwire.Group.create(context, **options(place, 0, 2))
    timer.join()
    assert time.monotonic() - begin < 3


def test_a_second_call_waits_for_the_first(alone: hbmwire.Group) -> None:
    ended: list[str] = []

    def wait(seconds: float) -> None:
        try:
            alone.barrier(seconds)
        except hbmwire.TimedOut as error:
            ended.append(error.subject)

    threads = [threading.Thread(target=wait, args=(seconds,)) for seconds in (0.8, 0.2)]
    for thread in threads:
        thread.start()
        time.sleep(0.1)
    assert alone.failed == []
    for thread in threads:
        thread.join(20)
    assert ended == ["", "rank 0"]  # the second did not come to its turn


def close_group(group: hbmwire.Group) -> None:
    group.close()


def close_worker(group: hbmwire.Group) -> None:
    group.worker.close()


@pytest.mark.parametrize("close", [close_group, close_worker])
def test_a_call_ends_when_another_thread_closes_its_group_or_worker(
    alone: hbmwire.Group, close: Callable[[hbmwire.Group], None]
) -> None:
    timer = threading.Timer(0.3, close, (alone,))
    timer.start()
    begin = time.monotonic()
    with pytest.raises(hbmwire.Error) as raised:
        alone.barrier(20)
    assert raised.value.code in ("cancelled", "invalid_argument")
    assert time.monotonic() - begin < 5
    timer.join()
    assert alone.closed


def test_a_meeting_ends_when_its_worker_is_closed(context: hbmwire.Context, place: str) -> None:
    timer = threading.Timer(0.3, context.worker.close)
    timer.start()
    begin = time.monotonic()
    with pytest.raises(hbmwire.Error):
        hbmwire.Group.create(context, **options(place, 0, 2))
    timer.join()
    assert time.monotonic() - begin < 5


def test_a_child_of_fork_has_no_part_in_the_group(alone: hbmwire.Group) -> None:
    def body() -> None:
        for call in (alone.barrier, alone.rejoin, lambda: alone.endpoint(0)):
            with pytest.raises(hbmwire.NotSupported) as raised:
                call()
            assert raised.value.hint == "forked_nic"
        alone.close()

    assert in_child(body) == 0
    assert alone.endpoint(0, timeout=10).phase == "ready"


# --- asyncio


async def at_all_tasks(place: str, size: int, work: Callable[..., Any]) -> None:
    async def one(rank: int) -> None:
        async with hbmwire.Context() as context:
            async with await hbmwire.Group.acreate(context, **options(place, rank, size)) as group:
                await work(context, group)

    await asyncio.wait_for(asyncio.gather(*(one(rank) for rank in range(size))), 40)


def test_ranks_are_tasks_of_one_event_loop(place: str) -> None:
    async def work(context: hbmwire.Context, group: hbmwire.Group) -> None:
        other = 1 - group.rank
        assert await group.aexchange(b"%d" % group.rank) == [b"0", b"1"]
        peer = await group.aendpoint(other)
        inbox = context.allocate("host", 64)
        receiving = peer.receive(inbox)
        await peer.send(b"to %d" % other)
        await receiving
        assert inbox.read(0, receiving.bytes) == b"to %d" % group.rank
        region = context.register(bytearray(bytes([group.rank + 1]) * 5000))
        await group.abroadcast(region, 1)
        assert region.read() == bytes([2]) * 5000
        assert await group.aexchange_among_present(b"") == [b"", b""]
        await group.arejoin()
        assert group.epoch == 2
        await group.abarrier()

    asyncio.run(at_all_tasks(place, 2, work))


def test_a_task_that_is_cancelled_ends_its_call(alone: hbmwire.Group) -> None:
    async def main() -> None:
        begin = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await alone.abarrier(20)
        assert time.monotonic() - begin < 3
        peer = await alone.aendpoint(0)  # no call is under way any more
        assert peer.phase == "ready"

    asyncio.run(main())


def test_an_awaited_call_raises_its_error(alone: hbmwire.Group) -> None:
    async def main() -> None:
        with pytest.raises(hbmwire.TimedOut, match="rank 0"):
            await alone.abarrier(0.2)

    asyncio.run(main())


# --- processes


def free_port() -> int:
    """A port for torchrun's own store; the meeting point takes the next one. The kernel itself
    gives no program a port below 32,768."""
    while True:
        port = random.randrange(20_000, 30_000)
        try:
            for number in (port, port + 1):
                with socket.socket() as one:
                    one.bind(("127.0.0.1", number))
            return port
        except OSError:
            continue


class Processes:
    """Ranks as processes, with the environment of torchrun."""

    def __init__(self, size: int, work: str) -> None:
        shared = {
            "WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
        }
        command = [sys.executable, "-B", str(HERE / "support" / "group_rank.py"), work]
        self.all = [
            subprocess.Popen(
                command,
                env={**os.environ, **shared, "RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in range(size)
        ]

    def end(self, rank: int) -> dict[str, Any]:
        said, _ = self.all[rank].communicate(timeout=50)
        line = said.splitlines()[-1]
        assert line.startswith("{"), said
        end: dict[str, Any] = json.loads(line)
        return end

    def stop(self) -> None:
        for process in self.all:
            process.kill()
            process.communicate()


@pytest.fixture
def start() -> Iterator[Callable[[int, str], Processes]]:
    started: list[Processes] = []

    def make(size: int, work: str) -> Processes:
        started.append(Processes(size, work))
        return started[-1]

    yield make
    for one in started:
        one.stop()


def test_processes_of_a_launcher_meet(start: Callable[[int, str], Processes]) -> None:
    ranks = start(4, "all")
    for rank in range(4):
        end = ranks.end(rank)
        assert "error" not in end, end
        assert (end["rank"], end["size"]) == (rank, 4)
        assert "torchrun" in end["launcher"]


@pytest.mark.parametrize("victim", [0, 2])
def test_a_process_that_is_killed_is_named_by_all_others(
    start: Callable[[int, str], Processes], victim: int
) -> None:
    ranks = start(3, "until_lost")
    for process in ranks.all:
        assert process.stdout is not None
        assert process.stdout.readline() == "met\n"
    ranks.all[victim].kill()
    for rank in range(3):
        if rank != victim:
            end = ranks.end(rank)
            assert end["error"] == "peer_failed", end
            assert victim in end["failed"], end  # others may have ended by then, too
