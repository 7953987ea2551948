# SPDX-License-Identifier: MIT
"""Transfers for hbmwire.nixl: prepared lists of memory, and handles to transfers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from . import _places, errors
from ._core import BlockTable, Endpoint, RemoteBlockTable, RemoteRegion, Transfer
from ._nixl_peers import Peer, Registration

__all__ = ["nixlXferTelemetry", "nixl_prepped_dlist_handle", "nixl_xfer_handle"]


class nixl_prepped_dlist_handle:
    """Descriptors whose memory was found, made by prep_xfer_dlist()."""

    def __init__(self, peer: Peer | None, blocks: _places.Blocks, memory: Sequence[Any]) -> None:
        self._peer = peer  # None: local memory
        self._blocks: _places.Blocks | None = blocks
        self._memory = memory
        # By group: the endpoint's id (0 for local memory), and the table.
        self._tables: dict[int, tuple[int, Any]] = {}

    def __repr__(self) -> str:
        if self._blocks is None:
            return "<nixl_prepped_dlist_handle released>"
        whose = "local" if self._peer is None else self._peer.name
        return f"<nixl_prepped_dlist_handle of {self._blocks.size} descriptors, {whose}>"

    def release(self) -> None:
        """Lets go of the memory, as soon as no transfer uses it."""
        self._blocks = None
        self._memory = ()
        self._tables = {}

    def _open(self) -> _places.Blocks:
        if self._blocks is None:
            raise errors.make(
                "invalid_argument",
                "the list of descriptors was released, or its memory was deregistered",
                "prepare it again",
            )
        return self._blocks

    def _uses(self, registration: Registration) -> bool:
        return registration in self._memory

    def _in_device(self, group: int) -> bool:
        """Whether any of a peer's blocks of a group lie in device memory."""
        made = self._open().groups[group]
        pieces = {area[0] for area in made.areas} if made.piece is None else {made.piece}
        return any(self._memory[piece].in_device for piece in pieces)

    def _local_table(self, group: int) -> BlockTable:
        _, table = self._tables.get(group, (0, None))
        if table is None:
            made = self._open().groups[group]
            if made.piece is None:
                areas = [
                    self._memory[piece].region[offset : offset + nbytes]
                    for piece, offset, nbytes in made.areas
                ]
                table = BlockTable(areas, made.block_bytes)
            else:
                table = BlockTable(self._memory[made.piece].region, made.areas, made.block_bytes)
            self._tables[group] = 0, table
        assert isinstance(table, BlockTable)
        return table

    def _remote_table(self, group: int, endpoint: Endpoint) -> RemoteBlockTable:
        # A table ends with its connection.
        connection, table = self._tables.get(group, (0, None))
        if table is None or connection != endpoint.id:
            made = self._open().groups[group]
            if made.piece is None:
                regions: dict[int, RemoteRegion] = {}
                for piece, _, _ in made.areas:
                    if piece not in regions:
                        regions[piece] = endpoint.remote(self._memory[piece].key)
                areas = [
                    regions[piece][offset : offset + nbytes] for piece, offset, nbytes in made.areas
                ]
                table = RemoteBlockTable(areas, made.block_bytes)
            else:
                region = endpoint.remote(self._memory[made.piece].key)
                table = RemoteBlockTable(region, made.areas, made.block_bytes)
            self._tables[group] = endpoint.id, table
        assert isinstance(table, RemoteBlockTable)
        return table


class nixlXferTelemetry:
    """Times and bytes of a transfer. Times are microseconds; startTime counts from 1970 on."""

    def __init__(
        self, startTime: int, postDuration: int, xferDuration: int, totalBytes: int, descCount: int
    ) -> None:
        self.startTime = startTime
        self.postDuration = postDuration
        self.xferDuration = xferDuration
        self.totalBytes = totalBytes
        self.descCount = descCount

    def __repr__(self) -> str:
        return (
            f"<nixlXferTelemetry {self.totalBytes} bytes of {self.descCount} descriptors in "
            f"{self.xferDuration} us, posted in {self.postDuration} us>"
        )


