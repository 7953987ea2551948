# SPDX-License-Identifier: MIT
"""The end of operations: in time, by Ctrl-C, by cancel(), with their peer, and with the
interpreter.

The emulated link is slow: a put of MANY_BYTES takes about half a second.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import EVERYTHING, Pair, Peer, eventually

import hbmwire

MANY_BYTES = 4 << 20
# Seconds by which a call may exceed its time limit on a busy machine.
SLACK_S = 0.5


class Owner(bytearray):
    """A bytearray that supports weak references."""


class Elapsed:
    """Measures the time of a `with` block in seconds."""

    seconds = 0.0

    def __enter__(self) -> Elapsed:
        self._begin = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self._begin


@pytest.fixture
def slow(make_pair: Callable[..., Pair]) -> Pair:
    """A pair on a slow link, whose memory is so large that a put takes a while."""
    return make_pair(MANY_BYTES)


@pytest.fixture
def silent(context: hbmwire.Context) -> Iterator[Pair]:
    """A pair whose end `there` makes no progress."""
    pair = Pair.__new__(Pair)
    pair.context = context
    pair.worker = context.create_worker()
    pair.listener = pair.worker.listen(0, "127.0.0.1")
    connecting = context.worker._start_connect(f"127.0.0.1:{pair.listener.port}", 10)
    while not connecting.poll():
        pair.worker.progress()
    pair.here = connecting.take()
    pair.there = pair.listener.accept(10)
    pair.memory = context.allocate("host", 4096)
    pair.source = context.allocate("host", 4096)
    pair.listener.advertise("memory", pair.memory)
    yield pair
    pair.close()


@pytest.fixture
def deaf() -> Iterator[str]:
    """The address of a port that accepts connections but never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


# --- each call that waits, for a peer that does nothing

Waits = dict[str, Callable[[float | None], object]]
NAMES = (
    "Transfer.wait",
    "Worker.wait",
    "Worker.wait_any",
    "Worker.wait_all",
    "Worker.next_message",
    "Context.connect",
    "Listener.accept",
    "Endpoint.remote",
    "Endpoint.close",
    "Endpoint.wait_closed",
    "Invitation.connect",
)


@pytest.fixture
def waits(silent: Pair, deaf: str) -> Iterator[Waits]:
    context, here = silent.context, silent.here
    receive = here.receive(silent.source)
    invitation, theirs = context.invite(), silent.worker.invite()
    listener = context.listen(0, "127.0.0.1")
    yield {
        "Transfer.wait": receive.wait,
        "Worker.wait": context.worker.wait,
        "Worker.wait_any": lambda timeout: context.worker.wait_any([receive], timeout),
        "Worker.wait_all": lambda timeout: context.worker.wait_all([receive], timeout),
        "Worker.next_message": context.worker.next_message,
        "Context.connect": lambda timeout: context.connect(deaf, timeout=timeout),
        "Listener.accept": listener.accept,
        "Endpoint.remote": lambda timeout: here.remote("memory", timeout=timeout),
        "Endpoint.close": here.close,
        "Endpoint.wait_closed": here.wait_closed,
        "Invitation.connect": lambda timeout: invitation.connect(bytes(theirs), timeout),
    }
    listener.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_wait_ends_when_its_time_is_over(waits: Waits, name: str) -> None:
    with Elapsed() as elapsed, pytest.raises(hbmwire.TimedOut) as raised:
        if name == "Worker.wait":
            while True:  # unrelated events may occur at first
                waits[name](0.3)
        waits[name](0.3)
    assert 0.25 <= elapsed.seconds < 0.3 + SLACK_S
    assert isinstance(raised.value, TimeoutError)
    assert raised.value.code == "timed_out"


@pytest.mark.parametrize("name", NAMES)
def test_a_wait_with_timeout_0_ends_at_once(waits: Waits, name: str) -> None:
    with Elapsed() as elapsed, pytest.raises(hbmwire.TimedOut):
        for _ in range(1000):
            waits[name](0)
    assert elapsed.seconds < SLACK_S


@pytest.mark.parametrize("name", NAMES)
def test_control_c_ends_a_wait_without_a_timeout(waits: Waits, name: str) -> None:
    pressed = 0.0

    def press() -> None:
        nonlocal pressed
        time.sleep(0.3)
        pressed = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        while True:  # unrelated events may occur at first
            waits[name](None)
    noticed = time.monotonic()
    presser.join()
    assert pressed <= noticed < pressed + SLACK_S


