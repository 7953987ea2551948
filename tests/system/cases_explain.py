# SPDX-License-Identifier: MIT
"""`hbmwire doctor explain`: every hint has a text, and errors of the tools name known hints."""
import json
import os
import re
import subprocess

from harness import Process, check, check_one_sentence, error_lines

WITHOUT_HARDWARE = {**os.environ, "SYSFS_PATH": "/nonexistent"}
HINT = re.compile(r" \[([a-z0-9_]+)\]$")


def explain(program, *words):
    """Exit code, standard output, standard error."""
    done = subprocess.run([program, "doctor", "explain", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=10, env=WITHOUT_HARDWARE, check=False)
    return done.returncode, done.stdout, done.stderr


def all_hints(program):
    code, text, errors = explain(program)
    check(code == 0 and not errors, errors)
    return dict(re.findall(r"^  ([a-z0-9_]+) +(\S.*)$", text, re.MULTILINE))


def section(text, title):
    """The text below a title, up to the next empty line."""
    found = re.search(rf"^{title}\n(.*?)(?:\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def every_hint(program):
    """The text has symptom and remedy and fits a terminal; the object of --json contains the same."""
    hints = all_hints(program)
    check(len(hints) > 100 and "no_rdma_device" in hints, hints)
    for name, summary in hints.items():
        code, text, errors = explain(program, name)
        check(code == 0 and not errors, name, errors)
        check(text.startswith(f"{name}: {summary}\n"), text)
        for title in ("Remedy", "Symptom"):
            check(section(text, title), f"{name} has no {title}", text)
        check(all(len(line) <= 80 for line in text.splitlines()[1:]), text)
        plain = text
        code, text, errors = explain(program, name, "--json")
        told = json.loads(text)
        check(code == 0 and told["exit_code"] == 0 and told["hint"] == name and told["summary"] == summary, text)
        check(told["remedy"] and told["symptom"] and bool(told["cause"]) == bool(section(plain, "Cause")), text)
    code, text, _ = explain(program, "--json")
    check(code == 0 and [hint["hint"] for hint in json.loads(text)["hints"]] == list(hints), text)


def names(program):
    """Accepts a name in brackets and a whole sentence. For a misspelt name it suggests the nearest one."""
    _, plain, _ = explain(program, "no_rdma_device")
    for words in ("[no_rdma_device]", "hbmwire server: probe [x]: none; check [it] [no_rdma_device]"):
        check(explain(program, words) == (0, plain, ""), words)
    for words, part in (("no_rdma_devise", "did you mean no_rdma_device?"), ("[no_rocm_dev]", "did you mean no_rocm_device?"),
                        ("none", "lists the names"), ("", "lists the names"), ("elephant", "lists the names")):
        check_one_sentence(Process([program, "doctor", "explain", words], env=WITHOUT_HARDWARE), 2, part, "no hint has this name")
        code, text, _ = explain(program, "--json", words)
        check(code == 2 and part in json.loads(text)["error"] and "hint" not in json.loads(text), words, text)
    check_one_sentence(Process([program, "doctor", "explain", "no_cuda", "no_rocm"], env=WITHOUT_HARDWARE), 2,
                       "one argument too many")
    check_one_sentence(Process([program, "doctor", "explain", "--jsn"], env=WITHOUT_HARDWARE), 2, "did you mean --json?")


def of_errors(program):
    """The error of a tool ends with the name of a hint that is explained, and its object contains the same name."""
    hints = all_hints(program)
    setting = {**WITHOUT_HARDWARE, "HBMWIRE_CUDA_DMABUF": "1"}  # it takes yes, no or try
    for line, env, name in ((["server", "-m", "host", "-p", "0"], WITHOUT_HARDWARE, "no_rdma_device"),
                            (["client", "127.0.0.1", "-m", "host"], WITHOUT_HARDWARE, "no_rdma_device"),
                            (["perf", "write_bw", "-p", "0"], WITHOUT_HARDWARE, "no_rdma_device"),
                            (["client", "no-such-host.invalid", "-m", "host"], setting, "setting_choices"),
                            (["perf", "write_bw", "-p", "0"], setting, "setting_choices"),
                            (["info"], setting, "setting_choices")):
        process = Process([program, *line], env=env)
        process.finish(20)
        lines = error_lines(process.text)
        check(len(lines) == 1 and HINT.search(lines[0]), line, process.text)
        check(HINT.search(lines[0])[1] == name and name in hints, line, lines)
        check(explain(program, lines[0])[1].startswith(f"{name}: "), line)
        done = subprocess.run([program, *line, "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20,
                              env=env, check=False)
        told = json.loads(done.stdout)
        check(told["hint"] == name and told["error"].endswith(f" [{name}]"), line, done.stdout)
    # `info` does not fail because of missing hardware, but still names the hint.
    text = subprocess.run([program, "info", "-d"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20,
                          env=WITHOUT_HARDWARE, check=False).stdout
    missing = [line for line in text.splitlines() if line.strip().startswith("missing: ")]
    check(missing and all(HINT.search(line) and HINT.search(line)[1] in hints for line in missing), text)


CASES = {
    "explain.every_hint": every_hint,
    "explain.names": names,
    "explain.of_errors": of_errors,
}
