#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""System tests of hbmwire's tools. `run.py --list` names the cases, `run.py --program PATH CASE...` runs some."""
import argparse
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

import cases_exchange  # noqa: E402
import cases_explain  # noqa: E402
import cases_failures  # noqa: E402
import cases_file  # noqa: E402
import cases_info  # noqa: E402
import cases_large  # noqa: E402
import cases_limits  # noqa: E402
import cases_room  # noqa: E402
import cases_tools  # noqa: E402
from harness import EMULATE, Failure, Skipped  # noqa: E402

CASES = {**cases_exchange.CASES, **cases_explain.CASES, **cases_failures.CASES, **cases_file.CASES, **cases_info.CASES,
         **cases_large.CASES, **cases_limits.CASES, **cases_room.CASES, **cases_tools.CASES}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", help="the built hbmwire")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--emulate", metavar="OPTIONS", help="of every `hbmwire emulate`, besides a case's own")
    arguments = parser.parse_args()
    if arguments.emulate:
        os.environ[EMULATE] = arguments.emulate
    if arguments.list:
        print("\n".join(CASES))
        return 0
    for name in arguments.cases or CASES:
        try:
            CASES[name](arguments.program)
        except Skipped as reason:
            print(f"{name}: Skipped\n{reason}")
            return 77
        except Failure as failure:
            print(f"{name}: FAILED\n{failure}")
            return 1
        print(f"{name}: passed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
