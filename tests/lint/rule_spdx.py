# SPDX-License-Identifier: MIT
"""Every source file says its licence in its first lines."""

LINE = "SPDX-License-Identifier: MIT"


def check(tree):
    for path in tree.files("include", "src", "tools", "emulation", "tests", "bench", "examples", "fuzz", "scripts", ".ci"):
        lines = tree.lines(path)
        is_script = path.suffix in (".py", ".sh") or (lines and lines[0][1].startswith("#!"))
        if (is_script or path in tree.cpp(path.parts[0])) and not any(LINE in line for _, line in lines[:3]):
            yield f"{path}:1: has no line with {LINE}"


GOOD = {"src/base/a.cpp": f"// {LINE}\n", "scripts/a": f"#!/bin/sh\n# {LINE}\n", "tests/data.txt": "1\n"}
BAD = [
    {"src/base/b.cpp": "int x;\n"},
    {"tests/unit/b.hpp": "#pragma once\n"},
    {"scripts/b": "#!/bin/sh\n"},
    {"tests/b.py": "import os\n"},
    {"src/base/empty.cpp": ""},
]
