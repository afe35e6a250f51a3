"""The verdicts of a class, read from states, decisions, settled notes and nbgrader's own rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from nbgrader.api import Assignment, Student, SubmittedAssignment
from sqlalchemy import select
from sqlalchemy.orm import Session

from autograder.gradebook.decisions import Decided, by_student
from autograder.gradebook.entry import Book
from autograder.gradebook.graded import Digests
from autograder.gradebook.settling import open_in, settled
from autograder.gradebook.tables import State, reading
from autograder.gradebook.verdict import DIFFERS, GONE, NOTHING, OUTDATED, UNGRADED, UNSEEN, Cell, Verdict
from autograder.intake.notes import Note
from autograder.judging.points import PARTS
from autograder.judging.suggestions import Suggested


def verdicts(book: Book, looked: Mapping[str, str], now: Digests) -> list[Verdict]:
    """Of everybody whom the gradebook knows or who handed something in, by name of the student.

    `looked` has the digest of what each has handed in; `now`, the grader's and the released lesson's.
    """
    with reading(book.db_url, book.course_id) as session:
        states = {state.student: state for state in session.scalars(select(State).where(State.lesson == book.lesson))}
        names = {*session.scalars(select(Student.id)), *looked, *states}
        rows = _Rows(session, book.lesson)
        return [_verdict(name, states.get(name), looked.get(name), now, rows) for name in sorted(names)]


def _verdict(student: str, state: State | None, files: str | None, now: Digests, rows: _Rows) -> Verdict:
    shown = student.encode("utf-8", "backslashreplace").decode("utf-8")
    if shown != student or "/" in student:
        return Verdict(shown.replace("/", "|"), reason="the student's name is no name of a folder: rename it")
    if state is None:
        return Verdict(student, reason=NOTHING if files is None else UNGRADED, folder=files is not None)
    verdict = Verdict(student, state.edition, folder=files is not None, reason=state.failed)
    verdict.notes = tuple(Note(**note) for note in state.notes)
    verdict.settled = rows.settled.get(student, {})
    verdict.open_notes = open_in(state, verdict.settled)
    if files is None:
        verdict.outdated = GONE
    elif not files:
        verdict.outdated = UNSEEN
    elif not state.files:
        verdict.outdated = state.failed
    elif Digests.of(state) != Digests(files, now.release, now.grader):
        verdict.outdated = OUTDATED
    if state.failed:
        return verdict
    decided = Decided(tuple(rows.decisions.get(student, ())))
    verdict.missing = frozenset(part.notebook for part in PARTS) - state.notebooks.keys()
    for name, notebook in state.notebooks.items():
        verdict.suggestions |= {cell: Suggested(**data) for cell, data in notebook["suggestions"].items()}
        verdict.told |= {cell: list(data["told"]) for cell, data in notebook["cells"].items()}
        verdict.cells |= dict(_cells(name, notebook, decided))
    submission = rows.submissions.get(student)
    if submission is None or rows.differ(submission, verdict.cells):
        verdict.outdated = verdict.outdated or DIFFERS.format(student)
    if submission is not None:
        verdict.seconds_late = submission.total_seconds_late
        verdict.penalty = submission.late_submission_penalty or 0.0
        verdict.flagged = tuple(each.name for each in submission.notebooks if each.flagged)
    return verdict


def _cells(name: str, notebook: Mapping[str, Any], decided: Decided) -> Iterator[tuple[str, Cell]]:
    for grade_id, data in notebook["cells"].items():
        decision = None if data["blank"] else decided.about(name, grade_id, data["text"])
        given = decision.points if decision else None
        suggested = notebook["suggestions"].get(grade_id, {})
        by_tests = data["points"] if data["points"] is not None else suggested.get("points")
        waits = data["of"] is not None and data["points"] is None and given is None
        told = (decision.comment or decision.why) if decision else ""
        comment = told or ("" if given is not None else suggested.get("comment", ""))
        points = (given if given is not None else by_tests) or 0.0
        yield grade_id, Cell(points, data["of"] or 0.0, waits, decision, comment, data["blank"])


class _Rows:
    """What else the gradebook has of the lesson: nbgrader's own rows, and what people said."""

    def __init__(self, session: Session, lesson: str) -> None:
        self.decisions = by_student(session, lesson)
        self.settled = settled(session, lesson)
        query = select(SubmittedAssignment).join(Assignment).where(Assignment.name == lesson)
        self.submissions: dict[str, SubmittedAssignment] = {row.student_id: row for row in session.scalars(query)}

    def differ(self, submission: SubmittedAssignment, cells: Mapping[str, Cell]) -> bool:
        """Whether nbgrader has other points than are right, or asks for what is read; its pages and export show its."""
        rows = [grade for notebook in submission.notebooks for grade in notebook.grades]
        ours = {grade.cell.name: cells.get(grade.cell.name, Cell(0.0, 0.0)) for grade in rows}
        return any(
            not math.isclose(grade.score, ours[grade.cell.name].points, abs_tol=1e-9)
            or grade.needs_manual_grade != ours[grade.cell.name].needs_person
            for grade in rows
        )
