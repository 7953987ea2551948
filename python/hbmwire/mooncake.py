# SPDX-License-Identifier: MIT
"""The API of Mooncake's Python transfer engine, over hbmwire: for SGLang and similar programs.

`TransferEngine` has the methods that SGLang calls, with their names, arguments and return values:
peers are "host:port", plain addresses name memory, and an int below 0 means a failure. `last_error`
and the log give the reason. No code here is Mooncake's. The promises of hbmwire hold: each wait
ends, a key ends with the process that gave it, and memory goes only by allowed paths. `Options` has
the parameters for these. docs/python-neighbours.md has the details.

Threads: all methods may be called from any thread. Transfers and send_probe() wait, and let other
threads run meanwhile.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import logging
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from . import _places, errors
from ._core import (
    BlockTable,
    Context,
    Endpoint,
    Listener,
    MemoryKey,
    Region,
    RemoteBlockTable,
    RemoteKey,
    RemoteRegion,
    Transfer,
)
from ._inbox import Inbox
from ._neighbours import NeighbourOptions, stand_in

__all__ = ["Options", "TransferEngine", "defaults", "stand_in_for"]

_log = logging.getLogger(__name__)

_HELLO = b"hbmwire.mooncake/1"
# How messages begin. The number of the question follows; in an answer, then a space and the keys.
_ASK = b"hbmwire.mooncake/1 memory? "
_ANSWER = b"hbmwire.mooncake/1 memory: "
_MOST_ANSWER_BYTES = 64 << 20

_FAILED = -1


@dataclasses.dataclass
class Options(NeighbourOptions):
    """Options that Mooncake does not have. `defaults` is used by programs that pass none."""

    probe_timeout: float | None = 5.0  # until send_probe() gives a peer up


# For programs that make a TransferEngine without options, as SGLang does: change these before.
defaults = Options()


@dataclasses.dataclass(eq=False)
class _Registration:
    piece: _places.Piece
    region: Region
    key: MemoryKey

    def close(self) -> None:
        self.key.close()
        self.region.close()


class _Memory:
    """This end's memory that peers may read and write, by address. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: list[_Registration] = []
        self._finder = _places.Finder([])

    def add(self, made: Sequence[_Registration]) -> None:
        with self._lock:
            taken = {one.piece.address for one in self._all}
            for one in made:
                if one.piece.address in taken:
                    raise errors.make(
                        "busy",
                        f"memory at {one.piece.address:#x} is registered already",
                        "unregister it before",
                        stage="register_memory",
                    )
            self._set(self._all + list(made))

    def remove(self, address: int) -> _Registration:
        with self._lock:
            for one in self._all:
                if one.piece.address == address:
                    self._set([other for other in self._all if other is not one])
                    return one
        raise errors.make(
            "not_found", f"no registered memory begins at {address:#x}", stage="register_memory"
        )

    def clear(self) -> None:
        with self._lock:
            every, self._all = self._all, []
        for one in every:
            one.close()

    def look(self) -> tuple[list[_Registration], _places.Finder]:
        """All registered memory as it is now. The two objects will not change any more."""
        with self._lock:
            return self._all, self._finder

    def _set(self, every: list[_Registration]) -> None:
        self._all = every
        self._finder = _places.Finder([one.piece for one in every])


class _View:
    """A connection to a peer, and the peer's memory as of its last answer. Immutable."""

    def __init__(self, endpoint: Endpoint, keys: Sequence[RemoteKey]) -> None:
        self.endpoint = endpoint
        self.pieces = [_places.Piece(one.info.address, one.info.nbytes, 0) for one in keys]
        self.finder = _places.Finder(self.pieces)
        self._keys = keys
        self._regions: dict[int, RemoteRegion] = {}

    def region(self, index: int) -> RemoteRegion:
        """The peer's memory with that index in `pieces`."""
        region = self._regions.get(index)
        if region is None:
            region = self._regions[index] = self.endpoint.remote(self._keys[index])
        return region