def test_control_c_ends_a_reconnect(
    make_peer: Callable[..., Peer], context: hbmwire.Context
) -> None:
    peer = make_peer()
    endpoint = context.connect(peer.address, timeout=10, retry_connect=True)
    port = peer.port
    peer.close()
    with pytest.raises(hbmwire.PeerFailed):
        endpoint.wait_closed(10)
    with socket.create_server(("127.0.0.1", port)):
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with Elapsed() as elapsed, pytest.raises(KeyboardInterrupt):
            endpoint.reconnect(None)
        timer.join()
    assert elapsed.seconds < 0.3 + SLACK_S


# --- transfers continue


def test_a_put_goes_on_after_a_wait_that_timed_out(slow: Pair) -> None:
    slow.source.write(b"\xa5" * MANY_BYTES)
    put = slow.here.put(slow.source, slow.remote)
    with pytest.raises(hbmwire.TimedOut):
        put.wait(0.05)
    assert not put.done
    assert "under way" in repr(put)
    put.wait(10)
    assert put.done
    assert slow.memory.read() == b"\xa5" * MANY_BYTES


def test_a_put_goes_on_after_control_c(slow: Pair) -> None:
    slow.source.write(b"\xa6" * MANY_BYTES)
    put = slow.here.put(slow.source, slow.remote)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        put.wait()
    timer.join()
    assert not put.done
    put.wait(10)
    assert slow.memory.read() == b"\xa6" * MANY_BYTES


def test_a_wait_for_many_leaves_unfinished_transfers_under_way(slow: Pair) -> None:
    receive = slow.here.receive(slow.source[:8])
    quick = slow.here.put(slow.source[:8], slow.remote[:8])
    worker = slow.context.worker
    assert worker.wait_any([receive, quick], 5) == 1
    put = slow.here.put(slow.source, slow.remote)
    with pytest.raises(hbmwire.TimedOut):
        worker.wait_all([quick, put], 0.05)
    assert not put.done
    worker.wait_all([quick, put], 10)
    assert worker.wait_any([put, receive, quick]) == 0


def test_a_signal_handler_runs_while_the_main_thread_waits(slow: Pair) -> None:
    handled: list[float] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: handled.append(time.monotonic()))
    try:
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        begin = time.monotonic()
        slow.here.receive(slow.source[:8]).poll()
        with pytest.raises(hbmwire.TimedOut):
            slow.here.receive(slow.source[:8]).wait(1)
        timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    # The wait continues after a handler that raises nothing.
    assert len(handled) == 1 and handled[0] < begin + 0.1 + SLACK_S
    assert time.monotonic() - begin > 0.9


# --- cancel


def test_a_receive_is_cancelled_and_the_endpoint_goes_on(slow: Pair) -> None:
    receive = slow.here.receive(slow.source)
    receive.cancel()
    assert receive.done
    with pytest.raises(hbmwire.Cancelled) as raised:
        receive.wait()
    assert raised.value.code == "cancelled"
    assert "failed" in repr(receive)
    slow.here.put(slow.source[:8], slow.remote[:8]).wait(10)
    assert slow.here.phase == "ready"


def test_a_put_is_cancelled_and_the_peers_memory_changes_no_more(slow: Pair) -> None:
    slow.source.write(b"\xff" * MANY_BYTES)
    put = slow.here.put(slow.source, slow.remote)
    with Elapsed() as elapsed:
        put.cancel()
    assert put.done and put.settled
    there = slow.memory.read()
    slow.source.write(b"\x11" * MANY_BYTES)
    time.sleep(0.5)
    assert slow.memory.read() == there
    assert elapsed.seconds < 5
    with pytest.raises(hbmwire.Cancelled):
        put.poll()


def test_a_cancel_waits_peer_timeout_for_a_stopped_peer(
    peer: Peer, context: hbmwire.Context
) -> None:
    endpoint = context.connect(peer.address, timeout=10, peer_timeout=1)
    put = endpoint.put(context.allocate("host", 1 << 20), endpoint.remote("memory"))
    peer.stop()
    with Elapsed() as elapsed, pytest.raises(hbmwire.TimedOut, match="its memory may still change"):
        put.cancel()
    assert 0.9 < elapsed.seconds < 4
    assert put.done and not put.settled
    put.cancel()


