# SPDX-License-Identifier: MIT
"""NIXL's Python API, over hbmwire: for vLLM, vLLM-Gaudi, LMCache and similar programs.

`nixl_agent` has the methods that these programs call, with their names, arguments and return
values. No code here is NIXL's. Beyond NIXL's own promises those of hbmwire hold: each wait ends, a
key ends with the process that gave it, and memory goes only by allowed paths. `Options` has the
parameters for these. docs/python-neighbours.md tells how a program uses this module, and lists the
differences.

Threads: all methods may be called from any thread. None waits for a peer.
"""

from __future__ import annotations

import dataclasses
import enum
import logging
import secrets
import sys
import threading
import weakref
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from . import _places, errors
from ._core import Context, Endpoint, Listener
from ._inbox import Inbox
from ._neighbours import NeighbourOptions, stand_in
from ._nixl_lists import (
    DRAM_SEG,
    VRAM_SEG,
    deserialize,
    nixlRegDList,
    nixlXferDList,
    serialize,
    type_and_rows,
)
from ._nixl_peers import (
    MOST_NAME_BYTES,
    Peer,
    Registration,
    RemoteMemory,
    hello,
    name_in,
    pack_metadata,
    unpack_metadata,
)
from ._nixl_transfers import nixl_prepped_dlist_handle, nixl_xfer_handle, nixlXferTelemetry

__all__ = [
    "DEFAULT_COMM_PORT",
    "DRAM_SEG",
    "NIXL_INIT_AGENT",
    "Options",
    "VRAM_SEG",
    "defaults",
    "nixlRegDList",
    "nixlXferDList",
    "nixlXferTelemetry",
    "nixl_agent",
    "nixl_agent_config",
    "nixl_prepped_dlist_handle",
    "nixl_thread_sync_t",
    "nixl_xfer_handle",
    "stand_in_for",
]

_log = logging.getLogger(__name__)

NIXL_INIT_AGENT = "NIXL_INIT_AGENT"
# The port of NIXL's metadata service, which is not offered here.
DEFAULT_COMM_PORT = 8888

# NIXL's backends that move memory. All of them mean hbmwire here. NIXL's other backends move files
# or objects.
_BACKENDS = ("HBMWIRE", "UCX", "LIBFABRIC", "MOONCAKE", "Mooncake", "UCCL")

# The exceptions under NIXL's names.
nixlNotPostedError = errors.InvalidArgument
nixlInvalidParamError = errors.InvalidArgument
nixlMismatchError = errors.InvalidArgument
nixlBackendError = errors.Error
nixlUnknownError = errors.Error
nixlNotFoundError = errors.NotFound
nixlNotAllowedError = errors.PermissionDenied
nixlRepostActiveError = errors.Busy
nixlNotSupportedError = errors.NotSupported
nixlRemoteDisconnectError = errors.PeerFailed
nixlCancelledError = errors.Cancelled
nixlNoTelemetryError = errors.NotSupported


@dataclasses.dataclass
class Options(NeighbourOptions):
    """Options that NIXL does not have. `defaults` is used by programs that pass none."""

    devices: Mapping[int, str] = dataclasses.field(default_factory=dict)  # `device` by devId
    cancel_on_release: bool = False  # release_xfer_handle() ends a run under way
    most_notification_bytes: int = 16 << 20  # a longer notification is refused


# For programs that make a nixl_agent_config without options, as vLLM does: change these before.
defaults = Options()


class nixl_thread_sync_t(enum.Enum):
    """How several threads may use an agent. Here always as with STRICT."""

    NIXL_THREAD_SYNC_NONE = 0
    NIXL_THREAD_SYNC_STRICT = 1
    NIXL_THREAD_SYNC_RW = 2
    NIXL_THREAD_SYNC_DEFAULT = 3


