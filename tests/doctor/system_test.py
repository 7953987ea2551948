#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`hbmwire doctor` on emulated machines that are well, broken or slow: verdict, first cause, exit code, nothing left behind.

system_test.py --list names the cases, system_test.py --program PATH CASE... runs some.
"""
import contextlib
import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

import case_runner  # noqa: E402
from harness import Skipped, check, world  # noqa: E402
from reports import ORDINARY, Result, environment, run  # noqa: E402


def doctor(program, w, emulate, *arguments, prefix=(), inner=(), seconds=60):
    return run([*prefix, program, "emulate", "--quiet", "--dir", w.base, *emulate, "--", *inner, program, "doctor", *arguments],
               seconds)


def expect(result, code, health):
    check(result.code == code, f"not the exit code {code}:", result)
    whole = result.whole
    check(whole["exit_code"] == code and whole["health"] == health and whole["emulated"] is True, f"not {health}:", result)
    check("(emulated hardware)" in whole["verdict"], whole["verdict"])


def check_verified(pair):
    check(pair["outcome"] in ("zero_copy", "host") and pair["verified_bytes"] >= 8 << 20 and pair["wrong_bytes"] == 0, pair)
    for figure in ("write_bytes_per_second", "read_bytes_per_second", "latency_ns"):
        check(pair[figure] > 0, figure, pair)


def works(program):
    with world(program) as w:
        result = doctor(program, w, ("--nics", "2", "--gaudi", "1", "--cuda", "1", "--rocm", "1"), "--json")
        expect(result, 0, "well")
        # Host, Gaudi, CUDA and ROCm, each by two NICs.
        check(len(result.pairs) == 8, sorted(result.pairs))
        for (memory, by), pair in result.pairs.items():
            check_verified(pair)
            check(pair["outcome"] == ("host" if memory == "host" else "zero_copy"), pair)
            check(pair["limit"] and pair["possible_bytes_per_second"] > 0, pair)
            check(memory == "host" or (pair["distance"] and pair["device_address"] and by), pair)
        check(result.whole["machine"]["nics"], result)
        text = doctor(program, w, ("--nics", "2", "--gaudi", "1"))
        first = text.text.splitlines()[0]
        check(text.code == 0 and first == "Works (emulated hardware): all 4 pairs of memory and NIC verified.", text)
        check(all(len(line) <= 80 for line in text.text.splitlines()[1:]), text)


def chosen(program):
    """--nic and --memory restrict the pairs; a missing device is an error."""
    emulate = ("--nics", "2", "--gaudi", "2")
    with world(program) as w:
        result = doctor(program, w, emulate, "--json", "-d", "emu1", "--memory", "gaudi:1")
        check(list(result.pairs) == [("gaudi 1", "emu1")] and result.code == 0, result)
        for arguments, part in ((("-d", "emu7"), "emu7"), (("--memory", "cuda"), "cuda"), (("--memory", "gaudi:4"), "gaudi:4")):
            result = doctor(program, w, emulate, *arguments)
            check(result.code == 3 and part in result.errors and result.text == "", result)
        for nic, code in (("emu1:9", 3), ("emu7:1", 3), ("emu1:", 2), ("emu1:1x", 2), ("emu1:0", 2), ("emu1:300", 2)):
            result = doctor(program, w, emulate, "-d", nic)
            check(result.code == code and nic.split(":")[0] in result.errors and result.text == "", nic, result)
        check(doctor(program, w, emulate, "--json", "-d", "emu1:1", "--memory", "host").code == 0, "emu1:1")


def without_dmabuf(program):
    with world(program) as w:
        result = doctor(program, w, ("--nics", "2", "--without", "emu0=dmabuf"), "--json")
        expect(result, 4, "slow")
        pair = result.pairs["gaudi 0", "emu0"]
        check(pair["outcome"] == "staged" and pair["error"]["hint"] == "dmabuf_not_supported", pair)
        check_verified(result.pairs["gaudi 0", "emu1"])
        check_verified(result.pairs["host", "emu0"])
        check(result.first in ("nic-imports", "dmabuf_not_supported"), result)
        check(result.whole["causes"][0]["pairs"] == ["gaudi 0 - emu0"], result)


def slow_rail(program):
    with world(program) as w:
        result = doctor(program, w, ("--nics", "2", "--rate", "emu1=400M"), "--json")
        expect(result, 4, "slow")
        for memory in ("host", "gaudi 0"):
            check(result.pairs[memory, "emu1"]["outcome"] == "slow", result)
            check_verified(result.pairs[memory, "emu0"])
        slow = [cause for cause in result.whole["causes"] if cause["error"]]
        check(len(slow) == 1 and slow[0]["error"]["text"].startswith("slow: emu1: 0.05 GB/s"), slow)
        check(sorted(slow[0]["pairs"]) == ["gaudi 0 - emu1", "host - emu1"], slow)


def wrong_byte(program):
    with world(program) as w:
        result = doctor(program, w, ("--faults", "flip,op=write,nth=3,byte=100"), "--json", "--memory", "gaudi")
        expect(result, 1, "broken")
        pair = result.pairs["gaudi 0", "emu0"]
        check(pair["outcome"] == "failed" and pair["wrong_bytes"] == 1 and pair["error"]["step"] == "verify", pair)
        # The flipped byte is number 100 of the third write (nth=3), and each write has 512 KiB.
        check(f"byte {2 * (1 << 19) + 100} of" in pair["error"]["text"], pair)


def card_taken(program):
    """The report says that the card is taken. The doctor does not take it, and its owner goes on."""
    with world(program) as w:
        server = w.server("-m", "gaudi", "--card", "0", "--keep", name="n", emulate=("--gaudi", "2"))
        process = w.emulated([program, "doctor", "--json"], "n", env=environment())
        code = process.finish()
        result = Result(process.text[process.text.index("{"):], code, "", 0)
        expect(result, 3, "untried")
        pair = result.pairs["gaudi 0", "emu0"]
        check(pair["outcome"] == "untried" and pair["error"]["hint"] == "gaudi_busy", pair)
        check_verified(result.pairs["gaudi 1", "emu0"])
        check(any(cause["error"] and cause["error"]["hint"] == "gaudi_busy" for cause in result.whole["causes"]), result)
        client = w.client(server.port, "-m", "host", name="n")
        check(client.finish() == 0, client.text)
        server.stop()


def port_down(program):
    with world(program) as w:
        result = doctor(program, w, ("--nics", "2", "--link", "emu0=down"), "--json")
        expect(result, 1, "broken")
        for memory in ("host", "gaudi 0"):
            pair = result.pairs[memory, "emu0"]
            check(pair["outcome"] == "refused" and pair["error"]["hint"] == "no_active_port", pair)
            check_verified(result.pairs[memory, "emu1"])
        check(result.first in ("port", "no_active_port"), result)
        port = [finding for finding in result.whole["findings"] if finding["check"] == "port" and finding["verdict"] != "good"]
        check([finding["remedy"] for finding in port] == ["hbmwire emulate --link emu0/1=up"], port)


def few_descriptors(program):
    """Under each limit, a pair or the message on standard error names the limit."""
    prefix = ORDINARY if os.geteuid() == 0 else ()
    with world(program) as w:
        w.base.chmod(0o777)
        w.folder.chmod(0o755)
        for limit in (6, 8, 16):
            result = doctor(program, w, ("--nics", "1"), prefix=prefix, inner=("prlimit", f"--nofile={limit}:{limit}"))
            check(result.code in (1, 3) and "ulimit -n" in re.sub(r"\s+", " ", result.text + result.errors), result)


def little_locked_memory(program):
    """The emulated NIC locks no memory, so that the pairs work, and findings about the limit do not count."""
    prefix = ORDINARY if os.geteuid() == 0 else ()
    with world(program) as w:
        w.base.chmod(0o777)
        w.folder.chmod(0o755)
        result = doctor(program, w, ("--nics", "1"), "--json", prefix=prefix, inner=("prlimit", "--memlock=65536:65536"))
        expect(result, 0, "well")
        found = [finding for finding in result.whole["findings"] if finding["check"] == "limits" and finding["verdict"] != "good"]
        check(len(found) >= 1 and any("65536" in each["found"] for each in found), result.whole["findings"])


def no_nic(program):
    with world(program) as w:
        result = doctor(program, w, ("--nics", "0", "--gaudi", "1", "--cuda", "2"), "--json")
        expect(result, 0, "well")
        outcomes = {key: pair["outcome"] for key, pair in result.pairs.items()}
        for key, outcome in {("gaudi 0", "host"): "copy", ("cuda 0", "itself"): "copy", ("cuda 0", "cuda 1"): "copy",
                             ("cuda 1", "ipc"): "ipc", ("host", "ipc"): "ipc", ("gaudi 0", "tcp"): "tcp"}.items():
            check(outcomes.get(key) == outcome, key, outcomes)
            check(result.pairs[key]["verified_bytes"] >= 4 << 20, result.pairs[key])
        check(result.whole["pairs"]["no_nics"]["hint"] == "no_rdma_device", result)


def no_accelerator(program):
    with world(program) as w:
        result = doctor(program, w, ("--nics", "2", "--gaudi", "0"), "--json")
        expect(result, 0, "well")
        check(sorted(result.pairs) == [("host", "emu0"), ("host", "emu1")], result)
        check("no accelerator" in result.whole["verdict"], result)
        result = doctor(program, w, ("--nics", "0", "--gaudi", "0"), "--json")
        expect(result, 3, "untried")
        check(("host", "tcp") in result.pairs, result)


def quick_without(program):
    """Missing hardware is no fault: the checks alone give the same exit code as the pairs."""
    for nics, cards, code, health in ((0, 0, 3, "untried"), (0, 1, 0, "well"), (1, 0, 0, "well")):
        with world(program) as w:
            whole, alone = (doctor(program, w, ("--nics", nics, "--gaudi", cards), "--json", *more) for more in ((), ("--quick",)))
            for result in (whole, alone):
                expect(result, code, health)
            # If there is nothing to try, both say so in the same words.
            check(code != 3 or alone.whole["verdict"] == whole.whole["verdict"], alone, whole)


def saves_whole_files(program):
    """FILE appears when it is complete, even if standard output cannot be written."""
    with world(program) as w:
        saved = w.folder / "machine.json"
        saved.write_text("old")
        w.folder.chmod(0o755)
        limited = ("prlimit", "--fsize=1000:1000")
        result = doctor(program, w, ("--nics", "1"), "--quick", "--save", saved, inner=limited)
        check(result.code == 1 and "File too large" in result.errors and saved.read_text() == "old", result)
        command = [program, "emulate", "--quiet", "--dir", w.base, "--nics", "2", "--rate", "400M", "--", program, "doctor", "--save"]
        for number in (signal.SIGKILL, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
            for path, left in ((saved, ["machine.json"]), (w.folder / "new", ["machine.json"])):
                process = subprocess.Popen([*map(str, command), str(path)], env=environment(), stdin=subprocess.DEVNULL,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
                time.sleep(0.5)
                os.killpg(process.pid, number)
                process.wait(20)
                names = sorted(each.name for each in w.folder.iterdir() if each != w.base)
                check(names == left and saved.read_text() == "old", number, path, names)
        for stdout in (">/dev/full", ">&-", "| true"):
            saved.unlink(missing_ok=True)
            line = f"{program} emulate --quiet --dir {w.base} --nics 1 -- {program} doctor --quick --save {saved} {stdout}"
            result = run(["bash", "-o", "pipefail", "-c", line])
            check(result.code == 1 and "standard output" in result.errors, stdout, result)
            check(run([program, "doctor", "--replay", saved]).code == 0, stdout)
        saved.unlink()


def hanging_nic(program):
    """A process that hangs is ended, and the other pairs are still tried."""
    with world(program) as w:
        result = doctor(program, w, ("--nics", "2", "--faults", "stop,op=write,nth=1"), "--json", "--timeout", "2")
        expect(result, 1, "broken")
        pair = result.pairs["host", "emu0"]
        check(pair["outcome"] == "failed" and pair["error"]["code"] == "timed out", pair)
        check("no answer within 2 s" in pair["error"]["text"], pair)
        for key in (("host", "emu1"), ("gaudi 0", "emu0"), ("gaudi 0", "emu1")):
            check_verified(result.pairs[key])


def crashing_library(program):
    with world(program) as w:
        result = doctor(program, w, ("--nics", "1", "--faults", "kill,op=write,nth=1"), "--json")
        expect(result, 1, "broken")
        pair = result.pairs["host", "emu0"]
        check(pair["outcome"] == "failed" and "killed by signal 9" in pair["error"]["text"], pair)
        check_verified(result.pairs["gaudi 0", "emu0"])


def save_and_replay(program):
    """A saved machine gives the same report as the machine itself, wherever the file is read."""
    with world(program) as w:
        emulate = ("--nics", "2", "--without", "emu1=dmabuf")
        for arguments, place in (((), "plain"), (("--with-addresses",), "addresses")):
            saved = w.folder / f"{place}.json"
            live = doctor(program, w, emulate, "--save", saved, *arguments)
            check(live.code == 4, live)
            again = run([program, "doctor", "--replay", saved])
            check(again.text == live.text and again.code == live.code, "live:", live, "replayed:", again)
        saved.write_text("{")
        result = run([program, "doctor", "--replay", saved])
        check(result.code != 0 and "addresses.json" in result.errors, result)
        (w.folder / "plain.json").unlink()
        saved.unlink()


def quick(program):
    with world(program) as w:
        result = doctor(program, w, ("--nics", "2", "--gaudi", "2"), "--json", "--quick")
        check(result.whole["pairs"] is None and result.code in (0, 1, 4), result)
        check(result.whole["findings"] and "emulated" in result.whole["verdict"], result)
        # Timed within `emulate`, whose own start does not count.
        inner = re.search(r"real (\S+)", doctor(program, w, ("--nics", "2",), "--quick", inner=("time", "-f", "real %e")).errors) \
            if shutil.which("time") else None
        check(inner is None or float(inner[1]) < 2, inner)


def arguments(program):
    for line in (("--quick", "-d", "emu0"), ("--replay", "x", "--save", "y"), ("--replay", "x", "--quick"), ("--with-addresses",),
                 ("--memory", "tape"), ("--timeout", "0"), ("--nosuch",), ("--save=", "--quick"), ("--save", "--quick"),
                 ("--save", "", "--quick"), ("--quick=1",), ("--quick=no",), ("",), ("--serve", "--bind", "")):
        result = run([program, "doctor", *line])
        check(result.code == 2 and result.text == "" and result.errors.startswith("hbmwire doctor: "), line, result)


def on_terminal(arguments, awaited):
    """Runs a command on its own terminal, and presses Ctrl-C after the given output. Returns all output and the exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(arguments[0], arguments, environment())
    words = b""
    pressed = False
    with contextlib.suppress(OSError):  # EIO: no process uses the terminal any more
        while part := os.read(terminal, 4096):
            words += part
            if not pressed and awaited in words:
                os.write(terminal, b"\x03")
                pressed = True
    os.close(terminal)
    return words.decode(errors="replace"), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def dumb_terminal(program):
    """No colours and no escape sequences, as in the shell of an editor."""
    with world(program) as w:
        command = [program, "emulate", "--quiet", "--dir", w.base, "--nics", "1", "--", "env", "-u", "NO_COLOR"]
        for kind, has in (("dumb", False), ("xterm", True)):
            # Ctrl-C is never pressed, because this text never appears.
            words, code = on_terminal([str(word) for word in (*command, f"TERM={kind}", program, "doctor", "--memory", "host")], b"never")
            check(code == 0 and ("\x1b" in words) == has, kind, code, words)