def test_control_c_ends_a_cancel_that_goes_on(peer: Peer, context: hbmwire.Context) -> None:
    endpoint = context.connect(peer.address, timeout=10, peer_timeout=20)
    put = endpoint.put(context.allocate("host", 1 << 20), endpoint.remote("memory"))
    peer.stop()
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with Elapsed() as elapsed, pytest.raises(KeyboardInterrupt):
        put.cancel()
    timer.join()
    assert elapsed.seconds < 0.3 + SLACK_S
    assert not put.done
    peer.process.send_signal(signal.SIGCONT)
    with pytest.raises(hbmwire.Cancelled):
        put.wait(10)
    assert put.settled


def test_request_cancel_does_not_wait(slow: Pair) -> None:
    put = slow.here.put(slow.source, slow.remote)
    with Elapsed() as elapsed:
        put.request_cancel()
    assert elapsed.seconds < 0.1
    with pytest.raises(hbmwire.Cancelled):
        put.wait(10)
    assert put.done


def test_cancelling_an_ended_operation_has_no_effect(slow: Pair) -> None:
    put = slow.here.put(slow.source[:8], slow.remote[:8]).wait(10)
    put.cancel()
    put.request_cancel()
    assert put.poll()


# --- a buffer lives as long as a transfer uses it


def owned(slow: Pair, value: int) -> tuple[hbmwire.Region, weakref.ref[Owner]]:
    owner = Owner(bytes([value]) * MANY_BYTES)
    return slow.context.register(owner), weakref.ref(owner)


def test_a_dropped_put_keeps_its_buffer_until_it_is_over(slow: Pair) -> None:
    region, owner = owned(slow, 7)
    put = slow.here.put(region, slow.remote)
    del region, put
    gc.collect()
    assert owner() is not None
    assert slow.context.worker.in_flight == 1
    with pytest.raises(BufferError):
        owner().append(1)  # type: ignore[union-attr]
    slow.here.flush().wait(10)
    eventually(lambda: slow.context.worker.progress() == 0 and owner() is None)
    assert slow.context.worker.in_flight == 0
    assert slow.memory.read() == b"\x07" * MANY_BYTES


def test_a_put_of_a_closed_region_arrives(slow: Pair) -> None:
    region, owner = owned(slow, 8)
    put = slow.here.put(region[:], slow.remote)
    region.close()
    assert region.closed
    del region
    gc.collect()
    put.wait(10)
    assert slow.memory.read() == b"\x08" * MANY_BYTES
    assert owner() is not None  # the handle still holds it
    del put
    gc.collect()
    assert owner() is None


def test_the_references_of_a_buffer_are_as_before_its_transfers(slow: Pair) -> None:
    owner = Owner(MANY_BYTES)
    before = sys.getrefcount(owner)
    region = slow.context.register(owner)
    for _ in range(3):
        slow.here.put(region[:100], slow.remote[:100])
        slow.here.get(region[:100], slow.remote[:100]).wait(10)
        slow.here.send(region[:100])
    with pytest.raises(hbmwire.TimedOut):
        slow.here.put(region, slow.remote).wait(0.01)
    slow.here.flush().wait(10)
    del region
    eventually(lambda: slow.context.worker.progress() == 0 and sys.getrefcount(owner) == before)


def test_a_dropped_receive_gets_its_message(slow: Pair) -> None:
    owner = Owner(64)
    region = slow.context.register(owner)
    slow.here.receive(region)
    del region
    gc.collect()
    slow.there.send(b"\x21" * 64).wait(10)
    slow.there.flush().wait(10)
    eventually(lambda: slow.context.worker.progress() == 0 and bytes(owner) == b"\x21" * 64)


def test_the_far_end_of_a_dropped_region_is_kept_by_its_key(slow: Pair) -> None:
    owner = Owner(64)
    key = slow.context.register(owner).pack_key()
    weak = weakref.ref(owner)
    del owner
    gc.collect()
    remote = slow.there.remote(bytes(key))
    slow.there.put(slow.memory[:64], remote).wait(10)
    assert weak() is not None
    del key, remote
    gc.collect()
    assert weak() is None


