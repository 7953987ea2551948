# SPDX-License-Identifier: MIT
"""Replaces PyTorch tensors on Gaudi cards: their memory is a region of an emulated card."""

from __future__ import annotations

import math
from dataclasses import dataclass

import hbmwire


@dataclass(frozen=True)
class Device:
    type: str = "hpu"
    index: int = 0


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


class HpuTensor:
    """A tensor of float32. `storage` is a region of the card; None if nothing was computed yet."""

    device = Device()
    layout = "torch.strided"

    def __init__(
        self,
        storage: hbmwire.Region | None,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        offset: int = 0,
        is_view: bool = False,
    ) -> None:
        self.storage = storage
        self.shape = shape
        self.strides = contiguous_strides(shape) if strides is None else strides
        self.offset = offset
        self.is_view = is_view

    def data_ptr(self) -> int:
        """A number that is no address of the card, as on real hardware."""
        return 0x7000_0000_0000 + 4 * self.offset

    def element_size(self) -> int:
        return 4

    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return 4 * self.numel()

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def storage_offset(self) -> int:
        return self.offset

    def is_contiguous(self) -> bool:
        return self.strides == contiguous_strides(self.shape)

    def detach(self) -> HpuTensor:
        raise AssertionError("detach() of an hpu tensor is a view, which may have no address")

    def rows(self, begin: int, end: int) -> HpuTensor:
        shape = (end - begin, *self.shape[1:])
        offset = self.offset + begin * self.strides[0]
        return HpuTensor(self.storage, shape, self.strides, offset, is_view=True)

    def transposed(self) -> HpuTensor:
        return HpuTensor(self.storage, self.shape[::-1], self.strides[::-1], self.offset, True)
