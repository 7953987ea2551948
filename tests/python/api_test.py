# SPDX-License-Identifier: MIT
"""Tests every class, call, property and exception of the package, and the messages for wrong
arguments.

A test calls uses() with the members that it covers. The last tests compare these names with the
stub, so that a member without a test fails.
"""

from __future__ import annotations

import ast
import asyncio
import copy
import inspect
import math
import os
import pathlib
import pickle
import re
import select
import threading
import time
from array import array
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from conftest import Pair, Peer

import hbmwire
from hbmwire import errors

Test = TypeVar("Test", bound=Callable[..., object])

# For calls that mypy would rightly reject.
untyped: Any = hbmwire

KINDS = ("host", "cuda", "rocm")

# Members that tests cover: "Class.member" or "function".
used: set[str] = set()


def uses(*names: str) -> Callable[[Test], Test]:
    """Declares the members that a test covers; the test's source must name each of them."""

    def mark(test: Test) -> Test:
        source = inspect.getsource(test)
        for name in names:
            member = name.rpartition(".")[2]
            if not (member.startswith("__") and member.endswith("__")):
                assert re.search(
                    rf"\b{member}\b", source.split("def ", 1)[1]
                ), f"{test} has no {name}"
        used.update(names)
        return test

    return mark


@pytest.fixture
def far(context: hbmwire.Context) -> Any:
    """A pair that hands out its messages at both ends."""
    pair = Pair(context, messages="handed_out")
    yield pair
    pair.close()


# --- the process and its devices


@uses("__version__", "protocol_versions")
def test_versions_are_told() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", hbmwire.__version__)
    versions = hbmwire.protocol_versions()
    assert set(versions) == {"endpoint", "memory_key", "attach"}
    assert all(isinstance(version, int) and version > 0 for version in versions.values())


@uses(
    "settings",
    "Setting.name",
    "Setting.choices",
    "Setting.help",
    "Setting.default",
    "Setting.value",
    "Setting.source",
)
def test_settings_are_told_with_their_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HBMWIRE_LOG_LEVEL", "error")
    all_settings = {setting.name: setting for setting in hbmwire.settings()}
    level = all_settings["HBMWIRE_LOG_LEVEL"]
    assert (level.value, level.source, level.default) == ("error", "environment", "warn")
    assert "debug" in level.choices and level.help
    assert repr(level) == "<hbmwire.Setting HBMWIRE_LOG_LEVEL=error>"


@uses(
    "counters",
    "Context.counters",
    "Worker.counters",
    "Endpoint.counters",
    "Counters.transfers",
    "Counters.failures",
    "Counters.times",
    "Counters.started",
    "Counters.under_way",
    "Counters.queued",
    "Counters.credit_waits",
    "Counters.retries",
    "Counters.endpoints",
    "Counters.endpoints_failed",
    "Counters.registrations",
    "TransferCounters.kind",
    "TransferCounters.path",
    "TransferCounters.local",
    "TransferCounters.remote",
    "TransferCounters.nic",
    "TransferCounters.peer",
    "TransferCounters.operations",
    "TransferCounters.nbytes",
    "FailureCounters.code",
    "FailureCounters.nic",
    "FailureCounters.peer",
    "FailureCounters.operations",
    "TimesHistogram.kind",
    "TimesHistogram.path",
    "TimesHistogram.local",
    "TimesHistogram.remote",
    "TimesHistogram.count",
    "TimesHistogram.sum",
    "TimesHistogram.buckets",
    "RegistrationCounters.hits",
    "RegistrationCounters.misses",
    "RegistrationCounters.evictions",
    "RegistrationCounters.registrations",
    "RegistrationCounters.live",
    "RegistrationCounters.live_bytes",
)
def test_counters_agree_with_the_operations(pair: Pair) -> None:
    ours, theirs = pair.context.register(bytearray(4096)), pair.context.allocate("gaudi", 4096)
    remote = pair.here.remote(bytes(theirs.pack_key()))
    for _ in range(130):  # the library measures one put in 64
        pair.here.put(ours, remote).wait(5)
    receive = pair.here.receive(ours)
    assert pair.here.counters().under_way == 1
    with pytest.raises(hbmwire.Cancelled):
        receive.cancel()
        receive.poll()
    counters = pair.here.counters()
    (puts,) = counters.transfers
    assert (puts.kind, puts.local, puts.remote) == ("put", "host", "gaudi")
    assert (puts.operations, puts.nbytes) == (130, 130 * 4096)
    assert puts.nic == pair.here.nic and puts.peer == pair.here.peer and puts.path
    (failure,) = counters.failures
    assert (failure.code, failure.operations) == ("cancelled", 1)
    assert (failure.nic, failure.peer) == (puts.nic, puts.peer)
    assert (counters.started, counters.under_way, counters.endpoints) == (131, 0, 1)
    assert (counters.queued, counters.credit_waits, counters.retries) == (0, 0, 0)
    assert counters.endpoints_failed == 0
    worker = pair.here.worker.counters()
    (times,) = (each for each in worker.times if each.kind == "put")
    assert (times.path, times.local, times.remote) == (puts.path, "host", "gaudi")
    assert times.count == sum(transfers for _, transfers in times.buckets) >= 2
    assert 0 < times.sum <= times.count * times.buckets[-1][0]
    of_context = pair.context.counters().transfers
    assert sum(each.nbytes for each in of_context if each.kind == "put") >= 130 * 4096
    registrations = hbmwire.counters().registrations
    assert registrations.live >= 1 and registrations.live_bytes >= 4096
    assert registrations.registrations >= registrations.live
    assert registrations.hits >= 0 and registrations.misses >= 0 and registrations.evictions == 0
    assert repr(counters) == "<hbmwire.Counters 131 transfers, 0 under way>"


@uses("set_log_level")
def test_the_log_is_as_loud_as_it_is_told_to_be(capfd: pytest.CaptureFixture[str]) -> None:
    try:
        for level, is_silent in (("off", True), ("debug", False), ("error", True)):
            hbmwire.set_log_level(level)  # type: ignore[arg-type]
            hbmwire.Context().allocate("gaudi", 4096)
            assert (capfd.readouterr().err == "") is is_silent
    finally:
        hbmwire.set_log_level("error")


@uses(
    "Context.memory",
    "MemoryProbe.type",
    "MemoryProbe.library",
    "MemoryProbe.devices",
    "MemoryProbe.missing",
    "Device.type",
    "Device.name",
    "Device.pci_address",
    "Device.driven_by",
    "Device.nbytes",
    "Device.page_bytes",
    "Device.numa_node",
    "Device.status",
)
def test_the_memory_of_a_machine_is_told(context: hbmwire.Context) -> None:
    probes = {probe.type: probe for probe in context.memory}
    assert set(probes) == {"host", "gaudi", "cuda", "rocm", "dmabuf"}
    gaudi = probes["gaudi"]
    assert gaudi.library and gaudi.missing == ""
    (card,) = gaudi.devices
    assert card.type == "gaudi" and card.name.startswith("gaudi")
    assert re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]", card.pci_address)
    assert card.nbytes > 1 << 30 and card.page_bytes > 0 and card.numa_node >= -1
    assert isinstance(card.driven_by, str) and isinstance(card.status, str)
    assert repr(card) == f"<hbmwire.Device {card.name}>"
    assert repr(gaudi) == "<hbmwire.MemoryProbe gaudi, 1 devices>"


def test_missing_memory_has_a_reason(context: hbmwire.Context) -> None:
    with hbmwire.Context(memory=["host", "gaudi"]) as smaller:
        assert [probe.type for probe in smaller.memory if probe.devices] == ["host", "gaudi"]
        assert all(probe.missing for probe in smaller.memory if not probe.devices)


@uses(
    "Context.nics",
    "NicDevice.name",
    "NicDevice.pci_address",
    "NicDevice.firmware",
    "NicDevice.numa_node",
    "NicDevice.scale_up",
    "NicDevice.imports_dmabufs",
    "NicDevice.ports",
    "NicDevice.refusal",
    "NicPort.port",
    "NicPort.state",
    "NicPort.gid",
    "NicPort.gid_type",
    "NicPort.mtu_bytes",
    "NicPort.bits_per_second",
    "NicPort.refusal",
    "Context.nics_near",
)
def test_the_nics_of_a_machine_are_told(context: hbmwire.Context) -> None:
    (nic,) = context.nics()
    assert nic.name == "emu0" and nic.refusal == "" and nic.scale_up is False
    assert nic.imports_dmabufs in (True, None) and nic.firmware and nic.numa_node >= -1
    assert isinstance(nic.pci_address, str)
    (port,) = nic.ports
    assert (port.port, port.state, port.refusal) == (1, "active", "")
    assert (
        port.gid
        and port.gid_type == "RoCE v2"
        and port.mtu_bytes >= 256
        and port.bits_per_second > 0
    )
    assert repr(nic) == "<hbmwire.NicDevice emu0>" and repr(port) == "<hbmwire.NicPort 1, active>"
    card = next(probe for probe in context.memory if probe.type == "gaudi").devices[0]
    assert context.nics_near(card.pci_address) == ["emu0"]


