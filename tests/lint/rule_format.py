# SPDX-License-Identifier: MIT
"""clang-format 14 changes nothing (other versions format differently)."""
import pathlib
import re
import shutil
import subprocess

PROGRAM = "clang-format-14"
# Debian 12, Ubuntu 22.04 and 24.04; newer releases have no package of it.
RELEASES = ("bookworm", "jammy", "noble")


def unavailable():
    """The reason why the rule cannot be checked here, or None. Where scripts/setup installs the program, a missing program is
    an error."""
    codename = re.search(r"^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text(encoding="utf-8"), re.MULTILINE)
    if shutil.which(PROGRAM) or (codename and codename[1] in RELEASES):
        return None
    return f"no {PROGRAM} in this release, and another version formats otherwise"


def check(tree):
    if shutil.which(PROGRAM) is None:
        yield f"{PROGRAM} is not installed: scripts/setup test"
        return
    files = tree.cpp("include", "src", "c", "tools", "emulation", "tests", "bench", "examples")
    if not files:
        return
    done = subprocess.run([PROGRAM, "--dry-run", "--Werror", *map(str, files)], cwd=tree.root, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode == 0:
        return
    # One line for each file is enough, because one command repairs all.
    first = {}
    for line in done.stdout.splitlines():
        if match := re.match(r"(.+?):(\d+):\d+: error: ", line):
            first.setdefault(match[1], match[2])
    for name, number in first.items():
        yield f"{name}:{number}: is not formatted; run: {PROGRAM} -i {name}"
    if not first:
        yield done.stdout


STYLE = "BasedOnStyle: Google\n"
GOOD = {".clang-format": STYLE, "src/base/a.cpp": "int a;\n"}
BAD = [{"src/base/b.cpp": "int   b ;\n"}, {"tests/unit/b.hpp": "void f( );\n"}]
