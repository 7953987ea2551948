#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the binary interface of libhbmwire_c with the one stored in tests/c/libhbmwire_c.abi, by libabigail (docs/c.md).

usage: abi.py --compare TREE LIBRARY COMPILER     exit code 1: they differ
       abi.py --update TREE LIBRARY COMPILER      stores that of LIBRARY
       abi.py --self-test TREE LIBRARY COMPILER   finds moved members, changed arguments and lost functions

LIBRARY must have the types in its debug information: tests/c/abi/libhbmwire_c.so of a build folder. Exit code 77: there is no
abidiff, or the architecture is not x86_64."""
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

DUMP = "tests/c/libhbmwire_c.abi"
ABIDW = ["abidw", "--drop-private-types", "--exported-interfaces-only", "--no-corpus-path", "--no-comp-dir-path",
         "--no-show-locs", "--no-elf-needed", "--type-id-style", "hash"]
# A function of the interface with a structure that the self test changes, and a library with only these.
SMALL = """
#include <stddef.h>
#include <stdint.h>
#include "small.h"
extern "C" __attribute__((visibility("default"))) int hbmwire_small(const hbmwire_small_options* options, ARGUMENT more) {
  return static_cast<int>(options->first + more);
}
#ifndef LOST
extern "C" __attribute__((visibility("default"))) int hbmwire_other() { return 0; }
#endif
"""
HEADER = "struct hbmwire_small_options {{ size_t struct_size; {} }};\n"
MEMBERS = ["uint32_t first;", "uint32_t second;"]


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)


def dump(library, headers, to):
    done = run(*ABIDW, "--headers-dir", headers, "--out-file", to, library)
    if done.returncode != 0:
        raise SystemExit(f"abidw: {done.stderr}")
    # The path of compilation does not belong to the interface.
    to.write_text(re.sub(r" path='[^']*'", "", to.read_text(encoding="utf-8")), encoding="utf-8")


def compare(before, headers, library, folder):
    """The names and types that are missing or different in the library; new functions are allowed."""
    now = pathlib.Path(folder, "now.abi")
    dump(library, headers, now)
    done = run("abidiff", "--no-added-syms", before, now)
    return done.returncode, done.stdout + done.stderr


def small(compiler, folder, name, members, *flags):
    """Makes a separate library, and the folder of its header."""
    place = pathlib.Path(folder, name)
    place.mkdir()
    (place / "small.h").write_text(HEADER.format(" ".join(members)), encoding="utf-8")
    (place / "small.cpp").write_text(SMALL, encoding="utf-8")
    library = place / "libsmall.so"
    done = run(compiler, "-g", "-shared", "-fPIC", *flags, place / "small.cpp", "-o", library)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return place, library


def changed_header(tree, folder):
    """The tree's header with two members of the endpoint's options swapped."""
    include = pathlib.Path(folder, "include")
    shutil.copytree(tree / "c/include", include)
    path = include / "hbmwire/c/endpoint.h"
    text = path.read_text(encoding="utf-8")
    first = next(line for line in text.splitlines() if "uint32_t send_depth;" in line)
    second = next(line for line in text.splitlines() if "uint32_t receive_depth;" in line)
    path.write_text(text.replace(first, "@").replace(second, first).replace("@", second), encoding="utf-8")
    return include


def self_test(tree, compiler):
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        place, library = small(compiler, folder, "before", MEMBERS, "-DARGUMENT=uint32_t")
        before = pathlib.Path(folder, "before.abi")
        dump(library, place, before)
        cases = {
            "same": (MEMBERS, ("-DARGUMENT=uint32_t",), False),
            "moved": (MEMBERS[::-1], ("-DARGUMENT=uint32_t",), True),
            "wider": (["uint64_t first;", "uint32_t second;"], ("-DARGUMENT=uint32_t",), True),
            "argument": (MEMBERS, ("-DARGUMENT=uint64_t",), True),
            "lost": (MEMBERS, ("-DARGUMENT=uint32_t", "-DLOST"), True),
        }
        for name, (members, flags, is_change) in cases.items():
            place, library = small(compiler, folder, name, members, *flags)
            code, said = compare(before, place, library, folder)
            if (code != 0) != is_change:
                wrong.append(f"{name}: abidiff ended with {code}: {said}")
        # With the real header, one changed translation unit is enough to show the difference.
        include = changed_header(tree, folder)
        source = pathlib.Path(folder, "one.cpp")
        source.write_text('#include <hbmwire.h>\nvoid hbmwire_endpoint_options_init(hbmwire_endpoint_options* options, size_t size) {\n'
                          "  options->struct_size = size;\n}\n", encoding="utf-8")
        dumps = []
        for name, headers in (("kept", tree / "c/include"), ("changed", include)):
            library = pathlib.Path(folder, f"lib{name}.so")
            done = run(compiler, "-g", "-shared", "-fPIC", f"-I{headers}", source, "-o", library)
            if done.returncode != 0:
                raise SystemExit(done.stderr)
            dumps.append(pathlib.Path(folder, f"{name}.abi"))
            dump(library, headers, dumps[-1])
        done = run("abidiff", "--no-added-syms", *dumps)
        if done.returncode == 0 or "receive_depth" not in done.stdout:
            wrong.append(f"moved members of hbmwire_endpoint_options are not found: {done.stdout}")
    print("\n".join(wrong) or "changes are found")
    return 1 if wrong else 0


def main():
    if shutil.which("abidiff") is None:
        print("Skipped\nabidiff is not installed: the package abigail-tools")
        return 77
    if platform.machine() != "x86_64":
        print(f"Skipped\nthe interface that is kept is of x86_64, and this is {platform.machine()}")
        return 77
    mode, tree, library, compiler = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    if mode == "--self-test":
        return self_test(tree, compiler)
    if mode == "--update":
        dump(library, tree / "c/include", tree / DUMP)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        code, said = compare(tree / DUMP, tree / "c/include", library, folder)
    print(said or "the binary interface is what it was")
    if code != 0:
        print(f"Programs that were compiled before would break, or members have been added at the end, which is no break: then keep the "
              f"new one, by `{sys.argv[0]} --update {tree} {library} {compiler}`")
    return 1 if code != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
