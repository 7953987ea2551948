#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`hbmwire perf` through the endpoint API, and its output. `run.py --list` names the cases."""
import itertools
import json
import os
import pathlib
import re
import sys
import xml.etree.ElementTree
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import case_runner  # noqa: E402
from harness import check, check_one_sentence, world  # noqa: E402

TESTS = ("put_bw", "put_lat", "get_bw", "get_lat", "tag_bw", "tag_lat")
MEMORIES = ("host", "gaudi", "cuda", "rocm")
PATHS = {"host": "host memory"}
DEVICES = ("--gaudi", "1", "--cuda", "1", "--rocm", "1")


class Pair:
    """A server on node "a", a client on `client_node`, and the JSON output of both."""

    def __init__(self, w, test, *options, server=(), json_of_client=True, client_node="b"):
        self.server = w.emulated([w.program, "perf", test, "-p", "0", "--bind", "127.0.0.1", *server], "a", DEVICES)
        port = self.server.wait_for(r"Waiting for client connection on port (\d+)")[1]
        json_flag = ["--json"] if json_of_client else []
        arguments = [w.program, "perf", test, "127.0.0.1", "-p", port, *json_flag, *options]
        self.client = w.emulated(arguments, client_node, DEVICES)

    def finish(self, code=0):
        check(self.client.finish(100) == code, "the client did not give", code, self.client.text, self.server.text)
        check(self.server.finish(20) == code, "the server did not give", code, self.server.text)
        return self

    def run(self):
        return json.loads(self.client.text[self.client.text.index("{"):])


def check_row(row, size, messages, latency):
    check(row["size_bytes"] == size, "another size", row)
    check(row["iterations"] == messages, "another number of messages", row)
    found = row["verification"]
    check(found["passed"] and found["places"] > 0 and found["bytes"] >= 2 * size and found["wrong_bytes"] == 0,
          "not verified", found)
    check(found["arrivals"] == found["expected_arrivals"], "arrivals are missing", found)
    if latency:
        figures = row["latency"]
        check(0 < figures["min_ns"] <= figures["typical_ns"] <= figures["percentile_99_ns"] <= figures["max_ns"],
              "latencies out of order", figures)
    else:
        figures = row["bandwidth"]
        check(figures["messages_per_second"] > 0, "no rate", figures)
        check(abs(figures["average_bytes_per_second"] / figures["messages_per_second"] / size - 1) < 1e-6,
              "bytes and messages differ", figures)
        check(figures["peak_bytes_per_second"] >= 0.99 * figures["average_bytes_per_second"] or size == 1,
              "the peak is below the average", figures)
    check(row["cpu"]["user"] + row["cpu"]["system"] > 0, "no CPU was used", row)


def one(w, test, here, there, size, *options, lanes=1, messages=60):
    pair = Pair(w, test, "--memory", f"{here},{there}", "-s", size, "-n", messages, "-q", lanes, *options).finish()
    run = pair.run()
    check(run["emulated"] and run["verified"], "not labelled", run)
    for side, memory in (("local", here), ("remote", there)):
        check(run[side]["memory"] == memory, f"another memory {side}", run[side])
        check(run[side]["path"] == PATHS.get(memory, "zero-copy dma-buf"), f"another path {side}", run[side])
        check((run[side]["distance"] == "") == (memory == "host"), f"no distance {side}", run[side])
    check_row(run["rows"][0], size, messages * lanes, test.endswith("lat"))
    check(f"from here ({here} by" in run["rows"][0]["path"], "the transfer does not explain itself", run["rows"][0])
    check("verified" in pair.server.text and "emulated hardware" in pair.server.text, "the server says less",
          pair.server.text)
    return run


def every_memory(test, memories):
    def case(program):
        for here, there in memories:
            with world(program) as w:
                one(w, test, here, there, 4096)
    return case


def matrix(test):
    """Every pair of memories, one and three endpoints, one and both directions, small and large."""
    def case(program):
        directions = [()] if test.endswith("lat") else [(), ("-b",)]
        lanes = (1,) if test.endswith("lat") else (1, 3)
        for here, there in itertools.product(MEMORIES, MEMORIES):
            with world(program) as w:
                for size, count, more in itertools.product((8, 65537), lanes, directions):
                    one(w, test, here, there, size, *more, lanes=count, messages=40)
    return case


