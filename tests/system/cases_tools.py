# SPDX-License-Identifier: MIT
"""All subcommands: addresses, output that cannot be written, servers among strangers, and wrong command lines."""
import contextlib
import json
import os
import re
import socket
import subprocess

from harness import SERVER, Process, check, check_one_sentence, error_lines, raw_connection, world

HELP = (["--help"], ["--version"], ["server", "--help"], ["client", "-h"], ["perf", "--help"], ["info", "--help"],
        ["stat", "--help"], ["emulate", "--help"], ["doctor", "explain", "--help"], ["doctor", "explain"], ["doctor", "explain", "no_cuda"])
INFO = (["info"], ["info", "-d"], ["info", "-c"], ["info", "--json"], ["info", "-d", "-c", "--json"])
STAT = (["stat", "--prometheus"], ["stat", "0.1"], ["stat", "--json", "0.1"])
PREAMBLE = b"hbmwire\n" + (2).to_bytes(2, "big") + bytes(6)
WITHOUT_HARDWARE = {**os.environ, "SYSFS_PATH": "/nonexistent"}


def sentences(text):
    """The error lines, including those of the program itself."""
    return [line for line in text.splitlines() if line.startswith("hbmwire: ") or line.startswith("hbmwire ")]


def unwritable():
    """Standard outputs that cannot be written, with errno's text for each."""
    with open("/dev/full", "wb") as full:
        yield {"stdout": full}, "No space left on device"
    reader, writer = os.pipe()
    os.close(reader)
    try:
        yield {"stdout": writer}, "Broken pipe"
    finally:
        os.close(writer)
    # Closed: done by a shell, since subprocess would redirect it.
    yield None, "Bad file descriptor"


def check_refused(arguments, how, words, code=1):
    """Expects that it ends with `code` and one message that contains `words`."""
    arguments = [str(argument) for argument in arguments]
    if how is None:
        arguments, how = ["sh", "-c", 'exec "$@" >&-', "sh", *arguments], {"stdout": subprocess.DEVNULL}
    done = subprocess.run(arguments, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=30,
                          env=WITHOUT_HARDWARE, check=False, **how)
    lines = sentences(done.stderr)
    check(done.returncode == code, f"{arguments} gave {done.returncode}, not {code}", done.stderr)
    check(len(lines) == 1 and words in lines[0] and "standard output" in lines[0], arguments, done.stderr)


def unwritten(program):
    """Help, version, info and stat with output to a full disk, a pipe without a reader, and a closed descriptor: one message
    and exit code 1."""
    for how, words in unwritable():
        for line in (*HELP, *INFO, *STAT):
            check_refused([program, *line], how, words)


def before_work(program):
    """A tool that cannot print reports that before it opens anything or waits."""
    for how, words in unwritable():
        for line in (["server", "-p", "0"], ["server", "-p", "0", "--json"], ["client", "127.0.0.1"],
                     ["client", "127.0.0.1", "--json"]):
            check_refused([program, *line], how, words)


def nothing_to_print(program):
    """--quiet needs no standard output; and files opened later do not get its number."""
    with world(program) as w:
        shell = ("sh", "-c", 'exec "$@" >&-', "sh")
        server = w.server("-m", "host", "-s", "4096")
        client = w.emulated([*shell, program, "client", f"127.0.0.1:{server.port}", "-m", "host", "-s", "4096", "-q"],
                            "b")
        check(client.finish() == 0 and client.text == "", client.text)
        check(server.finish() == 0, server.text)