class nixl_agent_config:
    """NIXL's options of an agent, and by keyword those of Options.

    enable_prog_thread: threads accept peers and take notifications. Without them that happens in
    calls of the program, and peers that connect wait for such a call.
    capture_telemetry: get_xfer_telemetry() will be called.
    num_threads, sync_mode, listen_port: accepted, without meaning here.
    enable_listen_thread: refused; the program carries get_agent_metadata() itself.
    """

    def __init__(
        self,
        enable_prog_thread: bool = True,
        enable_listen_thread: bool = False,
        listen_port: int = DEFAULT_COMM_PORT,
        capture_telemetry: bool = False,
        num_threads: int = 0,
        backends: Sequence[str] = ("UCX",),
        sync_mode: nixl_thread_sync_t | None = None,
        *,
        options: Options | None = None,
        **changes: Any,
    ) -> None:
        if enable_listen_thread:
            raise errors.make(
                "not_supported",
                "an agent has no metadata service of its own",
                "carry get_agent_metadata() to the peer, and give it to add_remote_agent()",
            )
        self.backends = list(backends)
        self.enable_pthread = enable_prog_thread
        self.enable_listen = False
        self.port = listen_port
        self.capture_telemetry = capture_telemetry
        self.num_threads = num_threads
        self.sync_mode = sync_mode
        self.options = dataclasses.replace(options or defaults, **changes)


