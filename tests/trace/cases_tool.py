# SPDX-License-Identifier: MIT
"""`hbmwire trace`: its output for traces, and for other files."""
import json
import os
import resource
import subprocess
import time

import trace_format
from cases_file import Run, count, folder, of_transfers
from harness import check


class Tool:
    """A run of `hbmwire trace`, which must end with `code`."""

    def __init__(self, build, *words, code=0, **options):
        done = subprocess.run([build / "bin/hbmwire", "trace", *map(str, words)], capture_output=True, text=True, timeout=100,
                              check=False, **options)
        check(done.returncode == code, f"trace {words} ended with {done.returncode}", done.stdout[-2000:], done.stderr[-2000:])
        self.text = done.stdout
        self.errors = done.stderr
        check(bool(self.errors) == (code != 0), self.errors)
        check(code == 0 or self.errors.count("\n") == 1 and self.errors.startswith("hbmwire trace: "), self.errors)

    def json(self):
        return json.loads(self.text)


def traced(build, place, transfers=3000, what="mixed", **options):
    """A trace of endpoint_trace: its file, its events, and the program's output."""
    run = Run(build, what, str(transfers), trace=place / "t.json", **options)
    return place / "t.json", trace_format.read(place / "t.json"), run.tallies()[0]


def by_kind(groups, member):
    sums = {}
    for group in groups:
        sums[group["kind"]] = sums.get(group["kind"], 0) + group[member]
    return sums


