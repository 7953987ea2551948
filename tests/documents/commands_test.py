#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the commands that the documents show, on emulated hardware, as a reader types them.

usage: commands_test.py SOURCE BUILD [PART]

SOURCE is the tree and BUILD its build. PART is how the path of a document begins: "docs/" stands for all documents there, and
nothing for all of the tree.

Each code block runs in a folder, a network and a process namespace of its own. A block whose commands do not start the
emulation themselves runs in it as a whole. recipes.py has the differences from a reader's machine, and the commands that do not
run here, with the reasons.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
from blocks import blocks_of, documents, spoken_commands  # noqa: E402
from shell import output_of  # noqa: E402
from recipes import ELSEWHERE, NOT_HERE, PREPARE, REPLACE, Recipe, RECIPES  # noqa: E402

SECONDS = 120
MY_TEST = """#!/bin/bash
hbmwire perf put_bw --duration 2 -p 7100 >/dev/null & server=$!
until grep -q ':1BBC .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done
hbmwire perf put_bw localhost --duration 2 -p 7100
result=$?
kill $server 2>/dev/null
exit $result
"""
EMULATE = ["--quiet", "--nics", "2", "--gaudi", "2", "--cuda", "2", "--rocm", "2", "--"]

# A network with a loopback device only, processes and shared memory that no other test sees. All ends with this process.
ALONE = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
         *([] if os.geteuid() == 0 else ["--map-root-user"]),
         "bash", "-euc", 'ip link set lo up; mount -t tmpfs tmpfs /dev/shm; exec "$@"', "alone"]


class Runner:
    def __init__(self, source, build):
        self.source = source
        self.build = build
        self.ctests = self.names_of_tests()

    def names_of_tests(self):
        listed = subprocess.run(["ctest", "-N"], cwd=self.build, capture_output=True, text=True, check=True).stdout
        return set(re.findall(r"^ *Test +#\d+: (\S+)", listed, re.M))

    def script_of(self, block, recipe):
        """The commands of the block as a shell of this machine runs them."""
        lines = []
        for number, line in enumerate(block.commands):
            for pattern, replacement in [*REPLACE, *recipe.replace]:
                line = re.sub(pattern, replacement, line)
            if recipe.nodes:
                line = shlex.join(["hbmwire", "emulate", *EMULATE[:-1], "--fabric", "lab", "--name", f"n{number}", "--",
                                   "bash", "-euc", line])
            if number in recipe.background:
                line = f"{{ {line}\n}} &\n{recipe.ready}"
            lines.append(line)
        return "\n".join([PREPARE, recipe.before, *lines, recipe.after])

    def run(self, block, recipe):
        """None, or the reason of the failure with the output."""
        script = self.script_of(block, recipe)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.furnish(folder)
            command = ["bash", "-euo", "pipefail", "-c", script]
            if recipe.emulated and "hbmwire emulate" not in script:
                command = [str(self.build / "bin/hbmwire"), "emulate", *EMULATE, *command]
            environment = {**os.environ, "HBMWIRE_LOG_LEVEL": "error", "HOME": str(folder), "PATH": f"{self.build}/bin:{os.environ['PATH']}",
                           "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                           "PYTHONPATH": str(self.build / "python")}
            output, code = output_of([*ALONE, *command], SECONDS, cwd=folder, env=environment, stdin=subprocess.DEVNULL)
        if code != 0:
            return f"{output}\nends with {code}"
        missing = [words for words in recipe.says if words not in output]
        return f"{output}\nnot in the output: {missing}" if missing else None

    def furnish(self, folder):
        """A tree with a build, and programs of the reader, which move bytes."""
        (folder / "build").mkdir()
        (folder / "build/release").symlink_to(self.build)
        for name in ("python", "scripts", "tests", "tools"):
            (folder / name).symlink_to(self.source / name)
        for name in ("my_test", "program"):
            (folder / name).write_text(MY_TEST)
            (folder / name).chmod(0o755)

    def check_elsewhere(self, names):
        """The tests that run the block exist."""
        missing = [name for name in names.split() if name not in self.ctests]
        return f"there is no ctest {missing}" if missing else None

    def check_named(self, block):
        """A command that is not run is at least a program of this tree, with these options; other programs are not known here."""
        for line in block.commands:
            for program, words in re.findall(r"(?:^|[;&|] *)((?:scripts|tests|emulation/tests)/\S+)([^;&|#]*)", line):
                path = self.source / program
                if not os.access(path, os.X_OK):
                    return f"there is no program {program}"
                text = path.read_text(encoding="utf-8")
                unknown = [word for word in words.split() if word.startswith("--") and word not in text]
                if unknown and "argparse" not in text:
                    return f"{program} has no {unknown}"
        return None


def check_options(build, document):
    """Commands within sentences name options that the program has."""
    failures, helps = [], {}
    for command, words in spoken_commands(document):
        if command not in helps:
            said = subprocess.run([build / "bin/hbmwire", command, "--help"], capture_output=True, text=True, check=False)
            helps[command] = said.stdout if said.returncode == 0 else None
        if helps[command] is None:
            failures.append(f"{document}: there is no `hbmwire {command}`")
            continue
        failures += [f"{document}: `hbmwire {command}` has no option {word}" for word in words
                     if not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", helps[command])]
    return failures


def main(arguments):
    if len(arguments) not in (2, 3):
        sys.exit(__doc__)
    if subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode != 0:
        print("documents: Skipped\nthis user may make no namespaces here")  # as count_tests.py reads it
        sys.exit(77)
    part = arguments[2] if len(arguments) == 3 else ""
    source, build = (pathlib.Path(path).resolve() for path in arguments[:2])
    runner = Runner(source, build)
    failures, known = [], set()
    ran = elsewhere = not_here = 0
    for document in documents(source):
        name = str(document.relative_to(source))
        if not name.startswith(part):
            continue
        failures += check_options(build, document)
        for block in blocks_of(document):
            place = f"{name}:{block.line}"
            keys = [key for table in (ELSEWHERE, NOT_HERE, RECIPES) for key in table
                    if key[0] == name and block.commands[0].strip().startswith(key[1])]
            known.update(keys)
            key = max(keys, key=lambda each: len(each[1]), default=None)
            if key in ELSEWHERE:
                elsewhere += 1
                failure = runner.check_elsewhere(ELSEWHERE[key])
            elif key in NOT_HERE:
                not_here += 1
                print(f"not run: {place}: {block.commands[0]}: {NOT_HERE[key]}")
                failure = runner.check_named(block)
            else:
                ran += 1
                print(f"run: {place}: {block.commands[0]}", flush=True)
                failure = runner.run(block, RECIPES.get(key, Recipe()))
            if failure:
                shown = "\n".join(block.commands)
                failures.append(f"{place}:\n{shown}\n{failure}")
    failures += [f"recipes.py names a command that no document has: {key}"
                 for table in (ELSEWHERE, NOT_HERE, RECIPES) for key in table if key not in known and key[0].startswith(part)]
    print(f"{ran} blocks of commands ran, {elsewhere} are run by other tests, {not_here} can't run here")
    if failures:
        sys.exit("\n\n".join(failures))


if __name__ == "__main__":
    main(sys.argv[1:])
