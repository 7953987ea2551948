# SPDX-License-Identifier: MIT
"""mypy --strict accepts the package, and finds users' mistakes; the stub matches the module."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

import hbmwire

PACKAGE = pathlib.Path(hbmwire.__file__).parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "MYPYPATH": str(PACKAGE.parent)}

pytestmark = [
    pytest.mark.limit(280),
    pytest.mark.skipif(shutil.which("stubtest") is None, reason="mypy is not installed"),
]

CONFIGURATION = """
[mypy]
strict = True
# mypy before 1.7 needs it for keyword arguments as a TypedDict has them.
enable_incomplete_feature = Unpack
cache_dir = {cache}
"""

# Parts of pybind11: the metaclass of its classes, the arguments of classes without a constructor
# (any are accepted, to be refused at run time), and its notes in the classes of this module.
ALLOWED = r"""
hbmwire\._core\.\w+
hbmwire\._core\.\w+\.__pybind11_module_local_\w+
hbmwire\._core\.(?!Context|Attach[AL]|(Remote)?BlockTable|RemoteKey|_Pump)\w+\.__init__
"""


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("mypy")
    (folder / "mypy.ini").write_text(CONFIGURATION.format(cache=folder / "cache"))
    return folder / "mypy.ini"


def run(folder: pathlib.Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def mypy(configuration: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(
        configuration.parent,
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(configuration),
        *arguments,
    )


def test_mypy_finds_no_fault_with_the_package(configuration: pathlib.Path) -> None:
    done = mypy(configuration, "-p", "hbmwire")
    assert done.returncode == 0, done.stdout


def test_the_stub_agrees_with_the_module(configuration: pathlib.Path) -> None:
    allowed = configuration.parent / "allowed"
    allowed.write_text(ALLOWED)
    done = run(
        configuration.parent,
        "stubtest",
        "--mypy-config-file",
        str(configuration),
        "--concise",
        "--allowlist",
        str(allowed),
        "hbmwire._core",
    )
    assert done.returncode == 0, done.stdout


def test_the_package_says_that_it_has_types() -> None:
    assert (PACKAGE / "py.typed").exists()
    assert (PACKAGE / "_core.pyi").exists()


GOOD = """
    import asyncio
    import hbmwire

    def sync(data: bytearray) -> int:
        with hbmwire.Context(require="zero_copy", max_transfers=10) as context:
            with context.connect("node2:7000", timeout=5, peer_timeout=None) as peer:
                region: hbmwire.Region = context.register(data)
                part: hbmwire.Slice = region[0:8]
                remote = peer.remote("weights")
                put = peer.put(part, remote[0:8], immediate=7, level="visible").wait(timeout=2)
                number: int = peer.fetch_add(remote[:8], 1).wait().value
                peer.put_list(region, remote, [(0, 0, 8)])
                peer.send(b"text", tag=3)
                path: str = put.report.path
                times = put.report.times
                if times is not None and times.over is not None:
                    return int(times.over - times.asked) + number + len(path)
                rights: frozenset[str] = frozenset(region.access)
                return len(rights)

    async def server(context: hbmwire.Context) -> None:
        with context.listen(7000, messages="handed_out") as listener:
            async for endpoint in listener:
                message = await listener.worker.anext_message(1.0)
                await endpoint.send(message.data)
        async with context.aconnect("node2:7000") as peer:
            transfer = await peer.put(context.register(b"x"), await peer.aremote("weights"))
            await asyncio.gather(transfer, peer.flush())

    def rank(context: hbmwire.Context) -> list[int]:
        with hbmwire.Group.create(context, timeout=5, meeting="env", require="staged") as group:
            parts: list[bytes] = group.exchange(b"mine", timeout=None)
            rest: list[bytes | None] = group.exchange_among_present(parts[0])
            peer: hbmwire.Endpoint = group.endpoint(1, timeout=5)
            group.broadcast(context.register(bytearray(8))[0:4], root=1, verify=False)
            names: list[str] = [member.host for member in group.members]
            return group.failed if rest and names and peer.closed else []

    async def ranks(worker: hbmwire.Worker) -> None:
        async with await hbmwire.Group.acreate(worker, rank=0, size=2) as group:
            peer: hbmwire.Endpoint = await group.aendpoint(1)
            await peer.send((await group.aexchange(b""))[1])

    def errors() -> str:
        try:
            hbmwire.Context(nics=["mlx5_0"])
        except hbmwire.TimedOut as error:
            return error.code + error.hint
        except hbmwire.Error as error:
            return error.remedy
        except TimeoutError:
            pass
        return ""
"""

# Each line with "# E" has an error, and no other line has one.
BAD = """
    import hbmwire

    def sync(context: hbmwire.Context, peer: hbmwire.Endpoint, region: hbmwire.Region) -> None:
        hbmwire.Context(require="fast")  # E
        hbmwire.Context(colour=1)  # E
        context.allocate("gpu", 8)  # E
        context.connect(7000)  # E
        context.connect("node2:7000", timeout="5")  # E
        context.connect("node2:7000", 5)  # E
        context.listen(0, messages="none")  # E
        remote = peer.remote("weights")
        peer.put(remote, region)  # E
        peer.put(region, remote, level="there")  # E
        peer.put(region, remote, immediate="7")  # E
        region.address = 3  # E
        region[0]  # E
        peer.put(region, remote).wait("2")  # E
        peer.aconnect("node2:7000")  # E
        number: str = peer.flush().bytes  # E
        for endpoint in context.listen(0):  # E
            pass

    def rank(context: hbmwire.Context, group: hbmwire.Group) -> None:
        hbmwire.Group.create("worker")  # E
        hbmwire.Group.create(context, 5)  # E
        hbmwire.Group.create(context, colour=1)  # E
        group.exchange("text")  # E
        group.broadcast(b"not registered")  # E
        group.endpoint("1")  # E
        number: int = group.exchange(b"")  # E

    async def coroutine(peer: hbmwire.Endpoint, region: hbmwire.Region) -> None:
        peer.put(region, await peer.remote("weights"))  # E
        peer.put(region, peer.aremote("weights"))  # E
"""


def test_a_users_program_has_the_types_that_it_needs(configuration: pathlib.Path) -> None:
    program = configuration.parent / "good.py"
    program.write_text(textwrap.dedent(GOOD))
    done = mypy(configuration, str(program))
    assert done.returncode == 0, done.stdout


def test_a_users_mistakes_are_found(configuration: pathlib.Path) -> None:
    program = configuration.parent / "bad.py"
    program.write_text(textwrap.dedent(BAD))
    done = mypy(configuration, "--hide-error-context", str(program))
    found = {int(line) for line in re.findall(r"^bad\.py:(\d+): error", done.stdout, re.MULTILINE)}
    lines = program.read_text().splitlines()
    assert found == {number for number, line in enumerate(lines, 1) if "# E" in line}, done.stdout
