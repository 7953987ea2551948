#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests on a real kernel's verbs, in emulated guests. `run.py --list` names the cases; `run.py --build FOLDER CASE...`
runs some. Exit status: 0 passed, 1 failed, 77 no guest can be had here (and why)."""
import argparse
import os
import pathlib
import signal
import sys
import time

import cases_conformance
import cases_gaudi
import cases_harness
import cases_stock
from guest import Failure, Lab, require_qemu
from package import Unavailable, find_kernel

CASES = {**cases_harness.CASES, **cases_stock.CASES, **cases_conformance.CASES, **cases_gaudi.CASES}
SKIPPED = 77


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, help="a build folder with tests")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    arguments = parser.parse_args()
    # Raises an exception, so that guests are ended and files removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if arguments.list:
        print("\n".join(CASES))
        return 0
    try:
        require_qemu()
        kernel = find_kernel()
        print(f"kernel {kernel.release} ({kernel.package})", flush=True)
        if kernel.is_fallback:
            print("NOTE: no 6.12 kernel could be had here: 6.1 has fewer exporters of dma-bufs", flush=True)
        # Gives other programs on the machine priority.
        os.nice(5)
        for name in arguments.cases or CASES:
            started = time.monotonic()
            try:
                with Lab(arguments.build.resolve(), kernel) as lab:
                    CASES[name](lab)
            except Failure as failure:
                print(f"{name}: FAILED\n{failure}")
                return 1
            print(f"{name}: passed in {time.monotonic() - started:.1f} s", flush=True)
    except Unavailable as reason:
        # In the format that scripts/count_tests.py expects.
        print(f"run.py: Skipped\nno kernel guest: {reason}")
        return SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
