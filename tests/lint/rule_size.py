# SPDX-License-Identifier: MIT
"""A file that cannot be read in one sitting should be split."""

MOST_LINES = 600


def check(tree):
    for path in tree.cpp("include", "src", "c", "tools", "emulation"):
        count = len(tree.lines(path))
        if count > MOST_LINES:
            yield f"{path}: has {count} lines, more than {MOST_LINES}"


GOOD = {"src/base/a.cpp": "\n" * MOST_LINES, "tests/unit/a.cpp": "\n" * (MOST_LINES + 1)}
BAD = [{"src/base/b.cpp": "\n" * (MOST_LINES + 1)}, {"emulation/nic/b.hpp": "\n" * (MOST_LINES + 1)}]
