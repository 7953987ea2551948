# SPDX-License-Identifier: MIT
"""hbmwire.nixl, called as vLLM, vLLM-Gaudi and LMCache call NIXL, between processes and nodes."""

from __future__ import annotations

import array
import asyncio
import base64
import os
import pathlib
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "stand_in")]

import hbmwire  # noqa: E402
from hbmwire import nixl  # noqa: E402
from hbmwire._nixl_lists import deserialize  # noqa: E402
from hbmwire._nixl_peers import unpack_metadata  # noqa: E402
from hpu_tensor import HpuTensor  # noqa: E402  (of stand_in)
from neighbours.caches import Caches, block_descriptors, descriptor_ids, pattern  # noqa: E402
from neighbours.process import PeerProcess  # noqa: E402

HEAD = b"hbmwire.nixl/1\n"
LOOPBACK: dict[str, Any] = {"listen_address": "127.0.0.1"}
# Seconds. A call that waits for a peer takes as long as the peer; other calls take far less.
AT_ONCE = 0.5
SOON = 30.0


def config(**options: Any) -> nixl.nixl_agent_config:
    return nixl.nixl_agent_config(
        num_threads=4, capture_telemetry=True, **{**LOOPBACK, **options}
    )


class Side:
    """An agent in this process and its caches, prepared in vLLM's order."""

    def __init__(self, kind: str, seed: int | None = None, name: str = "decode", **options: Any):
        self.caches = Caches(kind)
        if seed is None:
            self.caches.clear()
        else:
            self.caches.fill(seed)
        self.agent = nixl.nixl_agent(name, config(**options))
        self.descs = self.agent.get_reg_descs(self.caches.regions(), self.caches.mem_type)
        self.agent.register_memory(self.descs, backends=["UCX"])
        self.local = self.agent.prep_xfer_dlist(
            "NIXL_INIT_AGENT",
            self.agent.get_xfer_descs(self.caches.descriptors(), self.caches.mem_type),
        )

    def add(self, handshake: dict[str, Any], kind: str) -> tuple[str, Any]:
        """The peer's name and descriptors, from the contents of vLLM's handshake."""
        name = self.agent.add_remote_agent(base64.b64decode(handshake["agent_metadata"]))
        caches = self.caches
        blocks = block_descriptors(
            handshake["base_addresses"], caches.blocks, caches.block_bytes, 0
        )
        descs = self.agent.get_xfer_descs(blocks, "DRAM" if kind == "host" else "VRAM")
        return name, self.agent.prep_xfer_dlist(name, descs)

    def read(self, remote: Any, there: list[int], here: list[int], notif: bytes = b"") -> Any:
        caches = self.caches
        handle = self.agent.make_prepped_xfer(
            "READ",
            self.local,
            descriptor_ids(len(caches.layers), caches.blocks, here),
            remote,
            descriptor_ids(len(caches.layers), caches.blocks, there),
            notif_msg=notif,
        )
        self.agent.transfer(handle)
        return handle

    def has(self, seed: int, there: list[int], here: list[int]) -> bool:
        return all(
            self.caches.block(layer, mine) == pattern(seed, layer, its, self.caches.block_bytes)
            for layer in range(len(self.caches.layers))
            for its, mine in zip(there, here)
        )

    def close(self) -> None:
        self.agent.close()
        self.caches.close()


@pytest.fixture
def side() -> Iterator[Side]:
    made = Side("host")
    yield made
    made.close()


def finish(agent: nixl.nixl_agent, handle: Any, seconds: float = SOON) -> str:
    """Waits until a transfer has ended, and returns its state."""
    end = time.monotonic() + seconds
    while (state := agent.check_xfer_state(handle)) == "PROC":
        assert time.monotonic() < end, "the transfer is still PROC"
        time.sleep(0.001)
    return state


def wait_for_notifs(ask: Any, count: int) -> list[tuple[str, str]]:
    """Waits for so many notifications; returns them in order as pairs of agent and text."""
    found: list[tuple[str, str]] = []
    end = time.monotonic() + SOON
    while len(found) < count:
        assert time.monotonic() < end, f"{len(found)} of {count} notifications"
        found += [(agent, text) for agent, text in ask()]
        time.sleep(0.005)
    return found


def pairs(agent: nixl.nixl_agent) -> list[tuple[str, str]]:
    return [
        (name, message.decode())
        for name, messages in agent.get_new_notifs().items()
        for message in messages
    ]


# --- vLLM


@pytest.mark.parametrize(
    ("prefill", "decode"),
    [
        ("host", "host"),
        ("gaudi", "gaudi"),
        ("cuda", "cuda"),
        ("gaudi", "cuda"),  # a Gaudi prefills, a GPU decodes
        ("gaudi", "host"),
        ("host", "gaudi"),
    ],
)
@pytest.mark.parametrize("node", [None, "prefill"])
def test_vllm_pulls_blocks_and_tells_the_prefill_side(
    prefill: str, decode: str, node: str | None
) -> None:
    decoder = Side(decode)
    # Only one process can use a Gaudi. On its own node the peer has the first card.
    card = 1 if node is None and prefill == "gaudi" else 0
    with PeerProcess("nixl_peer", node, kind=prefill, card=card, seed=7) as peer:
        name, remote = decoder.add(peer.started, prefill)
        assert name == peer.started["name"]
        there, here = [1, 2, 3, 9], [4, 5, 0, 15]
        handle = decoder.read(remote, there, here, b"request-1:1")
        assert finish(decoder.agent, handle) == "DONE"
        assert decoder.has(7, there, here)
        telemetry = decoder.agent.get_xfer_telemetry(handle)
        assert telemetry.totalBytes == 3 * 4 * 4096
        assert telemetry.descCount == 3 * 4
        assert telemetry.xferDuration >= telemetry.postDuration >= 0
        assert abs(telemetry.startTime / 1e6 - time.time()) < 60
        decoder.agent.release_xfer_handle(handle)
        assert wait_for_notifs(lambda: peer.ask("notifs"), 1) == [("decode", "request-1:1")]
        # In the order of vLLM's shutdown.
        decoder.agent.release_dlist_handle(decoder.local)
        decoder.agent.release_dlist_handle(remote)
        decoder.agent.remove_remote_agent(name)
        decoder.agent.deregister_memory(decoder.descs)
    decoder.close()


