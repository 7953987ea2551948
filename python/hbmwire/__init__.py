# SPDX-License-Identifier: MIT
"""Zero-copy RDMA between accelerator memories through DMA-BUF.

    import hbmwire
    with hbmwire.Context(require="zero_copy") as ctx, ctx.connect("node2:7000", timeout=5) as peer:
        region = ctx.register(tensor)
        peer.put(region, peer.remote("weights")).wait(timeout=2)

Times are seconds, lengths are bytes, and kinds of things are words: "gaudi", "zero_copy".
Failures are exceptions of hbmwire.errors. See docs/python.md.
"""

from ._core import (
    AddressInfo,
    AttachAddress,
    AttachedMemory,
    AttachListener,
    BlockTable,
    Context,
    Counters,
    Device,
    Endpoint,
    FailureCounters,
    Group,
    GroupMember,
    Invitation,
    KeyInfo,
    Listener,
    MemoryKey,
    MemoryProbe,
    Message,
    NicDevice,
    NicPort,
    PreparedTransfer,
    Publication,
    Region,
    RegistrationCounters,
    RemoteBlockTable,
    RemoteKey,
    RemoteRegion,
    RemoteSlice,
    Report,
    Setting,
    Slice,
    Times,
    TimesHistogram,
    Transfer,
    TransferCounters,
    Worker,
    __version__,
    counters,
    protocol_versions,
    set_log_level,
    settings,
)
from ._memory import Dmabuf
from .errors import (
    Busy,
    Cancelled,
    DataMismatch,
    Error,
    Exhausted,
    InvalidArgument,
    NotFound,
    NotSupported,
    PeerFailed,
    PermissionDenied,
    ProtocolError,
    SystemFailure,
    TimedOut,
)

__all__ = [
    "AddressInfo",
    "AttachAddress",
    "AttachListener",
    "AttachedMemory",
    "BlockTable",
    "Busy",
    "Cancelled",
    "Context",
    "Counters",
    "DataMismatch",
    "Device",
    "Dmabuf",
    "Endpoint",
    "Error",
    "Exhausted",
    "FailureCounters",
    "Group",
    "GroupMember",
    "InvalidArgument",
    "Invitation",
    "KeyInfo",
    "Listener",
    "MemoryKey",
    "MemoryProbe",
    "Message",
    "NicDevice",
    "NicPort",
    "NotFound",
    "NotSupported",
    "PeerFailed",
    "PermissionDenied",
    "PreparedTransfer",
    "ProtocolError",
    "Publication",
    "Region",
    "RegistrationCounters",
    "RemoteBlockTable",
    "RemoteKey",
    "RemoteRegion",
    "RemoteSlice",
    "Report",
    "Setting",
    "Slice",
    "SystemFailure",
    "TimedOut",
    "Times",
    "TimesHistogram",
    "Transfer",
    "TransferCounters",
    "Worker",
    "__version__",
    "counters",
    "protocol_versions",
    "set_log_level",
    "settings",
]

# Gives the classes the module that programs name, for tracebacks and documentation.
for _name in __all__:
    _value = globals()[_name]
    if isinstance(_value, type) and _value.__module__ == "hbmwire._core":
        _value.__module__ = "hbmwire"
del _name, _value
