# SPDX-License-Identifier: MIT
"""asyncio on a worker: its completions set futures, without a thread and without polling.

A worker belongs to the first event loop that awaits one of its operations, until that loop is
closed. The loop watches the worker's descriptor, and wakes up when the worker's own clock asks for
it, so that peers are served and watched while the program awaits other things.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _core
from .errors import Error, make

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ._core import (
        Context,
        Endpoint,
        Group,
        Invitation,
        Listener,
        Message,
        RemoteRegion,
        Transfer,
        Worker,
    )


_CLOSING = 0.01  # seconds between polls of operations that end with a worker being closed
_TOO_LONG = "not over within the time allowed"


class _Driver:
    """Drives one worker by one event loop. Does not keep the worker alive."""

    def __init__(self, worker: Worker, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._pump = _core._Pump(worker)
        self._thread = threading.get_ident()
        # A duplicate of the descriptor: another thread may close the worker, and a socket of this
        # loop may get the same number before the loop learns of that.
        self._fd = os.dup(worker.fileno())
        self._timer: asyncio.TimerHandle | None = None  # for the worker's own clock
        self._soon = False  # a turn is scheduled
        # Tasks that wait for a listener, a message or the like; there are few. Each has a function
        # that tells when the wait is over. Transfers are not in here.
        self._watched: dict[asyncio.Future[None], Callable[[], bool]] = {}
        loop.add_reader(self._fd, self._turn)
        _core._on_begin(worker, self.wake)
        self._turn()

    def stop(self) -> None:
        """Ends the driver: the worker is being closed, or its loop was."""
        if self.loop.is_closed():
            os.close(self._fd)
        else:
            self._in_loop(self._leave)

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.loop.remove_reader(self._fd)
        os.close(self._fd)
        # The tasks check again, and learn that the worker is closed.
        for future in list(self._watched):
            _resolve(future)

    def _in_loop(self, call: Callable[[], object]) -> None:
        """Calls `call` in the loop's thread: now, or soon if this is another thread."""
        if self.loop.is_closed():
            return  # the worker is used without asyncio
        if threading.get_ident() == self._thread:
            call()
            return
        with suppress(RuntimeError):  # the loop's own thread is just closing the loop
            self.loop.call_soon_threadsafe(call)

    def _turn(self) -> None:
        """Lets the worker handle what has happened, and arranges the next turn."""
        self._soon = False
        after = self._pump.turn(bool(self._watched))  # seconds; below 0: the worker is closed
        if self._watched:
            for future, ready in list(self._watched.items()):
                if after < 0 or _is_ready(ready):
                    _resolve(future)
        if after == 0:
            self._turn_soon()
        elif after > 0:
            self._turn_by(self.loop.time() + after)

    def _turn_by(self, when: float) -> None:
        # Most turns ask for the same time as an earlier turn, or for a later one.
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = self.loop.call_at(when, self._by_clock)

    def _by_clock(self) -> None:
        self._timer = None
        self._turn()

    def wake(self) -> None:
        """An operation was begun, by any thread, and may have to be polled."""
        self._in_loop(self._turn_soon)

    def _turn_soon(self) -> None:
        if not self._soon:
            self._soon = True
            self.loop.call_soon(self._turn)

    async def over(self, what: _core._Waitable) -> None:
        """Returns when `what` is over, or the worker is closed."""
        future: asyncio.Future[None] = self.loop.create_future()

        def on_end() -> None:
            self._in_loop(lambda: _resolve(future))

        if not what._notify(on_end):
            return
        try:
            await future
        finally:
            what._forget(on_end)

    async def until(self, ready: Callable[[], bool]) -> None:
        """Returns when `ready()` has returned true or raised, or the worker is closed."""
        future: asyncio.Future[None] = self.loop.create_future()
        self._watched[future] = ready
        self._turn_soon()
        try:
            await future
        finally:
            self._watched.pop(future, None)


def _is_ready(ready: Callable[[], bool]) -> bool:
    try:
        return ready()
    except Error:
        return True  # the waiting task calls ready() again, which raises the error there


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


# Drivers by the worker's descriptor, because several Python objects may stand for one worker.
_drivers: dict[int, _Driver] = {}


def _end_driver(fd: int) -> None:
    driver = _drivers.pop(fd, None)
    if driver is not None:
        driver.stop()


def driver_of(worker: Worker) -> _Driver:
    """The driver of a worker in the running event loop."""
    loop = asyncio.get_running_loop()
    fd = worker.fileno()
    driver = _drivers.get(fd)
    if driver is None:
        _core._on_close(worker, lambda: _end_driver(fd))
    elif driver.loop is loop:
        return driver
    elif driver.loop.is_closed():
        driver.stop()
    else:
        raise RuntimeError(
            "the worker is used by another event loop; make one for this loop: "
            "Context.create_worker()"
        )
    driver = _Driver(worker, loop)
    _drivers[fd] = driver
    return driver


def _driver_for(what: _core._Waitable) -> _Driver | None:
    """The driver of `what`'s worker in the running event loop; None if the worker is closed."""
    fd = what._worker_fd
    if fd < 0:
        return None
    driver = _drivers.get(fd)
    if driver is not None and driver.loop is asyncio.get_running_loop():
        return driver
    return driver_of(what.worker)


