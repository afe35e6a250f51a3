"""A small class to look at: right, wrong, broken and hostile submissions in both editions, graded for real."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import nbformat
import yaml
from nbformat import NotebookNode

from autograder.classroom.classroom import Classroom, clone_config
from autograder.paths import CLONE, EDITIONS
from autograder.release.course import build
from autograder.release.publish import enter_gradebook

LESSON = "lesson-2"
GRADED = ("1-budget-planner", "2-prefix-match", "4-preemption", "5-on-the-gpu")
MARK = re.compile(r"^[ \t]*### (?:BEGIN|END) SOLUTION\n?", flags=re.MULTILINE)
AS_RELEASED = "~"
CLASS = yaml.safe_load(Path(__file__).with_name("demo.yaml").read_text(encoding="utf-8"))


def create(root: Path, students: Mapping[str, Any] = CLASS) -> Classroom:
    """A class in the folder `root`: its gradebook knows the lesson, and the submissions are there to be graded."""
    if not all((CLONE / "build" / "source" / edition / LESSON).is_dir() for edition in EDITIONS):
        build()
    os.environ["MINIVLLM_CLASSROOM"] = str(root)
    config = clone_config()
    enter_gradebook(config, LESSON)
    room = Classroom(LESSON, config)
    for student, does in students.items():
        submission = {name: value for name, value in does.items() if name != "read"}
        hand_in(room.submitted / student / LESSON, **submission)
    return room


def read_answers(room: Classroom, students: Mapping[str, Any] = CLASS) -> None:
    """Give the points of the demo's person, as the formgrader stores them."""
    with room.gradebook() as gradebook:
        for student, does in students.items():
            for notebook in gradebook.find_submission(LESSON, student).notebooks if "read" in does else ():
                for grade in notebook.grades:
                    if grade.name in does["read"]:
                        grade.manual_score, grade.needs_manual_grade = does["read"][grade.name], False
        gradebook.db.commit()


def hand_in(
    folder: Path,
    edition: str,
    answers: Mapping[str, str] | None = None,
    replace: Mapping[str, tuple[str, str]] | None = None,
    damage: str = "",
) -> None:
    folder.mkdir(parents=True)
    for name in GRADED:
        notebook = answered(name, edition)
        for cell in notebook.cells:
            grade_id = cell.metadata.get("nbgrader", {}).get("grade_id", "")
            if grade_id in (replace or {}):
                old, new = (replace or {})[grade_id]
                if old not in cell.source:
                    raise ValueError(f"the answer {grade_id} holds no {old!r}: correct demo.yaml")
                cell.source = cell.source.replace(old, new)
            if (answers or {}).get(grade_id, AS_RELEASED) != AS_RELEASED:
                cell.source = (answers or {})[grade_id]
        _leave_blank(notebook, name, edition, {n for n, text in (answers or {}).items() if text == AS_RELEASED})
        nbformat.write(notebook, folder / f"{name}.ipynb")  # type: ignore[no-untyped-call]
    if damage:
        DAMAGES[damage](folder)


def answered(name: str, edition: str) -> NotebookNode:
    """The released notebook with the model answers in it."""
    notebook = _read("course", name, edition)
    source = {cell.id: cell.source for cell in _read("build/source", name, edition).cells}
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = MARK.sub("", source[cell.id]).strip()
    return notebook


def _leave_blank(notebook: NotebookNode, name: str, edition: str, grade_ids: set[str]) -> None:
    released = {cell.id: cell.source for cell in _read("course", name, edition).cells}
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") in grade_ids:
            cell.source = released[cell.id]


def _read(place: str, name: str, edition: str) -> NotebookNode:
    notebook: NotebookNode = nbformat.read(CLONE / place / edition / LESSON / f"{name}.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    return notebook


# --- what happens to files -------------------------------------------------------------------------------------------


def _planner(folder: Path) -> Path:
    return folder / f"{GRADED[0]}.ipynb"


def rename(folder: Path) -> None:
    _planner(folder).rename(folder / f"{GRADED[0]} (1).ipynb")


def truncate(folder: Path) -> None:
    for path in folder.glob("*.ipynb"):
        path.write_bytes(path.read_bytes()[:1000])


def link(folder: Path) -> None:
    _planner(folder).unlink()
    _planner(folder).symlink_to("/etc/passwd")


def delete_tests(folder: Path) -> None:
    _change(folder, lambda cell: None if cell.metadata.get("nbgrader", {}).get("locked") else cell)


def lose_metadata(folder: Path) -> None:
    def bare(cell: NotebookNode) -> NotebookNode:
        cell.metadata = nbformat.from_dict({})  # type: ignore[no-untyped-call]
        return cell

    _change(folder, bare)


def _change(folder: Path, change: Callable[[NotebookNode], NotebookNode | None]) -> None:
    notebook = nbformat.read(_planner(folder), as_version=4)  # type: ignore[no-untyped-call]
    notebook.cells = [cell for old in notebook.cells if (cell := change(old)) is not None]
    nbformat.write(notebook, _planner(folder))  # type: ignore[no-untyped-call]


DAMAGES: dict[str, Callable[[Path], None]] = {
    each.__name__: each for each in (rename, truncate, link, delete_tests, lose_metadata)
}