def test_a_block_that_was_not_asked_for_stays_as_it_was(side: Side) -> None:
    with PeerProcess("nixl_peer", seed=3) as peer:
        _, remote = side.add(peer.started, "host")
        assert finish(side.agent, side.read(remote, [0], [5])) == "DONE"
    untouched = [block for block in range(side.caches.blocks) if block != 5]
    for layer in range(len(side.caches.layers)):
        assert all(side.caches.block(layer, block) == bytes(4096) for block in untouched)


def test_vllm_pushes_to_a_decode_side_that_registered(side: Side) -> None:
    with PeerProcess("nixl_peer", seed=5) as peer:
        # The decode side sends the target in a notification, and the prefill side writes there.
        name, _ = side.add(peer.started, "host")
        side.agent.send_notif(name, notif_msg=b"PUSH_REG" + b"x" * 20000)
        told = wait_for_notifs(lambda: peer.ask("notifs"), 1)
        assert told == [("decode", "PUSH_REG" + "x" * 20000)]
        metadata = base64.b64encode(side.agent.get_agent_metadata()).decode()
        assert peer.ask("add", metadata=metadata) == "decode"
        descs = side.agent.get_xfer_descs(side.caches.descriptors(), "DRAM")
        state = peer.ask(
            "push",
            agent="decode",
            descs=base64.b64encode(side.agent.get_serialized_descs(descs)).decode(),
            here=descriptor_ids(3, 16, [1, 2]),
            there=descriptor_ids(3, 16, [8, 3]),
            notif="request-2:1",
        )
        assert state == "DONE"
        # A notification reports that the bytes have arrived.
        assert wait_for_notifs(lambda: pairs(side.agent), 1) == [(name, "request-2:1")]
        assert side.has(5, [1, 2], [8, 3])


@pytest.mark.parametrize("kind", ["gaudi", "cuda"])
def test_a_notification_follows_bytes_pushed_into_a_card(kind: str) -> None:
    receiver = Side(kind)
    card = 1 if kind == "gaudi" else 0
    with PeerProcess("nixl_peer", kind=kind, card=card, seed=6) as peer:
        name, _ = receiver.add(peer.started, kind)
        peer.ask("add", metadata=base64.b64encode(receiver.agent.get_agent_metadata()).decode())
        descs = receiver.agent.get_xfer_descs(receiver.caches.descriptors(), "VRAM")
        data = base64.b64encode(receiver.agent.get_serialized_descs(descs)).decode()
        for block in range(8):
            ids = descriptor_ids(3, 16, [block])
            push = {"agent": "decode", "descs": data, "here": ids, "there": ids}
            assert peer.ask("push", notif=f"block {block}", **push) == "DONE"
            assert wait_for_notifs(lambda: pairs(receiver.agent), 1) == [(name, f"block {block}")]
            assert receiver.has(6, [block], [block])
    receiver.close()


def test_a_prefill_side_is_read_and_told_while_it_computes(
    side: Side, tmp_path: pathlib.Path
) -> None:
    with PeerProcess("nixl_peer", seed=4) as peer:
        _, remote = side.add(peer.started, "host")
        over = tmp_path / "over"
        busy = threading.Thread(target=lambda: peer.ask("quiet", until=str(over)))
        busy.start()
        # More notifications than a peer that makes no progress has places for.
        for request in range(200):
            handle = side.read(remote, [request % 16], [request % 16], f"{request}:1".encode())
            assert finish(side.agent, handle) == "DONE"
        over.touch()
        busy.join()
        told = wait_for_notifs(lambda: peer.ask("notifs"), 200)
    assert told == [("decode", f"{request}:1") for request in range(200)]


# --- LMCache


def lmcache_agent(kind: str, region: hbmwire.Region, page: int) -> tuple[Any, Any, Any]:
    """Agent, descriptors and handle, made like those of LMCache's NixlAgentWrapper."""
    agent = nixl.nixl_agent(f"lmcache {kind}", config(backends=["UCX"]))
    memory = [(region.address, region.nbytes, 3, "")]
    agent.register_memory(agent.get_reg_descs(memory, mem_type="cuda"))
    end = region.address + region.nbytes
    rows = [(address, page, 3) for address in range(region.address, end, page)]
    descs = agent.get_xfer_descs(rows, mem_type="cuda")
    return agent, descs, agent.prep_xfer_dlist("", descs, mem_type="cuda")


@pytest.mark.parametrize("kind", ["host", "cuda", "gaudi"])
def test_lmcache_writes_pages_and_polls(kind: str) -> None:
    page, pages = 8192, 12
    with hbmwire.Context() as context:
        from_region = context.allocate(kind, page * pages)  # type: ignore[arg-type]
        to_region = context.allocate(kind, page * pages)  # type: ignore[arg-type]
        data = os.urandom(page * pages)
        from_region.write(data)
        to_region.write(bytes(page * pages))
        sender, _, local = lmcache_agent("sender", from_region, page)
        receiver, descs, _ = lmcache_agent("receiver", to_region, page)
        # In two stages: first metadata, then descriptors.
        receiver.add_remote_agent(sender.get_agent_metadata())
        name = sender.add_remote_agent(receiver.get_agent_metadata())
        described = sender.deserialize_descs(receiver.get_serialized_descs(descs))
        assert described == descs
        remote = sender.prep_xfer_dlist(name, described)

        async def write(here: list[int], there: list[int]) -> str:
            handle = sender.make_prepped_xfer("WRITE", local, here, remote, there)
            sender.transfer(handle)
            while (status := str(sender.check_xfer_state(handle))) == "PROC":
                await asyncio.sleep(0.001)
            return status

        async def write_both() -> set[str]:
            return set(await asyncio.gather(write([0, 1, 2], [9, 10, 11]), write([5], [0])))

        assert asyncio.run(write_both()) == {"DONE"}
        there = to_region.read()
        assert there[9 * page :] == data[: 3 * page]
        assert there[:page] == data[5 * page : 6 * page]
        assert there[page : 9 * page] == bytes(8 * page)
        sender.close()
        receiver.close()


