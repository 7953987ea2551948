# SPDX-License-Identifier: MIT
"""Every test named in the table of the endpoint's promises exists, and every row names one or gives the reason why not."""
import re

TABLE = "tests/endpoint/promises.md"
CASE = re.compile(r"^\s*TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
GTEST_NAME = re.compile(r"[A-Z]\w*\.(?:\w+|\*)")
CELL_END = re.compile(r"(?<!\\)\|")
CODE = re.compile(r"`([^`]*)`")
NO_TEST = re.compile(r"none: \S")


def cases(tree):
    """The names `Suite.Case` of all GoogleTest cases, and `Suite.*` of their suites."""
    found = set()
    for path in tree.cpp("tests"):
        text = "\n".join(line for _, line in tree.lines(path))
        for match in CASE.finditer(text):
            found |= {f"{match[1]}.{match[2]}", f"{match[1]}.*"}
    return found


def registered(tree):
    """All words of the files that define the names of ctest's tests. These files assemble the names, so only words can be
    checked."""
    found = set()
    for path in tree.files():
        if path.name == "CMakeLists.txt" or (path.suffix == ".py" and path.as_posix().startswith("tests/system/")):
            for _, line in tree.lines(path):
                found.update(re.findall(r"\w+", line))
    return found


def fault(tree, name, known_cases, known_words):
    """The fault of a test's name; None if the test exists."""
    if "/" in name:
        return None if tree.has(name) else "there is no such file"
    if GTEST_NAME.fullmatch(name):
        return None if name in known_cases else "there is no such test case"
    word = name.partition(".")[0]
    return None if word in known_words else f"no CMakeLists.txt has a test {word}"


def rows(tree):
    """The rows of each table, without its head: their line numbers and cells."""
    is_table = False
    for number, line in tree.lines(TABLE):
        if not line.startswith("|"):
            is_table = False
        elif re.fullmatch(r"[|\-: ]+", line):
            is_table = True
        elif is_table:
            yield number, [cell.strip() for cell in CELL_END.split(line)[1:-1]]


def check(tree):
    if not tree.has(TABLE):
        yield f"{TABLE}: is missing"
        return
    known_cases, known_words, count = cases(tree), registered(tree), 0
    for number, cells in rows(tree):
        count += 1
        where = f"{TABLE}:{number}:"
        if len(cells) != 2:
            yield f"{where} has {len(cells)} columns, not a promise and its tests"
            continue
        if NO_TEST.match(cells[1]):
            continue
        names = CODE.findall(cells[1])
        if not names:
            yield f'{where} names no test; write "none: " and the reason where there is none'
        for name in names:
            if reason := fault(tree, name, known_cases, known_words):
                yield f"{where} names {name}: {reason}"
    if count == 0:
        yield f"{TABLE}: has no rows"


def table(*tests):
    """A table with these texts in the second column."""
    return "| promise | test |\n|---|---|\n" + "".join(f"| It `holds`. | {test} |\n" for test in tests)


GOOD = {
    TABLE: "# Promises\nBy `No.Test` of `the/text`.\n\n" +
           table("`Put.Arrives`, `Ways.*` (both)", "`tests/endpoint/paths.sh` (some rows), `Get.Arrives`",
                 "`examples.put.refused`, `endpoint_matrix.all.nodes`", "`system.address.forms`",
                 "none: needs a machine without `Such.Case`"),
    "tests/endpoint/put_test.cpp": "TEST(Put, Arrives) {}\n  TEST_F(Get,\n         Arrives) {}\nTEST_P(Ways, Keep) {}\n",
    "tests/endpoint/paths.sh": "",
    "tests/endpoint/CMakeLists.txt": "add_test(NAME endpoint_matrix.${which}.${place})\n",
    "tests/examples/CMakeLists.txt": "add_test(NAME examples.${name})\n",
    "tests/system/run.py": 'NAMES = "system.address"\n',
}
BAD = [
    {TABLE: table("`Put.Arrived`")},
    {TABLE: table("`Put.Arrives`, `Put.Keep`")},
    {TABLE: table("`Gone.*`")},
    {TABLE: table("`Put.Arrives`") + "\n" + table("`Get.Gone`")},
    {TABLE: table("`tests/endpoint/matrix.sh`")},
    {TABLE: table("`endpoint_paths.nodes`")},
    {TABLE: table("`Example.put`")},
    {TABLE: table("put_test.cpp")},
    {TABLE: table("")},
    {TABLE: table("none")},
    {TABLE: table("none:")},
    {TABLE: table("`Put.Arrives` | twice")},
    {TABLE: "# Promises\n"},
]
