# SPDX-License-Identifier: MIT
"""Small facts: truth and length, the text of errors, and refusals."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy
import pytest
from conftest import Pair, eventually

import hbmwire
from hbmwire import _core

# --- read-only memory


def is_read_only(memory: Any) -> bool:
    return memoryview(memory).readonly


def test_a_write_to_read_only_memory_is_refused_and_changes_nothing(
    context: hbmwire.Context,
) -> None:
    data = bytes(range(256)) * 16
    region = context.register(data)
    parts: list[hbmwire.Region | hbmwire.Slice] = [region, region[16:64]]
    for memory in parts:
        with pytest.raises(hbmwire.PermissionDenied, match="read-only") as raised:
            memory.write(b"changed")
        assert isinstance(raised.value, PermissionError)
    assert data == region.read() == bytes(range(256)) * 16
    assert is_read_only(region)


def test_a_write_to_a_read_only_numpy_array_is_refused(context: hbmwire.Context) -> None:
    array = numpy.full(4096, 7, dtype=numpy.uint8)
    array.setflags(write=False)
    region = context.register(array)
    with pytest.raises(hbmwire.PermissionDenied):
        region.write(b"changed", 100)
    assert (array == 7).all()
    # A writable view of the same memory is different.
    writable = bytearray(b"7" * 64)
    context.register(writable).write(b"changed")
    assert writable[:8] == b"changed7"


def test_a_program_writes_memory_that_only_peers_may_not_write(
    context: hbmwire.Context,
) -> None:
    region = context.allocate("host", 4096, access="remote_read")
    region.write(b"here")
    assert region.read(0, 4) == b"here"
    assert not is_read_only(region)


class CudaArray:
    """Memory of a GPU, described like other libraries do."""

    def __init__(self, memory: hbmwire.Region, read_only: bool) -> None:
        self.memory = memory
        self.__cuda_array_interface__ = {
            **memory.__cuda_array_interface__,
            "data": (memory.address, read_only),
        }


@pytest.mark.parametrize("read_only", [False, True])
def test_the_cuda_array_interface_and_dlpack_agree_on_writability(
    context: hbmwire.Context, read_only: bool
) -> None:
    memory = context.allocate("cuda", 4096)
    region = context.register(CudaArray(memory, read_only))
    capsule = region.__dlpack__(max_version=(1, 0))
    address, nbytes, _, _, dlpack_read_only, _, _ = _core._dlpack(capsule)
    assert (address, nbytes) == (memory.address, 4096)
    assert region.__cuda_array_interface__["data"] == (memory.address, read_only)
    assert dlpack_read_only is read_only
    if read_only:
        with pytest.raises(BufferError, match="read-only"):
            region.__dlpack__()
        with pytest.raises(hbmwire.PermissionDenied):
            region.write(b"changed")
    else:
        region.__dlpack__()
        region.write(b"changed")
        assert memory.read(0, 7) == b"changed"


@pytest.mark.parametrize("access", ["remote_read", "remote_write", None])
def test_the_rights_of_peers_do_not_make_a_programs_own_memory_read_only(
    context: hbmwire.Context, access: Any
) -> None:
    region = context.allocate("cuda", 4096, access=access)
    assert region.__cuda_array_interface__["data"] == (region.address, False)
    assert not _core._dlpack(region.__dlpack__(max_version=(1, 0)))[4]
    region.__dlpack__()


# --- the text of errors


def test_an_error_whose_subject_is_cut_within_a_letter_is_an_error_of_the_library(
    context: hbmwire.Context, pair: Pair
) -> None:
    calls: list[Callable[[], object]] = []
    for letter in ("ö", "中", "🙂"):
        for before in range(4):
            name = "h" * before + letter * 80
            calls.append(partial(context.connect, name + ":1", timeout=5))
            calls.append(partial(pair.here.remote, name, timeout=5))
    calls.append(lambda: context.connect("hö" * 40 + ":1", timeout=5))
    for call in calls:
        with pytest.raises(hbmwire.Error) as raised:
            call()
        assert str(raised.value).encode("utf-8", "surrogatepass")
        assert raised.value.code and raised.value.subject


@pytest.mark.parametrize("letters", ["hö" * 40, "中" * 60, "x" + "🙂" * 40], ids=range(2, 5))
def test_names_that_are_long_and_not_ascii_are_refused_by_the_library(
    context: hbmwire.Context, pair: Pair, letters: str
) -> None:
    pair.listener.advertise(letters[:40], pair.memory)
    calls: list[Callable[[], object]] = [
        lambda: context.allocate("host", 4096, device=letters),
        lambda: context.allocate("cuda", 4096, device=letters),
        lambda: context.register(bytearray(64), device=letters),
        lambda: context.listen(0, letters),
        lambda: pair.listener.advertise(letters[:40], pair.memory),
        lambda: pair.listener.withdraw(letters),
    ]
    for number, call in enumerate(calls):
        try:
            call()
        except hbmwire.Error as error:
            assert error.code and str(error)
        else:
            pytest.fail(f"call {number} was not refused")


# --- truth and length


def test_an_empty_message_is_true_and_a_closed_one_is_false(
    make_pair: Callable[..., Pair],
) -> None:
    pair = make_pair(messages="handed_out")
    worker = pair.context.worker
    for text in (b"one", b"", b"three"):
        pair.there.send(text).wait(10)
    for text in (b"one", b"", b"three"):
        message = worker.next_message(10)
        assert message
        assert message.data == text
        assert len(message) == message.nbytes == len(text)
        message.close()
        assert not message
        message.close()
        assert not message
    assert not worker.try_message()


def test_a_loop_takes_all_messages(
    make_pair: Callable[..., Pair],
) -> None:
    pair = make_pair(messages="handed_out")
    worker = pair.context.worker
    for text in (b"one", b"", b"three"):
        pair.there.send(text).wait(10)
    first = worker.next_message(10)
    came = [first.data]
    first.close()

    def take() -> bool:
        while message := worker.try_message():
            came.append(message.data)
            message.close()
        return len(came) == 3

    eventually(take)
    assert came == [b"one", b"", b"three"]


def test_a_message_that_was_let_go_still_says_where_it_came_from() -> None:
    with hbmwire.Context() as context, context.listen(messages="handed_out") as listener:
        with context.connect(f"127.0.0.1:{listener.port}") as peer:
            accepted = listener.accept(10)
            peer.send(b"hello", tag=7)
            message = context.worker.next_message(10)
            message.close()
            assert (message.endpoint_id, message.tag, message.nbytes) == (accepted.id, 7, 5)
            with pytest.raises(hbmwire.InvalidArgument):
                message.data  # noqa: B018
    assert (accepted.phase, accepted.closed) == ("closed", True)


def test_lengths_are_in_bytes_parts_and_blocks(pair: Pair) -> None:
    source, remote = pair.source, pair.remote
    assert len(source) == source.nbytes == len(remote) == remote.nbytes == 1 << 16
    here, there = source[16:48], remote[16:48]
    assert len(here) == here.nbytes == len(there) == there.nbytes == 32
    assert len(source[5:2]) == len(remote[5:2]) == 0
    assert len(source.blocks(4096)) == len(remote.blocks(4096)) == 16
    assert len(pair.here.prepare_put([(source[:8], remote[:8])] * 3)) == 3
    assert len(pair.here.prepare_put([])) == 0
    assert source and remote and pair.here and pair.listener and pair.worker


# --- endpoints and transfers


def test_an_endpoint_is_closed_after_close(pair: Pair) -> None:
    assert not pair.here.closed and not pair.there.closed
    pair.here.close(10)
    assert pair.here.closed and pair.here.phase == "closed"
    pair.there.wait_closed(10)
    assert pair.there.phase != "ready"
    pair.here.close(10)  # a second time: there is nothing left to do
    with pytest.raises(hbmwire.Error):
        pair.here.send(b"late").wait(10)


def test_an_endpoint_is_closed_after_its_with_block(context: hbmwire.Context, pair: Pair) -> None:
    with pair.here as endpoint:
        assert not endpoint.closed
    assert endpoint.closed and pair.here is endpoint


def test_the_value_of_a_transfer_is_refused_before_its_end(pair: Pair) -> None:
    immediate = pair.here.receive_immediate()
    with pytest.raises(hbmwire.Busy, match="wait") as raised:
        _ = immediate.value
    assert raised.value.code == "busy"
    there = pair.there.remote(bytes(pair.source.pack_key(access="remote_write")))
    receive = pair.here.receive(pair.source[:64], tag=5)
    with pytest.raises(hbmwire.Busy):
        _ = receive.value
    pair.there.send(b"tagged", tag=5).wait(10)
    assert receive.wait(10).value == 5
    assert not immediate.done
    assert there.nbytes == len(pair.source)


# --- lists of parts


def unsigned(number: int) -> int:
    return ctypes.c_uint64(number).value


# Columns of N x 3, or of N x 2 with one length for all, and the text of the refusal.
REFUSED: dict[str, tuple[Any, int | None, str]] = {
    "the-last-byte-here": ([(0, 0, 8), ((1 << 16) - 7, 0, 8)], None, "part 1 .* here"),
    "the-last-byte-there": ([(0, (1 << 16) - 7, 8), (0, 0, 8)], None, "part 0 .* there"),
    "in-the-midst": ([(0, 0)] * 50 + [(0, 1 << 16)] + [(0, 0)] * 50, 8, "part 50 .* there"),
    "a-negative-offset": ([(0, 0, 8), (0, 8, 8), (unsigned(-8), 0, 8)], None, "part 2 .* here"),
    "a-sum-beyond-64-bits": ([(unsigned(-8), 0, 16)], None, "part 0 .* here"),
    "a-huge-length": ([(0, 0)], 1 << 63, "part 0 .* here"),
    "a-length-over-the-region": ([(0, 0)], (1 << 16) + 1, "part 0 .* here"),
    "no-part": ([], None, "at least one"),
    "no-part-of-one-length": ([], 8, "at least one"),
}


@pytest.mark.parametrize("call", ["put_list", "get_list"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_part_that_leaves_its_region_is_named(pair: Pair, name: str, call: str) -> None:
    parts, length, text = REFUSED[name]
    columns = 3 if length is None else 2
    array = numpy.array(parts, dtype=numpy.uint64).reshape(-1, columns)
    pair.memory.write(b"\x55" * (1 << 16))
    pair.source.write(b"\xaa" * (1 << 16))
    with pytest.raises(hbmwire.InvalidArgument, match=text) as raised:
        getattr(pair.here, call)(pair.source, pair.remote, array, length=length)
    assert isinstance(raised.value, ValueError) and raised.value.code == "invalid_argument"
    pair.here.flush().wait(10)
    assert pair.memory.read() == b"\x55" * (1 << 16)
    assert pair.source.read() == b"\xaa" * (1 << 16)
