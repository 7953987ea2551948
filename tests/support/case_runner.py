# SPDX-License-Identifier: MIT
"""The command line of a program with cases: CASES is a table of functions, which get the path of the built hbmwire."""
import argparse
import os
import pathlib

from harness import EMULATE, Failure, Skipped


def main(description, cases):
    """Runs the cases named on the command line, or all. Returns the exit code: 0, 1 after a failure, or 77, which ctest takes
    for skipped, with the reason printed.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--program", help="the built hbmwire")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--emulate", metavar="OPTIONS", help="of every `hbmwire emulate`, besides a case's own")
    arguments = parser.parse_args()
    if arguments.emulate:
        os.environ[EMULATE] = arguments.emulate
    if arguments.list:
        print("\n".join(cases))
        return 0
    program = str(pathlib.Path(arguments.program).resolve())
    for name in arguments.cases or cases:
        try:
            cases[name](program)
        except Skipped as reason:
            print(f"{name}: Skipped\n{reason}")
            return 77
        except Failure as failure:
            print(f"{name}: FAILED\n{failure}")
            return 1
        print(f"{name}: passed", flush=True)
    return 0
