#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Traces of transfers on emulated hardware. usage: run.py --build build/release CASE... (--list names all)"""
import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

import cases_file  # noqa: E402
import cases_probes  # noqa: E402
import cases_tool  # noqa: E402
from harness import Failure, Skipped  # noqa: E402
from trace_format import Wrong  # noqa: E402

CASES = {f"{group}.{name}": case for group, cases in (("file", cases_file.CASES), ("probes", cases_probes.CASES), ("tool", cases_tool.CASES))
         for name, case in cases.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("case", nargs="*")
    given = parser.parse_args()
    if given.list:
        print("\n".join(CASES))
        return 0
    for name in given.case:
        try:
            CASES[name](given.build.resolve())
        except Skipped as why:
            print(f"{name}: skipped: {why}")
            return 77
        except (Failure, Wrong) as failure:
            print(f"{name}: {failure}", file=sys.stderr)
            return 1
        print(f"{name}: good")
    return 0


if __name__ == "__main__":
    sys.exit(main())