class _Session:
    """A peer. Connects to it when that is needed, and asks it for its memory."""

    def __init__(self, name: str, connect: Callable[[_Session, float | None], Endpoint]) -> None:
        self.name = name
        self._connect = connect
        self._lock = threading.Lock()  # held while connecting and asking
        self._failures = 0
        self._error: errors.Error | None = None
        self._view: _View | None = None
        self._stale: Endpoint | None = None  # the endpoint of a forgotten view
        self._asked = 0
        self._answer: list[RemoteKey] = []
        self._answered = threading.Event()

    def open(self, timeout: float | None) -> _View:
        """A view of the peer that is connected. Raises TimedOut and as connect()."""
        before = self._failures
        with self._lock:
            if self._view is not None and self._view.endpoint.phase == "ready":
                return self._view
            # Threads that waited for the lock get the same failure, without waiting as long again.
            if self._failures != before and self._error is not None:
                raise self._error
            end = None if timeout is None else time.monotonic() + timeout
            try:
                endpoint = self._stale if self._stale is not None else self._connect(self, timeout)
                self._stale = None
                if endpoint.phase != "ready":
                    endpoint = self._connect(self, _left(end))
                self._view = self._ask(endpoint, _left(end))
            except errors.Error as cause:
                self._failures += 1
                self._error = cause
                self._view = None
                raise
            return self._view

    def ask(self, timeout: float | None) -> _View:
        """A newer view, for which the peer's process must answer. Raises TimedOut and as open()."""
        view = self.open(timeout)
        with self._lock:
            self._view = self._ask(view.endpoint, timeout)
            return self._view

    def forget(self, view: _View) -> None:
        """Forgets a view with a key that has ended: the next open() asks the peer again."""
        with self._lock:
            if self._view is view:
                self._view = None
                self._stale = view.endpoint

    def answer(self, number: int, keys: list[RemoteKey]) -> None:
        """Takes an answer of the peer. A late answer is not taken for that to a later question."""
        if number == self._asked:
            self._answer = keys
            self._answered.set()

    def _ask(self, endpoint: Endpoint, timeout: float | None) -> _View:
        self._asked += 1
        self._answered.clear()
        endpoint.send(_ASK + str(self._asked).encode())
        if not self._answered.wait(timeout):
            raise errors.make(
                "timed_out",
                "the peer does not say which memory it has",
                "see whether its process runs, and is not stopped",
                stage="connect",
                subject=self.name,
            )
        return _View(endpoint, self._answer)


def _left(end: float | None) -> float | None:
    return None if end is None else max(end - time.monotonic(), 0.0)