@uses(
    "Context.find",
    "AddressInfo.device",
    "AddressInfo.base_address",
    "AddressInfo.nbytes",
    "AddressInfo.path",
)
def test_an_address_is_found(context: hbmwire.Context) -> None:
    region = context.allocate("cuda", 4096)
    found = context.find(region.address + 64, 8)
    assert (
        found.device.type == "cuda"
        and found.base_address <= region.address
        and found.nbytes >= 4096
    )
    assert found.path == "zero_copy"
    assert "cuda" in repr(found).lower() or found.device.name in repr(found)
    assert context.find(1).device.type == "host"


# --- contexts


@uses(
    "Context.__init__", "Context.__enter__", "Context.__exit__", "Context.close", "Context.closed"
)
def test_a_context_is_closed_at_its_end() -> None:
    with hbmwire.Context(
        nics="emu0", memory=["host"], allow=("host", "zero_copy"), gid_index=None
    ) as context:
        assert not context.closed and repr(context) == "<hbmwire.Context>"
    assert context.closed and repr(context) == "<hbmwire.Context closed>"
    context.close()
    for call in (
        context.nics,
        lambda: context.memory,
        lambda: context.allocate("host", 8),
        lambda: context.worker,
        lambda: context.register(b"x"),
        context.listen,
        lambda: context.connect("127.0.0.1:1"),
    ):
        with pytest.raises(hbmwire.InvalidArgument, match="the context is closed"):
            call()


@uses("Context.__aenter__", "Context.__aexit__", "Endpoint.__aenter__", "Endpoint.__aexit__")
def test_asynchronous_context_managers_close(peer: Peer) -> None:
    async def main() -> None:
        async with hbmwire.Context() as context:
            async with await context.aconnect(peer.address) as endpoint:
                assert endpoint.phase == "ready"
            assert endpoint.closed
        assert context.closed

    asyncio.run(main())


@uses(
    "Context.worker",
    "Context.create_worker",
    "Worker.__enter__",
    "Worker.__exit__",
    "Worker.close",
    "Worker.closed",
)
def test_a_context_has_workers(context: hbmwire.Context) -> None:
    assert context.worker is context.worker
    with context.create_worker(
        max_transfers=10,
        progress_thread=True,
        eager_bytes=4096,
        receive_pool_bytes=1 << 20,
        unexpected_bytes=1 << 20,
        times=True,
    ) as worker:
        assert not worker.closed and worker is not context.worker
        assert repr(worker) == "<hbmwire.Worker 0 transfers are followed>"
    assert worker.closed and repr(worker) == "<hbmwire.Worker closed>"
    worker.close()
    with pytest.raises(hbmwire.InvalidArgument, match="the worker is closed"):
        worker.listen()


def test_a_policy_is_kept_with_its_reason() -> None:
    with hbmwire.Context(require="zero_copy") as context:
        assert context.allocate("gaudi", 4096).path == "zero_copy"
    with hbmwire.Context(allow=["host"]) as context:
        with pytest.raises(hbmwire.Error) as raised:
            context.allocate("gaudi", 4096)
        assert raised.value.code in ("permission_denied", "not_supported")
    with hbmwire.Context(nics="none") as context:
        assert context.allocate("host", 8).path in ("host", "tcp", "staged")


# --- regions


@uses(
    "Context.register",
    "Region.owner",
    "Region.address",
    "Region.nbytes",
    "Region.__len__",
    "Region.type",
    "Region.path",
    "Region.access",
    "Region.device",
    "Region.dmabuf_fd",
    "Region.explain",
    "Region.closed",
    "Region.close",
)
def test_registered_memory_reports_its_properties(context: hbmwire.Context) -> None:
    memory = bytearray(b"text" * 16)
    region = context.register(memory)
    assert (region.nbytes, len(region), region.type, region.path) == (64, 64, "host", "host")
    assert region.address > 0 and region.dmabuf_fd == -1 and region.device.type == "host"
    assert region.access == {"local_write", "remote_write", "remote_read"}
    assert region.owner is not None and "taken" in region.explain()
    assert repr(region) == f"<hbmwire.Region host 64 bytes at {region.address:#x}, host>"
    assert not region.closed
    region.close()
    assert region.closed and repr(region) == "<hbmwire.Region closed>"
    for call in (lambda: region.nbytes, lambda: region[0:1], region.read, lambda: len(region)):
        with pytest.raises(hbmwire.InvalidArgument, match="the region is closed"):
            call()


@uses(
    "Context.allocate",
    "Region.write",
    "Region.read",
    "Region.read_into",
    "Region.__enter__",
    "Region.__exit__",
)
@pytest.mark.parametrize("type", ["host", "gaudi", "cuda", "rocm"])
def test_allocated_memory_is_written_and_read(context: hbmwire.Context, type: Any) -> None:
    with context.allocate(type, 4096, access=("remote_read", "local_write")) as region:
        assert region.type == type and region.access == {"remote_read", "local_write"}
        region.write(b"some text", 100, timeout=10)
        region.write(memoryview(b"xx"))
        assert region.read(100, 9, timeout=10) == b"some text"
        assert len(region.read()) == 4096 and region.read(4094) == bytes(2)
        into = bytearray(9)
        region.read_into(into, 100, timeout=10)
        assert into == b"some text"
        calls: list[Callable[[], object]] = [
            lambda: region.write(b"xx", 4095),
            lambda: region.read(4095, 2),
            lambda: region.read(4097),
            lambda: region.read_into(bytearray(2), 4095),
        ]
        for call in calls:
            with pytest.raises(hbmwire.InvalidArgument):
                call()
        with pytest.raises((BufferError, TypeError)):
            region.read_into(b"read-only")  # type: ignore[arg-type]
    assert region.closed


def test_options_of_allocated_memory_are_taken(context: hbmwire.Context) -> None:
    card = next(probe for probe in context.memory if probe.type == "gaudi").devices[0]
    assert (
        context.allocate("gaudi", 4096, device=card.pci_address).device.pci_address
        == card.pci_address
    )
    assert context.allocate("host", 4096, shared=True, pages="normal", numa_node=-1).nbytes == 4096
    assert context.allocate("gaudi", 4096, owner="automatic", device="0").type == "gaudi"


@uses(
    "Region.__getitem__",
    "Slice.__getitem__",
    "Slice.__len__",
    "Slice.offset",
    "Slice.nbytes",
    "Slice.region",
)
def test_slices_are_as_pythons(context: hbmwire.Context) -> None:
    data = bytes(range(100))
    region = context.register(data)
    for part in (
        slice(None),
        slice(10, 20),
        slice(-10, None),
        slice(90, 200),
        slice(50, 10),
        slice(None, -90),
    ):
        start, stop, _ = part.indices(100)
        piece = region[part]
        assert (piece.nbytes, len(piece)) == (max(0, stop - start),) * 2
        assert piece.offset == start
        inner = piece[1:3]
        assert inner.offset == piece.offset + min(1, len(piece)) and len(inner) == len(
            data[part][1:3]
        )
    assert region[5:].region.address == region.address
    assert repr(region[5:9]) == "<hbmwire.Slice 4 bytes from 5 on>"
    with pytest.raises(ValueError, match="only slices of step 1"):
        region[0:10:2]
    for wrong in (0, "a", (1, 2), None):
        with pytest.raises(TypeError, match=r"sliced by bytes: region\[0:4096\]"):
            region[wrong]  # type: ignore[index]


@uses("Slice.write", "Slice.read", "Slice.read_into", "Slice.__bytes__")
@pytest.mark.parametrize("type", ["host", "gaudi"])
def test_slices_are_written_and_read(context: hbmwire.Context, type: Any) -> None:
    region = context.allocate(type, 4096)
    region.write(bytes(4096))
    part = region[100:200]
    part.write(b"a part", 10, timeout=10)
    assert region.read(110, 6) == part.read(10, 6, timeout=10) == bytes(part)[10:16] == b"a part"
    assert part.read(94) == bytes(6) and len(part.read()) == 100
    into = bytearray(6)
    part.read_into(into, 10, timeout=10)
    assert into == b"a part"
    calls: list[Callable[[], object]] = [
        lambda: part.write(b"xx", 99),
        lambda: part.read(99, 2),
        lambda: part.read(101),
        lambda: part.read_into(bytearray(2), 99),
    ]
    for call in calls:
        with pytest.raises(hbmwire.InvalidArgument):
            call()
    assert region.read(200, 8) == bytes(8)


