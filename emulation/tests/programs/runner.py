# SPDX-License-Identifier: MIT
"""Runs one row of the table, with both sides below `hbmwire emulate`.

The sides are two nodes of one fabric, or one node.
"""
import contextlib
import functools
import os
import pathlib
import re
import shlex
import signal
import time

import meeting
import networks
from contents import CHECKS
from harness import Failure, check, world

# Programs with a sanitizer are slower, and more so on a loaded machine.
SANITIZER_PATIENCE = 4
REPORTS = re.compile(r"AddressSanitizer|ThreadSanitizer|LeakSanitizer|runtime error:|DEADLYSIGNAL")


@functools.cache
def sanitizers(program):
    """The sanitizer libraries that the plugin is linked to.

    A program without a sanitizer must load them first.
    """
    plugin = pathlib.Path(program).resolve().parents[2] / "lib" / "hbmwire" / "emulation" / "libhbmwire_nic.so"
    found = re.findall(rb"lib(?:asan|ubsan|tsan)\.so\.\d+", plugin.read_bytes())
    return sorted({name.decode() for name in found})


def sanitizer_settings(libraries):
    if not libraries:
        return []
    # Debian's programs leak at exit, some by design. Leaks of the plugin are found by its own tests.
    # A report ends the program at once with an exit code that none of them uses.
    asan = "detect_leaks=0:verify_asan_link_order=0:handle_segv=1:abort_on_error=0:exitcode=99"
    return [f"LD_PRELOAD={':'.join(libraries)}", f"ASAN_OPTIONS={asan}",
            "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:exitcode=99",
            "TSAN_OPTIONS=halt_on_error=1:exitcode=99"]


class Run:
    """A row in its own world."""

    def __init__(self, row, w):
        self.row = row
        self.world = w
        self.libraries = sanitizers(w.program)
        self.patience = SANITIZER_PATIENCE if self.libraries else 1
        self.deadline = time.monotonic() + row.timeout * self.patience
        # Both ends of a pseudo-terminal, which never has any input.
        self.terminal = os.openpty() if row.terminal else ()

    def left(self):
        return max(0.1, self.deadline - time.monotonic())

    def start(self, side, name, places, prefix):
        settings = [f"{key}={value}" for key, value in self.row.environment.items()]
        settings += sanitizer_settings(self.libraries)
        wrapper = ["/usr/bin/env", *settings] if settings else []
        options = {"stdin": self.terminal[1]} if self.terminal else {}
        return self.world.emulated([*wrapper, *side.command(**places)], name, shlex.split(self.row.emulate), prefix,
                                   **options)

    def close(self):
        for descriptor in self.terminal:
            os.close(descriptor)

    def wait(self, processes):
        """Waits until all have ended. After one has failed, the others get only 2 s more."""
        while any(process.handle.poll() is None for process in processes):
            if any(process.handle.poll() not in (None, 0) for process in processes):
                self.deadline = min(self.deadline, time.monotonic() + 2)
            if time.monotonic() > self.deadline:
                break
            time.sleep(0.005)

    def judge(self, process, side, code=0):
        try:
            got = process.finish(0.1)
        except Failure:
            got = "no end"
        check(not REPORTS.search(process.text), f"a sanitizer's report in {process}", process.text)
        check(got == code, f"{process}\ngave {got}, not {code}:", process.text)
        for pattern in side.expect:
            check(re.search(pattern, process.text), f"no /{pattern}/ in the output of {process}", process.text)

    def alone(self):
        """Runs a program without a peer. One that never ends by itself gets a signal."""
        row = self.row
        process = self.start(row.client, "a", networks.places(row), [])
        code = 0
        if row.server_ended_by:
            program = row.client.command(**networks.places(row))[0]
            pid = meeting.wait_until_ready(process, program, "sleeps", 0, self.left())
            for link in row.links:
                self.change(link)
            # The output shows that the program has noticed the changes.
            for pattern in row.client.expect:
                process.wait_for(pattern, self.left())
            os.kill(pid, getattr(signal, row.server_ended_by))
            code = 128 + getattr(signal, row.server_ended_by)
        self.wait([process])
        self.judge(process, row.client, code)

    def change(self, link):
        """Takes the link of node a's NIC down or up."""
        w = self.world
        changer = w.run([w.program, "--dir", w.base, "--fabric", w.fabric, "--name", "a", "--link", link])
        check(changer.finish(self.left()) == 0, f"--link {link} failed", changer.text)

    def pair(self, network):
        row = self.row
        with contextlib.ExitStack() as stack:
            port = stack.enter_context(meeting.port())
            checks = [stack.enter_context(contextlib.closing(CHECKS[name]())) for name in row.checks]
            places = {side: networks.places(row) | {"port": port} for side in ("server", "client")}
            for one in checks:
                for side, found in places.items():
                    found.update(one.places(side))
            server_command = row.server.command(**places["server"])
            server = self.start(row.server, "a", places["server"], network.prefix("a"))
            pid = meeting.wait_until_ready(server, server_command[0], row.meet, port, self.left())
            client = self.start(row.client, "a" if row.one_node else "b", places["client"], network.prefix("b"))
            code = 0
            if row.server_ended_by:
                self.wait([client])
                if client.handle.poll() == 0:
                    os.kill(pid, getattr(signal, row.server_ended_by))
                    code = 128 + getattr(signal, row.server_ended_by)
            self.wait([client, server])
            try:
                self.judge(client, row.client)
                self.judge(server, row.server, code)
                for one in checks:
                    one.check(row, server, client)
            except Failure as failure:
                raise Failure(f"{failure}\n--- server: {server.handle.poll()}\n{server.text}"
                              f"--- client: {client.handle.poll()}\n{client.text}") from None


def run(row, program):
    """Runs a row. Raises Failure if its result is not as in the table."""
    with world(program) as w, networks.made(row) as network:
        one = Run(row, w)
        try:
            if row.server is None:
                one.alone()
            else:
                one.pair(network)
        finally:
            one.close()
            # If they stayed, another user could not open them in the next run.
            for name in row.leaves:
                pathlib.Path(name).unlink(missing_ok=True)
