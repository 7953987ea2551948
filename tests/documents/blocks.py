# SPDX-License-Identifier: MIT
"""Finds the shell commands in the documents."""
import dataclasses
import pathlib
import re
import subprocess

# A line of a code block is a command if it begins with one of these, after a prompt and variables; in a block marked `sh`
# every line is one.
PROGRAMS = re.compile(r"(\./|scripts/|tests/|emulation/tests/|build/|bundle/|[a-zA-Z]+='|[A-Z]=\$|printf '|for \w+ in)|"
                      r"(hbmwire|mpirun|srun|kubectl|torchrun|vllm|cmake|ctest|tar|bpftrace|zcat|head)\b")
# The program's own messages.
SAID = re.compile(r"hbmwire( \w+:| \d|:)")
PROMPT = re.compile(r"^(?:\w+)?\$ ")
VARIABLES = re.compile(r"^(?:[A-Z_]+=\S+ )+")
FENCE = re.compile(r"^ {0,3}(```|~~~)(\w*)")
SPOKEN = re.compile(r"`hbmwire ([a-z]+)\b([^`]*)`", re.DOTALL)


@dataclasses.dataclass
class Block:
    line: int
    commands: list


def documents(source):
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=source, capture_output=True, text=True, check=True).stdout.split()
    return [pathlib.Path(source) / name for name in sorted(listed)]


def code_blocks(text):
    """Each code block: its first line's number, language, and lines."""
    fence, language, start, lines = None, "", 0, []
    before = ""
    for number, line in enumerate(text.split("\n") + [""], 1):
        mark = FENCE.match(line)
        if mark and fence in (None, mark[1]):
            if fence is None:
                fence, language, start, lines = mark[1], mark[2], number + 1, []
            else:
                yield start, language, lines
                fence, lines = None, []
        elif fence:
            lines.append(line)
        elif line.startswith("    ") and (lines or not before.strip()):
            if not lines:
                start, language = number, ""
            lines.append(line[4:])
        elif lines and line.strip():
            yield start, language, lines
            lines = []
        elif lines:
            lines.append("")
        before = line
    if lines:
        yield start, language, lines


def is_command(line):
    line = PROMPT.sub("", line.strip())
    bare = VARIABLES.sub("", line)
    return bool(PROGRAMS.match(bare) or PROGRAMS.match(line)) and not SAID.match(bare)


def commands_in(language, lines):
    """Logical lines that are commands: a backslash, an open quotation or an indented pipe continues one."""
    if language == "sh":
        return [line for line in lines if line.strip()]
    if language not in ("", "txt", "text", "console"):
        return []
    commands, goes_on, in_output = [], False, any(PROMPT.match(line) for line in lines)
    for line in lines:
        if goes_on:
            commands[-1] += "\n" + line
        elif is_command(line) and (not in_output or PROMPT.match(line)):
            commands.append(PROMPT.sub("", line))
        elif commands and re.match(r"\s+(\||done)|done", line):
            commands[-1] += "\n" + line
        else:
            continue
        text = commands[-1]
        goes_on = text.endswith("\\") or text.count('"') % 2 == 1 or text.count("'") % 2 == 1 or (
            text.startswith("for ") and not text.rstrip().endswith("done"))
    return commands


def is_synopsis(commands):
    """The forms of a command, with brackets and capital letters, are compared with --help by other tests."""
    return any(re.search(r"\[[-A-Z]|\]\.\.\.|hbmwire COMMAND|LAUNCHER|TEST (HOST|--)|\bhbmwire --(help|version)$", each)
               for each in commands)


def paragraphs(start, lines):
    """The parts of a code block between empty lines."""
    part = []
    for number, line in enumerate([*lines, ""], start):
        if line.strip():
            part.append(line)
        elif part:
            yield number - len(part), part
            part = []


def blocks_of(document):
    for start, language, lines in code_blocks(document.read_text(encoding="utf-8")):
        for line, part in paragraphs(start, lines):
            commands = commands_in(language, part)
            if commands and not (language == "" and is_synopsis(commands)):
                yield Block(line, commands)


def spoken_commands(document):
    """(command, options) of each `hbmwire COMMAND ...` within a sentence."""
    for command, words in SPOKEN.findall(document.read_text(encoding="utf-8")):
        if command == "emulate":
            words = words.split(" -- ")[0]
        yield command, re.findall(r"(?<!\S)(--?[a-zA-Z][\w-]*)", words)
