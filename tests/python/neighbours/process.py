# SPDX-License-Identifier: MIT
"""A peer in a process of its own, on this emulated node or on another one of its fabric.

The peer's program reads one line of JSON for each request, and writes one for each answer.
"""

from __future__ import annotations

import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import hbmwire

HERE = pathlib.Path(__file__).parent
# More than a peer needs to start on a busy machine with sanitizers.
ANSWER_SECONDS = 40.0


def tool() -> str | None:
    """The hbmwire program: of the build that contains the module, or the installed one."""
    built = pathlib.Path(hbmwire.__file__).resolve().parents[2] / "bin" / "hbmwire"
    return str(built) if built.exists() else shutil.which("hbmwire")


class PeerProcess:
    """Runs neighbours/`program`.py; `node`: the name of the emulated node, which has its own
    devices.
    """

    def __init__(self, program: str, node: str | None = None, **arguments: Any) -> None:
        command = [sys.executable, "-B", str(HERE / f"{program}.py"), json.dumps(arguments)]
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(
            [str(HERE.parent), str(HERE.parent / "stand_in"), environment.get("PYTHONPATH", "")]
        )
        if node is not None:
            command, environment = on_node(node, command, environment)
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self._pid = int(self._next())
        self.started = self._next()

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()

    def ask(self, do: str, **arguments: Any) -> Any:
        """The answer to one request."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()
        return self._next()

    def signal(self, number: int) -> None:
        """Signals the peer itself: on another node it is a child of the program that made the node.
        """
        os.kill(self._pid, number)

    def stop(self) -> None:
        """Stops all threads of the peer, and waits until they have stopped."""
        self.signal(signal.SIGSTOP)
        tasks = pathlib.Path(f"/proc/{self._pid}/task")
        while any(" T " not in (task / "stat").read_text() for task in tasks.iterdir()):
            time.sleep(0.001)

    def go_on(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._process.wait(ANSWER_SECONDS)

    def end(self) -> None:
        """Lets the peer end by itself, which it does when there are no more requests."""
        if self._process.poll() is None:
            self.go_on()
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(ANSWER_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
                raise

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put('{"failed": "it has ended"}')

    def _next(self) -> Any:
        answer = json.loads(self._answers.get(timeout=ANSWER_SECONDS))
        if isinstance(answer, dict) and "failed" in answer:
            raise AssertionError(f"the peer failed: {answer['failed']}")
        return answer


def on_node(
    node: str, command: list[str], environment: dict[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Wraps the command to run on another node of this fabric, which has the same kinds of devices.
    """
    program = tool()
    assert program is not None, "there is no hbmwire program to make a node with"
    fabric = os.path.basename(environment["HBMWIRE_EMULATION_FABRIC"])
    devices = ["--nics", "1", "--gaudi", "1", "--cuda", "1"]
    environment = {k: v for k, v in environment.items() if k != "HBMWIRE_EMULATION_NODE"}
    emulate = [program, "emulate", "--quiet", "--fabric", fabric, "--name", node, *devices, "--"]
    return emulate + command, environment


def tell(answer: Any) -> None:
    print(json.dumps(answer), flush=True)


def serve(requests: dict[str, Callable[..., Any]], idle: Callable[[], None]) -> None:
    """Answers requests until there are no more, and calls `idle` every few milliseconds."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=0.005)
        except queue.Empty:
            idle()
            continue
        if line is None:
            return
        request = json.loads(line)
        try:
            answer = requests[request.pop("do")](**request)
        except hbmwire.Error as error:
            answer = {"failed": str(error)}
        tell(answer)
