# SPDX-License-Identifier: MIT
"""Memory of other libraries' objects: Context.register() and describe(), and DLPack both ways."""

from __future__ import annotations

import array
import ctypes
import gc
import importlib
import mmap
import pathlib
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from multiprocessing import shared_memory
from typing import Any, ClassVar, Final

import numpy
import pytest

import hbmwire
from conftest import Pair
from hbmwire import _core
from hbmwire._memory import describe

STAND_IN = pathlib.Path(__file__).parent / "stand_in"
sys.path.insert(0, str(STAND_IN))
import hpu_tensor  # noqa: E402  (of STAND_IN)

experimental = importlib.import_module("habana_frameworks.torch.utils.experimental")

# DLPack's numbers of devices.
CPU, CUDA, CUDA_HOST, ROCM, ROCM_HOST, ONEAPI = 1, 2, 3, 10, 11, 14
PATTERN = bytes(range(1, 97))
# The access for memory that a peer only reads, and which may be read-only.
READ: Final = "remote_read"


def bytes_at_peer(pair: Pair, region: hbmwire.Region | hbmwire.Slice) -> bytes:
    """The region's bytes as they arrive at the other end."""
    pair.memory.write(bytes(len(region)))
    pair.here.put(region, pair.remote[: len(region)]).wait(10)
    return pair.memory.read(0, len(region))


