# SPDX-License-Identifier: MIT
"""hbmwire.mooncake, called as SGLang calls Mooncake's engine, between processes and nodes."""

from __future__ import annotations

import base64
import pathlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))

import hbmwire  # noqa: E402
from hbmwire import mooncake  # noqa: E402
from neighbours.caches import Caches, pattern  # noqa: E402
from neighbours.process import PeerProcess  # noqa: E402

BLOCK = 4096
# Seconds. Finished transfers take far less; peer_timeout is 2 s.
BOUND = 10.0


def engine(protocol: str = "rdma", **options: Any) -> mooncake.TransferEngine:
    made = mooncake.TransferEngine(listen_address="127.0.0.1", **options)
    assert made.initialize("127.0.0.1", "P2PHANDSHAKE", protocol, "") == 0
    return made


def session_of(made: mooncake.TransferEngine) -> str:
    return f"127.0.0.1:{made.get_rpc_port()}"


class Prefill:
    """An engine in this process and its caches, made in SGLang's order."""

    def __init__(self, kind: str = "host", protocol: str = "rdma", **options: Any) -> None:
        self.caches = Caches(kind)
        self.caches.fill(7)
        self.engine = engine(protocol, **options)
        lengths = [layer.nbytes for layer in self.caches.layers]
        assert self.engine.batch_register_memory(self.caches.base_addresses, lengths) == 0

    def parts(
        self, told: dict[str, Any], here: list[int], there: list[int]
    ) -> tuple[list[int], list[int], list[int]]:
        """The buffers, the peer's buffers, and the lengths for these blocks of each layer."""
        mine, its = self.caches.base_addresses, told["base_addresses"]
        layers = range(len(mine))
        return (
            [mine[layer] + BLOCK * block for layer in layers for block in here],
            [its[layer] + BLOCK * block for layer in layers for block in there],
            [BLOCK] * (len(here) * len(mine)),
        )

    def close(self) -> None:
        self.engine.close()
        self.caches.close()


@pytest.fixture
def prefill() -> Iterator[Prefill]:
    made = Prefill()
    yield made
    made.close()


def has(peer: PeerProcess, seed: int, layer: int, its: int, mine: int) -> bool:
    block = base64.b64decode(peer.ask("block", layer=layer, block=its))
    return block == pattern(seed, layer, mine, BLOCK)


# --- SGLang


@pytest.mark.parametrize(
    ("here", "there"),
    [("host", "host"), ("gaudi", "gaudi"), ("cuda", "cuda"), ("gaudi", "cuda"), ("host", "gaudi")],
)
@pytest.mark.parametrize("node", [None, "decode"])
def test_sglang_writes_the_blocks_of_each_layer(here: str, there: str, node: str | None) -> None:
    prefill = Prefill(here)
    # Only one process can use a Gaudi. On its own node the peer has the first card.
    card = 1 if node is None and there == "gaudi" else 0
    with PeerProcess("mooncake_peer", node, kind=there, card=card) as decode:
        mine, its = [1, 2, 3, 9], [4, 5, 0, 15]
        session = decode.started["session"]
        parts = prefill.parts(decode.started, mine, its)
        assert prefill.engine.batch_transfer_sync_write(session, *parts) == 0
        for layer in range(3):
            for one, other in zip(mine, its):
                assert has(decode, 7, layer, other, one)
        # Its auxiliary data, in one piece.
        begin = prefill.caches.base_addresses[0] + BLOCK * 5
        target = decode.started["base_addresses"][1] + BLOCK * 7
        assert prefill.engine.transfer_sync_write(session, begin, target, BLOCK) == 0
        assert base64.b64decode(decode.ask("block", layer=1, block=7)) == pattern(7, 0, 5, BLOCK)
        assert prefill.engine.batch_unregister_memory(prefill.caches.base_addresses) == 0
    prefill.close()


def test_reads_bring_the_peers_blocks(prefill: Prefill) -> None:
    with PeerProcess("mooncake_peer", seed=3) as peer:
        session = peer.started["session"]
        parts = prefill.parts(peer.started, [1, 2], [8, 9])
        assert prefill.engine.batch_transfer_sync_read(session, *parts) == 0
        assert prefill.caches.block(2, 1) == pattern(3, 2, 8, BLOCK)
        mine, its = prefill.caches.base_addresses[0], peer.started["base_addresses"][0]
        assert prefill.engine.transfer_sync_read(session, mine, its, BLOCK) == 0
        assert prefill.caches.block(0, 0) == pattern(3, 0, 0, BLOCK)


