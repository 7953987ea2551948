# SPDX-License-Identifier: MIT
"""Single cases: options, mistakes, and peers that disconnect."""
import contextlib
import os
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

from pairs import Pair, Side, check, check_run

PREAMBLE = b"hbmwire\n" + (2).to_bytes(2, "big") + bytes(6)


def check_sentence(side, code, *parts, seconds=10):
    """Expects that the process ends in time, with this exit code and one message that contains these parts."""
    start = time.monotonic()
    got = side.finish(seconds)
    check(got == code, f"{side} gave {got}, not {code}", side.text())
    check(time.monotonic() - start < 10, "it took too long")
    errors = side.errors()
    check(len(errors) == 1, "not one sentence", side.text())
    for part in parts:
        check(part in errors[0], f"no '{part}' in", errors[0])


def options(program):
    """Options of perftest's users, one after the other; the client's parameters apply to both sides."""
    for test, *line in (["write_bw", "-I", 64, "-s", 32], ["write_bw", "-e"], ["send_bw", "-e", "-b"],
                        ["send_lat", "-e"], ["read_bw", "-o", 1], ["write_bw", "-Q", 1, "-t", 1],
                        ["write_bw", "-m", 1024], ["send_bw", "-r", 4, "-n", 500], ["write_bw", "--flows", 3, "-l", 4],
                        ["atomic_bw", "-A", "CMP_AND_SWAP"], ["write_lat", "--immediate"], ["ib_write_bw", "-F", "-N"],
                        ["write_bw", "--perform_warm_up"], ["write_bw", "-x", 1], ["send_bw", "-R", "-q", 3],
                        ["read_lat", "-R"], ["write_bw", "-s", 1], ["write_bw", "--use_cuda", 0]):
        line = line if "-n" in line else [*line, "-n", 300]
        with Pair(program, test, line, server=["-s", "8", "-n", "7"]) as pair:
            check_run(pair, test)


def client_wins(program):
    """A server with other options follows the client, except for its memory type (named_memory)."""
    with Pair(program, "read_bw", ["-s", 333, "-n", 50, "--memory", "host,gaudi"],
              server=["-s", "4096", "-n", "9"], server_test="write_bw") as pair:
        here, there = check_run(pair, "read_bw", [333])
        check(there["rows"][0]["iterations"] == 50, there["rows"])


def sweep(program):
    sizes = [2 ** i for i in range(1, 24)]
    for test in ("write_bw", "send_bw", "read_lat"):
        with Pair(program, test, ["-a", "-n", 20]) as pair:
            check_run(pair, test, sizes)
    with Pair(program, "send_bw", ["-a", "-n", 50, "-c", "UD"]) as pair:
        # UD carries at most an MTU of 4096 bytes.
        check_run(pair, "send_bw", sizes[:12])


def by_time(program):
    for test in ("write_bw", "send_bw", "write_lat", "send_lat"):
        start = time.monotonic()
        with Pair(program, test, ["-D", 1]) as pair:
            check_run(pair, test)
        check(1 <= time.monotonic() - start < 9, "not about a second")


def rate(program):
    """The rate limit holds: at most 400 messages per second, with some tolerance."""
    with Pair(program, "write_bw", ["-n", 200, "--rate_limit", 400, "--rate_units", "p"]) as pair:
        here, _ = check_run(pair, "write_bw")
        check(here["rows"][0]["bandwidth"]["messages_per_second"] < 405, here["rows"])


def no_verify(program):
    with Pair(program, "write_bw", ["--no-verify", "-n", 100]) as pair:
        check(pair.finish() == (0, 0), pair.client.text(), pair.server.text())
        found = pair.client.result()["rows"][0]["verification"]
        check(not found["wanted"] and found["places"] == 0, found)