@uses("Region.__dlpack__", "Region.__dlpack_device__", "Region.__cuda_array_interface__")
def test_regions_export_themselves(context: hbmwire.Context) -> None:
    host, cuda, rocm = (untyped.Context.allocate(context, type, 4096) for type in KINDS)
    # DLPack's numbers: 1 is the CPU, 2 CUDA, 10 ROCm.
    assert host.__dlpack_device__() == (1, 0)
    assert cuda.__dlpack_device__()[0] == 2 and rocm.__dlpack_device__()[0] == 10
    assert "dltensor" in repr(host.__dlpack__())
    assert "dltensor_versioned" in repr(cuda.__dlpack__(max_version=(1, 0)))
    interface = cuda.__cuda_array_interface__
    assert interface["data"] == (cuda.address, False) and interface["shape"] == (4096,)
    assert not hasattr(host, "__cuda_array_interface__")
    with pytest.raises(BufferError, match="DLPack has no code for gaudi memory"):
        context.allocate("gaudi", 4096).__dlpack__()
    view = memoryview(host)
    with pytest.raises(BufferError, match="in use by 1 memoryview"):
        host.close()
    view.release()
    host.close()


# --- keys


@uses(
    "Region.pack_key",
    "MemoryKey.__bytes__",
    "MemoryKey.info",
    "MemoryKey.valid",
    "MemoryKey.revocable",
    "MemoryKey.close",
    "MemoryKey.__enter__",
    "MemoryKey.__exit__",
    "RemoteKey.__init__",
    "RemoteKey.info",
    "KeyInfo.type",
    "KeyInfo.address",
    "KeyInfo.nbytes",
    "KeyInfo.access",
    "KeyInfo.path",
    "KeyInfo.incarnation",
    "KeyInfo.expires",
    "KeyInfo.nics",
)
def test_a_key_opens_a_part_of_a_region(pair: Pair) -> None:
    region = pair.context.register(bytearray(b"0123456789"))
    with region.pack_key(offset=2, length=4, access="remote_read", expires_after=60) as key:
        assert key.valid and key.revocable is True  # it has an expiry
        there = hbmwire.RemoteKey(bytes(key))
        for info in (key.info, there.info):
            assert (info.type, info.nbytes, info.path) == ("host", 4, "host")
            assert info.address == region.address + 2 and info.access == {"remote_read"}
            assert info.incarnation != 0 and len(info.nics) == 1
            assert info.expires is not None and abs(info.expires - time.time() - 60) < 10
            assert "host 4 bytes" in repr(info)
        assert "to 4 bytes" in repr(key) and repr(there) == "<hbmwire.RemoteKey to 4 bytes>"
        whats: list[Any] = [bytes(key), there]
        for what in whats:
            remote = pair.there.remote(what)
            pair.there.get(pair.memory[0:4], remote).wait(10)
            assert pair.memory.read(0, 4) == b"2345"
        with pytest.raises(hbmwire.Error):
            pair.there.put(pair.memory[0:4], remote).wait(10)
    assert not key.valid and repr(key) == "<hbmwire.MemoryKey closed>"
    with pytest.raises(hbmwire.InvalidArgument, match="the key is closed"):
        bytes(key)
    key.close()
    key = region.pack_key()
    assert key.info.expires is None and key.revocable is False


@uses("MemoryKey.revoke")
def test_a_revoked_key_opens_nothing(pair: Pair) -> None:
    with pytest.raises(hbmwire.NotSupported):
        pair.source.pack_key().revoke()
    key = pair.source.pack_key(revocable=True)
    assert key.revocable
    remote = pair.there.remote(bytes(key))
    pair.there.put(pair.memory, remote).wait(10)
    key.revoke()
    assert not key.valid and "no longer valid" in repr(key)
    with pytest.raises(hbmwire.Error):
        pair.there.put(pair.memory, remote).wait(10)


def test_an_expired_key_is_refused(pair: Pair) -> None:
    key = pair.source.pack_key(expires_after=0.05)
    time.sleep(0.1)
    assert not key.valid
    with pytest.raises(hbmwire.Error):
        pair.there.remote(bytes(key))


# --- remote memory, and the one-sided operations


@uses(
    "Endpoint.remote",
    "RemoteRegion.nbytes",
    "RemoteRegion.__len__",
    "RemoteRegion.type",
    "RemoteRegion.path",
    "RemoteRegion.access",
    "RemoteRegion.__getitem__",
    "RemoteSlice.__getitem__",
    "RemoteSlice.__len__",
    "RemoteSlice.nbytes",
    "RemoteSlice.offset",
    "RemoteSlice.region",
)
def test_remote_memory_reports_its_properties(pair: Pair) -> None:
    remote = pair.here.remote("memory", timeout=10)
    assert (remote.nbytes, len(remote), remote.type, remote.path) == (
        1 << 16,
        1 << 16,
        "host",
        "host",
    )
    assert "remote_write" in remote.access
    assert repr(remote) == "<hbmwire.RemoteRegion host 65536 bytes, host>"
    part = remote[10:20]
    assert (part.nbytes, len(part), part.offset, part.region.nbytes) == (10, 10, 10, 1 << 16)
    inner = part[5:100]
    assert (inner.offset, len(inner)) == (15, 5)
    assert repr(inner) == "<hbmwire.RemoteSlice 5 bytes from 15 on>"
    with pytest.raises(hbmwire.NotFound) as raised:
        pair.here.remote("nothing", timeout=10)
    assert raised.value.code == "not_found" and "nothing" in str(raised.value)
    with pytest.raises(hbmwire.ProtocolError):
        pair.here.remote(b"no key")
    with pytest.raises(TypeError, match="a name or a key: bytes are needed"):
        pair.here.remote(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="sliced by bytes"):
        remote[3]  # type: ignore[index]


@uses(
    "Endpoint.put",
    "Endpoint.get",
    "Endpoint.receive_immediate",
    "Endpoint.flush",
    "Endpoint.fence",
    "Transfer.wait",
    "Transfer.poll",
    "Transfer.done",
    "Transfer.bytes",
    "Transfer.value",
    "Transfer.path",
    "Transfer.settled",
    "Transfer.report",
    "Transfer.explain",
    "Transfer.worker",
)
def test_memory_is_put_and_got(pair: Pair) -> None:
    pair.source.write(b"put this")
    put = pair.here.put(pair.source[0:8], pair.remote[8:16], immediate=7)
    assert put.wait(timeout=10) is put and put.poll() and put.done
    assert (put.bytes, put.path) == (8, "host") and put.worker is pair.context.worker
    assert put.settled
    assert "host" in put.explain() and put.report.path == "host"
    assert repr(put) == "<hbmwire.Transfer over, 8 bytes, host>"
    immediate = pair.there.receive_immediate().wait(10)
    assert immediate.value == 7
    pair.here.fence()
    pair.here.get(pair.source[20:28], pair.remote[8:16]).wait(10)
    assert pair.source.read(20, 8) == b"put this"
    for level in ("sent", "arrived", "visible"):
        pair.here.put(pair.source, pair.remote, level=level).wait(10)  # type: ignore[arg-type]
    pair.here.flush().wait(10)
    written = pair.there.receive_immediate(pair.memory[0:8])
    pair.here.put(pair.source[0:8], pair.remote[0:8], immediate=2**32 - 1)
    assert written.wait(10).value == 2**32 - 1


@uses(
    "Report.path",
    "Report.protocol",
    "Report.nic",
    "Report.peer",
    "Report.local_type",
    "Report.remote_type",
    "Report.remote_path",
    "Report.refusals",
    "Report.copy",
    "Report.ipc",
    "Report.rails",
    "Report.times",
    "Times.asked",
    "Times.posted",
    "Times.over",
)
def test_a_report_says_how_a_transfer_went(context: hbmwire.Context, peer: Peer) -> None:
    with context.create_worker(times=True) as worker, worker.connect(peer.address) as endpoint:
        begin = time.monotonic()
        source = context.allocate("gaudi", 4096)
        report = endpoint.put(source, endpoint.remote("memory")[:4096]).wait(10).report
        assert report.path in ("zero_copy", "nic_loopback", "ipc") and report.protocol == "direct"
        assert report.nic == "emu0" and report.peer == peer.address
        assert (report.local_type, report.remote_type) == ("gaudi", "host")
        assert report.remote_path == "host" and report.refusals == {} and report.rails == []
        assert isinstance(report.copy, str) and isinstance(report.ipc, str)
        assert report.times is not None
        times = report.times
        assert times.posted is not None and times.over is not None
        assert begin <= times.asked <= times.posted <= times.over <= time.monotonic()
        assert "from asked to over" in repr(times)
        assert str(report) and "direct" in repr(report)
    with context.connect(peer.address) as endpoint:
        assert endpoint.put(source, endpoint.remote("memory")[:4096]).report.times is None


def test_a_report_says_why_a_better_path_was_not_taken() -> None:
    with hbmwire.Context(allow=["staged", "host"]) as context:
        pair = Pair(context)
        put = pair.here.put(context.allocate("gaudi", 4096), pair.remote[:4096]).wait(10)
        assert put.path == "staged" and "zero_copy" in put.report.refusals
        assert put.report.refusals["zero_copy"]
        assert "staging" in put.explain()
        pair.close()


