# SPDX-License-Identifier: MIT
"""The results of a run, written into emulation/docs: a summary in programs.md, each row in programs-rows.md."""
import datetime
import os
import pathlib
import platform
import subprocess
import sys

# The summary stands between these lines; the rest of the document is written by hand.
BEGIN = "<!-- begin: written by run.py --docs -->\n"
END = "<!-- end -->\n"

SUMMARY = """{count} rows ran {passes} on {date} ({system}): {verdict}.

| package | version | programs and their rows |
|---|---|---|
"""

ROWS_NAME = "programs-rows.md"
ROWS_HEAD = """# Rows of programs on the emulated NIC

Written by `emulation/tests/programs/run.py {arguments}` on {date}. [programs.md](programs.md) explains the rows.
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
    """A side's command as people would type it. Placeholders like {port} keep their names."""
    if side is None:
        return "-"
    shown = f"{side.program} {' '.join(side.arguments.split())}"
    settings = " ".join(f"{key}={value}" for key, value in row.environment.items())
    return "`" + f"{settings} {shown}".strip().replace("|", "\\|") + "`"


def where(row):
    """The nodes, networks, options and link changes of a row."""
    parts = ["one node" if row.one_node or row.server is None else "two nodes",
             {"": "", "one": "a network namespace", "two": "a network namespace each"}[row.network],
             f"`{row.emulate}`" if row.emulate else "", *(f"then `--link {link}`" for link in row.links)]
    return ", ".join(part for part in parts if part)


def passed(row, runs):
    """How often the row passed, and how often it ran."""
    count = sum(1 for _, results in runs if results[row.name] is None)
    return f"{count} of {len(runs)}" if count == len(runs) else f"**{count} of {len(runs)}**"


def passes(runs):
    """The users and the number of runs: "2 times as root and 2 times as an ordinary user"."""
    names = [who for who, _ in runs]
    return " and ".join(f"{names.count(who)} times as {who}" if names.count(who) > 1 else f"once as {who}"
                        for who in dict.fromkeys(names))


def programs(package, rows):
    """The programs of a package, as clients or alone, each with the number of its rows."""
    names = [row.name.partition(".")[0] for row in rows if row.package == package]
    return ", ".join(f"`{name}` {names.count(name)}" for name in dict.fromkeys(names))


def packages_of(rows):
    return list(dict.fromkeys(row.package for row in rows))


def summary(rows, runs):
    failures = sum(1 for _, results in runs for wrong in results.values() if wrong is not None)
    lines = [SUMMARY.format(date=datetime.date.today(), system=system(), count=len(rows), passes=passes(runs),
                            verdict=f"**{failures} failures**" if failures else "all passed")]
    lines += [f"| {package} | {version(package)} | {programs(package, rows)} |\n" for package in packages_of(rows)]
    return "".join(lines)


def with_summary(document, text):
    """The document with this text between the marks."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document lacks the lines {BEGIN.strip()} and {END.strip()}")
    return f"{before}{begin}\n{text}\n{end}{after}"


def table(rows, runs):
    arguments = " ".join(word for word in sys.argv[1:] if word != "--program" and not word.endswith("/emulate"))
    lines = [ROWS_HEAD.format(date=datetime.date.today(), arguments=arguments)]
    for package in packages_of(rows):
        lines.append(SECTION.format(package=package))
        lines += [f"| {row.name} | {text(row.server, row)} | {text(row.client, row)} | {where(row)} "
                  f"| {'full' if row.full else 'fast'} | {passed(row, runs)} |\n"
                  for row in rows if row.package == package]
    return "".join(lines)


def write(path, rows, runs):
    path = pathlib.Path(path)
    path.write_text(with_summary(path.read_text(encoding="utf-8"), summary(rows, runs)), encoding="utf-8")
    path.with_name(ROWS_NAME).write_text(table(rows, runs), encoding="utf-8")
