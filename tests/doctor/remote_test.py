#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`hbmwire doctor --serve` and `hbmwire doctor HOST` between two emulated machines.

remote_test.py --list names the cases, remote_test.py --program PATH CASE... runs some.
"""
import contextlib
import json
import os
import pathlib
import re
import resource
import signal
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

import case_runner  # noqa: E402
from harness import check, only_root, raw_connection, world  # noqa: E402
from reports import Result, environment  # noqa: E402
import way_test  # noqa: E402

KEY = "HBMWIRE_PRE_SHARED_KEY_FILE"


class Machines:
    """The machine "there" with its server, and the machine "here"."""

    def __init__(self, w):
        self.w = w
        self.server = None
        self.port = None

    def serve(self, *arguments, emulate=("--nics", "2", "--gaudi", "1"), prefix=(), bind="127.0.0.1", **settings):
        self.server = self.w.emulated([self.w.program, "doctor", "--serve", "-p", "0", "--bind", bind, *arguments],
                                      "there", emulate, prefix, env=environment(**settings))
        self.port = int(self.server.wait_for(r"Waiting for a doctor on port (\d+)")[1])
        return self.server

    def start(self, *arguments, emulate=("--nics", "2", "--gaudi", "1"), prefix=(), host=None, **settings):
        place = host or f"127.0.0.1:{self.port}"
        return self.w.emulated([self.w.program, "doctor", place, *arguments], "here", emulate, prefix, env=environment(**settings))

    def visit(self, *arguments, **options):
        return ended(self.start(*arguments, **options))

    def pid(self, side):
        """The process of the doctor itself, below `hbmwire emulate`."""
        process = self.server if side == "there" else self.w.processes[-1]
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                parent_words = pathlib.Path(f"/proc/{parent}/cmdline").read_bytes().split(b"\0")
                # The doctor's own children have its command line, too.
                if len(words) > 1 and words[1] == b"doctor" and os.getsid(int(entry.name)) == process.handle.pid and \
                        (len(parent_words) < 2 or parent_words[1] != b"doctor"):
                    return int(entry.name)
        check(False, f"no doctor below {process}", process.text)

    def stop(self):
        """Tells the server to end, and checks that it leaves nothing behind."""
        os.kill(self.pid("there"), signal.SIGTERM)
        code = self.server.finish(10)
        check(code == 0, f"the server gave {code}", self.server.text)


def ended(process, seconds=60):
    """Waits for a process. Its output is split at the JSON of a report: the text before it has the errors."""
    started = time.monotonic()
    code = process.finish(seconds)
    text = process.text
    begin = text.find("{") if '"exit_code"' in text else 0
    return Result(text[begin:], code, text[:begin], time.monotonic() - started)


@contextlib.contextmanager
def machines(program):
    with world(program) as w:
        yield Machines(w)


def pairs_of(result, table):
    key = "nic" if table == "nics" else "memory"
    return {(pair["here"][key], pair["there"][key]): pair for pair in result.whole["pairs"][table]}


def expect(result, code, health):
    check(result.code == code, f"not the exit code {code}:", result)
    whole = result.whole
    check(whole["exit_code"] == code and whole["health"] == health and whole["emulated"] is True, f"not {health}:", result)


def check_verified(pair):
    check(pair["outcome"] in ("zero_copy", "host") and pair["verified_bytes"] >= 16 << 20 and pair["wrong_bytes"] == 0, pair)
    for way in ("out", "back"):
        for figure in ("by_write_bytes_per_second", "by_read_bytes_per_second"):
            check(pair[way][figure] > 0, way, figure, pair)
    check(pair["latency_ns"] > 0 and pair["possible_bytes_per_second"] > 0 and pair["limit"] and pair["mtu_bytes"] >= 256, pair)


def first_error(result):
    return next(cause["error"] for cause in result.whole["causes"] if cause["error"])


def works(program):
    with machines(program) as m:
        m.serve(emulate=("--nics", "2", "--gaudi", "1", "--cuda", "1"))
        result = m.visit("--json")
        expect(result, 0, "well")
        nics, memories = pairs_of(result, "nics"), pairs_of(result, "memories")
        check(sorted(nics) == [(a, b) for a in ("emu0", "emu1") for b in ("emu0", "emu1")], sorted(nics))
        check(sorted(memories) == [(a, b) for a in ("gaudi 0", "host") for b in ("cuda 0", "gaudi 0", "host")], sorted(memories))
        for pair in [*nics.values(), *memories.values()]:
            check_verified(pair)
        for key, pair in memories.items():
            check(pair["outcome"] == ("host" if key == ("host", "host") else "zero_copy"), pair)
        checks = {finding["check"]: finding["verdict"] for finding in result.whole["way"]}
        check(checks == {"way": "good", "way-udp": "good", "way-mtu": "good"}, result.whole["way"])
        text = m.visit()
        lines = text.text.splitlines()
        check(text.code == 0 and lines[0].endswith("pairs between this machine and 127.0.0.1 verified."), text)
        check(all(len(line) <= 80 for line in lines[1:]), text)
        m.stop()
        check(m.server.text.count(": done") == 2, m.server.text)


def chosen(program):
    """Each side chooses its own NICs and memories."""
    with machines(program) as m:
        m.serve("-d", "emu1", "--memory", "host")
        result = m.visit("--json", "-d", "emu0", "--memory", "gaudi:0")
        expect(result, 0, "well")
        check(list(pairs_of(result, "nics")) == [("emu0", "emu1")], result)
        check(list(pairs_of(result, "memories")) == [("gaudi 0", "host")], result)
        result = m.visit("-d", "emu7")
        check(result.code == 3 and "emu7" in result.text, result)
        m.stop()


def without_dmabuf(program):
    with machines(program) as m:
        m.serve(emulate=("--nics", "1", "--gaudi", "1", "--without", "dmabuf"))
        result = m.visit("--json")
        expect(result, 4, "slow")
        memories = pairs_of(result, "memories")
        for ours in ("host", "gaudi 0"):
            pair = memories[ours, "gaudi 0"]
            check(pair["outcome"] == "staged" and pair["error_side"] == "there", pair)
            check(pair["error"]["hint"] == "dmabuf_not_supported", pair)
            check_verified(memories[ours, "host"])
        cause = result.whole["causes"][0]
        check(cause["finding"]["check"] == "nic-imports" and cause["finding"]["subject"].startswith("127.0.0.1 "), result)
        m.stop()


def port_down(program):
    with machines(program) as m:
        m.serve(emulate=("--nics", "2", "--gaudi", "1", "--link", "emu1=down"))
        result = m.visit("--json")
        expect(result, 1, "broken")
        for (_, there), pair in pairs_of(result, "nics").items():
            if there == "emu0":
                check_verified(pair)
            else:
                check(pair["outcome"] == "refused" and pair["error"]["hint"] == "no_active_port" and pair["error_side"] == "there", pair)
        cause = result.whole["causes"][0]
        check(cause["finding"]["check"] == "port" and "emu1" in cause["finding"]["subject"], result)
        m.stop()


def slow_rail(program):
    with machines(program) as m:
        m.serve(emulate=("--nics", "2", "--gaudi", "1", "--rate", "emu1=400M"))
        result = m.visit("--json")
        expect(result, 4, "slow")
        for (_, there), pair in pairs_of(result, "nics").items():
            check((pair["outcome"] == "slow") == (there == "emu1"), pair)
        slow = [cause for cause in result.whole["causes"] if cause["error"]]
        check(slow and all("emu1" in cause["error"]["text"] for cause in slow), slow)
        m.stop()


def wrong_byte(program):
    """Each direction is compared where the bytes arrive."""
    with machines(program) as m:
        m.serve(emulate=("--nics", "1", "--gaudi", "1", "--faults", "flip,op=write,nth=3,byte=100"))
        result = m.visit("--json", emulate=("--nics", "1", "--gaudi", "1"))
        expect(result, 1, "broken")
        wrong = [pair for pair in result.whole["pairs"]["nics"] + result.whole["pairs"]["memories"] if pair["wrong_bytes"]]
        check(wrong and all(pair["outcome"] == "failed" and pair["error"]["step"] == "verify" for pair in wrong), result)
        # The flipped byte is number 100 of the third write (nth=3), and each write has 512 KiB.
        check(f"byte {2 * (1 << 19) + 100} of" in first_error(result)["text"], result)
        m.stop()


def card_taken(program):
    with machines(program) as m:
        # The name "there" makes the holder run on the server's emulated machine.
        holder = m.w.server("-m", "gaudi", "--card", "0", "--keep", name="there", emulate=("--nics", "2", "--gaudi", "2"))
        m.serve(emulate=())
        result = m.visit("--json")
        expect(result, 3, "untried")
        memories = pairs_of(result, "memories")
        check(memories["gaudi 0", "gaudi 0"]["error"]["hint"] == "gaudi_busy", memories)
        check(memories["gaudi 0", "gaudi 0"]["error_side"] == "there", memories)
        check_verified(memories["gaudi 0", "gaudi 1"])
        m.stop()
        holder.stop()


def no_nic_there(program):
    with machines(program) as m:
        m.serve(emulate=("--nics", "0", "--gaudi", "1"))
        result = m.visit("--json")
        expect(result, 3, "untried")
        check("127.0.0.1 has no RDMA NIC" in result.whole["verdict"], result)
        check(result.whole["pairs"]["no_nics_there"]["hint"] == "no_rdma_device", result)
        check("No NIC of 127.0.0.1: " in re.sub(r"\s+", " ", m.visit().text), "the reason is missing")
        m.stop()


def hanging_there(program):
    """A NIC that hangs makes its pairs fail; the others are tried."""
    with machines(program) as m:
        m.serve("--timeout", "1", emulate=("--nics", "2", "--gaudi", "0", "--faults", "stop,op=write,nth=1"))
        result = m.visit("--json", "--timeout", "1", emulate=("--nics", "1", "--gaudi", "0"))
        expect(result, 1, "broken")
        check(any(pair["outcome"] == "host" for pair in result.whole["pairs"]["nics"] + result.whole["pairs"]["memories"]), result)
        check("no answer within 1 s" in first_error(result)["text"] or first_error(result)["code"] == "timed out", result)
        m.stop()


def crashing_there(program):
    with machines(program) as m:
        m.serve(emulate=("--nics", "1", "--gaudi", "1", "--faults", "kill,op=write,nth=1"))
        result = m.visit("--json", emulate=("--nics", "1", "--gaudi", "1"))
        expect(result, 1, "broken")
        check("killed by signal 9" in first_error(result)["text"], result)
        check(any(pair["outcome"] == "zero_copy" for pair in result.whole["pairs"]["memories"]), result)
        m.stop()


def one_at_a_time(program):
    with machines(program) as m:
        m.serve(emulate=("--nics", "2", "--gaudi", "1", "--rate", "400M"))
        first = m.start("--json")
        m.server.wait_for("a doctor looks at this machine")
        second = m.w.emulated([program, "doctor", f"127.0.0.1:{m.port}"], "other", ("--nics", "1"), env=environment())
        result = ended(second)
        check(result.code == 1 and "another doctor is being served" in result.text and result.seconds < 10, result)
        expect(ended(first), 4, "slow")
        m.stop()


def client_dies(program):
    """The server notices, ends the jobs of that client, and serves the next one."""
    with machines(program) as m:
        m.serve(emulate=("--nics", "4", "--gaudi", "4", "--rate", "400M"))
        for number in (signal.SIGKILL, signal.SIGINT):
            client = m.start(emulate=("--nics", "4", "--gaudi", "4"))
            m.server.wait_for("(?s)" + "a doctor looks at this machine.*" * (2 if number == signal.SIGINT else 1))
            time.sleep(1)
            os.kill(m.pid("here"), number)
            code = client.finish(15)
            check(code in ((130,) if number == signal.SIGINT else (137, -9)), code, client.text)
        # One line before each client so far, and one for the client that it waits for now.
        m.server.wait_for(r"(?s)(Waiting for a doctor.*){3}")
        result = m.visit("--json", "-d", "emu0", "--memory", "host", emulate=("--nics", "1", "--gaudi", "0"))
        check(result.code in (0, 4), result)
        m.stop()


def server_dies(program):
    with machines(program) as m:
        for number in (signal.SIGKILL, signal.SIGTERM):
            m.serve(emulate=("--nics", "4", "--gaudi", "4", "--rate", "400M"))
            client = m.start(emulate=("--nics", "4", "--gaudi", "4"))
            m.server.wait_for("a doctor looks at this machine")
            time.sleep(1)
            os.kill(m.pid("there"), number)
            result = ended(client, 20)
            check(result.code == 1 and "the doctor of 127.0.0.1 was lost before all was tried" in result.text, result)
            m.server.finish(10)


def server_stops(program):
    """A server that no longer answers, but still exists."""
    with machines(program) as m:
        m.serve(emulate=("--nics", "2", "--gaudi", "1", "--rate", "400M"))
        client = m.start("--timeout", "1")
        m.server.wait_for("a doctor looks at this machine")
        time.sleep(0.5)
        pid = m.pid("there")
        os.kill(pid, signal.SIGSTOP)
        result = ended(client, 40)
        check(result.code == 1, result)
        os.kill(pid, signal.SIGCONT)
        m.server.wait_for(r"(?s)(Waiting for a doctor.*){2}")
        m.stop()


def keys(program):
    with machines(program) as m:
        files = {}
        for name in ("one", "two"):
            files[name] = m.w.folder / name
            files[name].write_bytes((name * 16).encode())
            files[name].chmod(0o600)
        m.serve(emulate=("--nics", "1"), **{KEY: str(files["one"])})
        good = m.visit("--json", emulate=("--nics", "1"), **{KEY: str(files["one"])})
        check(good.code == 0, good)
        for settings in ({KEY: str(files["two"])}, {}):
            bad = m.visit(emulate=("--nics", "1"), **settings)
            check(bad.code == 1 and "pre-shared key" in bad.text, bad)
        check("not authenticated" not in m.server.text, m.server.text)
        m.stop()
        m.serve(emulate=("--nics", "1"))
        check("not authenticated" in m.server.text, m.server.text)
        m.stop()
        for file in files.values():
            file.unlink()


def another_program(program):
    """Another program listens at the doctor's address: an endpoint's listener, or a program that sends nothing."""
    with machines(program) as m:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            result = ended(m.start(host=f"127.0.0.1:{silent.getsockname()[1]}"), 30)
            check(result.code == 1 and "127.0.0.1" in result.text and result.seconds < 15, result)
        server = m.w.server("--keep", name="there", emulate=("--nics", "1"))
        result = ended(m.start(host=f"127.0.0.1:{server.port}"), 30)
        check(result.code == 1 and "127.0.0.1" in result.text, result)
        server.stop()


def strangers(program):
    """Connections that send nothing, or other bytes, do not delay a doctor."""
    with machines(program) as m:
        m.serve(emulate=("--nics", "1", "--gaudi", "0"))
        silent = [raw_connection(m.port) for _ in range(20)]
        for connection, words in zip(silent[:10], [b"GET / HTTP/1.0\r\n\r\n", b"\0" * 4096, os.urandom(100_000)] * 4):
            with contextlib.suppress(OSError):
                connection.sendall(words)
        result = m.visit("--json", emulate=("--nics", "1", "--gaudi", "0"))
        check(result.code == 0, result)
        for connection in silent:
            connection.close()
        m.stop()


def no_server(program):
    with machines(program) as m:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        result = ended(m.start("--json", host=f"127.0.0.1:{port}"))
        check(result.code == 1 and result.whole["health"] == "broken", result)
        way = result.whole["way"][0]
        check(way["check"] == "way" and way["verdict"] == "bad" and "--serve" in way["remedy"], way)
        check("can't be reached" in result.whole["verdict"], result)


def jumbo_frames(program):
    """Both interfaces have jumbo frames, but the switch between them does not. The report says so, although the emulated NICs
    take another way."""
    only_root()
    with machines(program) as m, way_test.network(program, end_mtu=9000, switch_mtu=1500) as net:
        prefix = {role: ("ip", "netns", "exec", net.names[role]) for role in ("client", "server")}
        m.serve(emulate=("--nics", "1"), prefix=prefix["server"], bind="0.0.0.0")
        host = f"{way_test.SERVER[4]}:{m.port}"
        result = m.visit("--json", emulate=("--nics", "1"), prefix=prefix["client"], host=host)
        check(result.code == 0, result)
        ways = {(each["check"], each["subject"]): each for each in result.whole["way"]}
        check(any(name == "way-mtu" and each["verdict"] in ("bad", "slow") and "1500" in each["found"]
                  for (name, _), each in ways.items()), ways)
        check(any(cause["finding"] and cause["finding"]["check"] == "way-mtu" and cause["refuted"]
                  for cause in result.whole["causes"]), result)
        m.stop()


def no_such_host(program):
    with machines(program) as m:
        result = ended(m.start("--json", host="nosuchhost.invalid"))
        check(result.code == 1 and result.whole["way"][0]["check"] == "way-name", result)


def differences(program):
    with machines(program) as m:
        m.serve(emulate=("--nics", "1"), HBMWIRE_LINK_TRAFFIC_CLASS="104")
        result = m.visit("--json", emulate=("--nics", "1"))
        check(any("TRAFFIC_CLASS" in each["what"] or "traffic class" in each["what"] for each in result.whole["differences"]), result)
        text = re.sub(r"\s+", " ", m.visit(emulate=("--nics", "1")).text)
        check("104" in text, text)
        m.stop()


def private(program):
    """The other machine reveals neither its name nor addresses nor serial numbers."""
    only_root()
    with machines(program) as m:
        m.serve(prefix=("unshare", "--uts", "sh", "-c", 'hostname the-host-there; exec "$@"', "sh"))
        result = m.visit("--json")
        there = str(result.whole["there"])
        check(result.code == 0 and "the-host-there" not in there, "the host's name", there)
        told = m.w.emulated([program, "info", "--json"], "there", env=environment())
        check(told.finish() == 0, told.text)
        ports = [port for nic in json.loads(told.text)["nics"] for port in nic["ports"]]
        # GIDs of the loopback device are the same everywhere.
        gids = {gid["gid"] for port in ports for gid in port["gids"] if "127." not in gid["gid"]}
        check(len(gids) > 2 and not any(gid in there for gid in gids), gids, there)
        m.stop()


def arguments(program):
    with machines(program) as m:
        for line in (("--serve", "node2"), ("node2", "--quick"), ("node2", "--save", "x"), ("--serve", "--json"),
                     ("node2", "--bind", "::1"), ("--minutes", "5"), ("-p", "5"), ("--serve", "--minutes", "0"),
                     ("node2:70000",), ("node2:5", "-p", "6"), ("--serve", "--replay", "x")):
            result = ended(m.w.run([program, "doctor", *line], env=environment()))
            check(result.code == 2 and "hbmwire doctor: " in result.errors + result.text, line, result)
        m.serve(emulate=("--nics", "1"))
        taken = ended(m.w.run([program, "doctor", "--serve", "-p", m.port, "--bind", "127.0.0.1"], env=environment()))
        check(taken.code == 1 and str(m.port) in taken.text, taken)
        m.stop()


def minutes(program):
    """With --minutes the server ends by itself."""
    with machines(program) as m:
        m.serve("--minutes", "1", emulate=("--nics", "1"))
        check(m.server.finish(75) == 0 and "--minutes" in m.server.text, m.server.text)


def eight_by_eight(program):
    with machines(program) as m:
        emulate = ("--nics", "8", "--gaudi", "8")
        m.serve(emulate=emulate)
        result = ended(m.start("--json", emulate=emulate), 120)
        check(result.seconds < 75 and result.code in (0, 3), f"{result.seconds:.0f} s", result)
        # 8 x 8 NICs, and 9 x 9 memories: the host's and those of eight cards.
        check(len(result.whole["pairs"]["nics"]) == 64 and len(result.whole["pairs"]["memories"]) == 81, "not all pairs")
        m.stop()


CASES = {name: globals()[name] for name in (
    "works", "chosen", "without_dmabuf", "port_down", "slow_rail", "wrong_byte", "card_taken", "no_nic_there", "hanging_there",
    "crashing_there", "one_at_a_time", "client_dies", "server_dies", "server_stops", "keys", "another_program", "strangers",
    "no_server", "jumbo_frames", "no_such_host", "differences", "private", "arguments", "minutes", "eight_by_eight")}

if __name__ == "__main__":
    # Keeps children that are killed on purpose from writing core files.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    sys.exit(case_runner.main(__doc__, CASES))
