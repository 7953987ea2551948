#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the number of tests that ran with the number in the tree, so that none is lost or skipped unseen.

usage: count_tests.py NAME JUNIT_XML EXPECTED_COUNTS [--update]

Prints nothing if the counts are as expected, so that ctest's own summary comes last.
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


def read_cases(output):
    """(number of GoogleTest cases that ran, {name of a skipped one: reason}), from the program's output; None if it is no
    GoogleTest program. A case that runs its own program again, as a child, counts once."""
    ran, skipped, reason, total = set(), {}, "", None
    lines = output.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("[ RUN      ]"):
            reason = ""
        elif line.endswith(": Skipped"):
            reason = lines[number + 1].strip() if number + 1 < len(lines) else ""
        elif match := re.match(r"\[(       OK |  FAILED  |  SKIPPED )\] ([\w/.]+).*\(\d+ ms\)$", line):
            if "SKIPPED" in match[1]:
                skipped[match[2]] = reason or "no reason given"
            else:
                ran.add(match[2])
        elif match := re.match(r"\[={10}\] (\d+) tests? from .* ran\.", line):
            total = (total or 0) + int(match[1])
    if total is None:
        return None
    # With --gtest_brief=1 passed cases are not named.
    return (len(ran) or total - len(skipped)), skipped


def read_pytest(output):
    """read_cases() for pytest's cases, as `pytest -rs` prints them."""
    total = None
    skipped = {}
    for line in output.splitlines():
        if match := re.fullmatch(r"=*\s*((?:\d+ (?:passed|failed|skipped|deselected|xfailed|xpassed|errors?|warnings?)(?:, )?)+) in [\d.]+s(?: \(.*\))?\s*=*", line):
            counts = {kind: int(count) for count, kind in re.findall(r"(\d+) (\w+)", match[1])}
            total = (total or 0) + sum(counts.get(kind, 0) for kind in ("passed", "failed", "xfailed", "xpassed"))
        elif match := re.match(r"SKIPPED \[(\d+)\] (\S+): (.+)", line):
            for number in range(int(match[1])):
                skipped[f"{match[2]} {number + 1}"] = match[3]
    return None if total is None else (total, skipped)


def read_report(path):
    """(number of tests that ran, {name of a skipped or disabled test: reason}). Tests are the cases of GoogleTest and pytest,
    and all other ctests."""
    ran, skipped = 0, {}
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        status = case.get("status")
        output = case.findtext("system-out") or ""
        if status in ("run", "fail"):
            cases = read_cases(output) or read_pytest(output)
            ran += 1 if cases is None else cases[0]
            for name, reason in (cases or (0, {}))[1].items():
                skipped[f"{case.get('name')}: {name}"] = reason
            continue
        # A script prints the reason on the line after "NAME: Skipped".
        reason = re.search(r"Skipped\n(.+)", output)
        node = case.find("skipped")
        fallback = node.get("message", "") if node is not None else ""
        skipped[case.get("name")] = reason[1].strip() if reason else fallback or status
    return ran, skipped


def problems(name, ran, skipped, expected):
    """One sentence for each fault; empty if the counts are as expected."""
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
    """An ordinary user cannot run tests that need root, which is no fault: they count as run."""
    roots_own = [test for test, reason in skipped.items() if reason.startswith("only root")]
    return ran + len(roots_own), {test: skipped[test] for test in skipped if test not in roots_own}


# Things that a machine or a release may lack permanently: a kernel guest (no QEMU, no package archive), other distributions,
# the right version of clang-format, an old rdma-core, PyTorch, Clang.
LACKS = ("no memory cgroup of version 1", "no kernel guest", "no other distribution", "no clang-format-14", "no newer rdma-core",
         "python3-torch is not installed", "no such C compiler is installed")


def count_as_with_all(ran, skipped):
    """Tests that need something that is missing count as run, and are listed."""
    lacking = {test: reason for test, reason in skipped.items() if reason.startswith(LACKS)}
    return ran + len(lacking), {test: skipped[test] for test in skipped if test not in lacking}, lacking


def main(arguments):
    update = "--update" in arguments
    name, report, expected_path = [a for a in arguments if a != "--update"]
    expected_path = pathlib.Path(expected_path)
    if not pathlib.Path(report).exists():
        sys.exit(f"{name}: ctest wrote no report, so nothing is known of what ran")
    ran, skipped = read_report(report)
    if os.geteuid() != 0:
        ran, skipped = count_as_root_would(ran, skipped)
    ran, skipped, lacking = count_as_with_all(ran, skipped)
    for reason in sorted(set(lacking.values())):
        count = list(lacking.values()).count(reason)
        print(f"{name}: {count} tests were NOT run: {reason}", file=sys.stderr)
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