def on_card(context: hbmwire.Context, kind: Any, nbytes: int = len(PATTERN)) -> hbmwire.Region:
    """Memory of a device that contains the pattern."""
    # A Gaudi has one owner, and a raised exception keeps its test's memory in a reference cycle.
    gc.collect()
    region = context.allocate(kind, nbytes)
    region.write((PATTERN * (nbytes // len(PATTERN) + 1))[:nbytes])
    return region


def message_of(call: Callable[[], object], kind: type[Exception] = hbmwire.InvalidArgument) -> str:
    with pytest.raises(kind) as raised:
        call()
    return str(raised.value)


# --- bytes-like objects


def mapped() -> mmap.mmap:
    memory = mmap.mmap(-1, 4096)
    memory.write(PATTERN)
    return memory


BYTES_LIKE: dict[str, Callable[[], Any]] = {
    "bytes": lambda: PATTERN,
    "bytearray": lambda: bytearray(PATTERN),
    "memoryview": lambda: memoryview(bytearray(PATTERN)),
    "part of a memoryview": lambda: memoryview(bytearray(PATTERN))[7:50],
    "array.array": lambda: array.array("d", PATTERN),
    "mmap": mapped,
    "ctypes array": lambda: (ctypes.c_uint8 * len(PATTERN))(*PATTERN),
    "ctypes structure": lambda: ctypes.c_uint64(0x0102030405060708),
    "numpy array": lambda: numpy.frombuffer(bytearray(PATTERN), "f4").reshape(2, 3, 4),
    "numpy row": lambda: numpy.arange(12.0).reshape(3, 4)[1],
    "numpy scalar in an array": lambda: numpy.array(7.5),
    "numpy dates": lambda: numpy.array(["2026-01-01", "2026-01-02"], "M8[D]"),
    "numpy structures": lambda: numpy.zeros(3, [("Offset", "u8"), ("length", "u4")]),
    "numpy one column": lambda: numpy.arange(6, dtype="u2").reshape(6, 1)[:, :],
}


@pytest.mark.parametrize("kind", BYTES_LIKE)
def test_bytes_like_memory_is_registered_where_it_lies(
    context: hbmwire.Context, pair: Pair, kind: str
) -> None:
    memory = BYTES_LIKE[kind]()
    # bytes() refuses some element types of numpy.
    wanted = memory.tobytes() if isinstance(memory, numpy.ndarray) else bytes(memory)
    region = context.register(memory, access=READ)
    assert region.type == "host"
    assert region.nbytes == len(wanted)
    assert ctypes.string_at(region.address, region.nbytes) == wanted
    assert bytes_at_peer(pair, region) == wanted


def test_an_array_lies_at_its_own_address(context: hbmwire.Context) -> None:
    memory = numpy.zeros(1000, "u4")
    region = context.register(memory)
    assert region.address == memory.ctypes.data
    assert region.nbytes == memory.nbytes


def test_shared_memory_of_multiprocessing_is_taken(context: hbmwire.Context, pair: Pair) -> None:
    shared = shared_memory.SharedMemory(create=True, size=4096)
    try:
        shared.buf[: len(PATTERN)] = PATTERN
        region = context.register(shared.buf)
        assert bytes_at_peer(pair, region[: len(PATTERN)]) == PATTERN
        region.close()
    finally:
        shared.close()
        shared.unlink()


def test_a_get_writes_into_an_array(context: hbmwire.Context, pair: Pair) -> None:
    memory = numpy.zeros(len(PATTERN), "u1")
    pair.memory.write(PATTERN)
    pair.here.get(context.register(memory), pair.remote[: len(PATTERN)]).wait(10)
    assert memory.tobytes() == PATTERN


# --- read-only memory


def read_only_array() -> Any:
    memory = numpy.arange(24, dtype="u4")
    memory.flags.writeable = False
    return memory


READ_ONLY: dict[str, Callable[[], Any]] = {
    "bytes": lambda: PATTERN,
    "read-only memoryview": lambda: memoryview(bytearray(PATTERN)).toreadonly(),
    "read-only numpy array": read_only_array,
    "numpy array over bytes": lambda: numpy.frombuffer(PATTERN, "u1"),
    "read-only mmap": lambda: mmap.mmap(-1, 4096, access=mmap.ACCESS_READ),
}


@pytest.mark.parametrize("kind", READ_ONLY)
def test_read_only_memory_is_registered_for_reading_alone(
    context: hbmwire.Context, kind: str
) -> None:
    memory = READ_ONLY[kind]()
    assert describe(memory)[4]  # whether it is read-only
    region = context.register(memory)
    assert region.access <= {"remote_read"}


@pytest.mark.parametrize("access", ["remote_write", "local_write", "remote_atomic"])
@pytest.mark.parametrize("kind", READ_ONLY)
def test_writing_to_read_only_memory_is_refused(
    context: hbmwire.Context, kind: str, access: Any
) -> None:
    memory = READ_ONLY[kind]()
    message = message_of(lambda: context.register(memory, access=access), hbmwire.PermissionDenied)
    assert "read-only" in message


def test_a_get_into_read_only_memory_is_refused(context: hbmwire.Context, pair: Pair) -> None:
    region = context.register(PATTERN)
    with pytest.raises(hbmwire.Error):
        pair.here.get(region, pair.remote[: len(PATTERN)]).wait(10)
    assert PATTERN == bytes(range(1, 97))


def test_writable_memory_can_be_registered_for_reading_alone(context: hbmwire.Context) -> None:
    assert context.register(bytearray(8), access=READ).access == {"remote_read"}


# --- refusals


class CudaArray:
    """Describes its memory like arrays of CuPy and Numba."""

    def __init__(
        self, address: int, shape: tuple[int, ...], typestr: str = "<f4", **more: Any
    ) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "data": (address, False),
            "strides": None,
            "version": 3,
            "stream": None,
            **more,
        }


class Exporter:
    """Exports an array by DLPack in the way of libraries before DLPack 1.0."""

    def __init__(self, memory: Any, device: int = CPU) -> None:
        self.memory = memory
        self.device = device

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device, 0)

    def __dlpack__(self, stream: object = None) -> object:
        return self.memory.__dlpack__()


STRIDED: dict[str, Callable[[], Any]] = {
    "numpy column": lambda: numpy.zeros((4, 4))[:, 1],
    "every second element": lambda: numpy.zeros(8)[::2],
    "backwards": lambda: numpy.zeros(8)[::-1],
    "transposed": lambda: numpy.zeros((2, 3)).T,
    "Fortran order": lambda: numpy.asfortranarray(numpy.zeros((2, 3))),
    "broadcast": lambda: numpy.broadcast_to(numpy.zeros(3), (2, 3)),
    "read-only and strided": lambda: read_only_array()[::2],
    "dates": lambda: numpy.zeros(4, "M8[s]")[::2],
    "memoryview": lambda: memoryview(bytearray(8))[::2],
    "CUDA array": lambda: CudaArray(4096, (4, 4), strides=(32, 4)),
    "CUDA array in Fortran order": lambda: CudaArray(4096, (4, 4), strides=(4, 16)),
    "DLPack": lambda: Exporter(numpy.zeros((4, 4))[:, :2]),
    "hpu tensor": lambda: hpu_tensor.HpuTensor(None, (2, 3)).transposed(),
}


@pytest.mark.parametrize("kind", STRIDED)
def test_strided_memory_is_refused_with_a_remedy(context: hbmwire.Context, kind: str) -> None:
    memory = STRIDED[kind]()
    with pytest.raises(hbmwire.InvalidArgument, match="not one piece in C order") as raised:
        context.register(memory, access=READ)
    error = raised.value
    assert isinstance(error, ValueError)
    assert (error.code, error.stage) == ("invalid_argument", "register_memory")
    assert "contiguous" in error.remedy
    assert error.subject.split(".")[-1] == type(memory).__name__


EMPTY: dict[str, Callable[[], Any]] = {
    "bytes": lambda: b"",
    "bytearray": lambda: bytearray(),
    "numpy array": lambda: numpy.zeros((0, 4)),
    "strided numpy array": lambda: numpy.zeros((4, 4))[:0, ::2],
    "integers": lambda: (4096, 0),
    "CUDA array": lambda: CudaArray(0, (0, 7)),
    "strided CUDA array": lambda: CudaArray(0, (0, 7), strides=(1, 3)),
    "DLPack": lambda: Exporter(numpy.zeros((3, 0))),
    "hpu tensor": lambda: hpu_tensor.HpuTensor(None, (0, 4)),
}


@pytest.mark.parametrize("kind", EMPTY)
def test_empty_memory_is_refused(context: hbmwire.Context, kind: str) -> None:
    assert "no bytes" in message_of(lambda: context.register(EMPTY[kind]()))


@pytest.mark.parametrize("memory", ["text", None, 7, 1.5, object(), [1, 2], {"a": 1}, ()])
def test_other_objects_raise_a_type_error_that_names_the_accepted_ones(
    context: hbmwire.Context, memory: object
) -> None:
    with pytest.raises(TypeError) as raised:
        context.register(memory)
    assert "(address, length, device)" in str(raised.value)


def test_references_to_python_objects_are_refused(context: hbmwire.Context) -> None:
    array_of_objects: Any = numpy.array([object()])
    for memory in (
        array_of_objects,
        memoryview(array_of_objects),
        numpy.zeros(2, [("number", "u4"), ("name", "O")]),
        (ctypes.py_object * 2)(),
    ):
        assert "references to Python objects" in message_of(lambda: context.register(memory))


def test_a_released_memoryview_is_refused(context: hbmwire.Context) -> None:
    view = memoryview(bytearray(8))
    view.release()
    assert "released" in message_of(lambda: context.register(view))


# --- references that keep the memory


def test_a_registered_bytearray_cannot_be_resized(context: hbmwire.Context) -> None:
    memory = bytearray(64)
    region = context.register(memory)
    with pytest.raises(BufferError):
        memory.extend(b"more")
    with pytest.raises(BufferError):
        memory.clear()
    region.close()
    memory.extend(b"more")
    assert len(memory) == 68


def test_a_registered_array_cannot_be_resized(context: hbmwire.Context) -> None:
    memory = array.array("B", PATTERN)
    region = context.register(memory)
    with pytest.raises(BufferError):
        memory.append(1)
    del region
    memory.append(1)


def test_a_registered_map_cannot_be_unmapped(context: hbmwire.Context) -> None:
    memory = mmap.mmap(-1, 4096)
    region = context.register(memory)
    with pytest.raises(BufferError):
        memory.close()
    region.close()
    memory.close()


class Kept(bytearray):
    """A bytearray that supports weak references."""


def test_the_region_alone_keeps_its_owner(context: hbmwire.Context, pair: Pair) -> None:
    memory = Kept(PATTERN)
    alive = weakref.ref(memory)
    region = context.register(memory)
    del memory
    gc.collect()
    assert alive() is not None
    assert bytes_at_peer(pair, region) == PATTERN
    region.close()
    assert alive() is None


def test_a_slice_keeps_the_owner_of_a_closed_region(context: hbmwire.Context, pair: Pair) -> None:
    memory = Kept(PATTERN)
    alive = weakref.ref(memory)
    region = context.register(memory)
    part = region[8:16]
    del memory
    region.close()
    assert alive() is not None
    assert bytes_at_peer(pair, part) == PATTERN[8:16]
    del part
    assert alive() is None


def test_a_transfer_keeps_the_owner_of_memory_that_the_program_drops(
    context: hbmwire.Context, pair: Pair
) -> None:
    memory = Kept(64)
    alive = weakref.ref(memory)
    region = context.register(memory)
    transfer = pair.here.receive(region)
    del memory
    region.close()
    del region
    gc.collect()
    kept = alive()
    assert kept is not None
    pair.there.send(b"late bytes").wait(10)
    transfer.wait(10)
    assert kept[:10] == b"late bytes"
    del transfer, kept
    gc.collect()
    assert alive() is None


def test_a_transfer_without_a_handle_keeps_the_owner(context: hbmwire.Context, pair: Pair) -> None:
    memory = Kept(64)
    alive = weakref.ref(memory)
    pair.here.receive(context.register(memory))
    del memory
    gc.collect()
    kept = alive()
    assert kept is not None
    pair.there.send(b"nobody waits").wait(10)
    pair.here.flush().wait(10)
    assert kept[:12] == b"nobody waits"
    del kept
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("make", [lambda: bytearray(PATTERN), lambda: numpy.zeros(24)])
def test_references_are_counted_exactly(
    context: hbmwire.Context, make: Callable[[], object]
) -> None:
    memory = make()
    before = sys.getrefcount(memory)
    regions = [context.register(memory) for _ in range(10)]
    assert sys.getrefcount(memory) == before + 10
    for region in regions[:5]:
        region.close()
    del region
    assert sys.getrefcount(memory) == before + 5
    del regions
    gc.collect()
    assert sys.getrefcount(memory) == before


def test_a_refused_object_keeps_no_reference(context: hbmwire.Context) -> None:
    memory = numpy.zeros(24)
    strided = memory[::2]
    exporter = Exporter(strided)
    before = sys.getrefcount(memory), sys.getrefcount(strided)
    for _ in range(100):
        for refused in (strided, exporter):
            with pytest.raises(hbmwire.InvalidArgument):
                context.register(refused)
    gc.collect()
    assert (sys.getrefcount(memory), sys.getrefcount(strided)) == before


# --- integers, regions


def test_an_address_and_a_length_are_taken(context: hbmwire.Context, pair: Pair) -> None:
    memory = numpy.frombuffer(bytearray(PATTERN), "u1")
    region = context.register((memory.ctypes.data, memory.nbytes))
    assert region.owner is None
    assert bytes_at_peer(pair, region) == PATTERN


def test_numbers_of_numpy_are_taken_as_integers() -> None:
    found = describe((numpy.uint64(1 << 63), numpy.int32(16), numpy.int64(3)))
    assert found == ("address", 1 << 63, 16, "3", False, None)
    assert type(found[1]) is int


@pytest.mark.parametrize("memory", [(-1, 5), (5, -1), ((1 << 64) - 4, 5), (0, 5)])
def test_impossible_addresses_are_refused(context: hbmwire.Context, memory: Any) -> None:
    assert "address" in message_of(lambda: context.register(memory))


@pytest.mark.parametrize("memory", [(1.5, 5), ("1", 5), (1,), (1, 2, 3, 4), (1, 2, 1.5)])
def test_tuples_that_are_no_address_and_length_raise_a_type_error(
    context: hbmwire.Context, memory: Any
) -> None:
    with pytest.raises(TypeError):
        context.register(memory)


@pytest.mark.parametrize("kind", ["gaudi", "cuda", "rocm"])
def test_addresses_of_devices_are_found(context: hbmwire.Context, pair: Pair, kind: Any) -> None:
    memory = on_card(context, kind)
    region = context.register((memory.address, memory.nbytes))
    assert region.type == kind
    assert region.device.pci_address == memory.device.pci_address
    assert bytes_at_peer(pair, region) == PATTERN


@pytest.mark.parametrize("kind", ["gaudi", "cuda", "rocm"])
def test_a_device_may_be_named_beside_the_address(context: hbmwire.Context, kind: Any) -> None:
    memory = on_card(context, kind)
    name = memory.device.pci_address
    assert context.register((memory.address, memory.nbytes, name)).type == kind
    assert context.register((memory.address, memory.nbytes), device=name).type == kind


def gaudi_cards() -> list[str]:
    with hbmwire.Context(memory=["gaudi"]) as context:
        return [card.pci_address for probe in context.memory for card in probe.devices]


@pytest.mark.skipif(len(gaudi_cards()) < 2, reason="needs two Gaudi cards: emulate --gaudi 2")
@pytest.mark.parametrize("default", [False, True])
def test_an_address_of_two_cards_belongs_to_the_named_card(default: bool) -> None:
    gc.collect()
    cards = gaudi_cards()[:2]
    with hbmwire.Context(default_device=cards[1] if default else "") as context:
        # SynapseAI has one card per process.
        regions = [
            context.allocate("gaudi", 96, device=card, owner="hl_thunk") for card in cards
        ]
        assert regions[0].address == regions[1].address
        tensor = hpu_tensor.HpuTensor(regions[1], (24,))
        if default:
            assert context.register(tensor).device.pci_address == cards[1]
        else:
            assert "more than one card" in message_of(lambda: context.register(tensor))
        for card in cards:
            assert context.register(tensor, device=card).device.pci_address == card
            integers = (regions[1].address, 96, card)
            assert context.register(integers).device.pci_address == card


def test_the_device_that_a_call_names_goes_before_that_of_the_object() -> None:
    assert describe((4096, 16, "1"))[3] == "1"
    assert describe((4096, 16, "1"), "2")[3] == "2"
    assert describe(bytearray(8), "2")[3] == "2"


@pytest.mark.parametrize("kind", ["host", "gaudi", "cuda", "rocm"])
def test_a_region_of_another_context_is_taken(context: hbmwire.Context, kind: Any) -> None:
    with hbmwire.Context() as another:
        memory = on_card(another, kind)
        part = context.register(memory[16:32])
        assert (part.address, part.nbytes, part.type) == (memory.address + 16, 16, kind)
        memory.close()
        assert part.read() == PATTERN[16:32]
        part.close()


def test_a_region_that_is_read_only_stays_so(context: hbmwire.Context) -> None:
    region = context.register(PATTERN)
    assert describe(region)[4]
    assert not describe(context.register(bytearray(PATTERN)))[4]


# --- __cuda_array_interface__


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("kind", ["cuda", "rocm"])
def test_cuda_arrays_are_taken(
    context: hbmwire.Context, pair: Pair, kind: Any, version: int
) -> None:
    memory = on_card(context, kind)
    found = CudaArray(memory.address, (2, 3, 4), "<f4", version=version)
    region = context.register(found)
    assert (region.address, region.nbytes, region.type) == (memory.address, 96, kind)
    assert bytes_at_peer(pair, region) == PATTERN


def test_strides_in_c_order_are_taken() -> None:
    assert describe(CudaArray(4096, (2, 3), "<f8", strides=(24, 8)))[2] == 48
    assert describe(CudaArray(4096, (2, 1, 3), "<f8", strides=(24, 999, 8)))[2] == 48
    assert describe(CudaArray(4096, (), "<c16", strides=()))[2] == 16
    assert describe(CudaArray(4096, (5,), "<M8[ns]"))[2] == 40
    assert describe(CudaArray(4096, (5,), "<U3"))[2] == 60
    assert describe(CudaArray(4096, (5,), "|V2"))[2] == 10


def test_a_cuda_array_that_is_read_only_stays_so(context: hbmwire.Context) -> None:
    memory = on_card(context, "cuda")
    found = CudaArray(0, (96,), "|u1", data=(memory.address, True))
    assert context.register(found).access <= {"remote_read"}
    with pytest.raises(hbmwire.PermissionDenied):
        context.register(found, access="remote_write")


def test_a_region_keeps_a_cuda_array(context: hbmwire.Context) -> None:
    memory = on_card(context, "cuda")
    found = CudaArray(memory.address, (24,))
    before = sys.getrefcount(found)
    alive = weakref.ref(found)
    region = context.register(found)
    assert region.owner is found
    assert sys.getrefcount(found) == before + 1
    del found
    assert alive() is not None
    region.close()
    assert alive() is None


def test_cuda_arrays_that_cannot_be_transferred_are_refused() -> None:
    refused = message_of(lambda: describe(CudaArray(4096, (4,), version=1)), hbmwire.NotSupported)
    assert "version 1" in refused
    masked = CudaArray(4096, (4,), mask=CudaArray(8192, (4,), "|b1"))
    assert "mask" in message_of(lambda: describe(masked))
    assert "'|O'" in message_of(lambda: describe(CudaArray(4096, (4,), "|O")))
    assert "'nonsense'" in message_of(lambda: describe(CudaArray(4096, (4,), "nonsense")))


def test_a_region_of_a_gpu_is_a_cuda_array(context: hbmwire.Context) -> None:
    memory = on_card(context, "cuda")
    interface = memory.__cuda_array_interface__
    assert interface["data"][0] == memory.address
    assert (interface["shape"], interface["typestr"]) == ((96,), "|u1")
    with pytest.raises(AttributeError):
        context.allocate("host", 64).__cuda_array_interface__


# --- DLPack from other libraries


class DlTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DlTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DlTensor),
    ]


