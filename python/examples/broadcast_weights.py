#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Brings weights from rank 0 to all processes that a launcher has started, and verifies them.

    $ torchrun --nproc-per-node 4 broadcast_weights.py
    $ mpirun -n 4 broadcast_weights.py --size 4G --memory gaudi

Each rank hands on what has come to the next one, so it takes the time of one transfer.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import time

import hbmwire

import ends


def main(options: ends.Options) -> None:
    context = hbmwire.Context()
    with context, hbmwire.Group.create(context, timeout=options.timeout) as group:
        weights = context.allocate(options.memory, options.size)
        if group.rank == 0:
            weights.write(random.Random(1).randbytes(options.size))
        group.barrier(options.timeout)
        begin = time.monotonic()
        group.broadcast(weights, root=0, timeout=options.timeout)
        took = time.monotonic() - begin
        digests = group.exchange(hashlib.sha256(weights.read()).digest(), timeout=options.timeout)
        if digests != [digests[0]] * group.size:
            raise ends.Wrong("the ranks have different weights")
        rate = options.size / took / (1 << 30)
        print(f"rank {group.rank} of {group.size}: verified, {took:.3f} s, {rate:.2f} GiB/s")
        group.barrier(options.timeout)  # for the others a rank that leaves earlier has failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=ends.size, default="64M", help="default: 64M")
    parser.add_argument("--memory", choices=["host", "gaudi", "cuda", "rocm"], default="host")
    parser.add_argument("--timeout", type=ends.seconds, default=60.0, metavar="SECONDS")
    try:
        main(parser.parse_args())
    except KeyboardInterrupt:
        sys.exit(130)
    except (hbmwire.Error, ends.Wrong) as error:
        sys.exit(f"{parser.prog}: {error}")
