# SPDX-License-Identifier: MIT
"""Agents for hbmwire.nixl: their metadata, and connections to them."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Union

from . import _places, errors
from ._core import Endpoint, MemoryKey, Region, RemoteKey, Worker
from ._neighbours import NeighbourOptions
from ._nixl_lists import DRAM_SEG, VRAM_SEG

__all__ = [
    "MOST_NAME_BYTES",
    "Peer",
    "Registration",
    "RemoteMemory",
    "hello",
    "name_in",
    "pack_metadata",
    "unpack_metadata",
]

_log = logging.getLogger("hbmwire.nixl")

_METADATA_MAGIC = b"hbmwire.nixl/1\n"
_MOST_METADATA_BYTES = 64 << 20
MOST_NAME_BYTES = 512


@dataclasses.dataclass(eq=False)
class Registration:
    """Memory of this agent, and the key to it in the agent's metadata."""

    mem_type: str
    piece: _places.Piece
    region: Region
    key: MemoryKey

    def close(self) -> None:
        self.key.close()
        self.region.close()


@dataclasses.dataclass(eq=False)
class RemoteMemory:
    """Memory of a peer, from its metadata."""

    mem_type: str
    piece: _places.Piece
    key: RemoteKey
    in_device: bool


# --- metadata


@dataclasses.dataclass
class Metadata:
    """The name of an agent, its addresses, and the keys of its memory."""

    name: str
    instance: str  # differs each time that the agent is started
    addresses: list[str]
    memory: list[RemoteMemory]


def pack_metadata(
    name: str, instance: str, addresses: Sequence[str], memory: Iterable[Registration]
) -> bytes:
    content = {
        "name": name,
        "instance": instance,
        "addresses": list(addresses),
        "memory": [
            [one.mem_type, one.piece.device, base64.b64encode(bytes(one.key)).decode()]
            for one in memory
        ],
    }
    return _METADATA_MAGIC + json.dumps(content).encode()


def unpack_metadata(data: bytes) -> Metadata:
    """Reads bytes of another process, which may be anything. Raises ProtocolError."""
    if not data.startswith(_METADATA_MAGIC) or len(data) > _MOST_METADATA_BYTES:
        raise errors.make(
            "protocol",
            "the bytes are no metadata of an agent of hbmwire.nixl",
            "both ends must use this module, of one release; NIXL's own agents speak otherwise",
            stage="connect",
        )
    try:
        content = json.loads(data[len(_METADATA_MAGIC) :])
        name, instance = str(content["name"]), str(content["instance"])
        addresses = [str(address) for address in content["addresses"]]
        memory = [_remote_memory(*one) for one in content["memory"]]
        for text in (name, instance, *addresses):
            text.encode()  # JSON may hold text that is no Unicode
    except (KeyError, TypeError, ValueError, binascii.Error, RecursionError) as cause:
        raise errors.make(
            "protocol", f"the metadata is damaged: {type(cause).__name__}", stage="connect"
        ) from None
    if not name or len(name.encode()) > MOST_NAME_BYTES or not addresses:
        raise errors.make("protocol", "the metadata has no name or no address", stage="connect")
    return Metadata(name, instance, addresses, memory)


def _remote_memory(mem_type: str, device: int, key: str) -> RemoteMemory:
    if mem_type not in (DRAM_SEG, VRAM_SEG) or not isinstance(device, int):
        raise ValueError
    remote = RemoteKey(base64.b64decode(key, validate=True))
    info = remote.info
    piece = _places.Piece(info.address, info.nbytes, device)
    return RemoteMemory(mem_type, piece, remote, info.type != "host")


def hello(name: str, instance: str) -> bytes:
    return b"hbmwire.nixl/1 " + instance.encode() + b" " + name.encode()


def name_in(hello: bytes) -> str | None:
    parts = hello.split(b" ", 2)
    if len(parts) != 3 or parts[0] != b"hbmwire.nixl/1" or not parts[2]:
        return None
    return parts[2].decode("utf-8", "replace")


# --- connections