@uses("Endpoint.fetch_add", "Endpoint.compare_swap")
def test_atomics_give_the_value_before(pair: Pair) -> None:
    pair.memory.write((40).to_bytes(8, "little"))
    word = pair.remote[0:8]
    assert pair.here.fetch_add(word, 2).wait(10).value == 40
    assert pair.here.compare_swap(at=word, expected=42, desired=2**64 - 1).wait(10).value == 42
    assert pair.here.compare_swap(word, 0, 1).wait(10).value == 2**64 - 1
    for wrong in (pair.remote[4:12], pair.remote[0:4]):
        with pytest.raises(hbmwire.InvalidArgument):
            pair.here.fetch_add(wrong, 1)
    for number in (-1, 2**64, "1"):
        with pytest.raises((TypeError, ValueError)):
            pair.here.fetch_add(word, number)  # type: ignore[arg-type]


@uses("Transfer.cancel", "Transfer.request_cancel", "Transfer.__await__")
def test_a_cancelled_transfer_says_so(pair: Pair) -> None:
    for cancel in (hbmwire.Transfer.cancel, hbmwire.Transfer.request_cancel):
        receive = pair.here.receive(pair.source)
        assert repr(receive) == "<hbmwire.Transfer under way, 65536 bytes>"
        cancel(receive)
        with pytest.raises(hbmwire.Cancelled):
            receive.wait(10)
        assert "<hbmwire.Transfer failed: " in repr(receive)
        awaited = receive.__await__()
        with pytest.raises((hbmwire.Cancelled, RuntimeError)):
            awaited.send(None)


# --- many parts


@uses(
    "Region.blocks",
    "RemoteRegion.blocks",
    "BlockTable.__init__",
    "BlockTable.__len__",
    "BlockTable.block_bytes",
    "RemoteBlockTable.__init__",
    "RemoteBlockTable.__len__",
    "RemoteBlockTable.block_bytes",
    "Endpoint.put_blocks",
    "Endpoint.get_blocks",
)
def test_blocks_are_moved_by_their_numbers(pair: Pair) -> None:
    here, there = pair.source.blocks(64), pair.remote.blocks(64)
    assert len(here) == len(there) == 1024 and here.block_bytes == there.block_bytes == 64
    assert repr(here) == "<hbmwire.BlockTable 1024 blocks of 64 bytes>"
    assert repr(there) == "<hbmwire.RemoteBlockTable 1024 blocks of 64 bytes>"
    data = os.urandom(1 << 16)
    pair.source.write(data)
    pairs = [(number, 1023 - number) for number in range(1024)]
    flat = array("Q", [number for pair_of in pairs for number in pair_of])
    matrix = memoryview(flat).cast("B").cast("Q", (1024, 2))
    columns = (array("Q", [a for a, _ in pairs]), array("L", [b for _, b in pairs]))
    narrow = (array("I", [a for a, _ in pairs]), array("I", [b for _, b in pairs]))
    forms: list[Any] = [pairs, matrix, columns, narrow]
    for numbers in forms:
        pair.memory.write(bytes(1 << 16))
        put = pair.here.put_blocks(here, there, numbers, immediate=5).wait(10)
        assert put.bytes == 1 << 16
        got = pair.memory.read()
        assert all(got[b * 64 : b * 64 + 64] == data[a * 64 : a * 64 + 64] for a, b in pairs)
        assert pair.there.receive_immediate().wait(10).value == 5
    pair.here.get_blocks(here, there, [(7, 1023)]).wait(10)
    assert pair.source.read(7 * 64, 64) == data[:64]
    # Areas in any order: from slices, and from one region by ranges.
    mine = hbmwire.BlockTable([pair.source[640:768], pair.source[0:64]], 64)
    ranges = hbmwire.BlockTable(pair.source, [(640, 128), (0, 64)], 64)
    theirs = hbmwire.RemoteBlockTable([pair.remote[128:256], pair.remote[0:64]], 64)
    their_ranges = hbmwire.RemoteBlockTable(pair.remote, [(128, 128), (0, 64)], 64)
    assert len(mine) == len(ranges) == len(theirs) == len(their_ranges) == 3
    for a, b in ((mine, theirs), (ranges, their_ranges)):
        pair.here.put_blocks(a, b, [(2, 1)]).wait(10)
        assert pair.memory.read(192, 64) == pair.source.read(0, 64)
    wrongs: Any = (
        ([(0, 1024)], hbmwire.InvalidArgument),
        ([(1, 2, 3)], ValueError),
        ([1, 2], TypeError),
        (array("d", [1.0]), ValueError),
        (3, TypeError),
        ([(-1, 0)], ValueError),
    )
    for numbers, why in wrongs:
        with pytest.raises(why):
            pair.here.put_blocks(here, there, numbers)
    calls: list[Callable[[], object]] = [
        lambda: pair.source.blocks(100),
        lambda: pair.source.blocks(0),
        lambda: hbmwire.BlockTable([], 64),
        lambda: pair.remote.blocks(100),
    ]
    for make in calls:
        with pytest.raises(hbmwire.InvalidArgument):
            make()


@uses("Endpoint.put_list", "Endpoint.get_list")
def test_lists_of_parts_are_moved(pair: Pair) -> None:
    data = os.urandom(1 << 16)
    pair.source.write(data)
    different = [(0, 100, 1), (1, 300, 7), (5000, 2000, 4000)]
    equal = [(1, 3, 5), (64, 100, 5), (1000, 8, 5)]
    multiples = [(0, 640, 64), (128, 0, 64)]
    for parts in (different, equal, multiples):
        pair.memory.write(bytes(1 << 16))
        pair.here.put_list(pair.source, pair.remote, parts).wait(10)
        for here, there, length in parts:
            assert pair.memory.read(there, length) == data[here : here + length]
    pair.here.put_list(pair.source, pair.remote, [(8, 16)], length=4, immediate=3).wait(10)
    assert pair.there.receive_immediate().wait(10).value == 3
    matrix = memoryview(array("Q", [0, 640, 64, 128, 0, 64])).cast("B").cast("Q", (2, 3))
    pair.source.write(bytes(1 << 16))
    pair.memory.write(data)
    pair.here.get_list(pair.source, pair.remote, matrix).wait(10)
    assert pair.source.read(128, 64) == data[0:64]
    pair.here.get_list(pair.source, pair.remote, different).wait(10)
    assert pair.source.read(5000, 4000) == data[2000:6000]
    with pytest.raises(ValueError, match="at least one part"):
        pair.here.put_list(pair.source, pair.remote, [])
    for parts in ([(0, 0, 0)], [(1 << 16, 0, 1)], [(0, 1 << 16, 1)], [(0, 0, 4), (65535, 0, 2)]):
        with pytest.raises(ValueError):
            pair.here.put_list(pair.source, pair.remote, parts).wait(10)


@uses(
    "Endpoint.prepare_put",
    "Endpoint.prepare_get",
    "PreparedTransfer.start",
    "PreparedTransfer.__len__",
)
def test_a_prepared_transfer_runs_again_and_again(pair: Pair) -> None:
    prepared = pair.here.prepare_put(
        [(pair.source[0:4], pair.remote[4:8]), (pair.source[4:8], pair.remote[0:4])], immediate=1
    )
    assert len(prepared) == 2 and repr(prepared) == "<hbmwire.PreparedTransfer of 2 parts>"
    for text in (b"abcdefgh", b"12345678"):
        pair.source.write(text)
        prepared.start().wait(10)
        assert pair.memory.read(0, 8) == text[4:] + text[:4]
        assert pair.there.receive_immediate().wait(10).value == 1
    got = pair.here.prepare_get([(pair.source[8:16], pair.remote[0:8])])
    got.start().wait(10)
    assert pair.source.read(8, 8) == b"56781234"
    for wrong, why in (([3], TypeError), (3, TypeError), ([(pair.source,)], ValueError)):
        with pytest.raises(why):
            pair.here.prepare_put(wrong)  # type: ignore[arg-type]


# --- messages


@uses("Endpoint.send", "Endpoint.receive")
def test_messages_are_matched_by_their_tags(pair: Pair) -> None:
    first = pair.there.receive(pair.memory[0:10], tag=1)
    any_of_two = pair.there.receive(pair.memory[10:20], tag=0x20, mask=0xF0)
    without = pair.there.receive(pair.memory[20:30])
    pair.here.send(b"plain")
    pair.here.send(pair.source[0:3], tag=0x2F).wait(10)
    pair.here.send(memoryview(b"one"), tag=1, level="arrived").wait(10)
    assert (first.wait(10).bytes, first.value) == (3, 1)
    assert (any_of_two.wait(10).bytes, any_of_two.value) == (3, 0x2F)
    assert without.wait(10).bytes == 5
    assert pair.memory.read(0, 3) == b"one" and pair.memory.read(20, 5) == b"plain"
    pair.here.send(b"").wait(10)
    assert pair.there.receive(pair.memory).wait(10).bytes == 0
    for wrong in (3, "text", None, [1]):
        with pytest.raises(TypeError):
            pair.here.send(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="tag: between 0 and"):
        pair.here.send(b"x", tag=-1)
    with pytest.raises(ValueError, match="there is no level 'visble'"):
        pair.here.send(b"x", level="visble")  # type: ignore[arg-type]


