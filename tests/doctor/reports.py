# SPDX-License-Identifier: MIT
"""Runs `hbmwire doctor` for tests, and reads its reports."""
import json
import os
import re
import subprocess
import time

from harness import Failure

USER = 1000  # any user except root
ORDINARY = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--"]


def environment(**more):
    """The environment of this process, without this machine's settings."""
    kept = {name: value for name, value in os.environ.items() if not re.match(r"HBMWIRE_(GAUDI|CUDA|ROCM|PATHS|LOG|NICS)|HBMWIRE_CONFIG$", name)}
    return {**kept, "NO_COLOR": "1", **more}


class Result:
    def __init__(self, text, code, errors, seconds):
        self.text, self.code, self.errors, self.seconds = text, code, errors, seconds

    @property
    def whole(self):
        try:
            return json.loads(self.text)
        except ValueError:
            raise Failure(f"no JSON\n{self.text}\n{self.errors}") from None

    @property
    def pairs(self):
        return {(pair["memory"], pair["by"]): pair for pair in self.whole["pairs"]["pairs"]}

    @property
    def first(self):
        """The first cause: the name of its check, else the hint of a failure, else its step."""
        cause = self.whole["causes"][0]
        if cause["finding"]:
            return cause["finding"]["check"]
        return cause["error"]["hint"] if cause["error"]["hint"] != "none" else cause["error"]["step"]

    def __str__(self):
        return f"exit code {self.code} after {self.seconds:.1f} s\n{self.text}\n{self.errors}"


def run(arguments, seconds=60, **options):
    started = time.monotonic()
    done = subprocess.run([str(each) for each in arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=seconds, check=False, env=environment(), **options)
    return Result(done.stdout, done.returncode, done.stderr, time.monotonic() - started)
