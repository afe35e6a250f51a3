"""A small class to look at: right, wrong, broken and hostile submissions in both editions, graded for real."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import yaml

from autograder.classroom.classroom import Classroom, clone_config
from autograder.classroom.demo_files import DAMAGES, GRADED, LESSON, answered, leave_blank
from autograder.paths import CLONE, EDITIONS
from autograder.release.course import build
from autograder.release.publish import enter_gradebook

AS_RELEASED = "~"
OWN_WORDS = yaml.safe_load(Path(__file__).with_name("demo_answers.yaml").read_text(encoding="utf-8"))
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
    said = {**OWN_WORDS[edition], **(answers or {})}
    for name in GRADED:
        notebook = answered(name, edition)
        for cell in notebook.cells:
            grade_id = cell.metadata.get("nbgrader", {}).get("grade_id", "")
            if grade_id in (replace or {}):
                old, new = (replace or {})[grade_id]
                if old not in cell.source:
                    raise ValueError(f"the answer {grade_id} holds no {old!r}: correct demo.yaml")
                cell.source = cell.source.replace(old, new)
            if said.get(grade_id, AS_RELEASED) != AS_RELEASED:
                cell.source = said[grade_id]
        leave_blank(notebook, name, edition, {n for n, text in (answers or {}).items() if text == AS_RELEASED})
        nbformat.write(notebook, folder / f"{name}.ipynb")  # type: ignore[no-untyped-call]
    if damage:
        DAMAGES[damage](folder)
