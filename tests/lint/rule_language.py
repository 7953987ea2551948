# SPDX-License-Identifier: MIT
"""Plain English in documents, comments and messages: no sentence begins with What, Who, Whoever, Whatever or Of, and the words
of WORDS stay out. Questions may begin with What and Who. Up to LIMIT in 1,000 lines of prose are named and let pass."""
import functools
import io
import re
import tokenize

LIMIT = 2
BEGIN = re.compile(r"""(?:\A|\n|[.!?:]["')*_]*\s)\s*["'(*_]*(What|Who|Whoever|Whatever|Of)\b(?![-.])""")
WORDS = re.compile(r"\b([Nn]obody|[Ss]omebody|[Tt]hat\s+which|[Ww]hat\s+is\s+not)\b")
# The user "nobody" of the system.
EXCEPTIONS = re.compile(r"\b(?:user|group|as|become|to|like)\s+[\"'`]?nobody\b")
# The end of a sentence: the next full stop, question mark or exclamation mark that ends a word.
END = re.compile(r"[.!?](?=[\"')*_]*(?:\s|\Z))")
MESSAGES = ("src/", "tools/", "c/", "python/", "emulation/")
C_FAMILY = {".cpp", ".hpp", ".h", ".c", ".cc"}
# Comments and literals. Adjacent string literals are one, raw ones included. Character literals are matched, too, because the
# quote in '"' begins no string.
CPP_TOKEN = re.compile(r"""(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)|'(?:\\.|[^'\\\n])'|R"(?P<mark>\w*)\((?P<raw>.*?)\)(?P=mark)"
                           |(?P<text>"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*)""", re.DOTALL | re.VERBOSE)
HASH_COMMENT = re.compile(r"(?:^|(?<=\s))#+!?(?P<text>.*)$")
FENCE = re.compile(r"\s*(`{3,}|~{3,})")
CODE_SPAN = re.compile(r"(`+)(?!`)(?:(?!\n\s*\n).)+?(?<!`)\1(?!`)", re.DOTALL)


class Prose:
    """Lines of prose, each with its number, in blocks: a sentence does not go from one block into the next."""

    def __init__(self):
        self.blocks = [[]]

    def add(self, number, text):
        if text.strip():
            self.blocks[-1].append((number, text.strip()))
        else:
            self.end()

    def end(self):
        if self.blocks[-1]:
            self.blocks.append([])

    def count(self):
        return sum(1 for block in self.blocks for _, text in block if len(re.findall(r"[A-Za-z]{2,}", text)) > 1)

    def hits(self):
        for block in self.blocks:
            text = "\n".join(line for _, line in block)
            text = CODE_SPAN.sub(lambda match: "`" + re.sub(r"[^\n]", "x", match[0][2:]) + "`", text)
            for match in BEGIN.finditer(text):
                end = END.search(text, match.end())
                if not (match[1].startswith("Wh") and end and end[0] == "?"):
                    yield self.line(block, text, match.start(1)), f'begins a sentence with "{match[1]}"'
            for match in WORDS.finditer(text):
                if not any(e.start() <= match.start() < e.end() for e in EXCEPTIONS.finditer(text)):
                    yield self.line(block, text, match.start(1)), f'says "{" ".join(match[1].split())}"'

    @staticmethod
    def line(block, text, offset):
        return block[text.count("\n", 0, offset)][0]


def markdown(prose, lines):
    fence = None
    for number, line in lines:
        if match := FENCE.match(line):
            # Only an equal fence ends one.
            fence = None if fence == match[1] else fence or match[1]
            prose.end()
        elif not fence:
            if match := re.match(r"\s*(?:#{1,6}|[-*:>]|\d+\.)\s+|\s*\|", line):
                prose.end()
                line = line[match.end():]
            for cell in re.split(r"(?<!\\)\|", line) if match and match[0].endswith("|") else [line]:
                prose.add(number, cell)
                if match and match[0].endswith("|"):
                    prose.end()


def c_family(prose, lines, messages):
    text = "\n".join(line for _, line in lines)
    last = 0
    for match in CPP_TOKEN.finditer(text):
        number = text.count("\n", 0, match.start()) + 1
        if match["line"]:
            if number != last + 1:
                prose.end()
            prose.add(number, re.sub(r"^//[/!]?<?", "", match["line"]))
            last = number
        elif match["block"]:
            prose.end()
            for extra, line in enumerate(match["block"][2:-2].splitlines()):
                prose.add(number + extra, re.sub(r"^\s*\*+", "", line))
            prose.end()
        elif messages and (match["raw"] or match["text"]):
            prose.end()
            literal = match["raw"] or re.sub(r'"\s*"', "", match["text"])[1:-1].replace("\\n", "\n").replace('\\"', "'")
            for line in literal.split("\n"):
                prose.add(number, line)
            prose.end()