# --- arrays and lists of descriptors


def test_a_hundred_thousand_descriptors_come_as_an_array() -> None:
    count, length = 100_000, 64
    with hbmwire.Context() as context, nixl.nixl_agent("array", config()) as agent:
        source, target = (context.allocate("host", count * length) for _ in range(2))
        source.write(os.urandom(count * length))

        def rows(region: hbmwire.Region) -> Any:
            table = numpy.empty((count, 3), dtype=numpy.uint64)
            table[:, 0] = region.address + numpy.arange(count) * length
            table[:, 1] = length
            table[:, 2] = 0
            return table

        for region in (source, target):
            whole = numpy.array([[region.address, region.nbytes, 0]], dtype=numpy.uint64)
            agent.register_memory(agent.get_reg_descs(whole, "DRAM"))
        local = agent.prep_xfer_dlist("NIXL_INIT_AGENT", rows(source), "DRAM")
        remote = agent.prep_xfer_dlist("array", rows(target), "DRAM")
        order = numpy.random.default_rng(1).permutation(count).astype(numpy.int32)
        handle = agent.make_prepped_xfer(
            "WRITE", local, numpy.arange(count, dtype=numpy.int64), remote, order
        )
        agent.transfer(handle)
        assert finish(agent, handle) == "DONE"
        here = numpy.frombuffer(source.read(), numpy.uint8).reshape(count, length)
        there = numpy.frombuffer(target.read(), numpy.uint8).reshape(count, length)
        assert (there[order] == here).all()


def test_the_caller_may_change_its_arrays_at_once(side: Side) -> None:
    with PeerProcess("nixl_peer", seed=2) as peer:
        _, remote = side.add(peer.started, "host")
        numbers = numpy.array([3], dtype=numpy.int32)
        handle = side.agent.make_prepped_xfer("READ", side.local, numbers, remote, numbers)
        numbers[0] = 9
        side.agent.transfer(handle)
        assert finish(side.agent, handle) == "DONE"
        assert side.caches.block(0, 3) == pattern(2, 0, 3, 4096)
        assert side.caches.block(0, 9) == bytes(4096)