READ_ONLY_FLAG, COPIED_FLAG = 1, 2

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype = ctypes.c_void_p
capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
capsule_name = ctypes.pythonapi.PyCapsule_GetName
capsule_name.restype = ctypes.c_char_p
capsule_name.argtypes = [ctypes.py_object]
name_capsule = ctypes.pythonapi.PyCapsule_SetName
name_capsule.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Producer:
    """Makes a DLPack capsule by hand, like a library of any version, and counts the deletes."""

    # The memory that a capsule points to must live until the capsule is deleted.
    living: ClassVar[list[Producer]] = []

    def __init__(self, address: int, shape: tuple[int, ...], **fields: Any) -> None:
        self.living.append(self)
        self.versioned = fields.pop("versioned", False)
        self.keywords = fields.pop("keywords", ("max_version", "copy"))
        self.asked: list[dict[str, Any]] = []
        self.deleted = 0
        self.deleter = Deleter(self._delete)
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.managed = ManagedVersioned() if self.versioned else Managed()
        tensor = self.managed.tensor
        tensor.data, tensor.ndim = address, len(shape)
        tensor.device_type, tensor.code, tensor.bits, tensor.lanes = CPU, 1, 8, 1
        tensor.shape = ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64))
        strides = fields.pop("strides", None)
        if strides is not None:
            self.strides = (ctypes.c_int64 * len(strides))(*strides)
            tensor.strides = ctypes.cast(self.strides, ctypes.POINTER(ctypes.c_int64))
        for name in list(fields):
            if hasattr(tensor, name):
                setattr(tensor, name, fields.pop(name))
        if self.versioned:
            self.managed.major = 1
        if fields.pop("has_deleter", True):
            self.managed.deleter = ctypes.cast(self.deleter, ctypes.c_void_p).value
        for name, value in fields.items():
            setattr(self.managed, name, value)

    def _delete(self, managed: int) -> None:
        assert managed == ctypes.addressof(self.managed)
        self.deleted += 1

    def capsule(self) -> Any:
        name = b"dltensor_versioned" if self.versioned else b"dltensor"
        # Its destructor does nothing: a consumer that refuses the capsule deletes nothing.
        return new_capsule(ctypes.addressof(self.managed), name, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.managed.tensor.device_type, 0)

    def __dlpack__(self, **asked: Any) -> Any:
        self.asked.append(asked)
        unknown = set(asked) - {"stream", *self.keywords}
        if unknown:
            raise TypeError(f"__dlpack__() got an unexpected keyword argument {unknown}")
        return self.capsule()


