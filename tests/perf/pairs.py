# SPDX-License-Identifier: MIT
"""Runs both sides of `hbmwire perf` like users, and checks their output."""
import json
import re
import subprocess
import threading
import time


class Failure(AssertionError):
    pass


def check(condition, *what):
    if not condition:
        raise Failure("\n".join(str(part) for part in what))


class Side:
    """One side: a process whose output is collected."""

    def __init__(self, arguments):
        self.arguments = [str(argument) for argument in arguments]
        self.handle = subprocess.Popen(self.arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True, errors="replace")
        self.words = ""  # standard error
        self.output = ""  # standard output
        self._readers = [threading.Thread(target=self._read, args=("words", self.handle.stderr), daemon=True),
                         threading.Thread(target=self._read, args=("output", self.handle.stdout), daemon=True)]
        for reader in self._readers:
            reader.start()

    def _read(self, where, stream):
        for line in stream:
            setattr(self, where, getattr(self, where) + line)

    def wait_for(self, pattern, seconds=20):
        deadline = time.monotonic() + seconds
        while True:
            match = re.search(pattern, self.words + self.output)
            if match:
                return match
            check(self.handle.poll() is None and time.monotonic() < deadline, f"no /{pattern}/ of {self}", self.text())
            time.sleep(0.005)

    def finish(self, seconds=60):
        try:
            code = self.handle.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self} did not end within {seconds} s", self.text()) from None
        for reader in self._readers:
            reader.join(10)
        return code

    def result(self):
        return json.loads(self.output)

    def errors(self):
        return [line for line in self.words.splitlines() if line.startswith("hbmwire perf: ")]

    def end(self):
        if self.handle.poll() is None:
            self.handle.kill()
        self.handle.wait()

    def text(self):
        return self.words + self.output

    def __str__(self):
        return " ".join(self.arguments)


class Pair:
    """A server, and the client that connects to it."""

    def __init__(self, program, test, client=(), server=(), server_test=None, bind="127.0.0.1"):
        self.server = Side([program, "perf", server_test or test, "--json", "-p", 0, "--bind", bind, *server])
        self.client = None
        try:
            self.port = self.server.wait_for(r"Waiting for client connection on port (\d+)")[1]
            if client is not None:
                self.start(program, test, client)
        except BaseException:
            self.server.end()
            raise

    def start(self, program, test, options, host="127.0.0.1"):
        """Starts the client, if that was not done before."""
        self.client = Side([program, "perf", test, host, "--json", "-p", self.port, *options])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.client:
            self.client.end()
        self.server.end()

    def finish(self, seconds=60):
        return self.client.finish(seconds), self.server.finish(seconds)


def check_row(row, measure, pair):
    """Checks one size: plausible figures, only for bytes that were compared."""
    found = row["verification"]
    check(found["passed"] and found["wrong_bytes"] == 0 and found["places"] > 0 and found["bytes"] > 0,
          f"not verified: {found}", pair.client)
    check(found["arrivals"] == found["expected_arrivals"], f"arrivals: {found}", pair.client)
    if measure == "bandwidth":
        figures = row["bandwidth"]
        check(0 < figures["average_bytes_per_second"] <= figures["peak_bytes_per_second"] * 1.001, figures)
    else:
        figures = row["latency"]
        check(0 < figures["min_ns"] <= figures["typical_ns"] <= figures["percentile_99_9_ns"] <= figures["max_ns"],
              figures)


def check_run(pair, test, sizes=None):
    """Expects that both sides finished, found every byte right, and report the same."""
    codes = pair.finish()
    check(codes == (0, 0), f"exit codes {codes}", pair.client, pair.client.text(), pair.server, pair.server.text())
    here, there = pair.client.result(), pair.server.result()
    measure = "latency" if test.endswith("lat") else "bandwidth"
    for result in (here, there):
        check(result["exit_code"] == 0 and result["rows"], result)
        for row in result["rows"]:
            check_row(row, measure, pair)
        if sizes is not None:
            check([row["size_bytes"] for row in result["rows"]] == sizes, result["rows"])
    for mine, theirs in zip(here["rows"], there["rows"]):
        figure = mine[measure].get("average_bytes_per_second", mine[measure].get("typical_ns"))
        check(figure == theirs[measure].get("average_bytes_per_second", theirs[measure].get("typical_ns")), mine, theirs)
    return here, there