@pytest.mark.parametrize("most_slices", [1, 1024])
def test_descriptors_of_several_lengths_and_regions_go_in_one_transfer(
    most_slices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # For more areas than this, a table is made for each region from an array.
    monkeypatch.setattr("hbmwire._places._MOST_SLICES", most_slices)
    with hbmwire.Context() as context, nixl.nixl_agent("lengths", config()) as agent:
        regions = [context.allocate("host", 1 << 16) for _ in range(4)]
        for region in regions:
            region.write(os.urandom(region.nbytes))
        agent.register_memory([(one.address, one.nbytes, 0, "") for one in regions], "DRAM")
        lengths = [16, 512, 16, 4000, 512, 1, 16]
        here = [(regions[i % 2].address + 5000 * i, n, 0) for i, n in enumerate(lengths)]
        there = [(regions[3 - i % 2].address + 7000 * i, n, 0) for i, n in enumerate(lengths)]
        handle = agent.initialize_xfer(
            "WRITE",
            agent.get_xfer_descs(here, "DRAM"),
            agent.get_xfer_descs(there, "DRAM"),
            "lengths",
        )
        agent.transfer(handle)
        assert finish(agent, handle) == "DONE"
        for i, length in enumerate(lengths):
            sent = regions[i % 2].read(5000 * i, length)
            assert regions[3 - i % 2].read(7000 * i, length) == sent
        assert handle.nbytes == sum(lengths)


def test_without_numpy_lists_of_tuples_are_taken() -> None:
    program = """
import sys
sys.modules["numpy"] = None
import array, time
import hbmwire
from hbmwire import nixl
with hbmwire.Context() as context, nixl.nixl_agent(
    "plain", nixl.nixl_agent_config(listen_address="127.0.0.1")
) as agent:
    a, b = (context.allocate("host", 1 << 16) for _ in range(2))
    a.write(bytes(range(256)) * 256)
    agent.register_memory([(one.address, one.nbytes, 0, "") for one in (a, b)], "DRAM")
    lengths = [256, 512, 256]
    here = [(a.address + 1000 * i, n, 0) for i, n in enumerate(lengths)]
    there = [(b.address + 3000 * i, n, 0) for i, n in enumerate(lengths)]
    local = agent.prep_xfer_dlist("NIXL_INIT_AGENT", here, "DRAM")
    remote = agent.prep_xfer_dlist("plain", there, "DRAM")
    handle = agent.make_prepped_xfer("WRITE", local, [0, 1, 2], remote, array.array("I", [2, 1, 0]))
    state = agent.transfer(handle)
    while state == "PROC":
        time.sleep(0.001)
        state = agent.check_xfer_state(handle)
    assert state == "DONE", handle.error
    assert b.read(6000, 256) == a.read(0, 256)
    assert b.read(3000, 512) == a.read(1000, 512)
    assert b.read(0, 256) == a.read(2000, 256)
    try:
        agent.make_prepped_xfer("WRITE", local, [3], remote, [0])
    except hbmwire.InvalidArgument:
        print("done")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout == "done\n", ran.stderr


def test_a_gaudi_tensor_is_registered_by_its_address_on_the_card() -> None:
    with hbmwire.Context() as context, nixl.nixl_agent("hpu", config()) as agent:
        storage = context.allocate("gaudi", 8192)
        tensor: Any = HpuTensor(storage, (4, 512))
        descs = agent.register_memory(tensor)
        assert descs.getType() == "VRAM"
        assert list(descs) == [(storage.address, 8192, 0, b"")]
        assert agent.get_xfer_descs([tensor])[0] == (storage.address, 8192, 0)
        agent.deregister_memory(descs)


def test_lists_of_descriptors_read_as_nixls_do() -> None:
    descs = nixl.nixlXferDList("cuda", [(1, 2, 3), (4, 5, 6)])
    assert descs.getType() == nixl.VRAM_SEG
    assert descs.descCount() == len(descs) == 2
    assert descs[1] == (4, 5, 6) and descs[-1] == (4, 5, 6)
    assert list(descs) == [(1, 2, 3), (4, 5, 6)]
    descs.append((7, 8, 9))
    assert descs[2] == (7, 8, 9)
    assert descs != nixl.nixlRegDList("cuda", list(descs))
    with pytest.raises(IndexError):
        descs[3]
    descs.clear()
    assert descs.isEmpty()


@pytest.mark.parametrize(
    "descriptors",
    [
        [(1, 2)],
        [(1, 2, 3, "", 5)],
        [(-1, 2, 3)],
        [(1 << 64, 2, 3)],
        [("a", 2, 3)],
        numpy.zeros((2, 4), dtype=numpy.uint64),
        numpy.zeros((2, 3), dtype=numpy.uint32),
        numpy.zeros((2, 3), dtype=numpy.float64),
    ],
)
def test_descriptors_of_another_shape_are_refused(side: Side, descriptors: Any) -> None:
    with pytest.raises(hbmwire.InvalidArgument):
        side.agent.get_xfer_descs(descriptors, "DRAM")


def test_a_view_of_an_array_is_read_in_its_own_order(side: Side) -> None:
    table = numpy.arange(24, dtype=numpy.uint64).reshape(4, 6)[:, ::2]
    assert list(side.agent.get_xfer_descs(table, "DRAM")) == [tuple(map(int, row)) for row in table]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no list",
        b"hbmwire.descs/1\0" + bytes(13),
        b"hbmwire.descs/1\0FILE" + bytes(9),
        b"hbmwire.descs/1\0DRAM\0" + b"\1" * 8,
    ],
)
def test_bytes_that_are_no_list_of_descriptors_are_refused(side: Side, data: bytes) -> None:
    with pytest.raises(hbmwire.ProtocolError):
        side.agent.deserialize_descs(data)


def test_numbers_that_do_not_fit_are_refused(side: Side) -> None:
    remote = side.agent.prep_xfer_dlist("decode", side.caches.descriptors(), "DRAM")
    short = side.agent.prep_xfer_dlist("decode", [(side.caches.base_addresses[0], 8, 0)], "DRAM")
    for here, target, there in [
        ([48], remote, [0]),
        ([-1], remote, [0]),
        ([0], remote, [0, 1]),
        ([0.5], remote, [0]),
        ([[0]], remote, [0]),
        ([0], short, [0]),  # different lengths
    ]:
        with pytest.raises(hbmwire.InvalidArgument):
            side.agent.make_prepped_xfer("WRITE", side.local, here, target, there)
    with pytest.raises(hbmwire.InvalidArgument):
        side.agent.make_prepped_xfer("COPY", side.local, [0], remote, [0])
    with pytest.raises(hbmwire.InvalidArgument):
        side.agent.make_prepped_xfer("WRITE", remote, [0], side.local, [0])


def test_memory_that_is_not_registered_is_not_found(side: Side) -> None:
    address = side.caches.base_addresses[0]
    for row in [(address - 1, 4096, 0), (address, 1 << 40, 0), (address, 4096, 1)]:
        with pytest.raises(hbmwire.NotFound, match="register_memory"):
            side.agent.prep_xfer_dlist("NIXL_INIT_AGENT", [row], "DRAM")
    with pytest.raises(hbmwire.NotFound):
        side.agent.prep_xfer_dlist("NIXL_INIT_AGENT", [(address, 4096, 0)], "VRAM")
    with pytest.raises(hbmwire.InvalidArgument, match="no bytes"):
        side.agent.prep_xfer_dlist("NIXL_INIT_AGENT", [(address, 0, 0)], "DRAM")


# --- transfers and their handles


def test_a_transfer_is_posted_again_when_it_is_over(side: Side) -> None:
    with PeerProcess("nixl_peer", seed=8) as peer:
        _, remote = side.add(peer.started, "host")
        handle = side.read(remote, [1], [2], b"first")
        assert finish(side.agent, handle) == "DONE"
        side.caches.clear()
        side.agent.transfer(handle, notif_msg="second")
        assert finish(side.agent, handle) == "DONE"
        assert side.has(8, [1], [2])
        told = wait_for_notifs(lambda: peer.ask("notifs"), 2)
        assert [text for _, text in told] == ["first", "second"]


def test_a_transfer_of_nothing_is_done_and_told(side: Side) -> None:
    with PeerProcess("nixl_peer") as peer:
        _, remote = side.add(peer.started, "host")
        handle = side.agent.make_prepped_xfer("READ", side.local, [], remote, [], b"all cached")
        side.agent.transfer(handle)
        assert finish(side.agent, handle) == "DONE"
        assert wait_for_notifs(lambda: peer.ask("notifs"), 1) == [("decode", "all cached")]


def test_a_transfer_that_was_not_posted_has_no_state(side: Side) -> None:
    remote = side.agent.prep_xfer_dlist("decode", side.caches.descriptors(), "DRAM")
    handle = side.agent.make_prepped_xfer("READ", side.local, [0], remote, [1])
    with pytest.raises(hbmwire.InvalidArgument, match="not posted"):
        side.agent.check_xfer_state(handle)
    side.agent.release_xfer_handle(handle)
    with pytest.raises(hbmwire.InvalidArgument, match="released"):
        side.agent.transfer(handle)


def test_a_peer_does_not_reach_memory_that_was_deregistered(side: Side) -> None:
    with PeerProcess("nixl_peer", seed=9) as peer:
        _, remote = side.add(peer.started, "host")
        assert finish(side.agent, side.read(remote, [1], [1])) == "DONE"
        assert peer.ask("deregister") == "deregistered"
        handle = side.read(remote, [2], [2])
        assert finish(side.agent, handle) == "ERR"
        assert isinstance(handle.error, hbmwire.Error)
        assert side.caches.block(0, 2) == bytes(4096)


def test_a_list_of_memory_that_was_deregistered_is_refused(side: Side) -> None:
    remote = side.agent.prep_xfer_dlist("decode", side.caches.descriptors(), "DRAM")
    side.agent.deregister_memory(side.descs)
    with pytest.raises(hbmwire.InvalidArgument, match="deregistered"):
        side.agent.make_prepped_xfer("READ", side.local, [0], remote, [0])
    with pytest.raises(hbmwire.NotFound):
        side.agent.prep_xfer_dlist("decode", side.caches.descriptors(), "DRAM")
    with pytest.raises(hbmwire.NotFound):
        side.agent.deregister_memory(side.descs)


def test_memory_that_is_registered_later_comes_with_newer_metadata() -> None:
    with nixl.nixl_agent("one", config()) as one, nixl.nixl_agent("other", config()) as other:
        with hbmwire.Context() as context:
            memory = context.allocate("host", 4096)
            row = [(memory.address, 4096, 0)]
            name = one.add_remote_agent(other.get_agent_metadata())
            assert one.check_remote_metadata(name)
            described = one.get_xfer_descs(row, "DRAM")
            assert not one.check_remote_metadata(name, described)
            other.register_memory([(memory.address, 4096, 0, "")], "DRAM")
            assert one.add_remote_agent(other.get_agent_metadata()) == name
            assert one.check_remote_metadata(name, described)


def test_nothing_is_registered_if_one_of_several_memories_cannot_be(side: Side) -> None:
    with hbmwire.Context() as context:
        memory = context.allocate("host", 4096)
        rows = [(memory.address, 4096, 0, ""), (8, 4096, 0, "")]
        with pytest.raises(hbmwire.Error):
            side.agent.register_memory(rows, "DRAM")
        with pytest.raises(hbmwire.NotFound):
            side.agent.deregister_memory(nixl.nixlRegDList("DRAM", rows[:1]))


# --- notifications


def test_notifications_come_in_their_order_whatever_their_length(side: Side) -> None:
    with PeerProcess("nixl_peer") as peer:
        peer.ask("add", metadata=base64.b64encode(side.agent.get_agent_metadata()).decode())
        texts = [str(i) * (1 if i % 5 else 30000) for i in range(200)]
        peer.ask("say", agent="decode", messages=texts)
        told = wait_for_notifs(lambda: pairs(side.agent), len(texts))
    assert told == [(peer.started["name"], text) for text in texts]


def test_the_peer_is_told_of_a_read_that_the_program_polls_no_more(side: Side) -> None:
    with PeerProcess("nixl_peer", seed=1) as peer:
        _, remote = side.add(peer.started, "host")
        side.read(remote, [1], [1], b"read")
        assert wait_for_notifs(lambda: peer.ask("notifs"), 1) == [("decode", "read")]
        assert side.has(1, [1], [1])


def test_a_notification_that_is_too_long_is_refused() -> None:
    with nixl.nixl_agent("short", config(most_notification_bytes=10)) as agent:
        agent.add_remote_agent(agent.get_agent_metadata())
        with pytest.raises(hbmwire.InvalidArgument, match="are the most"):
            agent.send_notif("short", b"x" * 11)


def test_without_threads_the_programs_calls_make_progress() -> None:
    plain = nixl.nixl_agent_config(False, **LOOPBACK)
    with nixl.nixl_agent("one", plain) as one, nixl.nixl_agent("other", plain) as other:
        one.add_remote_agent(other.get_agent_metadata())
        texts = [f"{i}" * (1 if i % 3 else 20000) for i in range(9)]
        for text in texts:
            one.send_notif("other", text)
        told: list[tuple[str, str]] = []
        end = time.monotonic() + SOON
        while len(told) < len(texts) and time.monotonic() < end:
            assert one.get_new_notifs() == {}
            told += pairs(other)
            time.sleep(0.001)
        assert told == [("one", text) for text in texts]


# --- ends


def test_transfers_to_a_killed_peer_are_errors_soon_and_no_call_waits(side: Side) -> None:
    with PeerProcess("nixl_peer", seed=1) as peer, PeerProcess("nixl_peer", seed=2) as other:
        name, remote = side.add(peer.started, "host")
        _, alive = side.add(other.started, "host")
        assert finish(side.agent, side.read(remote, [1], [1])) == "DONE"
        peer.kill()
        begin = time.monotonic()
        handle = side.read(remote, [2], [2], b"never")
        assert time.monotonic() - begin < AT_ONCE
        # peer_timeout is 2 s, and a refused connection is an error at once.
        assert finish(side.agent, handle, 10) == "ERR"
        assert isinstance(handle.error, hbmwire.Error)
        side.agent.release_xfer_handle(handle)
        again = side.read(remote, [2], [2])
        assert finish(side.agent, again, 10) == "ERR"
        assert isinstance(again.error, hbmwire.PeerFailed)
        begin = time.monotonic()
        side.agent.send_notif(name, b"into the void")
        side.agent.remove_remote_agent(name)
        assert time.monotonic() - begin < AT_ONCE
        # Other agents are not affected.
        assert finish(side.agent, side.read(alive, [3], [3])) == "DONE"
        assert side.has(2, [3], [3])


def test_a_peer_that_is_killed_amid_transfers_ends_each_of_them(side: Side) -> None:
    with PeerProcess("nixl_peer", blocks=16, seed=1) as peer:
        _, remote = side.add(peer.started, "host")
        assert finish(side.agent, side.read(remote, [1], [1])) == "DONE"
        blocks = list(range(16))
        handles = [side.read(remote, blocks, blocks) for _ in range(20)]
        peer.kill()
        handles += [side.read(remote, blocks, blocks) for _ in range(20)]
        states = {finish(side.agent, handle, 15) for handle in handles}
        assert states <= {"DONE", "ERR"}
        assert finish(side.agent, handles[-1]) == "ERR"


def test_a_stopped_peer_is_an_error_at_the_deadline() -> None:
    # Over TCP, from another node, the peer's process must answer.
    side = Side("host", nics="none", transfer_timeout=1.0)
    with PeerProcess("nixl_peer", "other", seed=1, options={"nics": "none"}) as peer:
        _, remote = side.add(peer.started, "host")
        assert finish(side.agent, side.read(remote, [1], [1])) == "DONE"
        peer.stop()
        begin = time.monotonic()
        handle = side.read(remote, [2], [2], b"never")
        assert time.monotonic() - begin < AT_ONCE
        assert finish(side.agent, handle, 15) == "ERR"
        assert 0.9 < time.monotonic() - begin < 10
        assert isinstance(handle.error, hbmwire.TimedOut)
        peer.go_on()
        # A failed transfer sends no notification, and the next one connects again.
        assert finish(side.agent, side.read(remote, [3], [3], b"again")) == "DONE"
        assert wait_for_notifs(lambda: peer.ask("notifs"), 1) == [("decode", "again")]
    side.close()


def test_an_address_that_never_answers_is_an_error_at_the_deadline() -> None:
    side = Side("host", connect_timeout=0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        metadata = side.agent.get_agent_metadata()
        port = f"{silent.getsockname()[1]}".encode()
        here = side.agent._listener.port
        forged = metadata.replace(f"{here}".encode(), port).replace(b'"decode"', b'"silent"')
        assert side.agent.add_remote_agent(forged) == "silent"
        descs = side.caches.descriptors()
        remote = side.agent.prep_xfer_dlist("silent", descs, "DRAM")
        begin = time.monotonic()
        side.agent.make_connection("silent")
        handle = side.read(remote, [0], [1])
        side.agent.send_notif("silent", b"nothing")
        assert time.monotonic() - begin < AT_ONCE
        assert side.agent.check_xfer_state(handle) == "PROC"
        assert finish(side.agent, handle, 10) == "ERR"
        assert 0.4 < time.monotonic() - begin < 5
        assert isinstance(handle.error, hbmwire.TimedOut)
    side.close()


def test_another_process_at_the_address_is_not_taken_for_the_agent(side: Side) -> None:
    with PeerProcess("nixl_peer", seed=1, name="twice") as peer:
        old = peer.started
        port = int(base64.b64decode(old["agent_metadata"]).split(b"127.0.0.1:")[1].split(b'"')[0])
    _, remote = side.add(old, "host")
    with PeerProcess("nixl_peer", seed=2, name="twice", options={"port": port}) as newer:
        handle = side.read(remote, [1], [1])
        side.agent.send_notif("twice", b"for the old one alone")
        assert finish(side.agent, handle) == "ERR"
        assert isinstance(handle.error, hbmwire.PeerFailed)
        assert "another process" in str(handle.error)
        assert side.caches.block(0, 1) == bytes(4096)
        # With its new metadata it is found.
        _, remote = side.add(newer.started, "host")
        assert finish(side.agent, side.read(remote, [1], [1], b"for the new one")) == "DONE"
        assert side.has(2, [1], [1])
        told = wait_for_notifs(lambda: newer.ask("notifs"), 1)
        assert told == [("decode", "for the new one")]


def test_a_handle_that_is_released_under_way_waits_for_nothing(side: Side) -> None:
    with PeerProcess("nixl_peer", seed=1) as peer:
        _, remote = side.add(peer.started, "host")
        blocks = list(range(16))
        handles = [side.read(remote, blocks, blocks) for _ in range(20)]
        begin = time.monotonic()
        for handle in handles:
            side.agent.release_xfer_handle(handle)
            side.agent.release_xfer_handle(handle)
        assert time.monotonic() - begin < AT_ONCE
        # They continued, with the same connection.
        assert finish(side.agent, side.read(remote, [5], [5])) == "DONE"
        assert side.has(1, [5], [5])


def test_a_release_that_cancels_ends_the_connection_and_the_next_transfer_connects_again() -> None:
    side = Side("host", cancel_on_release=True, nics="none")
    with PeerProcess("nixl_peer", "other", seed=1, options={"nics": "none"}) as peer:
        _, remote = side.add(peer.started, "host")
        assert finish(side.agent, side.read(remote, [1], [1])) == "DONE"
        peer.stop()
        stuck = side.read(remote, [2], [2])
        other = side.read(remote, [3], [3])
        begin = time.monotonic()
        side.agent.release_xfer_handle(stuck)
        assert time.monotonic() - begin < AT_ONCE
        assert finish(side.agent, other, 15) == "ERR"
        peer.go_on()
        assert finish(side.agent, side.read(remote, [4], [4])) == "DONE"
        assert side.has(1, [4], [4])
    side.close()


def test_an_agent_that_is_dropped_ends() -> None:
    before = set(threading.enumerate())
    agent = nixl.nixl_agent("dropped", config())
    port = agent._listener.port
    socket.create_connection(("127.0.0.1", port)).close()
    del agent
    assert set(threading.enumerate()) == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_an_interpreter_ends_with_agents_and_transfers_under_way() -> None:
    program = """
import hbmwire
from hbmwire import nixl
context = hbmwire.Context()
memory = context.allocate("host", 1 << 20)
agent = nixl.nixl_agent("ends", nixl.nixl_agent_config(listen_address="127.0.0.1"))
agent.register_memory([(memory.address, memory.nbytes, 0, "")], "DRAM")
row = [(memory.address, 1 << 19, 0)]
local, remote = (agent.prep_xfer_dlist(name, row, "DRAM") for name in ("", "ends"))
handles = [agent.make_prepped_xfer("READ", local, [0], remote, [0], b"x") for _ in range(50)]
for handle in handles:
    agent.transfer(handle)
print("end")
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stdout) == (0, "end\n"), ran.stderr
    # Error and error.
    assert "Traceback" not in ran.stderr and "rror" not in ran.stderr


