#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the names of the functions of the C interface: headers, map file and library have the same ones, each has a comment, and
a test calls it besides null_test.cpp, which calls all of them with NULL. usage: symbols.py TREE LIBRARY"""
import pathlib
import re
import subprocess
import sys

# Functions that tests need not call by name: HBMWIRE_MADE or header_test.c initialises the types.
INITIALISER = re.compile(r"hbmwire_\w+_init$")


def without_comments(text):
    return re.sub(r"//[^\n]*", "", text)


def declared(tree):
    """The functions that the headers declare. Also puts declarations without a comment into `uncommented`."""
    found = set()
    for path in sorted((tree / "c/include/hbmwire/c").glob("*.h")):
        text = path.read_text(encoding="utf-8")
        found |= set(re.findall(r"HBMWIRE_C_API\s[^;]*?\b(hbmwire_\w+)\(", without_comments(text)))
        for group in re.split(r"\n\s*\n", text):
            if "HBMWIRE_C_API " in group and "///" not in group and "#define" not in group:
                uncommented.append(f"{path.name}: a declaration without a comment:\n{group}")
    return found


uncommented = []


def mapped(tree):
    text = (tree / "c/hbmwire_c.map").read_text(encoding="utf-8")
    return set(re.findall(r"^    (hbmwire_\w+);", text, re.MULTILINE))


def exported(library):
    said = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    # Symbols of the type " A " are the names of versions.
    return {line.split()[2].partition("@")[0] for line in said.splitlines() if " A " not in line}


def called(tree):
    text = ""
    for path in [*(tree / "tests/c").glob("*.cpp"), *(tree / "tests/c").glob("*.hpp")]:
        if path.name != "null_test.cpp":
            text += without_comments(path.read_text(encoding="utf-8"))
    named = set(re.findall(r"\bhbmwire_\w+", text))
    return named | {f"{name}_init" for name in re.findall(r"HBMWIRE_MADE\((\w+)\)", text)}


def main():
    tree, library = pathlib.Path(sys.argv[1]), sys.argv[2]
    names = declared(tree)
    wrong = list(uncommented)
    for what, there in (("hbmwire_c.map", mapped(tree)), ("the library", exported(library))):
        wrong += [f"{name} is declared, and {what} lacks it" for name in sorted(names - there)]
        wrong += [f"{what} has {name}, which no header declares" for name in sorted(there - names)]
    wrong += [f"no test calls {name}" for name in sorted(names - called(tree)) if not INITIALISER.match(name)]
    header = (tree / "tests/c/header_test.c").read_text(encoding="utf-8")
    for name in sorted(names):
        if INITIALISER.match(name) and f"INITIALISED({name.removesuffix('_init')})" not in header:
            wrong.append(f"header_test.c does not initialise {name.removesuffix('_init')}")
    print("\n".join(wrong) or f"{len(names)} functions are declared, exported and tested")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
