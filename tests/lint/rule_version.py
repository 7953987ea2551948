# SPDX-License-Identifier: MIT
"""The version's header, the newest heading of CHANGELOG.md and the newest entry of debian/changelog have the same version, and
the name of the library's package contains its SONAME."""
import re

HEADER = "include/hbmwire/version.hpp"
CHANGELOG = "CHANGELOG.md"
DEBIAN = "debian/changelog"
CONTROL = "debian/control"


def first(tree, path, pattern):
    """The first match of the pattern in the file's lines, and the line's number."""
    for number, line in tree.lines(path) if tree.has(path) else ():
        match = re.match(pattern, line)
        if match:
            return match[1], number
    return None, 0


def header_version(tree):
    parts = [first(tree, HEADER, rf"#define HBMWIRE_VERSION_{part} (\d+)$")[0] for part in ("MAJOR", "MINOR", "PATCH")]
    return None if None in parts else ".".join(parts)


def check(tree):
    version = header_version(tree)
    if version is None:
        yield f"{HEADER}: names no version"
        return
    for path, pattern in ((CHANGELOG, r"## (\d+\.\d+\.\d+)"), (DEBIAN, r"hbmwire \((\d+\.\d+\.\d+)\)")):
        found, line = first(tree, path, pattern)
        if found != version:
            yield f"{path}:{line}: the newest version is {found or 'missing'}, that of {HEADER} is {version}"
    package = "libhbmwire" + version.rpartition(".")[0]
    if first(tree, CONTROL, rf"Package: ({re.escape(package)})$")[0] is None:
        yield f"{CONTROL}: has no package {package}, which the SONAME of {version} asks for"


GOOD = {
    HEADER: "#define HBMWIRE_VERSION_MAJOR 0\n#define HBMWIRE_VERSION_MINOR 2\n#define HBMWIRE_VERSION_PATCH 3\n",
    CHANGELOG: "# Changelog\n\n## 0.2.3\n\n* x\n\n## 0.2.2 (commit 0123abc)\n",
    DEBIAN: "hbmwire (0.2.3) unstable; urgency=medium\n\n  * x\n",
    CONTROL: "Source: hbmwire\n\nPackage: libhbmwire0.2\nSection: libs\n",
}

BAD = [
    {HEADER: "#pragma once\n"},
    {CHANGELOG: "# Changelog\n\n## 0.2.2\n"},
    {CHANGELOG: "# Changelog\n"},
    {DEBIAN: "hbmwire (0.2.2) unstable; urgency=medium\n"},
    {CONTROL: "Source: hbmwire\n\nPackage: libhbmwire0.1\n"},
]
