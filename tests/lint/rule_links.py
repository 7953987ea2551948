# SPDX-License-Identifier: MIT
"""Every relative link of a Markdown file leads to a file of the tree, and every anchor to an existing heading."""
import os.path
import pathlib
import re

# Blanked before the search for links: `a[i](x)` in code is no link.
CODE = re.compile(r"^(?P<fence>`{3,}|~{3,}).*?(?:^(?P=fence)|\Z)|(?P<span>`+)(?!`)(?:(?!\n\n).)+?(?<!`)(?P=span)(?!`)",
                  re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(\s*<?(?P<inline>[^\s()<>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\[[^\]\n]+\]:\s+<?(?P<listed>[^\s<>]+)", re.MULTILINE)
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
FENCE = re.compile(r"(`{3,}|~{3,})")
HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*\s*$")


def text_of(tree, path):
    return "\n".join(line for _, line in tree.lines(path))


def without_code(text):
    """The text with code replaced by spaces; length and lines stay the same."""
    return CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def slug(heading):
    """The anchor that GitHub makes for a heading: its words in lower case, without punctuation, with hyphens for blanks."""
    words = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def anchors(tree, path):
    """The anchors of a file's headings. The second heading with the same words gets "-1", and so on."""
    found, seen, fence = set(), {}, None
    for _, line in tree.lines(path):
        if match := FENCE.match(line):
            # Only an equal fence ends one.
            fence = None if fence == match[1] else fence or match[1]
        elif not fence and (match := HEADING.match(line)):
            name = slug(match[1])
            found.add(f"{name}-{seen[name]}" if name in seen else name)
            seen[name] = seen.get(name, 0) + 1
    return found


def fault(tree, path, target):
    """The fault of a link in the file `path`; None if its target exists."""
    name, _, anchor = target.partition("#")
    goal = pathlib.Path(os.path.normpath(path.parent / name)) if name else path
    if goal.is_absolute() or ".." in goal.parts:
        return "leads out of the tree"
    if not tree.has(goal):
        return f"there is no file {goal}"
    if anchor and goal.suffix == ".md" and anchor not in anchors(tree, goal):
        return f"{goal} has no heading with this anchor"
    return None


def check(tree):
    for path in tree.files():
        if path.suffix != ".md":
            continue
        text = without_code(text_of(tree, path))
        for match in LINK.finditer(text):
            target = match["inline"] or match["listed"]
            if SCHEME.match(target):
                continue
            if reason := fault(tree, path, target):
                number = text.count("\n", 0, match.start()) + 1
                yield f"{path}:{number}: links to {target}: {reason}"


GOOD = {
    "README.md": "[a](docs/a.md) and [two\nlines](docs/a.md#faults-and-limits) of [it](https://example.org/x#y)\n\n[b]: docs/a.md\n",
    "docs/a.md": "# A\n[up](../README.md), [here](#a-1), [code](../src/a.cpp), `[x](y)`\n"
                 "## Faults, and `limits`\n```\n# no heading\n[x](y)\n```\n## A\n## What it says (`x_y`)\n[c](#what-it-says-x_y)\n"
                 "## Faults and limits\n",
    "src/a.cpp": "// [no](link.md)\n",
}
BAD = [
    {"docs/b.md": "[gone](c.md)\n"},
    {"docs/b.md": "text [over\na line](../src/b.cpp)\n"},
    {"docs/b.md": "![gone](c.png)\n"},
    {"docs/b.md": "[a folder](../docs)\n"},
    {"docs/b.md": "[out](../../a.md)\n"},
    {"docs/b.md": "[absolute](/docs/a.md)\n"},
    {"docs/b.md": "[no heading](a.md#limits)\n"},
    {"docs/b.md": "[in code](a.md#no-heading)\n"},
    {"docs/b.md": "# B\n[twice](#b-1)\n"},
    {"docs/b.md": "[x]\n\n[x]: c.md\n"},
    {"emulation/docs/b.md": "# B\n[its place in the tree](a.md)\n"},
]
