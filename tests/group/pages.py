#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The pages of docs/launchers: their commands are run on emulated nodes, and their files are read as launchers read them.

usage: HBMWIRE_TEST_GROUP_EXAMPLE=GROUP pages.py --program HBMWIRE [CASE...]
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import case_runner  # noqa: E402
from harness import Skipped, check, emulate_command, every_emulate, world  # noqa: E402
from ranks import etcd_server, free_port  # noqa: E402
from slurm import Slurm  # noqa: E402

PAGES = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "launchers"
EXAMPLE = "HBMWIRE_TEST_GROUP_EXAMPLE"


def commands(page):
    """The blocks of a page that can be run as they stand."""
    return re.findall(r"^```sh\n(.*?)^```$", (PAGES / page).read_text(), re.M | re.S)


def example(here):
    """A folder with a `group` that runs on an emulated node of its own, whichever launcher starts it."""
    node = [*emulate_command(here.program), "--quiet", "--dir", str(here.base), "--fabric", here.fabric, "--nics", "1",
            *every_emulate()]
    words = " ".join(f"'{word}'" for word in node)
    group = here.folder / "group"
    group.write_text(f"#!/bin/sh\nexec {words} --name \"n$$\" -- '{os.environ[EXAMPLE]}' \"$@\"\n")
    group.chmod(0o755)
    return here.folder


def check_output(text, launcher):
    met = re.findall(r"^rank (\d+) of (\d+), met by (.*): 1048576 bytes verified$", text, re.M)
    sizes = {int(size) for _, size, _ in met}
    check(len(sizes) == 1 and sorted(int(rank) for rank, _, _ in met) == list(range(sizes.pop())), "not all ranks verified", text)
    check(all(launcher in by for _, _, by in met), f"not met by {launcher}", text)


def run(here, block, launcher, **variables):
    ran = here.run(["bash", "-euc", block], cwd=example(here), env={**os.environ, **variables})
    check(ran.finish(60) == 0, block, ran.text)
    check_output(ran.text, launcher)


def mpirun(program):
    if shutil.which("mpirun") is None:
        raise Skipped("there is no mpirun: install openmpi-bin")
    with world(program) as here:
        for block in commands("mpirun.md"):
            run(here, block, "PMIx", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def on_another_port(block, port):
    """The block with this port in place of the page's, which another test may have."""
    changed = re.sub(r"(127\.0\.0\.1:|MASTER_PORT=)\d+", rf"\g<1>{port}", block)
    check(changed != block, "the command names no port", block)
    return changed


def environment(program):
    with world(program) as here:
        for block in commands("torchrun.md"):
            run(here, on_another_port(block, free_port()), "torchrun")


def readme(program):
    file, explicit = commands("README.md")
    with world(program) as here:
        check("/tmp/group.$USER" in file, "the command names no file", file)
        run(here, file.replace("/tmp/group.$USER", str(here.folder / "meeting")), "HBMWIRE_GROUP")
        run(here, on_another_port(explicit, free_port()), "HBMWIRE_GROUP")


def etcd(program):
    with world(program) as here:
        port, store = etcd_server(here)
        for block in commands("etcd.md"):
            run(here, on_another_port(block, port), "HBMWIRE_GROUP")
        store.end()


def sbatch(program):
    with world(program) as here:
        slurm = Slurm(here, (free_port(), free_port()), 16)
        out = here.folder / "out"
        ran = here.run(["sbatch", "--wait", "--nodes=1", f"--output={out}", PAGES / "group.sbatch"], cwd=example(here),
                       env=slurm.environment)
        check(ran.finish(100) == 0, "sbatch failed", ran.text, out.read_text() if out.exists() else "")
        check_output(out.read_text(), "Slurm")
        check(not list(here.folder.glob("hbmwire-key.*")), "the job left its key")
        slurm.stop()


def scripts(_):
    found = sorted(PAGES.glob("*.sbatch"))
    check(len(found) == 2, f"files of sbatch: {found}")
    for each in found:
        said = subprocess.run(["bash", "-n", each], capture_output=True, text=True, check=False)
        check(said.returncode == 0, said.stderr)
        check(each.read_text().startswith("#!/bin/bash\n") and "#SBATCH --nodes=" in each.read_text(), each)


def yaml(_):
    try:
        import yaml as reader
    except ImportError:
        raise Skipped("there is no python3-yaml") from None
    service, job = reader.safe_load_all((PAGES / "group.yaml").read_text())
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    variables = {each["name"]: each["value"] for each in pod["containers"][0]["env"]}
    check(spec["completionMode"] == "Indexed" and str(spec["completions"]) == variables["HBMWIRE_GROUP_SIZE"]
          and spec["parallelism"] == spec["completions"], spec)
    # Pod 0 of an indexed job has the host name JOB-0, and its domain is the service's.
    host, port = variables["HBMWIRE_GROUP"].removeprefix("tcp://").split(":")
    check(host == f"{job['metadata']['name']}-0.{service['metadata']['name']}", host)
    check(pod["subdomain"] == service["metadata"]["name"] and service["spec"]["clusterIP"] == "None", service)
    check(service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}, service)
    check(int(port) == service["spec"]["ports"][0]["port"] and service["spec"]["publishNotReadyAddresses"] is True, service)


CASES = {f"pages.{function.__name__}": function for function in (mpirun, environment, readme, etcd, sbatch, scripts, yaml)}

if __name__ == "__main__":
    sys.exit(case_runner.main(__doc__, CASES))
