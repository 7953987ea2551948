# SPDX-License-Identifier: MIT
"""A guest: a Debian kernel in QEMU, emulated (no /dev/kvm), that runs one script and reports the result."""
import contextlib
import os
import pathlib
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import time

from initramfs import BUILT, write_initramfs
from package import Unavailable

HERE = pathlib.Path(__file__).resolve().parent
QEMU = "qemu-system-x86_64"
# A panic ends QEMU at once, with exit status 0, so only the mark counts. An oops is a panic, too. no_timer_check: on a
# busy machine, late interrupts of the emulated timer fail a check at boot, which panics.
COMMAND_LINE = "console=ttyS0 loglevel=4 panic=-1 oops=panic nokaslr mitigations=off no_timer_check"
# An idle machine needs 3 to 20 s. A machine that runs other tests needs many times that.
LONGEST_S = 240


class Failure(AssertionError):
    pass


def check(condition, *what):
    if not condition:
        raise Failure("\n".join(str(part) for part in what))


class Guest:
    """A running guest; `finish` returns its result."""

    def __init__(self, name, folder, process, mark, deadline):
        self.name = name
        self.process = process
        self.mark = mark
        self.deadline = deadline
        self._output, self._console = folder / f"{name}.output", folder / f"{name}.console"
        self._qemu = folder / f"{name}.qemu"

    def output(self):
        """The script's output so far."""
        return self._read(self._output)

    def console(self):
        """The kernel's output so far."""
        return self._read(self._console)

    @staticmethod
    def _read(path):
        if not path.exists():
            return ""
        return path.read_bytes().decode(errors="replace").replace("\r", "")

    def finish(self):
        """Returns (exit code, output) of the script. If it does not exit in time, raises a Failure with all output."""
        try:
            status = self.process.wait(max(self.deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            self.end()
            raise Failure(f"{self.name}: hangs: nothing came of it in time\n{self.report()}") from None
        if "Kernel panic" in self.console():
            raise Failure(f"{self.name}: the guest's kernel panicked\n{self.report()}")
        result = re.search(rf"\n{self.mark} (\d+)\n*\Z", self.output())
        if result is None:
            raise Failure(f"{self.name}: ended (QEMU's status {status}) without a result\n{self.report()}")
        return int(result[1]), self.output()[:result.start()]

    def report(self):
        return "\n".join([f"--- output of {self.name}", self.output()[-60000:], "--- its kernel's messages",
                          self.console()[-4000:], "--- QEMU's", self._read(self._qemu)])

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Lab:
    """The place for a case's guests and their files. As a context manager it ends guests that are left."""

    def __init__(self, build, kernel):
        self.build = build
        self.kernel = kernel
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hbmwire-kernel-"))
        self.guests = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for guest in self.guests:
            guest.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, script, *arguments, name="guest", network=None, seconds=LONGEST_S, memory_mib=640,
              bare=False, own_modules=None, cards=(), files=None):
        """Boots a guest that runs guest/<script>, or a text of several lines. `network`: "listen" or "connect". A `bare` guest
        has only a shell, neither the built tree nor modules. `own_modules`: {name: file}, loaded instead of the kernel's
        modules with these names, or after them. `cards`: files on this machine that the guest sees as BARs of ivshmem
        devices. `files`: {path there: bytes}."""
        mark = secrets.token_hex(8)
        text = script if "\n" in script else (HERE / "guest" / script).read_text(encoding="utf-8")
        words = " ".join(f"'{word}'" for word in arguments)
        own = {"/init": (HERE / "guest" / "init").read_bytes(),
               "/lib.sh": (HERE / "guest" / "lib.sh").read_bytes(),
               "/script": text.encode(),
               "/test": f"#!/bin/sh\nexport BUILD='{BUILT}'\nexec sh /script {words}\n".encode()}
        own.update(files or {})
        initramfs = self.folder / f"{name}.cpio"
        modules = [] if bare else list({**dict(self.kernel.modules), **(own_modules or {})}.items())
        write_initramfs(initramfs, self.build, modules, own, bare)
        # The guest ends with its runner, even if that is killed.
        command = ["setpriv", "--pdeathsig", "KILL",
                   QEMU, "-M", "q35", "-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max", "-smp", "1",
                   "-m", str(memory_mib), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                   "-serial", f"file:{self.folder / name}.console", "-serial", f"file:{self.folder / name}.output",
                   "-kernel", str(self.kernel.image), "-initrd", str(initramfs),
                   "-append", f"{COMMAND_LINE} hbmwire_mark={mark}"]
        for number, memory in enumerate(cards):
            command += ["-object", f"memory-backend-file,id=card{number},share=on,mem-path={memory},"
                        f"size={memory.stat().st_size}", "-device", f"ivshmem-plain,memdev=card{number}"]
        if network:
            command += self._network(network)
        with open(self.folder / f"{name}.qemu", "wb") as words_of_qemu:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True,
                                       stdout=words_of_qemu, stderr=words_of_qemu)
        guest = Guest(name, self.folder, process, mark, time.monotonic() + seconds)
        self.guests.append(guest)
        return guest

    def _network(self, side):
        """A wire between two guests: a socket in the lab's folder. The listener must start first."""
        path = self.folder / "wire"
        if side == "connect":
            deadline = time.monotonic() + 20
            while not path.exists():
                check(time.monotonic() < deadline, "the other guest's QEMU does not listen",
                      self.guests[0].report())
                time.sleep(0.02)
        address = "02" if side == "connect" else "01"
        server = "off" if side == "connect" else "on"
        return ["-netdev", f"stream,id=wire,server={server},addr.type=unix,addr.path={path}",
                "-device", f"virtio-net-pci,netdev=wire,mac=52:54:00:00:00:{address},romfile="]

    def run(self, script, *arguments, **options):
        """Runs a guest to its end. Returns (exit code, output)."""
        return self.start(script, *arguments, **options).finish()

    def run_well(self, script, *arguments, **options):
        """Runs a guest to its end, and returns its output. Any exit code except 0 is a Failure."""
        guest = self.start(script, *arguments, **options)
        return finish_well(guest)


def finish_well(guest):
    code, output = guest.finish()
    check(code == 0, f"{guest.name}: exit code {code}", guest.report())
    return output


def require_qemu():
    for program in (QEMU, "setpriv"):
        if shutil.which(program) is None:
            raise Unavailable(f"no {program} here: scripts/setup test")
