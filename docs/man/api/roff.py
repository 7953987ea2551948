# SPDX-License-Identifier: MIT
"""man(7) roff: text with names set in bold, and C++ that is broken to fit."""
from __future__ import annotations

import re

CODE_WIDTH = 71  # of 80 columns seven are the margin, and groff leaves two
TITLE_WIDTH = 28  # twice on the first line of a page, with "(3)" and the name of the manual between them
SPECIAL = {"\\": r"\e", "-": r"\-", "^": r"\(ha", "~": r"\(ti", "`": r"\(ga", "'": r"\(aq", '"': r"\(dq"}

# In the text of a contract: `code`, poll(2), Class::member(), Errc::busy, function(), HBMWIRE_VARIABLE.
NAMES = re.compile(r"""`(?P<code>[^`]+)`
  | (?P<page>\b[\w.:]*\w)(?P<section>\([1-8]\))
  | (?P<name>\b(?:\w+::)+~?\w+|\b[a-z_]\w*(?=\(\))|\bHBMWIRE_\w+\b)(?P<call>\(\))?""", re.VERBOSE)
SEAMS = re.compile(r"(?<=,) |(?<= =) (?!\{\})|(?<= \|) |(?<= &&) |(?<=>) (?=\w+ = )")
LABEL = r"(?:Errors|Threads|Source|Cost)\b(?:[^.:]|::){0,40}:(?!:)"


def code(text: str) -> str:
    """Text that is to be printed as it is."""
    return "".join(SPECIAL.get(each, each) for each in text)


def prose(text: str) -> str:
    """Text in which dashes and quotes may be typeset; a minus before a digit stays one."""
    text = text.replace("\\", r"\e").replace("^", r"\(ha").replace("~", r"\(ti").replace("`", r"\(ga")
    return re.sub(r"-(?=\d)|(?<=[\w/])-(?=-)", r"\-", text)


def marked(match: re.Match[str]) -> str:
    if match["code"]:
        return rf"\fI{code(match['code'])}\fP"
    if match["page"]:
        return rf"\fB{code(match['page'])}\fP{match['section']}"
    return rf"\fB{code(match['name'])}\fP{match['call'] or ''}"


def text(contract: str) -> str:
    """A paragraph of a contract, a sentence a line."""
    parts, last = [], 0
    for match in NAMES.finditer(contract):
        parts += [prose(contract[last:match.start()]), marked(match)]
        last = match.end()
    line = "".join([*parts, prose(contract[last:])])
    line = re.sub(r"(?<=[.?!]) (?=[A-Z\\])", "\n", line)
    return re.sub(r"^(?=[.'])", r"\\&", line, flags=re.MULTILINE)


def sentence(contract: str) -> str:
    """Comments behind members are often parts of sentences: with a capital and a full stop, all look alike."""
    if re.match(r"(?!(?:yes|no|true|false):)[a-z][a-z-]*(?:[ ,;:.]|$)", contract):
        contract = contract[0].upper() + contract[1:]
    return contract if contract[-1] in ".?!:" else contract + "."


def contract(paragraphs: list[str]) -> str:
    """All of a contract: errors, threads and sources begin paragraphs of their own."""
    out = []
    for paragraph in paragraphs:
        for part in re.split(rf"(?<=[.)]) (?={LABEL})", sentence(paragraph)):
            label = re.match(LABEL, part)
            out.append(text(part) if label is None else rf"\fI{prose(label[0])}\fP{text(part[label.end():])}")
    return "\n.PP\n".join(out)


def fold(declaration: str, indent: int = 0, width: int = CODE_WIDTH) -> list[str]:
    """Breaks a declaration behind commas and operators and before the arguments, four columns further in."""
    lines, line = [], " " * indent
    head, bracket, arguments = declaration.partition("(")
    if " = " in head or not bracket:
        pieces = SEAMS.split(declaration)
    else:
        pieces = [f"{head}(", *SEAMS.split(arguments)]
    for piece in pieces:
        joint = "" if line.endswith("(") or not line.strip() else " "
        if line.strip() and len(line + joint + piece) > width:
            lines.append(line)
            line, joint = " " * (indent + 4), ""
        line += joint + piece
    return [*lines, line]


def fill(names: list[str], indent: int, width: int = CODE_WIDTH) -> list[str]:
    """Short items with commas between them, as many to a line as fit."""
    lines, line = [], ""
    for name in names:
        if line and indent + len(f"{line} {name},") > width:
            lines.append(" " * indent + line)
            line = ""
        line = f"{line} {name},".lstrip()
    return [*lines, " " * indent + line]


def block(lines: list[str], font: str = "") -> str:
    """Lines of code, neither filled nor broken."""
    body = [f"\\&{code(line)}" if line.startswith((".", "'")) else code(line) for line in lines]
    return "\n".join([".nf", *([f".ft {font}"] if font else []), *body, *([".ft P"] if font else []), ".fi"])


def title(page: str, version: str) -> str:
    """Without a date, so that each build of a version makes the same page; left-adjusted, and no name is hyphenated."""
    manual = "hbmwire library" if len(page) <= TITLE_WIDTH else ""
    return f'.TH "{page}" 3 "" "hbmwire {version}" "{manual}"\n.nh\n.ad l'
