# SPDX-License-Identifier: MIT
"""Runs programs on emulated hardware, and checks their output and the resources that they leave behind.

The tests of the product and of the emulation use it.
"""
import contextlib
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time


# Options for every `hbmwire emulate`, besides a case's own. They are in the environment, so that they reach programs that a
# test starts again.
EMULATE = "HBMWIRE_TEST_EMULATE"


# A free port: tests run in parallel, and only one of them could have the default port.
SERVER = ("server", "-p", "0", "--bind", "127.0.0.1")


def emulate_command(program):
    """The command that starts emulated hardware: `hbmwire emulate`, or the program behind it if that is tested."""
    return [program] if pathlib.Path(program).name == "emulate" else [program, "emulate"]


def every_emulate():
    return shlex.split(os.environ.get(EMULATE, ""))


class Failure(AssertionError):
    pass


class Skipped(Exception):
    """A case that this machine cannot run, with the reason."""


def only_root():
    if os.geteuid() != 0:
        raise Skipped("only root may mount, and make cgroups")


def check(condition, *what):
    if not condition:
        raise Failure("\n".join(str(part) for part in what))


class Process:
    """A program whose output, including standard error, is collected while it runs."""

    def __init__(self, arguments, **options):
        self.arguments = [str(argument) for argument in arguments]
        self.text = ""
        # In its own process group, so that a case can end all of it, and nothing else.
        options.setdefault("stdin", subprocess.DEVNULL)
        self.handle = subprocess.Popen(self.arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       start_new_session=True, **options)
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.handle.stdout:
            with self._changed:
                self.text += line.decode(errors="replace")
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, pattern, seconds=20):
        """Waits for `pattern` in the output, and returns the match."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while True:
                match = re.search(pattern, self.text)
                if match:
                    return match
                left = deadline - time.monotonic()
                check(left > 0 and (self._reader.is_alive() or self.handle.poll() is None),
                      f"no /{pattern}/ in the output of {self}", self.text)
                self._changed.wait(min(left, 0.1))

    def finish(self, seconds=60):
        """Waits until the program has ended and all of its output has arrived. Returns the exit code."""
        try:
            code = self.handle.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self} did not end within {seconds} s\n{self.text}") from None
        self._reader.join(10)
        check(not self._reader.is_alive(), f"{self} left a process that holds its output", self.text)
        return code

    def tool_pid(self):
        """The process id of the server or client below `hbmwire emulate`."""
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                # The arguments of `emulate` itself contain its command, too, but further back.
                if len(words) > 1 and words[1] in (b"server", b"client", b"perf") and \
                        os.getsid(int(entry.name)) == self.handle.pid:
                    return int(entry.name)
        raise Failure(f"no tool below {self}\n{self.text}")

    def signal(self, number):
        os.kill(self.tool_pid(), number)

    def stop(self, seconds=10):
        """Ends a server that would continue; returns its exit code."""
        self.signal(signal.SIGTERM)
        return self.finish(seconds)

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.handle.pid, signal.SIGKILL)
        self.handle.wait()

    def __str__(self):
        return " ".join(self.arguments)


class World:
    """One fabric, a folder for its files, and every process that a case starts."""

    def __init__(self, program):
        self.program = program
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hbmwire-system-"))
        self.base = self.folder / "world"
        self.base.mkdir(mode=0o700)
        self.fabric = "system"
        self.processes = []

    def run(self, arguments, **options):
        process = Process(arguments, **options)
        self.processes.append(process)
        return process

    def emulated(self, arguments, name, emulate=(), prefix=(), **options):
        return self.run([*prefix, *emulate_command(self.program), "--quiet", "--dir", self.base, "--fabric", self.fabric,
                         "--name", name, *every_emulate(), *emulate, "--", *arguments], **options)

    def server(self, *arguments, emulate=(), prefix=(), name="a", **options):
        """Starts a server that listens; `.port` is its port."""
        process = self.emulated([self.program, *SERVER, *arguments], name, emulate, prefix, **options)
        process.port = int(process.wait_for(r"Waiting for client connection on port (\d+)")[1])
        return process

    def client(self, port, *arguments, emulate=(), prefix=(), name="b", **options):
        return self.emulated([self.program, "client", "127.0.0.1", "-p", port, *arguments], name, emulate, prefix,
                             **options)

    def close(self):
        for process in self.processes:
            process.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def check_clean(self):
        """Checks that nothing is left behind: no folder of the emulated world, no mount, no process."""
        deadline = time.monotonic() + 5
        while True:
            left = self._files()
            mounts = [line for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
                      if str(self.folder) in line]
            processes = self._processes()
            if not left and not mounts and not processes:
                return
            check(time.monotonic() < deadline, "left behind:", *left[:10], *mounts, *processes)
            time.sleep(0.05)

    def _files(self):
        try:
            return [str(path) for path in self.base.rglob("*")]
        except FileNotFoundError as gone:  # it is being removed at this moment
            return [str(gone)]

    def _processes(self):
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if str(self.base) in command:
                    found.append(f"{entry.name}: {command}")
        return found


@contextlib.contextmanager
def world(program):
    made = World(program)
    try:
        yield made
        made.check_clean()
    finally:
        made.close()


def error_lines(text):
    return [line for line in text.splitlines() if line.startswith("hbmwire ")]


def check_one_sentence(process, code, *parts, seconds=10):
    """Expects that the process ends in time with `code`, and gives the reason in one line that contains every part."""
    started = time.monotonic()
    got = process.finish(seconds)
    check(got == code, f"{process} gave {got}, not {code}", process.text)
    lines = error_lines(process.text)
    check(len(lines) == 1, f"{process} gave {len(lines)} error lines after {time.monotonic() - started:.1f} s",
          process.text)
    for part in parts:
        check(part in lines[0], f"no '{part}' in the error of {process}", lines[0])


def raw_connection(port):
    return socket.create_connection(("127.0.0.1", port), timeout=5)
