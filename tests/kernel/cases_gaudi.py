# SPDX-License-Identifier: MIT
"""The second tier: rxe that imports dma-bufs, and the virtual Gaudi, whose memory is a file on this machine."""
import random
import re

from guest import HERE, Failure, check, finish_well
from modules import own_modules

CARD_BYTES = 32 << 20
# As in gaudi_library_test.cpp.
HOSTS_SEED = 77


def pattern(size, seed, start=0):
    """As in gaudi_fixture.hpp."""
    return bytes((at * 31 + at // 256 + seed) & 0xFF for at in range(start, start + size))


def card(lab, name, contents=b""):
    """A card's memory: a file that a guest has as a BAR, and that we can look into."""
    path = lab.folder / f"{name}.hbm"
    path.write_bytes(contents)
    with open(path, "r+b") as file:
        file.truncate(CARD_BYTES)
    return path


def start(lab, script, *arguments, files=None, **options):
    """A guest of this tier."""
    shared = {"/gaudi_lib.sh": (HERE / "guest" / "gaudi_lib.sh").read_bytes()}
    return lab.start(script, *arguments, own_modules=own_modules(lab.kernel), files={**shared, **(files or {})}, **options)


def finish_both(connector, listener):
    """What goes wrong in one guest often has its cause in the other."""
    try:
        finish_well(connector)
        finish_well(listener)
    except Failure as failure:
        raise Failure(f"{failure}\n{listener.report()}") from None


def driver(lab):
    """What the driver refuses, in which order things go, and what the host sees in the card's memory."""
    # A pattern repeats after 64 KiB.
    memory = card(lab, "card", pattern(1 << 16, HOSTS_SEED) * (CARD_BYTES >> 16))
    output = finish_well(start(lab, "gaudi_driver.sh", cards=[memory]))
    seen = [list(map(int, line)) for line in re.findall(r"^HOST (\d+) (\d+) (\d+) (\d+)$", output, re.MULTILINE)]
    check(len(seen) == 3, f"the test has written to {len(seen)} pages", output)
    check(seen[0][0] > seen[1][0] > seen[2][0], "its pages follow each other in the BAR", seen)
    with open(memory, "rb") as file:
        for at, length, begin, seed in seen:
            file.seek(at)
            check(file.read(length) == pattern(length, seed, begin), f"other bytes at {at} of the BAR")


def exchange(lab):
    """Card to card in one guest, by the tools."""
    finish_well(start(lab, "gaudi_exchange.sh", cards=[card(lab, "one"), card(lab, "other")]))


def pair(lab):
    """Card to card between two guests, by the tools: SEND, WRITE, READ, and a file, all of whose bytes the host finds in
    both cards' memory."""
    weights = random.Random(10).randbytes(100_001)
    files = {"/weights.bin": weights}
    ours, theirs = card(lab, "listen"), card(lab, "connect")
    listener = start(lab, "gaudi_pair.sh", "listen", name="listen", network="listen", cards=[ours], files=files)
    connector = start(lab, "gaudi_pair.sh", "connect", name="connect", network="connect", cards=[theirs], files=files)
    finish_both(connector, listener)
    for memory in (ours, theirs):
        contents = memory.read_bytes()
        for piece in (weights[:1 << 16], weights[1 << 16:]):
            check(piece in contents, f"{memory.stem}: a piece of the file is not in the card's memory")


CASES = {f"gaudi.{case.__name__}": case for case in (driver, exchange, pair)}