class nixl_agent:
    """An agent: memory that other agents may read and write, and transfers to and from theirs.

    It listens for other agents from the start. close(), a with statement or its deletion closes it.
    """

    def __init__(
        self,
        agent_name: str,
        nixl_conf: nixl_agent_config | None = None,
        instantiate_all: bool = False,
    ) -> None:
        config = nixl_conf or nixl_agent_config()
        if not agent_name or len(agent_name.encode()) > MOST_NAME_BYTES:
            raise errors.make(
                "invalid_argument", f"an agent has a name of 1 to {MOST_NAME_BYTES} bytes"
            )
        self.name = agent_name
        self.options = config.options
        self.backends: dict[str, int] = {}
        self._instance = secrets.token_hex(8)
        self._lock = threading.RLock()
        self._memory: list[Registration] = []
        self._prepared: weakref.WeakSet[nixl_prepped_dlist_handle] = weakref.WeakSet()
        self._peers: dict[str, Peer] = {}
        self._notifications = _Notifications()
        options, threads = self.options, config.enable_pthread
        self._context = options.context(progress_thread=threads, times=config.capture_telemetry)
        self._listener = _listen(self._context, options, hello(agent_name, self._instance))
        self._inbox = Inbox(
            self._context,
            self._context.worker,
            self._listener,
            accepted=_is_agent,
            received=self._notifications.add,
            most_bytes=options.most_notification_bytes,
            threads=threads,
            name=f"nixl {agent_name}",
        )
        # The finalizer holds no reference to this object: with one, the object would never end.
        self._finalizer = weakref.finalize(
            self, _close_agent, self._inbox, self._listener, self._context, self._memory
        )
        for backend in config.backends:
            self.create_backend(backend)

    def __enter__(self) -> nixl_agent:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        where = f"port {self._listener.port}" if self._finalizer.alive else "closed"
        return f"<nixl_agent {self.name}, {where}>"

    def close(self) -> None:
        """Ends the agent: its memory is closed to peers, its connections end."""
        with self._lock:
            peers, self._peers = list(self._peers.values()), {}
        for peer in peers:
            peer.remove()
        self._finalizer()

    # --- backends

    def get_plugin_list(self) -> list[str]:
        """The names of backends that create_backend() takes."""
        return list(_BACKENDS)

    def create_backend(self, backend: str, initParams: Mapping[str, str] | None = None) -> None:
        """Accepts the name of any backend that moves memory; all are hbmwire here.

        Raises NotSupported for backends that move files or objects, and for parameters: Options
        has those of hbmwire.
        """
        if backend not in _BACKENDS:
            raise errors.make(
                "not_supported",
                f"the backend {backend!r} does not move memory, or is not known",
                f"use one of {', '.join(_BACKENDS)}, which all mean hbmwire here",
            )
        self.backends[backend] = len(self.backends)

    def get_backend_mem_types(self, backend: str) -> list[str]:
        """The memory types of a backend that was created."""
        return [DRAM_SEG, VRAM_SEG] if backend in self.backends else []

    # --- lists of descriptors

    def get_reg_descs(self, descs: Any, mem_type: str | None = None) -> nixlRegDList:
        """A list of memory to register.

        `descs`: (address, length, device, text) tuples or an N x 3 array of 64-bit integers, both
        with `mem_type`; or one tensor or several; or an existing list. Raises InvalidArgument.
        """
        if isinstance(descs, nixlRegDList):
            return descs
        return nixlRegDList(*type_and_rows(descs, mem_type))

    def get_xfer_descs(self, descs: Any, mem_type: str | None = None) -> nixlXferDList:
        """A list of memory to transfer, as get_reg_descs(), but of (address, length, device)."""
        if isinstance(descs, nixlXferDList):
            return descs
        return nixlXferDList(*type_and_rows(descs, mem_type))

    def get_serialized_descs(self, descs: nixlXferDList | nixlRegDList) -> bytes:
        """A list of descriptors as bytes for another agent."""
        return serialize(descs)

    def deserialize_descs(self, serialized_descs: bytes) -> nixlXferDList | nixlRegDList:
        """The list in bytes that another agent gave. Raises ProtocolError for any other bytes."""
        return deserialize(bytes(serialized_descs))

    # --- memory

    def register_memory(
        self, reg_list: Any, mem_type: str | None = None, backends: Sequence[str] = ()
    ) -> nixlRegDList:
        """Lets peers read and write memory, by later metadata (get_agent_metadata()).

        Registers all of it, or none. Raises as Context.register().
        """
        descs = self.get_reg_descs(reg_list, mem_type)
        made: list[Registration] = []
        try:
            for address, length, device, _ in descs:
                made.append(self._register(descs.getType(), address, length, device))
        except BaseException:
            for one in made:
                one.close()
            raise
        with self._lock:
            self._memory.extend(made)
        return descs

    def _register(self, mem_type: str, address: int, length: int, device: int) -> Registration:
        region = self._context.register(
            (address, length),
            access=("remote_write", "remote_read"),
            device=self.options.devices.get(device, "") if mem_type == VRAM_SEG else "",
        )
        piece = _places.Piece(address, length, device)
        return Registration(mem_type, piece, region, region.pack_key())

    def deregister_memory(self, dereg_list: nixlRegDList, backends: Sequence[str] = ()) -> None:
        """Ends register_memory(), and releases prepared lists of this memory. Once no transfer of
        this agent uses it, peers no longer reach it. Raises NotFound."""
        for address, length, device, _ in dereg_list:
            piece = _places.Piece(address, length, device)
            with self._lock:
                found = [
                    one
                    for one in self._memory
                    if one.piece == piece and one.mem_type == dereg_list.getType()
                ]
                if not found:
                    raise errors.make(
                        "not_found",
                        f"the {length} bytes at {address:#x} of device {device} are not registered",
                    )
                self._memory.remove(found[0])
                prepared = [one for one in self._prepared if one._uses(found[0])]
            for one in prepared:
                one.release()
            found[0].close()

    # --- other agents

    def get_agent_metadata(self) -> bytes:
        """Everything that another agent needs: the name, the addresses, and a key to each memory
        that is registered now. It is a secret: its holder may read and write that memory."""
        with self._lock:
            memory = list(self._memory)
        return pack_metadata(self.name, self._instance, self._listener.addresses, memory)

    def add_remote_agent(self, metadata: bytes) -> str:
        """Takes the metadata of another agent, or newer metadata, and returns the agent's name.

        Does not connect: the first transfer does, or make_connection(). Raises ProtocolError for
        bytes that are no metadata.
        """
        read = unpack_metadata(bytes(metadata))
        with self._lock:
            peer = self._peers.get(read.name)
            if peer is not None and peer.instance == read.instance:
                peer.update(read)
                return read.name
            self._peers[read.name] = Peer(
                self._context.worker, self.options, hello(self.name, self._instance), read
            )
        if peer is not None:
            peer.remove()
        return read.name

    def remove_remote_agent(self, agent: str | bytes) -> None:
        """Forgets an agent, and ends the connection to it. Raises NotFound."""
        name = _name_of(agent)
        with self._lock:
            self._peer(name)
            peer = self._peers.pop(name)
        peer.remove()

    def check_remote_metadata(
        self, agent: str | bytes, descs: nixlXferDList | None = None
    ) -> bool:
        """Whether the agent is known, and this memory of the agent."""
        with self._lock:
            peer = self._peers.get(_name_of(agent))
        if peer is None:
            return False
        try:
            if descs is not None:
                self._find(descs, _of_type(peer.memory, descs), peer.name)
        except errors.NotFound:
            return False
        return True

    def make_connection(self, remote_agent: str | bytes, backends: Sequence[str] = ()) -> None:
        """Begins to connect, so that the first transfer need not wait for it. Returns at once."""
        self._peer(_name_of(remote_agent)).do(lambda endpoint, error: None)

    def _peer(self, name: str) -> Peer:
        with self._lock:
            if name not in self._peers:
                if name == self.name:
                    self.add_remote_agent(self.get_agent_metadata())
                else:
                    raise errors.make(
                        "not_found",
                        f"no agent has the name {name!r}",
                        "add_remote_agent() comes first",
                    )
            return self._peers[name]

    # --- transfers

    def prep_xfer_dlist(
        self,
        agent_name: str | bytes,
        xfer_list: Any,
        mem_type: str | None = None,
        backends: Sequence[str] = (),
    ) -> nixl_prepped_dlist_handle:
        """Finds the memory of descriptors, for transfers that name them by their numbers.

        agent_name: NIXL_INIT_AGENT or "" for this agent's memory as the local side of a transfer;
        otherwise the agent that has the memory, which may be this agent itself. Raises NotFound if
        memory is not registered, or was not when the metadata was made.
        """
        descs = self.get_xfer_descs(xfer_list, mem_type)
        name = _name_of(agent_name)
        if name in (NIXL_INIT_AGENT, ""):
            with self._lock:
                own = _of_type(self._memory, descs)
            handle = nixl_prepped_dlist_handle(None, self._find(descs, own, self.name), own)
            with self._lock:
                self._prepared.add(handle)
            return handle
        if name == self.name:
            self.add_remote_agent(self.get_agent_metadata())
        peer = self._peer(name)
        memory = _of_type(peer.memory, descs)
        return nixl_prepped_dlist_handle(peer, self._find(descs, memory, name), memory)

    def _find(self, descs: nixlXferDList, memory: Sequence[Any], subject: str) -> _places.Blocks:
        return _places.prepare(descs._rows, [one.piece for one in memory], subject)

    def make_prepped_xfer(
        self,
        operation: str,
        local_xfer_side: nixl_prepped_dlist_handle,
        local_indices: Any,
        remote_xfer_side: nixl_prepped_dlist_handle,
        remote_indices: Any,
        notif_msg: bytes | str = b"",
        backends: Sequence[str] = (),
        skip_desc_merge: bool = False,
    ) -> nixl_xfer_handle:
        """A transfer of descriptors by their numbers: lists, or arrays of integers.

        operation: "WRITE" or "READ". Raises InvalidArgument if the numbers, or the lengths of
        their descriptors, do not match.
        """
        if operation not in ("WRITE", "READ"):
            raise errors.make("invalid_argument", f"the operation {operation!r} is not known")
        if local_xfer_side._peer is not None or remote_xfer_side._peer is None:
            raise errors.make(
                "invalid_argument",
                "a transfer has a local list of descriptors and a remote one",
                "prep_xfer_dlist() makes a local one of NIXL_INIT_AGENT, else a remote one",
            )
        pairs = _places.pair(
            local_xfer_side._open(), local_indices, remote_xfer_side._open(), remote_indices
        )
        return nixl_xfer_handle(
            operation,
            remote_xfer_side._peer,
            local_xfer_side,
            remote_xfer_side,
            pairs,
            self._notification(notif_msg),
            self._inbox.watch,
            self.options.cancel_on_release,
        )

    def initialize_xfer(
        self,
        operation: str,
        local_descs: nixlXferDList,
        remote_descs: nixlXferDList,
        remote_agent: str | bytes,
        notif_msg: bytes | str = b"",
        backends: Sequence[str] = (),
    ) -> nixl_xfer_handle:
        """prep_xfer_dlist() for both lists, then make_prepped_xfer() with all descriptors."""
        local = self.prep_xfer_dlist(NIXL_INIT_AGENT, local_descs)
        remote = self.prep_xfer_dlist(remote_agent, remote_descs)
        numbers = array("I", range(len(local_descs)))
        others = array("I", range(len(remote_descs)))
        return self.make_prepped_xfer(operation, local, numbers, remote, others, notif_msg)

    def transfer(self, handle: nixl_xfer_handle, notif_msg: bytes | str = b"") -> str:
        """Posts a transfer. Returns "DONE", "PROC" (then call check_xfer_state()) or "ERR".

        A notification tells the peer that the bytes of a WRITE are in its memory, or that those of
        a READ have left it. Raises Busy while the transfer is under way.
        """
        state = handle._post(self._notification(notif_msg))
        self._inbox.look()
        return state

    def check_xfer_state(self, handle: nixl_xfer_handle) -> str:
        """"DONE", "PROC" or "ERR"; for "ERR" `handle.error` says why."""
        self._inbox.look()
        return handle._check()

    def get_xfer_telemetry(self, handle: nixl_xfer_handle) -> nixlXferTelemetry:
        """Times and bytes of a transfer that is DONE. Raises NotSupported without them."""
        return handle._telemetry()

    def query_xfer_backend(self, handle: nixl_xfer_handle) -> str:
        """The name of a backend. `handle.transfers[0].path` tells more."""
        return next(iter(self.backends), "HBMWIRE")

    def release_xfer_handle(self, handle: nixl_xfer_handle) -> None:
        """Lets go of a transfer without waiting, as nixl_xfer_handle.release()."""
        handle.release()

    def release_dlist_handle(self, handle: nixl_prepped_dlist_handle) -> None:
        """Lets go of a prepared list."""
        handle.release()

    # --- notifications

    def send_notif(
        self, remote_agent_name: str | bytes, notif_msg: bytes | str, backend: str | None = None
    ) -> None:
        """Sends a notification that belongs to no transfer. Returns at once.

        If the peer can't be reached, only the log says so. Raises NotFound for unknown agents.
        """
        message = self._notification(notif_msg)
        peer = self._peer(_name_of(remote_agent_name))

        def send(endpoint: Endpoint | None, error: errors.Error | None) -> None:
            try:
                if endpoint is not None:
                    endpoint.send(message)
            except errors.Error as cause:
                error = cause
            if error is not None:
                _log.warning("a notification for agent %s is lost: %s", peer.name, error)

        peer.do(send)
        self._inbox.look()

    def get_new_notifs(self, backends: Sequence[str] = ()) -> dict[str, list[bytes]]:
        """Notifications that have come since the last call: for each agent a list, in order."""
        self._inbox.look()
        return self._notifications.take()

    def _notification(self, message: bytes | str) -> bytes:
        data = message.encode() if isinstance(message, str) else bytes(message)
        if len(data) > self.options.most_notification_bytes:
            raise errors.make(
                "invalid_argument",
                f"a notification of {len(data)} bytes; "
                f"{self.options.most_notification_bytes} are the most",
                "raise Options.most_notification_bytes at both ends",
            )
        return data