@uses(
    "Worker.next_message",
    "Worker.try_message",
    "Worker.anext_message",
    "Message.endpoint_id",
    "Message.tag",
    "Message.is_here",
    "Message.data",
    "Message.__len__",
    "Message.__bool__",
    "Message.nbytes",
    "Message.receive",
    "Message.close",
    "Message.__enter__",
    "Message.__exit__",
    "Endpoint.id",
)
def test_messages_are_handed_out(far: Any) -> None:
    worker = far.context.worker
    assert worker.try_message() is None
    far.there.send(b"short", tag=9)
    with worker.next_message(10) as message:
        assert message.endpoint_id == far.here.id and message.tag == 9 and message.is_here
        assert message.data == b"short" and len(message) == message.nbytes == 5 and message
        assert repr(message) == "<hbmwire.Message 5 bytes, tag 9>"
    assert repr(message) == "<hbmwire.Message closed>" and not message
    far.there.send(b"")
    with worker.next_message(10) as message:
        assert message and message.nbytes == 0
    with pytest.raises(hbmwire.InvalidArgument, match="received already, or let go"):
        message.data
    far.memory.write(b"long" * 1000)
    sent = far.there.send(far.memory)
    message = worker.next_message(10)
    assert not message.is_here and message.tag is None and len(message) == 1 << 16
    with pytest.raises(hbmwire.InvalidArgument, match="at its sender still"):
        message.data
    assert "at its sender" in repr(message)
    message.receive(far.source).wait(10)
    sent.wait(10)
    assert far.source.read(0, 4000) == b"long" * 1000
    failing = far.there.send(far.memory)
    worker.next_message(10).close()
    with pytest.raises(hbmwire.Error):
        failing.wait(10)
    coroutine: Any = worker.anext_message(1)
    coroutine.close()


# --- endpoints, listeners, invitations


@uses(
    "Context.connect",
    "Context.listen",
    "Worker.connect",
    "Worker.listen",
    "Listener.accept",
    "Listener.try_accept",
    "Listener.port",
    "Listener.addresses",
    "Listener.worker",
    "Listener.close",
    "Listener.closed",
    "Listener.__enter__",
    "Listener.__exit__",
    "Listener.__aiter__",
    "Listener.__anext__",
    "Listener.aaccept",
)
def test_peers_connect_to_a_listener(context: hbmwire.Context) -> None:
    worker = context.create_worker(progress_thread=True)
    with worker.listen(0, "127.0.0.1") as listener, context.listen() as other:
        assert listener.port != other.port and listener.addresses == [f"127.0.0.1:{listener.port}"]
        assert len(other.addresses) >= 1 and listener.worker is worker
        assert repr(listener) == f"<hbmwire.Listener at port {listener.port}>"
        assert listener.try_accept() is None
        one = context.connect(f"127.0.0.1:{listener.port}", timeout=10)
        first = listener.accept(10)
        two = context.worker.connect(f"localhost:{listener.port}", timeout=10)
        second = listener.try_accept() or listener.accept(10)
        assert len({one.id, two.id, first.id, second.id}) == 4
        assert listener.__aiter__() is listener
        for coroutine in (listener.__anext__(), listener.aaccept(1)):
            coroutine.close()
        with pytest.raises(hbmwire.Busy):
            worker.listen(listener.port, "127.0.0.1")
    assert listener.closed and repr(listener) == "<hbmwire.Listener closed>"
    with pytest.raises(hbmwire.InvalidArgument, match="the listener is closed"):
        listener.accept(1)
    worker.close()


@uses(
    "Endpoint.peer",
    "Endpoint.peer_hello",
    "Endpoint.phase",
    "Endpoint.nic",
    "Endpoint.placement",
    "Endpoint.error",
    "Endpoint.worker",
    "Endpoint.closed",
    "Endpoint.close",
    "Endpoint.__enter__",
    "Endpoint.__exit__",
    "Endpoint.wait_closed",
    "Endpoint.reconnect",
)
def test_an_endpoint_reports_its_properties(peer: Peer, context: hbmwire.Context) -> None:
    with context.connect(peer.address, timeout=10, hello=b"hello") as endpoint:
        assert endpoint.peer == peer.address and endpoint.peer_hello == b""
        assert (endpoint.phase, endpoint.nic, endpoint.placement) == ("ready", "emu0", "same_node")
        assert endpoint.error is None and endpoint.worker is context.worker and not endpoint.closed
        assert repr(endpoint) == f"<hbmwire.Endpoint to {peer.address}, ready, same_node>"
        with pytest.raises(hbmwire.Busy):
            endpoint.reconnect(1)
        endpoint.close(10)
        endpoint.wait_closed(10)
        phases: list[str] = [endpoint.phase]
        endpoint.reconnect(10)
        assert [*phases, endpoint.phase] == ["closed", "ready"]
    assert endpoint.closed and repr(endpoint) == "<hbmwire.Endpoint closed>"
    with pytest.raises(hbmwire.InvalidArgument, match="ended with its worker"):
        endpoint.peer
    with pytest.raises(ZeroDivisionError):
        with context.connect(peer.address, timeout=10) as endpoint:
            1 // 0
    assert endpoint.closed


def test_hellos_and_options_of_connections_are_taken(context: hbmwire.Context) -> None:
    options: Any = {
        "send_depth": 64,
        "receive_depth": 64,
        "eager_bytes": 1024,
        "unexpected_bytes": 1 << 20,
        "messages": "matched",
        "peer_timeout": 1.5,
        "operation_timeout": None,
        "pre_shared_key": b"secret" * 4,
        "require": None,
        "allow": ["host", "zero_copy"],
        "retry_connect": True,
        "hello": b"I am",
        "link": {
            "service_level": 0,
            "traffic_class": 0,
            "mtu_bytes": 1024,
            "ack_timeout": 14,
            "retry_count": 7,
            "rnr_retry": 7,
            "pkey_index": 0,
        },
    }
    worker = context.create_worker(progress_thread=True)
    listener = worker.listen(
        0, "127.0.0.1", handshake_timeout=5, max_handshakes=8, rdma_cm=False, **options
    )
    here = context.connect(f"127.0.0.1:{listener.port}", timeout=10, **options)
    there = listener.accept(10)
    assert here.peer_hello == there.peer_hello == b"I am"
    options["pre_shared_key"] = b"another secret" * 4
    options["retry_connect"] = False
    with pytest.raises(hbmwire.Error) as raised:
        context.connect(f"127.0.0.1:{listener.port}", timeout=10, **options)
    assert raised.value.code == "permission_denied"
    worker.close()


@uses("Listener.advertise", "Listener.withdraw")
def test_names_are_advertised_and_withdrawn(pair: Pair) -> None:
    pair.listener.advertise(
        "part", pair.memory, offset=8, length=8, access="remote_read", revocable=True
    )
    part = pair.here.remote("part", timeout=10)
    assert part.nbytes == 8 and part.access == {"remote_read"}
    with pytest.raises(hbmwire.Busy):
        pair.listener.advertise("part", pair.memory)
    pair.listener.withdraw("part")
    with pytest.raises(hbmwire.NotFound):
        pair.here.remote("part", timeout=10)
    with pytest.raises(hbmwire.NotFound):
        pair.listener.withdraw("part")


@uses(
    "Context.invite",
    "Worker.invite",
    "Invitation.__bytes__",
    "Invitation.connect",
    "Invitation.close",
    "Invitation.worker",
    "Invitation.__enter__",
    "Invitation.__exit__",
    "Invitation.aconnect",
)
def test_two_ends_meet_by_invitations(context: hbmwire.Context) -> None:
    worker = context.create_worker(progress_thread=True)
    with context.invite(hello=b"one") as mine, worker.invite() as theirs:
        assert repr(mine) == "<hbmwire.Invitation>" and mine.worker is context.worker
        ends: list[hbmwire.Endpoint] = []
        thread = threading.Thread(target=lambda: ends.append(theirs.connect(bytes(mine), 10)))
        thread.start()
        here = mine.connect(bytes(theirs), timeout=10)
        thread.join()
        assert here.phase == "ready" and ends[0].peer_hello == b"one"
    assert repr(mine) == "<hbmwire.Invitation closed>"
    with pytest.raises(hbmwire.InvalidArgument, match="the invitation is closed"):
        bytes(mine)
    with context.invite() as mine:
        for wrong in (b"", b"none", bytes(mine)):
            with pytest.raises(hbmwire.Error):
                mine.connect(wrong, 1)
        with pytest.raises(TypeError, match="theirs: bytes are needed"):
            mine.connect("text", 1)  # type: ignore[arg-type]
        coroutine: Any = mine.aconnect(b"")
        coroutine.close()
        mine.close()
    worker.close()


# --- workers


