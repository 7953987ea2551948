#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ranks of a group as processes, each an emulated node of its own: started by the ways that a group has to meet, and killed.

usage: ranks.py --program HBMWIRE [--list] [CASE...]
"""
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import case_runner  # noqa: E402
from harness import Skipped, check, emulate_command, every_emulate, world  # noqa: E402

KEY = "a key of sixteen bytes or more"


def free_port():
    """A port of which the next one is free, too: torchrun's own store has the first, the meeting point the second."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port


class Ranks:
    """Processes of tests/group/rank_main.cpp."""

    def __init__(self, here, size, *work, emulate=(), seconds=60):
        self.here, self.size, self.work, self.emulate = here, size, work, emulate
        self.binary = pathlib.Path(here.program).parent.parent / "tests" / "group_rank"
        key = here.folder / "key"
        key.write_text(KEY)
        key.chmod(0o600)
        self.environment = {**os.environ, "HBMWIRE_PRE_SHARED_KEY_FILE": str(key), "GROUP_SECONDS": str(seconds)}
        self.processes = []

    def node(self, name):
        """The command of a rank on an emulated node."""
        return [*emulate_command(self.here.program), "--quiet", "--dir", str(self.here.base), "--fabric", self.here.fabric,
                "--name", name, "--nics", "1", *every_emulate(), *self.emulate, "--", str(self.binary), *map(str, self.work)]

    def start(self, variables):
        """Each rank with variables of its own."""
        for rank in range(self.size):
            self.start_one(rank, variables(rank))
        return self

    def start_one(self, rank, variables, suffix=""):
        self.processes.append(self.here.run(self.node(f"n{rank}{suffix}"), env={**self.environment, **variables}))
        return self.processes[-1]

    def by_environment(self):
        port = free_port()
        return self.start(lambda rank: {"RANK": str(rank), "WORLD_SIZE": str(self.size), "MASTER_ADDR": "127.0.0.1",
                                        "MASTER_PORT": str(port)})

    def finish(self, seconds=60):
        """What each rank printed last, by its number; those that ended without a word are not in it."""
        deadline = time.monotonic() + seconds
        ends = {}
        for process in self.processes:
            process.finish(max(deadline - time.monotonic(), 1))
            for line in process.text.splitlines():
                if line.startswith("{"):
                    end = json.loads(line)
                    ends[end["rank"]] = end
        return ends

    def texts(self):
        return "\n".join(f"--- {process.arguments[-2:]}\n{process.text}" for process in self.processes)


def check_all(ranks, ends, launcher):
    check(sorted(ends) == list(range(ranks.size)), f"ranks {sorted(ends)} of {ranks.size} reported", ranks.texts())
    for end in ends.values():
        check(not end["error"] and end["size"] == ranks.size and launcher in end["launcher"], end, ranks.texts())


# --- ways to meet

def environment(program):
    with world(program) as here:
        ranks = Ranks(here, 16, "all").by_environment()
        check_all(ranks, ranks.finish(), "torchrun")


def plain(program):
    """By the library's own variables."""
    with world(program) as here:
        port = free_port()
        ranks = Ranks(here, 16, "all").start(
            lambda rank: {"HBMWIRE_GROUP": f"tcp://127.0.0.1:{port}", "HBMWIRE_GROUP_RANK": str(rank),
                          "HBMWIRE_GROUP_SIZE": "16"})
        check_all(ranks, ranks.finish(), "HBMWIRE_GROUP")


def file(program):
    with world(program) as here:
        place = here.folder / "meeting"
        ranks = Ranks(here, 16, "all").start(
            lambda rank: {"HBMWIRE_GROUP": f"file://{place}", "HBMWIRE_GROUP_SIZE": "16"})
        check_all(ranks, ranks.finish(), "HBMWIRE_GROUP")
        check(not place.exists(), "the meeting place was left behind")


def mpirun(program):
    """PMIx, by Debian's Open MPI; the program does not know MPI."""
    if shutil.which("mpirun") is None:
        raise Skipped("there is no mpirun: install openmpi-bin")
    with world(program) as here:
        ranks = Ranks(here, 16, "all")
        node = ranks.node("NODE")
        script = here.folder / "rank"
        words = " ".join(f"'{word}'" for word in node).replace("'NODE'", '"n$PMIX_RANK"')
        script.write_text(f"#!/bin/sh\nexec {words}\n")
        script.chmod(0o755)
        ranks.processes.append(here.run(
            ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "16", script],
            env={**ranks.environment, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}))
        check_all(ranks, ranks.finish(), "PMIx")