# --- promises of hbmwire


@pytest.mark.parametrize("kind", ["cuda", "gaudi"])
def test_options_name_the_card_of_a_device_number(kind: str) -> None:
    with hbmwire.Context() as context:
        memory = context.allocate(kind, 4096)  # type: ignore[arg-type]
        row = [(memory.address, 4096, 3, "")]
        for device, registered in ((memory.device.pci_address, True), ("9", False)):
            with nixl.nixl_agent("cards", config(devices={3: device})) as agent:
                if registered:
                    agent.register_memory(row, "VRAM")
                else:
                    with pytest.raises(hbmwire.NotFound):
                        agent.register_memory(row, "VRAM")


def test_memory_goes_by_allowed_paths_alone() -> None:
    with hbmwire.Context() as context, nixl.nixl_agent("host", config(allow=["host"])) as agent:
        card = context.allocate("gaudi", 4096)
        with pytest.raises(hbmwire.PermissionDenied):
            agent.register_memory([(card.address, 4096, 0, "")], "VRAM")


def test_the_path_of_a_transfer_can_be_asked_for() -> None:
    side = Side("gaudi", require="zero_copy")
    with PeerProcess("nixl_peer", "other", kind="gaudi", seed=1) as peer:
        _, remote = side.add(peer.started, "gaudi")
        handle = side.read(remote, [1], [1])
        assert finish(side.agent, handle) == "DONE"
        assert {transfer.path for transfer in handle.transfers} == {"zero_copy"}
    side.close()


