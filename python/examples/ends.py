# SPDX-License-Identifier: MIT
"""The command line that the examples beside this file share.

    EXAMPLE.py --listen [PORT]         one end
    EXAMPLE.py --connect HOST:PORT     the other one
    EXAMPLE.py --demo                  both, as two processes of this machine

Exit codes: 0 when everything was done and verified, 1 when a transfer or the peer failed, 2 when
the command line is wrong, 3 when a device or a driver is missing, and 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Literal, NoReturn, get_args

import hbmwire

Options = argparse.Namespace
End = Callable[[Options], None]
Memory = Literal["host", "gaudi", "cuda", "rocm"]

_LISTENING = "listening: "


class Wrong(Exception):
    """Bytes or numbers are not what they should be."""


def parser_of(description: str | None, timeout: float = 60.0) -> argparse.ArgumentParser:
    """A parser of the options that all examples have; an example adds its own."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    end = parser.add_mutually_exclusive_group(required=True)
    end.add_argument(
        "--listen",
        type=port,
        nargs="?",
        const=0,
        metavar="PORT",
        help="wait for the other end; without PORT, or with 0, a free port, which is printed",
    )
    end.add_argument("--connect", metavar="HOST:PORT", help="go to the end that listens")
    end.add_argument("--demo", action="store_true", help="both ends as two processes, here")
    parser.add_argument(
        "--address", default="", help="of this machine, for --listen (default: all of them)"
    )
    parser.add_argument(
        "--memory",
        choices=get_args(Memory),
        default="host",
        help="where this end's bytes are (default: host)",
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=timeout,
        metavar="SECONDS",
        help=f"the most that any step may take (default: {timeout:.0f})",
    )
    return parser


def run(
    parser: argparse.ArgumentParser,
    listen: End,
    connect: End,
    demo: Callable[[Options], list[str]] = lambda options: [],
) -> NoReturn:
    """Runs the end that the command line names, and ends the process with its exit code.

    demo: further options for the listening end of --demo.
    """
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        if options.demo:
            with _other_end(options, demo(options)) as where:
                options.connect = where
                connect(options)
        elif options.connect is not None:
            connect(options)
        else:
            listen(options)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except (hbmwire.Error, Wrong) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        missing = isinstance(error, hbmwire.Error) and error.stage in ("probe", "open")
        sys.exit(3 if missing else 1)
    finally:
        # While the interpreter ends, sys.exit() in a handler would only print a traceback.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.exit(0)


def say_where(listener: hbmwire.Listener) -> None:
    """Prints the address to connect to."""
    print(f"{_LISTENING}{listener.addresses[0]}", flush=True)


@contextlib.contextmanager
def _other_end(options: Options, further: list[str]) -> Iterator[str]:
    """Runs the listening end as a process of its own, with the same options. Yields its address."""
    given = [one for one in sys.argv[1:] if one != "--demo"]
    here = ["--listen", "0", "--address", "127.0.0.1"]
    command = [sys.executable, sys.argv[0], *given, *further, *here]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        try:
            line = process.stdout.readline()
            if not line.startswith(_LISTENING):
                sys.exit(process.wait(options.timeout))  # it has printed the reason
            yield line.removeprefix(_LISTENING).strip()
            said, _ = process.communicate(timeout=options.timeout)
            print(said, end="")
        finally:
            process.terminate()
    if process.returncode != 0:
        raise Wrong(f"the listening end ended with {process.returncode}")


def port(text: str) -> int:
    """A TCP port."""
    number = int(text)
    if not 0 <= number < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text} is no port; ports are 0 to 65535")
    return number


def seconds(text: str) -> float:
    """A time that is finite."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: a number of seconds above 0 is needed")
    return number


def count(text: str) -> int:
    """A number of things, at least 1."""
    number = int(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{text}: a number above 0 is needed")
    return number


def size(text: str) -> int:
    """A number of bytes: 4096, 64K, 16M, 4G."""
    unit = {"K": 10, "M": 20, "G": 30}.get(text[-1:].upper())
    return count(text if unit is None else text[:-1]) << (unit or 0)
