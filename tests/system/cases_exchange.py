# SPDX-License-Identifier: MIT
"""The main job: every combination of memories, sizes and owners; and the effect of a flipped bit."""
import json
import os
import re
import shutil
import stat
from unittest import mock

from harness import check, world

SIZES = ["1", "4095", "4M"]
ROUNDS = 3
# For each size there are ROUNDS messages each way, then one write and one read. Each side compares the bytes that it
# receives, and tells the other side the result: the summaries of both name all operations.
PATHS = {"host": "regular memory", "gaudi": "Gaudi DMA-buf", "cuda": "CUDA DMA-buf", "rocm": "ROCm DMA-buf"}
OPERATIONS = ("Send", "Response", "RDMA Write", "RDMA Read")


def exchange(w, server_memory, client_memory, size, server_options=(), client_options=(), **options):
    server = w.server("-m", server_memory, "-s", size, *server_options, **options)
    client = w.client(server.port, "-m", client_memory, "-s", size, *client_options, **options)
    check(client.finish(300) == 0, f"client failed with -s {size}", client.text, server.text)
    check(server.finish(60) == 0, f"server failed with -s {size}", server.text)
    return server, client


def check_verified(process, size_bytes, memory):
    """The summary counts every byte of every operation, with none wrong."""
    for operation in OPERATIONS:
        rounds = ROUNDS if operation in ("Send", "Response") else 1
        match = re.search(rf"✓ {operation}.*?(\d+) bytes compared, (\d+) wrong", process.text)
        check(match is not None, f"no line for {operation}", process.text)
        check(int(match[1]) == rounds * size_bytes and int(match[2]) == 0, match[0], process.text)
    path = re.search(r"RDMA using (.*)", process.text)
    check(path is not None and path[1] == PATHS[memory], "the path is not the memory's", process.text)


def mix(server_memory, client_memory):
    def run(program):
        with world(program) as w:
            for size, size_bytes in zip(SIZES, (1, 4095, 4 << 20)):
                server, client = exchange(w, server_memory, client_memory, size)
                check_verified(server, size_bytes, server_memory)
                check_verified(client, size_bytes, client_memory)
                check("(emulated hardware)" in client.text.splitlines()[0], client.text)
    return run


def every_vendor(*pairs):
    """With a GPU on at least one side."""
    def run(program):
        with world(program) as w:
            node = {"emulate": ("--gaudi", "1", "--cuda", "1", "--rocm", "1")}
            for server_memory, client_memory in pairs:
                for size, size_bytes in (("4095", 4095), ("4M", 4 << 20)):
                    server, client = exchange(w, server_memory, client_memory, size, **node)
                    check_verified(server, size_bytes, server_memory)
                    check_verified(client, size_bytes, client_memory)
    return run


def hl_thunk(program):
    """Cards without SynapseAI: the NIC's loopback copies."""
    with world(program) as w:
        options = ("--owner", "hl-thunk")
        for size, size_bytes in zip(SIZES, (1, 4095, 4 << 20)):
            server, client = exchange(w, "gaudi", "gaudi", size, options, options)
            check_verified(server, size_bytes, "gaudi")
            check_verified(client, size_bytes, "gaudi")
            check("NIC loopback" in client.text and "va=0x1001001800000000" in client.text, client.text)


def same_node(program):
    """Two cards and two NICs of one node."""
    with world(program) as w:
        node = {"name": "n", "emulate": ("--nics", "2", "--gaudi", "2")}
        exchange(w, "gaudi", "gaudi", "64K", ("-d", "emu0", "--card", "0"), ("-d", "emu1", "--card", "1"), **node)


