# SPDX-License-Identifier: MIT
"""Shell scripts pass shellcheck, stop at the first error, and are executable. Completions are sourced, so only shellcheck
checks them."""
import os
import shutil
import subprocess

PROGRAM = "shellcheck"


def check(tree):
    scripts = []
    for path in tree.files("scripts", ".ci", "tests"):
        lines = [line for _, line in tree.lines(path)]
        if not lines or not lines[0].startswith("#!/usr/bin/env bash"):
            continue
        scripts.append(str(path))
        if "set -euo pipefail" not in lines:
            yield f"{path}: has no `set -euo pipefail`"
        if not os.access(tree.root / path, os.X_OK):
            yield f"{path}: has no run bit"
    scripts += [str(path) for path in tree.files("tools") if path.suffix == ".bash"]
    if not scripts:
        return
    if shutil.which(PROGRAM) is None:
        yield f"{PROGRAM} is not installed: scripts/setup test"
        return
    done = subprocess.run([PROGRAM, "-x", "-f", "gcc", *scripts], cwd=tree.root, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        yield done.stdout.rstrip()


HEAD = "#!/usr/bin/env bash\nset -euo pipefail\n"
GOOD = {"scripts/a": HEAD + 'echo "$HOME"\n', "scripts/data.txt": "x\n",
        "tools/a.bash": "# shellcheck shell=bash\n"}
BAD = [
    {"scripts/b": HEAD + "rm $1\n"},
    {"scripts/b": "#!/usr/bin/env bash\necho\n"},
    {"tests/b.sh": HEAD + "if true; then\n"},
    {"tools/b.bash": "# shellcheck shell=bash\nrm $1\n"},
]
