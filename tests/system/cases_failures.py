# SPDX-License-Identifier: MIT
"""Bad input, missing hardware, dead and foreign peers: each causes one message and an exit code, in time, and leaves nothing
behind."""
import contextlib
import json
import os
import random
import signal
import socket
import time

from harness import SERVER, Process, check, check_one_sentence, error_lines, raw_connection, world

PREAMBLE = b"hbmwire\n" + (2).to_bytes(2, "big") + bytes(6)


def no_hardware(program):
    """Outside an emulated world: names the missing things and the remedies."""
    for arguments, parts in (
            ([*SERVER, "-m", "gaudi"], ["libhl-thunk.so", "hbmwire emulate", "--memory host"]),
            ([*SERVER, "-m", "host"], ["no RDMA device found", "hbmwire emulate"]),
            (["client", "127.0.0.1", "-m", "host"], ["no RDMA device found", "hbmwire emulate"])):
        environment = {**os.environ, "SYSFS_PATH": "/nonexistent"}
        check_one_sentence(Process([program, *arguments], env=environment), 3, *parts)


def no_gaudi(program):
    """-m gaudi never falls back; auto does, and gives the reason."""
    with world(program) as w:
        options = {"emulate": ("--gaudi", "0")}
        server = w.emulated([program, *SERVER, "-m", "gaudi"], "a", **options)
        check_one_sentence(server, 3, "no Gaudi card found", "hbmwire emulate", "--memory host")
        server = w.server("-m", "auto", **options)
        check("no Gaudi card found" in server.text and "host" in server.text, server.text)
        client = w.client(server.port, "-m", "auto")
        check(client.finish() == 0 and server.finish() == 0, client.text, server.text)
        check("Zero-copy" in client.text and "Zero-copy" not in server.text, client.text, server.text)
        # The JSON contains the same as the text.
        server = w.server("-m", "auto", "--json", **options)
        check(w.client(server.port, "-m", "auto").finish() == 0 and server.finish() == 0, server.text)
        not_used = json.loads(server.text[server.text.index("{"):])["memory"]["not_used"]
        check([each["type"] for each in not_used] == ["gaudi", "cuda", "rocm"], not_used)
        check("no Gaudi card found" in not_used[0]["reason"], not_used)


def no_nic(program):
    with world(program) as w:
        for command in (SERVER, ["client", "127.0.0.1"]):
            process = w.emulated([program, *command, "-m", "gaudi"], "a", emulate=("--nics", "0"))
            check_one_sentence(process, 3, "no RDMA device found")


def card_busy(program):
    """A card has one owner: the second program names the owner."""
    with world(program) as w:
        server = w.server("-m", "gaudi", "--keep", name="n")
        client = w.client(server.port, "-m", "gaudi", name="n")
        check_one_sentence(client, 3, "another process owns the card")
        server.stop()


def arguments(program):
    """Wrong command lines are usage errors, found before anything is opened."""
    for line in (["server", "-s", "0"], ["server", "-s", "4Q"], ["server", "-s", "-1"], ["client"], ["nonsense"],
                 ["server", "-m", "gold"], ["client", "h", "-n", "0"], ["server", "-p", "70000"], ["server", "--what"]):
        process = Process([program, *line])
        check(process.finish(5) == 2, f"{process} gave {process.handle.returncode}", process.text)
        check(len(process.text) > 10, process.text)
    for seconds in ("0", "-1", "4294967296", "99999999999999999999", "1e9", "inf"):
        process = Process([program, "server", f"--timeout={seconds}"])
        check(process.finish(5) == 2 and "timeout" in process.text, seconds, process.text)
    # Options that contradict each other, or would be ignored: the message names one of them.
    for named, *line in (["--card 0", "server", "-m", "host", "--card", "0"],
                         ["--owner", "server", "-m", "cuda", "--owner", "synapse"],
                         ["--owner", "client", "h", "-m", "host", "--owner", "hl-thunk"],
                         ["-n", "client", "h", "--file", "/etc/hostname", "-n", "4"], ["-q", "server", "--json", "-q"]):
        process = Process([program, *line])
        check(process.finish(5) == 2 and named in process.text and "leave" in process.text, process.text)
    with world(program) as w:
        # A named card must be usable, even if the type of memory is left open.
        server = w.emulated([program, *SERVER, "--card", "9"], "a")
        check_one_sentence(server, 3, "--card 9 can't be used", "no Gaudi card of this name")
        server = w.emulated([program, *SERVER, "-m", "host", "-d", "mlx5_7"], "a")
        check_one_sentence(server, 3, "mlx5_7", "ibv_devices")
        server = w.emulated([program, *SERVER, "-m", "gaudi", "--card", "9"], "a")
        check_one_sentence(server, 3, "9", "no Gaudi card of this name")
    for line in (["--help"], ["--version"], ["server", "--help"], ["client", "-h"], ["emulate", "--help"]):
        check(Process([program, *line]).finish(5) == 0, line)


