"""A class that is graded in this process: the first graded notebook alone, submissions put where collect puts them."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import delete
from traitlets.config import Config

from autograder.classroom.classroom import Classroom, clone_config, grade_class
from autograder.classroom.worker import Row
from autograder.classroom.workers import Workers
from autograder.gradebook.tables import Decision, Settlement, State, transaction
from autograder.paths import CLONE
from autograder.release.course import build
from autograder.release.publish import enter_gradebook
from tests.autograder.classroom import ESSAY, LESSON, MAPPING, NOTEBOOK, filled_in, planner, read, write

CELLS = ("plan_examples", "plan_main_path", "plan_boundaries", "source_mapping_check")
FULL = (0.25, 1.75, 1.0, 1.0)


class Room:
    """A folder with course, gradebook and submissions."""

    def __init__(self, root: Path) -> None:
        (root / "solutions" / LESSON).mkdir(parents=True)
        shutil.copy(CLONE / "solutions" / LESSON / f"{NOTEBOOK}.md", root / "solutions" / LESSON)
        build(root / "solutions", root / "source", root / "course")
        (root / "class").mkdir()
        self._open(root)
        enter_gradebook(self.config, LESSON)

    def _open(self, root: Path) -> None:
        self.root = root
        self.config = self._config()
        self.submitted = root / "class" / "submitted"
        self.classroom = Classroom(LESSON, self.config)

    def _config(self) -> Config:
        config = clone_config()
        place = self.root / "class"
        config.CourseDirectory.root = str(self.root)
        config.CourseDirectory.source_directory = str(self.root / "source" / "en")
        config.CourseDirectory.release_directory = str(self.root / "course" / "en")
        for step in ("submitted", "autograded", "feedback"):
            config.CourseDirectory[f"{step}_directory"] = str(place / step)
        config.CourseDirectory.db_url = f"sqlite:///{place / 'gradebook.db'}"
        config.BlankInAnyEdition.course_directory = str(self.root / "course")
        return config

    def empty(self) -> None:
        """Take out all students and what became of their work."""
        for step in ("submitted", "autograded", "feedback"):
            shutil.rmtree(self.root / "class" / step, ignore_errors=True)
        with self.classroom.gradebook() as gradebook:
            for student in gradebook.students:
                gradebook.remove_student(student.id)
        with transaction(self.classroom.book.db_url) as session:
            for table in (State, Decision, Settlement):
                session.execute(delete(table))

    def released(self, edition: str = "en") -> Any:
        return read(self.root / "course" / edition / LESSON / f"{NOTEBOOK}.ipynb")

    def solved(self, **answers: str) -> Any:
        """The released notebook with right answers, but for those given."""
        notebook = self.released()
        return filled_in(notebook, {**self.answers(), **answers})

    def answers(self) -> Mapping[str, Any]:
        return {"unified_token_plan": planner(self.released()), "source_mapping": MAPPING, "q1_answer": ESSAY}

    def folder(self, student: str) -> Path:
        folder = self.submitted / student / LESSON
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def hand_in(self, student: str, notebook: Any) -> Path:
        path = self.folder(student) / f"{NOTEBOOK}.ipynb"
        write(path, notebook)
        return path

    def grade(self, jobs: int = 2, force: bool = False, only: Collection[str] = ()) -> dict[str, Row]:
        return {row.student: row for row in grade_class(self.classroom, Workers(jobs), force, only)}

    def points(self, student: str) -> tuple[float | None, ...]:
        with self.classroom.gradebook() as gradebook:
            return tuple(gradebook.find_grade(cell, NOTEBOOK, LESSON, student).auto_score for cell in CELLS)

    def told(self, student: str) -> dict[str, str]:
        """What stands below each cell of the graded notebook, by grade id."""
        path = self.root / "class" / "autograded" / student / LESSON / f"{NOTEBOOK}.ipynb"
        return {
            cell.metadata["nbgrader"]["grade_id"]: " ".join(
                str(output.get("text") or output.get("evalue") or "") for output in cell.outputs
            )
            for cell in read(path).cells
            if cell.cell_type == "code" and "nbgrader" in cell.metadata
        }


def opened(root: Path) -> Room:
    """The room that another process made there."""
    room = Room.__new__(Room)
    room._open(root)
    return room
