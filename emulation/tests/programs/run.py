#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Debian's own RDMA programs on the emulated NIC, as table.toml lists them.

usage: run.py --list
       run.py --program EMULATE [--jobs N] [--repeat N] [--as-user] [--docs FILE] [--emulate OPTIONS]
              (--fast | --all | ROW...)
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests" / "support"))

import as_user  # noqa: E402
import networks  # noqa: E402
import report  # noqa: E402
import runner  # noqa: E402
import table  # noqa: E402
from harness import EMULATE, Failure  # noqa: E402


def one(row, program, inside):
    """Runs a row, up to three times if its error is one of its known races. Returns the error, or None."""
    if row.network and not inside:
        done = networks.reexecuted(row, program)
        # The first line of its output is the one that this process is about to print.
        return None if done.returncode == 0 else done.stdout.split("\n", 1)[-1].rstrip()
    wrong = None
    for _ in range(3):
        try:
            runner.run(row, program)
            return None
        except (Failure, OSError, subprocess.SubprocessError) as failure:
            wrong = str(failure)
        if not row.races or not re.search(row.races, wrong):
            break
    return wrong


def timed(row, program, inside):
    """Runs a row. Returns it, its error or None, and the seconds that it took."""
    started = time.monotonic()
    return row, one(row, program, inside), time.monotonic() - started


def run_rows(rows, arguments):
    """Runs the rows and prints the result of each. Returns {name: error or None}."""
    results = {}
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        # Serial rows come after all others, one at a time.
        together = [pool.submit(timed, row, arguments.program, arguments.inside) for row in rows if not row.serial]
        for future in concurrent.futures.as_completed(together):
            keep(results, *future.result())
    for row in rows:
        if row.serial:
            keep(results, *timed(row, arguments.program, arguments.inside))
    return results


def keep(results, row, wrong, seconds):
    """Adds the outcome of a row to `results`, and prints it."""
    results[row.name] = wrong
    print(f"{row.name}: {'passed' if wrong is None else 'FAILED'} in {seconds:.1f} s", flush=True)
    if wrong is not None:
        print(wrong, flush=True)


def selected(rows, arguments):
    """The rows that the command line names."""
    if arguments.rows:
        unknown = [name for name in arguments.rows if name not in rows]
        if unknown:
            sys.exit(f"run.py: no row is named {', '.join(unknown)}; see --list")
        return [rows[name] for name in arguments.rows]
    if not (arguments.fast or arguments.all):
        sys.exit(__doc__)
    return [row for row in rows.values() if arguments.all or not row.full]


def list_rows(rows):
    """Prints a line for each row, as CMake reads it: name, time-out, and "full" or "serial"."""
    for row in rows.values():
        words = [word for word, said in (("full", row.full), ("serial", row.serial)) if said]
        print(" ".join([row.name, f"{row.timeout:g}", *words]))


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="the built libexec/hbmwire/emulate")
    parser.add_argument("--list", action="store_true", help="the rows: name, time-out in seconds, full or serial")
    parser.add_argument("--fast", action="store_true", help="the rows that are not full")
    parser.add_argument("--all", action="store_true", help="every row")
    parser.add_argument("--repeat", type=int, default=1, help="how often, one run after the other")
    parser.add_argument("--jobs", type=int, default=1, help="how many rows at a time")
    parser.add_argument("--as-user", action="store_true", help="as root: run as an ordinary user")
    parser.add_argument("--docs", metavar="FILE",
                        help="write a table of what ran here; as root: run as an ordinary user too")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--emulate", metavar="OPTIONS", help="options of every `hbmwire emulate`, besides a row's own")
    parser.add_argument("rows", nargs="*", metavar="ROW")
    return parser.parse_args()


def passes(rows, arguments):
    """Makes each requested pass over the rows. Yields its user and its results."""
    names = [row.name for row in rows]
    is_root = os.geteuid() == 0
    for _ in range(arguments.repeat):
        if not (is_root and arguments.as_user):
            yield "root" if is_root else "an ordinary user", run_rows(rows, arguments)
        if is_root and (arguments.as_user or arguments.docs):
            yield "an ordinary user", as_user.run(arguments.program, arguments.jobs, names)


def main():
    arguments = parsed()
    if arguments.emulate:
        os.environ[EMULATE] = arguments.emulate
    rows = table.read()
    if arguments.list:
        list_rows(rows)
        return 0
    chosen = selected(rows, arguments)
    runs = list(passes(chosen, arguments))
    if arguments.docs:
        report.write(arguments.docs, chosen, runs)
    failed = [f"{name} (as {who})" for who, results in runs for name, wrong in results.items() if wrong is not None]
    if len(chosen) > 1:
        print(f"{sum(len(results) for _, results in runs) - len(failed)} passed, {len(failed)} failed", *failed,
              sep="\n  ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