def wrong_flags(program):
    """Usage errors are reported before anything is opened."""
    for line in (["hurry_bw"], [], ["write_bw", "-s", "0"], ["write_bw", "-s", "2G"], ["write_bw", "-c", "XX"],
                 ["read_bw", "-c", "UC"], ["write_bw", "-c", "UD"], ["write_lat", "-b"], ["write_lat", "-q", "2"],
                 ["send_lat", "-l", "2"], ["atomic_bw", "-s", "16"], ["write_bw", "-a", "-D", "2"],
                 ["read_bw", "-I", "8"], ["write_bw", "-Q", "9", "-t", "4"], ["write_bw", "-l", "9", "-t", "4"],
                 ["write_bw", "--memory", "tape"], ["write_bw", "--memory", "host,host,host"], ["write_bw", "-m", "9"],
                 ["write_bw", "--dmabuf", "maybe"], ["put_bw", "-R"], ["send_bw", "-c", "UC", "-R"],
                 ["write_bw", "--memory", "host", "--use_cuda", "0"], ["write_bw", "-i", "1"],
                 ["write_bw", "--plot", "/tmp/one", "--out_json_file", "/tmp/one"]):
        side = Side([program, "perf", *line])
        check_sentence(side, 2, "--help")
    for seconds in ("0", "-1", "4294967296", "99999999999999999999", "1e9", "inf"):
        for option in (f"-D{seconds}", f"--timeout={seconds}"):
            check_sentence(Side([program, "perf", "write_bw", option]), 2, "--help")
    for per_second in ("0", "-1", "1e-9", "1e300", "inf", "nan"):
        check_sentence(Side([program, "perf", "write_bw", f"--rate_limit={per_second}"]), 2, "--help")
    # Options that contradict each other, or would be ignored: the message names one of them.
    for option, *line in (["-n", "write_bw", "-D", "2", "-n", "5"], ["--rate_units", "write_bw", "--rate_units", "M"],
                          ["--burst_size", "write_bw", "--burst_size", "8"], ["-A", "write_bw", "-A", "CMP_AND_SWAP"],
                          ["--immediate", "read_bw", "--immediate"], ["-o", "write_bw", "-o", "1"],
                          ["-r", "read_bw", "-r", "64"], ["-w", "write_lat", "-w", "1"], ["-y", "write_lat", "-y", "1"],
                          ["--use_cuda_dmabuf", "write_bw", "--use_cuda_dmabuf"],
                          ["--use_rocm_dmabuf", "write_bw", "--use_cuda", "0", "--use_rocm_dmabuf"],
                          ["--dmabuf no", "write_bw", "--use_cuda", "0", "--use_cuda_dmabuf", "--dmabuf", "no"],
                          ["--dmabuf", "write_bw", "127.0.0.1", "--dmabuf", "try"],
                          ["--dmabuf", "write_bw", "--memory", "host", "--dmabuf", "yes"],
                          ["--bind", "write_bw", "127.0.0.1", "--bind", "127.0.0.1"],
                          ["-I", "write_bw", "127.0.0.1", "--memory", "gaudi", "-I", "64"],
                          ["--use_hl", "write_bw", "--use_cuda", "0", "--use_hl", "0"],
                          ["host:0", "write_bw", "--memory", "host:0"]):
        side = Side([program, "perf", *line])
        check_sentence(side, 2, option, "--help")


def named_memory(program):
    """A side keeps its own choice, or refuses the run; the client's choice does not override it."""
    with Pair(program, "write_bw", ["--memory", "host"], server=["--use_cuda", 0]) as pair:
        check_sentence(pair.server, 2, "the client wants host here", "cuda:0")
        check_sentence(pair.client, 1, "the client wants host here")
    with Pair(program, "write_bw", ["--memory", "host,cuda", "-n", 50], server=["--memory", "cuda:0"]) as pair:
        check_run(pair, "write_bw")
        check(pair.server.result()["local"]["memory"] == "cuda", pair.server.text())


def refused(program):
    """An error that only one side can find is reported by both."""
    with Pair(program, "write_bw", ["-m", "4096", "-d", "emu1", "-n", 50]) as pair:
        check_run(pair, "write_bw")
    with Pair(program, "write_bw", ["-x", "200"]) as pair:
        check_sentence(pair.client, 2, "GID")
        check_sentence(pair.server, 1, "the client gave up", "GID")
    # Whichever side comes first finds it.
    with Pair(program, "write_bw", ["-t", "200000"]) as pair:
        for side in (pair.client, pair.server):
            check(side.finish(10) in (1, 2) and len(side.errors()) == 1 and "-t" in side.errors()[0], side.text())
    with Pair(program, "send_bw", ["-c", "UD", "-s", "5000"]) as pair:
        check(2 in pair.finish(10), pair.client.text(), pair.server.text())
    with Pair(program, "write_bw", ["--memory", "host,gaudi:9"]) as pair:
        check_sentence(pair.server, 3, "9")
        check_sentence(pair.client, 1, "the server gave up", "9")
    with Pair(program, "write_bw", ["--memory", "gaudi,host", "--dmabuf", "no"]) as pair:
        check_sentence(pair.client, 3, "leave out --dmabuf no")
        check_sentence(pair.server, 1, "the client gave up", "leave out --dmabuf no")
    side = Side([program, "perf", "write_bw", "-p", 0, "-d", "mlx5_7"])
    check_sentence(side, 3, "mlx5_7")