def port_in_use(program):
    with world(program) as w, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = w.emulated([program, "server", "-m", "host", "--bind", "127.0.0.1", "-p", port], "a")
        check_one_sentence(server, 1, str(port), "EADDRINUSE", "-p")


def nobody_listens(program):
    with world(program) as w:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        check_one_sentence(w.client(port, "-m", "host"), 1, "ECONNREFUSED", "start `hbmwire server` there first")


def unreachable(program):
    """A host without a route, and an unknown name. Runs in its own network namespace, so that no packet leaves the machine."""
    with world(program) as w:
        prefix = ("unshare", "--map-root-user", "--net")
        for host, part in (("192.0.2.1", "ENETUNREACH"), ("no-such-host.invalid", "host's name")):
            client = w.emulated([program, "client", host, "-m", "host"], "b", prefix=prefix)
            check_one_sentence(client, 1, host, part)


def sizes_differ(program):
    with world(program) as w:
        server = w.server("-m", "host", "-s", "8192")
        client = w.client(server.port, "-m", "host", "-s", "4096")
        check_one_sentence(client, 1, "4096", "8192", "-s")
        line = server.wait_for(r"hbmwire server: .*")[0]
        check("4096" in line and "8192" in line, line)
        # A failed client does not end the server; the next one is served.
        client = w.client(server.port, "-m", "host", "-s", "8192")
        check(client.finish() == 0 and server.finish() == 0, client.text, server.text)


def too_large(program):
    with world(program) as w:
        for owner in ("synapse", "hl-thunk"):
            server = w.emulated([program, *SERVER, "-m", "gaudi", "--owner", owner, "-s", "96G"], "a")
            check_one_sentence(server, 1, "gaudi2", "smaller -s")


def foreign(*payloads):
    """Strangers send anything: the server reports it, continues, and serves the next client."""
    def run(program):
        with world(program) as w:
            server = w.server("-m", "host", "-s", "4096")
            for count, payload in enumerate(payloads, start=1):
                with raw_connection(server.port) as stranger:
                    stranger.sendall(payload)
                    # The server may already have closed its end.
                    with contextlib.suppress(OSError):
                        stranger.shutdown(socket.SHUT_WR)
                        while stranger.recv(4096):
                            pass
                server.wait_for(rf"(?:hbmwire server: [^\n]*\n[^\0]*){{{count}}}")
            client = w.client(server.port, "-m", "host", "-s", "4096")
            check(client.finish() == 0 and server.finish() == 0, client.text, server.text)
            check(len(error_lines(server.text)) == len(payloads), server.text)
    return run


