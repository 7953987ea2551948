# SPDX-License-Identifier: MIT
"""Every source file names its licence in its first lines."""

from tree import CPP

LINE = "SPDX-License-Identifier: MIT"
# Sources of Linux modules, the only folder with another licence (see its README.md).
GPL_FOLDER = "tests/kernel/modules/"
GPL_LINE = "SPDX-License-Identifier: GPL-2.0"


def check(tree):
    for path in tree.files("include", "src", "c", "tools", "emulation", "tests", "bench", "examples", "scripts", ".ci"):
        lines = tree.lines(path)
        is_script = path.suffix in (".py", ".sh") or (lines and lines[0][1].startswith("#!"))
        wanted = GPL_LINE if path.as_posix().startswith(GPL_FOLDER) else LINE
        if (is_script or path.suffix in CPP) and not any(wanted in line for _, line in lines[:3]):
            yield f"{path}:1: has no line with {wanted}"


GOOD = {"src/base/a.cpp": f"// {LINE}\n", "scripts/a": f"#!/bin/sh\n# {LINE}\n", "tests/data.txt": "1\n",
        f"{GPL_FOLDER}a.c": f"// {GPL_LINE}\n"}
BAD = [
    {"src/base/b.cpp": "int x;\n"},
    {"tests/unit/b.hpp": "#pragma once\n"},
    {"scripts/b": "#!/bin/sh\n"},
    {"tests/b.py": "import os\n"},
    {"src/base/empty.cpp": ""},
    {"src/base/b.cpp": f"// {GPL_LINE}\n"},
    {f"{GPL_FOLDER}b.c": f"// {LINE}\n"},
]
