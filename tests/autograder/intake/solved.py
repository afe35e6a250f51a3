"""Notebook 1 with right answers as plain JSON, to be broken, and its points on the autograder's own path."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader import utils

from autograder.intake.intake import Taken, intake
from autograder.paths import CLONE
from autograder.release.course import edition_of
from autograder.running.cells import NO_FILES, Executed, execute
from tests.autograder.classroom import LESSON, MAPPING, NOTEBOOK, planner, read

PLANNER = planner(read(CLONE / "course" / "en" / LESSON / f"{NOTEBOOK}.ipynb"))
ESSAY = {
    "en": "**Objects:** `Request` owns `num_computed_tokens`.\n\n**State changes:** a step adds.\n\n**Chain:** the gap.",
    "zh": "**对象：** `Request` 持有 `num_computed_tokens`。\n\n**状态变化：** 每步增加。\n\n**因果链：** 只看缺口。",
}
FULL = {"plan_examples": 0.25, "plan_main_path": 1.75, "plan_boundaries": 1.0, "source_mapping_check": 1.0}
Notebook = dict[str, Any]


@functools.cache
def _released(edition: str, name: str = NOTEBOOK) -> str:
    return (CLONE / "course" / edition / LESSON / f"{name}.ipynb").read_text(encoding="utf-8")


def released(edition: str = "en", name: str = NOTEBOOK) -> Notebook:
    notebook: Notebook = json.loads(_released(edition, name))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
    return notebook


def solved(edition: str = "en") -> Notebook:
    notebook = released(edition)
    for grade_id, text in answers(edition).items():
        of(notebook, grade_id)["source"] = text
    return notebook


def answers(edition: str = "en") -> dict[str, str]:
    return {"unified_token_plan": PLANNER, "source_mapping": MAPPING, "q1_answer": ESSAY[edition]}


def place(notebook: Notebook, grade_id: str) -> int:
    is_it = ('"grade_id": ' + json.dumps(grade_id) in json.dumps(cell["metadata"]) for cell in notebook["cells"])
    return list(is_it).index(True)


def of(notebook: Notebook, grade_id: str) -> dict[str, Any]:
    cell: dict[str, Any] = notebook["cells"][place(notebook, grade_id)]
    return cell


def new(source: str, kind: str = "code", **metadata: Any) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "metadata": metadata, "source": source}
    return cell | ({"outputs": [], "execution_count": None} if kind == "code" else {})


def insert(notebook: Notebook, grade_id: str, source: str, offset: int = 0, kind: str = "code") -> None:
    """A new cell before the one with this id, or `offset` cells later."""
    notebook["cells"].insert(place(notebook, grade_id) + offset, new(source, kind))


def twin(cell: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return copy.deepcopy(cell) | changes


def hand_in(folder: Path, content: Notebook | bytes, name: str = f"{NOTEBOOK}.ipynb") -> Path:
    """The submission's folder, with this file in it."""
    place = folder / LESSON
    place.mkdir(parents=True, exist_ok=True)
    path = place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return place


def taken(folder: Path, content: Notebook | bytes, name: str = f"{NOTEBOOK}.ipynb") -> Taken:
    return intake(hand_in(folder, content, name), "student")


def kinds(taken: Taken) -> set[str]:
    return {note.kind for note in taken.notes}


def source(notebook: NotebookNode, grade_id: str) -> str:
    [found] = [c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id]
    return str(found.source)


@functools.cache
def _master() -> str:
    return json.dumps(edition_of(CLONE / "solutions" / LESSON / f"{NOTEBOOK}.md", "en"))


def points(notebook: NotebookNode) -> dict[str, float]:
    """What nbgrader reads from the instructor's tests on the code in `notebook`."""
    cells = [[cell.source, cell.metadata] for cell in notebook.cells if cell.cell_type == "code" and _is_run(cell)]
    key = json.dumps(cells, sort_keys=True)
    if key not in _points:
        _points[key] = _executed(notebook)
    return _points[key]


_points: dict[str, dict[str, float]] = {}
"""The same answers get the same points: most repairs end in the same notebook."""


def _is_run(cell: NotebookNode) -> bool:
    return "nbgrader" in cell.metadata or "minivllm" in cell.metadata


def _executed(notebook: NotebookNode) -> dict[str, float]:
    return points_of(executed(notebook))


def executed(notebook: NotebookNode, files: Mapping[str, bytes] = NO_FILES) -> Executed:
    return execute(master(), notebook, files)


def master() -> NotebookNode:
    notebook: NotebookNode = nbformat.from_dict(json.loads(_master()))  # type: ignore[no-untyped-call]
    return notebook


def points_of(executed: Executed) -> dict[str, float]:
    """What nbgrader reads from the outputs of the test cells."""
    found = {}
    for cell in master().cells:
        if cell.cell_type == "code" and utils.is_grade(cell):
            grade_id = cell.metadata["nbgrader"]["grade_id"]
            cell.outputs = executed.outputs.get(grade_id, [])
            found[grade_id] = float(utils.determine_grade(cell)[0])
    return found
