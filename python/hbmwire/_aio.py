# SPDX-License-Identifier: MIT
"""asyncio on a worker: futures that its completions set, without a thread and without polling.

A worker belongs to the event loop in which something of it was first awaited, until that loop is
closed. The loop watches the worker's descriptor, and wakes up when the worker's own clock asks for
it, so that peers are served and watched while the program awaits other things.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _core
from .errors import Error, make

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ._core import Endpoint, Invitation, Listener, Message, RemoteRegion, Transfer, Worker


class _Driver:
    """Drives one worker by one event loop. It does not keep the worker."""

    def __init__(self, worker: Worker, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._pump = _core._Pump(worker)
        self._thread = threading.get_ident()
        self._fd = worker.fileno()
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None
        # Futures that are looked at after each turn: of listeners, messages and closing peers,
        # of which there are few. Transfers have none here.
        self._watched: dict[asyncio.Future[Any], Callable[[], Any]] = {}
        # A worker that another thread has closed may have had this descriptor until now.
        loop.remove_reader(self._fd)
        loop.add_reader(self._fd, self._turn)
        self._turn()

    def stop(self) -> None:
        """The worker is being closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.loop.is_closed():
            return
        self._in_loop(self._forget_descriptor)
        for future in list(self._watched):
            self._in_loop(partial(_fail, future, "the worker was closed"))
        self._watched.clear()

    def _forget_descriptor(self) -> None:
        if self._fd not in _drivers:  # else it is another worker's by now
            self.loop.remove_reader(self._fd)

    def _in_loop(self, call: Callable[[], object]) -> None:
        if threading.get_ident() == self._thread:
            call()
        elif not self.loop.is_closed():
            self.loop.call_soon_threadsafe(call)

    def _turn(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        after = self._pump.turn()
        if after < 0:
            return
        self._look()
        if after == 0:
            self._timer = self.loop.call_soon(self._turn)
        else:
            self._timer = self.loop.call_later(after, self._turn)

    def _look(self) -> None:
        for future, ask in list(self._watched.items()):
            if future.done():
                self._watched.pop(future, None)
                continue
            try:
                found = ask()
            except Exception as error:
                self._watched.pop(future, None)
                future.set_exception(error)
                continue
            if found is not None:
                self._watched.pop(future, None)
                future.set_result(found)

    def when_over(self, what: _core._Waitable) -> asyncio.Future[None] | None:
        """A future that is set when `what` is over; None: it is."""
        future: asyncio.Future[None] = self.loop.create_future()

        def on_end() -> None:
            self._in_loop(lambda: None if future.done() else future.set_result(None))

        if not what._notify(on_end):
            return None
        # Something may have to be posted or polled before the descriptor tells of anything.
        self._soon()
        return future

    def watch(self, ask: Callable[[], Any]) -> asyncio.Future[Any]:
        """A future that is set to what `ask` gives, once that is not None."""
        future: asyncio.Future[Any] = self.loop.create_future()
        self._watched[future] = ask
        future.add_done_callback(lambda done: self._watched.pop(done, None))
        self._soon()
        return future

    def _soon(self) -> None:
        if isinstance(self._timer, asyncio.TimerHandle) or self._timer is None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self.loop.call_soon(self._turn)


def _fail(future: asyncio.Future[Any], why: str) -> None:
    if not future.done():
        future.set_exception(make("cancelled", why, stage="complete"))


# By the worker's descriptor, until it is closed: several objects of Python may stand for a worker.
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
    elif not driver.loop.is_closed():
        raise RuntimeError(
            "the worker is used by another event loop; make one for this loop: "
            "Context.create_worker()"
        )
    driver = _Driver(worker, loop)
    _drivers[fd] = driver
    return driver


async def _over(what: _core._Waitable) -> None:
    """Returns when it is over, and raises why it failed."""
    worker = what.worker
    # Also where nothing has to be waited for: from now on the loop looks after the worker.
    driver = None if worker.closed else driver_of(worker)
    if not what.poll() and driver is not None:
        future = driver.when_over(what)
        if future is not None:
            await future
    what.poll()


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
    await _within(timeout, driver_of(endpoint.worker).watch(lambda: endpoint._is_over() or None))


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
    driver = driver_of(listener.worker)
    endpoint = listener.try_accept()
    if endpoint is not None:
        return endpoint
    accepted: Endpoint = await _within(timeout, driver.watch(listener.try_accept))
    return accepted


async def next_peer(listener: Listener) -> Endpoint:
    """`async for endpoint in listener`, which ends when the listener is closed."""
    try:
        return await accept(listener, None)
    except Error:
        if listener.closed:
            raise StopAsyncIteration from None
        raise


async def next_message(worker: Worker, timeout: float | None) -> Message:
    driver = driver_of(worker)
    message = worker.try_message()
    if message is not None:
        return message
    found: Message = await _within(timeout, driver.watch(worker.try_message))
    return found


async def accept_invitation(
    invitation: Invitation, theirs: bytes, timeout: float | None
) -> Endpoint:
    invitation._start(theirs)
    endpoint: Endpoint = await _within(
        timeout, driver_of(invitation.worker).watch(invitation._poll)
    )
    return endpoint


async def _within(timeout: float | None, future: asyncio.Future[Any]) -> Any:
    try:
        return await asyncio.wait_for(future, timeout)
    except asyncio.TimeoutError:
        if future.done() and not future.cancelled():
            raise  # the library's own
        raise make(
            "timed_out", "not over within the time allowed", stage="complete"
        ) from None
