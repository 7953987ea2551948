# SPDX-License-Identifier: MIT
"""Shared by the modules that have the API of another library: options, and stand-in packages."""

from __future__ import annotations

import dataclasses
import importlib.machinery
import sys
import types
from collections.abc import Sequence
from typing import Any

from . import errors
from ._core import Context

__all__ = ["NeighbourOptions", "stand_in"]


@dataclasses.dataclass
class NeighbourOptions:
    """Options that neither API has. Times are in seconds; None: for ever."""

    connect_timeout: float | None = 30.0  # until a peer has answered
    transfer_timeout: float | None = 30.0  # until a transfer is over; then its connection ends
    peer_timeout: float | None = 2.0  # until a peer that has gone is noticed
    require: str | None = None  # the one path of device memory: "zero_copy", ...
    allow: Sequence[str] = ()  # the paths of all memory; empty: all of them
    nics: str | Sequence[str] = ()  # empty: as HBMWIRE_NICS says
    device: str = ""  # the device that is meant by an address that several cards have
    listen_address: str = ""  # one of this machine's addresses; empty: all of them
    port: int = 0  # where peers connect; 0: a free one
    pre_shared_key: bytes = b""  # both ends must know it; empty: none
    max_transfers: int = 16384  # at a time

    def context(self, **worker: Any) -> Context:
        """A context with room for `max_transfers`. `worker`: further options of its worker."""
        given: dict[str, Any] = {"nics": self.nics} if self.nics else {}
        return Context(
            default_device=self.device,
            max_transfers=self.max_transfers,
            **self._policy(),
            **given,
            **worker,
        )

    def endpoint(self) -> dict[str, Any]:
        """The keyword arguments of connect() and listen()."""
        given: dict[str, Any] = {
            "messages": "handed_out",
            "peer_timeout": self.peer_timeout,
            "operation_timeout": self.transfer_timeout,
        }
        if self.pre_shared_key:
            given["pre_shared_key"] = self.pre_shared_key
        return given | self._policy()

    def _policy(self) -> dict[str, Any]:
        given: dict[str, Any] = {}
        if self.require is not None:
            given["require"] = self.require
        if self.allow:
            given["allow"] = tuple(self.allow)
        return given


def stand_in(package: str, modules: Sequence[str], this: types.ModuleType) -> types.ModuleType:
    """Makes a package whose `modules` are all `this` one, for programs that import them by name.

    Raises Busy if the package has been imported already.
    """
    if package in sys.modules:
        raise errors.make(
            "busy", f"{package} has been imported already", "call stand_in_for() before"
        )
    root = types.ModuleType(package, f"{this.__name__}, under another name")
    root.__path__ = []  # a package, with no modules except those below
    # Needed by importlib.util.find_spec(), by which programs ask whether the package exists.
    root.__spec__ = importlib.machinery.ModuleSpec(package, None, is_package=True)
    for name in modules:
        setattr(root, name, this)
        sys.modules[f"{package}.{name}"] = this
    sys.modules[package] = root
    return root
