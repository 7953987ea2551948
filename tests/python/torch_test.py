# SPDX-License-Identifier: MIT
"""PyTorch's own tensors. Debian's python3-torch suffices; without it this is skipped."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import pytest

import hbmwire
from conftest import Pair
from hbmwire._memory import describe

torch: Any = pytest.importorskip("torch", reason="python3-torch is not installed")


class Owner(bytearray):
    """A bytearray that supports weak references."""


def round_trip(context: hbmwire.Context, pair: Pair, source: Any, target: Any) -> None:
    """Puts one tensor to the peer, and reads the bytes into the other one."""
    region = context.register(source)
    pair.here.put(region, pair.remote[: len(region)]).wait(10)
    into = context.register(target)
    pair.here.get(into, pair.remote[: len(into)]).wait(10)


@pytest.mark.parametrize(
    "dtype", ["uint8", "bool", "int16", "float16", "bfloat16", "float32", "complex64", "float64"]
)
def test_a_tensor_goes_to_a_peer_and_back(
    context: hbmwire.Context, pair: Pair, dtype: str
) -> None:
    source = torch.arange(24).reshape(2, 3, 4).to(getattr(torch, dtype))
    target = torch.zeros_like(source)
    round_trip(context, pair, source, target)
    assert torch.equal(source, target)


def test_a_tensor_lies_at_its_own_address(context: hbmwire.Context) -> None:
    tensor = torch.zeros(5, 7)
    region = context.register(tensor)
    assert (region.type, region.address, region.nbytes) == ("host", tensor.data_ptr(), 140)


def test_a_contiguous_view_is_registered_where_it_begins(context: hbmwire.Context) -> None:
    tensor = torch.arange(12.0).reshape(3, 4)
    region = context.register(tensor[1])
    assert region.address == tensor.data_ptr() + 16
    assert region.read() == tensor[1].numpy().tobytes()


@pytest.mark.parametrize(
    "view",
    [
        lambda tensor: tensor.t(),
        lambda tensor: tensor[:, ::2],
        lambda tensor: tensor[:, :2],
        lambda tensor: tensor.expand(2, 3, 4),
    ],
)
def test_strided_tensors_are_refused(context: hbmwire.Context, view: Any) -> None:
    with pytest.raises(hbmwire.InvalidArgument, match="not one piece in C order") as raised:
        context.register(view(torch.zeros(3, 4)))
    assert "contiguous()" in raised.value.remedy


def test_tensors_without_plain_bytes_are_refused(context: hbmwire.Context) -> None:
    for tensor in (torch.eye(3).to_sparse(), torch.zeros(3, dtype=torch.complex64).conj()):
        with pytest.raises(hbmwire.InvalidArgument):
            context.register(tensor)
    with pytest.raises(hbmwire.InvalidArgument, match="no bytes"):
        context.register(torch.empty(0, 4))
    with pytest.raises(hbmwire.NotSupported, match="'meta'"):
        context.register(torch.empty(4, device="meta"))


def test_a_tensor_on_a_gpu_is_found_by_its_address(context: hbmwire.Context) -> None:
    # Debian's torch supports no GPU, so only the tensor's claim about its device is replaced.
    memory = context.allocate("cuda", 96)

    class OnGpu:
        device = torch.device("cuda", 0)
        layout = torch.strided

        def __init__(self, tensor: Any) -> None:
            self._tensor = tensor

        def __getattr__(self, name: str) -> Any:
            return getattr(self._tensor, name)

        def detach(self) -> OnGpu:
            return OnGpu(self._tensor.detach())

        def data_ptr(self) -> int:
            return memory.address

    region = context.register(OnGpu(torch.zeros(24)))
    assert (region.type, region.address, region.nbytes) == ("cuda", memory.address, 96)


def test_gradients_do_not_matter(context: hbmwire.Context, pair: Pair) -> None:
    parameter = torch.nn.Parameter(torch.arange(6.0))
    computed = parameter * 2
    target = torch.zeros(6, requires_grad=True)
    round_trip(context, pair, computed, target)
    assert torch.equal(computed, target)


def test_a_region_keeps_no_graph_of_autograd(context: hbmwire.Context) -> None:
    parameter = torch.nn.Parameter(torch.arange(6.0))
    computed = parameter * 2
    graph = weakref.ref(parameter)
    region = context.register(computed)
    del parameter, computed
    gc.collect()
    assert graph() is None
    assert region.read() == (2 * torch.arange(6.0)).numpy().tobytes()


def test_a_region_keeps_the_memory_of_a_tensor_that_was_dropped(context: hbmwire.Context) -> None:
    tensor = torch.arange(1000.0)
    wanted = tensor.numpy().tobytes()
    region = context.register(tensor)
    del tensor
    gc.collect()
    # These would overwrite freed memory.
    others = [torch.zeros(1000) for _ in range(100)]
    assert region.read() == wanted
    assert len(others) == 100


def test_a_region_keeps_the_former_memory_of_a_parameter(
    context: hbmwire.Context,
) -> None:
    parameter = torch.nn.Parameter(torch.ones(1000))
    region = context.register(parameter)
    parameter.data = torch.zeros(1000)
    assert region.address != parameter.data_ptr()
    assert region.read() == torch.ones(1000).numpy().tobytes()


def test_a_closed_region_gives_the_references_of_a_tensor_back(context: hbmwire.Context) -> None:
    tensor = torch.zeros(10)
    before = sys.getrefcount(tensor)
    for _ in range(100):
        context.register(tensor).close()
    gc.collect()
    assert sys.getrefcount(tensor) == before


def test_torch_takes_a_host_region_by_dlpack(context: hbmwire.Context) -> None:
    region = context.allocate("host", 96)
    region.write(bytes(range(96)))
    tensor = torch.from_dlpack(region)
    assert (tensor.dtype, tuple(tensor.shape)) == (torch.uint8, (96,))
    assert tensor.data_ptr() == region.address
    tensor[3] = 200
    assert region.read(3, 1) == bytes([200])


def test_a_tensor_keeps_the_memory_of_a_region_that_was_dropped(context: hbmwire.Context) -> None:
    owner = Owner(96)
    memory = weakref.ref(owner)
    region = context.register(owner)
    tensor = torch.from_dlpack(region).view(torch.float32)
    region.close()
    del owner, region
    gc.collect()
    assert memory() is not None
    assert tensor.sum() == 0
    del tensor
    gc.collect()
    assert memory() is None


class Wrapped:
    """Offers a tensor only through DLPack, like arrays of other libraries."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __dlpack__(self, **asked: Any) -> object:
        return self._tensor.__dlpack__(**asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, index = self._tensor.__dlpack_device__()
        return (kind, index)


def test_torchs_capsules_are_taken(context: hbmwire.Context) -> None:
    tensor = torch.arange(6, dtype=torch.int16).reshape(2, 3)
    for memory in (Wrapped(tensor), torch.utils.dlpack.to_dlpack(tensor)):
        region = context.register(memory)
        assert (region.address, region.nbytes) == (tensor.data_ptr(), 12)
    with pytest.raises(hbmwire.InvalidArgument, match="C order"):
        context.register(Wrapped(tensor.t()))


def test_torchs_dlpack_keeps_the_memory_until_the_region_is_closed(
    context: hbmwire.Context,
) -> None:
    region = context.register(Wrapped(torch.arange(1000.0)))
    gc.collect()
    # These would overwrite freed memory.
    others = [torch.zeros(1000) for _ in range(100)]
    assert region.read() == torch.arange(1000.0).numpy().tobytes()
    assert len(others) == 100


def test_torch_knows_the_device_name_hpu() -> None:
    # Makes a tensor on it print "hpu", which describe() expects.
    assert torch.device("hpu").type == "hpu"


def test_a_scalar_tensor_is_taken() -> None:
    tensor = torch.tensor(3.0)
    assert describe(tensor)[1:3] == (tensor.data_ptr(), 4)