def host_bytes() -> Any:
    return numpy.frombuffer(bytearray(PATTERN), "u1")


@pytest.mark.parametrize("versioned", [False, True])
def test_dlpack_memory_is_registered_where_it_lies(
    context: hbmwire.Context, pair: Pair, versioned: bool
) -> None:
    memory = host_bytes()
    producer = Producer(memory.ctypes.data, (96,), versioned=versioned)
    region = context.register(producer)
    assert (region.address, region.nbytes) == (memory.ctypes.data, 96)
    assert bytes_at_peer(pair, region) == PATTERN
    assert producer.deleted == 0
    region.close()
    assert producer.deleted == 1


def test_a_numpy_array_goes_by_dlpack_as_well_as_by_its_buffer() -> None:
    memory = numpy.arange(6, dtype="i2").reshape(2, 3)
    before = sys.getrefcount(memory)
    found = describe(Exporter(memory))
    assert found[1:3] == (memory.ctypes.data, 12)
    assert sys.getrefcount(memory) == before + 1
    del found
    assert sys.getrefcount(memory) == before


def test_producers_are_asked_for_dlpack_1_without_a_copy_first() -> None:
    memory = host_bytes()
    newest = Producer(memory.ctypes.data, (96,), versioned=True)
    describe(newest)
    assert newest.asked == [{"max_version": (1, 0), "copy": False}]
    without_copy = Producer(memory.ctypes.data, (96,), versioned=True, keywords=("max_version",))
    describe(without_copy)
    assert without_copy.asked[1:] == [{"max_version": (1, 0)}]
    oldest = Producer(memory.ctypes.data, (96,), keywords=())
    describe(oldest)
    assert oldest.asked[2:] == [{}]


