#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a tutorial as a reader does: saves its programs, runs its commands in order, and looks for the output that it shows.

usage: documents_test.py tutorial SOURCE BUILD DOCUMENT    docs/tutorial-*.md
       documents_test.py readme SOURCE BUILD               README.md's C++, against the receiver of docs/tutorial-cpp.md

SOURCE is the tree and BUILD its build, which stands for what `scripts/build` makes. Differences from a reader: scripts/build
is left out, and ports are free ones, since tests run side by side.
"""
import os
import pathlib
import re
import socket
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from shell import output_of  # noqa: E402

SECONDS = 150
# The test's own build is its result.
LEFT_OUT = "scripts/build"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PROGRAM = re.compile(r"Save this as `([\w.]+)`(?:(?!```).)*?```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PORT = re.compile(r"\b700[0-9]\b")
MAIN = """
#include <cstdio>
int main(int, char** arguments) {
  const auto pushed = push(arguments[1]);
  if (!pushed) std::fprintf(stderr, "push: %s\\n", describe(pushed.error()).c_str());
  return pushed ? 0 : 1;
}
"""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def programs_of(text):
    programs = dict(PROGRAM.findall(text))
    code = [block for language, block in BLOCK.findall(text) if language in ("cpp", "python")]
    assert programs and list(programs.values()) == code, "each program is announced by: Save this as `NAME`"
    return programs


def commands_of(text, source):
    lines = [line for language, block in BLOCK.findall(text) if language == "sh" for line in block.splitlines()]
    kept = [line for line in lines if not line.startswith(LEFT_OUT)]
    assert kept and len(lines) - len(kept) == 1, f"{LEFT_OUT} is one line"
    assert os.access(source / LEFT_OUT, os.X_OK), f"there is no program {LEFT_OUT}"
    return "\n".join(kept)


def run(folder, source, build, programs, commands):
    """The output of the commands in a folder that looks like a clone with a build. Fails where one of them fails."""
    (folder / "build").mkdir()
    (folder / "build" / "release").symlink_to(build)
    (folder / "include").symlink_to(source / "include")
    for name, text in programs.items():
        (folder / name).write_text(text)
    world = folder / "world"
    world.mkdir()
    environment = dict(os.environ, HBMWIRE_EMULATION_DIR=str(world))
    output, code = output_of(["bash", "-euo", "pipefail", "-c", commands], SECONDS, cwd=folder, env=environment)
    print(output)
    if code != 0:
        sys.exit(f"the commands end with {code}")
    return output


def expect(output, lines):
    missing = [line for line in lines if line not in output]
    if missing:
        sys.exit("\n".join(["not in the output:", *missing]))


def tutorial(folder, source, build, document):
    port = free_port()
    text = PORT.sub(port, pathlib.Path(document).read_text(encoding="utf-8"))
    shown = [line for language, block in BLOCK.findall(text) if not language for line in block.splitlines()]
    assert shown, "the tutorial shows what its programs print"
    output = run(folder, source, build, programs_of(text), commands_of(text, source))
    # The refusal is a part of the lesson.
    expect(output, [*shown, "can't import dma-bufs", "refused, as required"])


def readme(folder, source, build):
    port = free_port()
    (example,) = [block for language, block in BLOCK.findall((source / "README.md").read_text(encoding="utf-8")) if language == "cpp"]
    receiver = PORT.sub(port, programs_of((source / "docs/tutorial-cpp.md").read_text(encoding="utf-8"))["receive.cpp"])
    commands = f"""
export PATH=$PWD/build/release/bin:$PATH
for program in push receive; do
  g++ -std=c++20 $program.cpp -o $program -Iinclude -Lbuild/release/lib -lhbmwire -Wl,-rpath,$PWD/build/release/lib
done
hbmwire emulate --fabric lab -- ./receive >received &
for ((i = 0; i < 200; ++i)); do
  hbmwire emulate --fabric lab -- ./push 127.0.0.1:{port} 2>refused && break
  grep -q 'Connection refused' refused
  sleep 0.1
done
wait $!
cat refused received
"""
    output = run(folder, source, build, {"push.cpp": example + MAIN, "receive.cpp": receiver}, commands)
    expect(output, ["(gaudi by zero-copy dma-buf, emu0) with 127.0.0.1", "received:"])


def main(arguments):
    if len(arguments) < 3 or arguments[0] not in ("tutorial", "readme"):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        kind, source, build, *rest = arguments
        lesson = tutorial if kind == "tutorial" else readme
        lesson(pathlib.Path(folder), pathlib.Path(source).resolve(), pathlib.Path(build).resolve(), *rest)


if __name__ == "__main__":
    main(sys.argv[1:])