def test_parts_of_several_lengths_go_in_one_call(prefill: Prefill) -> None:
    with engine() as other, hbmwire.Context() as context:
        memory = context.allocate("host", 1 << 16)
        memory.write(bytes(1 << 16))
        assert other.register_memory(memory.address, memory.nbytes) == 0
        lengths = [1, 4096, 17, 0, 4096, 300]
        here = [prefill.caches.base_addresses[i % 3] + 5000 * i for i in range(6)]
        there = [memory.address + 7000 * i for i in range(6)]
        session = session_of(other)
        assert prefill.engine.batch_transfer_sync_write(session, here, there, lengths) == 0
        for i, length in enumerate(lengths):
            sent = prefill.caches.layers[i % 3].read(5000 * i, length)
            assert memory.read(7000 * i, length) == sent
        assert memory.read(7000 * 3, 100) == bytes(100)
        assert prefill.engine.batch_transfer_sync_write(session, [], [], []) == 0
        assert prefill.engine.transfer_sync_write(session, here[0], there[0], 0) == 0


def test_several_threads_write_to_several_peers(prefill: Prefill) -> None:
    with PeerProcess("mooncake_peer") as one, PeerProcess("mooncake_peer") as other:
        failed: list[int] = []

        def write(peer: PeerProcess, block: int) -> None:
            for _ in range(20):
                parts = prefill.parts(peer.started, [block], [block])
                result = prefill.engine.batch_transfer_sync_write(peer.started["session"], *parts)
                if result != 0:
                    failed.append(result)

        threads = [
            threading.Thread(target=write, args=(peer, block))
            for peer in (one, other)
            for block in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert all(has(peer, 7, 2, block, block) for peer in (one, other) for block in range(4))


def test_a_peer_that_calls_nothing_is_written_to(prefill: Prefill, tmp_path: pathlib.Path) -> None:
    with PeerProcess("mooncake_peer") as peer:
        over = tmp_path / "over"
        busy = threading.Thread(target=lambda: peer.ask("quiet", until=str(over)))
        busy.start()
        parts = prefill.parts(peer.started, [1], [1])
        session = peer.started["session"]
        assert prefill.engine.batch_transfer_sync_write(session, *parts) == 0
        over.touch()
        busy.join()
        assert has(peer, 7, 2, 1, 1)


# --- memory


def test_memory_that_was_registered_later_is_found(prefill: Prefill) -> None:
    with engine() as other, hbmwire.Context() as context:
        session = session_of(other)
        memory = context.allocate("host", BLOCK)
        mine = prefill.caches.base_addresses[0]
        write = prefill.engine.transfer_sync_write
        assert write(session, mine, memory.address, BLOCK) < 0
        assert isinstance(prefill.engine.last_error, hbmwire.NotFound)
        assert other.register_memory(memory.address, BLOCK) == 0
        assert write(session, mine, memory.address, BLOCK) == 0
        assert memory.read() == prefill.caches.block(0, 0)


def test_memory_that_was_unregistered_is_not_written_to(prefill: Prefill) -> None:
    with PeerProcess("mooncake_peer") as peer:
        session = peer.started["session"]
        parts = prefill.parts(peer.started, [1], [1])
        assert prefill.engine.batch_transfer_sync_write(session, *parts) == 0
        assert peer.ask("unregister") == 0
        begin = time.monotonic()
        parts = prefill.parts(peer.started, [1], [2])
        assert prefill.engine.batch_transfer_sync_write(session, *parts) < 0
        assert prefill.engine.batch_transfer_sync_write(session, *parts) < 0
        assert time.monotonic() - begin < BOUND
        assert base64.b64decode(peer.ask("block", layer=0, block=2)) == bytes(BLOCK)
        # After it is registered again, with another key, it is found.
        assert peer.ask("register") == 0
        assert prefill.engine.batch_transfer_sync_write(session, *parts) == 0
        assert has(peer, 7, 0, 2, 1)


def test_addresses_that_are_not_registered_here_are_refused(prefill: Prefill) -> None:
    with engine() as other:
        session = session_of(other)
        layer = prefill.caches.layers[0]
        assert other.register_memory(layer.address, layer.nbytes) == 0
        end = layer.address + layer.nbytes
        for address in (8, layer.address - 1, end - 1):
            result = prefill.engine.transfer_sync_write(session, address, layer.address, 2)
            assert (result, type(prefill.engine.last_error)) == (-1, hbmwire.NotFound)
            result = prefill.engine.transfer_sync_write(session, layer.address, address, 2)
            assert (result, type(prefill.engine.last_error)) == (-1, hbmwire.NotFound)
        assert prefill.engine.batch_transfer_sync_write(session, [8], [layer.address], [2]) < 0
        assert prefill.engine.batch_transfer_sync_write(session, [8], [8, 9], [2]) < 0


def test_registering_is_all_or_nothing(prefill: Prefill) -> None:
    register, unregister = prefill.engine.register_memory, prefill.engine.unregister_memory
    with hbmwire.Context() as context:
        memory = context.allocate("host", BLOCK)
        assert prefill.engine.batch_register_memory([memory.address, 8], [BLOCK, BLOCK]) < 0
        assert unregister(memory.address) < 0
        assert register(memory.address, BLOCK) == 0
        assert register(memory.address, BLOCK) < 0
        assert isinstance(prefill.engine.last_error, hbmwire.Busy)
        assert prefill.engine.batch_register_memory([memory.address], []) < 0
        assert unregister(memory.address) == 0
        assert unregister(memory.address) < 0


# --- ends


def test_transfers_to_a_killed_peer_fail_soon_and_others_do_not(prefill: Prefill) -> None:
    with PeerProcess("mooncake_peer") as dead, PeerProcess("mooncake_peer") as alive:
        session = dead.started["session"]
        parts = prefill.parts(dead.started, [1], [1])
        assert prefill.engine.send_probe(session) == 0
        assert prefill.engine.batch_transfer_sync_write(session, *parts) == 0
        dead.kill()
        begin = time.monotonic()
        assert prefill.engine.batch_transfer_sync_write(session, *parts) < 0
        assert prefill.engine.batch_transfer_sync_write(session, *parts) < 0
        assert isinstance(prefill.engine.last_error, hbmwire.PeerFailed)
        assert prefill.engine.send_probe(session) < 0
        assert time.monotonic() - begin < BOUND
        parts = prefill.parts(alive.started, [1], [1])
        assert prefill.engine.batch_transfer_sync_write(alive.started["session"], *parts) == 0


def test_transfers_to_a_stopped_peer_fail_at_the_deadline() -> None:
    # Over TCP, from another node, the peer's process must answer.
    prefill = Prefill(protocol="tcp", transfer_timeout=1.0, probe_timeout=0.5)
    with PeerProcess("mooncake_peer", "other", protocol="tcp") as peer:
        session = peer.started["session"]
        parts = prefill.parts(peer.started, [1], [1])
        assert prefill.engine.batch_transfer_sync_write(session, *parts) == 0
        peer.stop()
        begin = time.monotonic()
        assert prefill.engine.send_probe(session) < 0
        assert isinstance(prefill.engine.last_error, hbmwire.TimedOut)
        assert 0.4 < time.monotonic() - begin < BOUND
        begin = time.monotonic()
        assert prefill.engine.batch_transfer_sync_write(session, *parts) < 0
        assert time.monotonic() - begin < BOUND
        peer.go_on()
        assert prefill.engine.send_probe(session) == 0
        assert prefill.engine.batch_transfer_sync_write(session, *parts) == 0
    prefill.close()


def test_all_who_wait_for_an_address_that_never_answers_fail_at_the_deadline() -> None:
    with engine(connect_timeout=0.5) as made:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            session = f"127.0.0.1:{silent.getsockname()[1]}"
            results: list[int] = []
            threads = [
                threading.Thread(
                    target=lambda: results.append(made.transfer_sync_write(session, 1, 2, 3))
                )
                for _ in range(8)
            ]
            begin = time.monotonic()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert results == [-1] * 8
            assert isinstance(made.last_error, hbmwire.TimedOut)
            assert 0.4 < time.monotonic() - begin < 5 * 0.5


def test_a_peer_that_was_started_anew_at_its_port_is_written_to(prefill: Prefill) -> None:
    with PeerProcess("mooncake_peer") as peer:
        session = peer.started["session"]
        parts = prefill.parts(peer.started, [1], [1])
        assert prefill.engine.batch_transfer_sync_write(session, *parts) == 0
        peer.kill()
    port = int(session.rsplit(":")[1])
    with PeerProcess("mooncake_peer", options={"port": port}) as newer:
        assert newer.started["session"] == session
        parts = prefill.parts(newer.started, [2], [3])
        # The first one may notice the end of the old connection.
        results = [prefill.engine.batch_transfer_sync_write(session, *parts) for _ in range(2)]
        assert results[-1] == 0
        assert has(newer, 7, 0, 3, 2)


def test_an_engine_that_is_dropped_ends() -> None:
    before = set(threading.enumerate())
    made = engine()
    port = made.get_rpc_port()
    del made
    assert set(threading.enumerate()) == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_peers_of_another_kind_are_sent_away(prefill: Prefill) -> None:
    with hbmwire.Context() as context:
        stranger = context.connect(session_of(prefill.engine), timeout=10, hello=b"a stranger")
        stranger.wait_closed(timeout=10)
        worker = context.create_worker(progress_thread=True)
        listener = worker.listen(0, "127.0.0.1", hello=b"another stranger")
        assert prefill.engine.send_probe(f"127.0.0.1:{listener.port}") < 0
        assert isinstance(prefill.engine.last_error, hbmwire.ProtocolError)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"1",
        b"1 no json",
        b"1 [7]",
        b'1 ["AAAA"]',
        b"1 " + b"[" * 100000,
        b"1 7",
        b'1 ["\xff"]',
        b"2 []",  # the answer to another question
        b"x []",
    ],
)
def test_an_answer_that_is_damaged_is_not_believed(prefill: Prefill, answer: bytes) -> None:
    with hbmwire.Context(progress_thread=True) as context:
        listener = context.listen(
            0, "127.0.0.1", hello=b"hbmwire.mooncake/1", messages="handed_out"
        )

        def lie() -> None:
            endpoint = listener.accept(10)
            while True:
                try:
                    asked = context.worker.next_message(1)
                except hbmwire.TimedOut:
                    return
                asked.close()
                endpoint.send(b"hbmwire.mooncake/1 memory: " + answer)

        liar = threading.Thread(target=lie)
        liar.start()
        prefill.engine.options.connect_timeout = 0.5
        session = f"127.0.0.1:{listener.port}"
        mine = prefill.caches.base_addresses[0]
        assert prefill.engine.transfer_sync_write(session, mine, mine, 8) < 0
        assert isinstance(prefill.engine.last_error, hbmwire.TimedOut)
        liar.join()


