#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ranks of a group as processes, each an emulated node of its own: started by the ways that a group has to meet, and killed.

usage: ranks.py --program HBMWIRE [--list] [CASE...]
"""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import case_runner  # noqa: E402
from harness import Skipped, check, emulate_command, every_emulate, world  # noqa: E402
from slurm import Slurm  # noqa: E402

KEY = "a key of sixteen bytes or more"
# If a case kills a rank before all have met, the others wait for that many seconds.
SECONDS_TO_MEET = 15


def free_port():
    """A port whose successor is free, too: torchrun's own store has the first, the meeting point the second. It is below the
    ports that the kernel gives to sockets that connect, of which hundreds are in use here."""
    while True:
        port = random.randrange(10000, 20000)
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("127.0.0.1", port))
                second.bind(("127.0.0.1", port + 1))
            except OSError:
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

    def script(self, variable):
        """A file that a launcher runs as each rank, whose number is in the variable."""
        script = self.here.folder / "rank"
        words = " ".join(f"'{word}'" for word in self.node("NODE")).replace("'NODE'", f'"n${variable}"')
        script.write_text(f"#!/bin/sh\nexec {words}\n")
        script.chmod(0o755)
        return script

    def pids(self, number):
        """The rank's process below `emulate`, once it is there; empty if it ended before."""
        process = self.processes[number]
        while True:
            found = [int(entry.name) for entry in pathlib.Path("/proc").iterdir()
                     if entry.name.isdigit() and is_rank(entry, process.handle.pid, self.binary)]
            if found or process.handle.poll() is not None:
                return found
            time.sleep(0.01)

    def finish(self, seconds=60):
        """The last report of each rank, by its number; those that ended without a word are not in it."""
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
    """Ranks meet by the library's own variables."""
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
    """Ranks meet by PMIx of Debian's Open MPI. The program does not know MPI."""
    if shutil.which("mpirun") is None:
        raise Skipped("there is no mpirun: install openmpi-bin")
    with world(program) as here:
        ranks = Ranks(here, 16, "all")
        script = ranks.script("PMIX_RANK")
        ranks.processes.append(here.run(
            ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "16", script],
            env={**ranks.environment, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}))
        check_all(ranks, ranks.finish(), "PMIx")


def etcd_server(here):
    """The port of a new etcd, and its process."""
    binary = shutil.which("etcd") or "/usr/bin/etcd"
    if not os.access(binary, os.X_OK):
        raise Skipped("there is no etcd: install etcd-server")
    client, peer = free_port(), free_port()
    url, peers = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    store = here.run([binary, "--data-dir", here.folder / "etcd", "--listen-client-urls", url, "--advertise-client-urls", url,
                      "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster",
                      f"default={peers}"])
    store.wait_for("ready to serve client requests|serving.*client")
    return client, store


def etcd(program):
    with world(program) as here:
        port, store = etcd_server(here)
        ranks = Ranks(here, 16, "all").start(
            lambda rank: {"HBMWIRE_GROUP": f"etcd://127.0.0.1:{port}/run1", "HBMWIRE_GROUP_SIZE": "16"})
        check_all(ranks, ranks.finish(), "HBMWIRE_GROUP")
        left = subprocess.run(
            ["curl", "-s", f"http://127.0.0.1:{port}/v3/kv/range", "-d", '{"key": "AA==", "range_end": "AA=="}'],
            check=True, capture_output=True, text=True).stdout
        check("kvs" not in left, "keys were left in etcd", left)
        store.end()


def srun(program):
    """Ranks meet by the environment of srun, and by PMIx where Slurm has it."""
    with world(program) as here:
        slurm = Slurm(here, (free_port(), free_port()), 16)
        kinds = {"none": "Slurm"}
        if slurm.has_pmix():
            kinds["pmix"] = "PMIx"
        for kind, launcher in kinds.items():
            ranks = Ranks(here, 16, "all")
            ranks.processes.append(here.run(["srun", f"--mpi={kind}", "-n", "16", "--kill-on-bad-exit=1", ranks.script("SLURM_PROCID")],
                                            env={**ranks.environment, **slurm.environment}))
            check_all(ranks, ranks.finish(), launcher)
            print(f"srun --mpi={kind}: passed", flush=True)
        slurm.stop()


# --- ends

def kill(program, times, size=16):
    """A rank dies at a random moment; all others end in time, and say which one it was."""
    seed = int(os.environ.get("GROUP_SEED", time.time_ns() % 1_000_000))
    print(f"GROUP_SEED={seed}", flush=True)
    chance = random.Random(seed)
    longest = 0
    for number in range(times):
        with world(program) as here:
            ranks = Ranks(here, size, "work", seconds=SECONDS_TO_MEET).by_environment()
            victim = chance.randrange(size)
            delay = chance.uniform(0, 1.5)
            # In three of four rounds the rank dies in the work, after all have met. In the other rounds it may die before,
            # and the others wait for it until their deadline.
            has_met = number % 4 != 0
            for process in ranks.processes if has_met else []:
                process.wait_for("met by", SECONDS_TO_MEET)
            time.sleep(delay)
            pids = ranks.pids(victim)
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            killed = time.monotonic()
            ends = ranks.finish(60)
            took = time.monotonic() - killed
            longest = max(longest, took if has_met else 0)
            what = f"round {number}: rank {victim} killed after {delay:.2f} s, the others ended {took:.1f} s later"
            print(what, flush=True)
            check(pids, f"{what}: its process was not found", ranks.texts())
            name_all(ranks, ends, victim, what)
    print(f"after they had met, the others ended at most {longest:.1f} s later", flush=True)


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
    subject = re.search(r"connect ranks? ([\d, -]+)", line)
    for part in subject[1].replace(" ", "").split(",") if subject else []:
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
        descriptors = max(end["fds"] for end in ends.values())
        print(f"64 ranks: {took:.1f} s; the last one had met after {max(end['met'] for end in ends.values()):.1f} s", flush=True)
        for name, which in {"rank 0": [ends[0]], "the others": [ends[rank] for rank in range(1, 64)]}.items():
            sizes = sorted(end["rss"] / 2**20 for end in which)
            counts = sorted(end["fds"] for end in which)
            print(f"{name}: {sizes[0]:.0f} to {sizes[-1]:.0f} MiB, {counts[0]} to {counts[-1]} descriptors", flush=True)
        check(took < 120, f"64 ranks took {took:.1f} s")
        # At most eight descriptors for each rank's connection.
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
        pids = ranks.pids(victim)
        check(pids, "the rank has ended before", ranks.texts())
        os.kill(pids[0], signal.SIGKILL)
        began = time.monotonic()
        ends = ranks.finish(60)
        check(time.monotonic() - began < 30, "the others took too long to end", ranks.texts())
        name_all(ranks, ends, victim, "broadcast")


CASES = {function.__name__: function for function in (
    environment, plain, file, mpirun, srun, etcd, kill_few, kill_hundred, connect_64, broadcast, broadcast_killed)}

if __name__ == "__main__":
    sys.exit(case_runner.main(__doc__, CASES))
