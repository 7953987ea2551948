#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Manuals agree with the program, and man(1) shows their pages well.

usage: man_test.py CHECK TREE BUILD_FOLDER   prints one line for each fault, and exits with 1
       man_test.py CHECK --self-test         the check must accept good input, and refuse broken input

CHECK: options   the options of each manual are those of `hbmwire COMMAND --help`
       settings  the settings of hbmwire(7) are those of `hbmwire info -c`
       pages     man has no warnings about a page, and no line is wider than 80 columns

Exit status 77: the build has no pages, or the machine has no man.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
COLUMNS = 80
# The command, its manual, and the parts of the manual's section Options; without parts, the whole section.
MANUALS = [
    ("", "docs/hbmwire.md", ()),
    ("server", "docs/server-client.md", ("Both sides", "Server")),
    ("client", "docs/server-client.md", ("Both sides", "Client")),
    ("perf", "docs/perf.md", ()),
    ("perf --all", "docs/perf-all.md", ()),
    ("info", "docs/info.md", ()),
    ("stat", "docs/stat.md", ()),
    ("doctor", "docs/doctor.md", ()),
    ("trace", "docs/trace.md", ()),
    ("emulate", "emulation/docs/emulate.md", ()),
]
OPTION = re.compile(r"--?[A-Za-z0-9][\w-]*")


def output_of(*command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          encoding="utf-8", check=True).stdout


def options_of_help(text):
    """The names of the options in a help text: one in each line, indented by two to six blanks."""
    found = set()
    for line in text.splitlines():
        if match := re.match(r" {2,6}(-[\w-]+(?:, ?-[\w-]+)*)(?:[ \[]|$)", line):
            found.update(OPTION.findall(match[1]))
    return found


def options_of_manual(text, parts=()):
    """The names of the options that are terms of a definition list in the section Options, or in these parts of it."""
    section = part = None
    found = set()
    lines = text.splitlines()
    for line, following in zip(lines, lines[1:] + [""]):
        if match := re.match(r"(#{2,3}) (.*)", line):
            if match[1] == "##":
                section, part = match[2], None
            else:
                part = match[2]
        elif section == "Options" and (not parts or part in parts) and line.startswith("`-") and following.startswith(": "):
            for code in re.findall(r"`([^`]*)`", line):
                if match := OPTION.match(code):
                    found.add(match[0])
    return found


def differences(what, manual, in_manual, program, in_program):
    if not in_program:
        yield f"{program} lists no {what}: the test does not understand its output"
    for name in sorted(in_program - in_manual):
        yield f"{manual} lacks the {what} {name} of {program}"
    for name in sorted(in_manual - in_program):
        yield f"{manual} has the {what} {name}, which {program} lacks"


def check_options(tree, build):
    program = str(build / "bin" / "hbmwire")
    for command, manual, parts in MANUALS:
        arguments = [*command.split(), "--help"]
        listed = options_of_help(output_of(program, *arguments))
        described = options_of_manual((tree / manual).read_text(encoding="utf-8"), parts)
        yield from differences("option", manual, described, " ".join(["hbmwire", *arguments]), listed)


def settings_of_program(text):
    return set(re.findall(r"^#? ?(HBMWIRE_\w+)=", text, re.MULTILINE))


def settings_of_page(text):
    """The terms NAME=CHOICES of a page's definition lists."""
    return set(re.findall(r"^\.TP\n\\f\[B\](HBMWIRE_\w+)=", text, re.MULTILINE))


