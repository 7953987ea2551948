# SPDX-License-Identifier: MIT
"""Two ends in one process, a peer process, and a time limit for each test."""

from __future__ import annotations

import faulthandler
import gc
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import hbmwire

HERE = pathlib.Path(__file__).parent
EVERYTHING: Any = ("local_write", "remote_write", "remote_read", "remote_atomic")
# Seconds. A test without its own limit takes a few seconds, more on a busy machine.
LIMIT_S = 60.0

_stderr = 2


def pytest_configure(config: pytest.Config) -> None:
    global _stderr
    _stderr = os.dup(2)  # pytest replaces descriptor 2 during tests
    config.addinivalue_line(
        "markers", f"limit(seconds): a test that may take longer than {LIMIT_S} s"
    )


@pytest.hookimpl(hookwrapper=True)  # type: ignore[misc]
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Ends the run if a test hangs, and shows the stack of each thread."""
    marker = item.get_closest_marker("limit")
    limit = float(marker.args[0]) if marker else LIMIT_S
    faulthandler.dump_traceback_later(limit, exit=True, file=_stderr)
    yield
    faulthandler.cancel_dump_traceback_later()


def eventually(condition: Callable[[], object], seconds: float = 5.0) -> None:
    """Waits until a condition holds; fails if it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not hold in time"
        time.sleep(0.005)


class Pair:
    """Two endpoints of this process, connected to each other.

    `here` belongs to the context's own worker, which makes progress while a test waits. `there`
    belongs to a worker with a thread. `memory` is there, `remote` is the same memory as seen
    from `here`, and `source` is memory of the same size here.
    """

    def __init__(self, context: hbmwire.Context, nbytes: int = 1 << 16, **options: Any) -> None:
        self.context = context
        self.worker = context.create_worker(progress_thread=True)
        self.listener = self.worker.listen(0, "127.0.0.1", **options)
        self.here = context.connect(f"127.0.0.1:{self.listener.port}", timeout=10, **options)
        self.there = self.listener.accept(10)
        self.memory = context.allocate("host", nbytes, access=EVERYTHING)
        self.listener.advertise("memory", self.memory)
        self.remote = self.here.remote("memory", timeout=10)
        self.source = context.allocate("host", nbytes, access=EVERYTHING)

    def close(self) -> None:
        """Closes both ends at once: a test may have left transfers in flight that never end."""
        self.worker.close()


def _state(task: pathlib.Path) -> str:
    """The state of a thread, from its folder in /proc: R, S, T, ..."""
    return (task / "stat").read_text().rpartition(")")[2].split()[0]


class Peer:
    """A peer in a process of its own, which advertises "memory" until it is told to end."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-B", str(HERE / "support" / "peer.py"), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None and self.process.stdin is not None
        self._stdin, self._stdout = self.process.stdin, self.process.stdout
        self.port = int(self._stdout.readline())

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def ask(self, line: str) -> str:
        """Sends a command to the peer, and returns its answer."""
        self._stdin.write(line + "\n")
        self._stdin.flush()
        return self._stdout.readline().strip()

    def stop(self) -> None:
        """Stops the process, as Ctrl-Z does. Returns when none of its threads runs any more."""
        self.process.send_signal(signal.SIGSTOP)
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task")
        eventually(lambda: all(_state(task) == "T" for task in tasks.iterdir()))

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self._stdin.close()
        self._stdout.close()
        self.process.wait(10)


@pytest.fixture
def context() -> Iterator[hbmwire.Context]:
    # Objects in reference cycles of an earlier test, such as tracebacks, may hold an accelerator.
    gc.collect()
    with hbmwire.Context() as made:
        yield made


@pytest.fixture
def make_pair(context: hbmwire.Context) -> Iterator[Callable[..., Pair]]:
    """Makes pairs with memory of any length, with options for both endpoints."""
    pairs: list[Pair] = []

    def make(nbytes: int = 1 << 16, **options: Any) -> Pair:
        pairs.append(Pair(context, nbytes, **options))
        return pairs[-1]

    yield make
    for pair in pairs:
        pair.close()


@pytest.fixture
def pair(make_pair: Callable[..., Pair]) -> Pair:
    return make_pair()


@pytest.fixture
def make_peer() -> Iterator[Callable[..., Peer]]:
    """Starts peers with arguments of support/peer.py."""
    peers: list[Peer] = []

    def make(*arguments: str) -> Peer:
        peers.append(Peer(*arguments))
        return peers[-1]

    yield make
    for peer in peers:
        peer.close()


@pytest.fixture
def peer(make_peer: Callable[..., Peer]) -> Peer:
    return make_peer()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    # A file that is skipped as a whole, because its requirements are not installed, has not failed.
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter is not None and reporter.stats.get("skipped")
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and skipped:
        session.exitstatus = pytest.ExitCode.OK