def lacking(program):
    """Below `--without`: emu1 has neither atomics nor dma-bufs. Whichever side uses it, both report that."""
    for test, options, part in (("atomic_bw", [], "no atomic operations"),
                                ("read_bw", ["--memory", "gaudi"], "ibv_reg_dmabuf_mr")):
        with Pair(program, test, ["-d", "emu1", *options], ["-d", "emu0"]) as pair:
            check_sentence(pair.client, 3, part, "emu1")
            check_sentence(pair.server, 1, "the client gave up", part)
        with Pair(program, test, ["-d", "emu0", *options], ["-d", "emu1"]) as pair:
            check_sentence(pair.server, 3, part, "emu1")
            check_sentence(pair.client, 1, "the server gave up", part)


def nobody(program):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        check_sentence(Side([program, "perf", "write_bw", "--bind", "127.0.0.1", "-p", port]), 1, "EADDRINUSE")
    check_sentence(Side([program, "perf", "write_bw", "127.0.0.1", "-p", port]), 1, "ECONNREFUSED",
                   "start `hbmwire perf` without HOST there first")


def versions(program):
    """Another version, another protocol, an unexpected message, or a port probe causes one message on either side, and the
    server waits for the next client."""
    other = b"hbmwire\n" + (3).to_bytes(2, "big") + bytes(6)
    bye = PREAMBLE + bytes.fromhex("00000000" "0009")  # no request, but a message of length 0 and kind 9, "bye"
    strangers = ((other, "another version"), (b"GET / HTTP/1.1\r\n\r\n", "another protocol"), (bye, "one version"),
                 (b"", "closed before its greeting"))
    with Pair(program, "write_bw", client=None) as pair:
        for payload, part in strangers:
            with socket.create_connection(("127.0.0.1", int(pair.port))) as stranger:
                stranger.sendall(payload)
                # A stranger that sends nothing is reported only after it has closed.
                if payload:
                    pair.server.wait_for(part)
            pair.server.wait_for(part)
        # Six connections stay open, but delay no client. Three have sent a part of a greeting, and three nothing.
        half_open = [socket.create_connection(("127.0.0.1", int(pair.port))) for _ in range(6)]
        for stranger, greeting in zip(half_open, (PREAMBLE[:9], PREAMBLE, PREAMBLE + b"\0\0\0")):
            stranger.sendall(greeting)
        start = time.monotonic()
        pair.start(program, "write_bw", ["-n", 50])
        check_run(pair, "write_bw")
        check(time.monotonic() - start < 4, "strangers kept the client waiting")
        check(len(pair.server.errors()) == len(strangers), pair.server.text())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = Side([program, "perf", "write_bw", "127.0.0.1", "-p", listener.getsockname()[1]])
        stranger, _ = listener.accept()
        with stranger:
            stranger.sendall(other)
            check_sentence(client, 1, "another version")


def gone(signal_number, *parts, tests=("write_bw", "send_bw", "write_lat", "send_lat", "read_bw"), after=0.5):
    """One side ends or hangs during the run: the other one ends within 10 s with a message."""
    def run(program):
        for test in tests:
            for victim_is_server in (True, False):
                with Pair(program, test, ["-D", "100", "-s", "4096"]) as pair:
                    victim, other = pair.server, pair.client
                    if not victim_is_server:
                        victim, other = other, victim
                    time.sleep(after)
                    check(other.handle.poll() is None, other.text())
                    os.kill(victim.handle.pid, signal_number)
                    start = time.monotonic()
                    code = other.finish(12)
                    check(code == 1 and len(other.errors()) == 1, f"{test}: {other} gave {code}", other.text())
                    check(time.monotonic() - start < 10, f"{test} took {time.monotonic() - start:.1f} s")
                    for part in parts:
                        check(part in other.errors()[0], other.errors())
                    if signal_number == signal.SIGINT:
                        check(victim.finish(10) == 130, victim.text())
    return run