def test_an_advertised_region_is_kept_by_its_listener(slow: Pair) -> None:
    owner = Owner(b"\x31" * 64)
    weak = weakref.ref(owner)
    slow.listener.advertise("kept", slow.context.register(owner))
    del owner
    gc.collect()
    remote = slow.here.remote("kept", timeout=10)
    slow.here.get(slow.source[:64], remote).wait(10)
    assert slow.source.read(0, 64) == b"\x31" * 64
    slow.listener.withdraw("kept")
    gc.collect()
    assert weak() is None


@pytest.mark.parametrize("dropped", ["listener", "endpoint", "both"])
def test_memory_is_kept_as_long_as_a_peer_reaches_it(dropped: str) -> None:
    """A dropped end sends its goodbye in the background; a peer may write until then."""
    with hbmwire.Context() as context, hbmwire.Context() as other:
        owner = Owner(4096)
        weak = weakref.ref(owner)
        worker = context.create_worker(progress_thread=True)
        listener = worker.listen(0, "127.0.0.1")
        listener.advertise("memory", context.register(owner))
        del owner
        here = other.connect(f"127.0.0.1:{listener.port}", timeout=10)
        there = listener.accept(10)
        source, remote = other.allocate("host", 4096), here.remote("memory", timeout=10)
        ended: list[bool] = []

        def put() -> None:
            while True:
                was_gone = weak() is None
                try:
                    here.put(source, remote).wait(10)
                except hbmwire.Error:
                    return
                if was_gone:
                    ended.append(False)
                    return

        thread = threading.Thread(target=put)
        thread.start()
        time.sleep(0.1)
        if dropped != "endpoint":
            listener.close()
        if dropped != "listener":
            there = None  # type: ignore[assignment]
        if dropped != "both":
            gc.collect()
            time.sleep(0.1)
            assert weak() is not None
        listener.close()
        there = None  # type: ignore[assignment]
        gc.collect()
        thread.join(10)
        assert not thread.is_alive() and ended == []
        eventually(lambda: worker.progress() == 0 and weak() is None)


def test_a_dropped_endpoint_ends_its_transfers_and_lets_their_buffers_go(slow: Pair) -> None:
    region, owner = owned(slow, 9)
    slow.here.put(region, slow.remote)
    del region
    slow.here = None  # type: ignore[assignment]
    slow.remote = None  # type: ignore[assignment]
    gc.collect()
    eventually(lambda: slow.context.worker.progress() == 0 and owner() is None, 10)
    with pytest.raises(hbmwire.Error):
        slow.there.wait_closed(10)


def test_a_transfer_keeps_its_context_and_its_endpoint() -> None:
    def begin() -> tuple[hbmwire.Transfer, weakref.ref[Owner], Any]:
        context = hbmwire.Context()
        pair = Pair(context, MANY_BYTES)
        owner = Owner(b"\x41" * MANY_BYTES)
        put = pair.here.put(context.register(owner), pair.remote)
        return put, weakref.ref(owner), (pair.worker, pair.memory, pair.there, pair.here)

    put, owner, kept = begin()
    gc.collect()
    assert owner() is not None
    put.wait(10)
    assert kept[1].read() == b"\x41" * MANY_BYTES
    kept[0].close()
    del put
    gc.collect()
    assert owner() is None


def test_a_context_dropped_with_all_of_its_handles_ends_soon() -> None:
    context = hbmwire.Context()
    pair = Pair(context, MANY_BYTES)
    owner = Owner(MANY_BYTES)
    weak = weakref.ref(owner)
    pair.here.put(context.register(owner), pair.remote)
    del owner
    with Elapsed() as elapsed:
        del context, pair
        gc.collect()
    assert elapsed.seconds < 5
    assert weak() is None


def test_a_context_that_is_closed_ends_its_transfers(slow: Pair) -> None:
    region, owner = owned(slow, 10)
    put = slow.here.put(region, slow.remote)
    receive = slow.here.receive(slow.source)
    with Elapsed() as elapsed:
        slow.context.close()
    assert elapsed.seconds < 5
    for transfer in (put, receive):
        assert transfer.done
        with pytest.raises(hbmwire.Error):
            transfer.wait(1)
    del region, put, transfer
    gc.collect()
    assert owner() is None
    with pytest.raises(hbmwire.InvalidArgument, match="ended with its worker"):
        slow.here.put(slow.source, slow.remote)


# --- a context that another thread closes


