#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Cases of `hbmwire perf`, below `hbmwire emulate`: run.py --program build/release/bin/hbmwire CASE..."""
import argparse
import sys
import time

import cases
import matrix
from pairs import Failure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("case", nargs="+", help="a case's name, 'pairs', or 'matrix.TEST'")
    arguments = parser.parse_args()
    for name in arguments.case:
        start = time.monotonic()
        try:
            if name == "pairs":
                matrix.run(arguments.program, matrix.reduction())
            elif name.startswith("matrix."):
                test = name.removeprefix("matrix.")
                matrix.run(arguments.program, [row for row in matrix.rows() if row[0] == test])
            else:
                cases.CASES[name](arguments.program)
        except Failure as failure:
            print(f"{name}: {failure}", file=sys.stderr)
            return 1
        print(f"{name}: {time.monotonic() - start:.1f} s")
    return 0


sys.exit(main())
