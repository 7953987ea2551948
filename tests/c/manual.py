#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that the C code in docs/c.md is part of an example, which the tests compile and run. usage: manual.py TREE"""
import pathlib
import re
import sys


def main():
    tree = pathlib.Path(sys.argv[1])
    examples = [path.read_text(encoding="utf-8") for path in sorted((tree / "c/examples").glob("*.c"))]
    blocks = re.findall(r"^```c\n(.*?)^```", (tree / "docs/c.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lost = [block for block in blocks if not any(block in example for example in examples)]
    for block in lost:
        print(f"docs/c.md has C that no example has:\n{block}")
    print(f"{len(blocks)} blocks")
    # Fewer than 4: the pattern does not find the blocks.
    return 1 if lost or len(blocks) < 4 else 0


if __name__ == "__main__":
    sys.exit(main())
