"""Killed between any two of its writes, grading leaves no points that the files don't earn, and mends itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autograder.classroom import submission
from autograder.classroom.worker import Task, work
from autograder.gradebook.decisions import by_student
from autograder.gradebook.graded import Digests
from autograder.gradebook.tables import reading
from autograder.gradebook.verdict import Verdict
from autograder.intake.folder import digest
from autograder.reports.report import open_ends
from tests.autograder.classroom import LESSON, NOTEBOOK
from tests.autograder.faults import Telling, killed_at
from tests.autograder.room import Room

pytestmark = pytest.mark.requires_debian("bubblewrap")
WRONG = "def unified_token_plan(requests, token_budget):\n    return {}, 0\n"
MIN_WRITES = 5
"""A real run has more; with fewer, the counting itself is broken."""


@dataclass(frozen=True)
class Case:
    """What there was, what is handed in now, and whether it is graded again in any case."""

    name: str
    before: Callable[[Room], None]
    now: Callable[[Room], None]
    force: bool = False


def nothing(room: Room) -> None:
    pass


def right(room: Room) -> None:
    room.hand_in("a", room.solved())


def graded(room: Room) -> None:
    right(room)
    room.grade()


def read(room: Room) -> None:
    """Graded, and a person has decided about the answer and sided with the student on a test."""
    graded(room)
    with room.classroom.gradebook() as gradebook:
        for cell, points in (("q1_answer", 1.5), ("plan_main_path", 1.0)):
            grade = gradebook.find_grade(cell, NOTEBOOK, LESSON, "a")
            grade.manual_score, grade.needs_manual_grade = points, False
        gradebook.find_comment("q1_answer", NOTEBOOK, LESSON, "a").manual_comment = "chain: 1"
        gradebook.db.commit()


def worse(room: Room) -> None:
    room.hand_in("a", room.solved(unified_token_plan=WRONG))


def another_text(room: Room) -> None:
    room.hand_in("a", room.solved(q1_answer="Another answer."))


def broken(room: Room) -> None:
    (room.folder("a") / f"{NOTEBOOK}.ipynb").write_text("{")


CASES = (
    Case("graded for the first time", nothing, right),
    Case("files changed", graded, worse),
    Case("files changed and a person had decided", read, worse),
    Case("the text changed and a person had decided", read, another_text),
    Case("graded again as it was", read, nothing, force=True),
    Case("nothing can be graded any more", read, broken),
)


def verdict(room: Room) -> Verdict:
    [found] = room.classroom.verdicts()
    return found


def points(found: Verdict) -> dict[str, Any]:
    """All that a verdict says of the points."""
    cells = {name: (cell.points, cell.needs_person, cell.said) for name, cell in found.cells.items()}
    return {**cells, "total": found.total, "fault": found.fault, "ends": found.open_ends, "passed": found.passed}


def decided(room: Room) -> list[tuple[Any, ...]]:
    with reading(room.classroom.book.db_url) as session:
        made = by_student(session, LESSON).get("a", [])
        return [(each.id, each.at, each.who, each.cell, each.text, each.points, each.comment) for each in made]


def entered(room: Room) -> dict[str, float]:
    """As nbgrader itself has them."""
    with room.classroom.gradebook() as gradebook:
        return {grade.name: grade.score for grade in gradebook.find_submission_notebook(NOTEBOOK, LESSON, "a").grades}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_kill_between_any_two_writes_certifies_nothing_wrong_and_the_next_run_mends_it(
    room: Room, tmp_path: Path, case: Case
) -> None:
    place = room.root / "class"
    case.before(room)
    case.now(room)
    kept = tmp_path / "class"
    shutil.copytree(place, kept)
    decisions = decided(room)
    [task] = room.classroom.tasks(room.classroom.folders(), force=case.force)
    old = points(verdict(room))

    def graded_by_a_worker() -> None:
        work(Telling(), task)  # type: ignore[arg-type]

    submission.grade_submission(task.folder, "a", task.sources, _digests(task), task.course)
    writes = killed_at(None, place, graded_by_a_worker)
    assert len(writes) > MIN_WRITES and "send the row" in writes, writes
    right_points, right_entries = points(verdict(room)), entered(room)
    assert decided(room) == decisions
    for number, what in enumerate(writes):
        shutil.rmtree(place)
        shutil.copytree(kept, place)
        killed_at(number, place, graded_by_a_worker)
        found = verdict(room)
        after = f"killed before write {number} of {len(writes)}, {what!r}"
        if not found.fault:
            assert points(found) == right_points, after
            assert entered(room) == right_entries, after
        else:
            assert not found.final and open_ends([found]), after
            assert found.fault in (old["fault"], right_points["fault"]), after
        room.grade()
        assert points(verdict(room)) == right_points, after
        assert entered(room) == right_entries, after
        assert decided(room) == decisions, after
        assert _shown(room) == (right_points["total"] > 0 or bool(right_entries)), after


def _digests(task: Task) -> Digests:
    return Digests(digest(task.folder, task.course), task.release, submission.grader())


def _shown(room: Room) -> bool:
    return (room.classroom.book.autograded("a") / f"{NOTEBOOK}.ipynb").is_file()
