# SPDX-License-Identifier: MIT
"""No marks of unfinished work, and no traces of the machine on which a change was written."""
import pathlib
import re

# Split, so that this file passes its own rule.
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")
BUILD_PATH = re.compile(r"(?<![\w$}.~-])/(home|work|workspace|Users|tmp/bash_jobs)/\w")
# A package mirror: a host with a repository path that does not belong to the distribution.
APT_LISTS = ("/etc/apt/sources.list", "/etc/apt/sources.list.d")
PUBLIC_HOST = re.compile(r"(^|\.)(debian\.org|ubuntu\.com|github\.com|nvidia\.com|radeon\.com|habana\.ai)$")


def mirror_hosts(lists=APT_LISTS):
    """The hosts from which this machine gets packages, except public ones."""
    hosts = set()
    for name in map(pathlib.Path, lists):
        for path in [name] if name.is_file() else sorted(name.glob("*")):
            hosts.update(re.findall(r"https?://([^/\s:]+)", path.read_text(errors="replace")))
    # A bare name or an address ("localhost", 127.0.0.1) occurs everywhere and reveals nothing.
    return sorted(h for h in hosts if re.search(r"\.[a-z]+$", h) and not PUBLIC_HOST.search(h))


def check(tree, hosts=None):
    hosts = mirror_hosts() if hosts is None else hosts
    for path in tree.files():
        for number, line in tree.lines(path):
            if match := UNFINISHED.search(line):
                yield f"{path}:{number}: says {match[0]}: finish it, or write down why not in words"
            if match := BUILD_PATH.search(line):
                yield f"{path}:{number}: holds a path of one machine: {match[0]}..."
            for host in hosts:
                if host in line:
                    yield f"{path}:{number}: names a package mirror of one machine: {host}"


GOOD = {"src/base/a.cpp": 'mkdtemp("/tmp/hbmwire-XXXXXX"); // see $HOME/src/x, https://a.b/home/c\n'}
BAD = [
    {"src/base/b.cpp": "// TO" "DO: later\n"},
    {"docs/b.md": "FIX" "ME\n"},
    {"CMakeLists.txt": 'set(x "/ho' 'me/someone/build")\n'},
    {"docs/c.md": "built in /wo" "rk/main\n"},
]
