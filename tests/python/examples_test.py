# SPDX-License-Identifier: MIT
"""Runs python/examples like users: with host, Gaudi and CUDA memory, dead peers, and Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import eventually

import hbmwire

EXAMPLES = pathlib.Path(__file__).parents[2] / "python" / "examples"
# More options for each example, small enough for a busy machine.
ALL: dict[str, list[str]] = {
    "tensor": [],
    "async_server": ["--clients", "5", "--rows", "12"],
    "paged_blocks": [],
    "pull_weights": ["--size", "5000000", "--piece", "1M"],
}
# The server ends after its client, instead of at Ctrl-C.
ONCE = {"async_server": ["--end-after", "5"], "pull_weights": ["--end-after", "1"]}
# A line that one of the two ends prints after it has compared every byte.
VERIFIED = {
    "tensor": "received 7, and numbers whose sum is 34359607296",
    "async_server": "verified 60 rows of 5 clients",
    "paged_blocks": "verified 6400 blocks of 8 requests",
    "pull_weights": "pulled and verified",
}
WAIT_S = 50.0

Start = Callable[..., "Running"]
RANKED = "broadcast_weights"  # its ends are the ranks of a group
each_example = pytest.mark.parametrize("name", ALL)


class Running:
    """An example in a process of its own."""

    def __init__(self, name: str, *arguments: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-B", str(EXAMPLES / f"{name}.py"), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment},
            start_new_session=True,  # like a job of a terminal: Ctrl-C goes to all its processes
        )
        self.out = self.err = ""

    def address(self) -> str:
        """The address on which it listens, from its output."""
        line = self._line(self.process.stdout)
        assert line.startswith("listening: "), line + self.end()[1]
        return line.removeprefix("listening: ").strip()

    def until_stderr_says(self, text: str) -> None:
        while True:
            line = self._line(self.process.stderr)
            self.err += line
            assert line, f"it never said {text!r}: {self.err}"
            if text in line:
                return

    def signal(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def end(self) -> tuple[int, str]:
        """Waits for its end; returns its exit code and standard error."""
        out, err = self.process.communicate(timeout=WAIT_S)
        self.out += out
        self.err += err
        return self.process.returncode, self.err

    def must_succeed(self) -> str:
        code, err = self.end()
        assert code == 0, err
        return self.out

    def stop(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.communicate()

    @staticmethod
    def _line(stream: Any) -> str:
        line: str = stream.readline()
        return line


@pytest.fixture
def start() -> Iterator[Start]:
    running: list[Running] = []

    def make(name: str, *arguments: str, **environment: str) -> Running:
        running.append(Running(name, *arguments, **environment))
        return running[-1]

    yield make
    for one in running:
        one.stop()


def listen(start: Start, name: str, *arguments: str, **environment: str) -> tuple[Running, str]:
    server = start(
        name, "--listen", "--address", "127.0.0.1", *ALL[name], *arguments, **environment
    )
    return server, server.address()


def assert_one_sentence(err: str, name: str, *words: str) -> None:
    """There is no traceback. The last line begins with the program's name, and gives the reason."""
    assert "Traceback" not in err
    last = err.splitlines()[-1]
    assert last.startswith(f"{name}.py: ")
    for word in words:
        assert word in last


# --- success


@pytest.mark.parametrize(
    ("there", "here"), [("host", "host"), ("gaudi", "host"), ("host", "gaudi"), ("cuda", "cuda")]
)
@each_example
def test_an_example_verifies_the_bytes_that_it_moves(
    start: Start, name: str, there: str, here: str
) -> None:
    server, address = listen(start, name, *ONCE.get(name, []), "--memory", there)
    client = start(name, "--connect", address, *ALL[name], "--memory", here)
    said = client.must_succeed() + server.must_succeed()
    assert VERIFIED[name] in said
    if "gaudi" in (there, here) and name in ("tensor", "paged_blocks"):
        assert "gaudi by zero-copy dma-buf" in said


@each_example
def test_demo_runs_both_ends(start: Start, name: str) -> None:
    assert VERIFIED[name] in start(name, "--demo", *ALL[name]).must_succeed()