def lost_midway(program):
    """The reader of a server's output leaves: the client is served to the end, and the server's exit reports the lost output.
    """
    with world(program) as w:
        command = [program, "emulate", "--quiet", "--dir", w.base, "--fabric", w.fabric, "--name", "a", "--", program,
                   *SERVER, "-m", "host", "-s", "4096"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as server:
            waits = re.compile(r"connection on port (\d+)")
            port = next(match[1] for match in map(waits.search, server.stdout) if match)
            server.stdout.close()
            client = w.client(port, "-m", "host", "-s", "4096")
            check(client.finish() == 0, client.text)
            code, said = server.wait(20), error_lines(server.stderr.read())
            check(code == 1 and len(said) == 1 and "Broken pipe" in said[0], code, said)


def addresses(program):
    """HOST in all forms that users write, in each tool; messages and JSON print a form that can be used again."""
    with world(program) as w:
        server = w.emulated([program, "server", "-p", "0", "-m", "host", "-s", "4096", "--keep"], "a")
        port = server.wait_for(r"Waiting for client connection on port (\d+)")[1]
        for host, told in ((f"[::1]:{port}", f"[::1]:{port}"), (f"tcp://[::1]:{port}/", f"[::1]:{port}"),
                           (f"localhost:{port}", f"localhost:{port}"),
                           (f"tcp://127.0.0.1:{port}", f"127.0.0.1:{port}")):
            client = w.emulated([program, "client", host, "-m", "host", "-s", "4096", "--json"], "b")
            check(client.finish() == 0, host, client.text)
            check(json.loads(client.text)["server"] == told, client.text)
        client = w.emulated([program, "client", "::1", "-p", port, "-m", "host", "-s", "4096"], "b")
        check(client.finish() == 0 and f"Server: [::1]:{port}" in client.text, client.text)
        check(server.stop() == 0 and "[::1]:" in server.text, server.text)
        # An address to listen on, with and without a port.
        for bind, options in (("[::1]", ("-p", "0")), ("tcp://127.0.0.1", ("-p", "0"))):
            server = w.emulated([program, "server", *options, "--bind", bind, "-m", "host", "-s", "4096"], "a")
            port = server.wait_for(r"Waiting for client connection on port (\d+)")[1]
            client = w.emulated([program, "client", "::1" if ":1]" in bind else "127.0.0.1", "-p", port, "-m", "host",
                                 "-s", "4096"], "b")
            check(client.finish() == 0 and server.finish() == 0, client.text, server.text)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            server = w.emulated([program, "server", "--bind", f"127.0.0.1:{port}", "-m", "host"], "a")
            check_one_sentence(server, 1, f"127.0.0.1:{port}", "EADDRINUSE")
    # The error is found without any hardware.
    for command in (["client"], ["perf", "write_bw"]):
        for host, part in (("node2:70000", "a port is a number from 1 to 65535"), ("[::1", "[IPV6]:PORT"),
                           ("http://node2", "tcp://"), ("a:b:c", "no IPv6 address"), ("tcp://node2/x", "no path")):
            check_one_sentence(Process([program, *command, host], env=WITHOUT_HARDWARE), 2, host, part)
        check_one_sentence(Process([program, *command, "node2:7000", "-p", "7001"], env=WITHOUT_HARDWARE), 2, "7000",
                           "7001", "give one of them")


def no_such_interface(program):
    with world(program) as w:
        for command in (["client"], ["perf", "write_bw"]):
            process = w.emulated([program, *command, "fe80::1%nosuch0"], "b")
            check_one_sentence(process, 1, "fe80::1%nosuch0", "no interface has the name", "ip address")


LINK_LOCAL = """
set -eu
ip link set lo up
ip -6 address add fe80::1/64 dev lo nodad
emulate() {
  name=$1
  shift
  "$program" emulate --quiet --dir "$folder" --fabric f --name "$name" -- "$program" "$@"
}
emulate a $server --bind '[fe80::1%lo]' $options >"$folder.out" &
until grep -q Waiting "$folder.out"; do kill -0 $!; sleep 0.05; done
emulate b $client 'fe80::1%lo' $options
wait $!
! emulate b $client 'tcp://[fe80::1]' $options
"""


def link_local(program):
    """An address with its interface works, even for the endpoints of put_bw; without the interface, the message has the
    remedy."""
    for server, client, options in (("server", "client", "-m host -s 4096"), ("perf put_bw", "perf put_bw", "-n 50")):
        with world(program) as w:
            process = w.run(["unshare", "--map-root-user", "--net", "sh", "-c", LINK_LOCAL],
                            env={**os.environ, "program": program, "folder": str(w.base), "server": server,
                                 "client": client, "options": options})
            check(process.finish() == 0, process.text)
            said = error_lines(process.text)
            check(len(said) == 1 and "needs the interface" in said[0] and "[fe80::1]:" in said[0], process.text)


def misspelt(program):
    """Suggests the nearest command or option, and prints ranges in plain language; with --json also in an object."""
    for line, part in ((["servr"], "did you mean server?"), (["--jsn"], "an option follows its command"),
                       (["server", "--kep"], "--kep: unknown option; did you mean --keep?"),
                       (["client", "h", "--jsn"], "--jsn: unknown option; did you mean --json?"),
                       (["client", "--fle", "x"], "--fle: unknown option; did you mean --file?"),
                       (["perf", "write_bw", "--itres", "7"], "did you mean --iters?"),
                       (["perf", "write_bww"], "did you mean write_bw?"),
                       (["perf", "write_bw", "--out_jsn"], "did you mean --out_json?"),
                       (["info", "--device"], "did you mean --devices?"),
                       (["server", "-p", "70000"], "-p 70000: a port is 1 to 65535"),
                       (["perf", "write_bw", "-p", "70000"], "-p 70000: a port is 1 to 65535"),
                       (["client", "h", "-p", "0"], "-p 0: a client needs"),
                       (["perf", "write_bw", "h", "-p", "0"], "-p 0: a client needs"),
                       (["perf", "write_bw", "-q", "0"], "-q 0: give a number from 1 to "),
                       (["perf", "write_bw", "-c", "XX"], "-c XX: give RC, UC or UD"),
                       (["perf", "write_bw", "-w", "-1"], "-w -1: give a number above 0"),
                       (["perf", "write_bw", "-s"], "-s needs a value"), (["perf"], "TEST is missing")):
        process = Process([program, *line], env=WITHOUT_HARDWARE)
        check(process.finish(10) == 2, line, process.text)
        said = sentences(process.text)
        check(len(said) == 1 and part in said[0] and "--help" in said[0], line, process.text)
        done = subprocess.run([program, line[0], "--json", *line[1:]], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=10, env=WITHOUT_HARDWARE, check=False)
        report = json.loads(done.stdout)
        check(done.returncode == 2 and report["exit_code"] == 2 and report["error"] in done.stderr, line, done.stdout,
              done.stderr)
    for line, part in ((["--nisc", "2", "--", "true"], "--nisc: unknown option; did you mean --nics?"),
                       (["true"], 'true: COMMAND follows "--"'),
                       (["--nics", "2", "ibv_devinfo", "-v"], "hbmwire emulate -- ibv_devinfo -v"),
                       (["--nics", "99", "--", "true"], "--nics 99: give a number from 0 to "),
                       (["--gaudi-kind", "gaudi4", "--", "true"], "--gaudi-kind gaudi4: give one of gaudi, gaudi2"),
                       (["--nics"], "--nics needs a value")):
        check_one_sentence(Process([program, "emulate", *line]), 2, part)


def half_open(program):
    """Connections that send nothing, or less than a greeting, delay no client; probes end nothing."""
    with world(program) as w:
        server = w.server("-m", "host", "-s", "4096")
        strangers = [raw_connection(server.port) for _ in range(8)]
        for stranger, greeting in zip(strangers, (b"h", PREAMBLE[:9], PREAMBLE, PREAMBLE + b"\0\0\0")):
            stranger.sendall(greeting)
        raw_connection(server.port).close()
        client = w.client(server.port, "-m", "host", "-s", "4096")
        check(client.finish(5) == 0 and server.finish() == 0, client.text, server.text)
        for stranger in strangers:
            with contextlib.suppress(OSError):
                stranger.close()


def other_tool(program):
    """A client that calls the other kind of server: both name the right program, and the server continues."""
    with world(program) as w:
        server = w.server("-m", "host", "-s", "4096")
        perf = w.emulated([program, "perf", "write_bw", f"127.0.0.1:{server.port}"], "b")
        check_one_sentence(perf, 1, "start `hbmwire perf` without HOST as its server")
        server.wait_for("`hbmwire perf` called `hbmwire server`")
        client = w.client(server.port, "-m", "host", "-s", "4096")
        check(client.finish() == 0 and server.finish() == 0, client.text, server.text)
        # And in the opposite direction.
        server = w.emulated([program, "perf", "write_bw", "-p", "0", "--bind", "127.0.0.1"], "a")
        port = server.wait_for(r"Waiting for client connection on port (\d+)")[1]
        check_one_sentence(w.client(port, "-m", "host"), 1, "start `hbmwire server` as its server")
        perf = w.emulated([program, "perf", "write_bw", "127.0.0.1", "-p", port, "-n", "50"], "b")
        check(perf.finish() == 0 and server.finish() == 0, perf.text, server.text)


CASES = {
    "output.unwritten": unwritten,
    "output.before_work": before_work,
    "output.lost_midway": lost_midway,
    "output.nothing_to_print": nothing_to_print,
    "address.forms": addresses,
    "address.no_such_interface": no_such_interface,
    "address.link_local": link_local,
    "line.misspelt": misspelt,
    "server.half_open": half_open,
    "server.other_tool": other_tool,
}
