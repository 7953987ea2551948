# SPDX-License-Identifier: MIT
"""Trace files: complete, bounded, correct, and never slowing the transfers down."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import trace_format
from harness import check, only_root


@contextlib.contextmanager
def folder():
    path = pathlib.Path(tempfile.mkdtemp(prefix="hbmwire-trace-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


class Run:
    """A run of endpoint_trace, or of another program, with a trace."""

    def __init__(self, build, *words, trace, emulate=("--nics", "1", "--gaudi", "0"), program="endpoint_trace", code=0, **environment):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HBMWIRE_TRACE")}
        done = subprocess.run(
            [build / "libexec/hbmwire/emulate", "--quiet", *emulate, "--", build / "tests" / program, *words],
            env={**kept, "HBMWIRE_TRACE": str(trace), **environment}, capture_output=True, text=True, timeout=500, check=False)
        self.text = done.stdout
        self.errors = done.stderr
        check(code is None or done.returncode == code, f"{program} {words} ended with {done.returncode}", done.stdout[-3000:],
              done.stderr[-3000:])

    def tallies(self):
        """The program's own counts of its transfers; one object for each of its processes."""
        return [json.loads(line) for line in self.text.splitlines() if line.startswith("{")]


def check_true(events, tally):
    """Each kind has the number of transfers and bytes that the program printed."""
    found = trace_format.totals(events)
    check({kind: tuple(sums) for kind, sums in found.items()} == {kind: tuple(sums) for kind, sums in tally.items()},
          f"the trace has {found}", f"the program did {tally}")


def count(tally):
    return sum(transfers for transfers, _ in tally.values())


def of_transfers(events):
    return [event for event in events if event.get("cat", "").startswith("transfer")]


def check_kept(build, transfers, what="mixed", **options):
    """A trace with all kinds of events."""
    with folder() as place:
        run = Run(build, what, str(transfers), trace=place / "t.json", **options)
        check(re.fullmatch(r"(.*: endpoints are not authenticated, .*\n)*", run.errors), f"it complained: {run.errors}")
        events = trace_format.read(place / "t.json")
        end = trace_format.check(events)
        [tally] = run.tallies()
        missing = count(tally) - end["transfers"]
        check(missing == end["dropped_busy"] and end["dropped_full"] == 0, tally, end)
        if missing == 0:
            check_true(events, tally)
        return events, tally, end


def kinds(build):
    events, _, end = check_kept(build, 50000)
    transfers = of_transfers(events)
    check(end["dropped_busy"] < 5000, end)
    check({event["name"] for event in transfers} >= trace_format.KINDS - {"task"}, "a kind is missing")
    waits = {event["args"].get("wait") for event in transfers}
    check({"message", "room", "order"} <= waits, f"they waited for {waits} alone")
    check({"list", "blocks"} <= {event["args"].get("by") for event in transfers})
    for event in transfers:
        args = event["args"]
        check(args["path"] == "host" and args.get("nic") == "emu0" and args["peer"].startswith("127.0.0.1:"), event)
        check(event["name"] == "receive" or args.get("posted_us") is not None, event)


def devices(build):
    events, _, _ = check_kept(build, 2000, what="device", emulate=("--nics", "1", "--gaudi", "1"),
                              HBMWIRE_PATHS="host,zero_copy,staged")
    check({event["args"]["path"] for event in of_transfers(events)} >= {"nic_loopback"}, "no path of a device")
    check({event["args"].get("local") for event in of_transfers(events)} >= {"gaudi"})


def tcp(build):
    events, _, _ = check_kept(build, 5000, emulate=("--nics", "0", "--gaudi", "0"), HBMWIRE_PATHS="host,tcp",
                              HBMWIRE_LOG_LEVEL="error")
    check({event["args"]["path"] for event in of_transfers(events)} == {"tcp"})


def million(build):
    """Within the default limit, all transfers are written or counted; the file has about 240 MB."""
    with folder() as place:
        run = Run(build, "mixed", "1000000", trace=place / "t.json")
        size = (place / "t.json").stat().st_size
        check(size <= 256 << 20, f"the file has {size} bytes")
        events = trace_format.read(place / "t.json")
        end = trace_format.check(events)
        [tally] = run.tallies()
        check(end["transfers"] + end["dropped_busy"] + end["dropped_full"] == count(tally) >= 1000000, end, tally)
        check(end["transfers"] > 100000, f"most were dropped: {end}")
        print(f"{size} bytes, {end}")


def bounded(build):
    """Transfers that do not fit are counted; the rest is complete."""
    for most in (64 << 10, 1 << 20):
        with folder() as place:
            run = Run(build, "mixed", "20000", trace=place / "t.json", HBMWIRE_TRACE_BYTES=str(most))
            size = (place / "t.json").stat().st_size
            check(most - 8192 < size <= most, f"{size} bytes of {most}")
            end = trace_format.check(trace_format.read(place / "t.json"))
            [tally] = run.tallies()
            check(end["transfers"] + end["dropped_full"] + end["dropped_busy"] == count(tally), end, tally)
            check(end["dropped_full"] > 10000, end)


def cancelled(build):
    """Failed transfers have their error."""
    events, _, _ = check_kept(build, 100, what="cancelled")
    failed = [event for event in of_transfers(events) if event["cat"] == "transfer,failed"]
    # Ten that the program cancels, and one whose endpoint it destroys.
    check(len(failed) == 11 and all(event["name"] == "receive" for event in failed), failed)
    check(any(event["args"]["error"].startswith("complete: the transfer was cancelled") for event in failed), failed)
    check({event["args"]["code"] for event in failed} == {"cancelled"}, failed)


