# SPDX-License-Identifier: MIT
"""The harness itself: whatever goes wrong in a guest is a failure, and says what it was."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

from guest import HERE, Failure, check


def failure_of(guest):
    """The text of the Failure that a guest ends in."""
    try:
        result = guest.finish()
    except Failure as failure:
        return str(failure)
    raise Failure(f"{guest.name}: not taken for a failure: {result}")


def run(lab, script):
    return lab.start(script, bare=True).finish()


def exit_code(lab):
    """A script's exit code and output come back as they are."""
    code, output = run(lab, "echo 'a line'\necho another >&2\nexit 3\n")
    check((code, output) == (3, "a line\nanother\n"), f"code {code}", repr(output))


def killed(lab):
    """A script that is killed has a shell's exit code for it."""
    code, _ = run(lab, ". /lib.sh\nkill -9 $$\n")
    check(code == 137, f"code {code}")


def panic(lab):
    """QEMU ends with status 0 then, so that nothing but the kernel's words tells."""
    text = failure_of(lab.start("echo before\necho c >/proc/sysrq-trigger\nexit 0\n", bare=True))
    check("panicked" in text and "before" in text and "sysrq triggered crash" in text, text)


def hang(lab):
    """A guest is ended when its time is up, and nothing of it is left."""
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
    """A guest that goes away by itself, without a word about the script."""
    text = failure_of(lab.start("echo before\npoweroff -f\n", bare=True))
    check("without a result" in text and "before" in text, text)


def forged_result(lab):
    """The output of a program is not taken for the result, which has another mark for each guest."""
    text = failure_of(lab.start("echo '0123456789abcdef 0'\necho\necho 'RC=0'\npoweroff -f\n", bare=True))
    check("without a result" in text, text)


def kernel_complaint(lab):
    """A script that passes while the kernel complains has not passed."""
    code, output = run(lab, "echo 'WARNING: made up by a test' >/dev/kmsg\nexit 0\n")
    check(code == 91 and "made up by a test" in output, f"code {code}", output)


def long_output(lab):
    """All of a long output comes back, the last line too."""
    code, output = run(lab, "seq 1 20000\nexit 0\n")
    check(code == 0 and output == "".join(f"{n}\n" for n in range(1, 20001)), f"code {code}, {len(output)} characters")


def side_by_side(lab):
    """Two guests at a time, each with a result of its own."""
    guests = [lab.start(f"echo number {n}\nexit {n}\n", name=f"guest{n}", bare=True) for n in (5, 6)]
    for number, guest in zip((5, 6), guests):
        result = guest.finish()
        check(result == (number, f"number {number}\n"), result)


def guests_of(pid):
    """The QEMUs that a runner has started."""
    found = []
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split():
        with contextlib.suppress(OSError):
            if pathlib.Path(f"/proc/{child}/comm").read_text(encoding="utf-8").startswith("qemu"):
                found.append(child)
    return found


def runner_ended(lab):
    """A runner that is told to end, or killed, takes its guest along; told to end, its files too."""
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
    """The value of `condition`, once it has one."""
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
