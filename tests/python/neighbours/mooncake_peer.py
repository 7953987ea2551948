# SPDX-License-Identifier: MIT
"""A transfer engine in a process of its own, with the calls of SGLang's decode side in their order.

SGLang initializes the engine, registers its caches in one call, and sends its session and the
addresses of its caches to the prefill side, which writes to them.
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import sys
import time
from typing import Any

from neighbours.caches import Caches
from neighbours.process import serve, tell

from hbmwire import mooncake


class Peer:
    def __init__(
        self,
        kind: str = "host",
        seed: int | None = None,
        card: int = 0,
        protocol: str = "rdma",
        hostname: str = "127.0.0.1",
        options: dict[str, Any] | None = None,
    ) -> None:
        self.caches = Caches(kind, card=card)
        if seed is None:
            self.caches.clear()
        else:
            self.caches.fill(seed)
        mooncake.defaults.listen_address = "127.0.0.1"
        for name, value in (options or {}).items():
            setattr(mooncake.defaults, name, value)
        self.engine = mooncake.TransferEngine()
        assert self.engine.initialize(hostname, "P2PHANDSHAKE", protocol, "") == 0
        self.session = f"{hostname}:{self.engine.get_rpc_port()}"
        lengths = [layer.nbytes for layer in self.caches.layers]
        assert self.engine.batch_register_memory(self.caches.base_addresses, lengths) == 0

    def told(self) -> dict[str, Any]:
        return {"session": self.session, "base_addresses": self.caches.base_addresses}

    def block(self, layer: int, block: int) -> str:
        return base64.b64encode(self.caches.block(layer, block)).decode()

    def unregister(self) -> int:
        return self.engine.batch_unregister_memory(self.caches.base_addresses)

    def register(self) -> int:
        lengths = [layer.nbytes for layer in self.caches.layers]
        return self.engine.batch_register_memory(self.caches.base_addresses, lengths)

    def probe(self, session: str) -> int:
        return self.engine.send_probe(session)

    def quiet(self, until: str) -> str:
        """Imitates an engine that computes and makes no calls, until this file exists."""
        while not pathlib.Path(until).exists():
            time.sleep(0.01)
        return "quiet"


def main() -> None:
    tell(os.getpid())
    peer = Peer(**json.loads(sys.argv[1]))
    tell(peer.told())
    names = ("block", "unregister", "register", "probe", "quiet")
    serve({name: getattr(peer, name) for name in names}, lambda: None)
    peer.engine.close()
    peer.caches.close()


if __name__ == "__main__":
    main()
