# SPDX-License-Identifier: MIT
"""Combines every test on verbs, every memory, each type of queue pair that perftest has for the test, one and many queue
pairs, and one and both directions."""
import itertools

from pairs import Pair, check_run

VERBS = ["write_bw", "write_lat", "read_bw", "read_lat", "send_bw", "send_lat", "atomic_bw", "atomic_lat"]
MEMORIES = ["host", "gaudi", "cuda", "rocm"]
SECOND = {"gaudi": "gaudi:1", "cuda": "cuda:0", "rocm": "rocm:0", "host": "host"}  # a Gaudi has one owner: the sides need two


def connections(test):
    if test.startswith("send"):
        return ["RC", "UC", "UD"]
    return ["RC", "UC"] if test.startswith("write") else ["RC"]


def rows():
    """(test, client's memory, server's memory, connection, queue pairs, both directions)"""
    for test, here, there in itertools.product(VERBS, MEMORIES, MEMORIES):
        for connection in connections(test):
            many = [(1, False)] if test.endswith("lat") else [(1, False), (1, True), (5, False), (5, True)]
            for queue_pairs, both in many:
                yield test, here, there, connection, queue_pairs, both


def reduction():
    """A selection of rows with each test for each memory on either side, each connection, and both values of the others."""
    seen = set()
    for row in rows():
        test, here, there, connection, queue_pairs, both = row
        pairs = {(test, "client", here), (test, "server", there), (test, connection), (test, queue_pairs, both),
                 (here, there)}
        # A row is taken if it adds several pairs that no earlier row has.
        if len(pairs - seen) >= (3 if here != there else 2):
            seen |= pairs
            yield row


def run_row(program, row):
    test, here, there, connection, queue_pairs, both = row
    options = ["--memory", f"{here},{SECOND[there]}", "-c", connection, "-n", 200, "-x", 3]
    if queue_pairs > 1:
        options += ["-q", queue_pairs, "-l", 2, "-t", 32]
        if test.startswith("send"):
            options += ["-r", 64]
    if both:
        options.append("-b")
    if not test.startswith("atomic"):
        # UD carries at most an MTU of 4096 bytes.
        options += ["-s", 1000 if test.endswith("lat") else 4096 if connection == "UD" else 20000]
    with Pair(program, test, options) as pair:
        result, _ = check_run(pair, test)
    return " ".join(map(str, row)), result


def run(program, chosen):
    count = 0
    for row in chosen:
        run_row(program, row)
        count += 1
    print(f"{count} rows")
