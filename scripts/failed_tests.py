#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shows the failures of a ctest run at the end of a long output.

usage: failed_tests.py JUNIT_XML                   the names, in one line
       failed_tests.py --output JUNIT_XML          the last lines of output of the first few
       failed_tests.py --tracer JUNIT_XML          a pattern for ctest -R of tests in which only LeakSanitizer's own tracer
                                                   crashed after all cases passed, as GCC 12's may; exits 1 if there are none
       failed_tests.py --merge AGAIN_XML JUNIT_XML replaces the results of tests that ran again; exits 1 if a test still fails
"""
import pathlib
import re
import sys
import xml.etree.ElementTree

MOST_NAMES = 20
MOST_OUTPUTS = 3
MOST_LINES = 40


def read(report):
    """The root of the report; None if it was not built, or ctest did not end."""
    try:
        return xml.etree.ElementTree.parse(report).getroot()
    except (FileNotFoundError, xml.etree.ElementTree.ParseError):
        return None


def has_failed(case):
    """Whether ctest counts the case as failed, which includes timeouts and missing programs."""
    if case.get("status") != "notrun":
        return case.get("status") == "fail"
    skipped = case.find("skipped")
    return skipped is not None and not skipped.get("message", "").startswith("SKIP_")


def read_failed(report):
    """The elements of failed tests."""
    root = read(report)
    return [] if root is None else [case for case in root.iter("testcase") if has_failed(case)]


def output_of(case):
    return case.findtext("system-out") or ""


def named(case):
    """The name of a ctest. For a GoogleTest program also the cases that failed, and those that began and did not end."""
    output = output_of(case)

    def cases(marks):
        return re.findall(rf"^\[(?:{marks})\] (\w[\w/]*\.[\w/]+)", output, re.MULTILINE)

    ended = set(cases("       OK |  FAILED  |  SKIPPED "))
    failed = cases("  FAILED  ") + [name for name in cases(" RUN      ") if name not in ended]
    return " ".join([case.get("name"), *(f"({name})" for name in dict.fromkeys(failed))])


def is_crash_of_tracer(output):
    """Whether this is the only problem: no leak, no error, and no failed case was found."""
    return ("LeakSanitizer has encountered a fatal error" in output
            and not re.search(r"ERROR: \w+Sanitizer|runtime error:|^\[  FAILED  \]", output, re.MULTILINE))


def merge(again, report):
    """Merges both runs into one report, so that each test is named and counted once."""
    root, second = read(report), read(again)
    if root is None or second is None:
        return
    results = {case.get("name"): case for case in second.iter("testcase")}
    for suite in [root, *root.iter("testsuite")]:
        for number, case in enumerate(suite):
            if case.tag == "testcase" and case.get("name") in results:
                suite[number] = results[case.get("name")]
    root.set("failures", str(sum(case.get("status") == "fail" for case in root.iter("testcase"))))
    pathlib.Path(report).write_bytes(xml.etree.ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


def main(arguments):
    *again, report = [a for a in arguments if not a.startswith("--")]
    if "--merge" in arguments:
        merge(*again, report)
        return 1 if read_failed(report) else 0
    failed = read_failed(report)
    if "--tracer" in arguments:
        crashed = [re.escape(case.get("name")) for case in failed if is_crash_of_tracer(output_of(case))]
        print(f"^({'|'.join(crashed)})$")
        return 0 if crashed else 1
    if "--output" not in arguments:
        print(" ".join(named(case) for case in failed[:MOST_NAMES]))
        return 0
    for case in failed[:MOST_OUTPUTS]:
        lines = output_of(case).rstrip().splitlines()
        print(f"--- {named(case)} failed after {float(case.get('time') or 0):.1f} s; of its output:")
        if len(lines) > MOST_LINES:
            print(f"[{len(lines) - MOST_LINES} lines before]")
        print("\n".join(lines[-MOST_LINES:]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
