# SPDX-License-Identifier: MIT
"""The product never reopens a dma-buf by its name: a real one has none. Only the emulated NIC may do that."""

# Split, so that this file itself passes.
FORBIDDEN = "/proc/self" + "/fd"


def check(tree):
    for path in tree.cpp("include", "src", "tools"):
        for number, line in tree.lines(path):
            if FORBIDDEN in line:
                yield f"{path}:{number}: names {FORBIDDEN}, which works on emulated memory only"


GOOD = {"emulation/nic/a.cpp": f'"{FORBIDDEN}/3"\n', "src/base/a.cpp": '"/proc/self/maps"\n'}
BAD = [{"src/memory/gaudi/b.cpp": f'"{FORBIDDEN}/%d"\n'}, {"tools/server/b.cpp": f"// {FORBIDDEN}\n"}]