class _Notifications:
    """Notifications of peers, by the peers' names."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_agent: dict[str, list[bytes]] = {}

    def add(self, endpoint: Endpoint, data: bytes) -> None:
        name = name_in(endpoint.peer_hello)
        if name is not None:
            with self._lock:
                self._by_agent.setdefault(name, []).append(data)

    def take(self) -> dict[str, list[bytes]]:
        with self._lock:
            taken, self._by_agent = self._by_agent, {}
        return taken


def _is_agent(endpoint: Endpoint) -> bool:
    if name_in(endpoint.peer_hello) is not None:
        return True
    _log.warning("%s connected, and is no agent", endpoint.peer)
    return False


def _listen(context: Context, options: Options, hello: bytes) -> Listener:
    return context.listen(
        options.port, options.listen_address, hello=hello, **options.endpoint()
    )


def _close_agent(
    inbox: Inbox, listener: Listener, context: Context, memory: list[Registration]
) -> None:
    inbox.close()
    listener.close()
    for one in memory:
        one.close()
    memory.clear()
    context.close()


_AnyMemory = TypeVar("_AnyMemory", Registration, RemoteMemory)


def _of_type(memory: Sequence[_AnyMemory], descs: nixlXferDList) -> list[_AnyMemory]:
    return [one for one in memory if one.mem_type == descs.getType()]


def _name_of(agent: str | bytes) -> str:
    return agent.decode() if isinstance(agent, bytes) else str(agent)


def stand_in_for(package: str = "nixl") -> None:
    """Makes `from nixl._api import nixl_agent` find this module, in this process from now on.

    For programs that import NIXL by its name; vLLM imports "rixl" for ROCm. Raises Busy if the
    package has been imported already.
    """
    this = sys.modules[__name__]
    root = stand_in(package, ("_api", "_bindings"), this)
    for name in ("nixl_agent", "nixl_agent_config"):
        setattr(root, name, getattr(this, name))