async def _over(what: _core._Waitable) -> None:
    """Returns when `what` is over, and raises why it failed."""
    # Asked for even if there is nothing to wait for: from now on the loop drives the worker.
    driver = _driver_for(what)
    while not what.poll():
        if driver is None:
            await asyncio.sleep(_CLOSING)  # `what` ends with the worker, soon
        else:
            await driver.over(what)
        driver = _driver_for(what)


async def _until(
    worker: Worker, ready: Callable[[], bool], timeout: float | None, stage: str, cause: str
) -> None:
    """Returns when `ready()` is true. Raises whatever that raises, and TimedOut."""

    async def wait() -> None:
        driver = driver_of(worker)
        while not ready():
            await driver.until(ready)

    try:
        await asyncio.wait_for(wait(), timeout)
    except asyncio.TimeoutError as error:
        if isinstance(error, Error):  # TimedOut, which ready() has raised
            raise
        raise make("timed_out", cause, stage=stage) from None


async def finish(transfer: Transfer) -> Transfer:
    """`await transfer`."""
    await _over(transfer)
    return transfer


async def immediately(value: Any) -> Any:
    return value


class Connecting:
    """A connection that is being made: `await` it, or `async with` it."""

    def __init__(
        self, worker: Worker, peer: str, timeout: float | None, options: Mapping[str, Any]
    ) -> None:
        def begin() -> _core._Connecting:
            return worker._start_connect(peer, timeout, **options)

        self._begin = begin
        self._endpoint: Endpoint | None = None

    async def _connect(self) -> Endpoint:
        pending = self._begin()
        await _over(pending)
        return pending.take()

    def __await__(self) -> Generator[Any, None, Endpoint]:
        return self._connect().__await__()

    async def __aenter__(self) -> Endpoint:
        self._endpoint = await self._connect()
        return self._endpoint

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._endpoint is not None:
            await leave(self._endpoint, kind, error, traceback)


async def leave(
    endpoint: Endpoint,
    kind: type[BaseException] | None,
    _error: BaseException | None,
    _traceback: TracebackType | None,
) -> None:
    """The end of `async with endpoint`."""
    if endpoint.closed:
        return
    try:
        if kind is None:
            await close(endpoint, 10.0)
    finally:
        endpoint._let_go()


async def close(endpoint: Endpoint, timeout: float | None) -> None:
    if not endpoint.closed:
        await _over(endpoint._start_close(timeout))


async def wait_closed(endpoint: Endpoint, timeout: float | None) -> None:
    await _until(endpoint.worker, endpoint._is_over, timeout, "complete", _TOO_LONG)


async def reconnect(endpoint: Endpoint, timeout: float | None) -> None:
    pending = endpoint._start_reconnect(timeout)
    await _over(pending)
    endpoint._replace(pending)


async def remote(endpoint: Endpoint, what: Any, timeout: float | None) -> RemoteRegion:
    by_key = endpoint._remote_by_key(what)
    if by_key is not None:
        return by_key
    asking = endpoint._ask(what, timeout)
    await _over(asking)
    return asking.take()


async def accept(listener: Listener, timeout: float | None) -> Endpoint:
    cause = "no peer connected in time"
    while True:
        await _until(listener.worker, listener._is_ready, timeout, "connect", cause)
        endpoint = listener.try_accept()
        if endpoint is not None:  # otherwise another task has taken it
            return endpoint


async def next_peer(listener: Listener) -> Endpoint:
    """`async for endpoint in listener`, which ends when the listener is closed."""
    try:
        return await accept(listener, None)
    except Error:
        if listener.closed:
            raise StopAsyncIteration from None
        raise


async def next_message(worker: Worker, timeout: float | None) -> Message:
    while True:
        await _until(worker, worker._has_message, timeout, "complete", _TOO_LONG)
        message = worker.try_message()
        if message is not None:  # otherwise another task has taken it
            return message


async def accept_invitation(
    invitation: Invitation, theirs: bytes, timeout: float | None
) -> Endpoint:
    invitation._start(theirs)
    cause = "the peer did not begin in time"
    await _until(invitation.worker, invitation._is_ready, timeout, "connect", cause)
    return invitation._take()


async def of_group(begin: Callable[..., _core._GroupCall], *given: Any, **options: Any) -> Any:
    """A call of a group, which has a thread of its own. A task that is cancelled ends the call."""
    call = begin(*given, **options)
    driver_of(call.worker)  # for its effect: the loop accepts other ranks' endpoints from now on
    try:
        await _readable(call.fileno())
    except asyncio.CancelledError:
        call.cancel()
        await _readable(call.fileno())
        raise
    return call.take()


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    loop.add_reader(fd, _resolve, future)
    try:
        await future
    finally:
        loop.remove_reader(fd)


async def close_group(group: Group, *_exception: object) -> None:
    # The meeting point is told, which may take a moment; the loop goes on meanwhile.
    await asyncio.get_running_loop().run_in_executor(None, group.close)


async def close_context(context: Context) -> None:
    # Closing may take a moment if a peer has gone; the loop goes on meanwhile.
    await asyncio.get_running_loop().run_in_executor(None, context.close)