class nixl_xfer_handle:
    """A transfer that can be posted, and posted again when it is over.

    error: why its last run failed, an hbmwire.Error; None otherwise.
    transfers: the hbmwire.Transfer objects of its last run, which tell the path of the bytes.
    nbytes: how many bytes a run moves.
    """

    def __init__(
        self,
        operation: str,
        peer: Peer,
        local: nixl_prepped_dlist_handle,
        remote: nixl_prepped_dlist_handle,
        pairs: list[_places.Pairs],
        notif_msg: bytes,
        watch: Callable[[Callable[[], bool]], None],
        cancel_on_release: bool,
    ) -> None:
        self.error: errors.Error | None = None
        self.transfers: list[Transfer] = []
        groups = local._open().groups
        self.nbytes = sum(len(one.numbers[0]) * groups[one.local].block_bytes for one in pairs)
        self._count = sum(len(one.numbers[0]) for one in pairs)
        self._operation = operation
        self._peer = peer
        self._local = local
        self._remote = remote
        self._pairs = pairs
        self._notif_msg = notif_msg
        self._watch = watch
        self._cancel_on_release = cancel_on_release
        self._lock = threading.RLock()
        self._state = "IDLE"
        self._notification = b""  # of this run, until it is sent
        self._left: list[Transfer] = []  # those that are not over yet
        self._endpoint: Endpoint | None = None
        self._released = False

    def __repr__(self) -> str:
        return f"<nixl_xfer_handle {self._operation} {self._peer.name} {self._state}>"

    def release(self) -> None:
        """Lets go of the transfer, without waiting.

        A run that is under way goes on, and its memory stays registered until it is over; its
        notification will not be sent. With Options.cancel_on_release the connection to the peer
        ends instead, and everything that is under way on it, since an RDMA connection cannot take
        back one request.
        """
        with self._lock:
            if self._released:
                return
            self._released = True
            if self._cancel_on_release:
                for transfer in self._left:
                    transfer.request_cancel()
            self._left = []
            self.transfers = []

    # --- for nixl_agent

    def _refuse_released(self) -> None:
        if self._released:
            raise errors.make("invalid_argument", "the transfer was released", stage="post")

    def _post(self, notif_msg: bytes) -> str:
        with self._lock:
            self._refuse_released()
            if self._state == "PROC":
                raise errors.make("busy", "the transfer was posted, and is not over", stage="post")
            self._local._open()
            self._remote._open()
            self._state = "PROC"
            self._notification = notif_msg or self._notif_msg
            self.error = None
            self.transfers = []
            self._left = []
            self._endpoint = None
        self._peer.do(self._begin)
        return self._check()

    def _begin(self, endpoint: Endpoint | None, error: errors.Error | None) -> None:
        with self._lock:
            if self._released:
                return
            if endpoint is None:
                self.error = error
                self._state = "ERR"
                return
            self._endpoint = endpoint
            device_memory = False
            try:
                for one in self._pairs:
                    device_memory |= self._begin_pairs(endpoint, one)
            except errors.Error as cause:
                self.error = cause
            self._left = list(self.transfers)
            # A message after a put tells that the bytes have arrived. Only the end of the put tells
            # that a card's engines see them, too.
            if self._operation == "WRITE" and not device_memory:
                self._notify()
            if self._notification:
                self._watch(self._is_over)

    def _begin_pairs(self, endpoint: Endpoint, one: _places.Pairs) -> bool:
        local = self._local._local_table(one.local)
        remote = self._remote._remote_table(one.remote, endpoint)
        if self._operation == "READ":
            self.transfers.append(endpoint.get_blocks(local, remote, one.numbers))
            return False
        device_memory = self._remote._in_device(one.remote)
        level: Any = "visible" if device_memory else "arrived"
        self.transfers.append(endpoint.put_blocks(local, remote, one.numbers, level=level))
        return device_memory

    def _notify(self) -> None:
        message, self._notification = self._notification, b""
        if message and self.error is None and self._endpoint is not None:
            try:
                self._endpoint.send(message)
            except errors.Error as cause:
                self.error = cause

    def _is_over(self) -> bool:
        with self._lock:
            return self._released or self._check() != "PROC"

    def _check(self) -> str:
        with self._lock:
            self._refuse_released()
            if self._state == "IDLE":
                raise errors.make("invalid_argument", "the transfer was not posted", stage="post")
            if self._state != "PROC":
                return self._state
            if self._endpoint is None:
                return "PROC"  # still connecting
            self._left = [transfer for transfer in self._left if not self._has_ended(transfer)]
            if self._left:
                return "PROC"
            self._notify()
            self._state = "DONE" if self.error is None else "ERR"
            return self._state

    def _has_ended(self, transfer: Transfer) -> bool:
        try:
            return transfer.poll()
        except errors.Error as cause:
            self.error = self.error or cause
            return True

    def _telemetry(self) -> nixlXferTelemetry:
        with self._lock:
            self._refuse_released()
            if self._state != "DONE":
                raise errors.make("invalid_argument", f"the transfer is {self._state}, not DONE")
            times = [transfer.report.times for transfer in self.transfers]
        known = [one for one in times if one is not None]
        if len(known) != len(times):
            raise errors.make(
                "not_supported",
                "the times of transfers are not taken",
                "make the agent with nixl_agent_config(capture_telemetry=True)",
            )
        started = min((one.asked for one in known), default=time.monotonic())
        posted = max((one.posted or one.asked for one in known), default=started)
        over = max((one.over or one.asked for one in known), default=started)
        return nixlXferTelemetry(
            int((time.time() - time.monotonic() + started) * 1e6),
            int((posted - started) * 1e6),
            int((over - started) * 1e6),
            self.nbytes,
            self._count,
        )