@pytest.mark.parametrize("name", [name for name in NAMES if name != "Endpoint.close"])
def test_a_wait_ends_when_another_thread_closes_the_context(
    waits: Waits, silent: Pair, name: str
) -> None:
    ended: list[tuple[float, BaseException]] = []

    def wait() -> None:
        try:
            while True:
                waits[name](20)
        except BaseException as error:
            ended.append((time.monotonic(), error))

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.3)
    assert not ended
    begin = time.monotonic()
    silent.context.close()
    waiting.join(10)
    assert ended and ended[0][0] < begin + 5
    assert isinstance(ended[0][1], hbmwire.Error)
    assert ended[0][1].code in ("cancelled", "invalid_argument", "peer_failed")


def test_accept_ends_when_another_thread_closes_the_listener(context: hbmwire.Context) -> None:
    listener = context.listen(0, "127.0.0.1")
    timer = threading.Timer(0.3, listener.close)
    timer.start()
    with Elapsed() as elapsed, pytest.raises(
        hbmwire.InvalidArgument, match="the listener is closed"
    ):
        listener.accept(20)
    timer.join()
    assert elapsed.seconds < 0.3 + SLACK_S


def test_an_idle_wait_ends_when_another_thread_closes_the_worker(context: hbmwire.Context) -> None:
    worker = context.create_worker()
    timer = threading.Timer(0.3, worker.close)
    timer.start()
    with Elapsed() as elapsed, pytest.raises(hbmwire.InvalidArgument, match="the worker is closed"):
        worker.next_message(20)
    timer.join()
    assert elapsed.seconds < 0.3 + SLACK_S


def test_a_worker_that_is_closed_in_its_own_callback_ends(pair: Pair) -> None:
    put = pair.here.put(pair.source[:8], pair.remote[:8])
    if put._notify(pair.context.worker.close):
        eventually(lambda: pair.context.worker.closed or pair.context.worker.progress() < 0)
    else:
        pair.context.worker.close()
    assert put.done
    assert pair.context.worker.closed


# --- a peer that is killed


@pytest.mark.parametrize("name", ["receive", "put", "remote", "close", "wait_closed", "wait_all"])
def test_a_killed_peer_ends_a_wait(peer: Peer, context: hbmwire.Context, name: str) -> None:
    endpoint = context.connect(peer.address, timeout=10)
    remote = endpoint.remote("memory")
    source = context.allocate("host", 1 << 20)
    receive = endpoint.receive(source)
    killed = 0.0

    def kill() -> None:
        nonlocal killed
        killed = time.monotonic()
        peer.process.kill()

    def put_on() -> None:
        while True:
            endpoint.put(source, remote).wait()

    def ask_on() -> None:
        while True:
            endpoint.remote("memory", timeout=None)

    def close() -> None:
        # The peer's program holds the endpoint, and sends no goodbye.
        endpoint.close(None)

    waits: dict[str, Callable[[], object]] = {
        "receive": receive.wait,
        "put": put_on,
        "remote": ask_on,
        "close": close,
        "wait_closed": endpoint.wait_closed,
        "wait_all": lambda: context.worker.wait_all([receive]),
    }
    if name == "close":
        peer.stop()
    timer = threading.Timer(0.3, kill)
    timer.start()
    with pytest.raises(hbmwire.PeerFailed) as raised:
        waits[name]()
    ended = time.monotonic()
    timer.join()
    # peer_timeout is 2 s.
    assert ended < killed + 5
    assert isinstance(raised.value, ConnectionError)
    assert raised.value.remedy or raised.value.hint
    if name != "close":
        assert endpoint.phase == "failed"
        assert isinstance(endpoint.error, hbmwire.PeerFailed)


# --- the interpreter's end

BEGIN = """
    import os, signal, sys, threading, time
    import hbmwire
    context = hbmwire.Context()
    worker = context.create_worker(progress_thread=True)
    listener = worker.listen(0, "127.0.0.1")
    here = context.connect(f"127.0.0.1:{listener.port}", timeout=10)
    there = listener.accept(10)
    memory = bytearray(4 << 20)
    listener.advertise("memory", context.register(memory))
    remote = here.remote("memory")
    source = context.register(bytearray(4 << 20))
    put = here.put(source, remote)
    receive = there.receive(context.register(bytearray(64)))
"""