def one_node(program):
    """Between two processes of a node, host memory uses shared memory, and device memory uses the NIC."""
    with world(program) as w:
        for test, size in (*itertools.product(TESTS, (8,)), ("put_bw", 65536), ("tag_bw", 65536)):
            check_one_node(w, test, "host", size, "shared memory")
        check_one_node(w, "put_bw", "gaudi", 8, "NIC loopback")


def check_one_node(w, test, there, size, path):
    row = Pair(w, test, "--memory", f"host,{there}", "-s", size, "-n", 60, client_node="a").finish().run()["rows"][0]
    check_row(row, size, 60, test.endswith("lat"))
    check(row["path"].endswith(path), "another path", row)


def both_directions(program):
    with world(program) as w:
        for test in ("put_bw", "get_bw", "tag_bw"):
            run = one(w, test, "gaudi", "host", 4096, "-b", lanes=3)
            check(run["bidirectional"], "not said", run)


def by_time(program):
    for test in ("put_bw", "tag_bw", "tag_lat", "get_lat"):
        with world(program) as w:
            run = Pair(w, test, "-s", "512", "-D", "1").finish().run()
            row = run["rows"][0]
            check(row["verification"]["passed"], "not verified", row)
            check(row["iterations"] > 100, "hardly anything was moved in a second", row)


def asleep(program):
    for test in ("put_bw", "tag_lat", "tag_bw"):
        with world(program) as w:
            check_row(Pair(w, test, "-e", "-s", "64", "-n", "50").finish().run()["rows"][0], 64, 50,
                      test.endswith("lat"))


def unverified(program):
    with world(program) as w:
        pair = Pair(w, "put_bw", "--no-verify", "-n", "50", json_of_client=False).finish()
        for side in (pair.client, pair.server):
            check("NOT VERIFIED" in side.text and " verified" not in side.text, "it is not said", side.text)


def killed(test, victim):
    """The other side ends within 10 s, with one message."""
    def case(program):
        with world(program) as w:
            pair = Pair(w, test, "-D", "60", json_of_client=False)
            pair.client.wait_for("#bytes")
            pair.server.wait_for("#bytes")
            gone, left = (pair.server, pair.client) if victim == "server" else (pair.client, pair.server)
            gone.end()
            check_one_sentence(left, 1, seconds=15)
    return case


def refused(program):
    """Options for features that the endpoint API lacks are refused before anything is opened."""
    with world(program) as w:
        for options, part in ((("-l", "4"), "leave out -l"), (("-c", "UC"), "leave out -c"), (("-R",), "-R"),
                              (("-Q", "4"), "leave out -Q"), (("-I", "64"), "leave out -I")):
            process = w.emulated([w.program, "perf", "put_bw", "127.0.0.1", *options], "b")
            check_one_sentence(process, 2, part)


def marked(program):
    """Options of the connection reach endpoints, like queue pairs. The settings supply options that were not given."""
    marks = {"service_level": 5, "traffic_class": 104}
    with world(program) as w:
        for test in ("put_bw", "get_lat", "tag_bw"):
            run = Pair(w, test, "-n", "50", "-S", "5", "--tclass", "104", "-m", "1024", "-u", "12", "--retry_count", "6",
                       "-x", "1", server=("-x", "1")).finish().run()
            check(run["parameters"].items() >= marks.items(), "the run does not say how its packets are marked", run)
            check(run["rows"][0]["verification"]["passed"], "not verified", run)
        pair = Pair(w, "put_bw", "-u", "20", json_of_client=False)
        # The server listens before the client connects, and therefore finds it first.
        check_one_sentence(pair.client, 1, "the server gave up: configure 8 x 4.29 s = 34.4 s, peer_timeout 2 s",
                           "choose a smaller -u or --retry_count")
        check(pair.server.finish(20) == 2, pair.server.text)
        pair = Pair(w, "put_bw", "-x", "200", json_of_client=False)
        check_one_sentence(pair.client, 3, "(GID index 200, ", "choose another -x")
        check(pair.server.finish(20) != 0, pair.server.text)
    names = {"HBMWIRE_LINK_SERVICE_LEVEL": "5", "HBMWIRE_LINK_TRAFFIC_CLASS": "104", "HBMWIRE_LINK_ACK_TIMEOUT": "20"}
    with mock.patch.dict(os.environ, names), world(program) as w:
        for test in ("put_bw", "write_bw"):
            run = Pair(w, test, "-n", "50", "-u", "12").finish().run()
            check(run["parameters"].items() >= marks.items(), "the settings do not count", run)
            run = Pair(w, test, "-n", "50", "-u", "12", "-S", "0", "--tclass", "8").finish().run()
            said = run["parameters"]
            check(said["traffic_class"] == 8 and "service_level" not in said, "an option does not go before a setting", said)
        check_one_sentence(Pair(w, "put_bw", json_of_client=False).client, 1, "8 x 4.29 s = 34.4 s")


