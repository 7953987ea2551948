# SPDX-License-Identifier: MIT
"""A class must be readable in one sitting: at most three files, 40 functions and 25 data members. Plain structs of options and
reports, without functions, may have more members. Pointers to functions of a vendor's library do not count."""
import re

MOST_FUNCTIONS = 40
MOST_MEMBERS = 25
MOST_FILES = 3
HEAD = re.compile(r"(?<![\w<,] )\b(?:class|struct)\s+(?:\[\[[^]]*\]\]\s*|alignas\([^)]*\)\s*|[A-Z_]+\s+)*"
                  r"(\w+(?:::\w+)*)\s*(?:final\s*)?(?::\s*[^{;]+)?\{")
POINTER = re.compile(r"\(\*\w+\)\(")
NOT_MEMBERS = re.compile(r"^(using|friend|static_assert|typedef|template|enum|struct|class|union|public|private|protected"
                         r"|static constexpr|inline constexpr|constexpr static|extern)\b")


def without_text(text):
    """The code with comments, strings and preprocessor lines blanked, so that braces can be counted."""
    pattern = r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:\\\n|[^\n])*'
    return re.sub(pattern, lambda found: re.sub(r"[^\n]", " ", found[0]), text, flags=re.S | re.M)


def end_of(text, at):
    """The position of the brace that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i
    return len(text)


def declarations(body):
    """The declarations directly in a class, each as one text. A body or an initializer in braces appears as `{}`."""
    found, start, i, round_depth = [], 0, 0, 0
    while i < len(body):
        letter = body[i]
        if letter in "([":
            round_depth += 1
        elif letter in ")]":
            round_depth -= 1
        elif letter == "{" and round_depth == 0:
            end = end_of(body, i)
            is_function = "(" in body[start:i] and "=" not in re.sub(r"operator\W+", "", body[start:i].split("(")[0])
            body = body[:i + 1] + body[end:]
            i += 1
            if is_function and not re.match(r"\s*[;,{(]", body[i + 1:]):
                found.append(body[start:i + 1])
                start = i + 1
        elif letter == ";" and round_depth == 0:
            found.append(body[start:i])
            start = i + 1
        i += 1
    cleaned = (re.sub(r"^(?:\s*(?:public|private|protected)\s*:(?!:)|\s*\[\[[^]]*\]\])*\s*", "", one) for one in found)
    return [re.sub(r"\s+", " ", one).strip() for one in cleaned]


def sorted_declarations(body):
    """The declarations of a class as (functions, data members), without those of nested classes."""
    functions, members = [], []
    for one in declarations(body):
        if not one or (NOT_MEMBERS.match(one) and not one.startswith("template")):
            # `struct A {} a, b;` also declares members, but does not occur in this tree.
            continue
        if POINTER.search(one):
            continue
        if "(" in re.sub(r"\b(alignas|decltype|__attribute__)\s*\(.*?\)+", "", names_of(one)):
            functions.append(one)
        elif not one.startswith("template"):
            members.append(one)
    return functions, members


def names_of(declaration):
    """The declaration without its initializer and template arguments."""
    flat = re.split(r"[={]", re.sub(r"operator\s*\W+", "operator(", declaration))[0]
    while re.search(r"<[^<>]*>", flat):
        flat = re.sub(r"<[^<>]*>", "", flat)
    return flat


def measure(body):
    """The numbers of (functions, data members) of a class."""
    functions, members = sorted_declarations(body)
    written = [one for one in functions if not re.search(r"= (default|delete)$", one)]
    return len(written), sum(names_of(one).count(",") + 1 for one in members)


def classes(text):
    """Each class defined in `text`: (name, line, body)."""
    for head in HEAD.finditer(text):
        opens = head.end() - 1
        yield head[1], text.count("\n", 0, head.start()) + 1, text[opens + 1:end_of(text, opens)]


def check(tree):
    sizes, files = {}, {}
    for path in tree.cpp("include", "src"):
        text = without_text("\n".join(line for _, line in tree.lines(path)))
        for name, line, body in classes(text):
            key = (path.parts[0], name.split("::")[-1])
            functions, members = measure(body)
            if key not in sizes or functions > sizes[key][2]:
                sizes[key] = (path, line, functions, members)
                files.setdefault(key, set()).add(path)
        # Definitions of member functions, such as "Type Class::name(".
        for name in set(re.findall(r"^(?=\S)[\w:<>,&*\[\]. ]*?\b([A-Z]\w+)::~?\w+\s*\(", text, re.M)):
            if path.suffix == ".cpp" and path.parts[0] == "src":
                files.setdefault(("src", name), set()).add(path)
    for (_, name), (path, line, functions, members) in sizes.items():
        where = f"{path}:{line}: {name}"
        if functions > MOST_FUNCTIONS:
            yield f"{where} has {functions} functions, more than {MOST_FUNCTIONS}"
        if members > MOST_MEMBERS and functions != 0:
            yield f"{where} has {members} data members, more than {MOST_MEMBERS}"
        count = len(files.get(("src", name), set()))
        if count > MOST_FILES:
            yield f"{where} is in {count} files, more than {MOST_FILES}"


def made(functions, members, name="Made"):
    lines = [f"  void f{i}(int at = 0) noexcept;" for i in range(functions)]
    lines += [f"  std::array<int, 3> m{i}_{{}};" for i in range(members)]
    return f"class {name} {{\n public:\n" + "\n".join(lines) + "\n};\n"


GOOD = {
    "src/base/a.hpp": made(MOST_FUNCTIONS, MOST_MEMBERS, "Most"),
    "src/base/library.hpp": "struct Library {\n  void load();\n" + "\n".join(f"  int (*f{i})(int at);" for i in range(99)) + "\n};\n",
    "src/base/options.hpp": "struct Options {\n" + "\n".join(f"  int m{i} = 0;" for i in range(99)) + "\n};\n",
    "src/base/b.hpp": "struct B {\n  struct C {\n    void f();\n  };\n  int a = f(1, 2), b = 0;\n  B(const B&) = delete;\n};\n",
}
BAD = [
    {"src/base/x.hpp": made(MOST_FUNCTIONS + 1, 1)},
    {"src/base/x.hpp": made(1, MOST_MEMBERS + 1)},
    {"src/base/x.hpp": "class Made {\n  void f0();\n};\n",
     "src/base/x1.cpp": "void Made::f0() {}\n", "src/base/x2.cpp": "void Made::f0() {}\n",
     "src/base/x3.cpp": "void Made::f0() {}\n"},
]
