# SPDX-License-Identifier: MIT
"""Runs rows as an ordinary user when the tests themselves run as root."""
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile

NOBODY = 65534
# Debian's own, because the interpreter that runs this may lie in root's home.
PYTHON = "/usr/bin/python3"
RESULT = re.compile(r"^(\S+): (passed|FAILED) in ")


def copied(program, folder):
    """Copies the build and the tests, which another user may not be able to read.

    Returns the path of the program in the copy.
    """
    program = pathlib.Path(program).resolve()
    build = program.parents[2]
    for part in ("libexec", "lib"):
        shutil.copytree(build / part, folder / "build" / part, symlinks=True, ignore=shutil.ignore_patterns("*.a"))
    here = pathlib.Path(__file__).resolve().parent
    root = here.parents[2]
    for part in (here, root / "tests" / "support"):
        shutil.copytree(part, folder / part.relative_to(root), ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "build" / program.relative_to(build)


def run(program, jobs, names):
    """Runs these rows and prints their output. Returns {name: error or None}."""
    results = dict.fromkeys(names, "was not run")
    with tempfile.TemporaryDirectory(prefix="hbmwire-programs-") as name:
        folder = pathlib.Path(name)
        os.chmod(folder, stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)
        copy = copied(program, folder)
        command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env", "HOME=/nonexistent",
                   f"TMPDIR={folder}", PYTHON, "-B", folder / "emulation" / "tests" / "programs" / "run.py", "--program", copy,
                   "--jobs", str(jobs), *names]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, cwd="/") as child:
            for line in child.stdout:
                print(line, end="", flush=True)
                if match := RESULT.match(line):
                    results[match[1]] = None if match[2] == "passed" else "failed (see above)"
    return results