@pytest.mark.parametrize("name", ["tensor", "paged_blocks"])
def test_an_example_needs_neither_numpy_nor_torch(
    start: Start, name: str, tmp_path: pathlib.Path
) -> None:
    for module in ("numpy", "torch"):
        (tmp_path / f"{module}.py").write_text("raise ImportError('not installed')\n")
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    assert VERIFIED[name] in start(name, "--demo", PYTHONPATH=path).must_succeed()


@each_example
def test_help_says_how_to_run_an_example(start: Start, name: str) -> None:
    said = start(name, "--help").must_succeed()
    for words in (f"$ {name}.py --listen 7000", f"$ {name}.py --connect ", "--demo  "):
        assert words in said


def test_progress_is_on_standard_error(start: Start) -> None:
    demo = start("pull_weights", "--demo", "--size", "3M", "--piece", "1M")
    assert "GiB/s" in demo.must_succeed()
    assert "100 % of 0.00 GiB" in demo.err
    assert "%" not in demo.out


# --- errors


@each_example
@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--listen", "99999"],
        ["--listen", "--connect", "node2:7000"],
        ["--demo", "--memory", "tape"],
        ["--demo", "--timeout", "0"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_exits_with_2(start: Start, name: str, arguments: list[str]) -> None:
    code, err = start(name, *arguments).end()
    assert code == 2
    assert err.startswith("usage: ")


@each_example
def test_without_a_peer_an_example_exits_with_1_and_a_sentence(start: Start, name: str) -> None:
    code, err = start(name, "--connect", "127.0.0.1:1", "--timeout", "5").end()
    assert code == 1
    assert_one_sentence(err, name, "Connection refused", "start the one that listens first")


@pytest.mark.parametrize("name", ["tensor", "paged_blocks"])
def test_an_example_whose_peer_never_comes_exits_with_1_after_the_timeout(
    start: Start, name: str
) -> None:
    begin = time.monotonic()
    code, err = start(name, "--listen", "--address", "127.0.0.1", "--timeout", "0.5").end()
    assert code == 1
    assert_one_sentence(err, name, "no peer connected in time")
    assert time.monotonic() - begin < WAIT_S / 2


@each_example
def test_a_missing_device_exits_with_3_and_a_sentence(start: Start, name: str) -> None:
    # Without the libraries of the emulated hardware.
    demo = start(name, "--demo", *ALL[name], "--memory", "cuda", LD_LIBRARY_PATH="")
    code, err = demo.end()
    assert code == 3
    assert_one_sentence(err, name, "cuda")


def test_a_flipped_bit_is_found(start: Start) -> None:
    server, address = listen(start, "pull_weights")
    client = start(
        "pull_weights",
        "--connect",
        address,
        HBMWIRE_EMULATION_FAULTS="flip,op=read,nth=3",
        HBMWIRE_PATHS="host,zero_copy",
    )
    code, err = client.end()
    assert code == 1
    assert_one_sentence(err, "pull_weights", "are not those of the server")
    server.signal(signal.SIGTERM)
    assert server.end()[0] == 128 + signal.SIGTERM


# --- peers that die, and Ctrl-C

LONG = ["--size", "1G", "--piece", "1M"]


@pytest.fixture
def pulling(start: Start) -> tuple[Running, Running]:
    """A server, and a client during a pull."""
    server = start("pull_weights", "--listen", "--address", "127.0.0.1", *LONG)
    client = start("pull_weights", "--connect", server.address())
    client.until_stderr_says("% of 1.00 GiB")
    return server, client


def test_a_killed_server_is_noticed_and_said(pulling: tuple[Running, Running]) -> None:
    server, client = pulling
    server.signal(signal.SIGKILL)
    begin = time.monotonic()
    code, err = client.end()
    assert code == 1
    assert_one_sentence(err, "pull_weights", "peer")
    assert time.monotonic() - begin < 20


def test_a_server_outlives_a_killed_client(pulling: tuple[Running, Running], start: Start) -> None:
    server, client = pulling
    client.signal(signal.SIGKILL)
    client.end()
    assert server.process.stdout is not None
    assert "a client was lost" in server.process.stdout.readline()
    assert server.process.poll() is None


def test_ctrl_c_ends_a_pull_with_130_and_no_traceback(pulling: tuple[Running, Running]) -> None:
    server, client = pulling
    begin = time.monotonic()
    client.signal(signal.SIGINT)
    code, err = client.end()
    assert code == 130
    assert "Traceback" not in err
    assert time.monotonic() - begin < 20
    server.signal(signal.SIGINT)
    code, err = server.end()
    assert code == 130
    assert "Traceback" not in err


@each_example
def test_ctrl_c_ends_an_end_that_waits(start: Start, name: str) -> None:
    server, _ = listen(start, name)
    server.signal(signal.SIGINT)
    code, err = server.end()
    assert code == 130
    assert "Traceback" not in err


def test_ctrl_c_ends_both_ends_of_a_demo(start: Start) -> None:
    demo = start("pull_weights", "--demo", *LONG)
    demo.until_stderr_says("% of 1.00 GiB")
    demo.signal(signal.SIGINT)
    code, err = demo.end()  # both processes have closed the pipes
    assert code == 130
    assert "Traceback" not in err


def test_the_end_of_a_demo_ends_its_other_process(start: Start) -> None:
    demo = start("pull_weights", "--demo", *LONG)
    demo.until_stderr_says("% of 1.00 GiB")
    demo.process.send_signal(signal.SIGTERM)  # to one of the two processes
    assert demo.end()[0] == 128 + signal.SIGTERM


def test_the_async_server_goes_on_when_a_client_asks_nonsense(
    start: Start, context: hbmwire.Context
) -> None:
    server, address = listen(start, "async_server", "--end-after", "7")
    memory = context.allocate("host", 4 * 2048)
    for request in (b"\xff\xff\xff\xff", b"too long to be a number"):
        peer = context.connect(address, timeout=10, hello=bytes(memory.pack_key()))
        peer.send(request)
        with pytest.raises((hbmwire.PeerFailed, hbmwire.Cancelled)):
            peer.receive_immediate().wait(20)
    client = start("async_server", "--connect", address, *ALL["async_server"])
    assert VERIFIED["async_server"] in client.must_succeed()
    said = server.must_succeed()
    assert said.count("a client was lost") == 2
    assert "served 7 clients" in said


# --- ranks of a group


def as_ranks(start: Start, size: int, *arguments: str, missing: int = 0) -> list[Running]:
    """Processes as torchrun starts them; the last `missing` ones do not come."""
    port = str(random.randrange(20_000, 30_000))
    shared = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [
        start(RANKED, *arguments, RANK=str(rank), **shared) for rank in range(size - missing)
    ]


def test_a_broadcast_brings_the_weights_to_all_ranks(start: Start) -> None:
    for rank, one in enumerate(as_ranks(start, 4, "--size", "5000000")):
        assert f"rank {rank} of 4: verified" in one.must_succeed()


def test_a_broadcast_reaches_memory_of_cards(start: Start) -> None:
    # Processes share a GPU.
    for one in as_ranks(start, 3, "--size", "1M", "--memory", "cuda"):
        assert "of 3: verified" in one.must_succeed()


def test_without_one_rank_the_others_exit_with_1_and_its_number(start: Start) -> None:
    (only,) = as_ranks(start, 2, "--timeout", "0.5", missing=1)
    code, err = only.end()
    assert code == 1
    assert_one_sentence(err, RANKED, "rank 1", "did not come in time")


def test_without_a_launcher_a_ranked_example_says_what_to_do(start: Start) -> None:
    code, err = start(RANKED).end()
    assert code == 1
    assert_one_sentence(err, RANKED, "mpirun", "HBMWIRE_GROUP")


def has_open(process: int, kind: str) -> bool:
    for one in pathlib.Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if kind in os.readlink(one):
                return True
    return False


def test_ctrl_c_ends_a_rank_that_waits(start: Start) -> None:
    (only,) = as_ranks(start, 2, missing=1)
    # It has a worker by then, and waits within moments.
    eventually(lambda: has_open(only.process.pid, "eventpoll"))
    only.signal(signal.SIGINT)
    code, err = only.end()
    assert code == 130
    assert "Traceback" not in err


def test_help_says_how_a_launcher_runs_a_ranked_example(start: Start) -> None:
    said = start(RANKED, "--help").must_succeed()
    assert "$ torchrun " in said and "$ mpirun -n 4 broadcast_weights.py" in said
