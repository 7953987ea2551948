# SPDX-License-Identifier: MIT
"""Runs a command that may start others, and ends all of them."""
import os
import signal
import subprocess


def output_of(command, seconds, **options):
    """Its output, with standard error, and its exit code: None if it took longer than `seconds`, and was killed."""
    started = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                               **options)
    try:
        output, _ = started.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        output, _ = started.communicate()
        return f"{output}\nnot over after {seconds} s", None
    return output, started.returncode
