# SPDX-License-Identifier: MIT
"""A stock kernel, and nothing of ours in it: rxe's verbs."""
from guest import check, finish_well


def exchange(lab):
    """Server and client over rxe in one guest."""
    output = lab.run_well("exchange.sh")
    check("Registered with IB by address" in output, "the memory was not registered as host memory", output)


def pair(lab):
    """Server and client, and rping, between two guests."""
    listener = lab.start("pair.sh", "listen", name="listen", network="listen")
    connector = lab.start("pair.sh", "connect", name="connect", network="connect")
    finish_well(connector)
    finish_well(listener)


def rdma_cm(lab):
    """rdma_cm over rxe."""
    lab.run_well("rdma_cm.sh")


def emulate(lab):
    """The emulated world beside a real RDMA device."""
    lab.run_well("emulate.sh")


CASES = {f"stock.{case.__name__}": case for case in (exchange, pair, rdma_cm, emulate)}