class TransferEngine:
    """Moves memory between processes, each of which has an engine.

    last_error: why the last failed call of any thread failed, an hbmwire.Error.
    """

    def __init__(self, options: Options | None = None, **changes: Any) -> None:
        self.options = dataclasses.replace(options or defaults, **changes)
        self.last_error: errors.Error | None = None
        self._memory = _Memory()
        self._sessions: dict[str, _Session] = {}
        self._by_endpoint: dict[int, _Session] = {}
        self._lock = threading.Lock()
        self._context: Context | None = None
        self._listener: Listener | None = None
        self._inbox: Inbox | None = None
        self._finalizer: Callable[[], Any] | None = None

    def __enter__(self) -> TransferEngine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the engine: its memory is closed to peers, its connections end."""
        if self._finalizer is not None:
            self._finalizer()

    # --- the ten methods

    def initialize(
        self, local_hostname: str, metadata_server: str, protocol: str, device_name: str
    ) -> int:
        """Opens the NICs and listens for peers: 0, or less than 0.

        metadata_server: "P2PHANDSHAKE"; nothing else is supported.
        protocol: "rdma" (over TCP if there is no NIC, unless Options forbid it) or "tcp".
        device_name: NICs, separated by commas; "": as HBMWIRE_NICS says.
        """
        return self._try(
            lambda: self._initialize(local_hostname, metadata_server, protocol, device_name)
        )

    def get_rpc_port(self) -> int:
        """The port at which peers reach this engine, with `local_hostname`; less than 0: none."""
        return _FAILED if self._listener is None else self._listener.port

    def register_memory(self, buffer_addr: int, capacity: int, location: str = "*") -> int:
        """Lets peers read and write memory: 0, or less than 0. `location` has no meaning here."""
        return self.batch_register_memory([buffer_addr], [capacity])

    def unregister_memory(self, buffer_addr: int) -> int:
        """Ends register_memory() of that address: 0, or less than 0."""
        return self.batch_unregister_memory([buffer_addr])

    def batch_register_memory(
        self, buffer_addresses: Sequence[int], capacities: Sequence[int], location: str = "*"
    ) -> int:
        """register_memory() for several ranges: of all, or of none."""
        return self._try(lambda: self._register(buffer_addresses, capacities))

    def batch_unregister_memory(self, buffer_addresses: Sequence[int]) -> int:
        """unregister_memory() for several addresses."""

        def unregister() -> None:
            for address in buffer_addresses:
                self._memory.remove(int(address)).close()

        return self._try(unregister)

    def transfer_sync_write(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        transport_hint: str = "",
    ) -> int:
        """Writes memory of this process into the peer's "host:port", and waits: 0, or less than 0.

        On return the peer's CPU, its NICs and its cards see the bytes.
        """
        return self._try(
            lambda: self._move_one(True, target_hostname, buffer, peer_buffer_address, length)
        )

    def batch_transfer_sync_write(
        self,
        target_hostname: str,
        buffers: Sequence[int],
        peer_buffer_addresses: Sequence[int],
        lengths: Sequence[int],
        transport_hint: str = "",
    ) -> int:
        """transfer_sync_write() for several ranges, in no order. After a failure some may have
        arrived."""
        return self._try(
            lambda: self._move(True, target_hostname, buffers, peer_buffer_addresses, lengths)
        )

    def send_probe(self, peer_server_name: str) -> int:
        """Whether the peer's process answers within Options.probe_timeout: 0, or less than 0."""
        return self._try(lambda: self._session(peer_server_name).ask(self.options.probe_timeout))

    def get_engine(self) -> TransferEngine:
        """The engine itself, for other code in this process."""
        return self

    # --- their counterparts for reading

    def transfer_sync_read(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        transport_hint: str = "",
    ) -> int:
        """Reads the peer's memory into that of this process, and waits: 0, or less than 0."""
        return self._try(
            lambda: self._move_one(False, target_hostname, buffer, peer_buffer_address, length)
        )

    def batch_transfer_sync_read(
        self,
        target_hostname: str,
        buffers: Sequence[int],
        peer_buffer_addresses: Sequence[int],
        lengths: Sequence[int],
        transport_hint: str = "",
    ) -> int:
        """transfer_sync_read() for several ranges, in no order."""
        return self._try(
            lambda: self._move(False, target_hostname, buffers, peer_buffer_addresses, lengths)
        )

    # --- the work of these methods

    def _try(self, call: Callable[[], object]) -> int:
        try:
            call()
        except errors.Error as error:
            self.last_error = error
            _log.warning("%s", error)
            return _FAILED
        return 0

    def _opened(self) -> tuple[Context, Inbox]:
        if self._context is None or self._inbox is None:
            raise errors.make(
                "invalid_argument", "the engine has no connections", "call initialize() before"
            )
        return self._context, self._inbox

    def _initialize(
        self, local_hostname: str, metadata_server: str, protocol: str, device_name: str
    ) -> None:
        if self._context is not None:
            raise errors.make("busy", "the engine was initialized already")
        if metadata_server != "P2PHANDSHAKE":
            raise errors.make(
                "not_supported",
                f"the metadata server {metadata_server!r} is not used here",
                'give "P2PHANDSHAKE": peers ask each other',
            )
        if protocol not in ("rdma", "tcp"):
            raise errors.make(
                "not_supported", f"the protocol {protocol!r} is not known", 'give "rdma" or "tcp"'
            )
        options = self.options
        if protocol == "tcp":
            options = dataclasses.replace(options, nics="none")
        elif device_name:
            nics = [name.strip() for name in device_name.split(",") if name.strip()]
            options = dataclasses.replace(options, nics=nics)
        context = options.context(progress_thread=True)
        listener = context.listen(
            options.port, options.listen_address, hello=_HELLO, **options.endpoint()
        )
        inbox = Inbox(
            context,
            context.worker,
            listener,
            accepted=_is_engine,
            received=_Receiver(self._memory, self._by_endpoint),
            most_bytes=_MOST_ANSWER_BYTES,
            threads=True,
            name=f"mooncake {local_hostname}",
        )
        self._context, self._listener, self._inbox = context, listener, inbox
        # The finalizer holds no reference to this object: with one, the object would never end.
        self._finalizer = weakref.finalize(
            self, _close_engine, inbox, listener, self._memory, context
        )

    def _register(self, addresses: Sequence[int], capacities: Sequence[int]) -> None:
        context, _ = self._opened()
        if len(addresses) != len(capacities):
            raise errors.make(
                "invalid_argument", f"{len(addresses)} addresses and {len(capacities)} lengths"
            )
        made: list[_Registration] = []
        try:
            for address, nbytes in zip(addresses, capacities):
                region = context.register(
                    (int(address), int(nbytes)), access=("remote_write", "remote_read")
                )
                piece = _places.Piece(int(address), int(nbytes), 0)
                made.append(_Registration(piece, region, region.pack_key()))
            self._memory.add(made)
        except BaseException:
            for one in made:
                one.close()
            raise

    def _session(self, name: str) -> _Session:
        self._opened()
        with self._lock:
            session = self._sessions.get(name)
            if session is None:
                session = self._sessions[name] = _Session(name, self._connect)
            return session

    def _connect(self, session: _Session, timeout: float | None) -> Endpoint:
        context, inbox = self._opened()
        endpoint = context.connect(
            session.name, timeout=timeout, hello=_HELLO, **self.options.endpoint()
        )
        if endpoint.peer_hello != _HELLO:
            raise errors.make(
                "protocol",
                "no engine of hbmwire.mooncake answers",
                stage="connect",
                subject=session.name,
            )
        inbox.add(endpoint)
        with self._lock:
            for number in [old for old, one in self._by_endpoint.items() if one is session]:
                del self._by_endpoint[number]
            self._by_endpoint[endpoint.id] = session
        return endpoint

    def _move_one(self, write: bool, name: str, here: int, there: int, length: int) -> None:
        session = self._session(name)
        view = session.open(self.options.connect_timeout)
        if length == 0:
            return
        every, finder = self._memory.look()
        # 0: addresses of Mooncake name no device.
        local = finder.find(here, length, 0)
        if local is None:
            raise _places.lost((here, length, 0), "this process")
        remote = view.finder.find(there, length, 0)
        if remote is None:
            view = session.ask(self.options.connect_timeout)  # the peer may have more now
            remote = view.finder.find(there, length, 0)
        if remote is None:
            raise _places.lost((there, length, 0), name)
        region = every[local[0]].region
        to = view.region(remote[0])
        mine, its = region[local[1] : local[1] + length], to[remote[1] : remote[1] + length]
        try:
            if write:
                level: Any = "arrived" if to.type == "host" else "visible"
                view.endpoint.put(mine, its, level=level).wait()
            else:
                view.endpoint.get(mine, its).wait()
        except errors.PermissionDenied:
            session.forget(view)
            raise

    def _move(
        self,
        write: bool,
        name: str,
        here: Sequence[int],
        there: Sequence[int],
        lengths: Sequence[int],
    ) -> None:
        if not len(here) == len(there) == len(lengths):
            raise errors.make(
                "invalid_argument",
                f"{len(here)} buffers, {len(there)} of the peer and {len(lengths)} lengths",
            )
        session = self._session(name)
        view = session.open(self.options.connect_timeout)
        parts = [part for part in zip(here, there, lengths) if part[2] != 0]
        if not parts:
            return
        every, _ = self._memory.look()
        local = _places.prepare(
            _places.rows_of([(mine, length, 0) for mine, _, length in parts]),
            [one.piece for one in every],
            "this process",
        )
        view, remote = self._find_remote(session, view, [(its, n, 0) for _, its, n in parts])
        numbers = range(len(parts))
        transfers: list[Transfer] = []
        try:
            for pair in _places.pair(local, numbers, remote, numbers):
                mine = _local_table(every, local.groups[pair.local])
                its, level = _remote_table(view, remote.groups[pair.remote])
                transfers.append(
                    view.endpoint.put_blocks(mine, its, pair.numbers, level=level)
                    if write
                    else view.endpoint.get_blocks(mine, its, pair.numbers)
                )
        finally:
            # Waits even if one could not be started: on return the caller owns all memory again.
            try:
                view.endpoint.worker.wait_all(transfers)
            except errors.PermissionDenied:
                session.forget(view)
                raise

    def _find_remote(
        self, session: _Session, view: _View, rows: list[tuple[int, int, int]]
    ) -> tuple[_View, _places.Blocks]:
        flat = _places.rows_of(rows)
        try:
            return view, _places.prepare(flat, view.pieces, session.name)
        except errors.NotFound:
            view = session.ask(self.options.connect_timeout)  # the peer may have more now
        return view, _places.prepare(flat, view.pieces, session.name)