def test_gpus_are_asked_not_to_wait_for_streams(context: hbmwire.Context, pair: Pair) -> None:
    memory = on_card(context, "cuda")
    producer = Producer(memory.address, (96,), device_type=CUDA, keywords=())
    region = context.register(producer)
    assert producer.asked[-1] == {"stream": -1}
    assert region.type == "cuda"
    assert bytes_at_peer(pair, region) == PATTERN


@pytest.mark.parametrize(("kind", "number"), [("cuda", CUDA), ("rocm", ROCM)])
def test_dlpack_memory_of_gpus_is_found(
    context: hbmwire.Context, pair: Pair, kind: Any, number: int
) -> None:
    memory = on_card(context, kind)
    producer = Producer(memory.address - 32, (4, 8), device_type=number, byte_offset=32 + 64)
    region = context.register(producer)
    assert (region.address, region.type) == (memory.address + 64, kind)
    assert bytes_at_peer(pair, region) == PATTERN[64:96]


@pytest.mark.parametrize("number", [CPU, CUDA_HOST, ROCM_HOST])
def test_host_memory_of_any_kind_is_the_hosts(context: hbmwire.Context, number: int) -> None:
    memory = host_bytes()
    producer = Producer(memory.ctypes.data, (96,), device_type=number)
    region = context.register(producer)
    assert (region.type, region.address) == ("host", memory.ctypes.data)
    assert all("stream" not in asked for asked in producer.asked)


