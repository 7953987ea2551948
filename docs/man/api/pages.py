#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the man pages of section 3: one for each public type of the headers, and libhbmwire(3), which lists them."""
from __future__ import annotations

import argparse
import pathlib
import re
from dataclasses import dataclass, field

import roff
from headers import CLASSES, Headers, Item, run_doxygen

UMBRELLA = "hbmwire/hbmwire.hpp"
NAMESPACE = "hbmwire"
BRIEF_WIDTH = 80
API_MACRO = "HBMWIRE_API"


@dataclass
class Page:
    """A type, or a namespace of functions, with the free functions, constants and macros that belong to it."""
    name: str
    item: Item | None  # none: a namespace
    contract: list[str]
    header: str
    free: list[Item] = field(default_factory=list)

    @property
    def brief(self) -> str:
        """The first sentence, or as much of it as one line of apropos(1) takes."""
        first = re.split(r"(?<=[^.]{3})\. ", self.contract[0] if self.contract else "")[0].rstrip(".").replace("`", "")
        for seam in ("; |: | \\(", ", "):
            if len(first) > BRIEF_WIDTH:
                first = re.split(seam, first)[0]
        return first[0].lower() + first[1:] if re.match(r"[A-Z][a-z]*[ ,;:-]", first) else first


def make_pages(headers: Headers) -> dict[str, Page]:
    """A page for each type of a namespace, by name, and one for each namespace of functions."""
    pages = {one.name: Page(one.name, one, one.contract, one.header)
             for one in headers.types.values() if one.owner in headers.namespaces}
    for item in headers.free:
        page = page_of(headers, pages, item)
        if page is None and item.owner not in ("", NAMESPACE):
            page = pages[item.owner] = Page(item.owner, None, headers.namespaces[item.owner], item.header)
        if page is not None and (item.kind != "define" or item.contract):
            page.free.append(item)
        elif page is None and item.contract:
            raise SystemExit(f"{item.header}:{item.line}: {item.name} is on no page: let its comment name the type that it belongs to")
    return pages


def page_of(headers: Headers, pages: dict[str, Page], item: Item) -> Page | None:
    """The page of a free function or constant: of the first type of its header that it names, of any type that it names, or
    of the first one that its comment names. Those of a namespace of their own stay there."""
    if item.owner not in ("", NAMESPACE):
        return pages.get(item.owner)
    named = [pages[headers.types[ref].name] for ref in item.refs if ref in headers.types and headers.types[ref].name in pages]
    named.sort(key=lambda page: (page.header != item.header, page.item is not None and page.item.kind == "typedef"))
    spoken = [pages[name] for name in (f"{NAMESPACE}::{word}" for word in re.findall(r"\w+", " ".join(item.contract))) if name in pages]
    return next(iter(named + spoken), None)


def include_line(headers: Headers, header: str) -> str:
    umbrella = header in headers.included_by(UMBRELLA) and header != UMBRELLA
    return f"#include <{header}>" + (f"  // or <{UMBRELLA}>" if umbrella else "")


def code_of(item: Item, indent: int = 0) -> list[str]:
    """A declaration as C++ code; of a class and an enum with all of it."""
    pad = " " * indent
    lines = [pad + item.template] if item.template else []
    if item.kind == "enum":
        values = [one.declaration for one in item.members]
        whole = f"{pad}{item.declaration} {{ {', '.join(values)} }};"
        if len(whole) <= roff.CODE_WIDTH:
            return [*lines, whole]
        return [*lines, f"{pad}{item.declaration} {{", *roff.fill(values, indent + 2), f"{pad}}};"]
    if item.kind not in CLASSES:
        return [*lines, *roff.fold(item.declaration + ("" if item.kind == "define" else ";"), indent)]
    lines += [*roff.fold(f"{item.declaration} {{", indent)]
    access = "public" if item.kind == "struct" else ""
    for member in item.members:
        wanted = "protected" if member.protected else "public"
        if wanted != access:
            lines.append(f"{pad} {wanted}:")
        access = wanted
        lines += code_of(member, indent + 2)
    return [*lines, f"{pad}}};"]


def synopsis(headers: Headers, page: Page) -> str:
    """All declarations, by the headers that they are in."""
    owner = page.name.rpartition("::")[0] if page.item else page.name
    out = [".SH SYNOPSIS"]
    items = ([page.item] if page.item else []) + page.free
    for header in dict.fromkeys(one.header for one in items):
        here = [one for one in items if one.header == header]
        inside = [one for one in here if one.kind != "define"]
        lines = [include_line(headers, header), ""]
        if inside:
            lines += [f"namespace {owner} {{", ""]
            for one in inside:
                lines += code_of(one) + ([""] if one.kind in (*CLASSES, "enum") else [])
            lines += [*([] if lines[-1] == "" else [""]), f"}}  // namespace {owner}"]
        for one in here:
            if one.kind == "define":
                lines += ["", *code_of(one)]
        out += [*([".PP"] if len(out) > 1 else []), roff.block(lines)]
    return "\n".join(out)


def entries(items: list[Item]) -> list[str]:
    """Declarations with their contracts; those that share one stand together."""
    out: list[str] = []
    shown = [one for one in items if one.contract or any(inner.contract for inner in one.members)]
    for index, item in enumerate(shown):
        if item.contract and index and shown[index - 1].contract is item.contract:
            continue
        together = [one for one in shown[index:] if one.contract is item.contract]
        lines = [line for one in together for line in head_of(one)]
        out += [".PP", roff.block(lines, "B"), ".RS 4", roff.contract(item.contract), ".RE"]
        if item.kind in (*CLASSES, "enum"):
            inner = entries(item.members)
            out += [".RS 4", *inner, ".RE"] if inner else []
    return out


