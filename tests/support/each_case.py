#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs each case of a GoogleTest program in a process of its own.

usage: each_case.py FILTER COMMAND... PROGRAM

FILTER is --gtest_filter's. COMMAND (`emulate --nics 1 --`, or nothing) starts PROGRAM anew for each case, so that a case
may fork before anything is opened, or change its hardware for good. Exits with 1 if a case failed or none was found.
"""
import subprocess
import sys


def cases(command, test_filter):
    """The full names of the cases that match the filter, as --gtest_list_tests prints them."""
    listed = subprocess.run([*command, "--gtest_list_tests", f"--gtest_filter={test_filter}"], check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    suite, names = "", []
    for line in listed.splitlines():
        line = line.split("#")[0].rstrip()
        if line.startswith("  "):
            names.append(suite + line.strip())
        elif line.endswith("."):
            suite = line
    return names


def main(arguments):
    if len(arguments) < 2:
        sys.exit(__doc__)
    test_filter, *command = arguments
    names = cases(command, test_filter)
    failed = []
    for name in names:
        done = subprocess.run([*command, f"--gtest_filter={name}"], check=False)
        if done.returncode != 0:
            failed.append(name)
    for name in failed:
        print(f"[  FAILED  ] {name}")
    if not names:
        print(f"no case is named {test_filter}")
    return 1 if failed or not names else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
