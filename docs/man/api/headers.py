# SPDX-License-Identifier: MIT
"""The public declarations of the headers and their contracts, read from doxygen's XML (1.9.4 and 1.9.8)."""
from __future__ import annotations

import pathlib
import re
import subprocess
import tempfile
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field

# No markdown and no links: the comments are plain text, and pages.py marks names in them by itself.
DOXYFILE = """
INPUT = "{include}"
RECURSIVE = YES
FILE_PATTERNS = *.hpp
STRIP_FROM_PATH = "{include}"
STRIP_FROM_INC_PATH = "{include}"
OUTPUT_DIRECTORY = "{out}"
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
EXTRACT_ALL = YES
JAVADOC_AUTOBRIEF = NO
MARKDOWN_SUPPORT = NO
AUTOLINK_SUPPORT = NO
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = "{api_macro}="
QUIET = YES
"""
CLASSES = ("class", "struct")


@dataclass
class Item:
    """A declaration: a class with its members, an enum with its values, a function, a constant, a macro."""
    kind: str
    owner: str  # the namespace or class around it: "hbmwire::Worker"
    own_name: str  # "create"
    declaration: str  # one line of C++ without its semicolon
    contract: list[str]  # paragraphs
    header: str  # "hbmwire/worker.hpp"
    line: int
    refs: list[str] = field(default_factory=list)  # ids of what the declaration names, in its order
    members: list[Item] = field(default_factory=list)
    protected: bool = False
    template: str = ""  # "template <class T>"
    arguments: str = ""  # of a function, behind its name
    inner: list[str] = field(default_factory=list)  # ids of nested classes

    @property
    def name(self) -> str:
        return f"{self.owner}::{self.own_name}" if self.owner else self.own_name


def run_doxygen(doxygen: str, include: pathlib.Path, api_macro: str) -> list[ET.Element]:
    """The compounds of all headers below `include`, in a stable order. A warning of doxygen's is an error."""
    with tempfile.TemporaryDirectory() as out:
        settings = DOXYFILE.format(include=include, out=out, api_macro=api_macro)
        done = subprocess.run([doxygen, "-"], input=settings, text=True, capture_output=True, check=False)
        if done.returncode != 0 or "warning:" in done.stderr:
            raise SystemExit(f"{doxygen} does not understand the headers:\n{done.stderr}")
        return [compound for path in sorted(pathlib.Path(out, "xml").glob("*.xml")) if path.name != "index.xml"
                for compound in ET.parse(path).getroot().iter("compounddef")]


def text_of(element: ET.Element | None) -> str:
    return "" if element is None else " ".join("".join(element.itertext()).split())


def paragraphs(element: ET.Element) -> list[str]:
    """The comment of a declaration: what stands before it, and what stands behind it on its line."""
    found = []
    for part in ("briefdescription", "detaileddescription"):
        found += [text_of(paragraph) for paragraph in element.findall(f"{part}/para")]
    return [one for one in found if one]


def tidy_type(text: str) -> str:
    """A type or a list of arguments as clang-format writes them: "const std::span<int>& a = {}"."""
    text = re.sub(r"\s*<\s+", "<", text)
    text = re.sub(r"\s+>", ">", text)
    text = re.sub(r"\s+(&&|&|\*)\s*", r"\1 ", text)
    text = re.sub(r"(&&|&|\*)\s+(?=[),>]|$)", r"\1", text)
    text = re.sub(r"\s*=\s*", " = ", text)
    return re.sub(r"\b(?:enum|struct|class) (?=[\w:]+::)", "", text).strip()


def template_of(element: ET.Element) -> str:
    """"template <class T>", or nothing."""
    listed = element.find("templateparamlist")
    if listed is None:
        return ""
    each = [f"{tidy_type(text_of(one.find('type')))} {text_of(one.find('declname'))}".strip() for one in listed]
    return f"template <{', '.join(each)}>"


def shorten(text: str, owner: str) -> str:
    """Without the namespaces and classes that the declaration stands in."""
    while owner:
        text = text.replace(f"{owner}::", "")
        owner = owner.rpartition("::")[0]
    return text