@uses(
    "Worker.progress",
    "Worker.wait",
    "Worker.wait_any",
    "Worker.wait_all",
    "Worker.fileno",
    "Worker.arm",
    "Worker.wake_after",
    "Worker.in_flight",
    "Worker.flush",
)
def test_a_worker_is_driven_by_another_kind_of_event_loop(pair: Pair) -> None:
    worker = pair.context.worker
    receive = pair.here.receive(pair.source)
    poll = select.poll()
    poll.register(worker.fileno(), select.POLLIN)
    timer = threading.Timer(0.1, lambda: pair.there.send(b"text").wait(10))
    timer.start()
    end = time.monotonic() + 10
    while not receive.done:
        assert time.monotonic() < end
        if worker.arm():
            poll.poll(min(worker.wake_after, 1.0) * 1000)
        assert worker.progress() >= 0
    timer.join()
    assert receive.bytes == 4
    transfers = [pair.here.put(pair.source[:8], pair.remote[:8]) for _ in range(10)]
    worker.wait_all(transfers, 10)
    assert worker.wait_any(tuple(transfers), 10) == 0
    worker.wait_all(iter([]), 1)  # type: ignore[arg-type]
    assert worker.in_flight == 0
    worker.flush(pair.source[:8]).wait(10)
    pair.there.send(b"text")
    worker.wait(10)
    with pytest.raises(hbmwire.InvalidArgument, match="there is no transfer to wait for"):
        worker.wait_any([], 1)
    with pytest.raises(hbmwire.InvalidArgument, match="another worker's"):
        worker.wait_any([pair.there.receive(pair.memory)], 1)
    with pytest.raises(TypeError, match="transfers are needed here, not int"):
        worker.wait_all([3], 1)  # type: ignore[list-item]


def test_a_failure_is_told_when_all_of_a_list_are_over(pair: Pair) -> None:
    first, failing = pair.here.receive(pair.source[:8], tag=1), pair.here.receive(
        pair.source[8:], tag=2
    )
    failing.request_cancel()
    pair.there.send(b"late", tag=1)
    with pytest.raises(hbmwire.Cancelled):
        pair.context.worker.wait_all([failing, first], 10)
    assert first.done and first.poll()
    assert pair.context.worker.wait_any([failing]) == 0


@uses(
    "Context.aconnect",
    "Worker.aconnect",
    "Endpoint.aremote",
    "Endpoint.aclose",
    "Endpoint.areconnect",
    "Endpoint.await_closed",
)
def test_the_asynchronous_calls_give_awaitables(pair: Pair) -> None:
    """Other tests of these calls are in asyncio_test.py."""
    for coroutine in (
        pair.here.aremote("memory"),
        pair.here.aclose(1),
        pair.here.areconnect(1),
        pair.here.await_closed(1),
    ):
        assert inspect.iscoroutine(coroutine)
        coroutine.close()
    for awaitable in (
        pair.context.aconnect("127.0.0.1:1"),
        pair.context.worker.aconnect("127.0.0.1:1"),
    ):
        assert inspect.isawaitable(awaitable)


# --- memory of processes of the same node


@uses(
    "AttachListener.__init__",
    "AttachListener.publish",
    "AttachListener.fileno",
    "AttachListener.progress",
    "AttachListener.close",
    "AttachListener.__enter__",
    "AttachListener.__exit__",
    "Publication.address",
    "Publication.close",
    "Publication.__enter__",
    "Publication.__exit__",
    "AttachAddress.__init__",
    "AttachAddress.__bytes__",
    "Context.attach",
    "AttachedMemory.type",
    "AttachedMemory.exporter_address",
    "AttachedMemory.writable",
    "AttachedMemory.nbytes",
)
def test_memory_is_attached_to(context: hbmwire.Context) -> None:
    region = context.allocate("gaudi", 4096)
    region.write(b"shared")
    with hbmwire.AttachListener() as listener, listener.publish(region) as publication:
        assert repr(listener) == "<hbmwire.AttachListener>" and "<hbmwire.Publication at " in repr(
            publication
        )
        address = hbmwire.AttachAddress(bytes(publication.address))
        assert "<hbmwire.AttachAddress " in repr(address)
        attached: list[hbmwire.AttachedMemory] = []
        thread = threading.Thread(
            target=lambda: attached.append(context.attach(address, timeout=10))
        )
        thread.start()
        poll = select.poll()
        poll.register(listener.fileno(), select.POLLIN)
        while thread.is_alive():
            poll.poll(50)
            listener.progress()
        (memory,) = attached
        assert memory.exporter_address == region.address and memory.nbytes == 4096
        assert memory.type == "gaudi" and isinstance(memory.writable, bool)
        assert "4096 bytes" in repr(memory)
        with context.register(memory, access="remote_read") as again:
            assert again.nbytes == 4096 and again.type == "dmabuf"
        key = region.pack_key(attach=publication)
        assert key.valid
        publication.close()
        with pytest.raises(hbmwire.InvalidArgument, match="the publication is closed"):
            publication.address
        with pytest.raises(hbmwire.NotSupported):
            listener.publish(context.allocate("host", 4096))
        listener.close()
    assert repr(listener) == "<hbmwire.AttachListener closed>"
    assert repr(publication) == "<hbmwire.Publication closed>"


@uses("Dmabuf.fd", "Dmabuf.length", "Dmabuf.offset", "Dmabuf.mapping", "Dmabuf.read_only")
def test_a_dmabuf_is_registered(context: hbmwire.Context) -> None:
    exported = context.allocate("cuda", 8192)
    memory = hbmwire.Dmabuf(exported.dmabuf_fd, 4096)
    assert (memory.fd, memory.length, memory.offset, memory.mapping, memory.read_only) == (
        exported.dmabuf_fd,
        4096,
        0,
        0,
        False,
    )
    with context.register(memory) as region:
        assert region.type == "dmabuf" and region.nbytes == 4096 and region.path == "zero_copy"
        assert region.owner is memory
    with context.register(hbmwire.Dmabuf(exported.dmabuf_fd, 4096, read_only=True)) as region:
        assert region.access == {"remote_read"}
    with pytest.raises(hbmwire.PermissionDenied):
        context.register(
            hbmwire.Dmabuf(exported.dmabuf_fd, 4096, read_only=True), access="remote_write"
        )
    with pytest.raises(hbmwire.Error):
        context.register(hbmwire.Dmabuf(-1, 4096))


# --- wrong arguments