def test_agents_with_other_secrets_do_not_connect() -> None:
    with nixl.nixl_agent("one", config(pre_shared_key=b"a secret of 16 b")) as one:
        with nixl.nixl_agent("other", config(pre_shared_key=b"another of 16 by")) as other:
            one.add_remote_agent(other.get_agent_metadata())
            with hbmwire.Context() as context:
                memory = context.allocate("host", 4096)
                for agent in (one, other):
                    agent.register_memory([(memory.address, 4096, 0, "")], "DRAM")
                one.add_remote_agent(other.get_agent_metadata())
                row = one.get_xfer_descs([(memory.address, 64, 0)], "DRAM")
                handle = one.initialize_xfer("READ", row, row, "other")
                one.transfer(handle)
                assert finish(one, handle) == "ERR"
                assert isinstance(handle.error, hbmwire.PermissionDenied)


# --- names, configuration, foreign bytes


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"nixl",
        HEAD,
        HEAD + b"{}",
        HEAD + b"[]",
        HEAD + b"[" * 100000,
        HEAD + b'{"name":"","instance":"","addresses":[],"memory":[]}',
        HEAD + b'{"name":"a","instance":"b","addresses":["c"],"memory":[["DRAM",0,"AAAA"]]}',
        HEAD + b'{"name":"a","instance":"b","addresses":["c"],"memory":[["FILE",0,""]]}',
        HEAD + b'{"name":"a","instance":"b","addresses":["c"],"memory":[[]]}',
        HEAD + b'{"name":"a","instance":"b","addresses":7,"memory":[]}',
        HEAD + b'{"name":"\\ud800","instance":"b","addresses":["c"],"memory":[]}',
        HEAD + b'{"name":"' + b"a" * 600 + b'","instance":"","addresses":["c"],"memory":[]}',
    ],
)
def test_bytes_that_are_no_metadata_are_refused(side: Side, metadata: bytes) -> None:
    with pytest.raises(hbmwire.Error):
        side.agent.add_remote_agent(metadata)


