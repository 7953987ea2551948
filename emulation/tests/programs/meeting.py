# SPDX-License-Identifier: MIT
"""Lets two programs connect that do not know of each other's start.

They get a port of their own, and the client starts when the server is ready.
"""
import contextlib
import os
import pathlib
import random
import socket
import time

from harness import check

# x86-64's system call numbers of read, poll, select, recvfrom, recvmsg, accept, epoll_wait, pselect6,
# ppoll, epoll_pwait, accept4.
WAITING = {0, 7, 23, 43, 45, 47, 232, 270, 271, 281, 288}
# Below Linux's ephemeral ports, which the kernel gives to other programs.
PORTS = range(20000, 32000)
TCP_LISTEN = "0A"


@contextlib.contextmanager
def port():
    """A TCP port that no other row uses and no program listens on.

    Rows lock a port by the name of a Unix socket, which the kernel frees with its holder. A check
    of TCP ports alone would not suffice, because ports taken through rdma_cm are unknown to bind(2).
    """
    for number in random.sample(PORTS, len(PORTS)):
        with contextlib.ExitStack() as stack:
            lock = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            try:
                lock.bind(f"\0hbmwire-programs-{number}")
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(("", number))
            except OSError:
                continue
            yield number
            return
    raise OSError("no port is free")


def program_pid(process, program):
    """The process that runs `program` below `hbmwire emulate`; None if there is none yet."""
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if words[0].decode() == program and os.getsid(int(entry.name)) == process.handle.pid:
                return int(entry.name)
    return None


def listens(pid, number):
    """Whether a TCP socket of the process's network namespace listens on the port."""
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == TCP_LISTEN and int(words[1].rsplit(":", 1)[1], 16) == number:
                    return True
    return False


def is_own(task, program):
    """Whether a thread is the program's own.

    Threads of the emulated NIC and of sanitizers have other names.
    """
    return (task / "comm").read_text().strip() == pathlib.Path(program).name[:15]


def own_threads(pid, program):
    with contextlib.suppress(OSError):
        return sum(is_own(task, program) for task in pathlib.Path(f"/proc/{pid}/task").iterdir())
    return 0


def rest(pid, program):
    """The context switch counts of a process, which change when it does anything.

    None while a thread runs, or if none of the program's own threads waits for input. A look at
    sleeping threads alone would not suffice: a thread that waits for a lock sleeps too, and on a
    loaded machine for long.
    """
    seen = []
    waits = False
    try:
        for task in sorted(pathlib.Path(f"/proc/{pid}/task").iterdir()):
            fields = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines() if ":" in line)
            if not fields["State"].strip().startswith("S"):
                return None
            call = (task / "syscall").read_text().split()[0]
            waits = waits or (call.isdigit() and int(call) in WAITING and is_own(task, program))
            seen.append((task.name, fields["voluntary_ctxt_switches"], fields["nonvoluntary_ctxt_switches"]))
    except OSError:
        return None
    return seen if waits else None


def wait_until_ready(process, program, how, number, seconds):
    """Waits until the server is ready for a client. Returns its process id.

    "listen": it listens on the TCP port. Ports of rdma_cm are not visible, so two other ways exist.
    "sleeps": all its threads wait in the kernel. "thread": it has a second thread, because rsockets
    start one right after they listen, and their program may spin instead of sleeping.
    """
    deadline = time.monotonic() + seconds
    last, since = None, time.monotonic()
    while True:
        pid = program_pid(process, program)
        if pid is not None:
            if how == "listen" and listens(pid, number):
                return pid
            if how == "thread" and own_threads(pid, program) > 1:
                return pid
            now = rest(pid, program)
            if now is None or now != last:
                last, since = now, time.monotonic()
            elif how == "sleeps" and time.monotonic() - since > 0.1:
                return pid
        check(process.handle.poll() is None, f"{process} ended with {process.handle.poll()} before its client came",
              process.text)
        check(time.monotonic() < deadline, f"{process} was not ready within {seconds} s ({how})", process.text)
        time.sleep(0.01)
