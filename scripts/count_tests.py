#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the number of tests that ran with the number in the tree, so that none is lost or skipped unseen.

usage: count_tests.py NAME JUNIT_XML EXPECTED_COUNTS [--update]

Silent when all is as expected: ctest's own summary is to be the last thing shown.
"""
import os
import pathlib
import re
import sys
import xml.etree.ElementTree

HEADER = """\
# How many tests run, by kind of run: at least RUN, and at most SKIPPED skipped (each says why).
# `scripts/test --update-counts` writes what it sees; `scripts/test --full --update-counts` the "-full" lines too.
# kind         RUN  SKIPPED
"""


def read_expected(path):
    """The lines of the file as {name: (run, skipped)}."""
    expected = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            match = re.fullmatch(r"([a-z-]+)\s+(\d+)\s+(\d+)", line.strip())
            if match:
                expected[match[1]] = (int(match[2]), int(match[3]))
            elif line.strip() and not line.startswith("#"):
                sys.exit(f"{path}: not `kind RUN SKIPPED`: {line}")
    return expected


def read_report(path):
    """(number of tests that ran, {name of a skipped or disabled test: why})."""
    ran, skipped = 0, {}
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        status = case.get("status")
        if status in ("run", "fail"):
            ran += 1
            continue
        output = case.findtext("system-out") or ""
        # GoogleTest prints the reason on the lines after "file:line: Skipped".
        reason = re.search(r"Skipped\n(.+)", output)
        node = case.find("skipped")
        fallback = node.get("message", "") if node is not None else ""
        skipped[case.get("name")] = reason[1].strip() if reason else fallback or status
    return ran, skipped


def problems(name, ran, skipped, expected):
    """Sentences that say what is wrong; none when the counts are as expected."""
    found = []
    if name not in expected:
        return [f"tests/expected_counts has no line for {name} ({ran} ran, {len(skipped)} were skipped)"]
    least, most_skipped = expected[name]
    if ran < least:
        found.append(f"{name}: {ran} tests ran, at least {least} are expected")
    if len(skipped) > most_skipped:
        found.append(f"{name}: {len(skipped)} tests were skipped, at most {most_skipped} may be")
    return found


def count_as_root_would(ran, skipped):
    """An ordinary user can't run what only root may, and is not blamed for it: such tests count as run."""
    roots_own = [test for test, reason in skipped.items() if reason.startswith("only root")]
    return ran + len(roots_own), {test: skipped[test] for test in skipped if test not in roots_own}


def count_as_with_guests(ran, skipped):
    """Where no kernel guest can be had (no QEMU, no package archive), what runs in one counts as run, and is named."""
    guests = {test: reason for test, reason in skipped.items() if reason.startswith("no kernel guest")}
    return ran + len(guests), {test: skipped[test] for test in skipped if test not in guests}, guests


def main(arguments):
    update = "--update" in arguments
    name, report, expected_path = [a for a in arguments if a != "--update"]
    expected_path = pathlib.Path(expected_path)
    if not pathlib.Path(report).exists():
        sys.exit(f"{name}: ctest wrote no report, so nothing is known of what ran")
    ran, skipped = read_report(report)
    if os.geteuid() != 0:
        ran, skipped = count_as_root_would(ran, skipped)
    ran, skipped, guests = count_as_with_guests(ran, skipped)
    for reason in sorted(set(guests.values())):
        count = list(guests.values()).count(reason)
        print(f"{name}: {count} tests on a real kernel were NOT run: {reason}", file=sys.stderr)
    expected = read_expected(expected_path)
    if update:
        expected[name] = (ran, len(skipped))
        rows = [f"{kind:<13}{counts[0]:>5}{counts[1]:>9}\n" for kind, counts in sorted(expected.items())]
        expected_path.write_text(HEADER + "".join(rows), encoding="utf-8")
        return 0
    found = problems(name, ran, skipped, expected)
    for sentence in found:
        print(sentence, file=sys.stderr)
    if found:
        for test, reason in sorted(skipped.items()):
            print(f"  skipped: {test}: {reason}", file=sys.stderr)
        print("If that is meant, write the new numbers with: scripts/test --update-counts", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