def etcd(program):
    binary = shutil.which("etcd") or "/usr/bin/etcd"
    if not os.access(binary, os.X_OK):
        raise Skipped("there is no etcd: install etcd-server")
    with world(program) as here:
        client, peer = free_port(), free_port()
        url, peers = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
        store = here.run([binary, "--data-dir", here.folder / "etcd", "--listen-client-urls", url, "--advertise-client-urls",
                          url, "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
                          "--initial-cluster", f"default={peers}"])
        store.wait_for("ready to serve client requests|serving.*client")
        ranks = Ranks(here, 16, "all").start(
            lambda rank: {"HBMWIRE_GROUP": f"etcd://127.0.0.1:{client}/run1", "HBMWIRE_GROUP_SIZE": "16"})
        check_all(ranks, ranks.finish(), "HBMWIRE_GROUP")
        left = subprocess.run(
            ["curl", "-s", f"{url}/v3/kv/range", "-d", '{"key": "AA==", "range_end": "AA=="}'],
            check=True, capture_output=True, text=True).stdout
        check("kvs" not in left, "keys were left in etcd", left)
        store.end()


# --- ends



def kill(program, times, size=16, seed=None):
    """A rank dies at a random moment; all others end in time, and say which one it was."""
    chance = random.Random(seed)
    for number in range(times):
        seed_text = f"round {number}"
        with world(program) as here:
            ranks = Ranks(here, size, "work", seconds=20).by_environment()
            victim = chance.randrange(size)
            delay = chance.uniform(0, 1.5)
            time.sleep(delay)
            process = ranks.processes[victim]
            # The rank's process below `emulate`, which ends with it.
            pids = [int(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()
                    and is_rank(entry, process.handle.pid, ranks.binary)]
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            killed = time.monotonic()
            ends = ranks.finish(60)
            took = time.monotonic() - killed
            what = f"{seed_text}: rank {victim} killed after {delay:.2f} s, the others ended {took:.1f} s later"
            print(what, flush=True)
            if not pids:
                raise AssertionError(f"{what}: its process was not found\n{ranks.texts()}")
            name_all(ranks, ends, victim, what)


def is_rank(entry, session, binary):
    try:
        words = (entry / "cmdline").read_bytes().split(b"\0")
        return words[0] == str(binary).encode() and os.getsid(int(entry.name)) == session
    except (OSError, ProcessLookupError):
        return False


def name_all(ranks, ends, victim, what):
    """Ranks that had met name the victim; those that had not are told who did not come."""
    for number, process in enumerate(ranks.processes):
        if number == victim:
            continue
        if number in ends:
            end = ends[number]
            check(victim in end["failed"], f"{what}: rank {number} does not name it", end, ranks.texts())
            check(end["error"], f"{what}: rank {number} saw no failure", ranks.texts())
        else:
            lines = [line for line in process.text.splitlines() if line.startswith("group_rank:")]
            check(len(lines) == 1 and names(lines[0], victim), f"{what}: rank {number} does not name it", ranks.texts())


def names(line, victim):
    """Whether an error's subject has the rank: "rank 3", "ranks 0, 2-5, 9"."""
    subject = line.split("rank", 1)[-1].split(":")[0].lstrip("s ")
    for part in subject.replace(" ", "").split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and int(first) <= victim <= int(last or first):
            return True
    return False


def kill_few(program):
    kill(program, 4, size=8)


def kill_hundred(program):
    kill(program, 100)


# --- size

def connect_64(program):
    """64 ranks start, meet, and each connects to each."""
    began = time.monotonic()
    with world(program) as here:
        ranks = Ranks(here, 64, "all", seconds=120).by_environment()
        ends = ranks.finish(240)
        took = time.monotonic() - began
        check_all(ranks, ends, "torchrun")
        most = max(end["rss"] for end in ends.values()) / 2**20
        descriptors = max(end["fds"] for end in ends.values())
        print(f"64 ranks: {took:.1f} s, at most {most:.0f} MiB and {descriptors} descriptors a rank", flush=True)
        check(took < 120, f"64 ranks took {took:.1f} s")
        check(descriptors < 64 * 8, f"a rank has {descriptors} descriptors")


# --- broadcast

def broadcast(program):
    with world(program) as here:
        ranks = Ranks(here, 8, "broadcast", 8 << 20).by_environment()
        check_all(ranks, ranks.finish(), "torchrun")


def broadcast_killed(program):
    """A rank in the middle of the chain dies: all others name it, and end."""
    with world(program) as here:
        # 64 MiB at 400 Mb/s take more than a second.
        ranks = Ranks(here, 8, "broadcast", 64 << 20, emulate=("--rate", "400M")).by_environment()
        for process in ranks.processes:
            process.wait_for("met by")
        time.sleep(0.8)
        victim = 4
        pid = next(int(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()
                   and is_rank(entry, ranks.processes[victim].handle.pid, ranks.binary))
        os.kill(pid, signal.SIGKILL)
        began = time.monotonic()
        ends = ranks.finish(60)
        check(time.monotonic() - began < 30, "the others took too long to end", ranks.texts())
        name_all(ranks, ends, victim, "broadcast")


CASES = {function.__name__: function for function in (
    environment, plain, file, mpirun, etcd, kill_few, kill_hundred, connect_64, broadcast, broadcast_killed)}

if __name__ == "__main__":
    sys.exit(case_runner.main(__doc__, CASES))