def sweep(program):
    """Table, plots, files and comparison of two sweeps."""
    with world(program) as w:
        saved, svg = w.folder / "run.json", w.folder / "run.svg"
        pair = Pair(w, "put_bw", "-a", "-s", "64K", "-n", "200", "--report_gbits", "--out_json_file", saved, "--plot",
                    svg, json_of_client=False).finish()
        text = pair.client.text
        check("BW average[Gb/sec]" in text and "message size [bytes]" in text, "no table or no plot", text)
        sizes = re.findall(r"^ (\d+) +200 +.* verified *$", text, re.MULTILINE)
        check(sizes == [str(2 ** i) for i in range(1, 17)], "not every size has its line", sizes, text)
        check(re.search(r"Verdict +: .*one memcpy by one CPU.*emulated hardware", text), "no verdict", text)
        check(re.search(r"Registration +: here .* in .*; there .* in ", text), "no registration time", text)
        run = json.loads(saved.read_text())
        check(len(run["rows"]) == 16, "not every size is in the file", run)
        # If a machine exceeds the speed of its measured copies, there is no verdict, and the output gives the reason.
        judged = run["why_no_verdict"] if run["verdict"] is None else 0 < run["verdict"]["share"] <= 1.05
        check(judged, "neither a verdict nor a reason", run)
        root = xml.etree.ElementTree.parse(svg).getroot()
        words = "".join(root.itertext())
        check(root.tag.endswith("svg") and "bandwidth [Gb/s]" in words and "message size [bytes]" in words, words)

        again = Pair(w, "put_bw", "-a", "-s", "64K", "-n", "200", "--compare", saved, json_of_client=False).finish()
        check(re.search(r"^ \d+ of 16 sizes changed beyond the noise", again.client.text, re.MULTILINE),
              "not compared", again.client.text)
        # The saved run is made ten thousand times as fast, so that all sizes are worse now.
        for row in run["rows"]:
            row["bandwidth"]["average_bytes_per_second"] *= 10000
            row["bandwidth"]["noise"] = 0
        saved.write_text(json.dumps(run))
        worse = Pair(w, "put_bw", "-a", "-s", "64K", "-n", "200", "--compare", saved, json_of_client=False).finish()
        check(len(re.findall(r"WORSE$", worse.client.text, re.MULTILINE)) >= 12, "not pointed out", worse.client.text)


def bad_files(program):
    with world(program) as w:
        bad = w.folder / "bad.json"
        bad.write_bytes(bytes(range(256)))
        for options, code, part in ((("--compare", bad), 1, "it is no JSON"),
                                    (("--compare", w.folder / "none"), 1, "check the path"),
                                    (("--plot", w.folder / "none" / "x.svg"), 1, "none/x.svg")):
            process = w.emulated([w.program, "perf", "put_bw", "127.0.0.1", *options], "b")
            check_one_sentence(process, code, part)


def limits(program):
    with world(program) as w:
        pair = Pair(w, "put_bw", "-n", "50", "-w", "1e9", json_of_client=False)
        check_one_sentence(pair.client, 1, "is below the 1000000000.00 of -w")
        check(pair.server.finish(20) == 0, pair.server.text)


CASES = {"both_directions": both_directions, "by_time": by_time, "asleep": asleep, "unverified": unverified,
         "killed.put_server": killed("put_bw", "server"), "killed.tag_client": killed("tag_bw", "client"),
         "killed.lat_server": killed("put_lat", "server"), "refused": refused, "sweep": sweep, "bad_files": bad_files,
         "limits": limits, "marked": marked, "one_node": one_node}
# In the fast suite each test uses each memory on each side once.
MIXES = [("host", "gaudi"), ("gaudi", "host"), ("cuda", "rocm"), ("rocm", "cuda")]
CASES.update({f"mixes.{test}": every_memory(test, MIXES) for test in TESTS})
CASES.update({f"matrix.{test}": matrix(test) for test in TESTS})


if __name__ == "__main__":
    sys.exit(case_runner.main(__doc__, CASES))
