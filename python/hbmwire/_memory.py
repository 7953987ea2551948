# SPDX-License-Identifier: MIT
"""Memory of other libraries' objects: its place, and the object that keeps it there.

Context.register() accepts all of these, and asks describe():

* bytes-like objects and numpy arrays, by the buffer protocol (PEP 3118);
* PyTorch tensors on the CPU, on CUDA and ROCm GPUs, and on Gaudi cards ("hpu");
* objects with ``__cuda_array_interface__`` (CuPy, Numba), versions 2 and 3;
* objects with ``__dlpack__`` (JAX and others), versioned or not, and DLPack capsules;
* integers: (address, length) and (address, length, device);
* dma-bufs, as Dmabuf; memory that Context.attach() returned; hbmwire's own regions and slices.

The memory must be one piece in C order, and is never copied. Read-only memory is registered for
reading alone. The description holds an object that keeps the memory in place: a bytearray cannot be
resized meanwhile, and a tensor whose ``.data`` is replaced keeps its old memory for the region. Two
things cannot be held, so the program must not do them: ``tensor.resize_()``, and freeing memory
that was given by address.

The library does not wait for streams. Kernels that write the memory must be over before a put
begins (``torch.cuda.synchronize()``, ``htcore.mark_step()`` and ``torch.hpu.synchronize()``), and
a get must be over before kernels read it.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import operator
import re
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from . import _core, errors

__all__ = ["Dmabuf", "describe"]

# Kind, address, length in bytes, device, whether it is read-only, and the object that must live as
# long as the memory is registered.
_Kind: TypeAlias = Literal["address", "dmabuf", "attached"]
Description: TypeAlias = tuple[_Kind, int, int, str, bool, object]

_TAKEN = (
    "bytes-like objects, numpy arrays, PyTorch tensors, objects with __cuda_array_interface__ or "
    "__dlpack__, (address, length), (address, length, device), Dmabuf and attached memory"
)

# An object with these attributes is taken for a PyTorch tensor, without importing PyTorch.
_TENSOR = ("data_ptr", "device", "element_size", "is_contiguous", "numel")

# DLPack's types of devices whose memory this process can find by address.
_DLPACK_HOST = frozenset({1, 3, 11})  # CPU; CUDA's and ROCm's pinned host memory
_DLPACK_GPU = frozenset({2, 10, 13})  # CUDA, ROCm, CUDA managed
_DLPACK_OTHER = {4: "OpenCL", 7: "Vulkan", 8: "Metal", 12: "ExtDev", 14: "oneAPI", 15: "WebGPU"}

_TYPESTR = re.compile(r"[<>|=]?([a-zA-Z])(\d+)(\[.*\])?")

_STRIDED = "its memory is not one piece in C order"
_CONTIGUOUS = "register a contiguous copy, or all of what it is a view of and slices of that region"


@dataclass(frozen=True)
class Dmabuf:
    """A dma-buf of any exporter (udmabuf, a dma-heap, DRM, another process), for register().

    fd: its descriptor, which stays the program's; the library keeps a duplicate.
    length, offset: the part to use, in bytes.
    mapping: the address at which the program has mapped `offset`; 0 if it has not.
    read_only: register it for reading alone, even if the descriptor allows writing.
    """

    fd: int
    length: int
    offset: int = 0
    mapping: int = 0
    read_only: bool = False


def describe(memory: object, device: str = "") -> Description:
    """Tells where the memory of an object lies, and which object keeps it there.

    `device` is the device that the program named, as for Context.find(); empty if it named none.
    Raises TypeError for objects that have no memory to register, InvalidArgument for memory that
    is strided, empty or nowhere, NotSupported for devices that the library does not know, and
    NotFound if an hpu tensor's own package is missing.
    """
    if isinstance(memory, Dmabuf):
        return "dmabuf", memory.mapping, memory.length, device, memory.read_only, memory
    if isinstance(memory, _core.AttachedMemory):
        return "attached", 0, memory.nbytes, device, not memory.writable, memory
    address, nbytes, found_on, read_only, owner = _locate(memory)
    if nbytes == 0:
        raise _refuse(memory, "it has no bytes to register")
    if address == 0:
        raise _refuse(memory, "its memory has no address")
    return "address", address, nbytes, device or found_on, read_only, owner


# Address, length, device, whether it is read-only, owner.
_Place: TypeAlias = tuple[int, int, str, bool, object]


def _locate(memory: object) -> _Place:
    if isinstance(memory, tuple):
        return _of_integers(memory)
    if isinstance(memory, (_core.Region, _core.Slice)):
        return _of_region(memory)
    if all(hasattr(memory, name) for name in _TENSOR):
        return _of_tensor(memory)
    interface = getattr(memory, "__cuda_array_interface__", None)
    if interface is not None:
        return _of_cuda_array(memory, interface)
    if _dlpack_device(memory) in _DLPACK_GPU:  # such objects may be bytes-like by mistake
        return _of_dlpack(memory)
    place = _of_buffer(memory)
    if place is not None:
        return place
    if hasattr(memory, "__dlpack__"):
        return _of_dlpack(memory)
    if type(memory).__name__ == "PyCapsule":
        return _of_capsule(memory, memory)
    raise TypeError(f"'{_name(memory)}' object has no memory to register; hbmwire takes {_TAKEN}")


def _name(memory: object) -> str:
    kind = type(memory)
    if kind.__module__ in ("builtins", "__main__"):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _refuse(
    memory: object, cause: str, remedy: str = "", *, code: str = "invalid_argument"
) -> errors.Error:
    return errors.make(code, cause, remedy, stage="register_memory", subject=_name(memory))


# --- integers


def _of_integers(memory: tuple[Any, ...]) -> _Place:
    if len(memory) not in (2, 3):
        raise TypeError(
            f"a tuple of {len(memory)} is no memory; hbmwire takes (address, length) and "
            "(address, length, device)"
        )
    address, length = (operator.index(number) for number in memory[:2])
    if address < 0 or length < 0 or address + length > 1 << 64:
        raise _refuse(memory, f"({address}, {length}) is no range of addresses")
    device = memory[2] if len(memory) == 3 else ""
    if not isinstance(device, str):
        device = str(operator.index(device))
    return address, length, device, False, None


# --- regions of hbmwire's own


def _of_region(memory: _core.Region | _core.Slice) -> _Place:
    # A slice keeps the memory even after its region was closed.
    part = memory[:] if isinstance(memory, _core.Region) else memory
    region = part.region
    read_only = not region.access - {"remote_read"}
    return region.address + part.offset, part.nbytes, region.device.pci_address, read_only, part


# --- the buffer protocol


def _of_buffer(memory: object) -> _Place | None:
    """The memory of an object with the buffer protocol; None for other objects."""
    try:
        address, nbytes, read_only, held = _core._buffer(memory)
    except TypeError:
        return None
    except (BufferError, ValueError) as error:
        if _is_strided(memory):
            raise _refuse(memory, _STRIDED, _CONTIGUOUS) from error
        # Some element types have a name in DLPack, but none in buffers (bfloat16).
        with contextlib.suppress(errors.Error, AttributeError):
            return _of_dlpack(memory)
        raise _refuse(memory, str(error)) from error
    return address, nbytes, "", read_only, held


def _is_strided(memory: Any) -> bool:
    flags: Any = getattr(memory, "flags", None)
    if hasattr(flags, "c_contiguous"):  # numpy, which has element types that memoryview refuses
        return not flags.c_contiguous
    try:
        with memoryview(memory) as view:
            return not view.c_contiguous
    except (BufferError, TypeError, ValueError):
        return False


# --- __cuda_array_interface__


def _of_cuda_array(memory: object, interface: dict[str, Any]) -> _Place:
    version = interface.get("version")
    if version not in (2, 3):
        cause = f"its __cuda_array_interface__ is of version {version}; versions 2 and 3 are known"
        raise _refuse(memory, cause, code="not_supported")
    if interface.get("mask") is not None:
        cause = "its __cuda_array_interface__ has a mask, which would not be transferred"
        raise _refuse(memory, cause, "register its data alone")
    typestr = _TYPESTR.fullmatch(interface["typestr"])
    if typestr is None or typestr[1] in "Ot":
        raise _refuse(memory, f"elements of the type {interface['typestr']!r} are no plain bytes")
    item = int(typestr[2]) * (4 if typestr[1] == "U" else 1)
    shape = interface["shape"]
    if not _in_c_order(shape, interface.get("strides"), item):
        raise _refuse(memory, _STRIDED, _CONTIGUOUS)
    address, read_only = interface["data"]
    # The address tells which GPU's memory it is.
    return address, math.prod(shape) * item, "", bool(read_only), memory


def _in_c_order(shape: tuple[int, ...], strides: tuple[int, ...] | None, item: int) -> bool:
    """Whether elements of `item` bytes lie side by side; strides are in bytes."""
    if strides is None or 0 in shape:
        return True
    for length, stride in zip(reversed(shape), reversed(strides)):
        if length != 1 and stride != item:
            return False
        item *= length
    return True


# --- DLPack


def _dlpack_device(memory: Any) -> int | None:
    ask = getattr(memory, "__dlpack_device__", None)
    try:
        return None if ask is None else int(ask()[0])
    except BufferError:  # for example on several devices; __dlpack__() raises it, too
        return None


def _of_dlpack(memory: Any) -> _Place:
    kind = _dlpack_device(memory)
    if kind is not None:
        _check_dlpack_device(memory, kind)
    # -1: the producer need not order its streams before ours, since we use none.
    stream = {"stream": -1} if kind in _DLPACK_GPU else {}
    try:
        capsule = _ask_for_capsule(memory, stream)
    except BufferError as error:
        raise _refuse(memory, str(error)) from error
    return _of_capsule(memory, capsule)


def _ask_for_capsule(memory: Any, stream: dict[str, int]) -> object:
    # Producers older than DLPack 1.0 know none of these keywords, and some know only the first.
    try:
        return memory.__dlpack__(**stream, max_version=(1, 0), copy=False)
    except TypeError:
        pass
    try:
        return memory.__dlpack__(**stream, max_version=(1, 0))
    except TypeError:
        return memory.__dlpack__(**stream)


def _of_capsule(memory: object, capsule: object) -> _Place:
    try:
        address, nbytes, kind, _, read_only, contiguous, held = _core._dlpack(capsule)
    except BufferError as error:
        raise _refuse(memory, str(error)) from error
    _check_dlpack_device(memory, kind)
    if not contiguous:
        raise _refuse(memory, _STRIDED, _CONTIGUOUS)
    # The address tells which GPU's memory it is.
    return address, nbytes, "", read_only, held


def _check_dlpack_device(memory: object, kind: int) -> None:
    if kind in _DLPACK_HOST or kind in _DLPACK_GPU:
        return
    name = _DLPACK_OTHER.get(kind, "unknown")
    raise _refuse(
        memory,
        f"it is on a device of DLPack's type {kind} ({name}), whose memory hbmwire does not know",
        "copy it to the host, or register its dma-buf as a Dmabuf",
        code="not_supported",
    )


# --- PyTorch


def _of_tensor(tensor: Any) -> _Place:
    where = str(tensor.device.type)
    if str(getattr(tensor, "layout", "torch.strided")) != "torch.strided":
        cause = f"its layout is {tensor.layout}"
        raise _refuse(tensor, cause, "register the dense tensors that it is made of")
    if not tensor.is_contiguous():
        raise _refuse(
            tensor,
            f"{_STRIDED} (strides {tuple(tensor.stride())})",
            "register tensor.contiguous(), which is a copy, or the tensor that it is a view of",
        )
    if _is(tensor, "is_conj") or _is(tensor, "is_neg"):
        raise _refuse(
            tensor,
            "it is a view whose values are computed when they are read",
            "register tensor.resolve_conj().resolve_neg()",
        )
    nbytes = int(tensor.numel()) * int(tensor.element_size())
    if where == "hpu":
        return (0 if nbytes == 0 else _hpu_address(tensor)), nbytes, "", False, tensor
    if where not in ("cpu", "cuda"):
        raise _refuse(
            tensor,
            f"it is on a device of the type {where!r}, whose memory hbmwire does not know",
            "copy it to the host, or register its dma-buf as a Dmabuf",
            code="not_supported",
        )
    # A second tensor of the same storage. It keeps no graph of autograd, and it keeps the storage
    # even if the program gives its own tensor another one (`parameter.data = ...`).
    held = tensor.detach()
    return int(held.data_ptr()), nbytes, "", False, held


def _is(tensor: Any, name: str) -> bool:
    ask = getattr(tensor, name, None)
    return ask is not None and bool(ask())


_HPU_REMEDY = (
    "register the tensor that owns the memory, after htcore.mark_step(), and take slices of the "
    "region"
)


def _hpu_address(tensor: Any) -> int:
    """The address on the card. tensor.data_ptr() is only a number of the framework's."""
    # In eager mode _data_ptr() gives the beginning of the storage, even for views that begin
    # elsewhere. In lazy mode it gives the beginning of the view, or refuses.
    offset = int(tensor.storage_offset())
    if offset != 0:
        raise _refuse(
            tensor, f"it is a view that begins {offset} elements into its hpu memory", _HPU_REMEDY
        )
    try:
        experimental = importlib.import_module("habana_frameworks.torch.utils.experimental")
    except ImportError as error:
        raise _refuse(
            tensor,
            f"habana_frameworks, which knows its address, can't be loaded: {error}",
            "install Intel Gaudi's PyTorch bridge in this environment",
            code="not_found",
        ) from error
    try:
        address = int(experimental._data_ptr(tensor))
    except RuntimeError as error:
        cause = f"habana_frameworks knows no address of it: {error}"
        raise _refuse(tensor, cause, _HPU_REMEDY) from error
    if address == 0:
        raise _refuse(
            tensor,
            "habana_frameworks knows no address of it: it has no memory on a card yet, or there is "
            "no card",
            _HPU_REMEDY,
        )
    # _data_ptr() returns a signed number.
    return address & ((1 << 64) - 1)