def by_settings(program):
    """An operator's settings reach the queue pairs of both sides. A setting that the NIC does not support causes one message.
    """
    names = {"HBMWIRE_GID_INDEX": "1", "HBMWIRE_LINK_MTU": "1024", "HBMWIRE_LINK_TRAFFIC_CLASS": "104"}
    with mock.patch.dict(os.environ, names), world(program) as w:
        for process in exchange(w, "host", "host", "64K"):
            check_verified(process, 65536, "host")
            check("GID index 1 " in process.text, "another GID", process.text)
    with mock.patch.dict(os.environ, HBMWIRE_LINK_PKEY_INDEX="5"), world(program) as w:
        server = w.server("-m", "host")
        client = w.client(server.port, "-m", "host")
        check(client.finish() != 0 and "(pkey index 5, 1 pkeys)" in client.text, client.text)
        server.stop()


def as_json(program):
    with world(program) as w:
        server = w.server("-m", "gaudi")
        client = w.client(server.port, "-m", "host", "--json")
        check(client.finish() == 0 and server.finish() == 0, client.text, server.text)
        report = json.loads(client.text)
        check(isinstance(report, dict) and "error" not in report, client.text)
        paths = report["memory"]["paths"]
        check([path["path"] for path in paths if path["taken"]] == [report["memory"]["path"]], paths)
        check(len(paths) == 4 and all(path["taken"] or path["refusal"] for path in paths), paths)


def as_user(program):
    """Runs as an ordinary user, with a user namespace."""
    if os.geteuid() != 0:
        return  # every other case already runs that way
    with world(program) as w:
        # Other users may not read the build folder: uses a copy of the program and the files beside it.
        build = os.path.dirname(os.path.dirname(program))
        copy = w.folder / "build"
        for part in ("bin", "lib", "libexec"):
            shutil.copytree(os.path.join(build, part), copy / part, symlinks=True,
                            ignore=shutil.ignore_patterns("*.a"))
        w.program = copy / "bin" / "hbmwire"
        os.chmod(w.folder, stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)
        os.chown(w.base, 65534, 65534)
        prefix = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=/nonexistent")
        server, client = exchange(w, "gaudi", "gaudi", "4M", prefix=prefix)
        check_verified(server, 4 << 20, "gaudi")
        check_verified(client, 4 << 20, "gaudi")


def flipped(operation, pattern):
    """With a flipped bit both tools fail, and both name the operation, the offset, and the expected and actual values."""
    def run(program):
        with world(program) as w:
            plan = ("--faults", f"flip,op={operation},nth=1,byte=1000")
            server = w.server("-m", "gaudi", emulate=plan)
            client = w.client(server.port, "-m", "gaudi", emulate=plan)
            check(client.finish() == 1 and server.finish() == 1, client.text, server.text)
            for process in (server, client):
                found = re.search(pattern, process.text)
                check(found is not None, f"no /{pattern}/", process.text)
    return run


# Offset 1000, where the bit was flipped. The server verifies the bytes that it receives before it doubles them.
WRONG = r"(?i){}.*offset 1000.*expected 0x[0-9a-f]{{2}}.*got 0x[0-9a-f]{{2}}"

CASES = {
    "exchange.gaudi_gaudi": mix("gaudi", "gaudi"),
    "exchange.gaudi_host": mix("gaudi", "host"),
    "exchange.host_gaudi": mix("host", "gaudi"),
    "exchange.host_host": mix("host", "host"),
    "exchange.to_cuda": every_vendor(*(("cuda", client) for client in PATHS)),
    "exchange.to_rocm": every_vendor(*(("rocm", client) for client in PATHS)),
    "exchange.from_gpus": every_vendor(*((server, gpu) for server in ("gaudi", "host") for gpu in ("cuda", "rocm"))),
    "exchange.hl_thunk": hl_thunk,
    "exchange.same_node": same_node,
    "exchange.settings": by_settings,
    "exchange.json": as_json,
    "exchange.user": as_user,
    "faults.send": flipped("send", WRONG.format("send")),
    "faults.write": flipped("write", WRONG.format("write")),
    "faults.read": flipped("read", WRONG.format("read")),
}
