# SPDX-License-Identifier: MIT
"""Gibibytes, and many killed processes: for `scripts/test --full`."""
import random
import subprocess

from cases_exchange import check_verified, exchange
from cases_failures import kill_at
from cases_file import digest, send
from harness import check, world


def large_exchange(program):
    with world(program) as w:
        for server_memory in ("gaudi", "host"):
            for client_memory in ("gaudi", "host"):
                server, client = exchange(w, server_memory, client_memory, "1G")
                check_verified(server, 1 << 30, server_memory)
                check_verified(client, 1 << 30, client_memory)


def large_file(program):
    """Sends 3 GB of this machine's /usr between Gaudis, through buffers of 4 MiB."""
    with world(program) as w:
        source = w.folder / "usr.tar"
        target = w.folder / "in"
        target.mkdir()
        # Contains /usr twice in case it is small; head closes the pipe when it has enough.
        subprocess.run(f'{{ tar -cf - /usr; tar -cf - /usr; }} 2>/dev/null | head -c 3000000000 > "{source}"',
                       shell=True, check=False)
        check(source.stat().st_size == 3_000_000_000, f"/usr gave {source.stat().st_size} bytes")
        server, client, client_code, server_code = send(w, source, target, size="4M", timeout=500)
        check(client_code == 0 and server_code == 0, client.text, server.text)
        check(digest(source) == digest(target / source.name), "differs")


def many_kills(program):
    rng = random.Random(13)
    for _ in range(60):
        with world(program) as w:
            kill_at(w, rng, rng.random() < 0.5, rng.choice(("gaudi", "host")))


CASES = {"large.exchange": large_exchange, "large.file": large_file, "large.kills": many_kills}
