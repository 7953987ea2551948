#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the man pages of section 3 for the C interface: one for each part of hbmwire.h, by which man(1) finds every function and
type of it, and libhbmwire_c(3), which lists them. The format of these headers is relied upon: a comment, the declarations that it is
about, an empty line."""
from __future__ import annotations

import argparse
import pathlib
import re
from dataclasses import dataclass, field

import roff

UMBRELLA = "hbmwire.h"
NOT_SHOWN = re.compile(r"#|extern \"C\"|\}$|// (?!/)")


@dataclass
class Group:
    """Declarations that share a comment."""
    contract: list[str] = field(default_factory=list)  # paragraphs
    lines: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        code = " ".join(re.sub(r"//.*", "", line) for line in self.lines)
        found = re.findall(r"\b(hbmwire_\w+)\((?!\*)", code) + re.findall(r"typedef [^;{]*?\b(hbmwire_\w+);", code)
        found += re.findall(r"\} (hbmwire_\w+);", code) + re.findall(r"\(\*(hbmwire_\w+)\)", code)
        return list(dict.fromkeys(found))


@dataclass
class Part:
    name: str  # "hbmwire_endpoint"
    header: str
    brief: str
    groups: list[Group]


def read_part(path: pathlib.Path) -> Part:
    lines = path.read_text(encoding="utf-8").splitlines()
    groups, now = [], Group()
    for line in [*lines[2:], ""]:
        if line.startswith("///"):
            if now.lines:
                groups.append(now)
                now = Group()
            text = line[3:].strip()
            if not now.contract or not text:
                now.contract.append(text)
            else:
                now.contract[-1] = f"{now.contract[-1]} {text}".strip()
        elif not line.strip():
            if now.lines:
                groups.append(now)
            now = Group()
        elif not NOT_SHOWN.match(line):
            now.lines.append(line)
    kept: list[Group] = []
    for one in groups:
        if one.contract:
            kept.append(one)
        elif kept:
            kept[-1].lines += one.lines  # the constants of a type
    return Part(f"hbmwire_{path.stem}", f"hbmwire/c/{path.name}", lines[1].removeprefix("// ").rstrip("."), kept)


@dataclass
class Member:
    declaration: str
    comment: str


@dataclass
class Declaration:
    """A function or a typedef, or the head of a structure or an enumeration with its members."""
    head: str
    members: list[Member] = field(default_factory=list)
    tail: str = ""


def declarations(group: Group) -> list[Declaration]:
    out: list[Declaration] = []
    before, open_, inside = "", "", False
    for line in group.lines:
        code, _, comment = line.partition("//")
        code, comment = code.strip(), comment.lstrip("/<").strip()
        if inside and code.startswith("}"):
            out[-1].tail, inside = code, False
        elif inside and not code:
            if out[-1].members and not line.strip().startswith("/// "):
                out[-1].members[-1].comment += f" {comment}"
            else:
                before = f"{before} {comment}".strip()
        elif inside:
            open_ = f"{open_} {code}".strip()
            if open_.endswith((";", ",")):
                out[-1].members.append(Member(open_, before or comment))
                before, open_ = "", ""
        elif code.endswith("{"):
            out.append(Declaration(code))
            inside = True
        elif code:
            open_ = f"{open_} {code}".strip()
            if open_.endswith(";"):
                out.append(Declaration(open_.removeprefix("HBMWIRE_C_API ")))
                open_ = ""
    return out


def code_of(declaration: Declaration) -> list[str]:
    if not declaration.members:
        return roff.fold(declaration.head)
    if all(not one.comment for one in declaration.members):
        names = [one.declaration.rstrip(",") for one in declaration.members]
        return [declaration.head, *roff.fill(names, 2), declaration.tail]
    return [declaration.head, *(f"  {one.declaration}" for one in declaration.members), declaration.tail]


def described(group: Group) -> list[str]:
    """The declarations of a group with its contract, and the members with theirs."""
    all_ = declarations(group)
    lines = [line for one in all_ for line in code_of(one)]
    out = [".PP", roff.block(lines, "B"), ".RS 4", roff.contract([one for one in group.contract if one]), ".RE"]
    for member in (one for declaration in all_ for one in declaration.members if one.comment):
        out += [".RS 4", ".TP", f"\\fB{roff.code(member.declaration.rstrip(',;'))}\\fP", roff.contract([member.comment]), ".RE"]
    return out


def render(part: Part, version: str) -> str:
    functions = [one for group in part.groups for one in declarations(group) if not one.members]
    synopsis = [f"#include <{UMBRELLA}>", "", *(line for one in functions for line in roff.fold(one.head))]
    types = [group for group in part.groups if not any("(" in one.head for one in declarations(group))]
    calls = [group for group in part.groups if group not in types]
    names = [name for group in part.groups for name in group.names if name != part.name]
    out = [roff.title(part.name, version), ".SH NAME",
           f"{', '.join(roff.code(name) for name in [part.name, *names])} \\- {roff.prose(part.brief[0].lower() + part.brief[1:])}",
           ".SH SYNOPSIS", roff.block(synopsis)]
    for title, groups in (("TYPES", types), ("FUNCTIONS", calls)):
        if groups:
            out += [f".SH {title}", *(line for group in groups for line in described(group))]
    return "\n".join([*out, ".SH SEE ALSO", ".BR libhbmwire_c (3),", ".BR hbmwire (7)"]) + "\n"


def overview(include: pathlib.Path, parts: list[Part], version: str) -> str:
    """The rules that hbmwire.h begins with, and the pages."""
    lines = (include / UMBRELLA).read_text(encoding="utf-8").splitlines()
    paragraphs = " ".join(line[3:].strip() or "@" for line in lines if line.startswith("///")).split("@")
    out = [roff.title("libhbmwire_c", version), ".SH NAME", "libhbmwire_c \\- the C interface of libhbmwire(3)", ".SH SYNOPSIS",
           roff.block([f"#include <{UMBRELLA}>", "", "cc -std=c11 put.c $(pkg-config --cflags --libs hbmwire_c)"]),
           ".SH DESCRIPTION", roff.contract([one.strip() for one in paragraphs]), ".SH PAGES"]
    for part in parts:
        out += [".TP", f".BR {roff.code(part.name)} (3)", roff.text(part.brief)]
    return "\n".join([*out, ".SH SEE ALSO", ".BR libhbmwire (3),", ".BR hbmwire (7)"]) + "\n"


def write_all(include: pathlib.Path, version: str, out: pathlib.Path) -> None:
    """Writes every page, and removes those of the C interface that are no longer made."""
    parts = [read_part(path) for path in sorted((include / "hbmwire/c").glob("*.h"))]
    texts = {"libhbmwire_c.3": overview(include, parts, version)}
    for part in parts:
        for name in (name for group in part.groups for name in group.names):
            texts[f"{name}.3"] = f".so man3/{part.name}.3\n"
    texts |= {f"{part.name}.3": render(part, version) for part in parts}
    out.mkdir(parents=True, exist_ok=True)
    for stale in set(out.glob("hbmwire_*.3")) - {out / name for name in texts}:
        stale.unlink()
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--include", type=pathlib.Path, required=True, help="the folder that has hbmwire.h")
    parser.add_argument("--version", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    given = parser.parse_args()
    write_all(given.include, given.version, given.out)


if __name__ == "__main__":
    main()