def test_dlpack_is_asked_where_a_buffer_does_not_describe_the_elements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: object) -> None:
        raise BufferError("bfloat16 has no format")

    monkeypatch.setattr(_core, "_buffer", refuse)
    memory = host_bytes()
    assert describe(Producer(memory.ctypes.data, (96,)))[1] == memory.ctypes.data
    assert "bfloat16" in message_of(lambda: describe(bytearray(8)))


def test_read_only_dlpack_memory_stays_so(context: hbmwire.Context) -> None:
    memory = host_bytes()
    producer = Producer(memory.ctypes.data, (96,), versioned=True, flags=READ_ONLY_FLAG)
    assert context.register(producer).access <= {"remote_read"}
    with pytest.raises(hbmwire.PermissionDenied):
        context.register(producer, access="remote_write")
    assert producer.deleted == 2


def test_elements_of_any_size_are_counted() -> None:
    memory = host_bytes()
    for shape, fields, nbytes in (
        ((3, 4), {"bits": 32}, 48),
        ((3,), {"bits": 64, "lanes": 2}, 48),
        ((3, 5), {"bits": 4}, 8),
        ((), {"bits": 64}, 8),
        ((7,), {"bits": 16, "code": 4}, 14),
    ):
        producer = Producer(memory.ctypes.data, shape, **fields)
        assert describe(producer)[2] == nbytes, (shape, fields)


def test_the_strides_of_a_single_element_are_ignored() -> None:
    memory = host_bytes()
    producer = Producer(memory.ctypes.data, (2, 1, 3), strides=(3, 77, 1))
    assert describe(producer)[2] == 6
    producer = Producer(memory.ctypes.data, (2, 3), strides=(1, 2))
    assert "C order" in message_of(lambda: describe(producer))


def test_impossible_shapes_are_refused() -> None:
    memory = host_bytes()
    for shape in ((-1,), (1 << 62, 1 << 62), (1 << 62, 3)):
        producer = Producer(memory.ctypes.data, shape)
        assert "shape" in message_of(lambda: describe(producer))
        assert producer.deleted == 0


def test_another_major_version_of_dlpack_is_refused() -> None:
    memory = host_bytes()
    producer = Producer(memory.ctypes.data, (96,), versioned=True, major=2)
    assert "DLPack 2.0" in message_of(lambda: describe(producer))


def test_a_copy_is_refused() -> None:
    memory = host_bytes()
    producer = Producer(memory.ctypes.data, (96,), versioned=True, flags=COPIED_FLAG)
    assert "copy" in message_of(lambda: describe(producer))


def test_devices_that_hbmwire_does_not_know_are_refused() -> None:
    producer = Producer(4096, (96,), device_type=ONEAPI)
    message = message_of(lambda: describe(producer), hbmwire.NotSupported)
    assert "oneAPI" in message
    assert producer.asked == []


def test_a_producer_that_refuses_is_quoted() -> None:
    class Refusing:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (CPU, 0)

        def __dlpack__(self, **_: Any) -> object:
            raise BufferError("it has gradients")

    class OnManyDevices(Refusing):
        def __dlpack_device__(self) -> tuple[int, int]:
            raise BufferError("it is on two devices")

    for refusing in (Refusing(), OnManyDevices()):
        assert "it has gradients" in message_of(lambda: describe(refusing))


def test_capsules_are_used_once() -> None:
    memory = host_bytes()
    producer = Producer(memory.ctypes.data, (96,))
    capsule = producer.capsule()
    found = describe(capsule)
    assert capsule_name(capsule) == b"used_dltensor"
    assert "has been used" in message_of(lambda: describe(capsule))
    del capsule
    assert producer.deleted == 0
    del found
    assert producer.deleted == 1


def test_a_producer_without_a_deleter_is_taken() -> None:
    memory = host_bytes()
    producer = Producer(memory.ctypes.data, (96,), has_deleter=False)
    found = describe(producer)
    del found
    assert producer.deleted == 0


def test_a_refused_capsule_is_deleted_by_itself() -> None:
    memory = numpy.zeros((4, 4))
    before = sys.getrefcount(memory)
    strided = memory.T
    with pytest.raises(hbmwire.InvalidArgument):
        describe(Exporter(strided))
    del strided
    gc.collect()
    assert sys.getrefcount(memory) == before


# --- DLPack from hbmwire


def test_numpy_takes_a_host_region_by_dlpack(context: hbmwire.Context) -> None:
    region = context.allocate("host", 96)
    region.write(PATTERN)
    taken = numpy.from_dlpack(region)
    assert taken.dtype == numpy.uint8
    assert taken.shape == (96,)
    assert taken.ctypes.data == region.address
    assert taken.tobytes() == PATTERN
    region.write(b"new", offset=4)
    assert taken[4:7].tobytes() == b"new"


