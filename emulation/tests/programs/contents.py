# SPDX-License-Identifier: MIT
"""Compares the data that programs have moved, byte by byte, because their own reports do not."""
import hashlib
import pathlib
import random
import re
import tempfile

from harness import check

# perftest maps and fills twice its message and two cache lines. The file must be at least as long.
MMAP_BYTES = 8 << 20
MMAP_MESSAGE = 65536


class Mmap:
    """`--mmap=FILE` of perftest, a file in shared memory for each side.

    Each side fills its whole file with one stream of random numbers. It sends from the first half,
    or stores READ data there; the peer's WRITEs, READs and SENDs use the second half. The first
    half of one side can equal the second half of the other only through the NIC. This holds even
    if both use the same seed (the time in seconds), because a stream does not repeat so soon.
    """

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="hbmwire-programs-", dir="/dev/shm")
        for side in ("server", "client"):
            with open(self._file(side), "wb") as file:
                file.truncate(MMAP_BYTES)

    def _file(self, side):
        return pathlib.Path(self._folder.name) / side

    def places(self, side):
        return {"file": self._file(side)}

    def check(self, row, server, client):
        halves = {}
        for side in ("server", "client"):
            data = self._file(side).read_bytes()[:2 * MMAP_MESSAGE]
            halves[side] = data[:MMAP_MESSAGE], data[MMAP_MESSAGE:]
            check(len(set(data)) == 256, f"{side}: the file was never filled")
        check(halves["client"][0] == halves["server"][1], f"{row.name}: what arrived is not what was sent")

    def close(self):
        self._folder.cleanup()


class Counter(Mmap):
    """`--mmap=FILE` with fetch-and-add: the server's counter is the last found value plus one."""

    def check(self, row, server, client):
        found = int.from_bytes(self._file("client").read_bytes()[:8], "little")
        with open(self._file("server"), "rb") as file:
            data = file.read(2 * 4096)
        offset = 4096  # the served buffer follows the send buffer; each has a page
        counter = int.from_bytes(data[offset:offset + 8], "little")
        check(counter == (found + 1) % (1 << 64), f"{row.name}: the counter is {counter:#x}, last found {found:#x}")


class Copied:
    """rcopy: a file of random bytes and odd length arrives unchanged."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="hbmwire-programs-")
        self._source = pathlib.Path(self._folder.name) / "source"
        self._target = pathlib.Path(self._folder.name) / "target"
        self._source.write_bytes(random.Random(3).randbytes((3 << 20) + 17))

    def places(self, side):
        return {"source": self._source, "target": self._target}

    def check(self, row, server, client):
        got, sent = (hashlib.sha256(path.read_bytes()).hexdigest() for path in (self._target, self._source))
        check(got == sent, f"{row.name}: the copy differs")

    def close(self):
        self._folder.cleanup()


class Counted:
    """perftest's table has a line of numbers, none of them zero, for every size."""

    LINE = re.compile(r"^ *(\d+) +(\d+) +(\d+\.\d+) ", re.MULTILINE)

    def places(self, side):
        return {}

    def check(self, row, server, client):
        sizes = [int(match[1]) for match in self.LINE.finditer(client.text)]
        check(sizes == [1 << power for power in range(1, 24)], f"{row.name}: sizes {sizes}", client.text)

    def close(self):
        pass


CHECKS = {"mmap": Mmap, "counter": Counter, "copied": Copied, "all_sizes": Counted}