def references(element: ET.Element) -> list[str]:
    """The names in its type, its parameters and its value."""
    places = [*element.findall("type"), *element.findall("param"), *element.findall("initializer")]
    return [ref.get("refid", "") for place in places for ref in place.iter("ref")]


def words(*pairs: tuple[bool, str]) -> str:
    return "".join(f"{word} " for wanted, word in pairs if wanted)


def declare(element: ET.Element, owner: str) -> str:
    """One line of C++."""
    name, kind = text_of(element.find("name")), element.get("kind")
    if kind == "define":
        parameters = ", ".join(text_of(one) for one in element.findall("param"))
        return f"#define {name}({parameters})" if parameters else f"#define {name}"
    given = re.sub(r"^(?:(?:static|constexpr|inline|explicit|virtual)\s+)+", "", text_of(element.find("type")))
    type_ = shorten(tidy_type(given), owner)
    if kind == "typedef":
        return f"using {name} = {type_}"
    if kind == "enum":
        return f"enum {words((element.get('strong') == 'yes', 'class'))}{name}" + (f" : {type_}" if type_ else "")
    before = words((element.get("explicit") == "yes", "explicit"), (element.get("static") == "yes", "static"),
                   (element.get("virt") in ("virtual", "pure-virtual"), "virtual"),
                   (element.get("constexpr") == "yes" or "constexpr " in text_of(element.find("type")), "constexpr"))
    if kind == "variable":
        value = text_of(element.find("initializer"))
        extent = text_of(element.find("argsstring"))  # "[48]"
        return f"{before}{type_} {name}{extent}{' ' if value.startswith('=') else ''}{value}"
    return f"{before}{f'{type_} ' if type_ else ''}{name}{tidy_type(text_of(element.find('argsstring')))}"


def place(element: ET.Element) -> tuple[str, int]:
    at = element.find("location")
    assert at is not None
    return at.get("declfile", at.get("file", "")), int(at.get("declline", at.get("line", "0")))


def read_member(element: ET.Element, owner: str) -> Item:
    header, line = place(element)
    name = text_of(element.find("name"))
    item = Item(element.get("kind", ""), owner, name, declare(element, owner), paragraphs(element),
                header, line, references(element), protected=element.get("prot") == "protected",
                template=template_of(element), arguments=tidy_type(text_of(element.find("argsstring"))))
    for value in element.findall("enumvalue"):
        value_name, set_to = text_of(value.find("name")), text_of(value.find("initializer"))
        item.members.append(Item("value", item.name, value_name, f"{value_name} {set_to}".strip(), paragraphs(value), header, line))
    return item


def is_shown(item: Item) -> bool:
    """Leaves out functions that cannot be called or that the compiler writes, unless they have a comment."""
    if item.kind == "friend" or "= delete" in item.arguments:
        return False
    last = item.owner.rpartition("::")[2]
    special = item.kind == "function" and (
        item.own_name == f"~{last}" or "= default" in item.arguments or item.arguments.startswith("()") and item.own_name == last
        or item.own_name in (last, "operator=") and re.match(rf"\((?:const )?{last}\b ?&", item.arguments) is not None)
    return not special or bool(item.contract)


def read_class(compound: ET.Element) -> Item:
    name = text_of(compound.find("compoundname"))
    owner, _, own_name = name.rpartition("::")
    header, line = place(compound)
    kind = compound.get("kind", "")
    bases = [f"{base.get('prot')} {tidy_type(text_of(base))}" for base in compound.findall("basecompoundref")]
    declaration = f"{kind} {own_name}" + (f" : {', '.join(bases)}" if bases else "")
    item = Item(kind, owner, own_name, declaration, paragraphs(compound), header, line, template=template_of(compound),
                inner=[one.get("refid", "") for one in compound.findall("innerclass") if one.get("prot") == "public"])
    members = [read_member(one, name) for one in compound.iter("memberdef") if one.get("prot") in ("public", "protected")]
    item.members = sorted(members, key=lambda one: (one.protected, one.line))
    return item


