#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`hbmwire perf --all` and `perf TEST --ranks A,B`, each rank on an emulated node of its own.

usage: perf_all.py --program HBMWIRE [--list] [CASE...]
"""
import csv
import json
import os
import pathlib
import shutil
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import case_runner  # noqa: E402
from harness import Skipped, check, emulate_command, every_emulate, world  # noqa: E402
from ranks import Ranks  # noqa: E402

# The rates of usual NICs and of a slow one. Both are set, so that the machine's own speed does not matter.
USUAL, SLOW = "1G", "250M"


class PerfRanks(Ranks):
    """Ranks of `hbmwire perf`. `slow`: the rank whose NIC is limited; `devices`: options of every node's emulation; `bad`: the
    rank whose NIC flips a bit in each write."""

    def __init__(self, here, size, *work, slow=None, bad=None, devices=("--nics", "1")):
        super().__init__(here, size, *work)
        self.binary = pathlib.Path(here.program)
        self.slow, self.bad, self.devices = slow, bad, devices

    def node(self, name):
        rate = SLOW if name == f"n{self.slow}" else USUAL
        faults = ["--faults", "flip,op=write,p=1,byte=1000"] if name == f"n{self.bad}" else []
        return [*emulate_command(self.here.program), "--quiet", "--dir", str(self.here.base), "--fabric", self.here.fabric,
                "--name", name, *self.devices, "--rate", rate, *faults, *every_emulate(), "--", str(self.binary), "perf",
                *map(str, self.work)]

    def codes(self, seconds=100):
        deadline = time.monotonic() + seconds
        return [process.finish(max(deadline - time.monotonic(), 1)) for process in self.processes]

    def succeed(self):
        codes = self.codes()
        check(codes == [0] * self.size, f"exit codes {codes}", self.texts())
        for process in self.processes[1:]:
            check("{" not in process.text and "GB/s" not in process.text, "a rank besides rank 0 printed a result", self.texts())


def run_of(path, ranks):
    check(path.exists(), "rank 0 wrote no JSON", ranks.texts())
    return json.loads(path.read_text())


def check_measured(run, ranks, pairs):
    check(len(run["pairs"]) == pairs, f"{len(run['pairs'])} cells", ranks.texts())
    for phase in ("pairs", "all_at_once", "many_to_one"):
        for cell in run[phase]:
            check(cell["state"] == "measured" and cell["verified_bytes"] > 0 and cell["bytes_per_second"] > 0, phase, cell)
    check(run["broken"] == [], run["broken"])


def small(program):
    """Four ranks, of which one has a slow NIC: it is found and named; all files are written."""
    with world(program) as here:
        files = {kind: here.folder / f"run.{kind}" for kind in ("json", "csv", "svg")}
        ranks = PerfRanks(here, 4, "--all", "-D", "0.2", "-s", "256K", "--out_json_file", files["json"], "--csv", files["csv"],
                          "--plot", files["svg"], slow=2).by_environment()
        ranks.succeed()
        run = run_of(files["json"], ranks)
        check_measured(run, ranks, 4 * 3)
        for cell in run["pairs"]:
            slow = 2 in (run["ends"][cell["source"]]["rank"], run["ends"][cell["target"]]["rank"])
            most = 125e6 * (0.3 if slow else 1.1)  # USUAL is 125e6 bytes per second
            check(cell["bytes_per_second"] < most, "a cell is faster than its NICs", cell)
        slow_ends = run["summary"]["slow_ends"]
        check([run["ends"][slow["end"]]["rank"] for slow in slow_ends] == [2], slow_ends, ranks.texts())
        check("rank 2" in ranks.processes[0].text, "the slow NIC is not named", ranks.texts())
        rows = list(csv.DictReader(files["csv"].open()))
        # The pairs, all at once, and many to one.
        check(len(rows) == 12 + 4 + 12, f"{len(rows)} rows of CSV")
        check(files["svg"].read_text().count("<rect") >= 12, "the heat map lacks cells")


def cards(program):
    """Each card is measured with the NIC near to it; a saved run is compared with."""
    with world(program) as here:
        saved = here.folder / "before.json"
        devices = ("--nics", "2", "--gaudi", "1")
        arguments = ("--all", "-D", "0.05", "-s", "64K")
        ranks = PerfRanks(here, 2, *arguments, "--out_json_file", saved, devices=devices).by_environment()
        ranks.succeed()
        run = run_of(saved, ranks)
        # Two memories of each rank: four pairs of memories, in both directions.
        check_measured(run, ranks, 2 * 2 * 2)
        check(sorted(end["memory"] for end in run["ends"] if end["rank"] == 0) == ["gaudi", "host"], run["ends"])
        check(all("zero-copy" in end["path"] for end in run["ends"] if end["memory"] == "gaudi"), run["ends"])
        again = PerfRanks(here, 2, *arguments, "--compare", saved, "--json", devices=devices).by_environment()
        again.succeed()
        text = again.processes[0].text
        result = json.loads(text[text.index("{"):])
        check(result["comparison"]["lost"] == [] and result["exit_code"] == 0, text)


def sixteen(program):
    """By mpirun, which lets the ranks meet by PMIx."""
    if shutil.which("mpirun") is None:
        raise Skipped("there is no mpirun: install openmpi-bin")
    with world(program) as here:
        saved = here.folder / "run.json"
        ranks = PerfRanks(here, 16, "--all", "-D", "0.1", "-s", "64K", "--out_json_file", saved, slow=5)
        script = here.folder / "rank"
        # Each rank makes its own node, one of which is slow.
        nodes = {rank: " ".join(f"'{word}'" for word in ranks.node(f"n{rank}")) for rank in range(16)}
        script.write_text("#!/bin/sh\ncase $PMIX_RANK in\n" +
                          "".join(f"{rank}) exec {node} ;;\n" for rank, node in nodes.items()) + "esac\n")
        script.chmod(0o755)
        mpirun = here.run(["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "16", script],
                          env={**ranks.environment, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        check(mpirun.finish(170) == 0, mpirun.text)
        run = json.loads(saved.read_text())
        check_measured(run, ranks, 16 * 15)
        check("PMIx" in run["launcher"], run["launcher"])
        check([run["ends"][slow["end"]]["rank"] for slow in run["summary"]["slow_ends"]] == [5], mpirun.text)


def killed(program):
    """A rank dies in the middle: the others go on, and name it. Rank 0 dies: all others end, and say so."""
    for victim in (3, 0):
        with world(program) as here:
            saved = here.folder / "run.json"
            ranks = PerfRanks(here, 5, "--all", "-D", "0.2", "-s", "64K", "--timeout", "3", "--out_json_file",
                              saved).by_environment()
            ranks.processes[0].wait_for("5 ranks, by")
            time.sleep(1)
            for pid in ranks.pids(victim):
                os.kill(pid, signal.SIGKILL)
            began = time.monotonic()
            codes = ranks.codes()
            check(time.monotonic() - began < 60, "the others took too long to end", ranks.texts())
            if victim == 0:
                check(codes[1:] == [1] * 4, f"exit codes {codes}", ranks.texts())
                check(all("rank 0" in process.text for process in ranks.processes[1:]), "rank 0 is not named", ranks.texts())
                continue
            check(codes[0] == 1 and [codes[rank] for rank in (1, 2, 4)] == [0] * 3, f"exit codes {codes}", ranks.texts())
            run = run_of(saved, ranks)
            check([broken["rank"] for broken in run["broken"]] == [victim], run["broken"], ranks.texts())
            for cell in run["pairs"]:
                touched = victim in (run["ends"][cell["source"]]["rank"], run["ends"][cell["target"]]["rank"])
                check(touched or cell["state"] == "measured", cell, ranks.texts())
            check(f"rank {victim}" in ranks.processes[0].text, "the rank is not named", ranks.texts())


def corrupt(program):
    """The writes of one NIC are corrupted: their targets find it, and all other cells have figures. The ranks are an odd number,
    of which one rests in each turn."""
    with world(program) as here:
        saved = here.folder / "run.json"
        ranks = PerfRanks(here, 3, "--all", "-D", "0.05", "-s", "64K", "--out_json_file", saved, bad=1).by_environment()
        codes = ranks.codes()
        check(codes == [1, 0, 0], f"exit codes {codes}", ranks.texts())
        run = run_of(saved, ranks)
        for phase in ("pairs", "all_at_once", "many_to_one"):
            for cell in run[phase]:
                state = "corrupt" if run["ends"][cell["source"]]["rank"] == 1 else "measured"
                check(cell["state"] == state, phase, cell)
        check(run["broken"] == [] and run["summary"]["slow_ends"] == [], run["summary"])
        check("corrupt" in ranks.processes[0].text, ranks.texts())


def mistakes(program):
    for words, said in ((("--all", "--iters", "5"), "--iters"), (("put_bw", "--csv", "x"), "--csv"), (("put_bw", "--ranks", "0"), "--ranks"),
                        (("put_bw", "node2", "--ranks", "0,1"), "HOST"), ((), "TEST"), (("--all", "--json", "--quiet"), "--quiet"),
                        (("--all", "--csv", "x", "--plot", "x"), "--plot"), (("--all", "-s", "2G"), "-s")):
        with world(program) as here:
            process = here.run([program, "perf", *words])
            check(process.finish(20) == 2 and said in process.text, words, process.text)
    with world(program) as here:
        process = here.run([program, "perf", "--all"], env={**os.environ, "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
                                                           "MASTER_PORT": "10001"})
        check(process.finish(20) == 2 and "one rank" in process.text, process.text)


def pair(program):
    """Two ranks of four measure a test; the others wait, and print nothing."""
    with world(program) as here:
        ranks = PerfRanks(here, 4, "put_bw", "--ranks", "3,1", "-n", "50", "--json").by_environment()
        codes = ranks.codes()
        check(codes == [0] * 4, f"exit codes {codes}", ranks.texts())
        check([bool("{" in process.text) for process in ranks.processes] == [False, False, False, True], ranks.texts())
        text = ranks.processes[3].text
        result = json.loads(text[text.index("{"):])
        check(result["exit_code"] == 0 and result["test"] == "put_bw", text)
    with world(program) as here:
        ranks = PerfRanks(here, 2, "put_bw", "--ranks", "0,2").by_environment()
        check(ranks.codes() == [2, 2] and "the group has ranks 0 to 1" in ranks.processes[0].text, ranks.texts())


CASES = {function.__name__: function for function in (
    small, cards, sixteen, corrupt, killed, pair, mistakes)}

if __name__ == "__main__":
    sys.exit(case_runner.main(__doc__, CASES))
