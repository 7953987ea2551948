#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The tree's own rules, each a file rule_<name>.py with check(tree), GOOD and BAD.

usage: lint.py RULE ROOT          checks a checkout; prints one line for each fault, and exits with 1
       lint.py RULE --self-test   the rule must accept GOOD, and refuse GOOD with each of BAD

Exit status 77: the rule cannot be checked here, for the reason that its unavailable() gives.
"""
import importlib
import pathlib
import sys
import tempfile

from tree import Tree

SKIPPED = 77


def findings(rule, files):
    """The findings of the rule for a tree of these files ({path: text}). Programs of such a tree can be run."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            path.chmod(0o755)
        return list(rule.check(Tree(folder)))


def self_test(rule):
    wrong = [f"finds fault with a good tree: {f}" for f in findings(rule, rule.GOOD)]
    for bad in rule.BAD:
        if not any(name in f for f in findings(rule, rule.GOOD | bad) for name in bad):
            wrong.append(f"overlooks {bad}")
    return wrong


def main(arguments):
    if len(arguments) != 2:
        sys.exit(__doc__)
    rule = importlib.import_module(f"rule_{arguments[0]}")
    reason = rule.unavailable() if hasattr(rule, "unavailable") else None
    if reason:
        # In the format that scripts/count_tests.py expects.
        print(f"lint.py: Skipped\n{reason}")
        return SKIPPED
    if arguments[1] == "--self-test":
        found = self_test(rule)
    else:
        tree = Tree(arguments[1])
        for line in rule.notes(tree) if hasattr(rule, "notes") else ():
            print(line)
        found = list(rule.check(tree))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