def python(prose, lines, messages):
    text = "\n".join(line for _, line in lines) + "\n"
    last, before = 0, tokenize.NEWLINE
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return
    for token in tokens:
        number, name = token.start[0], tokenize.tok_name[token.type]
        if name == "COMMENT":
            if number != last + 1:
                prose.end()
            prose.add(number, token.string.lstrip("#!"))
            last = number
        elif name in ("STRING", "FSTRING_MIDDLE"):
            # A string that is a statement is a docstring.
            statement = before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.NL, tokenize.ENCODING)
            if messages or statement:
                prose.end()
                inner = re.sub(r"^\w*(\"\"\"|'''|\"|')(.*)\1$", r"\2", token.string, flags=re.DOTALL)
                for extra, line in enumerate(inner.splitlines()):
                    prose.add(number + extra, line)
                prose.end()
        if name != "COMMENT":
            before = token.type


def hashed(prose, lines):
    last = 0
    for number, line in lines:
        if match := HASH_COMMENT.search(line):
            if number != last + 1:
                prose.end()
            prose.add(number, match["text"])
            last = number


def prose_of(tree, path):
    """The prose of a file; nothing of a file that has none."""
    lines = tree.lines(path)
    prose = Prose()
    messages = str(path).startswith(MESSAGES)
    shebang = lines[0][1] if lines else ""
    if path.suffix == ".md":
        markdown(prose, lines)
    elif path.suffix in C_FAMILY:
        c_family(prose, lines, messages)
    elif path.suffix == ".py" or (shebang.startswith("#!") and "python" in shebang):
        python(prose, lines, messages)
    elif path.name == "CMakeLists.txt" or path.suffix in (".cmake", ".sh", ".toml") or shebang.startswith("#!"):
        hashed(prose, lines)
    return prose


@functools.cache
def counted(tree):
    """({folder: lines of prose}, {folder: hits}); the root's own files are the folder "."."""
    lines, hits = {}, {}
    for path in tree.files():
        # This file names what it forbids.
        if path.name == "rule_language.py":
            continue
        prose = prose_of(tree, path)
        folder = path.parts[0] if len(path.parts) > 1 else "."
        lines[folder] = lines.get(folder, 0) + prose.count()
        hits.setdefault(folder, []).extend(f"{path}:{number}: {what}" for number, what in sorted(prose.hits()))
    return lines, hits


def in_thousand(hits, lines):
    return 1000 * hits / max(lines, 1)


def passes(lines, hits):
    return in_thousand(sum(map(len, hits.values())), sum(lines.values())) <= LIMIT


def notes(tree):
    """The rate of each folder, and the hits that are let pass."""
    lines, hits = counted(tree)
    for folder in sorted(lines):
        count = len(hits[folder])
        yield f"{folder}: {count} in {lines[folder]} lines of prose, {in_thousand(count, lines[folder]):.1f} in 1,000"
    if passes(lines, hits):
        for folder in sorted(hits):
            yield from (f"{hit} (let pass)" for hit in hits[folder])


def check(tree):
    lines, hits = counted(tree)
    if not passes(lines, hits):
        for folder in sorted(hits):
            yield from (f"{hit} (at most {LIMIT} in 1,000 lines)" for hit in hits[folder])


GOOD = {
    "README.md": "# Paths\nWhat is a path? One way of bytes. The value `Of` and `nobody` are code.\n\n| a | Whose |\n|---|---|\n| of it | x |\n\n"
                 "```\nWhat is in a block of code.\n```\n- Who may call it,\n  and when? Any thread.\n",
    "src/base/a.cpp": '// The owner of it: what a caller\n// hands over.\nconst char* a = "as user nobody"; const char q = \'"\'; // is "what"\n',
    "tools/a.cpp": 'auto text = R"(usage: what)"; /* Run as nobody. */\n',
    "python/a.py": '"""Holds what came."""\nname = "kind"  # of it\n',
    "tests/a.py": 'text = "What a test compares is no message."\n',
    "scripts/run": '#!/bin/bash\necho "$#"  # how many\n',
}
BAD = [
    {"docs/b.md": "It ends. What it held is gone.\n"},
    {"docs/b.md": "- Of these\n  two.\n"},
    {"docs/b.md": "| a |\n|---|\n| Whoever asks |\n"},
    {"docs/b.md": "A card that\nnobody has.\n"},
    {"docs/b.md": "## What works\n"},
    {"src/base/b.hpp": "int a;  ///< What it is.\n"},
    {"src/base/b.cpp": "/* Held by that\n * which waits. */\n"},
    {"tools/b.cpp": 'auto text = "listens: "\n  "nobody answers";\n'},
    {"emulation/b.cpp": 'auto text = R"(usage\nWho asks is told.)";\n'},
    {"python/b.py": 'raise ValueError("Whatever it was")\n'},
    {"tests/b.py": '"""Whatever it was."""\n'},
    {"cmake/b.cmake": "# What is not there.\n"},
    {"scripts/b": "#!/bin/bash\ntrue # Somebody has it.\n"},
]
