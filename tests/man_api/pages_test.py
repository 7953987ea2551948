# SPDX-License-Identifier: MIT
"""Compares the man pages of section 3 with the headers, which are parsed here without doxygen: each public type has a page,
each comment is on it, and man(1) formats all pages without a warning. usage: pages_test.py INCLUDE SHARE_MAN DOXYGEN"""
from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
from dataclasses import dataclass

INCLUDE, MAN, DOXYGEN = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
C_INCLUDE = INCLUDE.parent / "c/include"
PAGES = MAN / "man3"
TYPE = re.compile(r"( *)(?:template <[^>]*> )?(?:class|struct|enum class) (?:HBMWIRE_API )?(\w+)[^;]*\{|concept (\w+) =|using (\w+) =")
WITHOUT_PAGE = {"hbmwire/hbmwire.hpp", "hbmwire/export.hpp"}  # lists of headers, and a macro for the linker
BRIEF_WIDTH = 80


@dataclass
class Comment:
    where: str
    owner: str  # the type that it belongs to, or a namespace
    text: str


def letters(text: str) -> str:
    """The letters and digits of a text, which do not depend on its layout."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


class Scan:
    """The types of a header with their comments. Relies on the tree's format: a type of a namespace begins in the first
    column."""

    def __init__(self, path: pathlib.Path) -> None:
        self.types: list[str] = []
        self.comments: list[Comment] = []
        self.namespace = self.outer = ""
        self.public = True
        self.pending: list[str] = []
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            self.read(f"{path.relative_to(INCLUDE)}:{number}", line, lines[number] if number < len(lines) else "")

    def read(self, where: str, line: str, following: str) -> None:
        behind = re.search(r"///< (.*)", line)
        if behind or line.lstrip().startswith("/// ") or line.strip() == "///":
            self.pending.append(behind[1] if behind else line.strip()[3:])
        if line.lstrip().startswith("///") and (behind is None or following.lstrip().startswith("///<")):
            return  # the comment continues, or its subject follows
        opened = re.match(r"namespace ([\w:]+) \{", line)
        if opened:
            self.namespace = opened[1]
        elif re.match(r"\}  // namespace", line):
            self.namespace = "hbmwire"
        elif line == "};":
            self.outer, self.public = "", True
        elif re.match(r" (public|private|protected):", line):
            self.public = "private" not in line
        self.see_type(line)
        if self.pending and not following.lstrip().startswith("///<"):
            if self.public and "detail" not in self.namespace:
                self.comments.append(Comment(where, self.outer or self.namespace, " ".join(self.pending)))
            self.pending = []

    def see_type(self, line: str) -> None:
        found = TYPE.match(line)
        if found is None or "detail" in self.namespace or not self.namespace:
            return
        name = next(one for one in found.groups()[1:] if one)
        if found[1]:
            # Two blanks: a type within a class.
            if len(found[1]) == 2 and self.outer and self.public:
                self.types.append(f"{self.outer}::{name}")
        else:
            self.types.append(f"{self.namespace}::{name}")
            if "{" in line and "};" not in line:
                self.outer = self.types[-1]


def man(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"LC_ALL": "C.UTF-8", "MANROFFSEQ": "", "MANWIDTH": "80", "MAN_KEEP_FORMATTING": ""}
    return subprocess.run(["man", *arguments], env=environment, cwd=MAN, capture_output=True, text=True, check=False)


def pages() -> list[pathlib.Path]:
    """Pages with their own text, without those that only refer to another page."""
    return [page for page in sorted(PAGES.glob("*.3")) if not page.read_text(encoding="utf-8").startswith(".so ")]


def rendered() -> dict[str, str]:
    """Each page as a reader sees it."""
    return {page.stem: man("-E", "UTF-8", "-l", f"man3/{page.name}").stdout for page in pages()}


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.text = rendered()
        cls.scans = [Scan(path) for path in sorted(INCLUDE.rglob("*.hpp")) if str(path.relative_to(INCLUDE)) not in WITHOUT_PAGE]

    def test_man_sets_each_page_without_a_warning(self) -> None:
        names = [f"man3/{page.name}" for page in sorted(PAGES.glob("*.3"))]
        done = man("--warnings", "-E", "UTF-8", "-Tutf8", "-Z", "-l", *names)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_man_finds_a_page_by_its_name(self) -> None:
        for name in ("hbmwire::Endpoint", "hbmwire::tcp::connect", "libhbmwire"):
            done = man("-M", str(MAN), "-w", name)
            self.assertEqual((done.returncode, pathlib.Path(done.stdout.strip()).name.partition(".")[0]),
                             (0, name if name != "hbmwire::tcp::connect" else "hbmwire::tcp"), done.stderr)

    def test_apropos_knows_each_page_by_its_name_line(self) -> None:
        done = subprocess.run(["lexgrog", "-w", *(f"man3/{page.name}" for page in pages())], cwd=MAN, capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn('"hbmwire::Endpoint - a connection to a peer"', done.stdout)

    def test_no_line_is_wider_than_80_columns(self) -> None:
        wide = [f"{name}: {line}" for name, text in self.text.items() for line in text.splitlines() if len(line) > 80]
        self.assertEqual(wide, [])

    def test_each_public_type_has_a_page(self) -> None:
        types = [one for scan in self.scans for one in scan.types]
        self.assertGreater(len(types), 100)
        self.assertEqual([one for one in types if not (PAGES / f"{one}.3").is_file()], [])

    def test_each_page_that_leads_to_another_names_one(self) -> None:
        for page in set(PAGES.glob("*.3")) - set(pages()):
            target = MAN / page.read_text(encoding="utf-8").split()[1]
            self.assertIn(target, pages(), page.name)

    def test_each_public_comment_stands_on_the_page_of_its_type(self) -> None:
        comments = [one for scan in self.scans for one in scan.comments]
        self.assertGreater(len(comments), 500)
        by_page = {name: letters(text) for name, text in self.text.items()}
        everything = "".join(by_page.values())
        for one in comments:
            with self.subTest(one.where):
                self.assertIn(letters(one.text), by_page.get(one.owner, everything))

    def test_the_name_line_has_a_short_description(self) -> None:
        for name, text in self.text.items():
            with self.subTest(name):
                line = re.search(r"^\.SH NAME\n(.*)", (PAGES / f"{name}.3").read_text(encoding="utf-8"), re.MULTILINE)
                self.assertIsNotNone(line)
                brief = line[1].partition(r" \- ")[2]
                self.assertTrue(0 < len(brief) <= BRIEF_WIDTH, brief)
                self.assertIn("SYNOPSIS\n", text)

    def test_see_also_names_pages_that_exist(self) -> None:
        for page in pages():
            named = re.findall(r"^\.BR (hbmwire::[\w:]+|libhbmwire) \(3\)", page.read_text(encoding="utf-8"), re.MULTILINE)
            self.assertEqual([one for one in named if not (PAGES / f"{one}.3").is_file()], [], page.name)

    def test_the_overview_lists_every_page(self) -> None:
        for name in self.text.keys() - {"libhbmwire", "libhbmwire_c"}:
            overview = self.text["libhbmwire_c" if name.startswith("hbmwire_") else "libhbmwire"]
            self.assertIn(f"{name}(3)", overview)

    def test_man_shows_each_c_function_and_type_with_its_comment(self) -> None:
        headers = sorted((C_INCLUDE / "hbmwire/c").glob("*.h"))
        self.assertGreater(len(headers), 20)
        for path in headers:
            text = path.read_text(encoding="utf-8")
            page = letters(self.text[f"hbmwire_{path.stem}"])
            for name in re.findall(r"^(?:HBMWIRE_C_API [^;(]*?\b)(hbmwire_\w+)\(", text, re.MULTILINE) + re.findall(r"^\} (hbmwire_\w+);", text, re.MULTILINE):
                self.assertTrue((PAGES / f"{name}.3").is_file(), name)
                self.assertIn(letters(name), page)
            for comment in re.findall(r"(?:^///.*\n)+|///< .*", text, re.MULTILINE):
                with self.subTest(f"{path.name}: {comment}"):
                    self.assertIn(letters(re.sub(r"///<?", "", comment)), page)


if __name__ == "__main__":
    if not DOXYGEN or DOXYGEN.endswith("NOTFOUND"):
        print("Skipped\nno man pages of section 3: no doxygen")
        sys.exit(77)
    if shutil.which("man") is None:
        print("Skipped\nno man(1) to set the pages with")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
