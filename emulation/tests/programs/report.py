# SPDX-License-Identifier: MIT
"""emulation/docs/programs.md: what ran, written by the run that saw it."""
import datetime
import os
import pathlib
import platform
import subprocess
import sys

HEAD = """# Programs that run on the emulated NIC

Written by the run that saw it, not by hand, on {date} ({system}):

    emulation/tests/programs/run.py --program build/release/libexec/hbmwire/emulate {arguments}

Each program is Debian's own, by its absolute path, below `hbmwire emulate --`. A row passes if both sides end with exit
code 0 (or, where a program never ends by itself, with the signal that is to end it), say what
`emulation/tests/programs/table.toml` expects of them, and leave nothing behind. `fast` rows run in every
`scripts/test`, the others in `scripts/test --full`.

{count} rows ran {passes}: {verdict}.

| package | version |
|---|---|
"""

SECTION = """
## {package}

| row | server | client | where | suite | passed |
|---|---|---|---|---|---|
"""


def version(package):
    done = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], stdout=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL, check=True)
    return done.stdout


def system():
    names = dict(line.rstrip().split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines()
                 if "=" in line)
    return f"{names['PRETTY_NAME'].strip(chr(34))}, Linux {platform.release().split('-')[0]}, {os.cpu_count()} CPUs"


def text(side, row):
    """A side's command as people would type it: the places that a run fills in keep their names."""
    if side is None:
        return "-"
    shown = f"{side.program} {' '.join(side.arguments.split())}"
    settings = " ".join(f"{key}={value}" for key, value in row.environment.items())
    return "`" + f"{settings} {shown}".strip().replace("|", "\\|") + "`"


def where(row):
    """On which machines, in which networks, and what happens to them."""
    parts = ["one node" if row.one_node or row.server is None else "two nodes",
             {"": "", "one": "a network namespace", "two": "a network namespace each"}[row.network],
             f"`{row.emulate}`" if row.emulate else "", *(f"then `--link {link}`" for link in row.links)]
    return ", ".join(part for part in parts if part)


def passed(row, runs):
    """How often the row passed, out of how many times."""
    count = sum(1 for _, results in runs if results[row.name] is None)
    return f"{count} of {len(runs)}" if count == len(runs) else f"**{count} of {len(runs)}**"


def passes(runs):
    """As whom, and how often: "2 times as root and 2 times as an ordinary user"."""
    names = [who for who, _ in runs]
    return " and ".join(f"{names.count(who)} times as {who}" if names.count(who) > 1 else f"once as {who}"
                        for who in dict.fromkeys(names))


def write(path, rows, runs):
    packages = list(dict.fromkeys(row.package for row in rows))
    failures = sum(1 for _, results in runs for wrong in results.values() if wrong is not None)
    arguments = " ".join(word for word in sys.argv[1:] if word != "--program" and not word.endswith("/emulate"))
    lines = [HEAD.format(date=datetime.date.today(), system=system(), arguments=arguments, count=len(rows),
                         passes=passes(runs), verdict=f"**{failures} failures**" if failures else "all passed")]
    lines += [f"| {package} | {version(package)} |\n" for package in packages]
    for package in packages:
        lines.append(SECTION.format(package=package))
        lines += [f"| {row.name} | {text(row.server, row)} | {text(row.client, row)} | {where(row)} "
                  f"| {'full' if row.full else 'fast'} | {passed(row, runs)} |\n"
                  for row in rows if row.package == package]
    pathlib.Path(path).write_text("".join(lines), encoding="utf-8")
