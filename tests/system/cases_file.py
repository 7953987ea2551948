# SPDX-License-Identifier: MIT
"""Sends a real file through both devices' memories."""
import hashlib
import os
import pathlib
import time

from harness import Failure, check, check_one_sentence, only_root, world


def digest(path):
    with open(path, "rb") as file:
        # Python has file_digest since 3.11.
        return hashlib.file_digest(file, "blake2b").hexdigest() if hasattr(hashlib, "file_digest") else \
            hashlib.blake2b(file.read()).hexdigest()


def make_file(path, size, seed=1):
    block = hashlib.shake_128(str(seed).encode()).digest(1 << 20)
    with open(path, "wb") as file:
        for index in range(0, size, len(block)):
            # Every block is different, so that a wrong order is noticed.
            file.write((index.to_bytes(8, "little") + block)[:min(len(block), size - index)])


def send(w, source, target, memory="gaudi", size="1M", timeout=120):
    server = w.server("-m", memory, "-s", size, "--save", target)
    client = w.client(server.port, "-m", memory, "-s", size, "--file", source)
    return server, client, client.finish(timeout), server.finish(60)


def sizes(program):
    """Sizes: empty, one byte, around one buffer, many buffers. The files are identical, and b2sum's digest is shown."""
    with world(program) as w:
        target = w.folder / "in"
        target.mkdir()
        for size in (0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, (13 << 20) + 7):
            source = w.folder / f"file-{size}"
            make_file(source, size)
            server, client, client_code, server_code = send(w, source, target)
            check(client_code == 0 and server_code == 0, client.text, server.text)
            check(digest(source) == digest(target / source.name), f"{size} bytes differ", client.text)
            for process in (client, server):
                check(digest(source) in process.text, "no digest", process.text)
        check(sorted(os.listdir(target)) == sorted(p.name for p in w.folder.glob("file-*")), os.listdir(target))


def replaces(program):
    """A file with the same name is replaced as a whole; a path in the name does not leave the folder."""
    with world(program) as w:
        target = w.folder / "in"
        (w.folder / "deep").mkdir()
        target.mkdir()
        (target / "data").write_text("old")
        source = w.folder / "deep" / "data"
        make_file(source, 100000)
        server, client, client_code, server_code = send(w, source, target)
        check(client_code == 0 and server_code == 0, client.text, server.text)
        check(digest(source) == digest(target / "data"), client.text)


def disk_full(program):
    """Both sides report a full disk, which leaves no partial file."""
    only_root()
    with world(program) as w:
        source = w.folder / "big"
        make_file(source, 8 << 20)
        # A small file system in a mount namespace that ends with the server.
        target = w.folder / "small"
        target.mkdir()
        prefix = ("unshare", "--mount", "sh", "-c",
                  f'mount -t tmpfs -o size=2m tmpfs "{target}" && exec "$@"', "sh")
        server = w.server("-m", "host", "-s", "1M", "--save", target, prefix=prefix)
        client = w.client(server.port, "-m", "host", "-s", "1M", "--file", source)
        check(client.finish(30) == 1, client.text)
        check("No space left on device" in client.text, client.text)
        server.wait_for("No space left on device")
        check(server.handle.poll() is None, "a failed client ended the server", server.text)
        server.stop()


def refused(program):
    """A server without --save, a folder instead of a file, a missing file."""
    with world(program) as w:
        source = w.folder / "data"
        make_file(source, 10)
        server = w.server("-m", "host", "-s", "1M")
        client = w.client(server.port, "-m", "host", "-s", "1M", "--file", source)
        check_one_sentence(client, 1, "--save")
        for path in (w.folder, w.folder / "missing"):
            client = w.client(server.port, "-m", "host", "-s", "1M", "--file", path)
            check(client.finish(20) in (1, 2), client.text)
            check(str(path) in client.text, client.text)
        server.stop()
        server = w.emulated([program, "server", "-p", "0", "-m", "host", "--save", w.folder / "missing"], "a")
        check(server.finish(20) in (1, 2), server.text)
        check("missing" in server.text, server.text)


def anonymous_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    return 0


def memory(program):
    """Anonymous memory of each side stays within its buffers plus 64 MiB, however large the file is."""
    with world(program) as w:
        source = w.folder / "data"
        make_file(source, 300 << 20)
        target = w.folder / "in"
        target.mkdir()
        buffer_mib = 2 * 8  # one to send, one to receive
        server = w.server("-m", "host", "-s", "8M", "--save", target)
        client = w.client(server.port, "-m", "host", "-s", "8M", "--file", source)
        highest = 0
        while client.handle.poll() is None:
            try:
                pids = [server.tool_pid(), client.tool_pid()]
                highest = max(highest, *(anonymous_kib(pid) for pid in pids))
            except (OSError, Failure):
                pass  # one of them has just ended
            time.sleep(0.02)
        check(client.finish() == 0 and server.finish() == 0, client.text, server.text)
        check(highest > 0, "never saw the tools at work")
        check(highest < (buffer_mib + 64) << 10, f"RssAnon reached {highest >> 10} MiB")
        check(digest(source) == digest(target / "data"), "differs")


CASES = {
    "file.sizes": sizes,
    "file.replaces": replaces,
    "file.disk_full": disk_full,
    "file.refused": refused,
    "file.memory": memory,
}
