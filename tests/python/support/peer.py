# SPDX-License-Identifier: MIT
"""A peer in a process of its own. usage: peer.py [NBYTES]

It prints its port, advertises "memory" of NBYTES, echoes messages, and obeys lines of standard
input: "sum" prints the sum of its bytes, "exit" ends it.
"""

from __future__ import annotations

import sys
import threading

import hbmwire


def echo(worker: hbmwire.Worker, endpoints: dict[int, hbmwire.Endpoint]) -> None:
    while True:
        try:
            with worker.next_message() as message:
                endpoints[message.endpoint_id].send(message.data, tag=message.tag)
        except hbmwire.Error:
            return


def accept(listener: hbmwire.Listener, endpoints: dict[int, hbmwire.Endpoint]) -> None:
    while True:
        try:
            endpoint = listener.accept()
        except hbmwire.Error:
            return
        endpoints[endpoint.id] = endpoint


def main() -> None:
    nbytes = int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 20
    endpoints: dict[int, hbmwire.Endpoint] = {}
    with hbmwire.Context() as context:
        worker = context.worker
        listener = worker.listen(0, "127.0.0.1", messages="handed_out")
        memory = context.allocate("host", nbytes)
        listener.advertise("memory", memory)
        for work in (lambda: accept(listener, endpoints), lambda: echo(worker, endpoints)):
            threading.Thread(target=work, daemon=True).start()
        print(listener.port, flush=True)
        for line in sys.stdin:
            if line.strip() == "sum":
                print(sum(memory.read()), flush=True)
            elif line.strip() == "exit":
                break


main()