Action = Callable[[Union[Endpoint, None], Union[errors.Error, None]], None]


class Peer:
    """Another agent: its memory, and the connection to it, which is made when it is first needed.

    This end's transfers and notifications go only by this connection. The peer's come by a
    connection that the peer makes.
    """

    def __init__(
        self, worker: Worker, options: NeighbourOptions, hello: bytes, metadata: Metadata
    ) -> None:
        self.name = metadata.name
        self.instance = metadata.instance
        self.memory = metadata.memory
        self._addresses = metadata.addresses
        self._worker = worker
        self._options = options
        self._hello = hello
        self._lock = threading.Lock()
        self._endpoint: Endpoint | None = None
        self._waiting: list[Action] = []
        self._connecting = False
        self._removed = False

    def update(self, metadata: Metadata) -> None:
        """Takes newer metadata of the same agent, which has not been started anew."""
        self.memory = metadata.memory
        self._addresses = metadata.addresses

    def do(self, action: Action) -> None:
        """Calls `action` at once if there is a connection, or else once connecting has ended.

        Actions are called in the order in which they came.
        """
        with self._lock:
            if self._removed:
                action(None, self._removed_error())
                return
            if self._endpoint is not None and self._endpoint.phase == "ready":
                action(self._endpoint, None)
                return
            self._waiting.append(action)
            if self._connecting:
                return
            self._connecting = True
            self._endpoint = None
        threading.Thread(target=self._connect, name=f"nixl to {self.name}", daemon=True).start()

    def remove(self) -> None:
        """Ends the connection, without waiting for it, and all actions that wait for one."""
        with self._lock:
            self._removed = True
            endpoint, self._endpoint = self._endpoint, None
            self._call_waiting(None, self._removed_error())
        if endpoint is not None:
            threading.Thread(target=_close, args=(endpoint,), daemon=True).start()

    def _removed_error(self) -> errors.Error:
        return errors.make("cancelled", "the agent was removed", stage="post", subject=self.name)

    def _call_waiting(self, endpoint: Endpoint | None, error: errors.Error | None) -> None:
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            action(endpoint, error)

    def _connect(self) -> None:
        endpoint: Endpoint | None = None
        error: errors.Error | None = None
        try:
            endpoint = self._reach()
        except Exception as cause:  # any exception: no action may wait for ever
            error = cause if isinstance(cause, errors.Error) else _unexpected(cause)
        with self._lock:
            self._connecting = False
            if not self._removed:
                if error is not None:
                    _log.warning("agent %s can't be reached: %s", self.name, error)
                self._endpoint = endpoint
                self._call_waiting(endpoint, error)
                return
        if endpoint is not None:
            _close(endpoint)

    def _reach(self) -> Endpoint:
        """Connects to the first address at which the agent answers. Each one gets an equal share of
        the time that is left."""
        timeout = self._options.connect_timeout
        end = None if timeout is None else time.monotonic() + timeout
        error = errors.make("not_found", "the agent has no address", subject=self.name)
        # `left`: how many addresses there are from this one on.
        for left, address in zip(range(len(self._addresses), 0, -1), self._addresses):
            share = None if end is None else max(end - time.monotonic(), 0.0) / left
            try:
                endpoint = self._worker.connect(
                    address, timeout=share, hello=self._hello, **self._options.endpoint()
                )
            except errors.Error as cause:
                error = cause
                continue
            if endpoint.peer_hello == hello(self.name, self.instance):
                return endpoint
            error = errors.make(
                "peer_failed",
                f"another process answers at {address}",
                "give the agent's newest metadata to add_remote_agent()",
                stage="connect",
                subject=self.name,
            )
            _close(endpoint)
        raise error


def _unexpected(cause: Exception) -> errors.Error:
    return errors.make("system", f"{type(cause).__name__}: {cause}", stage="connect")


def _close(endpoint: Endpoint) -> None:
    try:
        endpoint.close(timeout=1.0)
    except errors.Error as cause:
        _log.debug("connection to %s: %s", endpoint.peer, cause)
