#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What failed in a ctest run, for the end of a long output.

usage: failed_tests.py JUNIT_XML             the names, in one line
       failed_tests.py --output JUNIT_XML    the last lines that each of the first few printed
       failed_tests.py --tracer JUNIT_XML    exits 0 where LeakSanitizer's own tracer crashed in all of them, behind cases
                                             that had passed: GCC 12's does now and then
"""
import re
import sys
import xml.etree.ElementTree

MOST_NAMES = 20
MOST_OUTPUTS = 3
MOST_LINES = 40


def read_failed(report):
    """[(name, seconds, output)] of what failed, timed out included."""
    try:
        root = xml.etree.ElementTree.parse(report).getroot()
    except (FileNotFoundError, xml.etree.ElementTree.ParseError):
        return []  # it was not built, or ctest did not end
    return [(named(case), float(case.get("time") or 0), case.findtext("system-out") or "")
            for case in root.iter("testcase") if case.get("status") == "fail"]


def named(case):
    """A ctest's name; of a GoogleTest program also the cases that failed, and those that began and did not end."""
    output = case.findtext("system-out") or ""

    def cases(marks):
        return re.findall(rf"^\[(?:{marks})\] (\w[\w/]*\.[\w/]+)", output, re.MULTILINE)

    ended = set(cases("       OK |  FAILED  |  SKIPPED "))
    failed = cases("  FAILED  ") + [name for name in cases(" RUN      ") if name not in ended]
    return " ".join([case.get("name"), *(f"({name})" for name in dict.fromkeys(failed))])


def is_crash_of_tracer(output):
    """Whether nothing else was found: neither a leak, nor an error, nor a case that failed."""
    return ("LeakSanitizer has encountered a fatal error" in output
            and not re.search(r"ERROR: \w+Sanitizer|runtime error:|^\[  FAILED  \]", output, re.MULTILINE))


def main(arguments):
    with_output = "--output" in arguments
    (report,) = [a for a in arguments if not a.startswith("--")]
    failed = read_failed(report)
    if "--tracer" in arguments:
        return 0 if failed and all(is_crash_of_tracer(output) for _, _, output in failed) else 1
    if not with_output:
        print(" ".join(name for name, _, _ in failed[:MOST_NAMES]))
        return 0
    for name, seconds, output in failed[:MOST_OUTPUTS]:
        lines = output.rstrip().splitlines()
        print(f"--- {name} failed after {seconds:.1f} s; of its output:")
        if len(lines) > MOST_LINES:
            print(f"[{len(lines) - MOST_LINES} lines before]")
        print("\n".join(lines[-MOST_LINES:]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