def test_damaged_foreign_bytes_raise_only_errors_of_hbmwire(side: Side) -> None:
    chance = random.Random(1)
    descs = side.agent.get_xfer_descs(side.caches.descriptors(), "DRAM")
    whole = {
        unpack_metadata: side.agent.get_agent_metadata(),
        deserialize: side.agent.get_serialized_descs(descs),
    }
    refused = 0
    for read, data in whole.items():
        for _ in range(2000):
            damaged = bytearray(data)
            for _ in range(chance.randint(1, 4)):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            try:
                read(bytes(damaged[: chance.choice([len(data), chance.randrange(len(data))])]))
            except hbmwire.Error:
                refused += 1
    assert refused > 2000


def test_an_invalid_address_is_an_error(side: Side) -> None:
    metadata = side.agent.get_agent_metadata().replace(b"127.0.0.1:", b"no address at all ")
    side.agent.add_remote_agent(metadata.replace(b'"decode"', b'"lost"'))
    remote = side.agent.prep_xfer_dlist("lost", side.caches.descriptors(), "DRAM")
    handle = side.read(remote, [0], [1])
    assert finish(side.agent, handle) == "ERR"
    assert isinstance(handle.error, hbmwire.Error)


def test_agents_that_were_not_added_are_not_found(side: Side) -> None:
    calls: list[Callable[[], object]] = [
        lambda: side.agent.remove_remote_agent("none"),
        lambda: side.agent.send_notif("none", b"x"),
        lambda: side.agent.make_connection("none"),
        lambda: side.agent.prep_xfer_dlist("none", [(1, 1, 0)], "DRAM"),
    ]
    for call in calls:
        with pytest.raises(hbmwire.NotFound):
            call()
    assert not side.agent.check_remote_metadata("none")