def interrupt_once(program, prefix):
    with world(program) as w:
        w.base.chmod(0o777)
        w.folder.chmod(0o755)
        # Slowed down, so that Ctrl-C comes during the run.
        command = [*prefix, program, "emulate", "--quiet", "--dir", w.base, "--nics", "4", "--gaudi", "4", "--rate", "400M", "--",
                   program, "doctor"]
        words, code = on_terminal([str(word) for word in command], b"host - emu1: verify")
        check(code == 130 and "hbmwire doctor: interrupted" in words, code, words)


def interrupted(program):
    """Everything is released: world() checks for files and processes left behind."""
    interrupt_once(program, ())


def interrupted_user(program):
    if os.geteuid() != 0:
        raise Skipped("only root may become another user")
    interrupt_once(program, ORDINARY)


def eight_by_eight(program):
    with world(program) as w:
        result = doctor(program, w, ("--nics", "8", "--gaudi", "8"), "--json", seconds=120)
        check(result.seconds < 60, f"{result.seconds:.0f} s", result)
        # Nine memories, the host's and those of eight cards, by eight NICs.
        check(len(result.pairs) == 72 and result.code == 0, result)
        for pair in result.pairs.values():
            check_verified(pair)


CASES = {name: globals()[name] for name in (
    "works", "chosen", "without_dmabuf", "slow_rail", "wrong_byte", "card_taken", "port_down", "few_descriptors",
    "little_locked_memory", "no_nic", "no_accelerator", "quick_without", "saves_whole_files", "hanging_nic", "crashing_library",
    "save_and_replay", "quick", "arguments", "dumb_terminal", "interrupted", "interrupted_user", "eight_by_eight")}

if __name__ == "__main__":
    # Keeps children that are killed on purpose from writing core files.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    sys.exit(case_runner.main(__doc__, CASES))
