"""Notebooks and files that are made to be slow are taken in within seconds."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.autograder.intake.lesson import ONE, answer, lesson, take
from tests.autograder.intake.solved import PLANNER, Notebook, new, of

LIMIT = 10.0
UNITS: tuple[str, ...] = (
    " ",
    "\n",
    "*",
    "[",
    "`",
    ">",
    "<",
    "#",
    "**a**",
    "**a** ",
    "# a\n",
    "```\n",
    "'''\"\"\"",
    '"""',
    "![",
    "![a](",
    "<img ",
)
UNITS += (
    "data:image/png;base64,",
    "Q2\n",
    "(",
    "\\",
    "def f",
    "%a\n",
    "a = 1\n",
    "问题",
    "缺",
    "\t",
    "\r",
    "_",
    "____",
    "lambda:",
)
UNITS += (
    "if x:\n",
    "f(",
    "not ",
    "a.",
    "x=",
    "@",
    "-",
    "1",
    "0x",
    "~",
    "{",
    "<b>",
    "&#",
    "- a\n",
    "|a|b\n",
    "a" * 59 + "\n",
)


def text_of(unit: str) -> str:
    return (unit * (200_000 // len(unit) + 1))[:200_000]


def with_cells(*cells: Notebook) -> dict[str, Any]:
    files: dict[str, Any] = lesson(blank=("q2_answer",))
    files[ONE]["cells"] += cells
    return files


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", ("code", "markdown"))
def test_a_cell_of_one_thing_many_times(kind: str, unit: str, tmp_path: Path) -> None:
    files = with_cells(new(text_of(unit), kind))
    of(files[ONE], "q1_answer")["source"] = text_of(unit)
    started = time.monotonic()
    found = take(tmp_path, files)
    assert time.monotonic() - started < LIMIT
    assert answer(found, "unified_token_plan") == PLANNER


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", ("x.md", "x.py", "x.html", "x"))
def test_a_file_of_one_thing_many_times(name: str, unit: str, tmp_path: Path) -> None:
    started = time.monotonic()
    take(tmp_path, with_cells() | {name: (unit * (1 << 20))[: 1 << 20]})
    assert time.monotonic() - started < LIMIT


CELLS: dict[str, Callable[[int], Notebook]] = {
    "long code": lambda number: new("y = 1\n" * 600 + f"# {number}"),
    "code with the name": lambda number: new(f"unified_token_plan({number})\n" + "z = unified_token_plan\n" * 20),
    "planners": lambda number: new(f"{PLANNER}\n# {number}"),
    "broken code": lambda number: new(f"def f{number}(:\n    pass"),
    "labels": lambda number: new(f"**Objects:** {number}\n\n**Chain:** b\n\n**State changes:** c", "markdown"),
    "questions": lambda number: new(f"Q2\n\nThe hit {number} leaves nothing to compute.", "markdown"),
    "prose": lambda number: new(f"{number} " + "The scheduler reads the gap. " * 30, "markdown"),
    "grade ids": lambda number: new(f"x = {number}", nbgrader={"grade_id": "unified_token_plan"}),
    "text with grade ids": lambda number: new(f"t {number}", "markdown", nbgrader={"grade_id": "q1_answer"}),
    "empty": lambda number: new(""),
    "comments": lambda number: new(f"# Q2 {number} " + "the gap is what the scheduler reads " * 5),
    "raw": lambda number: new(f"raw {number}", "raw"),
}


@pytest.mark.parametrize("what", CELLS)
def test_twenty_thousand_cells(what: str, tmp_path: Path) -> None:
    files = with_cells(*(CELLS[what](number) for number in range(20_000)))
    started = time.monotonic()
    found = take(tmp_path, files)
    assert time.monotonic() - started < 2 * LIMIT
    assert len(found.notes) < 50 and len(json.dumps(found.notebooks)) < 20 << 20


@pytest.mark.parametrize("deep", ("[" * 200_000, '{"a":' * 200_000, '{"cells": [' * 50_000))
def test_nested_json(deep: str, tmp_path: Path) -> None:
    started = time.monotonic()
    take(tmp_path, {f"{ONE}.ipynb": deep})
    assert time.monotonic() - started < LIMIT


@pytest.mark.parametrize(
    "source",
    ("(" * 5_000, "-" * 10_000 + "1", "a" + ".b" * 20_000, "x = " + "[" * 3_000 + "]" * 3_000, "1" + "+1" * 20_000),
)
def test_nested_code_in_the_answer(source: str, tmp_path: Path) -> None:
    files = with_cells()
    of(files[ONE], "unified_token_plan")["source"] = f"{PLANNER}\n{source}"
    started = time.monotonic()
    take(tmp_path, files)
    assert time.monotonic() - started < LIMIT
