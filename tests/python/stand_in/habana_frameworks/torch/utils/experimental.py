# SPDX-License-Identifier: MIT
"""The address of an hpu tensor, like the bridge's module of this name."""

from hpu_tensor import HpuTensor

# In lazy mode, a view that is not a separate tensor has no address. In eager mode, each tensor has
# the address of its storage, even if the tensor begins later in the storage.
lazy = False


def _data_ptr(tensor: HpuTensor) -> int:
    storage = tensor.storage
    if storage is None:
        return 0
    if lazy and tensor.is_view:
        raise RuntimeError("GetLazyTensorDataPtr doesn't have tensor with HBM storage")
    # The bridge returns a signed number.
    return storage.address - (1 << 64) if storage.address >= 1 << 63 else storage.address
