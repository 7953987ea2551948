#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Puts a tensor of this process into one of another process, without a copy.

    node2$ tensor.py --listen 7000
    node1$ tensor.py --connect node2:7000

Tensors are PyTorch's if it is installed, or else numpy's, or else arrays of Python itself. With
--memory gaudi, cuda or rocm the numbers are in memory of the card.
"""

from __future__ import annotations

import array
from typing import Any

import hbmwire

import ends

COUNT = 1 << 18
DONE = 7


def send(options: ends.Options) -> None:
    tensor = make_tensor(range(COUNT))
    # These lines are all that a put takes.
    with hbmwire.Context() as context, context.connect(options.connect, timeout=5) as peer:
        region = place(context, tensor, options.memory)
        theirs = peer.remote("tensor", timeout=5)
        put = peer.put(region, theirs, immediate=DONE, level="visible")
        put.wait(timeout=options.timeout)
        print(f"put {put.bytes} bytes: {put.explain()}")


def receive(options: ends.Options) -> None:
    tensor = make_tensor([0] * COUNT)
    with hbmwire.Context() as context:
        region = place(context, tensor, options.memory)
        with context.listen(options.listen, options.address) as listener:
            listener.advertise("tensor", region)
            ends.say_where(listener)
            with listener.accept(timeout=options.timeout) as peer:
                # The receive is over when the number has come; the bytes have come before it.
                number = peer.receive_immediate(region).wait(timeout=options.timeout).value
                peer.wait_closed(timeout=options.timeout)
        total = sum(array.array("d", region.read()))
    print(f"received {number}, and numbers whose sum is {total:.0f}")
    if number != DONE or total != sum(range(COUNT)):
        raise ends.Wrong("these are not the numbers that were sent")


def make_tensor(numbers: Any) -> Any:
    """A tensor of these numbers, as 64-bit floating point."""
    try:
        import torch

        return torch.tensor(numbers, dtype=torch.float64)
    except ImportError:
        pass
    try:
        import numpy

        return numpy.array(numbers, dtype=numpy.float64)
    except ImportError:
        return array.array("d", numbers)


def place(context: hbmwire.Context, tensor: Any, memory: ends.Memory) -> hbmwire.Region:
    """Registers the tensor's own memory, or memory of a card with the same bytes."""
    region = context.register(tensor)
    if memory == "host":
        return region
    on_card = context.allocate(memory, region.nbytes)
    on_card.write(region.read())
    return on_card


if __name__ == "__main__":
    ends.run(ends.parser_of(__doc__), listen=receive, connect=send)
