# SPDX-License-Identifier: MIT
"""Puts 1 MiB of an emulated Gaudi into host memory, between two workers of this process.
Prints the path that it took, and fails unless every byte arrived."""
import os
import threading

import hbmwire

SIZE = 1 << 20

with hbmwire.Context() as context, context.create_worker(progress_thread=True) as other:
    sent = os.urandom(SIZE)
    source = context.allocate("gaudi", SIZE)
    target = context.allocate("host", SIZE, access=["local_write", "remote_write"])
    source.write(sent)
    accepted: list[hbmwire.Endpoint] = []
    with other.listen(address="127.0.0.1") as listener:
        thread = threading.Thread(target=lambda: accepted.append(listener.accept(timeout=30)))
        thread.start()
        peer = context.connect(f"127.0.0.1:{listener.port}", timeout=30)
        thread.join()
    with accepted[0], peer:  # `peer` closes first, and the accepted end's thread answers its goodbye
        remote = peer.remote(bytes(target.pack_key()))
        transfer = peer.put(source[0:SIZE], remote[0:SIZE]).wait(timeout=30)
        print(transfer.explain())
    assert target.read() == sent, "other bytes arrived"
