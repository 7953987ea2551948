# SPDX-License-Identifier: MIT
"""The address of an hpu tensor, as the module of this name of the bridge gives it."""

from hpu_tensor import HpuTensor

# In lazy mode a view that is no tensor of its own has no address; in eager mode each tensor has
# that of its storage, also one that begins elsewhere in it.
lazy = False


def _data_ptr(tensor: HpuTensor) -> int:
    storage = tensor.storage
    if storage is None:
        return 0
    if lazy and tensor.is_view:
        raise RuntimeError("GetLazyTensorDataPtr doesn't have tensor with HBM storage")
    # The bridge gives a signed number.
    return storage.address - (1 << 64) if storage.address >= 1 << 63 else storage.address
