"""A small course, built in a folder of its own, and an edited one to release after it."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from traitlets.config import Config

from autograder.config import clone_config
from autograder.gradebook.lesson import fault_of_release
from autograder.paths import CLONE
from autograder.release.publish import release
from tests.autograder.classroom import LESSON, NOTEBOOK

ROWS = {
    "course": "select id from course where id <> 'default_course'",  # which nbgrader adds whenever it likes
    "assignment": "select name, duedate, course_id from assignment",
    "notebook": "select n.name, n.kernelspec, a.name from notebook n join assignment a on a.id = n.assignment_id",
    "base_cell": "select b.name, b.type, n.name from base_cell b join notebook n on n.id = b.notebook_id",
    "grade_cells": "select b.name, g.max_score, g.cell_type from grade_cells g join base_cell b using (id)",
    "solution_cells": "select b.name from solution_cells s join base_cell b using (id)",
    "task_cells": "select b.name, t.max_score, t.cell_type from task_cells t join base_cell b using (id)",
    "source_cell": "select s.name, s.cell_type, s.locked, s.source, s.checksum, n.name"
    " from source_cell s join notebook n on n.id = s.notebook_id",
    "alembic_version": "select version_num from alembic_version",
}
"""What nbgrader keeps of a lesson, with names in place of its random ids."""


class Course:
    """solutions/, build/source, course/ and a class below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.solutions = root / "solutions"
        self.sources = root / "build" / "source"
        self.course = root / "course"
        self.record = root / "released.json"
        self.room = root / "class"
        self.config = self._config()
        if not self.solutions.exists():
            (self.solutions / LESSON).mkdir(parents=True)
            self.room.mkdir()
            self.lesson.write_bytes((CLONE / "solutions" / LESSON / f"{NOTEBOOK}.md").read_bytes())

    def _config(self) -> Config:
        config = clone_config()
        config.CourseDirectory.root = str(self.root)
        config.CourseDirectory.source_directory = str(self.sources / "en")
        config.CourseDirectory.release_directory = str(self.course / "en")
        for step in ("submitted", "autograded", "feedback"):
            config.CourseDirectory[f"{step}_directory"] = str(self.room / step)
        config.CourseDirectory.db_url = f"sqlite:///{self.gradebook}"
        return config

    @property
    def gradebook(self) -> Path:
        return self.room / "gradebook.db"

    @property
    def lesson(self) -> Path:
        return self.solutions / LESSON / f"{NOTEBOOK}.md"

    def edit(self, old: str = "points: 1.75", new: str = "points: 1.5") -> None:
        text = self.lesson.read_text(encoding="utf-8")
        assert text.count(old) == 1
        self.lesson.write_text(text.replace(old, new), encoding="utf-8")

    def release(self) -> None:
        release(self.config, LESSON, "en", self.solutions, self.sources, self.course, self.record)

    def copy(self, root: Path) -> Course:
        shutil.copytree(self.root, root)
        return Course(root)

    def files(self) -> dict[str, bytes]:
        """What a release changes on disk, less what is aside."""
        places = [path for place in (self.sources, self.course) for path in sorted(place.rglob("*"))]
        return {
            str(path.relative_to(self.root)): path.read_bytes() for path in [*places, self.record] if path.is_file()
        }

    def rows(self) -> dict[str, list[Any]]:
        return rows(self.gradebook)

    def fault(self) -> str:
        from nbgrader.api import Gradebook

        with Gradebook(self.config.CourseDirectory.db_url, "minivllm") as gradebook:
            return fault_of_release(gradebook.db, LESSON, self.sources, self.course)


def rows(path: Path) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(path)) as database:
        return {table: sorted(database.execute(query), key=str) for table, query in ROWS.items()}