def _local_table(every: Sequence[_Registration], group: _places.Group) -> BlockTable:
    if group.piece is not None:
        return BlockTable(every[group.piece].region, group.areas, group.block_bytes)
    areas = [every[piece].region[offset : offset + nbytes] for piece, offset, nbytes in group.areas]
    return BlockTable(areas, group.block_bytes)


def _remote_table(view: _View, group: _places.Group) -> tuple[RemoteBlockTable, Any]:
    """The table, and the completion level that a put to it needs."""
    if group.piece is not None:
        region = view.region(group.piece)
        table = RemoteBlockTable(region, group.areas, group.block_bytes)
        return table, "arrived" if region.type == "host" else "visible"
    areas = [
        view.region(piece)[offset : offset + nbytes] for piece, offset, nbytes in group.areas
    ]
    device_memory = any(area.region.type != "host" for area in areas)
    table = RemoteBlockTable(areas, group.block_bytes)
    return table, "visible" if device_memory else "arrived"


def _is_engine(endpoint: Endpoint) -> bool:
    if endpoint.peer_hello == _HELLO:
        return True
    _log.warning("%s connected, and is no transfer engine", endpoint.peer)
    return False


class _Receiver:
    """Answers peers that ask for this engine's memory, and takes their answers."""

    def __init__(self, memory: _Memory, sessions: dict[int, _Session]) -> None:
        self._memory = memory
        self._sessions = sessions

    def __call__(self, endpoint: Endpoint, data: bytes) -> None:
        if data.startswith(_ASK):
            self._answer(endpoint, data[len(_ASK) :])
        elif data.startswith(_ANSWER):
            session = self._sessions.get(endpoint.id)
            answer = _answer_in(data[len(_ANSWER) :])
            if session is not None and answer is not None:
                session.answer(*answer)
        else:
            _log.warning("%s sent a message of another kind", endpoint.peer)

    def _answer(self, endpoint: Endpoint, number: bytes) -> None:
        every, _ = self._memory.look()
        try:
            keys = [base64.b64encode(bytes(one.key)).decode() for one in every]
            endpoint.send(_ANSWER + number + b" " + json.dumps(keys).encode())
        except errors.Error as error:
            _log.warning("%s is not told of this engine's memory: %s", endpoint.peer, error)


def _answer_in(data: bytes) -> tuple[int, list[RemoteKey]] | None:
    """Reads bytes of another process, which may be anything. None: they are no answer."""
    try:
        number, _, keys = data.partition(b" ")
        every = [RemoteKey(base64.b64decode(key, validate=True)) for key in json.loads(keys)]
        return int(number), every
    except (errors.Error, TypeError, ValueError, binascii.Error, RecursionError) as cause:
        _log.warning("a peer's answer is damaged: %s", type(cause).__name__)
        return None


def _close_engine(inbox: Inbox, listener: Listener, memory: _Memory, context: Context) -> None:
    inbox.close()
    listener.close()
    memory.clear()
    context.close()


def stand_in_for(package: str = "mooncake") -> None:
    """Makes `from mooncake.engine import TransferEngine` find this module, in this process.

    Raises Busy if the package has been imported already.
    """
    stand_in(package, ("engine",), sys.modules[__name__])
