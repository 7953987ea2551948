# SPDX-License-Identifier: MIT
"""Tests of tests/support/each_case.py. usage: each_case_test.py FOLDER"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(sys.argv.pop(1)) / "each_case.py"

# Acts like a GoogleTest program with three cases: one passes, one fails, one crashes.
PROGRAM = """
import os, signal, sys
name = sys.argv[-1].removeprefix("--gtest_filter=")
if "--gtest_list_tests" in sys.argv:
    if name != "None.*":
        print("Suite.\\n  Good\\n  Bad\\nAll/Suite.\\n  Dies/0  # GetParam() = 7")
    sys.exit(0)
print("ran", name, os.getpid())
if name.endswith("Dies/0"):
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(name.endswith("Bad"))
"""


class EachCase(unittest.TestCase):
    def run_with(self, test_filter):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "a program"
            program.write_text(PROGRAM, encoding="utf-8")
            command = [sys.executable, "-B", str(SCRIPT), test_filter, sys.executable, "-u", str(program)]
            return subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE)

    def test_each_case_is_a_process_and_failures_are_named(self):
        done = self.run_with("Suite.*")
        ran = [line.split() for line in done.stdout.splitlines() if line.startswith("ran ")]
        self.assertEqual([name for _, name, _ in ran], ["Suite.Good", "Suite.Bad", "All/Suite.Dies/0"])
        self.assertEqual(len({process for _, _, process in ran}), 3)
        self.assertIn("[  FAILED  ] Suite.Bad\n[  FAILED  ] All/Suite.Dies/0\n", done.stdout)
        self.assertEqual(done.returncode, 1)

    def test_a_program_without_cases_is_a_failure(self):
        done = self.run_with("None.*")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no case is named None.*", done.stdout)


if __name__ == "__main__":
    unittest.main()
