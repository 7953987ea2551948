# SPDX-License-Identifier: MIT
"""Other processes: a child of fork() gets an error with a clear message, a spawned one works."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Pair, Peer

import hbmwire


def in_child(body: Callable[[], object], seconds: float = 10.0) -> int:
    """Calls `body` in a child of fork(), which then ends by os._exit(). Returns its exit status.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            body()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    end = time.monotonic() + seconds
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(child, 9)
            os.waitpid(child, 0)
            pytest.fail(f"the child did not end within {seconds} s")
        time.sleep(0.01)


OPERATIONS: dict[str, Callable[[Pair], object]] = {
    "put": lambda pair: pair.here.put(pair.source, pair.remote),
    "get": lambda pair: pair.here.get(pair.source, pair.remote),
    "send": lambda pair: pair.here.send(b"text"),
    "receive": lambda pair: pair.here.receive(pair.source),
    "remote": lambda pair: pair.here.remote("memory", timeout=5),
    "allocate": lambda pair: pair.context.allocate("host", 4096),
    "register": lambda pair: pair.context.register(bytearray(4096)),
    "create_worker": lambda pair: pair.context.create_worker(),
    "connect": lambda pair: pair.context.connect("127.0.0.1:9", timeout=1),
    "listen": lambda pair: pair.context.listen(),
    "accept": lambda pair: pair.listener.accept(5),
    "invite": lambda pair: pair.context.invite(),
    "progress": lambda pair: pair.context.worker.wait(5),
    "close": lambda pair: pair.here.close(5),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_child_of_fork_is_refused_with_a_sentence(pair: Pair, name: str) -> None:
    def body() -> None:
        begin = time.monotonic()
        with pytest.raises(hbmwire.Error) as raised:
            OPERATIONS[name](pair)
        assert raised.value.hint == "forked_nic", repr(raised.value)
        assert "fork" in str(raised.value)
        assert time.monotonic() < begin + 1

    assert in_child(body) == 0
    # The parent continues.
    pair.source.write(b"parent")
    pair.here.put(pair.source[:6], pair.remote[:6]).wait(10)
    assert pair.memory.read(0, 6) == b"parent"


def test_a_transfer_of_the_parents_is_refused_in_the_child(pair: Pair) -> None:
    receive = pair.here.receive(pair.source)

    def body() -> None:
        for call in (lambda: receive.wait(5), receive.cancel, receive.poll):
            with pytest.raises(hbmwire.Error):
                call()

    assert in_child(body) == 0
    pair.there.send(b"after all").wait(10)
    receive.wait(10)
    assert receive.bytes == 9


def test_a_child_that_reads_and_drops_objects_leaves_the_parents_alone(pair: Pair) -> None:
    receive = pair.here.receive(pair.source)

    def body() -> None:
        repr((pair.here, pair.there, pair.context, pair.worker, receive, pair.source, pair.remote))
        pair.__dict__.clear()

    assert in_child(body) == 0
    pair.there.send(b"still").wait(10)
    assert receive.wait(10).bytes == 5


def test_a_child_that_closes_all_objects_leaves_the_parents_alone(pair: Pair) -> None:
    receive = pair.here.receive(pair.source)

    def body() -> None:
        begin = time.monotonic()
        pair.worker.close()
        pair.context.close()
        assert time.monotonic() < begin + 2

    assert in_child(body) == 0
    pair.there.send(b"still").wait(10)
    assert receive.wait(10).bytes == 5


PROGRAM = """
    import multiprocessing, os, sys, threading, time
    import hbmwire
    context = hbmwire.Context()
    worker = context.create_worker(progress_thread=True)
    listener = worker.listen(0, "127.0.0.1")
    here = context.connect(f"127.0.0.1:{listener.port}", timeout=10)
    there = listener.accept(10)
    source = context.register(bytearray(64))
    receive = here.receive(source)
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-B", "-c", textwrap.dedent(PROGRAM) + textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=30,
    )


def test_a_child_of_fork_ends_its_interpreter_quickly() -> None:
    done = run(
        """
        child = os.fork()
        if child == 0:
            sys.exit(7)
        begin = time.monotonic()
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 7
        assert time.monotonic() < begin + 2, time.monotonic() - begin
        there.send(b"text").wait(10)
        assert receive.wait(10).bytes == 4
    """
    )
    assert done.returncode == 0, done.stderr


def test_a_child_of_fork_makes_a_context_of_its_own(peer: Peer, pair: Pair) -> None:
    def body() -> None:
        with hbmwire.Context() as own, own.connect(peer.address, timeout=10) as endpoint:
            source = own.register(bytearray(b"\x01" * 10))
            endpoint.put(source, endpoint.remote("memory")[:10]).wait(10)

    assert in_child(body) == 0
    assert peer.ask("sum") == "10"


def test_multiprocessing_by_fork_works_beside_the_library() -> None:
    done = run(
        """
        def work(queue):
            try:
                here.put(source, None)
            except TypeError:
                pass
            try:
                here.send(b"from a child")
            except hbmwire.Error as error:
                queue.put(error)
            else:
                queue.put(None)
        fork = multiprocessing.get_context("fork")
        queue = fork.Queue()
        begin = time.monotonic()
        children = [fork.Process(target=work, args=(queue,)) for _ in range(3)]
        for child in children:
            child.start()
        errors = [queue.get(timeout=10) for _ in children]
        for child in children:
            child.join(10)
            assert child.exitcode == 0, child.exitcode
        assert time.monotonic() < begin + 10
        for error in errors:
            assert isinstance(error, hbmwire.Error) and error.hint == "forked_nic", repr(error)
        with fork.Pool(2) as pool:
            assert pool.map(abs, [-1, -2]) == [1, 2]
        there.send(b"text").wait(10)
        assert receive.wait(10).bytes == 4
    """
    )
    assert done.returncode == 0, done.stderr


def test_a_child_of_fork_may_start_another_program_that_uses_the_library(peer: Peer) -> None:
    done = run(
        """
        import subprocess
        program = "import hbmwire; print(hbmwire.Context().allocate('host', 4096).nbytes)"
        command = [sys.executable, "-B", "-c", program]
        out = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        assert out.stdout == "4096\\n", out
    """
    )
    assert done.returncode == 0, done.stderr


def test_a_process_that_forks_while_threads_work_goes_on() -> None:
    done = run(
        """
        ended = threading.Event()
        listener.advertise("memory", context.register(bytearray(64)))
        puts = 0
        def work():
            global puts
            mine = context.create_worker()
            end = mine.connect(f"127.0.0.1:{listener.port}", timeout=10)
            memory, remote = context.register(bytearray(64)), end.remote("memory")
            while not ended.is_set():
                end.put(memory, remote).wait(10)
                puts += 1
        def accept():
            while not ended.is_set():
                try:
                    ends.append(listener.accept(0.2))
                except TimeoutError:
                    pass
        ends = []
        threads = [threading.Thread(target=body) for body in (work, work, work, accept)]
        for thread in threads:
            thread.start()
        for i in range(30):
            child = os.fork()
            if child == 0:
                try:
                    context.allocate("host", 64)
                except hbmwire.Error:
                    pass
                os._exit(0)
            _, status = os.waitpid(child, 0)
            assert status == 0
            time.sleep(0.01)
        ended.set()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
        assert puts > 100
    """
    )
    assert done.returncode == 0, done.stderr


def spawned(address: str, connection: object) -> None:
    """Runs in a separate process that multiprocessing spawned."""
    with hbmwire.Context() as context, context.connect(address, timeout=10) as endpoint:
        source = context.register(bytearray(b"\x01" * 100))
        endpoint.put(source, endpoint.remote("memory")[:100]).wait(10)
        try:
            endpoint.remote("nothing", timeout=10)
        except hbmwire.NotFound as error:
            connection.send(error)  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_spawned_process_works(peer: Peer, context: hbmwire.Context, method: str) -> None:
    made: Any = multiprocessing.get_context(method)
    here, there = made.Pipe()
    child = made.Process(target=spawned, args=(peer.address, there))
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert here.poll(1)
    error = here.recv()
    assert isinstance(error, hbmwire.NotFound) and error.code == "not_found"
    assert peer.ask("sum") == "100"


@pytest.mark.parametrize(
    "name", ["context", "worker", "listener", "here", "memory", "remote", "source"]
)
def test_handles_are_refused_by_pickle(pair: Pair, name: str) -> None:
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(getattr(pair, name))