def test_names_may_be_bytes_as_nixls_own_binding_gives_them(side: Side) -> None:
    name = side.agent.add_remote_agent(side.agent.get_agent_metadata()).encode()
    assert side.agent.check_remote_metadata(name)
    side.agent.send_notif(name, b"to myself")
    assert wait_for_notifs(lambda: pairs(side.agent), 1) == [("decode", "to myself")]
    side.agent.remove_remote_agent(name)


def test_backends_that_move_files_are_refused(side: Side) -> None:
    for backend in ("GDS", "POSIX", "OBJ", "unheard of"):
        with pytest.raises(hbmwire.NotSupported):
            side.agent.create_backend(backend)
    side.agent.create_backend("LIBFABRIC", {})
    assert side.agent.get_backend_mem_types("LIBFABRIC") == ["DRAM", "VRAM"]
    assert "UCX" in side.agent.get_plugin_list()


def test_nixls_metadata_service_is_refused() -> None:
    with pytest.raises(hbmwire.NotSupported, match="get_agent_metadata"):
        nixl.nixl_agent_config(enable_listen_thread=True)


def test_options_come_from_defaults_that_a_program_may_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nixl.defaults, "transfer_timeout", 3.5)
    monkeypatch.setattr(nixl.defaults, "listen_address", "127.0.0.1")
    with nixl.nixl_agent("defaults") as agent:
        assert agent.options.transfer_timeout == 3.5
        assert "port" in repr(agent)
    assert repr(agent) == "<nixl_agent defaults, closed>"
    assert nixl.nixl_agent_config(transfer_timeout=1).options.transfer_timeout == 1
    with pytest.raises(TypeError):
        nixl.nixl_agent_config(transfer_time=1)


def test_telemetry_is_refused_where_it_was_not_asked_for() -> None:
    with nixl.nixl_agent("plain", nixl.nixl_agent_config(**LOOPBACK)) as agent:
        with hbmwire.Context() as context:
            memory = context.allocate("host", 4096)
            agent.register_memory([(memory.address, 4096, 0, "")], "DRAM")
            row = agent.get_xfer_descs([(memory.address, 64, 0)], "DRAM")
            handle = agent.initialize_xfer("READ", row, row, "plain")
            agent.transfer(handle)
            assert finish(agent, handle) == "DONE"
            with pytest.raises(hbmwire.NotSupported, match="capture_telemetry"):
                agent.get_xfer_telemetry(handle)


def test_programs_that_import_nixl_by_its_name_find_the_module() -> None:
    program = """
from hbmwire import nixl as ours
ours.stand_in_for("nixl")
ours.stand_in_for("rixl")
from nixl._api import nixl_agent as NixlWrapper, nixl_agent_config
from nixl._bindings import nixlXferTelemetry, nixlNotFoundError, nixlRemoteDisconnectError
from rixl._api import nixl_agent as other
import importlib.util
import nixl
assert importlib.util.find_spec("nixl") is not None
assert NixlWrapper is other is ours.nixl_agent is nixl.nixl_agent
try:
    ours.stand_in_for("nixl")
except BlockingIOError:
    raise
except Exception as error:
    print(type(error).__name__)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout == "Busy\n", ran.stderr


def test_the_connector_of_the_manual_takes_nixls_place(tmp_path: pathlib.Path) -> None:
    manual = (HERE.parents[1] / "docs" / "python-neighbours.md").read_text()
    connector = manual.split("```text\n", 1)[1].split("```", 1)[0]
    (tmp_path / "hbmwire_connector.py").write_text(connector)
    # Imitates vLLM's own connector, as far as it imports NIXL.
    package = tmp_path / "vllm" / "distributed" / "kv_transfer" / "kv_connector" / "v1" / "nixl"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "from nixl._api import nixl_agent, nixl_agent_config\n"
        "from nixl._bindings import nixlXferTelemetry\n"
        "class NixlConnector:\n"
        "    agent = nixl_agent\n"
    )
    program = (
        "import hbmwire.nixl, hbmwire_connector as ours\n"
        "assert ours.HbmwireConnector.agent is hbmwire.nixl.nixl_agent\n"
        "print(hbmwire.nixl.nixl_agent_config().options.require)\n"
    )
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )
    assert ran.stdout == "zero_copy\n", ran.stderr


def test_peers_that_are_no_agents_are_sent_away(side: Side) -> None:
    with hbmwire.Context() as context:
        address = f"127.0.0.1:{side.agent._listener.port}"
        stranger = context.connect(address, timeout=10, hello=b"a stranger")
        stranger.wait_closed(timeout=10)
        assert stranger.phase in ("closed", "failed")
    assert side.agent.get_new_notifs() == {}


def test_many_threads_use_one_agent(side: Side) -> None:
    with PeerProcess("nixl_peer", seed=1) as peer:
        _, remote = side.add(peer.started, "host")
        failures: list[object] = []

        def read(block: int) -> None:
            try:
                for _ in range(20):
                    handle = side.read(remote, [block], [block], f"{block}".encode())
                    if finish(side.agent, handle) != "DONE":
                        failures.append(handle.error)
                    side.agent.release_xfer_handle(handle)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=read, args=(block,)) for block in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        told = wait_for_notifs(lambda: peer.ask("notifs"), 160)
    assert side.has(1, list(range(8)), list(range(8)))
    assert sorted(told) == sorted(("decode", f"{block}") for block in range(8) for _ in range(20))


def test_arrays_of_numbers_need_no_numpy(side: Side) -> None:
    remote = side.agent.prep_xfer_dlist("decode", side.caches.descriptors(), "DRAM")
    numbers = array.array("I", [1, 2])
    handle = side.agent.make_prepped_xfer("READ", side.local, numbers, remote, numbers)
    side.agent.transfer(handle)
    assert finish(side.agent, handle) == "DONE"