def exits(build):
    """The process ends by exit(3) while all objects of the library exist."""
    check_kept(build, 3000, what="exits")


def contexts(build):
    events, _, _ = check_kept(build, 2000, what="contexts")
    check({event["args"]["worker"] for event in of_transfers(events)} == {1, 2, 3, 4}, "four workers are in one file")


def threads(build):
    check_kept(build, 4000, what="threads")


def killed(build):
    """A file that ends early can still be read line by line."""
    with folder() as place:
        run = Run(build, "killed", "5000", trace=place / "t.json", code=None)
        events, whole = trace_format.read_cut_off(place / "t.json")
        check(not whole, "it has an end")
        trace_format.check(events, whole=False)
        [tally] = run.tallies()
        check_true(events, tally)


def fork(build):
    """Parent and child have a file each."""
    for name in ("t.json", "t-%p.json"):
        with folder() as place:
            run = Run(build, "fork", "2000", trace=place / name)
            child, parent = run.tallies()
            files = sorted(place.iterdir())
            check(len(files) == 2, files)
            check("%p" in name or files[0].name == "t.json" and re.fullmatch(r"t\.json\.[0-9]+", files[1].name), files)
            all_events = [trace_format.read(file) for file in files]
            for events in all_events:
                trace_format.check(events)
            found = sorted((trace_format.totals(events) for events in all_events), key=lambda sums: sums["put"])
            check(found == [child, parent], found, child, parent)


def two_processes(build):
    """The second trace does not touch the file of the first one, and logs the name of its own file."""
    with folder() as place:
        Run(build, "mixed", "200", trace=place / "t.json")
        before = (place / "t.json").read_bytes()
        run = Run(build, "mixed", "100", trace=place / "t.json")
        check((place / "t.json").read_bytes() == before, "the first file is another one")
        [other] = [file for file in place.iterdir() if file.name != "t.json"]
        check(f"warn: {place}/t.json is there already: the trace is written to {other}\n" in run.errors, run.errors)
        trace_format.check(trace_format.read(other))


def unwritable(build):
    """Context::create() fails with the reason."""
    with folder() as place:
        os.mkfifo(place / "fifo")
        for name, why in (("none/t.json", "making the file of the trace (HBMWIRE_TRACE): No such file or directory"),
                          (".", "a trace is written to a regular file (HBMWIRE_TRACE)"),
                          ("fifo", "a trace is written to a regular file (HBMWIRE_TRACE)"),
                          ("/dev/full", "a trace is written to a regular file (HBMWIRE_TRACE)")):
            run = Run(build, "mixed", "1", trace=place / name, code=None)
            check("configure" in run.text + run.errors and why in run.text + run.errors, run.text, run.errors)
        run = Run(build, "mixed", "1", trace=place / "t.json", code=None, HBMWIRE_TRACE_BYTES="1K")
        check("a trace has at least 64 KiB" in run.text + run.errors, run.text, run.errors)
        check(not (place / "t.json").exists())


def disk_full(build):
    """The trace ends with one warning, and is complete up to there; the transfers continue."""
    only_root()
    with folder() as place:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", place], check=True)
        try:
            run = Run(build, "mixed", "50000", trace=place / "t.json")
            lines = [line for line in run.errors.splitlines() if "trace" in line]
            check(len(lines) == 1 and "warn: the trace ends here" in lines[0] and "No space left" in lines[0], run.errors)
            end = trace_format.check(trace_format.read(place / "t.json"))
            check("No space left" in end["error"] and end["transfers"] > 0, end)
            check(count(run.tallies()[0]) >= 50000, "the transfers went on")
        finally:
            subprocess.run(["umount", place], check=True)


def faults(build):
    """Killed peers and broken queue pairs: each file has the events that its process could still write."""
    with folder() as place:
        Run(build, "--plans", "8", trace=place / "t-%p.json", program="endpoint_fault_plans")
        files = list(place.iterdir())
        check(len(files) > 1, files)
        ends = 0
        failed = 0
        for file in files:
            events, whole = trace_format.read_cut_off(file)
            trace_format.check(events, whole)
            ends += whole
            failed += sum(event.get("cat") == "transfer,failed" for event in events)
        check(ends > 0 and failed > 0, f"of {len(files)} files {ends} are whole, with {failed} failures")


def ways(build):
    """Every way of moving bytes, with its path and mover."""
    with folder() as place:
        Run(build, "--gtest_filter=*/Contract.BytesOfEverySize*:*/Contract.PutsArrive*", trace=place / "t-%p.json",
            program="endpoint_contract_test",
            emulate=("--nics", "3", "--gaudi", "1", "--cuda", "1", "--without", "emu1=dmabuf"), HBMWIRE_IPC_FROM="1", HBMWIRE_RAILS_FROM="64K")
        paths = set()
        movers = set()
        for file in place.iterdir():
            events, whole = trace_format.read_cut_off(file)
            trace_format.check(events, whole)
            args = [event["args"] for event in of_transfers(events)]
            paths |= {each["path"] for each in args}
            movers |= {each.get("by") for each in args}
            check(all("nic" not in each for each in args if each["path"] in ("copy", "ipc", "shared_memory")), "a NIC that took no part")
        check(paths >= {"host", "nic_loopback", "staged", "copy", "tcp", "ipc", "shared_memory"}, paths)
        check(movers >= {"copy", "ipc", "rails", "staged", "proxied"}, movers)


CASES = {name: case for name, case in globals().items() if callable(case) and getattr(case, "__module__", "") == __name__
         and name not in ("Run", "check_kept", "check_true", "count", "folder", "of_transfers")}