@pytest.mark.parametrize(
    ("call", "why", "text"),
    [
        (
            lambda c: c.allocate("gpu", 8),
            ValueError,
            "there is no type of memory 'gpu'; there are 'host' 'gaudi'",
        ),
        (lambda c: c.allocate(3, 8), TypeError, "type of memory: a string is needed, not int"),
        (lambda c: c.allocate("host", -1), ValueError, "nbytes: between 0 and"),
        (lambda c: c.allocate("host", 0), hbmwire.InvalidArgument, "size 0"),
        (
            lambda c: c.allocate("host", 8, colour=1),
            TypeError,
            r"allocate\(\) has no argument 'colour'",
        ),
        (lambda c: c.allocate("host", 8, access="read"), ValueError, "there is no access 'read'"),
        (lambda c: c.allocate("host", 8, access=3), TypeError, "access: words are needed, not int"),
        (
            lambda c: c.allocate("host", 8, access=["remote_read", 3]),
            TypeError,
            "access: a string is needed, not int",
        ),
        (
            lambda c: c.allocate("host", 8, pages="small"),
            ValueError,
            "there is no size of pages 'small'",
        ),
        (
            lambda c: c.allocate("host", 8, shared="x"),
            TypeError,
            "shared: True or False is needed, not str",
        ),
        (
            lambda c: c.allocate("host", 8, numa_node="x"),
            TypeError,
            "numa_node: a (small )?number is needed, not str",
        ),
        (lambda c: c.allocate("gaudi", 8, owner="me"), ValueError, "there is no owner 'me'"),
        (lambda c: c.allocate("gaudi", 8, device="7"), hbmwire.Error, ""),
        (lambda c: c.register(3), TypeError, "'int' object has no memory to register"),
        (lambda c: c.register(b""), hbmwire.InvalidArgument, "no bytes"),
        (
            lambda c: c.register(b"x", access="remote_write"),
            hbmwire.PermissionDenied,
            "read-only",
        ),
        (lambda c: c.find("x"), TypeError, "address: a number is needed, not str"),
        (
            lambda c: c.create_worker(max_transfers=-1),
            ValueError,
            "max_transfers: between 0 and 4294967295, not -1",
        ),
        (
            lambda c: c.create_worker(max_transfers=1 << 40),
            ValueError,
            "max_transfers: between 0 and 4294967295, not ",
        ),
        (
            lambda c: c.create_worker(max_transfers="x"),
            TypeError,
            "max_transfers: a number is needed, not str",
        ),
        (
            lambda c: c.create_worker(times=[]),
            TypeError,
            "times: True or False is needed, not list",
        ),
        (
            lambda c: c.create_worker(threads=1),
            TypeError,
            r"create_worker\(\) has no argument 'threads'",
        ),
        (
            lambda c: c.connect("node2"),
            hbmwire.InvalidArgument,
            "the port is missing: an address is HOST:PORT",
        ),
        (
            lambda c: c.connect("node2:x"),
            hbmwire.InvalidArgument,
            "a port is a number from 1 to 65535",
        ),
        (lambda c: c.connect(7000), TypeError, r"peer: \"host:port\" in one string is needed, not int"),
        (lambda c: c.connect("a", 7000), TypeError, r"connect\(\) takes \"host:port\" in one string"),
        (
            lambda c: c.connect("a:1", timeout="x"),
            TypeError,
            "timeout: seconds are needed as a number, or None",
        ),
        (lambda c: c.connect("a:1", timeout=math.nan), ValueError, "timeout: not a number"),
        (
            lambda c: c.connect("a:1", peer_timeout="x"),
            TypeError,
            "peer_timeout: seconds are needed",
        ),
        (lambda c: c.connect("a:1", colour=1), TypeError, r"connect\(\) has no argument 'colour'"),
        (lambda c: c.connect("a:1", link=3), TypeError, "link: a dict is needed, not int"),
        (lambda c: c.connect("a:1", link={"mtu": 1}), TypeError, r"link\(\) has no argument 'mtu'"),
        (lambda c: c.connect("a:1", hello="x"), TypeError, "hello: bytes are needed"),
        (
            lambda c: c.connect("a:1", hello=bytes(2000)),
            hbmwire.InvalidArgument,
            "a hello has at most 1024 bytes",
        ),
        (lambda c: c.connect("a:1", require="fast"), ValueError, "there is no path 'fast'"),
        (lambda c: c.connect("a:1", allow=3), TypeError, "allow: paths are needed, not int"),
        (
            lambda c: c.connect("a:1", messages="none"),
            ValueError,
            "there is no mode of messages 'none'",
        ),
        (
            lambda c: c.connect("no.such.host.invalid:1", timeout=5),
            hbmwire.NotFound,
            "check the host's name",
        ),
        (
            lambda c: c.connect("127.0.0.1:1", timeout=5),
            hbmwire.PeerFailed,
            "no program listens there",
        ),
        (lambda c: c.listen(70000), ValueError, "port: between 0 and 65535, not 70000"),
        (lambda c: c.listen("::1", 0), TypeError, "port: a number is needed, not str"),
        (lambda c: untyped.Context("emu0"), TypeError, r"Context\(\) takes all by name"),
        (lambda c: c.listen(0, "no.such.host.invalid"), hbmwire.NotFound, "check the host's name"),
        (
            lambda c: c.listen(0, max_handshakes="x"),
            TypeError,
            "max_handshakes: a number is needed, not str",
        ),
        (lambda c: c.listen(0, colour=1), TypeError, r"listen\(\) has no argument 'colour'"),
        (lambda c: c.invite(colour=1), TypeError, r"invite\(\) has no argument 'colour'"),
        (lambda c: c.attach(3), TypeError, "address: an AttachAddress is needed, not int"),
        (lambda c: c.worker.flush(3), TypeError, "a Region or a Slice is needed here, not int"),
        (
            lambda c: untyped.Context(require="fast"),
            ValueError,
            "there is no path 'fast'; there are 'host' 'zero_copy'",
        ),
        (lambda c: untyped.Context(nics=3), TypeError, "nics: names are needed, not int"),
        (lambda c: untyped.Context(nics=[3]), TypeError, "a name: a string is needed, not int"),
        (
            lambda c: untyped.Context(memory=3),
            TypeError,
            "memory: types of memory are needed, not int",
        ),
        (
            lambda c: untyped.Context(gid_index="x"),
            TypeError,
            "gid_index: a number is needed, not str",
        ),
        (
            lambda c: untyped.Context(colour=1, size=2),
            TypeError,
            r"Context\(\) has no argument 'colour' 'size'",
        ),
        (lambda c: untyped.RemoteKey("x"), TypeError, "key: bytes are needed"),
        (lambda c: untyped.RemoteKey(b"x"), hbmwire.ProtocolError, "the bytes are no memory key"),
        (lambda c: untyped.AttachAddress(3), TypeError, "data: bytes are needed"),
        (
            lambda c: untyped.AttachAddress(b"x"),
            hbmwire.InvalidArgument,
            "no bytes of an AttachAddress",
        ),
        (
            lambda c: untyped.BlockTable([3], 64),
            TypeError,
            "a Region or a Slice is needed here, not int",
        ),
        (
            lambda c: untyped.BlockTable(3, 64),
            TypeError,
            "areas: Regions or Slices are needed, not int",
        ),
        (
            lambda c: untyped.RemoteBlockTable([3], 64),
            TypeError,
            "a RemoteRegion or a RemoteSlice is needed here",
        ),
        (
            lambda c: untyped.set_log_level("loud"),
            ValueError,
            "there is no log level 'loud'; there are 'off'",
        ),
        (lambda c: untyped.Region(), TypeError, "No constructor defined"),
    ],
)
def test_wrong_arguments_are_refused_with_a_sentence(
    context: hbmwire.Context, call: Any, why: type[Exception], text: str
) -> None:
    with pytest.raises(why, match=text):
        call(context)


@pytest.mark.parametrize(
    ("call", "why", "text"),
    [
        (
            lambda p: p.here.put(b"x", p.remote),
            TypeError,
            "a Region or a Slice is needed here, not bytes; Context.reg",
        ),
        (
            lambda p: p.here.put(p.source, p.source),
            TypeError,
            "a RemoteRegion or a RemoteSlice is needed here, not Re",
        ),
        (lambda p: p.here.put(p.source, "memory"), TypeError, r"Endpoint.remote\(\) gives one"),
        (lambda p: p.here.put(p.source[:8], p.remote[:9]), hbmwire.InvalidArgument, ""),
        (
            lambda p: p.here.put(p.source, p.remote, immediate=2**32),
            ValueError,
            "immediate: between 0 and 4294967295, not ",
        ),
        (
            lambda p: p.here.put(p.source, p.remote, immediate="x"),
            TypeError,
            "immediate: a number is needed, not str",
        ),
        (
            lambda p: p.here.put(p.source, p.remote, level="there"),
            ValueError,
            "there is no level 'there'; there are",
        ),
        (
            lambda p: p.here.put(p.source, p.remote, 7),
            TypeError,
            r"put\(\) takes at most 2 arguments by position, not 3",
        ),
        (lambda p: p.here.get(p.context.register(b"x" * 8), p.remote[:8]), hbmwire.Error, ""),
        (lambda p: p.here.receive(b"x"), TypeError, "a Region or a Slice is needed here"),
        (lambda p: p.here.receive_immediate(3), TypeError, "a Region or a Slice is needed here"),
        (lambda p: p.here.remote("memory", timeout="x"), TypeError, "timeout: seconds are needed"),
        (lambda p: p.here.remote("x" * 100000), hbmwire.Error, ""),
        (lambda p: p.here.flush().wait("x"), TypeError, "timeout: seconds are needed"),
        (
            lambda p: p.here.put_list(p.source, p.remote, 3),
            TypeError,
            "numbers: an array or rows are needed, not int",
        ),
        (
            lambda p: p.here.put_list(p.source, p.remote, [3]),
            TypeError,
            "numbers: rows of numbers are needed, not int",
        ),
        (
            lambda p: p.here.put_list(p.source, p.remote, [(1, 2)]),
            ValueError,
            "each row has 3 numbers",
        ),
        (
            lambda p: p.here.put_list(p.source[:8], p.remote, [(0, 0, 1)]),
            TypeError,
            "local: a Region is needed, not Slice",
        ),
        (lambda p: p.here.prepare_put(3), TypeError, "parts: pairs of slices are needed, not int"),
        (lambda p: p.here.prepare_put([3]), TypeError, "parts: a pair is needed, not int"),
        (
            lambda p: p.source.pack_key(colour=1),
            TypeError,
            r"pack_key\(\) has no argument 'colour'",
        ),
        (lambda p: p.source.pack_key(offset=1 << 20), hbmwire.InvalidArgument, ""),
        (
            lambda p: p.source.pack_key(expires_after="x"),
            TypeError,
            "expires_after: seconds are needed",
        ),
        (
            lambda p: p.listener.advertise("x", p.source, colour=1),
            TypeError,
            r"advertise\(\) has no argument 'colour'",
        ),
        (lambda p: p.listener.advertise("x", b"x"), TypeError, "region: a Region is needed, not bytes"),
        (lambda p: p.here.remote(p.source), TypeError, "what: a name, or a key of the peer"),
        (lambda p: p.listener.accept("x"), TypeError, "timeout: seconds are needed"),
        (lambda p: p.context.worker.wait_any(3), TypeError, "incompatible function arguments"),
    ],
)
def test_wrong_arguments_of_operations_are_refused_with_a_sentence(
    pair: Pair, call: Any, why: type[Exception], text: str
) -> None:
    with pytest.raises(why, match=text):
        call(pair)
    assert pair.here.phase == "ready"


# --- exceptions

