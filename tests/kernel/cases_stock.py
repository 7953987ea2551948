# SPDX-License-Identifier: MIT
"""An unmodified kernel: rxe's verbs, and the kernel's own exporters of dma-bufs."""
import json

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


def perf(lab):
    """Each test of hbmwire perf, with verbs and with the endpoint API; every type of queue pair, and both ways to connect."""
    tests = ("write_bw -s 4096", "write_lat", "read_bw -s 4096 -q 2", "read_lat", "send_bw -s 4096 -b", "send_lat -e", "atomic_bw",
             "atomic_lat -A CMP_AND_SWAP", "write_bw -R -s 4096", "write_bw -c UC -s 4096", "send_lat -c UD -s 64",
             "put_bw -s 4096", "put_lat", "get_bw -s 4096", "get_lat", "tag_bw -s 16384", "tag_lat")
    output = lab.run_well("perf.sh", *tests)
    check(output.count("PERF ") == len(tests), "not all tests have run", output)
    check("emulated" not in output, "it was not the kernel's NIC", output)


def emulate(lab):
    """The emulated world beside a real RDMA device."""
    lab.run_well("emulate.sh")


def cgroup(lab):
    """Host memory within the limit of a version 2 cgroup, and above it."""
    lab.run_well("cgroup.sh")


def doctor(lab):
    """The doctor with facts of the real kernel: rxe carries host memory, and imports no dma-bufs."""
    output = lab.run_well("doctor.sh")
    facts = json.loads(output.partition("\nFACTS\n")[2].partition("END OF FACTS")[0])
    check("emulated" not in output.splitlines()[0], "the kernel's NIC counts as emulated", output)
    check(facts["machine"]["nics"][0]["imports_dmabufs"] is False, "rxe imports no dma-bufs, and the doctor says otherwise", facts)
    findings = {(finding["check"], finding["subject"]): finding["verdict"] for finding in facts["findings"]}
    check(findings.get(("kernel", "")) == "good", "the kernel was not seen", facts["findings"])
    check(findings.get(("port", "rxe0 port 1")) == "good", "the port was not seen", facts["findings"])


def exporters(kernel):
    """Debian's 6.1 has only vgem."""
    found = {"udmabuf": kernel.has("UDMABUF"), "heap": kernel.has("DMABUF_HEAPS_SYSTEM"), "vgem": True}
    return [name for name, there in found.items() if there]


def dmabuf(lab):
    """dma-bufs of real exporters are copied, synchronised and passed on. rxe and the emulated NIC refuse them."""
    names = exporters(lab.kernel)
    output = lab.run_well("dmabuf.sh", *names)
    for name in names:
        for case in ("IsPassedToAnotherProcess", "IsRefusedByAnEmulatedNicWithCauseAndRemedy"):
            check(f"[       OK ] Of/KernelDmabuf.{case}/{name}" in output, f"no {case} of {name}", output)
    if lab.kernel.is_fallback:
        print(f"not run: udmabuf and dma-heap, which {lab.kernel.release} leaves out")


CASES = {f"stock.{case.__name__}": case for case in (exchange, pair, rdma_cm, perf, emulate, cgroup, doctor, dmabuf)}
