# SPDX-License-Identifier: MIT
"""`hbmwire stat`: its output about processes that run, end or fail, and about processes that only look like publishers."""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

from exposition import Exposition
from harness import Failure, Process, Skipped, check, check_one_sentence, only_root, world

STATS = {**{name: value for name, value in os.environ.items() if not name.startswith("HBMWIRE_STATS")}, "HBMWIRE_STATS": "yes"}
NAME = "hbmwire-counters"  # name of the file that a process publishes
MAGIC = b"HBMWCNTS"
BLOCK_BYTES = 1024
DOCS = pathlib.Path(__file__).resolve().parent.parent.parent / "docs"
# The beginning of another program, which executes the given text and waits.
WAITING = "import os, sys, time\n{}\nprint('ready', flush=True)\ntime.sleep(100)\n"


def stat(program, *arguments, seconds=30, **options):
    """Standard output, standard error and the exit code."""
    done = subprocess.run([program, "stat", *(str(each) for each in arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=seconds, check=False, **options)
    return done.stdout, done.stderr, done.returncode


def samples(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def of_process(sample, process):
    found = [each for each in sample["processes"] if each["process"] == process]
    check(len(found) == 1, f"process {process} is there {len(found)} times", sample)
    return found[0]


def bytes_of(process, kind):
    return sum(each["bytes"] for each in process["transfers"] if each["kind"] == kind)


def operations_of(process):
    return sum(each["operations"] for each in process["transfers"])


class Run:
    """A run of `hbmwire perf` whose sides publish their counters, and a command that watches them from outside."""

    def __init__(self, w, test, *options, watch=None, emulate=()):
        self.watch = watch or w.run([w.program, "stat", "--json", "0.1"])
        self.server = w.emulated([w.program, "perf", test, "-p", "0", "--bind", "127.0.0.1"], "a", env=STATS)
        port = self.server.wait_for(r"Waiting for client connection on port (\d+)")[1]
        self.client = w.emulated([w.program, "perf", test, "127.0.0.1", "-p", port, "--json", *options], "b", emulate, env=STATS)
        self.process = None

    def attach(self):
        """Returns when the client appears in a sample."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with contextlib.suppress(Failure):
                self.process = self.client.tool_pid()
            if self.process and f'"process":{self.process},' in self.watch.text:
                return self
            check(self.client.handle.poll() is None, "the client ended unseen", self.client.text)
            time.sleep(0.02)
        raise Failure(f"the client was not seen\n{self.watch.text}")

    def moves(self):
        """Returns when the client's puts appear in a sample; they are the first puts of a process."""
        self.watch.wait_for(rf'"process":{self.process},[^\n\[]*"transfers":\[{{"kind":"put"')

    def ended(self):
        """Waits until the process has ended; returns its samples."""
        self.watch.wait_for(rf'"process":{self.process},[^\n\[]*"ended":true[^\n]*\n')
        return [of_process(sample, self.process) for sample in samples(self.watch.text)
                if any(each["process"] == self.process for each in sample["processes"])]

    def finish(self):
        """Waits until both sides have ended successfully."""
        check(self.client.finish() == 0 and self.server.finish() == 0, self.client.text, self.server.text)

    def moved(self):
        """The bytes that the client reports to have moved."""
        text = self.client.text
        return sum(row["moved_bytes"] for row in json.loads(text[text.index("{"):])["rows"])


def watched(program, test, kind, *options):
    """stat shows exactly the bytes that perf reports, while it runs and after its end."""
    with world(program) as w:
        run = Run(w, test, *options).attach()
        check(run.client.finish() == 0, "the client failed", run.client.text, run.server.text)
        seen = run.ended()
        check(not seen[0]["ended"] and [each["ended"] for each in seen].count(True) == 1, "ended more than once", seen)
        counts = [bytes_of(each, kind) for each in seen]
        check(counts == sorted(counts), "bytes became fewer", counts)
        check(counts[-1] == run.moved() > 0, "other bytes than perf's", counts[-1], run.moved())
        last = seen[-1]
        check(last["under_way"] == 0 and last["failures"] == [], "not all of them have ended", last)
        check(operations_of(last) == last["started"], "operations and transfers differ", last)
        return seen


def perf(program):
    seen = watched(program, "put_bw", "put", "-s", "64K", "-D", "2", "--perform_warm_up")
    check(sum(bytes_of(each, "put") > 0 for each in seen) > 3, "it was not seen running", seen)
    rates = [each["bytes_per_second"] for sample in seen for each in sample["transfers"] if each["kind"] == "put"]
    check(max(rates) > 0, "no rate", rates)
    put = next(each for each in seen[-1]["transfers"] if each["kind"] == "put")
    check(put["path"] in ("zero_copy", "host") and put["nic"].startswith("emu") and put["peer"].startswith("127.0.0.1:"), put)


def perf_sweep(program):
    watched(program, "get_bw", "get", "-a", "-n", "200")


def perf_of_device(program):
    seen = watched(program, "put_bw", "put", "--memory", "gaudi,gaudi", "-s", "4K", "-D", "1")
    labels = {(each["path"], each["local"], each["remote"]) for each in seen[-1]["transfers"] if each["kind"] == "put"}
    check(labels == {("zero_copy", "gaudi", "gaudi")}, labels)


def faults(program):
    """Failures of a fault plan appear in the counters with their code, and in the NIC's own counters."""
    with world(program) as w:
        plan = ("--faults", "revoke,op=write,nth=200000")
        # Inside the emulated world, stat also sees the emulated NICs.
        watch = w.emulated([program, "stat", "--json", "0.1"], "b")
        run = Run(w, "put_bw", "-s", "4K", "-n", "500000", "--no-verify", watch=watch, emulate=plan).attach()
        check(run.client.finish() != 0, "the client did not fail", run.client.text)
        last = run.ended()[-1]
        codes = {each["code"]: each["operations"] for each in last["failures"]}
        # One access is refused, and later requests are not executed.
        check(codes.pop("permission_denied", 0) == 1 and set(codes) <= {"cancelled"}, "other failures", last)
        codes["permission_denied"] = 1
        check(last["endpoints_failed"] == 1, "no failed connection is counted", last)
        check(operations_of(last) + sum(codes.values()) + last["under_way"] == last["started"], "some transfers are missing", last)
        check(bytes_of(last, "put") <= 200_000 * 4096, "bytes of failed transfers are counted", last)
        run.server.finish()
        # The NIC has counted the failure, too, and shows its counters while a process uses it.
        Run(w, "put_bw", "-s", "4K", "-D", "1", watch=watch).attach().finish()
        errors = {(each["name"], each["value"]) for sample in samples(watch.text) for each in sample["nics"] if each["error"]}
        check(("req_remote_access_errors", 1) in errors, "the NIC's error is not shown", errors)
        watch.handle.send_signal(signal.SIGINT)
        check(watch.finish(5) == 0, watch.text[-500:])


def killed(program):
    """SIGKILL: the final counts are shown once, and nothing is left."""
    with world(program) as w:
        run = Run(w, "put_bw", "-s", "4K", "-D", "60").attach()
        run.moves()
        os.kill(run.process, signal.SIGKILL)
        seen = run.ended()
        check(bytes_of(seen[-1], "put") >= bytes_of(seen[-2], "put") > 0, "the last counts are gone", seen[-2:])
        before = run.watch.text.count(f'"process":{run.process},')
        time.sleep(0.4)
        check(run.watch.text.count(f'"process":{run.process},') == before, "it is shown again")
        _, errors, code = stat(program, "-p", run.process)
        check(code == 3 and "no such process" in errors, code, errors)
        run.client.finish()
        run.server.finish()
        run.watch.handle.send_signal(signal.SIGINT)
        check(run.watch.finish(5) == 0, "Ctrl-C is no regular end", run.watch.text[-500:])


def ends_with_process(program):
    """-p ends with the process; the last sample has its final counts."""
    with world(program) as w:
        run = Run(w, "put_bw", "-s", "4K", "-D", "2").attach()
        text, errors, code = stat(program, "--json", "-p", run.process, "0.2")
        check(code == 0 and errors == "", code, errors)
        last = of_process(samples(text)[-1], run.process)
        check(run.client.finish() == 0, run.client.text)
        check(last["ended"] and bytes_of(last, "put") == run.moved(), "not the last counts", last)


def table(program):
    """The table for people: rows of at most 100 columns, by path, NIC and peer."""
    with world(program) as w:
        run = Run(w, "put_bw", "--memory", "gaudi,gaudi", "-s", "4K", "-D", "5").attach()
        run.moves()
        text, errors, code = stat(program)
        check(code == 0 and errors == "", code, errors)
        check(re.search(r"^PROCESS PROGRAM +KIND +PATH +MEMORY +OPERATIONS +BYTES +RATE$", text, re.MULTILINE), text)
        check(re.search(rf"^ *{run.process} hbmwire +put +zero_copy +gaudi->gaudi +\d+ +[\d.]+( [GT]iB)? +[\d.]+ MiB/s$", text,
                        re.MULTILINE), text)
        check(re.search(r"^  transfers +\d+ begun, \d+ under way, \d+ queued, \d+ waits? for credit$", text, re.MULTILINE), text)
        check(re.search(r"^  times +put zero_copy gaudi->gaudi: median \S+ .s, p99 \S+ .s \(\d+ timed\)$", text, re.MULTILINE), text)
        check(max(map(len, text.splitlines())) <= 100, "wider than 100 columns", text)
        text, _, code = stat(program, "--by", "nic")
        check(code == 0 and re.search(rf"^ *{run.process} emu0 +put ", text, re.MULTILINE), text)
        text, _, code = stat(program, "--by=peer", "-p", run.process)
        check(code == 0 and re.search(rf"^ *{run.process} 127\.0\.0\.1:\d+ +put ", text, re.MULTILINE), text)
        text, _, code = stat(program, "--json", "-p", f"{run.process},{run.process}")
        check(code == 0 and len(json.loads(text)["processes"]) == 1, text)
        text, _, code = stat(program, "-p", run.process, "0.1", "3")
        check(code == 0 and len(re.findall(r"^\d\d:\d\d:\d\d$", text, re.MULTILINE)) == 3, text)
        run.finish()


def prometheus(program):
    """The text follows the format's rules and has the same counts as the JSON, and a file is replaced as a whole."""
    with world(program) as w:
        file = w.folder / "hbmwire.prom"
        # Inside the client's emulated world, where stat sees its NICs.
        run = Run(w, "put_bw", "-s", "4K", "-D", "3").attach()
        inner = w.emulated([program, "stat", "--prometheus", "--save", file, "0.4"], "b")
        run.moves()
        deadline = time.monotonic() + 20
        text, texts = "", []
        while f'hbmwire_process_running{{process="{run.process}",program="hbmwire"}} 0' not in text:
            check(time.monotonic() < deadline and inner.handle.poll() is None, "the last counts are not in the file", text, inner.text)
            with contextlib.suppress(FileNotFoundError):
                text = file.read_text(encoding="utf-8")
            if [text] != texts[-1:]:
                texts.append(text)  # parsed later: the final counts exist for only one sample
            time.sleep(0.02)
        seen = set()
        for each in filter(None, texts):
            whole = Exposition(each)
            check(whole.faults == [] and "hbmwire_nic_reading" in whole.families, "a broken text", *whole.faults, each)
            seen.add(whole.families["hbmwire_transfer_bytes_total"].value(process=str(run.process), kind="put"))
        check(run.client.finish() == 0, run.client.text)
        check(len(seen) > 3, "the file was not replaced", seen)
        check(max(seen) == run.moved(), "other bytes than perf's", seen, run.moved())
        check(whole.families["hbmwire_nic_transmitted_bytes_total"].value(nic="emu0") > run.moved(), "no bytes of the NIC", text)
        check(whole.families["hbmwire_nic_errors_total"].samples, "no errors of the NIC", text)
        for path in (w.folder).iterdir():
            check(not path.name.endswith(".part"), "a file was left", path)
        inner.handle.send_signal(signal.SIGTERM)
        check(inner.finish(5) == 0, "SIGTERM is no regular end", inner.text)
        # This process publishes nothing, which is an error instead of an empty text.
        text, errors, code = stat(program, "--prometheus", "-p", os.getpid())
        check(code == 3 and text == "" and "does not publish" in errors, text, errors)


def metrics_manual(program):
    """docs/metrics.md lists every name with its type and labels, and no other."""
    manual = (DOCS / "metrics.md").read_text(encoding="utf-8")
    described = {}
    for name, kind, labels in re.findall(r"^\| `(hbmwire_\w+)` \| (\w+) \| (?:`([\w ]+)`)? *\| ", manual, re.MULTILINE):
        check(name not in described, f"{name} is there twice")
        described[name] = (kind, set(labels.split()))
    labels_of_manual = set(re.findall(r"^\| `(\w+)` \| ", manual, re.MULTILINE)) - set(described)
    with world(program) as w:
        run = Run(w, "put_bw", "-s", "4K", "-D", "4").attach()
        run.moves()
        inner = w.emulated([program, "stat", "--prometheus"], "b")
        check(inner.finish() == 0, inner.text)
        run.finish()
    whole = Exposition(inner.text)
    check(whole.faults == [], *whole.faults)
    for name in sorted(set(described) ^ set(whole.families)):
        check(False, f"{name} is only in " + ("docs/metrics.md" if name in described else "the program's output"))
    for name, family in whole.families.items():
        kind, labels = described[name]
        check(family.type == kind, f"{name} is a {family.type}, and docs/metrics.md says {kind}")
        if family.samples:
            check(family.label_names() - {"le"} == labels, f"{name} has the labels {family.label_names()}, not {labels}")
        check(labels <= labels_of_manual, f"docs/metrics.md explains not all of {labels}")
    # The alerts use existing names.
    alerts = re.search(r"```yaml\n(.*?)```", manual, re.DOTALL)[1]
    names = set(re.findall(r"\bhbmwire_\w+", alerts))
    check(alerts.count("- alert:") == 3 and names <= set(described), "alerts of unknown metrics", names - set(described))
    for labels in re.findall(r"hbmwire_\w+\{([^}]*)\}", alerts):
        found = set(re.findall(r"(\w+)\s*[=!]", labels))
        check(found <= labels_of_manual, "alerts of unknown labels", found - labels_of_manual)


@contextlib.contextmanager
def stranger(body, **options):
    """A process of another program."""
    process = Process([sys.executable, "-c", WAITING.format(body)], **options)
    try:
        process.wait_for("ready")
        yield process
    finally:
        process.end()


def publishing(contents, more=""):
    return f"f = os.memfd_create({NAME!r}); os.write(f, {contents!r}); {more}"


def header(process, layout):
    """The beginning of a process' block, which is the same in every layout."""
    head = (1).to_bytes(4, "little") + bytes(12)
    return head + MAGIC + layout.to_bytes(4, "little") + process.to_bytes(4, "little")


def foreign(program):
    """Files with the same name and other contents: they are not shown, and cause no error."""
    nothing = {"garbage": os.urandom(5000), "empty": b"", "short": MAGIC, "zeros": bytes(2048)}
    for what, contents in nothing.items():
        with stranger(publishing(contents)) as process:
            text, errors, code = stat(program, "-p", process.handle.pid)
            check(code == 3 and text == "" and "does not publish" in errors, what, text, errors)
    # The process' own id is right; the rest is arbitrary.
    huge = "os.ftruncate(f, 1 << 40)"
    own = "f = os.memfd_create({!r}); h = bytes.fromhex({!r}); os.write(f, h + os.getpid().to_bytes(4, 'little') + {}); {}"
    rest = BLOCK_BYTES - len(header(0, 1))
    good = header(0, 1)[:-4].hex()
    for what, layout, tail, more, part in (
            ("another version", header(0, 99)[:-4].hex(), "bytes(2000)", "", "another version of hbmwire"),
            ("huge", good, "bytes(2000)", huge, "too large")):
        with stranger(own.format(NAME, layout, tail, more)) as process:
            text, errors, code = stat(program, "-p", process.handle.pid)
            check(code == 3 and text == "" and part in errors and str(process.handle.pid) in errors, what, text, errors)
            whole, errors, code = stat(program, "--prometheus")
            check(code == 0 and re.search("^hbmwire_unreadable_processes [1-9]", whole, re.MULTILINE), what, whole, errors)
    for tail in (f"bytes({rest})", f"os.urandom({rest})", f"os.urandom({rest + BLOCK_BYTES * 300})",
                 f"os.urandom({rest + BLOCK_BYTES * 3 + 17})"):
        with stranger(own.format(NAME, good, tail, "")) as process:
            text, errors, code = stat(program, "--json", "-p", process.handle.pid)
            check(code == 0 and len(json.loads(text)["processes"]) == 1, tail, text, errors)
            text, errors, code = stat(program, "--prometheus", "-p", process.handle.pid)
            check(code == 0 and Exposition(text).faults == [], *Exposition(text).faults)


def forked(program):
    """A child that has its parent's file open does not count as publishing; nor does a process to which the file was passed.
    """
    rest = BLOCK_BYTES - len(header(0, 1))
    own = (f"f = os.memfd_create({NAME!r}); h = bytes.fromhex({header(0, 1)[:-4].hex()!r}); "
           f"os.write(f, h + os.getpid().to_bytes(4, 'little') + bytes({rest})); child = os.fork()\n"
           "if child == 0:\n  time.sleep(100)\nprint('child', child, flush=True)")
    with stranger(own) as process:
        child = int(process.wait_for(r"child (\d+)")[1])
        text, errors, code = stat(program, "--json")
        shown = [each["process"] for each in json.loads(text)["processes"]]
        check(code == 0 and process.handle.pid in shown and child not in shown, text, errors)
        _, errors, code = stat(program, "-p", child)
        check(code == 3 and "does not publish" in errors, errors)


def other_user(program):
    only_root()
    with world(program) as w, tempfile.TemporaryDirectory(prefix="hbmwire-stat-") as folder:
        run = Run(w, "put_bw", "-s", "4K", "-D", "5").attach()
        # For a user that may not read the build tree: uses a copy of the program and its library.
        root = pathlib.Path(folder)
        root.chmod(0o755)
        built = pathlib.Path(program).resolve()
        for name in ("bin", "lib"):
            (root / name).mkdir()
        subprocess.run(["cp", "-L", built, root / "bin/hbmwire"], check=True)
        for library in (built.parent.parent / "lib").glob("libhbmwire.so*"):
            subprocess.run(["cp", "-L", library, root / "lib"], check=True)
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", root / "bin/hbmwire", "stat"]
        environment = {**os.environ, "LD_LIBRARY_PATH": str(root / "lib")}
        check_one_sentence(Process([*user, "-p", str(run.process)], env=environment), 3, f"process {run.process}", "another user's")
        check_one_sentence(Process(user, env=environment), 3, "no process of this user publishes")
        run.finish()


def no_proc(program):
    """Without /proc there is one message."""
    only_root()
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0:
        raise Skipped("no mount namespaces")
    library = pathlib.Path(program).resolve().parent.parent / "lib"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library)}
    for arguments, code in ((["stat"], 3), (["stat", "0.1"], 3), (["stat", "--prometheus"], 3), (["stat", "-p", "1"], 3)):
        process = Process(["unshare", "--mount", "sh", "-c", 'umount --lazy /proc && exec "$@"', "sh", program, *arguments],
                          env=environment)
        check_one_sentence(process, code, "/proc is not mounted")


def arguments(program):
    """Usage errors, each with its message."""
    for line, code, part in (
            (["-p", "4194303"], 3, "there is no such process"),
            (["-p", str(os.getpid())], 3, f"process {os.getpid()}: it does not publish counters"),
            (["-p", "0"], 2, "give a number from 1 to 4194304"),
            (["-p", "abc"], 2, "-p abc"),
            (["0.01"], 2, "give a number from 0.1 to 86400"),
            (["fast"], 2, "give a number from 0.1 to 86400"),
            (["1", "0"], 2, "COUNT 0"),
            (["1", "2", "3"], 2, "one argument too many"),
            (["--by", "path,nic"], 2, "--by path,nic"),
            (["--by", "nick"], 2, "did you mean nic?"),
            (["--json", "--prometheus"], 2, "leave one of them out"),
            (["--save", "x"], 2, "--save is about --prometheus"),
            (["--prometheus", "1"], 2, "give it with --save"),
            (["--json", "--by", "nic"], 2, "--by is about the table"),
            (["--prometheus", "--save", "/nonexistent/x"], 1, "/nonexistent/x")):
        check_one_sentence(Process([program, "stat", *line]), code, part)
    text, errors, code = stat(program, "--json", "-p", "4194303", "0.1")
    check(code == 3 and samples(text)[-1]["exit_code"] == 3 and samples(text)[-1]["error"] in errors, text, errors)


def nothing(program):
    """No process publishes, in a separate process namespace."""
    alone = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount", "--mount-proc"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode != 0:
        raise Skipped("no user namespaces")
    check_one_sentence(Process([*alone, program, "stat"]), 3, "no process of this user publishes", "HBMWIRE_STATS=yes")
    check_one_sentence(Process([*alone, program, "stat", "--json"]), 3, "no process of this user publishes")
    process = Process([*alone, program, "stat", "0.1", "2"])
    check(process.finish(10) == 0 and process.text.count("no process publishes its counters") == 2, process.text)
    process = Process([*alone, program, "stat", "--prometheus"])
    check(process.finish(10) == 0 and "\nhbmwire_processes 0\n" in process.text, process.text)
    check(Exposition(process.text).faults == [], process.text)


def signals(program):
    """Ctrl-C before COUNT samples is no regular end; a reader that leaves is a failure."""
    for arguments, code in ((["0.1", "1000"], 130), (["0.1"], 0), (["--json", "0.1"], 0)):
        process = Process([program, "stat", *arguments])
        process.wait_for(r"\n")
        process.handle.send_signal(signal.SIGINT)
        check(process.finish(5) == code, f"{process} gave another code than {code}", process.text)
    shell = Process(["sh", "-c", '"$0" stat --json 0.1 | head -n 1 >/dev/null; exit $?', program])
    check(shell.finish(10) == 0 and "Broken pipe" in shell.text, shell.text)


CASES = {
    "stat.perf": perf,
    "stat.perf_sweep": perf_sweep,
    "stat.perf_of_device": perf_of_device,
    "stat.faults": faults,
    "stat.killed": killed,
    "stat.ends_with_process": ends_with_process,
    "stat.table": table,
    "stat.prometheus": prometheus,
    "stat.metrics_manual": metrics_manual,
    "stat.foreign": foreign,
    "stat.forked": forked,
    "stat.other_user": other_user,
    "stat.no_proc": no_proc,
    "stat.arguments": arguments,
    "stat.nothing": nothing,
    "stat.signals": signals,
}