def test_an_array_keeps_the_memory_of_a_region_that_was_dropped(context: hbmwire.Context) -> None:
    memory = Kept(PATTERN)
    alive = weakref.ref(memory)
    region = context.register(memory)
    taken = numpy.from_dlpack(region)
    region.close()
    del memory, region
    gc.collect()
    assert alive() is not None
    assert taken.tobytes() == PATTERN
    del taken
    gc.collect()
    assert alive() is None


def exported(region: hbmwire.Region, versioned: bool) -> tuple[Any, Any]:
    capsule = region.__dlpack__(max_version=(1, 0)) if versioned else region.__dlpack__()
    name = b"dltensor_versioned" if versioned else b"dltensor"
    kind = ManagedVersioned if versioned else Managed
    return capsule, kind.from_address(capsule_pointer(capsule, name))


@pytest.mark.parametrize("versioned", [False, True])
def test_a_region_describes_itself_by_dlpack(context: hbmwire.Context, versioned: bool) -> None:
    region = context.allocate("host", 100)
    capsule, managed = exported(region, versioned)
    tensor = managed.tensor
    assert region.__dlpack_device__() == (CPU, 0)
    assert (tensor.data, tensor.byte_offset) == (region.address, 0)
    assert (tensor.device_type, tensor.device_id) == (CPU, 0)
    assert (tensor.ndim, tensor.shape[0], tensor.strides[0]) == (1, 100, 1)
    assert (tensor.code, tensor.bits, tensor.lanes) == (1, 8, 1)
    if versioned:
        assert (managed.major, managed.flags) == (1, 0)
    del capsule


@pytest.mark.parametrize(("kind", "number"), [("cuda", CUDA), ("rocm", ROCM)])
def test_a_region_of_a_gpu_names_it_by_dlpack(
    context: hbmwire.Context, kind: Any, number: int
) -> None:
    region = on_card(context, kind)
    assert region.__dlpack_device__() == (number, 0)
    _, managed = exported(region, True)
    assert (managed.tensor.device_type, managed.tensor.data) == (number, region.address)


def test_a_region_of_a_gaudi_has_no_dlpack(context: hbmwire.Context) -> None:
    region = on_card(context, "gaudi")
    with pytest.raises(BufferError, match="gaudi"):
        region.__dlpack__()
    with pytest.raises(BufferError, match="gaudi"):
        region.__dlpack_device__()


def test_a_read_only_region_says_so_by_dlpack_1_alone(context: hbmwire.Context) -> None:
    region = context.register(PATTERN)
    with pytest.raises(BufferError, match="read-only"):
        region.__dlpack__()
    _, managed = exported(region, True)
    assert managed.flags == READ_ONLY_FLAG


@pytest.mark.parametrize("versioned", [False, True])
def test_an_unused_capsule_lets_the_memory_go(context: hbmwire.Context, versioned: bool) -> None:
    memory = Kept(PATTERN)
    alive = weakref.ref(memory)
    region = context.register(memory)
    capsule, _ = exported(region, versioned)
    del memory
    region.close()
    assert alive() is not None
    del capsule
    assert alive() is None


@pytest.mark.parametrize("versioned", [False, True])
def test_the_deleter_may_be_called_without_the_gil(
    context: hbmwire.Context, versioned: bool
) -> None:
    memory = Kept(PATTERN)
    alive = weakref.ref(memory)
    region = context.register(memory)
    capsule, managed = exported(region, versioned)
    name_capsule(capsule, b"used_dltensor_versioned" if versioned else b"used_dltensor")
    del memory
    region.close()
    del capsule
    assert alive() is not None
    delete = Deleter(managed.deleter)  # ctypes releases the GIL for the call
    address = ctypes.addressof(managed)
    thread = threading.Thread(target=lambda: delete(address))
    thread.start()
    thread.join()
    assert alive() is None


def test_hbmwire_accepts_a_regions_own_exports(context: hbmwire.Context, pair: Pair) -> None:
    region = context.register(bytearray(PATTERN))
    for capsule in (region.__dlpack__(), region.__dlpack__(max_version=(1, 0))):
        again = context.register(capsule)
        assert again.address == region.address
        assert bytes_at_peer(pair, again) == PATTERN


def test_dlpack_to_another_device_or_of_a_copy_is_refused(context: hbmwire.Context) -> None:
    region = context.allocate("host", 64)
    with pytest.raises(BufferError):
        region.__dlpack__(dl_device=(CUDA, 0))
    with pytest.raises(BufferError):
        region.__dlpack__(copy=True)
    region.__dlpack__(dl_device=(CPU, 0), copy=False, max_version=(1, 1))


AT_EXIT = """
import ctypes, sys
import numpy
import hbmwire
context = hbmwire.Context()
array = numpy.from_dlpack(context.register(bytearray(64)))
capsule = context.allocate("host", 64).__dlpack__()
held = context.register(numpy.zeros(8))
sys.modules["kept"] = array  # dropped after the modules of the program
sys.modules["kept too"] = capsule
print("at the end")
"""


def test_exported_memory_outlives_the_program(tmp_path: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "at the end\n", "")


# --- dma-bufs, attached memory


def test_a_dmabuf_is_registered(context: hbmwire.Context, pair: Pair) -> None:
    memory = on_card(context, "gaudi", 8192)
    region = context.register(hbmwire.Dmabuf(fd=memory.dmabuf_fd, length=96))
    assert (region.type, region.nbytes) == ("dmabuf", 96)
    assert len(bytes_at_peer(pair, region)) == 96
    region.close()  # The card's driver frees no memory that is exported.


