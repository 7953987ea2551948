# SPDX-License-Identifier: MIT
"""Tests of scripts/count_tests.py. usage: count_tests_test.py SCRIPTS_FOLDER"""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, sys.argv.pop(1))
import count_tests  # noqa: E402  (its folder is only known from the command line)

REPORT = """<?xml version="1.0"?>
<testsuite tests="4" skipped="1" failures="1">
 <testcase name="a" status="run"/><testcase name="b" status="run"/>
 <testcase name="c" status="fail"><failure message="no"/></testcase>
 <testcase name="d" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION matched"/>
  <system-out>x.cpp:3: Skipped
needs two cards
</system-out></testcase>
</testsuite>
"""

CASES = """[ RUN      ] S.Good
[       OK ] S.Good (0 ms)
[ RUN      ] S.Skipped
x.cpp:3: Skipped
needs two cards
[  SKIPPED ] S.Skipped (0 ms)
[ RUN      ] S.Silent
[  SKIPPED ] S.Silent (0 ms)
[ RUN      ] All/S.OfEach/gaudi
[       OK ] All/S.OfEach/gaudi (0 ms)
[ RUN      ] All/S.OfEach/cuda
[  FAILED  ] All/S.OfEach/cuda, where GetParam() = 7 (0 ms)
[==========] 5 tests from 2 test suites ran. (5 ms total)
"""


PYTEST = """..s.F                                                                    [100%]
=========================== short test summary info ============================
SKIPPED [2] tests/python/a_test.py:12: no card: none is here
FAILED tests/python/a_test.py::test_a - assert 1 == 2
1 failed, 3 passed, 2 skipped, 1 warning in 61.10s (0:01:01)
"""


class CountTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.report = pathlib.Path(folder.name) / "tests.xml"
        self.expected = pathlib.Path(folder.name) / "expected_counts"
        self.report.write_text(REPORT, encoding="utf-8")

    def run_with(self, expected, *options):
        """Returns (exit status, output) with these lines in the file of expected counts."""
        if expected is not None:
            self.expected.write_text(expected, encoding="utf-8")
        shown = io.StringIO()
        with contextlib.redirect_stderr(shown), contextlib.redirect_stdout(shown):
            status = count_tests.main(["release", str(self.report), str(self.expected), *options])
        return status, shown.getvalue()

    def test_expected_counts_print_nothing(self):
        self.assertEqual(self.run_with("# comment\nrelease 3 1\n"), (0, ""))

    def test_more_tests_than_expected_pass(self):
        self.assertEqual(self.run_with("release 2 5\n"), (0, ""))

    def test_a_lost_test_fails_and_says_how_to_update(self):
        status, shown = self.run_with("release 4 1\n")
        self.assertEqual(status, 1)
        self.assertIn("3 tests ran, at least 4", shown)
        self.assertIn("--update-counts", shown)

    def test_a_new_skip_fails_and_shows_its_reason(self):
        status, shown = self.run_with("release 3 0\n")
        self.assertEqual(status, 1)
        self.assertIn("d: needs two cards", shown)

    def test_tests_for_root_count_as_run_for_others(self):
        skipped = {"a": "only root may", "b": "needs two cards"}
        self.assertEqual(count_tests.count_as_root_would(5, skipped), (6, {"b": "needs two cards"}))

    def test_tests_of_a_missing_guest_are_named_and_count_as_run(self):
        skip = """<testcase name="k" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
  <system-out>run.py: Skipped
no kernel guest: no QEMU here
</system-out></testcase></testsuite>"""
        self.report.write_text(REPORT.replace("</testsuite>", skip), encoding="utf-8")
        status, shown = self.run_with("release 4 1\n")
        self.assertEqual(status, 0, shown)
        self.assertIn("release: 1 tests were NOT run: no kernel guest: no QEMU here", shown)
        self.assertEqual(self.run_with("release 4 0\n")[0], 1)

    def test_tests_that_a_release_lacks_count_as_run(self):
        skipped = {"a": "no clang-format-14 in this release", "b": "no other distribution: no archive", "c": "no card"}
        self.assertEqual(count_tests.count_as_with_all(5, skipped),
                         (7, {"c": "no card"}, {test: skipped[test] for test in "ab"}))

    def test_cases_of_googletest_are_counted_by_their_output(self):
        self.assertEqual(count_tests.read_cases(CASES), (3, {"S.Skipped": "needs two cards", "S.Silent": "no reason given"}))

    def test_a_case_that_runs_its_own_program_again_is_counted_once(self):
        self.assertEqual(count_tests.read_cases(CASES + CASES)[0], 3)

    def test_without_names_the_sums_count(self):
        brief = "[==========] 4 tests from 1 test suite ran. (5 ms total)\n"
        self.assertEqual(count_tests.read_cases(brief), (4, {}))
        self.assertEqual(count_tests.read_cases(brief + brief), (8, {}))

    def test_other_programs_than_googletests_have_no_cases(self):
        self.assertIsNone(count_tests.read_cases("all well\n"))

    def test_cases_of_pytest_are_counted_by_their_output(self):
        skipped = {f"tests/python/a_test.py:12 {n}": "no card: none is here" for n in (1, 2)}
        self.assertEqual(count_tests.read_pytest(PYTEST), (4, skipped))
        self.assertEqual(count_tests.read_pytest("5 passed in 0.12s\n"), (5, {}))
        self.assertEqual(count_tests.read_pytest("== 5 passed in 0.12s ==\n"), (5, {}))
        self.assertEqual(count_tests.read_pytest("1 skipped in 0.12s\n"), (0, {}))
        self.assertIsNone(count_tests.read_pytest("5 passengers in 12s\nall well\n"))

    def test_a_report_counts_cases_of_pytest(self):
        self.report.write_text(REPORT.replace('<testcase name="a" status="run"/>', f"""<testcase name="a" status="run">
  <system-out>{PYTEST}</system-out></testcase>"""), encoding="utf-8")
        ran, skipped = count_tests.read_report(self.report)
        self.assertEqual(ran, 2 + 4)
        self.assertEqual(skipped["a: tests/python/a_test.py:12 1"], "no card: none is here")

    def test_a_report_counts_cases_and_the_other_ctests(self):
        self.report.write_text(REPORT.replace('<testcase name="a" status="run"/>', f"""<testcase name="a" status="run">
  <system-out>{CASES}</system-out></testcase>"""), encoding="utf-8")
        ran, skipped = count_tests.read_report(self.report)
        self.assertEqual(ran, 5)
        self.assertEqual(skipped, {"a: S.Skipped": "needs two cards", "a: S.Silent": "no reason given",
                                   "d": "needs two cards"})

    def test_a_kind_without_a_line_fails(self):
        self.assertEqual(self.run_with("asan 1 0\n")[0], 1)

    def test_no_report_fails(self):
        self.report.unlink()
        with self.assertRaises(SystemExit):
            self.run_with("release 0 0\n")

    def test_a_line_that_is_no_count_fails(self):
        with self.assertRaises(SystemExit):
            self.run_with("release many\n")

    def test_update_keeps_the_other_kinds(self):
        self.assertEqual(self.run_with("asan 7 0\nrelease 9 0\n", "--update")[0], 0)
        self.assertEqual(count_tests.read_expected(self.expected), {"asan": (7, 0), "release": (3, 1)})
        self.assertEqual(self.run_with(None), (0, ""))


if __name__ == "__main__":
    unittest.main()
