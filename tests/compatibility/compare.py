#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests the promises of docs/versions.md with a version and the one before it.

usage: compare.py --before FOLDER --now FOLDER --other FOLDER --tree ROOT
       compare.py --self-test

scripts/compatibility makes each FOLDER: build/ and prefix/, for --before also source/. --other is this tree with another
number of the endpoints' protocol.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

# Examples whose two sides print "verified", run by tests/examples/between_nodes.sh.
EXAMPLES = ("put", "messages", "memory_key", "immediate", "ordering", "threads", "reconnect")
OTHER_VERSION = r"version \d+ there, \d+ here"


class Broken(Exception):
    """A broken promise, as a sentence."""


def run(command, limit_s=300, wanted=0, **options):
    """The output of a command. Raises Broken if its exit code is not a wanted one."""
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=limit_s, text=True, check=False, **options)
    if done.returncode not in wanted:
        raise Broken(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


class Version:
    """One of the trees, as installed."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        self.prefix = self.folder / "prefix"
        self.program = self.prefix / "bin/hbmwire"
        self.config = next(self.prefix.rglob("hbmwireConfig.cmake")).parent
        self.library = next(path for path in sorted(self.prefix.rglob("libhbmwire.so.*")) if not path.is_symlink())
        self.number = run([self.program, "--version"]).splitlines()[0].split()[1]

    @property
    def minor(self):
        return self.number.rpartition(".")[0]


class World:
    """Two emulated nodes of one fabric, and the programs that run on them."""

    def __init__(self, now):
        self.emulate = now.prefix / "libexec/hbmwire/emulate"
        self.folder = tempfile.TemporaryDirectory()
        self.running = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running:
            if process.poll() is None:
                process.terminate()
            process.wait(30)
        self.folder.cleanup()

    def start(self, node, *command):
        process = subprocess.Popen(
            [self.emulate, "--quiet", "--dir", self.folder.name, "--fabric", "versions", "--name", node, "--gaudi", "0", "--",
             *map(str, command)],
            stdin=subprocess.DEVNULL, stdout=open(f"{self.folder.name}/{node}.log", "w", encoding="utf-8"),
            stderr=subprocess.STDOUT)
        self.running.append(process)
        return process

    def said(self, node):
        return pathlib.Path(f"{self.folder.name}/{node}.log").read_text(encoding="utf-8")

    def port(self):
        """The port that the server on node b listens on."""
        for _ in range(300):
            found = re.search(r"Waiting for client connection on port (\d+)", self.said("b"))
            if found:
                return found[1]
            time.sleep(0.1)
        raise Broken(f"the server is not ready after 30 s: {self.said('b')}")


def pair(now, serving, leading, command, *options):
    """Runs server and client of two versions. Returns their exit codes and all their output."""
    with World(now) as world:
        server = world.start("b", serving.program, *command[0], "--bind", "127.0.0.1", "-p", "0", *options)
        client = world.start("a", leading.program, *command[1], "127.0.0.1", "-p", world.port(), *options)
        codes = client.wait(120), None
        # A server that refused a client of another version waits for the next one.
        if codes[0] != 0:
            time.sleep(0.5)
            server.terminate()
        codes = codes[0], server.wait(120)
        return codes, world.said("b"), world.said("a")


SERVER_CLIENT = (("server", "-m", "host", "-n", "2"), ("client", "-m", "host", "-n", "2"))


def perf(test):
    return ("perf", test, "-n", "50"), ("perf", test, "-n", "50")


def talk(now, serving, leading):
    """The tools of both versions work with each other, and verify every byte."""
    for command in (SERVER_CLIENT, perf("write_bw"), perf("send_lat"), perf("put_bw"), perf("get_lat"), perf("tag_bw")):
        codes, server, client = pair(now, serving, leading, command)
        if codes != (0, 0):
            raise Broken(f"{' '.join(command[0])} of {serving.number}, client of {leading.number}: "
                         f"exit codes {codes[1]}, {codes[0]}\n{server}\n{client}")


def refuse(now, serving, leading):
    """Endpoints of different protocols refuse each other; both ends name both numbers."""
    codes, server, client = pair(now, serving, leading, perf("put_bw"))
    if codes[0] != 1:
        raise Broken(f"the client ended with {codes[0]}, not 1:\n{server}\n{client}")
    for end, said in (("server", server), ("client", client)):
        if not re.search(OTHER_VERSION, said):
            raise Broken(f"the {end} does not name both numbers:\n{said}")


def protocols(version):
    """The names and numbers in the second line of `--version`."""
    return re.findall(r"(\w[\w ]*?) (\d+)(?:,|$)", run([version.program, "--version"]).splitlines()[1].partition(": ")[2])


def lost(before, now, place=""):
    """The paths of JSON values that are missing or have another type. All elements of an array count as one."""
    if before is None or now is None:
        return []  # null: unknown on this machine
    if isinstance(before, dict) and isinstance(now, dict):
        found = []
        for name, value in before.items():
            found += lost(value, now[name], f"{place}.{name}") if name in now else [f"{place}.{name}"]
        return found
    if isinstance(before, list) and isinstance(now, list):
        return lost(before[0], now[0], f"{place}[]") if before and now else []
    numbers = (int, float)
    same = type(before) is type(now) or (type(before) in numbers and type(now) in numbers)
    return [] if same else [f"{place} ({type(before).__name__}, now {type(now).__name__})"]


def emulated_json(now, version, *command):
    emulate = now.prefix / "libexec/hbmwire/emulate"
    return json.loads(run([emulate, "--quiet", "--nics", "2", "--gaudi", "1", "--cuda", "1", "--rocm", "1", "--", version.program,
                           *command, "--json"]))


class Comparison:
    def __init__(self, before, now, other, tree):
        self.before, self.now, self.other, self.tree = Version(before), Version(now), Version(other), pathlib.Path(tree)
        self.emulate = self.now.prefix / "libexec/hbmwire/emulate"

    def abi(self):
        """No exported function, type or member of the public headers is missing or different."""
        # abidiff(1) returns 0 if it found only additions.
        run(["abidiff", "--headers-dir1", self.before.prefix / "include", "--headers-dir2", self.now.prefix / "include",
             "--no-added-syms", self.before.library, self.now.library])

    def source(self):
        """The earlier version's examples compile with these headers, and work as before."""
        self.examples("source", self.now, self.now)

    def programs(self):
        """The earlier version's examples, linked with its library, run with this one."""
        self.examples("programs", self.before, self.now)

    def examples(self, name, built_with, run_with):
        build = self.now.folder / f"examples-{name}"
        run(["cmake", "-S", self.before.folder / "source/examples", "-B", build, "-G", "Ninja", "--fresh",
             f"-Dhbmwire_DIR={built_with.config}"], limit_s=60)
        run(["cmake", "--build", build, "--parallel", "2", "--target",
             *(f"example_{example}" for example in EXAMPLES)], limit_s=900)
        environment = dict(os.environ, LD_LIBRARY_PATH=str(run_with.library.parent))
        for example in EXAMPLES:
            run(["bash", self.tree / "tests/examples/between_nodes.sh", self.emulate, next(build.rglob(example)), "^verified"],
                env=environment, limit_s=120)

    def wire(self):
        """Server and client of both versions, in either role. If their protocols differ, they refuse each other."""
        check = talk if protocols(self.before) == protocols(self.now) else refuse
        for serving, leading in ((self.before, self.now), (self.now, self.before)):
            check(self.now, serving, leading)

    def another_protocol(self):
        """Builds with different numbers of the endpoints' protocol name both, on both ends."""
        for serving, leading in ((self.other, self.now), (self.now, self.other)):
            refuse(self.now, serving, leading)

    def settings(self):
        """Every setting and choice of the version before still exists."""
        before, now = ({setting["name"]: setting for setting in emulated_json(self.now, version, "info", "-c")["settings"]}
                       for version in (self.before, self.now))
        for name, setting in before.items():
            if name not in now:
                raise Broken(f"the setting {name} is gone")
            gone = set(setting["choices"].split("|")) - set(now[name]["choices"].split("|"))
            if gone:
                raise Broken(f"{name} does not take {', '.join(sorted(gone))} any more")

    def json(self):
        """Every field of the version before still exists, with the same type."""
        gone = lost(*(emulated_json(self.now, version, "info") for version in (self.before, self.now)))
        for command in (SERVER_CLIENT, perf("put_bw"), perf("write_lat")):
            results = []
            for version in (self.before, self.now):
                codes, _, client = pair(self.now, version, version, command, "--json")
                if codes != (0, 0):
                    raise Broken(f"{command} of {version.number} ended with {codes}: {client}")
                results.append(json.loads(client[client.index("{"):client.rindex("}") + 1]))
            gone += [f"{' '.join(command[1][:2])}: {path}" for path in lost(*results)]
        if gone:
            raise Broken("JSON fields are gone: " + ", ".join(gone))

    def run(self):
        same = self.before.minor == self.now.minor
        cases = [self.wire, self.another_protocol]
        # Versions with another N in 0.N may break these promises; the changelog then explains how.
        cases += [self.abi, self.source, self.programs, self.settings, self.json] if same else []
        print(f"-- {self.before.number} against {self.now.number}" + ("" if same else ": another 0.N, so only the wire"))
        failed = False
        for case in cases:
            start = time.monotonic()
            try:
                case()
                outcome = "as promised"
            except (Broken, subprocess.TimeoutExpired, ValueError) as broken:
                print(f"{case.__name__}: {broken}")
                outcome, failed = "BROKEN", True
            print(f"{case.__name__:<18} {outcome:<12} {time.monotonic() - start:4.0f} s  {case.__doc__}", flush=True)
        return 1 if failed else 0


def self_test():
    before = {"a": 1, "b": {"c": "x", "d": [{"e": 1.5, "f": None}]}}
    assert not lost(before, before)
    assert not lost(before, {"a": 2.5, "b": {"c": "", "d": [{"e": 1, "f": "new"}], "new": 1}})
    assert lost(before, {"b": before["b"]}) == [".a"]
    assert lost(before, {"a": "1", "b": before["b"]}) == [".a (int, now str)"]
    assert lost(before, {"a": 1, "b": {"c": "x", "d": [{"f": None}]}}) == [".b.d[].e"]
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("before", "now", "other", "tree"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    if None in (options.before, options.now, options.other, options.tree):
        parser.error("--before, --now, --other and --tree are missing, or one of them")
    return Comparison(options.before, options.now, options.other, options.tree).run()


if __name__ == "__main__":
    sys.exit(main())
