# SPDX-License-Identifier: MIT
"""An agent in a process of its own, with the calls of vLLM's prefill side in their order.

vLLM registers its caches, prepares its own descriptors, sends the metadata for the handshake,
and asks for notifications in each step of its engine. As a pushing side (vLLM's push mode,
LMCache) it writes to another agent.
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import sys
import time
import uuid
from typing import Any

from neighbours.caches import Caches
from neighbours.process import serve, tell

from hbmwire import nixl


class Peer:
    def __init__(
        self,
        kind: str = "host",
        seed: int | None = None,
        layers: int = 3,
        blocks: int = 16,
        block_bytes: int = 4096,
        card: int = 0,
        name: str = "",
        options: dict[str, Any] | None = None,
    ) -> None:
        self.caches = Caches(kind, layers, blocks, block_bytes, card)
        if seed is None:
            self.caches.clear()
        else:
            self.caches.fill(seed)
        changes: dict[str, Any] = {"listen_address": "127.0.0.1", **(options or {})}
        config = nixl.nixl_agent_config(num_threads=4, capture_telemetry=True, **changes)
        self.agent = nixl.nixl_agent(name or str(uuid.uuid4()), config)
        self.descs = self.agent.get_reg_descs(self.caches.regions(), self.caches.mem_type)
        self.agent.register_memory(self.descs, backends=["UCX"])
        self.local = self.agent.prep_xfer_dlist(
            "NIXL_INIT_AGENT",
            self.agent.get_xfer_descs(self.caches.descriptors(), self.caches.mem_type),
        )
        self.notifications: list[tuple[str, str]] = []

    def handshake(self) -> dict[str, Any]:
        descs = self.agent.get_xfer_descs(self.caches.descriptors(), self.caches.mem_type)
        return {
            "name": self.agent.name,
            "agent_metadata": base64.b64encode(self.agent.get_agent_metadata()).decode(),
            "descs": base64.b64encode(self.agent.get_serialized_descs(descs)).decode(),
            "base_addresses": self.caches.base_addresses,
        }

    def step(self) -> None:
        for agent, messages in self.agent.get_new_notifs().items():
            self.notifications += [(agent, message.decode()) for message in messages]

    def notifs(self) -> list[tuple[str, str]]:
        self.step()
        taken, self.notifications = self.notifications, []
        return taken

    def block(self, layer: int, block: int) -> str:
        return base64.b64encode(self.caches.block(layer, block)).decode()

    def quiet(self, until: str) -> str:
        """Imitates an engine that computes and makes no calls, until this file exists."""
        while not pathlib.Path(until).exists():
            time.sleep(0.01)
        return "quiet"

    def deregister(self) -> str:
        self.agent.deregister_memory(self.descs)
        return "deregistered"

    def add(self, metadata: str) -> str:
        return self.agent.add_remote_agent(base64.b64decode(metadata))

    def push(self, agent: str, descs: str, here: list[int], there: list[int], notif: str) -> str:
        remote = self.agent.prep_xfer_dlist(
            agent, self.agent.deserialize_descs(base64.b64decode(descs))
        )
        handle = self.agent.make_prepped_xfer(
            "WRITE", self.local, here, remote, there, notif.encode()
        )
        state = self.agent.transfer(handle)
        while state == "PROC":
            time.sleep(0.001)
            state = self.agent.check_xfer_state(handle)
        self.agent.release_xfer_handle(handle)
        self.agent.release_dlist_handle(remote)
        return state

    def say(self, agent: str, messages: list[str]) -> str:
        for message in messages:
            self.agent.send_notif(agent, notif_msg=message.encode())
        return "said"


def main() -> None:
    tell(os.getpid())
    peer = Peer(**json.loads(sys.argv[1]))
    tell(peer.handshake())
    names = ("handshake", "notifs", "block", "quiet", "deregister", "add", "push", "say")
    serve({name: getattr(peer, name) for name in names}, peer.step)
    peer.agent.close()
    peer.caches.close()


if __name__ == "__main__":
    main()
