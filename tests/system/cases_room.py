# SPDX-License-Identifier: MIT
"""Small or unusual environments, such as containers: the tool works, or one message gives the right remedy."""
import contextlib
import ctypes
import os
import pathlib
import subprocess
import time

from harness import SERVER, Process, Skipped, check, check_one_sentence, error_lines, only_root, world

CLONE_NEWNS = 0x00020000
CGROUPS = pathlib.Path("/sys/fs/cgroup/memory")


def own_mounts():
    """Gives this process, which runs only one case, its own mount table."""
    only_root()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise Skipped(f"unshare(CLONE_NEWNS): {os.strerror(ctypes.get_errno())}")
    mount("--make-rprivate", "/")


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)


@contextlib.contextmanager
def mounted(place, *arguments):
    mount(*arguments, place)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def exchange(w, memory, size, codes, emulate=()):
    """Runs a server and a client. Each exit code must be in `codes`; one other than 0 comes with one message."""
    hardware = ("--cuda", "1", "--rocm", "1", *emulate)
    server = w.emulated([w.program, *SERVER, "-m", memory, "-s", size, "--timeout", "5"], "a", emulate=hardware)
    got = []
    with contextlib.suppress(AssertionError):
        port = int(server.wait_for(r"Waiting for client connection on port (\d+)", 10)[1])
        client = w.client(port, "-m", memory, "-s", size, "--timeout", "5", emulate=hardware)
        got.append((client.finish(30), client))
        if got[0][0] != 0 and server.handle.poll() is None:
            server.stop()
            return [got[0][0]], client.text + server.text
    got.append((server.finish(30), server))
    for code, process in got:
        check(code in codes, f"{memory} {size}: {process} gave {code}", process.text)
        if code != 0:
            check(error_lines(process.text), f"{memory} {size}: not a word", process.text)
    return [code for code, _ in got], "".join(process.text for _, process in got)


def small_shm(program):
    """A container's /dev/shm of 64 MiB: the tool refuses with remedies, or works; it never gets SIGBUS."""
    own_mounts()
    for memory in ("gaudi", "cuda", "rocm", "host"):
        for size in ("64K", "8M", "16M", "64M"):
            with world(program) as w, mounted(w.base, "-t", "tmpfs", "-o", "size=64m,mode=700", "none"):
                codes, text = exchange(w, memory, size, (0, 1, 3, 125))
                if any(codes):
                    check("--dir" in text and "--shm-size" in text, f"{memory} {size}", text)
                    check(memory != "host", "host memory takes no room there", text)
                elif size == "64M":
                    check(memory == "host", f"{memory}: two cards have no room for 256 MiB", text)
                if size == "64K":
                    check(not any(codes), f"{memory}: 64 KiB have room", text)
                wait_until_empty(w.base)


def full_shm(program):
    """Without any room `emulate` reports that, and leaves nothing behind."""
    own_mounts()
    # tmpfs has no limit with a size of 0: a file fills its only page.
    for free_pages in (0, 1, 8, 40, 200):
        with world(program) as w, mounted(w.base, "-t", "tmpfs", "-o", f"size={max(free_pages, 1) * 4}k,mode=700", "none"):
            if free_pages == 0:
                (w.base / "other").write_bytes(bytes(4096))
            process = w.emulated([program, "info", "-d"], "a")
            code = process.finish(20)
            check(code in (0, 125), f"{free_pages} pages: {process} gave {code}", process.text)
            if code != 0:
                check(len(error_lines(process.text)) == 1 and "--dir" in process.text, process.text)
            (w.base / "other").unlink(missing_ok=True)
            wait_until_empty(w.base)


def wait_until_empty(folder):
    deadline = time.monotonic() + 5
    while any(folder.iterdir()):
        check(time.monotonic() < deadline, "left behind:", *folder.rglob("*"))
        time.sleep(0.05)


@contextlib.contextmanager
def cgroup(limit_bytes):
    """Makes a version 1 memory cgroup; yields the prefix for commands that run in it."""
    only_root()
    if not (CGROUPS / "memory.limit_in_bytes").exists():
        raise Skipped("no memory cgroup of version 1 here")
    folder = CGROUPS / f"hbmwire-test-{os.getpid()}"
    folder.mkdir()
    try:
        (folder / "memory.limit_in_bytes").write_text(str(limit_bytes))
        yield ("sh", "-c", f'echo $$ >{folder}/cgroup.procs && exec "$@"', "sh")
    finally:
        deadline = time.monotonic() + 5
        while True:
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            check(time.monotonic() < deadline, f"{folder} is in use")
            time.sleep(0.05)


def cgroup_memory(program):
    """Host memory above a container's limit is refused by name, before a page of it is touched."""
    with cgroup(300 << 20) as inside:
        for command in ([*SERVER], ["client", "127.0.0.1", "-p", "1"]):
            with world(program) as w:
                process = w.emulated([program, *command, "-m", "host", "-s", "400M"], "a", prefix=inside)
                check_one_sentence(process, 1, "cgroup", "docker run --memory", "-s", seconds=20)
        with world(program) as w:
            server = w.emulated([program, "perf", "write_bw", "-p", "0", "--memory", "host", "-s", "400M"], "a", prefix=inside)
            port = int(server.wait_for(r"Waiting for client connection on port (\d+)")[1])
            client = w.emulated([program, "perf", "write_bw", "-p", port, "--memory", "host", "-s", "400M", "127.0.0.1"], "b")
            check(client.finish(30) == 1 and server.finish(30) == 1, client.text, server.text)
            check("cgroup" in server.text and "docker run --memory" in server.text, server.text)
        with world(program) as w:
            server = w.server("-m", "host", "-s", "32M", prefix=inside)
            client = w.client(server.port, "-m", "host", "-s", "32M")
            check(client.finish() == 0 and server.finish() == 0, client.text, server.text)


