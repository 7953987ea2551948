# SPDX-License-Identifier: MIT
"""Networks with real addresses for one row, in namespaces that end with the run."""
import contextlib
import os
import subprocess
import sys

LOOPBACK = {"address": "127.0.0.1", "address6": "::1", "client_address": "127.0.0.1", "client_address6": "::1"}
# From the blocks for documentation (RFC 5737, RFC 3849): no machine has these addresses.
REAL = {"address": "192.0.2.1", "address6": "2001:db8::1", "client_address": "192.0.2.2",
        "client_address6": "2001:db8::2"}


def places(row):
    """The values of {address} and the like in the arguments of both sides."""
    return dict(REAL if row.network else LOOPBACK)


def reexecuted(row, program):
    """Runs the row again in a new network namespace; for an ordinary user also in a user namespace."""
    user = [] if os.geteuid() == 0 else ["-U", "-r"]
    return subprocess.run(["unshare", *user, "-n", sys.executable, "-B", sys.argv[0], "--program", program, "--inside",
                           row.name], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)


def ip(*arguments, namespace=()):
    subprocess.run([*namespace, "ip", *arguments], check=True, stdin=subprocess.DEVNULL)


def configure(link, number, namespace=()):
    ip("link", "set", "lo", "up", namespace=namespace)
    ip("address", "add", f"192.0.2.{number}/24", "dev", link, namespace=namespace)
    ip("address", "add", f"2001:db8::{number}/64", "dev", link, "nodad", namespace=namespace)
    ip("link", "set", link, "up", namespace=namespace)


class Network:
    """Where the programs of both nodes run. `peer`: a process in the network namespace of node `b`, or None."""

    def __init__(self, peer=None):
        self._peer = peer

    def prefix(self, node):
        """The words in front of a command of node `a` or `b`."""
        if self._peer is None or node == "a":
            return []
        return ["nsenter", f"--net=/proc/{self._peer}/ns/net"]


@contextlib.contextmanager
def made(row):
    """The row's network.

    "one": this namespace gets both addresses. "two": each node has a namespace of its own.
    """
    if not row.network:
        yield Network()
        return
    ip("link", "add", "veth0", "type", "veth", "peer", "name", "veth1")
    if row.network == "one":
        configure("veth0", 1)
        configure("veth1", 2)
        yield Network()
        return
    # The holder of the second namespace prints a line when it is in there.
    with subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec sleep infinity"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE) as holder:
        try:
            holder.stdout.readline()
            ip("link", "set", "veth1", "netns", str(holder.pid))
            configure("veth0", 1)
            configure("veth1", 2, ["nsenter", f"--net=/proc/{holder.pid}/ns/net"])
            yield Network(holder.pid)
        finally:
            holder.kill()
