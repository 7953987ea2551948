# SPDX-License-Identifier: MIT
"""The harness itself: whatever goes wrong in a guest is a failure with its reason."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

from guest import HERE, Failure, check


def failure_of(guest):
    """The text of the Failure with which a guest ends."""
    try:
        result = guest.finish()
    except Failure as failure:
        return str(failure)
    raise Failure(f"{guest.name}: not taken for a failure: {result}")


def run(lab, script):
    return lab.start(script, bare=True).finish()


def exit_code(lab):
    """A script's exit code and output are returned unchanged."""
    code, output = run(lab, "echo 'a line'\necho another >&2\nexit 3\n")
    check((code, output) == (3, "a line\nanother\n"), f"code {code}", repr(output))


def killed(lab):
    """A killed script has the exit code that shells use for it."""
    code, _ = run(lab, ". /lib.sh\nkill -9 $$\n")
    check(code == 137, f"code {code}")


def panic(lab):
    """QEMU ends with status 0, so only the kernel's messages show it."""
    text = failure_of(lab.start("echo before\necho c >/proc/sysrq-trigger\nexit 0\n", bare=True))
    check("panicked" in text and "before" in text and "sysrq triggered crash" in text, text)


def hang(lab):
    """A guest is ended when its time is up, and leaves nothing behind."""
    guest = lab.start("echo before\nsleep 1000\n", bare=True)
    while "before" not in guest.output() and time.monotonic() < guest.deadline:
        time.sleep(0.1)
    guest.deadline = time.monotonic() + 2
    text = failure_of(guest)
    check("hangs" in text and "before" in text, text)
    try:
        os.kill(guest.process.pid, 0)
    except ProcessLookupError:
        return
    raise Failure("QEMU lives on")


def no_result(lab):
    """A guest that powers off without the script's result."""
    text = failure_of(lab.start("echo before\npoweroff -f\n", bare=True))
    check("without a result" in text and "before" in text, text)


def forged_result(lab):
    """Output of a program is not taken for the result, whose mark differs for each guest."""
    text = failure_of(lab.start("echo '0123456789abcdef 0'\necho\necho 'RC=0'\npoweroff -f\n", bare=True))
    check("without a result" in text, text)


def kernel_complaint(lab):
    """A script passes only if the kernel logs no complaint."""
    code, output = run(lab, "echo 'WARNING: made up by a test' >/dev/kmsg\nexit 0\n")
    # guest/init: the kernel complained.
    check(code == 91 and "made up by a test" in output, f"code {code}", output)


def long_output(lab):
    """All of a long output is returned, including the last line."""
    code, output = run(lab, "seq 1 20000\nexit 0\n")
    check(code == 0 and output == "".join(f"{n}\n" for n in range(1, 20001)), f"code {code}, {len(output)} characters")


def side_by_side(lab):
    """Two guests at a time, each with its own result."""
    guests = [lab.start(f"echo number {n}\nexit {n}\n", name=f"guest{n}", bare=True) for n in (5, 6)]
    for number, guest in zip((5, 6), guests):
        result = guest.finish()
        check(result == (number, f"number {number}\n"), result)


def guests_of(pid):
    """The QEMUs that a runner started."""
    found = []
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split():
        with contextlib.suppress(OSError):
            if pathlib.Path(f"/proc/{child}/comm").read_text(encoding="utf-8").startswith("qemu"):
                found.append(child)
    return found


def runner_ended(lab):
    """A runner that is terminated or killed takes its guest along. A terminated runner also removes its files."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        runner = subprocess.Popen([sys.executable, "-B", HERE / "run.py", "--build", lab.build, "harness.hang"],
                                  stdout=subprocess.DEVNULL, env={**os.environ, "TMPDIR": str(lab.folder)})
        guests = wait_for(lambda: guests_of(runner.pid), "the runner starts no guest")
        runner.send_signal(number)
        runner.wait(20)
        wait_for(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in guests), "QEMU lives on", 10)
        if number == signal.SIGTERM:
            check(not list(lab.folder.glob("hbmwire-kernel-*")), "files are left")


def wait_for(condition, otherwise, seconds=60):
    """Waits until `condition` returns something, and returns that."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        check(time.monotonic() < deadline, otherwise)
        time.sleep(0.05)


CASES = {f"harness.{case.__name__}": case for case in (
    exit_code, killed, panic, hang, no_result, forged_result, kernel_complaint, long_output, side_by_side,
    runner_ended)}
