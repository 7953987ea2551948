# SPDX-License-Identifier: MIT
"""A program for one task needs at most seven of the library's types. If it needs more, the public API lacks something.
Classes, structs and aliases count. Enumerations do not, because their values are only names for choices
(Access::remote_read)."""
import re

from rule_class_size import HEAD, without_text

MOST_TYPES = 7
ALIAS = re.compile(r"^\s*using (\w+)\s*=", re.M)


def text_of(tree, path):
    return without_text("\n".join(line for _, line in tree.lines(path)))


def library_types(tree):
    found = set()
    for path in tree.cpp("include"):
        text = text_of(tree, path)
        found |= {head[1] for head in HEAD.finditer(text)}
        found |= set(ALIAS.findall(text))
    return {name for name in found if name[0].isupper()}


def check(tree):
    types = library_types(tree)
    for path in tree.cpp("examples"):
        named = types & set(re.findall(r"\b[A-Z]\w*\b", text_of(tree, path)))
        if len(named) > MOST_TYPES:
            yield f"{path}: names {len(named)} types of the library, more than {MOST_TYPES}: {', '.join(sorted(named))}"


GOOD = {
    "include/hbmwire/a.hpp": "".join(f"class HBMWIRE_API T{i} {{\n}};\n" for i in range(6)) +
                             "enum class Word : int { yes };\ntemplate <class T>\nusing Result = T;\nstruct More {\n};\n",
    "examples/a.cpp": "// More\nT0 a; T1 b; T2 c; T3 d; T4 e; T5 f; Result<void> g = Word::yes; T0 h; Mine i;\nputs(\"More\");\n",
}
BAD = [
    {"examples/b.cpp": GOOD["examples/a.cpp"] + "More j;\n"},
]
