# SPDX-License-Identifier: MIT
"""Lists of descriptors for hbmwire.nixl: memory by addresses, lengths and devices."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

from . import _memory, _places, errors

__all__ = [
    "DRAM_SEG",
    "VRAM_SEG",
    "deserialize",
    "nixlRegDList",
    "nixlXferDList",
    "serialize",
    "type_and_rows",
]

DRAM_SEG = "DRAM"
VRAM_SEG = "VRAM"

# Words for memory. The address alone tells where memory lies; the word and the device must only be
# the same when memory is registered and when it is used.
_MEMORY = {
    "DRAM": DRAM_SEG,
    "VRAM": VRAM_SEG,
    "cpu": DRAM_SEG,
    "cuda": VRAM_SEG,
    "hpu": VRAM_SEG,
    "xpu": VRAM_SEG,
    "rocm": VRAM_SEG,
}


class _DList:
    """Descriptors of one kind of memory: each has an address, a length and a device."""

    def __init__(self, mem_type: str, descriptors: Any, lengths: Sequence[int]) -> None:
        if mem_type not in _MEMORY:
            raise errors.make(
                "invalid_argument",
                f"the memory type {mem_type!r} is none of {', '.join(_MEMORY)}",
            )
        self._type = _MEMORY[mem_type]
        self._rows: array[int] = _places.rows_of(descriptors, lengths)

    def getType(self) -> str:
        """DRAM_SEG or VRAM_SEG."""
        return self._type

    def descCount(self) -> int:
        """How many descriptors there are."""
        return len(self._rows) // 3

    def isEmpty(self) -> bool:
        """Whether there are none."""
        return not self._rows

    def clear(self) -> None:
        """Drops all of them."""
        del self._rows[:]

    def __len__(self) -> int:
        return self.descCount()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _DList) or type(self) is not type(other):
            return NotImplemented
        return self._type == other._type and self._rows == other._rows

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.descCount()} in {self._type}>"

    def _row(self, index: int) -> tuple[int, int, int]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"{index} of {len(self)} descriptors")
        at = 3 * (index % len(self))
        address, length, device = self._rows[at : at + 3]
        return address, length, device

    def _iterate(self) -> Iterator[tuple[int, int, int]]:
        return zip(self._rows[0::3], self._rows[1::3], self._rows[2::3])


class nixlXferDList(_DList):
    """Memory to transfer: tuples (address, length, device)."""

    def __init__(self, type: str, descs: Any = ()) -> None:
        super().__init__(type, descs, (3,))

    def __getitem__(self, index: int) -> tuple[int, int, int]:
        return self._row(index)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return self._iterate()

    def addDesc(self, desc: tuple[int, int, int]) -> None:
        """Appends one."""
        self._rows.extend(_places.rows_of([desc]))

    append = addDesc


class nixlRegDList(_DList):
    """Memory to register: tuples (address, length, device, text). The text has no meaning here."""

    def __init__(self, type: str, descs: Any = ()) -> None:
        super().__init__(type, descs, (3, 4))

    def __getitem__(self, index: int) -> tuple[int, int, int, bytes]:
        return (*self._row(index), b"")

    def __iter__(self) -> Iterator[tuple[int, int, int, bytes]]:
        return ((*row, b"") for row in self._iterate())

    def addDesc(self, desc: tuple[int, int, int, str]) -> None:
        """Appends one."""
        self._rows.extend(_places.rows_of([desc], (3, 4)))

    append = addDesc


# --- as bytes

_DESCRIPTORS = struct.Struct("<16s4sBQ")
_DESCRIPTORS_MAGIC = b"hbmwire.descs/1\0"


def serialize(descs: _DList) -> bytes:
    """The list as bytes for another agent."""
    rows = array("Q", descs._rows)
    if sys.byteorder == "big":
        rows.byteswap()
    registration = isinstance(descs, nixlRegDList)
    head = _DESCRIPTORS.pack(_DESCRIPTORS_MAGIC, descs.getType().encode(), registration, len(descs))
    return head + rows.tobytes()


def deserialize(data: bytes) -> nixlXferDList | nixlRegDList:
    """Reads bytes of another process, which may be anything. Raises ProtocolError."""
    bad = errors.make(
        "protocol", "the bytes are no list of descriptors", "get_serialized_descs() makes them"
    )
    if len(data) < _DESCRIPTORS.size:
        raise bad
    magic, word, registration, count = _DESCRIPTORS.unpack_from(data)
    row_bytes = 3 * 8  # address, length and device
    if magic != _DESCRIPTORS_MAGIC or len(data) != _DESCRIPTORS.size + row_bytes * count:
        raise bad
    mem_type = word.rstrip(b"\0").decode("ascii", "replace")
    if mem_type not in (DRAM_SEG, VRAM_SEG) or registration > 1:
        raise bad
    descs: nixlXferDList | nixlRegDList
    descs = nixlRegDList(mem_type) if registration else nixlXferDList(mem_type)
    descs._rows.frombytes(data[_DESCRIPTORS.size :])
    if sys.byteorder == "big":
        descs._rows.byteswap()
    return descs


# --- from objects of a program


def type_and_rows(descs: Any, mem_type: str | None) -> tuple[str, Any]:
    """The memory type and the descriptors of tensors, or of addresses. Raises InvalidArgument."""
    if isinstance(descs, _DList):
        raise errors.make(
            "invalid_argument",
            f"a {type(descs).__name__} is of the other kind",
            "get_reg_descs() makes lists to register, get_xfer_descs() those to transfer",
        )
    if _is_tensor(descs):
        return _tensor_rows([descs])
    if isinstance(descs, (list, tuple)) and descs and _is_tensor(descs[0]):
        return _tensor_rows(descs)
    if mem_type is None:
        raise errors.make("invalid_argument", "addresses need a mem_type", 'give "DRAM" or "VRAM"')
    return mem_type, descs


def _is_tensor(memory: object) -> bool:
    return hasattr(memory, "data_ptr") and hasattr(memory, "element_size")


def _tensor_rows(tensors: Sequence[Any]) -> tuple[str, list[tuple[int, int, int]]]:
    """The memory type of tensors, and the descriptors."""
    kinds = {str(tensor.device) for tensor in tensors}
    if len(kinds) != 1:
        raise errors.make("invalid_argument", f"tensors of several devices: {', '.join(kinds)}")
    rows = []
    for tensor in tensors:
        _, address, nbytes, *_ = _memory.describe(tensor)
        rows.append((address, nbytes, tensor.device.index or 0))
    return (DRAM_SEG if tensors[0].device.type == "cpu" else VRAM_SEG), rows