# --- construction


def test_invalid_calls_are_refused() -> None:
    made = mooncake.TransferEngine(listen_address="127.0.0.1")
    assert made.get_rpc_port() < 0
    assert made.register_memory(1, 1) < 0
    assert made.transfer_sync_write("127.0.0.1:1", 1, 1, 1) < 0
    assert made.send_probe("127.0.0.1:1") < 0
    assert isinstance(made.last_error, hbmwire.InvalidArgument)
    assert made.initialize("127.0.0.1", "etcd://store", "rdma", "") < 0
    assert isinstance(made.last_error, hbmwire.NotSupported)
    assert made.initialize("127.0.0.1", "P2PHANDSHAKE", "ascend", "") < 0
    assert made.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", "no_such_nic") < 0
    assert made.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", "emu0") == 0
    assert made.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", "emu0") < 0
    assert isinstance(made.last_error, hbmwire.Busy)
    assert made.get_engine() is made
    made.close()
    assert made.transfer_sync_write("127.0.0.1:1", 1, 1, 1) < 0


def test_memory_goes_by_allowed_paths_alone() -> None:
    with engine(allow=["host"]) as made, hbmwire.Context() as context:
        card = context.allocate("gaudi", BLOCK)
        assert made.register_memory(card.address, BLOCK) < 0
        assert isinstance(made.last_error, hbmwire.PermissionDenied)


