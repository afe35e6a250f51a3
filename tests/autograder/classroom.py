"""A class for the tests: students fill in released notebooks, real nbgrader commands do the rest."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from autograder.paths import CLONE, MASTER_EDITION

LESSON = "lesson-2"
NOTEBOOK = "1-budget-planner"

PLANNER = {
    "need = ______": 'need = request["total_with_spec"] - request["computed"]',
    "take = ______": "take = min(need, token_budget)",
}
MAPPING = """source_mapping = {
    "progress_counter": "Request.num_computed_tokens",
    "running_charge": "vllm/v1/core/sched/scheduler.py#L699-L701",
    "waiting_charge": "scheduler.py#L1133",
    "other_gate": "allocate_slots: KV 块不足时返回 None",
}"""
ESSAY = "Scheduler 每步只算缺口，与阶段无关。"


@dataclass(frozen=True)
class Student:
    """Who hands in which edition, with these sources in the cells of these grade ids."""

    id: str
    edition: str
    answers: Mapping[str, str]


class Classroom:
    """A folder with everything of one class, and the clone's nbgrader configuration."""

    def __init__(self, root: Path, sources: Path, course: Path) -> None:
        self.root = root
        self.course = course
        self._options = [
            f"--CourseDirectory.source_directory={sources / MASTER_EDITION}",
            f"--CourseDirectory.release_directory={course / MASTER_EDITION}",
            f"--BlankInAnyEdition.course_directory={course}",
            f"--Exchange.root={root / 'exchange'}",
            f"--Exchange.cache={root / 'cache'}",
        ]
        (root / "exchange").mkdir(parents=True)
        (root / "exchange").chmod(0o777)

    def nbgrader(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run an nbgrader command from the clone's root, with this class's folder."""
        done = subprocess.run(
            [sys.executable, "-m", "nbgrader", *arguments, *self._options],
            cwd=CLONE,
            env={**os.environ, "MINIVLLM_CLASSROOM": str(self.root), "JUPYTER_PREFER_ENV_PATH": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (
            f"nbgrader {' '.join(arguments)} ended with {done.returncode}\n{done.stdout}{done.stderr}"
        )
        return done

    def hand_in(self, student: Student) -> None:
        """Fill in the released notebook of the student's edition, and submit its folder."""
        folder = self.root / "homes" / student.id / LESSON
        folder.mkdir(parents=True)
        path = folder / f"{NOTEBOOK}.ipynb"
        write(path, filled_in(read(self.course / student.edition / LESSON / path.name), student.answers))
        self.nbgrader("submit", LESSON, f"--student={student.id}", f"--Exchange.assignment_dir={folder.parent}")

    def autograded(self, student: str) -> Any:
        return read(self.root / "autograded" / student / LESSON / f"{NOTEBOOK}.ipynb")

    def export(self) -> dict[str, dict[str, str]]:
        """nbgrader's CSV by student."""
        self.nbgrader("export", f"--to={self.root / 'grades.csv'}")
        with (self.root / "grades.csv").open(encoding="utf-8") as file:
            return {row["student_id"]: row for row in csv.DictReader(file)}


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def write(path: Path, notebook: Any) -> None:
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]


def cell(notebook: Any, grade_id: str) -> Any:
    [found] = [c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id]
    return found


def filled_in(notebook: Any, answers: Mapping[str, str]) -> Any:
    for grade_id, source in answers.items():
        cell(notebook, grade_id).source = source
    return notebook


def planner(released: Any, blanks: Mapping[str, str] = PLANNER) -> str:
    """The released exercise cell with its blanks filled in."""
    source: str = cell(released, "unified_token_plan").source
    for blank, answer in blanks.items():
        assert source.count(blank) == 1, f"{blank!r} stands {source.count(blank)} times in the exercise"
        source = source.replace(blank, answer)
    return source