def check_settings(tree, build):
    del tree
    page = (build / "share/man/man7/hbmwire.7").read_text(encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HBMWIRE_")}
    shown = subprocess.run([build / "bin" / "hbmwire", "info", "-c"], env=environment, stdout=subprocess.PIPE, text=True,
                           encoding="utf-8", check=True).stdout
    yield from differences("setting", "hbmwire(7)", settings_of_page(page), "hbmwire info -c", settings_of_program(shown))


def man(page, *options):
    """The output of man for a page, as on a terminal of 80 columns."""
    environment = dict(os.environ, LC_ALL="C.UTF-8", MANROFFSEQ="", MANWIDTH=str(COLUMNS))
    # A page that only refers to another one gives its path relative to the folder that contains man1.
    return subprocess.run(["man", *options, "-E", "UTF-8", "-l", page], cwd=page.parent.parent, env=environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
                          check=False)


def faults_of_page(page):
    warned = man(page, "--warnings", "-Tutf8", "-Z")
    for line in warned.stderr.splitlines():
        yield f"{page.name}: {line}"
    if warned.returncode != 0 and not warned.stderr:
        yield f"{page.name}: man ends with {warned.returncode}"
    text = man(page).stdout
    if "NAME" not in text or "SEE ALSO" not in text:
        yield f"{page.name}: lacks the section NAME or SEE ALSO"
    for line in text.splitlines():
        if len(line) > COLUMNS:
            yield f"{page.name}: a line of {len(line)} columns: {line.strip()}"


def check_pages(tree, build):
    del tree
    for section in (1, 7):
        pages = sorted((build / f"share/man/man{section}").glob(f"*.{section}"))
        if not pages:
            yield f"there is no page of section {section}"
        for page in pages:
            yield from faults_of_page(page)


HELP = "Options:\n  -h,--help     Help\n  -p,--port PORT [1]   Where; see -q\n  --async [TIME]=50us ...\n      --version  It\n\n  Two -x\n"
MANUAL = ("## Description\n`-z`\n: No.\n## Options\n`-h`, `--help`\n: See `-z`.\n\n### Server\n`-p PORT`, `--port PORT`\n: It.\n\n"
          "### Client\n`--async[=TIME]`, `--version`\n: It.\n\n`-q` is none.\n## See also\n`-z`\n: No.\n")


def self_test_options():
    listed = {"-h", "--help", "-p", "--port", "--async", "--version"}
    yield options_of_help(HELP) == listed, "reads a help text"
    yield options_of_manual(MANUAL) == listed, "reads a manual"
    yield options_of_manual(MANUAL, ("Server",)) == {"-p", "--port"}, "reads a part of a manual"
    yield not list(differences("option", "m", listed, "p", listed)), "finds nothing in good input"
    for text in (MANUAL.replace("`--port PORT`", ""), MANUAL.replace(": It.", "It."), MANUAL.replace("--help", "--halp")):
        yield list(differences("option", "m", options_of_manual(text), "p", listed)), f"finds the fault of {text!r}"
    yield list(differences("option", "m", listed, "p", options_of_help(HELP + "  --new  New\n"))), "finds a new option"
    yield list(differences("option", "m", set(), "p", set())), "finds that nothing was read"


def self_test_settings():
    page = ".TP\n\\f[B]HBMWIRE_A=yes|no\\f[P] (default)\nText\n.TP\n\\f[B]HBMWIRE_CONFIG\\f[P]\nHBMWIRE_X=1\n"
    shown = "# HBMWIRE_B is new\n# yes|no\nHBMWIRE_A=yes\n"
    yield settings_of_page(page) == {"HBMWIRE_A"}, "reads a page"
    yield settings_of_program(shown) == {"HBMWIRE_A"}, "reads the program's output"
    yield settings_of_program(shown + "# HBMWIRE_C=\n") == {"HBMWIRE_A", "HBMWIRE_C"}, "reads a setting without a value"


def self_test_pages():
    head = '.TH "A" "1" "" "" ""\n.SH NAME\na \\- b\n'
    end = ".SH SEE ALSO\nb(1)\n"
    wide = ".EX\n" + "x" * 90 + "\n.EE\n"
    broken = {"macro": head + ".NOSUCH x\n" + end, "wide": head + wide + end, "section": head}
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "man1" / "a.1"
        page.parent.mkdir()
        page.write_text(head + end, encoding="utf-8")
        yield not list(faults_of_page(page)), "finds nothing in a good page"
        for name, text in broken.items():
            page.write_text(text, encoding="utf-8")
            yield list(faults_of_page(page)), f"finds the fault of the page: {name}"


CHECKS = {"options": (check_options, self_test_options), "settings": (check_settings, self_test_settings),
          "pages": (check_pages, self_test_pages)}


def lacking(name, arguments):
    """The reason why the check cannot be made here, or None."""
    if name == "pages" and shutil.which("man") is None:
        return "no man: scripts/setup test"
    if name != "options" and arguments != ["--self-test"] and not pathlib.Path(arguments[1], "share/man/man7/hbmwire.7").exists():
        return "no man pages: pandoc was not found when the build was configured: scripts/setup test"
    return None


def main(name, *arguments):
    arguments = list(arguments)
    if reason := lacking(name, arguments):
        # In the format that scripts/count_tests.py expects.
        print(f"man_test.py: Skipped\n{reason}")
        return SKIPPED
    check, self_test = CHECKS[name]
    if arguments == ["--self-test"]:
        found = [f"does not hold: {what}" for holds, what in self_test() if not holds]
    else:
        found = list(check(*map(pathlib.Path, arguments)))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in CHECKS:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
