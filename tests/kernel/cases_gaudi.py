# SPDX-License-Identifier: MIT
"""The second tier: rxe with import of dma-bufs, and the virtual Gaudi, whose memory is a file on this machine."""
import random
import re

from guest import HERE, Failure, check, finish_well
from modules import own_modules

CARD_BYTES = 32 << 20
# As in gaudi_library_test.cpp.
HOSTS_SEED = 77


def pattern(size, seed, start=0):
    """The same pattern as in gaudi_fixture.hpp."""
    return bytes((at * 31 + at // 256 + seed) & 0xFF for at in range(start, start + size))


def card(lab, name, contents):
    """Writes a card's memory: a file that a guest sees as a BAR, and that this process can read. Returns its path."""
    path = lab.folder / f"{name}.hbm"
    path.write_bytes(contents)
    return path


def noise(seed):
    """Random initial contents of a card."""
    return random.Random(seed).randbytes(CARD_BYTES)


def start(lab, script, *arguments, files=None, **options):
    """Starts a guest of this tier."""
    shared = {"/gaudi_lib.sh": (HERE / "guest" / "gaudi_lib.sh").read_bytes()}
    return lab.start(script, *arguments, own_modules=own_modules(lab.kernel), files={**shared, **(files or {})}, **options)


def finish_both(connector, listener):
    """Waits for both guests. A failure in one guest often has its cause in the other."""
    try:
        finish_well(connector)
        finish_well(listener)
    except Failure as failure:
        raise Failure(f"{failure}\n{listener.report()}") from None


def driver(lab):
    """Tests the driver's refusals and the allowed orders of calls, and the card's memory as the host sees it."""
    # The pattern repeats after 64 KiB.
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
    """Between two cards of one guest, with the tools."""
    finish_well(start(lab, "gaudi_exchange.sh", cards=[card(lab, "one", noise(1)), card(lab, "other", noise(2))]))


def doctor(lab):
    """The doctor with a card: zero-copy and verified. Without a path from the NIC to the card, it names the cause."""
    output = finish_well(start(lab, "gaudi_doctor.sh", cards=[card(lab, "card", noise(3))]))
    there, _, without = output.partition("WITHOUT A WAY")
    check(re.search(r"^gaudi 0 +[0-9.]+ .*$", there, re.MULTILINE), "the card was not verified with the NIC", output)
    check("device memory: zero-copy" in there, "it was not zero-copy", output)
    check(re.search(r"^gaudi 0 +(staged|refused)", without, re.MULTILINE), "a way was found that is not there", output)
    check("CONFIG_PCI_P2PDMA" in without, "the kernel's option is not named", output)


def bytes_of(part, output, contents):
    """The contents of a card's memory at the places where the guest reported this part."""
    pieces = re.findall(rf"^PART {part} (\d+) (\d+)$", output, re.MULTILINE)
    check(pieces, f"no word of where the part {part} is", output)
    return b"".join(contents[int(at):int(at) + int(length)] for at, length in pieces)


def check_transfers(before, after, output):
    """The bytes of one card are in the other card's memory, and still in its own. All arguments are by guest name."""
    for part, giver in (("send", "connect"), ("write", "connect"), ("read", "listen")):
        wanted = bytes_of(part, output[giver], before[giver])
        check(len(wanted) == 300_000, f"{part}: {len(wanted)} bytes")
        for name, contents in after.items():
            check(bytes_of(part, output[name], contents) == wanted, f"{part}: not in the card of {name}")


def pair(lab):
    """Between cards of two guests: SEND, WRITE and READ of bytes that the host put into one card and finds in the other. Also
    the tools, which exchange and verify patterns, and send a file."""
    weights = random.Random(10).randbytes(400_001)
    files = {"/weights.bin": weights}
    before = {name: noise(name) for name in ("listen", "connect")}
    cards = {name: card(lab, name, contents) for name, contents in before.items()}
    listener, connector = (start(lab, "gaudi_pair.sh", name, name=name, network=name, cards=[cards[name]], files=files)
                           for name in before)
    finish_both(connector, listener)
    after = {name: memory.read_bytes() for name, memory in cards.items()}
    check_transfers(before, after, {"listen": listener.output(), "connect": connector.output()})
    for name, contents in after.items():
        # The later exchange has overwritten the first 128 KiB.
        check(weights[128 << 10:] in contents, f"{name}: the file is not in the card's memory")


CASES = {f"gaudi.{case.__name__}": case for case in (driver, exchange, doctor, pair)}
