# SPDX-License-Identifier: MIT
"""Tests of scripts/failed_tests.py. usage: failed_tests_test.py SCRIPTS_FOLDER"""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, sys.argv.pop(1))
import failed_tests  # noqa: E402  (its folder is only known from the command line)

REPORT = """<?xml version="1.0"?>
<testsuite tests="3" failures="2">
 <testcase name="good" time="1" status="run"><system-out>fine</system-out></testcase>
 <testcase name="bad" time="0.25" status="fail"><failure message=""/><system-out>one
two
</system-out></testcase>
 <testcase name="late" time="60.02" status="fail"><failure message="Timeout"/><system-out>%s</system-out></testcase>
</testsuite>
"""


class FailedTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.report = pathlib.Path(folder.name) / "tests.xml"

    def run_on(self, text, *options, result=0):
        """Runs the script with a report of this text. Returns its output; with `result` None, (exit status, output)."""
        if text is not None:
            self.report.write_text(text, encoding="utf-8")
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            ended = failed_tests.main([*options, str(self.report)])
        if result is None:
            return ended, shown.getvalue()
        self.assertEqual(ended, result)
        return shown.getvalue()

    def test_names_are_in_one_line(self):
        self.assertEqual(self.run_on(REPORT % ""), "bad late\n")

    def test_the_end_of_each_output_is_shown(self):
        shown = self.run_on(REPORT % "\n".join(f"line {n}" for n in range(100)), "--output")
        self.assertIn("bad failed after 0.2 s; of its output:\none\ntwo\n", shown)
        self.assertIn("late failed after 60.0 s; of its output:\n[60 lines before]\nline 60\n", shown)
        self.assertTrue(shown.endswith("line 99\n"))
        self.assertNotIn("fine", shown)

    def test_a_crash_of_the_leak_checker_is_told_from_leaks(self):
        crash = "[  PASSED  ] 42 tests.\nTracer caught signal 11\n==7==LeakSanitizer has encountered a fatal error.\n"
        report = """<testsuite><testcase name="good" time="1" status="run"/>
 <testcase name="crashed" time="1" status="fail"><system-out>%s</system-out></testcase></testsuite>"""

        def answer(output, text=report):
            return self.run_on(text % output, "--tracer", result=None)

        self.assertEqual(answer(crash), (0, "^(crashed)$\n"))
        self.assertEqual(answer("==7==ERROR: LeakSanitizer: detected memory leaks\n")[0], 1)
        self.assertEqual(answer(crash + "==7==ERROR: AddressSanitizer: heap-use-after-free\n")[0], 1)
        self.assertEqual(answer("[  FAILED  ] Suite.Bad (2 ms)\n" + crash)[0], 1)
        self.assertEqual(answer(crash, REPORT), (0, "^(late)$\n"), "another has failed as well")
        self.assertEqual(answer(crash, REPORT.replace('"late"', '"A.b"')), (0, "^(A\\.b)$\n"), "a pattern")
        self.assertEqual(answer("", "<testsuite>%s</testsuite>")[0], 1, "nothing has failed")

    def test_second_run_takes_the_place_of_the_first(self):
        crash = "==7==LeakSanitizer has encountered a fatal error.\n"
        again = self.report.with_name("again.xml")
        again.write_text("""<testsuite><testcase name="late" time="1" status="run"><system-out>passed</system-out></testcase>
</testsuite>""", encoding="utf-8")
        self.assertEqual(self.run_on(REPORT % crash, "--merge", str(again), result=1), "", "another has failed")
        self.assertEqual(self.run_on(None), "bad\n")
        self.assertIn("passed", self.report.read_text(encoding="utf-8"))
        self.assertNotIn("fatal", self.report.read_text(encoding="utf-8"))
        self.run_on(REPORT.replace('name="bad" time="0.25" status="fail"', 'name="bad" status="run"') % crash, "--merge", str(again))
        self.assertEqual(self.run_on(None), "\n")
        again.unlink()
        self.run_on(REPORT % crash, "--merge", str(again), result=1)

    def test_missing_program_has_failed_and_a_skipped_test_has_not(self):
        report = """<testsuite>
 <testcase name="missing" status="notrun"><skipped message="Unable to find executable"/></testcase>
 <testcase name="skips" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>
 <testcase name="off" status="disabled"/></testsuite>"""
        self.assertEqual(self.run_on(report), "missing\n")

    def test_cases_that_failed_or_did_not_end_are_named(self):
        output = """[ RUN      ] Suite.Good
[       OK ] Suite.Good (1 ms)
[ RUN      ] Suite.Bad
[  FAILED  ] Suite.Bad (2 ms)
[ RUN      ] All/Suite.OfEach/gaudi
[  FAILED  ] All/Suite.OfEach/gaudi, where GetParam() = 7 (3 ms)
[ RUN      ] Suite.Crashes
[  FAILED  ] 2 tests, listed below:
[  FAILED  ] Suite.Bad
"""
        self.assertEqual(self.run_on(REPORT % output), "bad late (Suite.Bad) (All/Suite.OfEach/gaudi) (Suite.Crashes)\n")

    def test_no_report_and_half_a_report_are_nothing(self):
        self.assertEqual(self.run_on(None, "--output"), "")
        self.assertEqual(self.run_on("<testsuite>", "--output"), "")


if __name__ == "__main__":
    unittest.main()