def test_a_dmabuf_is_described_as_it_is_given() -> None:
    memory = hbmwire.Dmabuf(fd=7, length=4096, offset=8192, mapping=1 << 40, read_only=True)
    assert describe(memory) == ("dmabuf", 1 << 40, 4096, "", True, memory)
    assert repr(memory).startswith("Dmabuf(fd=7, length=4096")


def test_a_dmabuf_that_is_read_only_is_registered_for_reading_alone(
    context: hbmwire.Context,
) -> None:
    exporter = on_card(context, "gaudi", 8192)
    memory = hbmwire.Dmabuf(exporter.dmabuf_fd, 4096, read_only=True)
    with context.register(memory) as region:
        assert region.access <= {"remote_read"}
    with pytest.raises(hbmwire.PermissionDenied):
        context.register(memory, access="remote_write")


def test_attached_memory_is_registered(context: hbmwire.Context, pair: Pair) -> None:
    memory = on_card(context, "gaudi", 8192)
    listener = hbmwire.AttachListener()
    publication = listener.publish(memory)
    ended = threading.Event()

    def answer() -> None:
        while not ended.is_set():
            listener.progress()
            ended.wait(0.001)

    answering = threading.Thread(target=answer)
    answering.start()
    try:
        attached = context.attach(publication.address)
    finally:
        ended.set()
        answering.join()
    assert describe(attached) == ("attached", 0, 8192, "", False, attached)
    region = context.register(attached)
    assert region.nbytes == 8192
    assert bytes_at_peer(pair, region[:96]) == PATTERN
    region.close()
    del attached
    publication.close()


# --- hpu tensors


@pytest.fixture
def lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experimental, "lazy", True)


def test_an_hpu_tensor_lies_where_the_bridge_says(context: hbmwire.Context, pair: Pair) -> None:
    storage = on_card(context, "gaudi")
    tensor = hpu_tensor.HpuTensor(storage, (4, 6))
    region = context.register(tensor)
    assert (region.type, region.address, region.nbytes) == ("gaudi", storage.address, 96)
    assert region.address != tensor.data_ptr()
    assert bytes_at_peer(pair, region) == PATTERN


def test_a_get_writes_into_an_hpu_tensor(context: hbmwire.Context, pair: Pair) -> None:
    storage = context.allocate("gaudi", 96)
    region = context.register(hpu_tensor.HpuTensor(storage, (24,)))
    pair.memory.write(PATTERN)
    pair.here.get(region, pair.remote[:96]).wait(10)
    assert storage.read() == PATTERN


def test_an_hpu_view_within_its_storage_is_refused(context: hbmwire.Context) -> None:
    # In eager mode the bridge returns the address of the storage.
    tensor = hpu_tensor.HpuTensor(on_card(context, "gaudi"), (4, 6))
    with pytest.raises(hbmwire.InvalidArgument, match="begins 6 elements into") as raised:
        context.register(tensor.rows(1, 3))
    assert "slices of the region" in raised.value.remedy


def test_an_hpu_view_at_the_beginning_of_its_storage_is_taken(context: hbmwire.Context) -> None:
    tensor = hpu_tensor.HpuTensor(on_card(context, "gaudi"), (4, 6))
    assert context.register(tensor.rows(0, 2)).nbytes == 48


@pytest.mark.usefixtures("lazy")
def test_an_hpu_view_without_an_address_is_refused(context: hbmwire.Context) -> None:
    tensor = hpu_tensor.HpuTensor(on_card(context, "gaudi"), (4, 6))
    with pytest.raises(hbmwire.InvalidArgument, match="HBM storage") as raised:
        context.register(tensor.rows(0, 2))
    assert "mark_step" in raised.value.remedy


def test_an_hpu_tensor_that_has_no_memory_yet_is_refused(context: hbmwire.Context) -> None:
    message = message_of(lambda: context.register(hpu_tensor.HpuTensor(None, (4, 6))))
    assert "mark_step" in message


def test_without_the_bridge_an_hpu_tensor_is_refused(
    context: hbmwire.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensor = hpu_tensor.HpuTensor(on_card(context, "gaudi"), (4, 6))
    # Importing it then raises ImportError.
    modules: dict[str, Any] = sys.modules
    monkeypatch.setitem(modules, "habana_frameworks.torch.utils.experimental", None)
    message = message_of(lambda: context.register(tensor), hbmwire.NotFound)
    assert "habana_frameworks" in message


def test_addresses_of_the_bridge_are_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experimental, "_data_ptr", lambda _: -4096)
    assert describe(hpu_tensor.HpuTensor(None, (4,)))[1] == (1 << 64) - 4096


def test_a_region_keeps_an_hpu_tensor(context: hbmwire.Context) -> None:
    tensor = hpu_tensor.HpuTensor(on_card(context, "gaudi"), (4, 6))
    alive = weakref.ref(tensor)
    region = context.register(tensor)
    assert region.owner is tensor
    del tensor
    assert alive() is not None
    del region
    assert alive() is None


def test_tensors_on_other_devices_are_refused() -> None:
    class OnXpu(hpu_tensor.HpuTensor):
        device = hpu_tensor.Device("xpu")

    message = message_of(lambda: describe(OnXpu(None, (4,))), hbmwire.NotSupported)
    assert "'xpu'" in message


def test_the_private_calls_refuse_other_arguments() -> None:
    with pytest.raises(TypeError):
        _core._buffer(7)
    with pytest.raises(TypeError):
        _core._dlpack(b"dltensor")
    with pytest.raises(BufferError):
        _core._dlpack(new_capsule(8, b"another", None))