def head_of(item: Item) -> list[str]:
    """A declaration alone; of a class and an enum without what is in it."""
    return roff.fold(item.declaration) if item.kind in (*CLASSES, "enum", "value") else code_of(item)


def sections(page: Page) -> list[str]:
    """Its contents, by kind."""
    members = page.item.members if page.item else []
    public, protected = ([one for one in members if one.protected == asked] for asked in (False, True))
    functions = "FUNCTIONS" if page.item is None else "RELATED FUNCTIONS"
    named = [("VALUES", [one for one in public if one.kind == "value"]),
             ("TYPES", [one for one in public if one.kind in (*CLASSES, "enum", "typedef")]),
             ("MEMBERS", [one for one in public if one.kind == "variable"]),
             ("FUNCTIONS", [one for one in public if one.kind == "function"]),
             ("FOR DERIVED CLASSES", protected),
             (functions, [one for one in page.free if one.kind == "function"]),
             ("CONSTANTS", [one for one in page.free if one.kind == "variable"]),
             ("MACROS", [one for one in page.free if one.kind == "define"])]
    out = []
    for name, items in named:
        text = entries(items)
        out += [f".SH {name}", *text] if text else []
    return out


def types_of(headers: Headers, page: Page) -> set[str]:
    """The pages of the types that its declarations name."""
    items = [*([page.item] if page.item else []), *page.free]
    found: set[str] = set()
    while items:
        item = items.pop()
        items += item.members
        found |= {headers.types[ref].name for ref in item.refs if ref in headers.types}
    return found


def see_also(headers: Headers, pages: dict[str, Page], page: Page) -> str:
    """The types that it names, and of a type without functions also those that name it."""
    related = types_of(headers, page)
    if page.item is not None and not any(one.kind == "function" for one in page.item.members):
        related |= {one.name for one in pages.values() if page.name in types_of(headers, one)}
    names = sorted((related & pages.keys()) - {page.name}) + ["libhbmwire"]
    lines = [f".BR {roff.code(name)} (3)," for name in names]
    return "\n".join([".SH SEE ALSO", *lines, ".BR hbmwire (7)"])


def aliases(pages: dict[str, Page]) -> dict[str, str]:
    """Further names by which man(1) finds a page: nested types, and functions, constants and macros that one page alone has."""
    found: dict[str, set[str]] = {}
    for page in pages.values():
        nested = [one for one in page.item.members if one.kind in (*CLASSES, "enum")] if page.item else []
        for one in nested + page.free:
            if re.fullmatch(r"[\w:]+", one.name):
                found.setdefault(one.name, set()).add(page.name)
    return {name: next(iter(where)) for name, where in sorted(found.items()) if len(where) == 1 and name not in pages}


def render(headers: Headers, pages: dict[str, Page], page: Page, version: str) -> str:
    names = [page.name, *(name for name, target in aliases(pages).items() if target == page.name)]
    out = [roff.title(page.name, version), ".SH NAME",
           f"{', '.join(roff.code(name) for name in names)} \\- {roff.prose(page.brief)}", synopsis(headers, page)]
    if page.contract:
        out += [".SH DESCRIPTION", roff.contract(page.contract)]
    return "\n".join([*out, *sections(page), see_also(headers, pages, page)]) + "\n"


def listing(headers: Headers, pages: dict[str, Page]) -> str:
    """All pages with their one line, by header: those of <hbmwire/hbmwire.hpp> first."""
    common = headers.included_by(UMBRELLA)
    out = []
    for header in sorted({page.header for page in pages.values()}, key=lambda one: (one not in common, one)):
        out += [f".SS <{header}>"]
        comment = headers.header_comment(header)
        out += [roff.contract([comment])] if comment else []
        for page in sorted((one for one in pages.values() if one.header == header), key=lambda one: one.name):
            out += [".TP", f".BR {roff.code(page.name)} (3)", roff.text(page.brief)]
    return "\n".join(out)


def write_all(headers: Headers, version: str, docs: str, out: pathlib.Path) -> None:
    """Writes every page, and removes those that are no longer made."""
    pages = make_pages(headers)
    texts = {f"{name}.3": render(headers, pages, page, version) for name, page in pages.items()}
    texts |= {f"{name}.3": f".so man3/{target}.3\n" for name, target in aliases(pages).items()}
    overview = pathlib.Path(__file__).with_name("libhbmwire.3.in").read_text(encoding="utf-8")
    texts["libhbmwire.3"] = (overview.replace("@TITLE@", roff.title("libhbmwire", version)).replace("@DOCS@", roff.code(docs))
                             .replace("@PAGES@", listing(headers, pages)))
    out.mkdir(parents=True, exist_ok=True)
    # Those of the C interface are c_pages.py's.
    others = {*out.glob("hbmwire_*.3"), out / "libhbmwire_c.3"}
    for stale in set(out.glob("*.3")) - {out / name for name in texts} - others:
        stale.unlink()
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--doxygen", default="doxygen")
    parser.add_argument("--include", type=pathlib.Path, required=True, help="the folder that #include begins at")
    parser.add_argument("--version", required=True)
    parser.add_argument("--docs", required=True, help="where the documents that comments name are installed")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    given = parser.parse_args()
    include = given.include.resolve()
    headers = Headers(include, run_doxygen(given.doxygen, include, API_MACRO), API_MACRO)
    write_all(headers, given.version, given.docs, given.out)


if __name__ == "__main__":
    main()
