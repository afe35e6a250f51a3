"""A class whose gradebook knows the lesson: made once a module, emptied for each test."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autograder.classroom import submission
from autograder.classroom.worker import Row, Task, row_of
from autograder.classroom.workers import Workers
from autograder.gradebook.graded import Graded
from tests.autograder.room import Room


@pytest.fixture
def deep_path(tmp_path: Path) -> Iterator[Path]:
    """A folder for what no recursion of Python's, and so not pytest's own, could remove."""
    folder = tmp_path / "deep"
    folder.mkdir()
    yield folder
    subprocess.run(["rm", "-rf", folder], check=True)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Room:
    return Room(tmp_path_factory.mktemp("room"))


@pytest.fixture
def room(template: Room) -> Room:
    template.empty()
    return template


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers work in this process, and what they found out about files is known the second time: kills are many."""
    known: dict[tuple[str, Any], Graded] = {}
    grade = submission.grade_submission

    def once(folder: Path, student: str, sources: Path, digests: Any, course: Path) -> Graded:
        key = (student, digests)
        if key not in known:
            known[key] = grade(folder, student, sources, digests, course)
        return known[key]

    def run(workers: Workers, tasks: Iterable[Task]) -> Iterator[tuple[Task, Row]]:
        yield from ((task, row_of(task)) for task in tasks)

    monkeypatch.setattr(submission, "grade_submission", once)
    monkeypatch.setattr(Workers, "run", run)