def agrees(build):
    """Sums, quantiles and the slowest transfers match the file."""
    with folder() as place:
        file, events, tally = traced(build, place)
        told = Tool(build, file, "--json", "--top", "5").json()
        transfers = of_transfers(events)
        check(told["whole"] and told["transfers"] == told["chosen"] == count(tally) == len(transfers), told)
        check(told["dropped_busy"] == told["dropped_full"] == 0 and told["notes"] == [], told)
        check(by_kind(told["groups"], "transfers") == {kind: n for kind, (n, _) in tally.items()}, told["groups"])
        check(by_kind(told["groups"], "bytes") == {kind: n for kind, (_, n) in tally.items()}, told["groups"])
        for group in told["groups"]:
            took = sorted(event["dur"] for event in transfers if event["name"] == group["kind"])
            check(abs(took[-1] - group["max_us"]) < 0.01, group, took[-1])
            check(abs(took[(len(took) + 1) // 2 - 1] - group["median_us"]) < 0.01, group)
            check(group["path"] == "host" and group["nic"] == "emu0", group)
        slowest = sorted((event["dur"] for event in transfers), reverse=True)[:5]
        check(all(abs(a - each["took_us"]) < 0.01 for a, each in zip(slowest, told["slowest"])), told["slowest"], slowest)
        waits = [event["args"]["wait"] for event in transfers if "wait" in event["args"]]
        check({wait["for"]: wait["transfers"] for wait in told["waits"]} == {word: waits.count(word) for word in set(waits)}, told["waits"])
        slots = told["timeline"]["slots"]
        check(sum(slot["ended"] for slot in slots) == sum(slot["begun"] for slot in slots) == len(transfers), slots)
        check(sum(slot["began_waiting"] for slot in slots) == sum(slot["ended_waiting"] for slot in slots) == len(waits), slots)
        check(sum(slot["bytes"] for slot in slots) == sum(sums for _, sums in tally.values()), slots)
        text = Tool(build, file).text
        for part in ("Transfers\n", "Waits\n", "Slowest\n", "Timeline, a column for", "the receive's message had not come"):
            check(part in text, f"no {part!r}", text)
        check(f"transfers  {len(transfers)}\n" in text and "note" not in text, text)


def filters(build):
    with folder() as place:
        file, events, _ = traced(build, place, what="contexts")
        transfers = of_transfers(events)
        endpoint = transfers[0]["args"]["endpoint"]
        peer = transfers[-1]["args"]["peer"]
        begin = events[1]["ts"]
        middle = (transfers[len(transfers) // 2]["ts"] - begin) / 1000

        def chosen(*words):
            return Tool(build, file, "--json", *words).json()["chosen"]

        check(chosen("--endpoint", endpoint) == sum(event["args"]["endpoint"] == endpoint for event in transfers))
        check(chosen("--peer", peer) == sum(peer in event["args"]["peer"] for event in transfers))
        check(chosen("--peer", "nosuch") == 0)
        at = middle * 1000 + begin
        check(abs(chosen("--from", f"{middle:.6f}ms") - sum(event["ts"] + event["dur"] >= at for event in transfers)) <= 1)
        check(abs(chosen("--to", f"{middle / 1000:.9f}") - sum(event["ts"] <= at for event in transfers)) <= 1)
        check(0 < chosen("--from", f"{middle:.6f}ms", "--to", f"{middle + 5:.6f}ms") < len(transfers))
        check(len(Tool(build, file, "--json", "--top", "0").json()["slowest"]) == 0)
        check(len(Tool(build, file, "--json", "--top", "100000").json()["slowest"]) == len(transfers))
        check(", 0 of them chosen" in Tool(build, file, "--peer", "nosuch").text)


def failures(build):
    with folder() as place:
        file, _, _ = traced(build, place, 100, what="cancelled")
        told = Tool(build, file, "--json", "--top", "200").json()
        check(sum(each["transfers"] for each in told["failures"]) == 11, told["failures"])
        check(by_kind(told["groups"], "failed")["receive"] == 11, told["groups"])
        check(any(each["error"] and each["wait"] == "message" for each in told["slowest"]), told["slowest"])
        check("the transfer was cancelled" in Tool(build, file).text)


def cut_off(build):
    """A file that is cut at each byte of some lines, and the file of a killed process, are read up to their end."""
    with folder() as place:
        file, _, _ = traced(build, place, 100)
        text = file.read_bytes()
        end = text.index(b"\n", 3000)
        cut = place / "cut.json"
        for size in range(end - 300, end + 3):
            cut.write_bytes(text[:size])
            told = Tool(build, cut, "--json").json()
            check(not told["whole"] and told["transfers"] > 0, f"{size} of {len(text)}", told)
        cut.write_bytes(text[:end])
        check("the file ends midway" in Tool(build, cut).text)
        Run(build, "killed", "1000", trace=place / "killed.json", code=None)
        told = Tool(build, place / "killed.json", "--json").json()
        check(not told["whole"] and told["transfers"] >= 1000 and told["dropped_busy"] is None, told)


def no_trace(build):
    with folder() as place:
        def refused(name, contents, why):
            (place / name).write_bytes(contents)
            told = Tool(build, place / name, code=1)
            check(why in told.errors, told.errors)

        refused("empty", b"", "is empty")
        refused("words", b"hello", "is no trace: it is no JSON at byte 1")
        refused("almost", b'[{"ph":"M"},{]', "is no trace: it is no JSON at byte")
        foreign = b'{"ph":"X","name":"a","ts":1,"dur":2,"pid":1,"tid":1}'
        for contents in (b'{"traceEvents":[' + foreign + b"]}", b"[" + foreign + b"]", b"[]", b"{}", b"5", b'"text"', b"null"):
            refused("foreign", contents, "is JSON, but no trace of hbmwire's")
        file, _, _ = traced(build, place, 100)
        text = file.read_bytes()
        refused("damaged", text[:2000] + b"\0" + text[2000:], "is damaged: it is no JSON at byte")
        refused("twice", text + text, "is damaged: it is no JSON at byte")
        for name, why in (("nosuch", "No such file or directory"), (".", "Is a directory")):
            told = Tool(build, place / name, code=1)
            check(why in told.errors, told.errors)
        told = Tool(build, place / "nosuch", "--json", code=1).json()
        check(told["exit_code"] == 1 and "No such file" in told["error"], told)


def pipes(build):
    """A trace can be read from a pipe, a FIFO, and standard input."""
    with folder() as place:
        file, events, _ = traced(build, place, 2000)
        wanted = len(of_transfers(events))
        with open(file, "rb") as source:
            check(Tool(build, "/dev/stdin", "--json", stdin=source).json()["transfers"] == wanted)
        fifo = place / "fifo"
        os.mkfifo(fifo)
        with subprocess.Popen(["cat", file], stdout=subprocess.PIPE) as cat:
            check(Tool(build, "/dev/stdin", "--json", stdin=cat.stdout).json()["transfers"] == wanted)
        with subprocess.Popen(["sh", "-c", 'cat "$1" > "$2"', "sh", file, fifo]):
            check(Tool(build, fifo, "--json").json()["transfers"] == wanted)


def arguments(build):
    with folder() as place:
        file, _, _ = traced(build, place, 100)
        for words, why in (((), "FILE is missing"), ((file, file), "one argument too many"), ((file, "--top", "x"), "give a number"),
                           ((file, "--endpoint", "-1"), "give a number"),
                           ((file, "--endpoint", "1x"), "give a number"), ((file, "--from", "soon"), "give a time such as"),
                           ((file, "--to", "5m"), "give a time such as"), ((file, "--from", "2", "--to", "1"), "--to is before --from"),
                           ((file, "--quiet"), "unknown option")):
            told = Tool(build, *words, code=2)
            check(why in told.errors, words, told.errors)
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([build / "bin/hbmwire", "trace", file], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        check(done.returncode == 1 and "No space left on device" in done.stderr, done)


def many(build):
    """A million transfers, in some seconds, with little more memory than 16 bytes for each."""
    with folder() as place:
        file = place / "t.json"
        Run(build, "mixed", "1000", trace=file)
        lines = file.read_text(encoding="utf-8").splitlines()
        transfers = [line for line in lines if '"cat":"transfer"' in line]
        times = 1000000 // len(transfers)
        with open(file, "w", encoding="utf-8") as out:
            out.write("\n".join(lines[:-2]) + "\n")
            for _ in range(times - 1):
                out.write("\n".join(transfers) + "\n")
            out.write("\n".join(lines[-2:]) + "\n")
        before = time.monotonic()
        told = Tool(build, file, "--json").json()
        took = time.monotonic() - before
        check(told["transfers"] == len(transfers) * times > 990000, told["transfers"])
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"{file.stat().st_size >> 20} MiB in {took:.1f} s; the largest child had {peak:.0f} MiB")
        check(took < 60, f"it took {took} s")
        check(peak < 100, f"it took {peak} MiB")


CASES = {name: case for name, case in globals().items() if callable(case) and getattr(case, "__module__", "") == __name__
         and name not in ("Tool", "traced", "by_kind")}