CLASSES = {
    "invalid_argument": (hbmwire.InvalidArgument, ValueError),
    "not_found": (hbmwire.NotFound, LookupError),
    "not_supported": (hbmwire.NotSupported, Exception),
    "permission_denied": (hbmwire.PermissionDenied, PermissionError),
    "busy": (hbmwire.Busy, Exception),
    "exhausted": (hbmwire.Exhausted, Exception),
    "timed_out": (hbmwire.TimedOut, TimeoutError),
    "peer_failed": (hbmwire.PeerFailed, ConnectionError),
    "protocol": (hbmwire.ProtocolError, Exception),
    "data_mismatch": (hbmwire.DataMismatch, Exception),
    "cancelled": (hbmwire.Cancelled, Exception),
    "system": (hbmwire.SystemFailure, Exception),
}
FIELDS = ("code", "stage", "hint", "remedy", "subject", "call", "number")


@uses(
    "Error.code",
    "Error.stage",
    "Error.hint",
    "Error.remedy",
    "Error.subject",
    "Error.call",
    "Error.number",
)
@pytest.mark.parametrize("code", CLASSES)
def test_each_code_has_a_class_with_its_fields(code: str) -> None:
    kind, builtin = CLASSES[code]
    error = errors.from_fields(
        code, "connect", "peer_slow", "wait", "node2", "read", "EIO (5)", "a sentence"
    )
    assert type(error) is kind and isinstance(error, hbmwire.Error) and isinstance(error, builtin)
    fields = (
        error.code,
        error.stage,
        error.hint,
        error.remedy,
        error.subject,
        error.call,
        error.number,
    )
    assert fields == (code, "connect", "peer_slow", "wait", "node2", "read", "EIO (5)")
    assert str(error) == "a sentence" and repr(error) == f"{kind.__name__}('a sentence')"
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is kind and again.args == error.args
        assert all(getattr(again, field) == getattr(error, field) for field in FIELDS)
    assert all(isinstance(getattr(kind("text"), field), str) for field in FIELDS)
    assert kind("text").code == code


def test_an_error_of_the_library_has_all_of_its_fields(context: hbmwire.Context) -> None:
    with pytest.raises(hbmwire.PeerFailed) as raised:
        context.connect("127.0.0.1:1", timeout=5)
    error = raised.value
    assert (error.code, error.stage, error.subject) == ("peer_failed", "connect", "127.0.0.1:1")
    assert (error.hint, error.call, error.number) == (
        "connection_refused",
        "connect",
        "Connection refused (ECONNREFUSED, 111)",
    )
    assert error.remedy.startswith("no program listens there")
    assert all(
        part in str(error)
        for part in (error.stage, error.subject, error.remedy, "Connection refused")
    )
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.__dict__) == (type(error), str(error), error.__dict__)


def test_errors_are_caught_as_built_in_exceptions(pair: Pair) -> None:
    with pytest.raises(TimeoutError):
        pair.here.receive(pair.source).wait(0)
    with pytest.raises(LookupError):
        pair.here.remote("nothing", timeout=10)
    with pytest.raises(ValueError):
        pair.here.put(pair.source[:1], pair.remote[:2])
    with pytest.raises(ConnectionError):
        pair.context.connect("127.0.0.1:1", timeout=5)


# --- groups, of one rank here; group_test.py has larger ones


def alone(place: pathlib.Path) -> dict[str, Any]:
    """Options of the only rank of a group."""
    meeting = f"file://{place / 'group'}"
    return {"meeting": meeting, "rank": 0, "size": 1, "address": "127.0.0.1", "timeout": 10}


@uses(
    "Group.create",
    "Group.__enter__",
    "Group.__exit__",
    "Group.rank",
    "Group.size",
    "Group.epoch",
    "Group.launcher",
    "Group.members",
    "Group.failed",
    "Group.worker",
    "Group.closed",
    "Group.close",
    "GroupMember.rank",
    "GroupMember.host",
    "GroupMember.addresses",
)
def test_a_group_tells_who_is_in_it(context: hbmwire.Context, tmp_path: pathlib.Path) -> None:
    with hbmwire.Group.create(context, **alone(tmp_path)) as group:
        assert (group.rank, group.size, group.epoch, group.failed) == (0, 1, 1, [])
        assert group.launcher == "the program's options"
        (member,) = group.members
        assert member.rank == 0
        assert repr(member) == f"<hbmwire.GroupMember rank 0 on {member.host}>"
        (address,) = member.addresses
        assert address.startswith("127.0.0.1:")
        assert group.worker is context.worker
        assert not group.closed
    assert group.closed
    group.close()
    with hbmwire.Group.create(context.worker, **alone(tmp_path)) as again:
        assert again.epoch == 1


@uses(
    "Group.exchange",
    "Group.exchange_among_present",
    "Group.barrier",
    "Group.endpoint",
    "Group.drop_endpoint",
    "Group.broadcast",
    "Group.rejoin",
)
def test_calls_of_a_group(context: hbmwire.Context, tmp_path: pathlib.Path) -> None:
    with hbmwire.Group.create(context, **alone(tmp_path)) as group:
        assert group.exchange(memoryview(b"mine"), timeout=5) == [b"mine"]
        assert group.exchange_among_present(b"", timeout=5) == [b""]
        group.barrier(5)
        group.broadcast(context.register(bytearray(64)), timeout=5, piece_bytes=4096, verify=True)
        with pytest.raises(hbmwire.InvalidArgument, match="no other rank"):
            group.endpoint(0, timeout=5)
        group.drop_endpoint(0)
        group.rejoin(5)
        assert group.epoch == 2
        with pytest.raises(TypeError, match="data: bytes are needed"):
            group.exchange(7)  # type: ignore[arg-type]
        with pytest.raises(hbmwire.InvalidArgument, match="1 MiB"):
            group.exchange(bytes((1 << 20) + 1))


@uses(
    "Group.acreate",
    "Group.__aenter__",
    "Group.__aexit__",
    "Group.aexchange",
    "Group.aexchange_among_present",
    "Group.abarrier",
    "Group.aendpoint",
    "Group.abroadcast",
    "Group.arejoin",
    "Group.aclose",
)
def test_calls_of_a_group_are_awaited(context: hbmwire.Context, tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        async with await hbmwire.Group.acreate(context, **alone(tmp_path)) as group:
            assert await group.aexchange(b"mine") == [b"mine"]
            assert await group.aexchange_among_present(b"mine") == [b"mine"]
            await group.abarrier(5)
            await group.abroadcast(context.register(bytearray(64))[8:16])
            with pytest.raises(hbmwire.InvalidArgument, match="no other rank"):
                await group.aendpoint(0)
            await group.arejoin(5)
            assert group.epoch == 2
            await group.aclose()
            assert group.closed

    asyncio.run(main())


# --- all of it


def public_members() -> set[str]:
    """All members that the stub declares or Python defines: "Class.member" and functions."""
    stub = pathlib.Path(hbmwire.__file__).parent / "_core.pyi"
    members: set[str] = set()

    def is_public(name: str) -> bool:
        return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))

    def add(prefix: str, body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and is_public(node.name):
                members.add(prefix + node.name)
            elif (
                isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Name)
                and is_public(node.target.id)
            ):
                if not isinstance(node.annotation, ast.Name) or node.annotation.id != "TypeAlias":
                    members.add(prefix + node.target.id)
            elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                add(f"{node.name}.", node.body)
                for base in node.bases:
                    if isinstance(base, ast.Name) and base.id == "_Waitable":
                        members.update(node.name + name for name in (".poll", ".done", ".worker"))

    add("", ast.parse(stub.read_text()).body)
    members.update(f"Dmabuf.{field}" for field in hbmwire.Dmabuf.__dataclass_fields__)
    members.update(f"Error.{field}" for field in FIELDS)
    return members


def test_each_public_member_has_a_test() -> None:
    missing = public_members() - used
    assert missing == set()


def test_each_name_that_tests_use_is_there() -> None:
    unknown = used - public_members()
    assert unknown == set()


def test_each_exported_name_is_in_the_stub_or_written_in_python() -> None:
    named = {name.partition(".")[0] for name in public_members()}
    written = {kind.__name__ for kind, _ in CLASSES.values()} | {"Error", "Dmabuf"}
    assert set(hbmwire.__all__) == named | written
    for name in hbmwire.__all__:
        assert hasattr(hbmwire, name)
        value = getattr(hbmwire, name)
        if isinstance(value, type):
            assert value.__module__ in ("hbmwire", "hbmwire.errors", "hbmwire._memory")


def test_each_class_and_call_has_a_docstring() -> None:
    silent = []
    for name in hbmwire.__all__:
        value = getattr(hbmwire, name)
        if callable(value) and not inspect.getdoc(value):
            silent.append(name)
        if isinstance(value, type):
            silent += [
                f"{name}.{member}"
                for member, what in vars(value).items()
                if not member.startswith("_") and callable(what) and not inspect.getdoc(what)
            ]
    assert silent == []


def test_each_public_object_has_a_repr_of_its_own() -> None:
    for name in hbmwire.__all__:
        value = getattr(hbmwire, name)
        if isinstance(value, type) and not issubclass(value, BaseException):
            assert value.__repr__ is not object.__repr__, name
