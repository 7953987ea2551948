# SPDX-License-Identifier: MIT
"""Accepts peers and takes their messages, for programs that have no call for that.

`nixl` and `mooncake` have an Inbox each. With threads, two threads sleep until a peer connects or a
message comes. Without threads, calls of the program do the work (`look()`).
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Union

from . import errors
from ._core import Context, Endpoint, Listener, Message, Region, Transfer, Worker

__all__ = ["Inbox"]

_log = logging.getLogger(__name__)

# How often a sleeping thread checks whether it must end, and whether an accepted peer has gone.
_LOOK_SECONDS = 0.25

# How often transfers are polled, if something must happen when they are over.
_POLL_SECONDS = 0.001

# A message's bytes, or the memory that is receiving them.
_Entry = Union[bytes, "tuple[Region, Transfer]"]


class Inbox:
    """The peers that connected to a listener, and messages of these and of peers added by add().

    `accepted(endpoint)` tells whether the peer may stay; `received(endpoint, data)` takes a
    message. One thread at a time calls them; they must not wait for another thread. Messages of one
    endpoint come in order. A message of more than `most_bytes` is dropped, and its send fails.
    """

    def __init__(
        self,
        context: Context,
        worker: Worker,
        listener: Listener,
        *,
        accepted: Callable[[Endpoint], bool],
        received: Callable[[Endpoint, bytes], None],
        most_bytes: int,
        threads: bool,
        name: str,
    ) -> None:
        self._context = context
        self._worker = worker
        self._listener = listener
        self._accepted = accepted
        self._received = received
        self._most_bytes = most_bytes
        self._endpoints: dict[int, Endpoint] = {}
        self._leaving: set[int] = set()  # accepted peers that had ended at the last look
        self._early: dict[int, list[_Entry]] = {}  # of peers that accept() has not returned yet
        self._late: dict[int, deque[_Entry]] = {}  # queues whose first message is not here yet
        self._watched: list[Callable[[], bool]] = []
        self._lock = threading.Lock()  # for the members above
        self._calling = threading.RLock()  # held while accepted() or received() is called
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        if threads:
            self._start(self._accept_always, f"{name} accept")
            self._start(self._receive_always, f"{name} receive")

    def add(self, endpoint: Endpoint) -> None:
        """Hands out the messages of an endpoint that this end has connected, too."""
        with self._lock:
            self._endpoints[endpoint.id] = endpoint

    def remove(self, endpoint: Endpoint) -> None:
        """Lets go of an endpoint. Its messages that were not handed out yet are lost."""
        with self._lock:
            self._forget(endpoint.id)

    def watch(self, look: Callable[[], bool]) -> None:
        """Calls `look` again and again until it returns true."""
        with self._lock:
            self._watched.append(look)

    def look(self) -> None:
        """Does the work that is due now, without waiting. With threads, they do it."""
        if self._threads or self._stop.is_set():
            return
        self._worker.progress()
        while self._accept_one(0):
            pass
        while (message := self._worker.try_message()) is not None:
            self._take(message)
        self._tidy()

    def close(self) -> None:
        """Ends the threads within a second."""
        self._stop.set()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(4 * _LOOK_SECONDS)
        with self._lock:
            self._endpoints.clear()
            self._early.clear()
            self._late.clear()
            self._watched.clear()

    # --- threads

    def _start(self, work: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept_always(self) -> None:
        while not self._stop.is_set():
            try:
                if not self._accept_one(_LOOK_SECONDS):
                    self._drop_leavers()
            except errors.Error as error:
                self._pause(error)

    def _receive_always(self) -> None:
        while not self._stop.is_set():
            busy = bool(self._late or self._watched)
            try:
                self._take(self._worker.next_message(_POLL_SECONDS if busy else _LOOK_SECONDS))
            except errors.TimedOut:
                pass
            except errors.Error as error:
                self._pause(error)
            self._tidy()

    def _pause(self, error: errors.Error) -> None:
        """Pauses after an error. A failure of the worker itself would come again at once."""
        if not self._stop.is_set():
            _log.warning("a peer or a message is lost: %s", error)
            self._stop.wait(_LOOK_SECONDS)

    # --- peers

    def _accept_one(self, timeout: float) -> bool:
        """Accepts a peer, and hands out what it has sent already. False: none came in time."""
        try:
            endpoint = self._listener.accept(timeout)
        except errors.TimedOut:
            return False
        with self._calling:
            if not self._accepted(endpoint):
                with self._lock:
                    self._early.pop(endpoint.id, None)
                return True
            with self._lock:
                self._endpoints[endpoint.id] = endpoint
                early = self._early.pop(endpoint.id, [])
            for entry in early:
                self._hand_out(endpoint, entry)
        return True

    def _drop_leavers(self) -> None:
        """Lets go of peers that have gone, one look later, so that their last messages are read."""
        with self._lock:
            gone = {
                number
                for number, endpoint in self._endpoints.items()
                if endpoint.phase in ("failed", "closed")
            }
            for number in gone & self._leaving:
                self._forget(number)
            self._leaving = gone

    def _forget(self, number: int) -> None:
        self._endpoints.pop(number, None)
        self._late.pop(number, None)

    # --- messages

    def _take(self, message: Message) -> None:
        number = message.endpoint_id
        entry = self._entry(message)
        message.close()
        if entry is None:
            return
        with self._calling:
            with self._lock:
                endpoint = self._endpoints.get(number)
                if endpoint is None:
                    self._early.setdefault(number, []).append(entry)
                    return
            self._hand_out(endpoint, entry)

    def _entry(self, message: Message) -> _Entry | None:
        """Begins to receive a message if it is not here. None: it can't be received."""
        if message.is_here:
            return message.data
        if len(message) > self._most_bytes:
            _log.warning(
                "a message of %d bytes is let go of; the most is %d", len(message), self._most_bytes
            )
            return None
        try:
            region = self._context.allocate("host", len(message), access="remote_write")
            return region, message.receive(region)
        except errors.Error as error:
            _log.warning("a message of %d bytes is lost: %s", len(message), error)
            return None

    def _hand_out(self, endpoint: Endpoint, entry: _Entry) -> None:
        """Gives a message to received(), or queues it behind one that is not here yet."""
        with self._lock:
            late = self._late.get(endpoint.id)
            if late is not None or not isinstance(entry, bytes):
                self._late.setdefault(endpoint.id, deque()).append(entry)
                return
        self._received(endpoint, entry)

    def _tidy(self) -> None:
        """Hands out messages that have come meanwhile, and calls the functions of watch()."""
        with self._lock:
            late = [(self._endpoints[number], queue) for number, queue in self._late.items()]
            watched = list(self._watched)
        for endpoint, queue in late:
            self._hand_out_late(endpoint, queue)
        over = [look for look in watched if look()]
        if over:
            with self._lock:
                self._watched = [look for look in self._watched if look not in over]
        if not self._threads:
            self._drop_leavers()

    def _hand_out_late(self, endpoint: Endpoint, queue: deque[_Entry]) -> None:
        with self._calling:
            while queue:
                data = self._bytes_of(queue[0])
                if data is None:
                    return
                queue.popleft()
                if data:
                    self._received(endpoint, data)
            with self._lock:
                if not queue:
                    self._late.pop(endpoint.id, None)

    def _bytes_of(self, entry: _Entry) -> bytes | None:
        """The bytes of a message. None: not here yet. Empty: they will never come."""
        if isinstance(entry, bytes):
            return entry
        region, transfer = entry
        try:
            return region.read() if transfer.poll() else None
        except errors.Error as error:
            _log.warning("a message of %d bytes is lost: %s", region.nbytes, error)
            return b""
