# SPDX-License-Identifier: MIT
"""Probes: the library has exactly those of docs/tracing.md, and each question in it works."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

from cases_file import folder
from harness import Skipped, check, only_root

TREE = pathlib.Path(__file__).resolve().parent.parent.parent
MANUAL = TREE / "docs/tracing.md"
# The tables of numbers in the manual, and the enumerations that they show.
NUMBERS = {
    "kind": ("include/hbmwire/counters.hpp", "TransferKind"),
    "path": ("include/hbmwire/memory.hpp", "Path"),
    "protocol": ("include/hbmwire/transfer.hpp", "Protocol"),
    "memory": ("include/hbmwire/memory.hpp", "MemoryType"),
    "code": ("include/hbmwire/error.hpp", "Errc"),
    "stage": ("include/hbmwire/error.hpp", "Stage"),
    "what": ("src/base/probes.hpp", "Fallback"),
}


def manual():
    return MANUAL.read_text(encoding="utf-8").partition("## Probes")[2]


def documented():
    """{"ask": [8, 4, 1, 8], ...}: the sizes of the arguments in the manual."""
    rows = re.findall(r"^\| `(\w+)` \| ((?:`\w+` \d+(?:, )?)+) \|", manual(), re.MULTILINE)
    return {name: [int(size) for size in re.findall(r"` (\d+)", arguments)] for name, arguments in rows}


def has_probes(build):
    cache = (build / "CMakeCache.txt").read_text(encoding="utf-8")
    return re.search(r"^HBMWIRE_HAS_SDT:INTERNAL=1$", cache, re.MULTILINE) is not None


def notes(build):
    """Each place of each probe has the arguments of the manual, and the manual has no other probes."""
    library = build / "lib/libhbmwire.so"
    text = subprocess.run(["readelf", "--notes", "--wide", library], capture_output=True, text=True, check=True).stdout
    found = {}
    for name, arguments in re.findall(r"Provider: hbmwire\s+Name: (\w+)\s+Location:.*\s+Arguments: ?(.*)", text):
        sizes = [abs(int(size)) for size in re.findall(r"(-?\d+)@", arguments)]
        found.setdefault(name, []).append(sizes)
    if not has_probes(build):
        check(not found, "the build says that it has no probes", found)
        raise Skipped("the build has no probes: there was no sys/sdt.h")
    check(set(found) == set(documented()), f"the library has {sorted(found)}", f"the manual has {sorted(documented())}")
    for name, places in found.items():
        for sizes in places:
            check(sizes == documented()[name], f"{name} has arguments of {sizes} bytes", f"and of {documented()[name]} in the manual")


def numbers(_build):
    """The numbers in the manual equal those of the enumerations."""
    for word, (file, enumeration) in NUMBERS.items():
        source = re.sub(r"//.*", "", (TREE / file).read_text(encoding="utf-8"))
        body = re.search(rf"enum class {enumeration} : [\w:]+ {{(.*?)}}", source, re.DOTALL)[1]
        names = [part.strip() for part in body.split(",") if part.strip()]
        row = re.search(rf"^\| {word} \| (.*) \|$", manual(), re.MULTILINE)[1]
        told = re.findall(r"(\d+) `(\w+)`", row)
        check(told[:len(names)] == [(str(i), name) for i, name in enumerate(names)], word, told, names)


def questions_of_manual():
    """The commands in the manual, each as one line."""
    blocks = re.findall(r"^((?:    .*\n)+)", manual().partition("### Questions")[2], re.MULTILINE)
    return [" ".join(line.strip() for line in block.splitlines()) for block in blocks if "bpftrace -e" in block]


def ask(build, question, program, place):
    """The output of bpftrace while a program runs."""
    out = place / "out"
    with open(out, "w", encoding="utf-8") as file:
        # In a session of its own. The shell becomes bpftrace by `exec`, and the signal below reaches bpftrace itself.
        tracer = subprocess.Popen(["bash", "-c", f"exec {question}"], stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
                                  env={**os.environ, "L": str(program), "BPFTRACE_STRLEN": "64"})
        try:
            deadline = time.monotonic() + 60
            while "Attaching" not in out.read_text(encoding="utf-8") and tracer.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(1.5)
            check(tracer.poll() is None, f"bpftrace ended: {out.read_text(encoding='utf-8')}", question)
            run = subprocess.run([build / "libexec/hbmwire/emulate", "--quiet", "--nics", "1", "--gaudi", "1", "--without",
                                  "emu0=dmabuf", "--", program, "cancelled", "1000"], capture_output=True, text=True, check=True,
                                 timeout=60)
            time.sleep(1.5)
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(30)
    # bpftrace complains about a container's limit at its start, and about a missing tracefs at its end; both are harmless.
    text = re.sub(r"(ERROR: failed to detach probe|open\(/sys/kernel/tracing/uprobe_events\)|ERROR: .*RLIMIT_MEMLOCK).*\n", "",
                  out.read_text(encoding="utf-8"))
    return text, json.loads(run.stdout.splitlines()[-1])


def questions(build):
    """Each question is asked. The answer of the first one equals the program's own counts."""
    only_root()
    if shutil.which("bpftrace") is None or not has_probes(build):
        raise Skipped("no bpftrace, or no probes")
    if subprocess.run(["bpftrace", "-e", "BEGIN { exit(); }"], capture_output=True, check=False).returncode != 0:
        raise Skipped("bpftrace does not work here")
    all_questions = questions_of_manual()
    check(len(all_questions) == 9, all_questions)
    # The library is linked into the program.
    program = build / "tests/endpoint_trace"
    with folder() as place:
        for question in all_questions:
            told, tally = ask(build, question, program, place)
            check("error" not in told.lower() and "lost" not in told.lower(), question, told)
            # With host memory only, no path is a slower one.
            check(len(told.splitlines()) > 2 or "fallback" in question, question, told)
            if "@transfers[arg1]" in question:
                sums = [int(sum) for sum in re.findall(r"@transfers\[0\]: (\d+)", told)]
                check(sum(sums) == tally["put"][0], told, tally)


CASES = {name: case for name, case in globals().items() if name in ("notes", "numbers", "questions")}
