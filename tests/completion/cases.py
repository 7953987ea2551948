# SPDX-License-Identifier: MIT
"""The result of TAB for each line, in every shell. "^" marks the cursor if it is not at the end.

A text is the completed line, a set is the list of choices, and NOTHING leaves the line unchanged.
"""
import re
import subprocess

COMMANDS = ("server", "client", "perf", "info", "stat", "doctor", "trace", "emulate")
NOTHING = frozenset()
TESTS = {f"{verb}_{measure}" for verb in ("write", "read", "send", "atomic", "put", "get", "tag") for measure in ("bw", "lat")}
# Folders in the folder of the shell, which also contains apple.txt.
FOLDERS = {"alpha", "alone", "bin"}

CASES = {
    # Commands.
    "hbmwire ": set(COMMANDS),
    "hbmwire pe": "hbmwire perf",
    "hbmwire -": {"-h", "--help", "--version"},
    "hbmwire --v": "hbmwire --version",
    "hbmwire nosuch": NOTHING,
    "hbmwire nosuch -": NOTHING,
    # Names of options, including one that was already given.
    "hbmwire perf write_bw node2 --mem": "hbmwire perf write_bw node2 --memory",
    "hbmwire client --json --js": "hbmwire client --json --json",
    "hbmwire server --nosuch": NOTHING,
    # Values of options: choices.
    "hbmwire client -m ": {"gaudi", "cuda", "rocm", "host", "auto"},
    "hbmwire client --memory=": {"gaudi", "cuda", "rocm", "host", "auto"},
    "hbmwire server --owner s": "hbmwire server --owner synapse",
    "hbmwire perf -c ": {"RC", "UC", "UD"},
    "hbmwire perf --connection U": {"UC", "UD"},
    "hbmwire perf --connection=R": "hbmwire perf --connection=RC",
    "hbmwire perf --mtu 1": "hbmwire perf --mtu 1024",
    "hbmwire perf --memory ": {"gaudi", "cuda", "rocm", "host"},
    "hbmwire perf --memory=c": "hbmwire perf --memory=cuda",
    "hbmwire perf --memory cuda:": NOTHING,
    "hbmwire perf -A F": "hbmwire perf -A FETCH_AND_ADD",
    "hbmwire perf --rate_units ": {"g", "M", "p"},
    "hbmwire perf --dmabuf=t": "hbmwire perf --dmabuf=try",
    "hbmwire stat --by ": {"path", "nic", "peer"},
    "hbmwire stat --by=ni": "hbmwire stat --by=nic",
    "hbmwire stat --pid ": NOTHING,
    "hbmwire stat --prometheus --save ap": "hbmwire stat --prometheus --save apple.txt",
    "hbmwire stat --prom": "hbmwire stat --prometheus",
    "hbmwire stat 1": NOTHING,
    "hbmwire emulate --gaudi-kind ": {"gaudi", "gaudi2", "gaudi3"},
    "hbmwire emulate --bar=s": "hbmwire emulate --bar=small",
    "hbmwire emulate --like-hardware ": {"flush", "scatter", "relaxed", "all"},
    "hbmwire emulate --without ": {"dmabuf", "atomics", "last_wqe"},
    "hbmwire emulate --without emu1=a": "hbmwire emulate --without emu1=atomics",
    "hbmwire emulate --without=emu1=l": "hbmwire emulate --without=emu1=last_wqe",
    "hbmwire emulate --link-layer i": "hbmwire emulate --link-layer infiniband",
    "hbmwire emulate --link ": NOTHING,
    "hbmwire emulate --link emu0/1=": {"down", "up"},
    # Values of options that are files or folders, and values that are neither.
    "hbmwire client --file ": FOLDERS | {"apple.txt"},
    "hbmwire client --file ap": "hbmwire client --file apple.txt",
    "hbmwire perf write_bw --plot=ap": "hbmwire perf write_bw --plot=apple.txt",
    "hbmwire server --save ": FOLDERS,
    "hbmwire server --save=alp": "hbmwire server --save=alpha/",
    "hbmwire emulate --dir al": {"alpha", "alone"},
    "hbmwire perf --size a": NOTHING,
    "hbmwire perf --size ": NOTHING,
    "hbmwire client --card a": NOTHING,
    "hbmwire emulate --nics ": NOTHING,
    "hbmwire emulate --async=": NOTHING,
    # "--async" may be followed by another option.
    "hbmwire emulate --async --ni": "hbmwire emulate --async --nics",
    # Words that are no options.
    "hbmwire perf ": TESTS,
    "hbmwire perf wri": {"write_bw", "write_lat"},
    "hbmwire perf -d dev:1 --size=4K -b tag_l": "hbmwire perf -d dev:1 --size=4K -b tag_lat",
    "hbmwire perf write_bw no": {"node1", "node2"},
    "hbmwire perf write_bw -c RC oth": "hbmwire perf write_bw -c RC other",
    "hbmwire client oth": "hbmwire client other",
    "hbmwire client other al": NOTHING,
    # A subcommand, and names of hints.
    "hbmwire doctor --memory ": {"gaudi", "cuda", "rocm", "host"},
    "hbmwire doctor --replay ap": "hbmwire doctor --replay apple.txt",
    "hbmwire tr": "hbmwire trace",
    "hbmwire trace ap": "hbmwire trace apple.txt",
    "hbmwire trace --to": {"--to", "--top"},
    "hbmwire trace --fr": "hbmwire trace --from",
    "hbmwire doctor --with": "hbmwire doctor --with-addresses",
    "hbmwire doctor exp": "hbmwire doctor explain",
    "hbmwire doctor --ser": "hbmwire doctor --serve",
    "hbmwire doctor oth": "hbmwire doctor other",
    "hbmwire doctor explain no_rdma": "hbmwire doctor explain no_rdma_device",
    "hbmwire doctor explain --json no_roc": {"no_rocm", "no_rocm_device"},
    "hbmwire doctor explain no_rocm_device no_roc": NOTHING,
    "hbmwire doctor explain --js": "hbmwire doctor explain --json",
    "hbmwire doctor explain nosuch": NOTHING,
    # A command that runs in the emulated hardware.
    "hbmwire emulate -- hbmw": "hbmwire emulate -- hbmwire",
    "hbmwire emulate -- cat ap": "hbmwire emulate -- cat apple.txt",
    "hbmwire emulate --nics 2 -- hbmwire pe": "hbmwire emulate --nics 2 -- hbmwire perf",
    "hbmwire emulate --rate=emu0=1G -- hbmwire perf --connection=U": {"UC", "UD"},
    "hbmwire emulate -- ./bin/hbmwire perf wri": {"write_bw", "write_lat"},
    # The program with its path.
    "bin/hbmwire pe": "bin/hbmwire perf",
    "~/tools/hbmwire perf -c R": "~/tools/hbmwire perf -c RC",
    "bin/with\\ space/hbmwire inf": "bin/with\\ space/hbmwire info",
    "'bin/with space'/hbmwire inf": "'bin/with space'/hbmwire info",
    "nosuch/hbmwire ": NOTHING,
    # A program without the emulated hardware.
    "alone/bin/hbmwire emul": "alone/bin/hbmwire emulate",
    "alone/bin/hbmwire emulate ": NOTHING,
    "alone/bin/hbmwire emulate --": NOTHING,
    "alone/bin/hbmwire emulate -- cat ap": "alone/bin/hbmwire emulate -- cat apple.txt",
    # Quotes, and a cursor that is not at the end.
    "hbmwire perf -c \"R": "hbmwire perf -c \"RC\"",
    "hbmwire perf 'tag_l": "hbmwire perf 'tag_lat'",
    "hbmwire pe^ --json": "hbmwire perf --json",
    "hbmwire perf -c R^ write_bw": "hbmwire perf -c RC write_bw",
    "hbmwire --vers^ perf": "hbmwire --version perf",
}


def options_of(program, command):
    """The names that the help of a command shows between "Options:" and the next empty line."""
    done = subprocess.run([program, command, "--help"], check=True, text=True, stdout=subprocess.PIPE)
    section = re.search(r"^Options:\n(.*?)\n\n", done.stdout + "\n", re.MULTILINE | re.DOTALL)[1]
    return {name for names in re.findall(r"^  (-\S+)", section, re.MULTILINE) for name in names.split(",")}


def all_cases(program):
    cases = dict(CASES)
    for command in COMMANDS:
        names = options_of(program, command)
        cases[f"hbmwire {command} -"] = names
        cases[f"hbmwire {command} --"] = {name for name in names if name.startswith("--")}
    return cases
