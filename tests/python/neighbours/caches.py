# SPDX-License-Identifier: MIT
"""A KV cache like vLLM's: a region for each layer, with blocks of one length."""

from __future__ import annotations

import random

import hbmwire


class Caches:
    """`layers` regions with `blocks` blocks of `block_bytes`, in one kind of memory."""

    def __init__(
        self,
        kind: str,
        layers: int = 3,
        blocks: int = 16,
        block_bytes: int = 4096,
        card: int = 0,
    ) -> None:
        self.kind = kind
        self.mem_type = "DRAM" if kind == "host" else "VRAM"
        self.blocks = blocks
        self.block_bytes = block_bytes
        self.device_id = 0
        # The memory belongs to the application; the agent has its own context.
        self._context = hbmwire.Context()
        device = {} if kind == "host" else {"device": str(card)}
        self.layers = [
            self._context.allocate(kind, blocks * block_bytes, **device)  # type: ignore[arg-type]
            for _ in range(layers)
        ]

    def close(self) -> None:
        for layer in self.layers:
            layer.close()
        self._context.close()

    @property
    def base_addresses(self) -> list[int]:
        return [layer.address for layer in self.layers]

    def regions(self) -> list[tuple[int, int, int, str]]:
        """The argument of get_reg_descs()."""
        return [(layer.address, layer.nbytes, self.device_id, "") for layer in self.layers]

    def descriptors(self) -> list[tuple[int, int, int]]:
        return block_descriptors(self.base_addresses, self.blocks, self.block_bytes, self.device_id)

    def fill(self, seed: int) -> None:
        for number, layer in enumerate(self.layers):
            layer.write(
                b"".join(
                    pattern(seed, number, block, self.block_bytes) for block in range(self.blocks)
                )
            )

    def clear(self) -> None:
        for layer in self.layers:
            layer.write(bytes(layer.nbytes))

    def block(self, layer: int, block: int) -> bytes:
        return self.layers[layer].read(block * self.block_bytes, self.block_bytes)


def block_descriptors(
    base_addresses: list[int], blocks: int, block_bytes: int, device_id: int
) -> list[tuple[int, int, int]]:
    """Descriptor number layer * blocks + block is that block of that layer."""
    return [
        (base + block * block_bytes, block_bytes, device_id)
        for base in base_addresses
        for block in range(blocks)
    ]


def descriptor_ids(layers: int, blocks: int, block_ids: list[int]) -> list[int]:
    """The descriptor numbers of these blocks in every layer."""
    return [layer * blocks + block for layer in range(layers) for block in block_ids]


def pattern(seed: int, layer: int, block: int, nbytes: int) -> bytes:
    return random.Random(f"{seed} {layer} {block}").randbytes(nbytes)