def foreign_server(program):
    """A server that meets two other protocols, and a client that meets one."""
    foreign(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n")(program)
    with world(program) as w, socket.create_server(("127.0.0.1", 0)) as listener:
        client = w.client(listener.getsockname()[1], "-m", "host")
        stranger, _ = listener.accept()
        with stranger:
            stranger.sendall(b"220 mail.example ESMTP ready\r\n")
            check_one_sentence(client, 1, "another protocol", "host and port")


def other_version(program):
    other = b"hbmwire\n" + (3).to_bytes(2, "big") + bytes(6)
    foreign(other)(program)
    with world(program) as w, socket.create_server(("127.0.0.1", 0)) as listener:
        client = w.client(listener.getsockname()[1], "-m", "host")
        stranger, _ = listener.accept()
        with stranger:
            stranger.sendall(other)
            check_one_sentence(client, 1, "another version", "version 3 there, 2 here", "same hbmwire")


def random_bytes(program):
    rng = random.Random(7)
    payloads = [rng.randbytes(rng.randrange(1, 5000)) for _ in range(5)]
    # After the preamble: random frames, frames whose length or contents are wrong, and a preamble that is cut off.
    payloads += [PREAMBLE + rng.randbytes(rng.randrange(1, 300)) for _ in range(5)]
    payloads += [PREAMBLE + b"\xff\xff\xff\xff\0\1", PREAMBLE + b"\0\0\0\4\0\1abcd", PREAMBLE[:9]]
    foreign(*payloads)(program)


def silent(program):
    """Strangers that connect and send nothing delay no client."""
    with world(program) as w:
        server = w.server("-m", "host", "-s", "4096")
        strangers = [raw_connection(server.port) for _ in range(20)]
        client = w.client(server.port, "-m", "host", "-s", "4096")
        check(client.finish(10) == 0 and server.finish() == 0, client.text, server.text)
        for stranger in strangers:
            stranger.close()


def kill_at(w, rng, victim_is_server, memory, size="16M", options=()):
    """Kills one side at a random moment. The other one ends in time with one message."""
    server = w.server("-m", memory, "-s", size, "-n", "200", "--keep", *options)
    client = w.client(server.port, "-m", memory, "-s", size, "-n", "200", *options)
    server.wait_for("Client connected")
    time.sleep(rng.random() * 0.5)
    victim, survivor = (server, client) if victim_is_server else (client, server)
    victim.signal(signal.SIGKILL)
    killed = time.monotonic()
    if victim_is_server:
        check(survivor.finish(10) == 1, survivor.text)
    else:
        survivor.wait_for(r"hbmwire server: .*\n", seconds=10)
        check(survivor.handle.poll() is None, "a dead client ended a server with --keep", survivor.text)
        check(time.monotonic() - killed < 10, "took too long")
        survivor.stop()
    check(len(error_lines(survivor.text)) == 1, survivor.text)
    victim.finish(10)


def killed(program):
    rng = random.Random(11)
    for round_number in range(6):
        with world(program) as w:
            kill_at(w, rng, round_number % 2 == 0, "gaudi" if round_number < 4 else "host")


def stopped(program):
    """A peer that hangs is given up after --timeout."""
    with world(program) as w:
        server = w.server("-m", "host", "-s", "16M", "-n", "1000")
        client = w.client(server.port, "-m", "host", "-s", "16M", "-n", "1000", "--timeout", "2")
        client.wait_for("Iteration 2")
        server.signal(signal.SIGSTOP)
        check_one_sentence(client, 1, "--timeout")
        server.signal(signal.SIGKILL)
        server.finish(10)


def interrupted(program):
    """Ctrl-C ends either side cleanly, and the other side gets the reason."""
    for which in ("server", "client"):
        with world(program) as w:
            server = w.server("-m", "gaudi", "-s", "16M", "-n", "1000")
            client = w.client(server.port, "-m", "gaudi", "-s", "16M", "-n", "1000")
            client.wait_for("Iteration 2")
            target, other = (server, client) if which == "server" else (client, server)
            target.signal(signal.SIGINT)
            check(target.finish(10) == 130, target.text)  # 128 + SIGINT
            if which == "server":
                check_one_sentence(other, 1, "interrupted")
            else:
                other.wait_for("interrupted", seconds=10)
                other.stop()


def keeps_on(program):
    """--keep serves one client after another, good and bad."""
    with world(program) as w:
        server = w.server("-m", "gaudi", "--keep", "-s", "4096")
        for memory in ("gaudi", "host", "gaudi"):
            client = w.client(server.port, "-m", memory, "-s", "4096")
            check(client.finish() == 0, client.text)
            with raw_connection(server.port) as stranger:
                stranger.sendall(b"hello?")
        # 143: 128 + SIGTERM
        check(server.stop() in (0, 143), server.text)


CASES = {
    "hardware.none": no_hardware,
    "hardware.no_gaudi": no_gaudi,
    "hardware.no_nic": no_nic,
    "hardware.card_busy": card_busy,
    "input.arguments": arguments,
    "input.port_in_use": port_in_use,
    "input.nobody_listens": nobody_listens,
    "input.unreachable": unreachable,
    "input.sizes_differ": sizes_differ,
    "input.too_large": too_large,
    "peer.foreign_protocol": foreign_server,
    "peer.other_version": other_version,
    "peer.random_bytes": random_bytes,
    "peer.silent": silent,
    "peer.killed": killed,
    "peer.stopped": stopped,
    "peer.interrupted": interrupted,
    "server.keeps_on": keeps_on,
}
