# SPDX-License-Identifier: MIT
"""The Python code in docs/python.md and the README runs unchanged, and names only things that
exist.
"""

from __future__ import annotations

import code
import doctest
import gc
import inspect
import pathlib
import re
import threading
from dataclasses import dataclass
from typing import Any

import pytest

import hbmwire

TREE = pathlib.Path(__file__).parents[2]
MANUAL = TREE / "docs" / "python.md"
README = TREE / "README.md"
EXAMPLES = TREE / "python" / "examples"
# ... stands for parts that differ between runs, and for the rest of a long line.
FLAGS = doctest.ELLIPSIS | doctest.REPORT_NDIFF


@dataclass
class Block:
    """A fenced block of a document."""

    language: str
    text: str
    line: int  # number of its first line, counted from 1


def blocks_of(document: pathlib.Path) -> list[Block]:
    blocks: list[Block] = []
    inside: Block | None = None
    for number, line in enumerate(document.read_text().splitlines(keepends=True), start=1):
        if inside is None and line.startswith("```"):
            inside = Block(line[3:].strip(), "", number + 1)
        elif inside is not None and line.startswith("```"):
            blocks.append(inside)
            inside = None
        elif inside is not None:
            inside.text += line
    assert inside is None, f"{document.name}: a block is not closed"
    return blocks


class Prompt(code.InteractiveConsole):
    """Python's prompt, into which a reader pastes line by line; code that fails there fails here.
    """

    def showsyntaxerror(self, *_args: Any, **_options: Any) -> None:
        raise

    def showtraceback(self) -> None:
        raise


def run_code(block: Block, document: pathlib.Path, names: dict[str, Any]) -> None:
    at = f"{document.name}:{block.line}"
    prompt = Prompt(names, filename=at)
    for line in (*block.text.splitlines(), ""):
        waits_for_more = prompt.push(line)
    assert not waits_for_more, f"{at}: the block is not complete"


def run_session(block: Block, document: pathlib.Path, names: dict[str, Any]) -> None:
    at = f"{document.name}:{block.line}"
    parser = doctest.DocTestParser()
    session = parser.get_doctest(block.text, names, at, str(document), block.line - 1)
    assert session.examples, f"{at}: a session without a prompt"
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    said: list[str] = []
    runner.run(session, out=said.append, clear_globs=False)
    names.update(session.globs)
    assert runner.failures == 0, "".join(said)


@pytest.mark.limit(180)
def test_the_manuals_code_runs_in_order_and_prints_its_output() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    ran = {"python": 0, "pycon": 0}
    for block in blocks_of(MANUAL):
        if block.language == "python":
            run_code(block, MANUAL, names)
        elif block.language == "pycon":
            run_session(block, MANUAL, names)
        else:
            assert block.language == "sh", f"a block of the language {block.language!r} is not run"
            continue
        ran[block.language] += 1
    assert min(ran.values()) > 10
    assert names["context"].closed
    # The functions refer to these names, which hold the card that other processes need.
    names.clear()
    gc.collect()


def test_the_readmes_example_puts_a_tensor(context: hbmwire.Context) -> None:
    names: dict[str, Any] = {}
    (block,) = [block for block in blocks_of(README) if block.language == "python"]
    run_code(block, README, names)
    with context.create_worker(progress_thread=True) as server:
        memory = context.allocate("gaudi", 8192)  # longer than the tensor
        with server.listen(0, "127.0.0.1") as listener:
            listener.advertise("weights", memory)
            accepted: list[hbmwire.Endpoint] = []
            accepting = threading.Thread(target=lambda: accepted.append(listener.accept(10)))
            accepting.start()
            names["push"](f"127.0.0.1:{listener.port}", bytearray(b"tensor" * 682 + b"last"))
            accepting.join()
        assert memory.read(0, 6) == b"tensor"
        assert memory.read(4092, 4) == b"last"


def reference() -> dict[str, str]:
    """The rows of the reference's table: names of classes, and the text of the row."""
    text = MANUAL.read_text()
    rows = re.findall(r"^\| (`.*)$", text[text.index("## Reference") :], flags=re.MULTILINE)
    return {row.split("|")[0]: row for row in rows}


def test_the_reference_names_every_class_and_function() -> None:
    text = MANUAL.read_text()
    in_tables = " ".join(reference())
    for name in hbmwire.__all__:
        value = getattr(hbmwire, name)
        if inspect.isclass(value) and issubclass(value, hbmwire.Error):
            assert f"`{name}`" in text, f"the exception {name} is not explained"
        elif inspect.isclass(value):
            assert f"`{name}`" in in_tables, f"the class {name} is not in the reference"
        elif not name.startswith("__"):
            assert f"`{name}()`" in text, f"the function {name} is not in the reference"


def test_classes_have_the_members_of_their_reference() -> None:
    for names, row in reference().items():
        classes = [getattr(hbmwire, name) for name in re.findall(r"`(\w+)`", names)]
        of_class = row.split("|")[-2]
        for name in re.findall(r"`(\w+)(?:\(\))?`", of_class):
            # As bytes(key) and `await transfer`, which are no members.
            if name in ("bytes", "await"):
                continue
            assert any(name in has_names(one) for one in classes), f"{names}: there is no {name}"


def has_names(kind: type) -> set[str]:
    return set(dir(kind)) | set(getattr(kind, "__dataclass_fields__", ()))


def test_every_example_is_named() -> None:
    text = MANUAL.read_text()
    examples = sorted(EXAMPLES.glob("*.py"))
    assert examples
    for example in examples:
        assert f"](../python/examples/{example.name})" in text
