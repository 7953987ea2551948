# SPDX-License-Identifier: MIT
"""The files that the rules check, as one list of (path below the root, lines)."""
import pathlib

CPP = {".cpp", ".hpp", ".h", ".c", ".cc"}
FOLDERS = ("include", "c", "src", "tools", "emulation", "tests", "bench", "examples", "python", "scripts", "cmake", "docs", ".ci")
# Made by Python and its tools, and ignored by git.
CACHES = {"__pycache__", ".mypy_cache", ".pytest_cache"}


class Tree:
    """A checkout. Paths are relative to its root and sorted, so that messages are short and stable."""

    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()

    def files(self, *folders):
        """Every file below these folders; without arguments, all files of the project and of the root itself."""
        found = []
        for folder in folders or FOLDERS:
            found += [p for p in (self.root / folder).rglob("*") if p.is_file() and not CACHES.intersection(p.parts)]
        if not folders:
            # A link into a build, and the file .git of a work tree.
            found += [p for p in self.root.iterdir() if p.is_file() and p.name not in ("compile_commands.json", ".git")]
        return sorted(p.relative_to(self.root) for p in found)

    def cpp(self, *folders):
        return [p for p in self.files(*folders) if p.suffix in CPP]

    def has(self, path):
        return (self.root / path).is_file()

    def lines(self, path):
        """The lines of a text file, numbered from 1; none for a binary file."""
        data = (self.root / path).read_bytes()
        if b"\0" in data:
            return []
        return list(enumerate(data.decode("utf-8", "replace").splitlines(), 1))