def run(program: str, seconds: float = 20) -> subprocess.CompletedProcess[str]:
    """Runs a program that begins with a put in flight."""
    return subprocess.run(
        [
            sys.executable,
            "-B",
            "-X",
            "dev",
            "-c",
            textwrap.dedent(BEGIN) + textwrap.dedent(program),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=seconds,
    )


def check_quiet(done: subprocess.CompletedProcess[str]) -> None:
    # The library warns that its peers are not authenticated.
    complaints = [line for line in done.stderr.splitlines() if "not authenticated" not in line]
    assert complaints == []


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("", id="at_the_end"),
        pytest.param("assert not put.done; sys.exit(0)", id="sys_exit"),
        pytest.param("del put, receive", id="dropped_handles"),
        pytest.param("keep = []; keep.append((keep, put, receive, context, here))", id="cycle"),
        pytest.param("context.close(); put.done", id="closed"),
        pytest.param(
            "import builtins; builtins.kept = (put, receive, here, source)", id="kept_by_builtins"
        ),
        pytest.param("sys.kept = put; sys.modules['kept'] = here", id="kept_by_sys"),
        pytest.param("threading.Thread(target=put.wait).start()", id="thread_that_waits"),
        pytest.param("import atexit; atexit.register(lambda: print(repr(put)))", id="atexit"),
    ],
)
def test_the_interpreter_ends_with_transfers_in_flight(program: str) -> None:
    with Elapsed() as elapsed:
        done = run(program)
    assert done.returncode == 0, done.stderr
    check_quiet(done)
    assert elapsed.seconds < 10


def test_the_interpreter_ends_while_a_daemon_thread_waits() -> None:
    done = run("threading.Thread(target=receive.wait, daemon=True).start(); time.sleep(0.1)")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("seconds", [0.1, 0.15, 0.2, 0.3, 0.5])
def test_the_interpreter_ends_by_sys_exit_while_threads_work(seconds: float) -> None:
    done = run(
        f"""
        def work(number):
            mine = context.create_worker()
            end = mine.connect(f"127.0.0.1:{{listener.port}}", timeout=10)
            other = end.remote("memory")
            own = context.register(bytearray(4096))
            while True:
                if number % 6 == 0:
                    end.put(own, other[:4096]).wait()
                elif number % 6 == 1:
                    end.send(b"text")
                    mine.progress()
                elif number % 6 == 2:
                    mine.wait(None)
                elif number % 6 == 3:
                    context.register(bytearray(4096)).close()
                elif number % 6 == 4:
                    end.remote("memory")
                else:
                    end.put(own, other[:4096]).cancel()
                    end.reconnect(5)
                    other = end.remote("memory")
        for number in range(12):
            threading.Thread(target=work, args=(number,), daemon=True).start()
        time.sleep({seconds})
        sys.exit(3)
    """
    )
    assert done.returncode == 3, done.stderr


def test_the_interpreter_ends_by_an_unhandled_exception() -> None:
    done = run("raise RuntimeError('the program is over')")
    assert done.returncode == 1
    assert "RuntimeError: the program is over" in done.stderr


def test_the_interpreter_ends_by_an_unhandled_error_of_the_library() -> None:
    done = run("receive.wait(0.1)")
    assert done.returncode == 1
    assert "hbmwire.errors.TimedOut: complete 127.0.0.1:" in done.stderr
    assert "not over within the time allowed" in done.stderr


def test_the_interpreter_ends_by_control_c() -> None:
    done = run(
        "threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start(); receive.wait()"
    )
    assert done.returncode in (-signal.SIGINT, 130), done.stderr
    assert "KeyboardInterrupt" in done.stderr


def test_the_interpreter_ends_by_sigterm_and_by_exit_without_cleaning() -> None:
    assert run("os.kill(os.getpid(), signal.SIGTERM); time.sleep(5)").returncode == -signal.SIGTERM
    assert run("os._exit(5)").returncode == 5


def test_the_interpreter_ends_while_an_event_loop_has_tasks() -> None:
    done = run(
        """
        import asyncio
        async def main():
            task = asyncio.ensure_future(wait())
            await asyncio.sleep(0.1)
        async def wait():
            await here.receive(context.register(bytearray(64)))
        asyncio.run(main())
    """
    )
    assert done.returncode == 0, done.stderr
    check_quiet(done)


def test_the_peer_learns_of_the_interpreters_end(peer: Peer) -> None:
    program = f"""
        far = context.connect("{peer.address}", timeout=10)
        print(far.peer)
    """
    done = run(program)
    assert done.returncode == 0, done.stderr
    assert peer.ask("sum") == "0"