def test_engines_with_other_secrets_do_not_connect() -> None:
    with engine(pre_shared_key=b"a secret of 16 b") as one:
        with engine(pre_shared_key=b"another of 16 by") as other:
            assert one.send_probe(session_of(other)) < 0
            assert isinstance(one.last_error, hbmwire.PermissionDenied)


def test_programs_that_import_mooncake_by_its_name_find_the_module() -> None:
    program = """
from hbmwire import mooncake as ours
ours.stand_in_for()
from mooncake.engine import TransferEngine
assert TransferEngine is ours.TransferEngine
try:
    ours.stand_in_for()
except Exception as error:
    print(type(error).__name__)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout == "Busy\n", ran.stderr


def test_the_engine_works_without_numpy() -> None:
    program = """
import sys
sys.modules["numpy"] = None
import hbmwire
from hbmwire import mooncake
with hbmwire.Context() as context, mooncake.TransferEngine(listen_address="127.0.0.1") as engine:
    a, b = (context.allocate("host", 1 << 16) for _ in range(2))
    a.write(bytes(range(256)) * 256)
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", "") == 0
    assert engine.batch_register_memory([a.address, b.address], [1 << 16, 1 << 16]) == 0
    session = f"127.0.0.1:{engine.get_rpc_port()}"
    here, there = ([one.address + 1000 * i for i in range(3)] for one in (a, b))
    assert engine.batch_transfer_sync_write(session, here, there, [100, 200, 100]) == 0
    for i, n in enumerate([100, 200, 100]):
        assert b.read(1000 * i, n) == a.read(1000 * i, n)
    print("done")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout == "done\n", ran.stderr