def cgroup_kill(program):
    """A card's memory counts for the container's limit, too. If the kernel kills a process, `emulate` gives the reason."""
    own_mounts()
    with cgroup(200 << 20) as inside, world(program) as w, \
            mounted(w.base, "-t", "tmpfs", "-o", "size=4g,mode=700", "none"):
        process = w.emulated([program, *SERVER, "-m", "gaudi", "-s", "200M"], "a", prefix=inside)
        with contextlib.suppress(AssertionError):
            port = int(process.wait_for(r"Waiting for client connection on port (\d+)", 10)[1])
            w.client(port, "-m", "gaudi", "-s", "200M", "--timeout", "5", prefix=inside).finish(30)
        check_one_sentence(process, 125, "memory.limit_in_bytes", "--dir", seconds=30)
        wait_until_empty(w.base)


def no_proc(program):
    """Without /proc, a tool that needs it says so."""
    own_mounts()
    prefix = ("unshare", "--mount", "sh", "-c", 'umount --lazy /proc && exec "$@"', "sh")
    # $ORIGIN, by which the program finds its library, needs /proc.
    library = pathlib.Path(program).resolve().parent.parent / "lib"
    environment = {**os.environ, "SYSFS_PATH": "/nonexistent", "LD_LIBRARY_PATH": str(library)}
    for arguments in (["info", "-d"], [*SERVER, "-m", "host"], ["client", "127.0.0.1", "-m", "host"], ["perf", "write_bw", "h"]):
        process = Process([*prefix, program, *arguments], env=environment)
        code = process.finish(20)
        check(code in (0, 1, 3), f"{process} gave {code}", process.text)
        check(code == 0 or len(error_lines(process.text)) == 1, process.text)
    with world(program) as w:
        process = w.emulated(["true"], "a", prefix=prefix, env=environment)
        code = process.finish(20)
        check(code == 125 and "mount /proc" in process.text, f"{process} gave {code}", process.text)


def read_only_root(program):
    """A container with --read-only: only /dev/shm is writable."""
    own_mounts()
    with world(program) as w:
        prefix = ("unshare", "--mount", "sh", "-c",
                  f'mount --bind {w.base} {w.base} && mount -o remount,bind,ro / && exec "$@"', "sh")
        server = w.server("-m", "gaudi", "-s", "64K", prefix=prefix)
        client = w.client(server.port, "-m", "host", "-s", "64K")
        check(client.finish() == 0 and server.finish() == 0, client.text, server.text)


def no_shm(program):
    """/dev/shm is read-only, has no room for a file, or has a folder of another user: --dir is the remedy."""
    own_mounts()
    makes = {"read-only": 'mount -t tmpfs none /dev/shm && mount -o remount,ro /dev/shm',
             "full": 'mount --bind /dev/null /dev/shm || mount -t tmpfs -o nr_inodes=1 none /dev/shm'}
    for name, make in makes.items():
        prefix = ("unshare", "--mount", "sh", "-c", f'{make}; exec "$@"', "sh")
        process = Process([*prefix, program, "emulate", "--quiet", "--", "true"])
        check_one_sentence(process, 125, "--dir", seconds=20)
        with world(program) as w:
            process = w.emulated([program, "info"], "a", prefix=prefix)
            check(process.finish(20) == 0, f"/dev/shm is {name}", process.text)
    with world(program) as w:
        foreign = w.base / f"hbmwire-{os.geteuid()}"
        foreign.mkdir()
        os.chown(foreign, 65534, 65534)
        process = w.emulated(["true"], "a")
        check_one_sentence(process, 125, "not a directory of this user alone", "--dir", seconds=20)
        foreign.rmdir()


def namespaces(program):
    """Server and client in different namespaces of one machine."""
    only_root()
    for options in (["--ipc"], ["--uts", "--cgroup", "--ipc"]):
        for memory in ("gaudi", "host"):
            with world(program) as w:
                server = w.server("-m", memory, "-s", "64K", "--timeout", "5")
                client = w.client(server.port, "-m", memory, "-s", "64K", "--timeout", "5",
                                  prefix=("unshare", *options))
                check(client.finish(30) == 0 and server.finish() == 0, options, client.text, server.text)
    for options in (["--pid", "--fork", "--mount-proc"], ["--user", "--map-root-user"]):
        with world(program) as w:
            server = w.server("-m", "host", "-s", "64K")
            client = w.client(server.port, "-m", "host", prefix=("unshare", *options))
            check_one_sentence(client, 125, "PID or user namespace", "--fabric", seconds=20)
            server.stop()


CASES = {
    "room.small_shm": small_shm,
    "room.full_shm": full_shm,
    "room.cgroup": cgroup_memory,
    "room.cgroup_kill": cgroup_kill,
    "odd.no_proc": no_proc,
    "odd.read_only_root": read_only_root,
    "odd.no_shm": no_shm,
    "odd.namespaces": namespaces,
}