def read_concept(compound: ET.Element) -> Item:
    owner, _, own_name = text_of(compound.find("compoundname")).rpartition("::")
    header, line = place(compound)
    value = text_of(compound.find("initializer")).partition(" = ")[2]
    return Item("concept", owner, own_name, f"concept {own_name} = {value}", paragraphs(compound), header, line,
                template=template_of(compound))


class Headers:
    """All that the headers below one folder declare, outside of namespaces called detail."""

    def __init__(self, include: pathlib.Path, compounds: list[ET.Element], api_macro: str) -> None:
        self.include = include
        self.api_macro = api_macro  # marks what is exported; nothing for a page
        self.types: dict[str, Item] = {}  # by doxygen's id: classes, enums, aliases and concepts of namespaces, and nested ones
        self.namespaces: dict[str, list[str]] = {}  # contracts, by name
        free: dict[tuple[str, int, str], Item] = {}  # a member may stand in a file and in a namespace
        for compound in compounds:
            self.read(compound, free)
        self.free = sorted((one for one in free.values() if one.kind not in ("enum", "typedef")),
                           key=lambda one: (one.header, one.line))
        self.nest_classes()
        for one in self.types.values():
            self.share_contracts(one.members)
            one.members = [member for member in one.members if is_shown(member)]
        self.share_contracts(self.free)

    def read(self, compound: ET.Element, free: dict[tuple[str, int, str], Item]) -> None:
        kind, name = compound.get("kind"), text_of(compound.find("compoundname"))
        if "detail" in name.split("::") or name.split("::")[0] == "std":
            return
        if kind in CLASSES and compound.get("prot") == "public":
            self.types[compound.get("id", "")] = read_class(compound)
        elif kind == "concept":
            self.types[compound.get("id", "")] = read_concept(compound)
        elif kind in ("namespace", "file"):
            if kind == "namespace":
                self.namespaces[name] = paragraphs(compound)
            for element in compound.iter("memberdef"):
                qualified = text_of(element.find("qualifiedname"))
                item = read_member(element, qualified.rpartition("::")[0] if element.get("kind") != "define" else "")
                if "detail" in item.name.split("::") or item.name == self.api_macro:
                    continue
                free.setdefault((item.header, item.line, item.name), item)
                if item.kind in ("enum", "typedef"):
                    self.types.setdefault(element.get("id", ""), item)

    def nest_classes(self) -> None:
        """Puts nested classes among the members of the class around them."""
        for outer in list(self.types.values()):
            outer.members += [self.types[one] for one in outer.inner if one in self.types]
            outer.members.sort(key=lambda one: (one.protected, one.line))

    def lines(self, header: str) -> list[str]:
        return pathlib.Path(self.include, header).read_text(encoding="utf-8").splitlines()

    def share_contracts(self, items: list[Item]) -> None:
        """One comment before several declarations, without a blank line between them, is the contract of each."""
        for before, item in zip(items, items[1:]):
            if item.kind not in ("function", "variable") or item.contract or not before.contract:
                continue
            if (before.kind, before.header) != (item.kind, item.header):
                continue
            between = self.lines(item.header)[before.line - 1:item.line]
            if all(line.strip() and "//" not in line for line in between):
                item.contract = before.contract

    def header_comment(self, header: str) -> str:
        """The comment of a header before its namespace opens."""
        found = re.search(r"((?:^///.*\n)+)namespace", "\n".join(self.lines(header)), re.MULTILINE)
        return " ".join(line.removeprefix("///").strip() for line in found.group(1).splitlines()) if found else ""

    def included_by(self, header: str) -> set[str]:
        """The headers of this folder that one includes, itself and those of its headers included."""
        found, left = set(), [header]
        while left:
            one = left.pop()
            if one not in found and pathlib.Path(self.include, one).is_file():
                found.add(one)
                left += re.findall(r'^#include "(.+)"', "\n".join(self.lines(one)), re.MULTILINE)
        return found
