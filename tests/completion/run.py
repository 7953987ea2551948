#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Completes lines by TAB in an interactive shell on a terminal. usage: run.py PROGRAM SHELL [LINE...]

PROGRAM is the built hbmwire, and SHELL is bash, bash_completion (bash with the package of that name) or zsh. With a LINE
it completes only that one, and shows the result.
"""
import os
import pathlib
import re
import shutil
import sys
import tempfile

from cases import NOTHING, all_cases
from shells import BASH, ZSH, Shell

COMPLETION = pathlib.Path(__file__).resolve().parents[2] / "tools/completion"
PACKAGE = pathlib.Path("/usr/share/bash-completion/bash_completion")
HOSTS = ("node1", "node2", "other")
SKIPPED = 77


def lay_out(folder, program):
    """Makes the folder of the shell and its home: files, and the program at several paths."""
    here, home = folder / "here", folder / "home"
    for name in ("alpha", "alone/bin", "bin/with space"):
        (here / name).mkdir(parents=True)
    (here / "apple.txt").touch()
    home.mkdir()
    for link in (here / "bin/hbmwire", here / "bin/with space/hbmwire"):
        link.symlink_to(program)
    (home / "tools").symlink_to(here / "bin")
    # A program that finds its library but no emulated hardware.
    shutil.copy2(program, here / "alone/bin/hbmwire")
    (here / "alone/lib").symlink_to(program.parent.parent / "lib")
    return here, home


def start(shell, folder, program):
    here, home = lay_out(folder, program)
    environment = {"HOME": str(home), "PATH": f"{here}/bin:/usr/bin:/bin", "TERM": "dumb", "LC_ALL": "C.UTF-8"}
    if shell == "zsh":
        hosts = f"zstyle ':completion:*' hosts {' '.join(HOSTS)}\n"
        return Shell(["zsh", "-f", "-i"], f"fpath=({COMPLETION} $fpath)\n{ZSH}{hosts}", environment, here)
    (home / "hosts").write_text("".join(f"127.0.0.1 {name}\n" for name in HOSTS), encoding="utf-8")
    environment["HOSTFILE"] = str(home / "hosts")
    package = f". {PACKAGE}\n" if shell == "bash_completion" else ""
    set_up = f"{BASH}{package}. {COMPLETION}/hbmwire.bash\n"
    return Shell(["bash", "--norc", "--noprofile", "-i"], set_up, environment, here)


def mistake(typed, expected, completed):
    """The fault, or nothing. Shells differ in the text after a completed word: a space, in zsh also before another word, and
    zsh's "=", which disappears when a space is typed."""
    if isinstance(expected, (set, frozenset)) and expected != NOTHING:
        if completed.candidates != sorted(expected):
            return f"lists {completed.candidates}, not {sorted(expected)}"
        return None
    line = typed.replace("^", "") if expected == NOTHING else expected
    if completed.printed:
        return f"prints {completed.printed}"
    if re.sub(" +", " ", completed.line).rstrip(" =") != line.rstrip(" ="):
        return f"becomes {completed.line!r}, not {line!r}"
    return None


def lacking(shell):
    if shutil.which(shell.split("_", maxsplit=1)[0]) is None:
        return f"no {shell}: scripts/setup test"
    if shell == "bash_completion" and not PACKAGE.exists():
        return f"no {PACKAGE}: scripts/setup test"
    return None


def main(program, shell, *lines):
    if reason := lacking(shell):
        print(f"{shell}: Skipped\n{reason}")
        return SKIPPED
    program = pathlib.Path(program).resolve()
    cases = all_cases(program)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        terminal = start(shell, pathlib.Path(folder), program)
        try:
            for typed in lines or cases:
                completed = terminal.complete(typed)
                if lines:
                    print(repr(completed.line), *completed.printed, sep="\n  ")
                elif found := mistake(typed, cases[typed], completed):
                    print(f"{shell}: {typed!r} {found}")
                    wrong += 1
        finally:
            terminal.close()
    if not lines:
        print(f"{shell}: {len(cases) - wrong} of {len(cases)} lines are completed as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