def crowded(program):
    """Both sides and three busy programs share one CPU: rounds take many milliseconds, with few polls in each."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    spinning = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(3)]
    try:
        gone(signal.SIGINT, "gave up: interrupted", tests=("send_lat", "tag_lat"), after=1)(program)
    finally:
        for spinner in spinning:
            spinner.kill()
            spinner.wait()
        os.sched_setaffinity(0, allowed)


def wrong_byte(test):
    """Below `--faults flip,op=...,nth=1`: one bit flips in the first pass. Both sides name it, and show no figures."""
    def run(program):
        with Pair(program, test, ["--memory", "gaudi,gaudi:1", "-n", 100]) as pair:
            check_sentence(pair.client, 1, "verify", "slot at", "(1 of 65536 bytes")
            check_sentence(pair.server, 1, "verify", "slot at", "(1 of 65536 bytes")
            for side in (pair.client, pair.server):
                row = side.result()["rows"][0]
                check(row["verification"]["wrong_bytes"] == 1 and row["bandwidth"] is None, row)
    return run


def receive(stream, length):
    data = b""
    while len(data) < length:
        part = stream.recv(length - len(data))
        check(part, "the connection ended")
        data += part
    return data


def copy_all(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def between(program, pair, test, options):
    """A client that connects to the server through this test: the connections to both, and the server's message with its
    port, which was not passed on yet."""
    queues_type = 12  # PerfQueues: the GID comes first, the port last
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server_port, pair.port = pair.port, listener.getsockname()[1]
        pair.start(program, test, options)
        client, _ = listener.accept()
        with client, socket.create_connection(("127.0.0.1", int(server_port))) as server:
            threading.Thread(target=copy_all, args=(client, server), daemon=True).start()
            client.sendall(receive(server, len(PREAMBLE)))
            while True:
                header = receive(server, 6)
                length, kind = struct.unpack("!IH", header)
                frame = header + receive(server, length)
                if kind == queues_type:
                    break
                client.sendall(frame)
            yield client, server, frame


def other_request(program):
    """-R: a request of another program comes first. It is refused, and ends nothing."""
    with Pair(program, "write_bw", client=None) as pair, \
            between(program, pair, "write_bw", ["-R", "-q", 2, "-n", 50]) as (client, server, frame):
        # The header has 6 bytes; the GID's last 4 bytes are an IPv4 address.
        address, port = socket.inet_ntoa(frame[18:22]), struct.unpack("!H", frame[-2:])[0]
        stranger = subprocess.run(["rping", "-c", "-a", address, "-p", str(port), "-C", "1"], check=False,
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=10)
        check(b"REJECTED" in stranger.stderr + stranger.stdout, stranger)
        client.sendall(frame)
        threading.Thread(target=copy_all, args=(server, client), daemon=True).start()
        check_run(pair, "write_bw")


def leaves_early(program):
    """A client leaves while the server waits for its endpoints: the server notices long before --timeout."""
    for test in ("put_bw", "get_bw", "tag_bw"):
        with Pair(program, test, client=None, server=["--timeout", 60]) as pair, \
                between(program, pair, test, ["-n", 50]) as (_, server, _):
            server.shutdown(socket.SHUT_RDWR)
            check_sentence(pair.server, 1, "the peer closed the connection", seconds=5)


def addresses(program):
    """IPv6 works like IPv4, with each engine."""
    for test in ("write_bw", "put_bw", "get_bw", "tag_bw"):
        for place in ("::1", "[::1]:{}", "tcp://[::1]:{}"):
            with Pair(program, test, client=None, bind="::1") as pair:
                pair.start(program, test, ["-n", 50], place.format(pair.port))
                check_run(pair, test)


def files(program):
    """Files that cannot be written are found before the run; a failed run leaves no files."""
    with tempfile.TemporaryDirectory(prefix="hbmwire-perf-") as folder:
        for option in ("--out_json_file", "--plot"):
            for path, part in (("/dev/full", "No space left"), (f"{folder}/none/x", "none/x")):
                check_sentence(Side([program, "perf", "write_bw", "127.0.0.1", option, path]), 1, part)
            check_sentence(Side([program, "perf", "write_bw", "127.0.0.1", "-p", 1, option, f"{folder}/x"]), 1,
                           "ECONNREFUSED")
            check(os.listdir(folder) == [], os.listdir(folder))
        with open("/dev/full", "wb") as full:
            for line in (["write_bw", "-p", 0], ["write_bw", "127.0.0.1"], ["write_bw", "127.0.0.1", "--json"]):
                done = subprocess.run([program, "perf", *map(str, line)], stdin=subprocess.DEVNULL, stdout=full,
                                      stderr=subprocess.PIPE, text=True, timeout=10, check=False)
                check(done.returncode == 1 and "No space left" in done.stderr, line, done)


CASES = {"wrong_byte.write": wrong_byte("write_bw"), "wrong_byte.read": wrong_byte("read_bw"),
         "wrong_byte.send": wrong_byte("send_bw"), "options": options, "client_wins": client_wins, "sweep": sweep,
         "by_time": by_time, "rate": rate, "no_verify": no_verify, "wrong_flags": wrong_flags,
         "named_memory": named_memory, "refused": refused, "lacking": lacking, "nobody": nobody, "addresses": addresses,
         "files": files, "other_request": other_request, "leaves_early": leaves_early,
         "versions": versions, "killed": gone(signal.SIGKILL),
         "interrupted": gone(signal.SIGINT, "gave up: interrupted"), "crowded": crowded, "stopped": gone(signal.SIGSTOP)}
