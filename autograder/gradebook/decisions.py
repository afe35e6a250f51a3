"""What a person decides about an answer: an entry of its own, in the transaction that writes it into nbgrader's rows.

`listen` hears every session in a process that has loaded the course's configuration: the formgrader's, above all. What
was written past it is taken up by `adopt`. A decision is about one text. The newest for the present text counts; no
suggestion changes it, and nothing else counts as read.

How a word is understood, once, when it is given:
- Chain: ``chain: 0``, ``chain: 0.5`` or ``chain: 1`` in the comment says it. Without one, just the suggested points let
  the suggested chain stand; others say "at least half" with more than 0.5.
- Veto: stands if the answer gets 0 points and the suggestion names one.
- Findings: "Full credit" or a typed 0 confirms them, "No credit" does not (nbgrader stores an extra credit of 0 with
  it); ``findings: yes`` or ``findings: no`` in the comment wins over both.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from nbgrader.api import Comment, Grade
from sqlalchemy import event, inspect, select
from sqlalchemy.orm import Session
from tornado.web import HTTPError

from autograder.gradebook.tables import Base, Decision, now, state_of
from autograder.judging.suggestions import FINDINGS

CHAIN = re.compile(r"\bchain\s*[:：]\s*(0\.5|0|1)", flags=re.IGNORECASE)
CONFIRMED = re.compile(r"\bfindings\s*[:：]\s*(yes|no)\b", flags=re.IGNORECASE)
UNKNOWN = "somebody"
"""Who wrote into the gradebook past the course's configuration."""
_acting: ContextVar[str] = ContextVar("acting", default="")


class PointsRefused(HTTPError):
    """Points that a cell can't have; the formgrader answers its page with it."""

    def __init__(self, told: str) -> None:
        super().__init__(400, told.replace("%", "%%"), reason=told.encode("ascii", "replace").decode())
        self.told = told

    def __str__(self) -> str:
        return self.told


@dataclass(frozen=True)
class Decided:
    """The decisions about one submission, oldest first."""

    decisions: tuple[Decision, ...]

    @classmethod
    def of(cls, session: Session, lesson: str, student: str) -> Decided:
        about = (Decision.lesson == lesson, Decision.student == student)
        return cls(tuple(session.scalars(select(Decision).where(*about).order_by(Decision.id))))

    def about(self, notebook: str, cell: str, text: str) -> Decision | None:
        """The one that counts for this text of the cell."""
        found = [each for each in self._of(notebook, cell) if each.text == text]
        return found[-1] if found else None

    def last(self, notebook: str, cell: str) -> Decision | None:
        """The newest, whatever text it is about."""
        return next(reversed([*self._of(notebook, cell)]), None)

    def _of(self, notebook: str, cell: str) -> Iterator[Decision]:
        return (each for each in self.decisions if (each.notebook, each.cell) == (notebook, cell))


@contextmanager
def acting(who: str) -> Iterator[None]:
    """What is decided inside is this person's."""
    token = _acting.set(who)
    try:
        yield
    finally:
        _acting.reset(token)


def me() -> str:
    """Who decides: as the formgrader's server knows them, else the user of this process."""
    return _acting.get() or os.environ.get("JUPYTERHUB_USER") or getpass.getuser()


def listen() -> bool:
    """From now on, hear what people write into nbgrader's rows, in every session of this process. False: it did."""
    if event.contains(Session, "before_flush", _hear):
        return False
    event.listen(Session, "before_flush", _hear)
    return True


def _hear(session: Session, context: Any, instances: Any) -> None:
    if session.info.get("grader"):
        return
    changed = [row for row in session.dirty if isinstance(row, Grade | Comment) and _by_a_person(row)]
    if not changed:
        return
    try:
        for row in changed:
            _check(row)
        Base.metadata.create_all(session.connection())
        with session.no_autoflush:
            made = [_decision(session, *about, me()) for about in dict.fromkeys(map(_place, changed))]
    except Exception:
        for row in changed:
            session.expire(row)  # or the next request of the formgrader, another person's, would store it
        raise
    session.add_all(made)


def _by_a_person(row: Grade | Comment) -> bool:
    state: Any = inspect(row)
    names = ("manual_comment",) if isinstance(row, Comment) else ("manual_score", "extra_credit")
    if any(state.attrs[name].history.has_changes() for name in names):
        return True
    confirmed = isinstance(row, Grade) and row.manual_score is not None and not row.needs_manual_grade
    return bool(confirmed and state.attrs.needs_manual_grade.history.has_changes())


def _check(row: Grade | Comment) -> None:
    """Raises PointsRefused. A cell that waits for a person goes on waiting if the points were taken back."""
    if isinstance(row, Comment):
        return
    with inspect(row).session.no_autoflush:
        cell, most = f"{row.notebook.student.id}, {row.cell.name}", row.cell.max_score
    for typed in (row.manual_score, row.extra_credit):
        if typed is not None and not _is_number(typed):
            raise PointsRefused(f"{cell}: {str(typed)[:40]!r} is no number of points: type 0 to {most:g}")
    points = _points(row)
    if row.manual_score is None and float(row.extra_credit or 0) != 0 and _is_read(row):
        raise PointsRefused(f"{cell}: extra credit alone is no decision: type the points, 0 to {most:g}")
    if points is not None and not 0 <= points <= most:
        told = " with the extra credit" if row.extra_credit else ""
        raise PointsRefused(f"{cell}: {points:g} points{told} are not within 0 and {most:g}: type others")
    if row.manual_score is None and _is_read(row):
        row.needs_manual_grade = True


def _is_number(typed: Any) -> bool:
    try:
        float(typed)
    except (TypeError, ValueError):
        return False
    return True


def _is_read(row: Grade) -> bool:
    """Whether a person has to give its points."""
    return bool(row.cell_type == "markdown")


def _points(row: Grade) -> float | None:
    """As a person has given them; extra credit on top of what the tests gave counts too."""
    extra = float(row.extra_credit or 0)
    if row.manual_score is not None:
        return float(row.manual_score) + extra
    return float(row.auto_score or 0) + extra if extra else None


Place = tuple[Any, Any]
"""A submitted notebook and the name of a cell in it."""


def _place(row: Grade | Comment) -> Place:
    return row.notebook, row.cell.name


def _decision(session: Session, submitted: Any, cell: str, who: str) -> Decision:
    """From what nbgrader's rows say now."""
    lesson, student, notebook = submitted.assignment.name, submitted.student.id, submitted.name
    grade = next((row for row in submitted.grades if row.cell.name == cell), None)
    comment = next((row.manual_comment for row in submitted.comments if row.cell.name == cell), None) or ""
    state = state_of(session, lesson, student)
    points = _points(grade) if grade is not None else None
    made = Decision(at=now(), who=who, lesson=lesson, student=student, notebook=notebook, cell=cell, comment=comment)
    made.text = (state.cell(notebook, cell).get("text") if state else None) or ""
    made.points, made.chain, made.confirmed, made.veto, made.why = points, None, None, "", ""
    if points is None:
        return made
    suggested = (state.suggestion(notebook, cell) if state else None) or {}
    if cell == FINDINGS:
        said = CONFIRMED.search(comment)
        made.confirmed = said[1].lower() == "yes" if said else not (grade and grade.extra_credit == 0)
        made.why = "" if made.confirmed else suggested.get("why", "")
    elif suggested or _is_read(grade):
        before = Decided.of(session, lesson, student).about(notebook, cell, made.text)
        made.chain = _chain(points, comment, suggested, before)
        made.veto = "" if points else suggested.get("veto", "")
        made.why = suggested.get("why", "") if points in (suggested.get("points"), suggested.get("guess")) else ""
    return made


def spoken(comment: str) -> str:
    """A comment for the student: without the lines that only tell the verdict something."""
    lines = comment.splitlines()
    return "\n".join(each for each in lines if not (CHAIN.fullmatch(each.strip()) or CONFIRMED.fullmatch(each.strip())))


def _chain(points: float, comment: str, suggested: dict[str, Any], before: Decision | None) -> float:
    said = CHAIN.search(comment)
    if said:
        return float(said[1])
    if before is not None and before.points == points and before.chain is not None and not CHAIN.search(before.comment):
        return before.chain  # only the comment is new
    if suggested.get("points") == points:
        return float(suggested["chain"])
    return 0.5 if points > 0.5 else 0.0


def adopt(session: Session, lesson: str) -> None:
    """Take up points that somebody wrote past `listen`, if a cell can have them."""
    made = by_student(session, lesson)
    for grade in session.scalars(select(Grade).where(Grade.manual_score.is_not(None))):
        if grade.assignment.name != lesson:
            continue
        student = grade.notebook.student.id
        known = Decided(tuple(made.get(student, ())))
        state = state_of(session, lesson, student)
        text = (state.cell(grade.notebook.name, grade.cell.name).get("text") if state else None) or ""
        counts = known.about(grade.notebook.name, grade.cell.name, text)
        points = _points(grade)
        if points is None or not 0 <= points <= grade.cell.max_score:
            continue
        if text and (counts is None or counts.points != points):
            with session.no_autoflush:
                session.add(_decision(session, grade.notebook, grade.cell.name, UNKNOWN))
            grade.needs_manual_grade = False


def take_up(session: Session, submission: Any) -> None:
    """Points from before there were states: they are kept as decisions, about texts that nobody knows any more."""
    for grade in [grade for notebook in submission.notebooks for grade in notebook.grades]:
        if grade.manual_score is not None:
            with session.no_autoflush:
                session.add(_decision(session, grade.notebook, grade.cell.name, UNKNOWN))


def by_student(session: Session, lesson: str) -> dict[str, list[Decision]]:
    """All decisions, oldest first."""
    found: dict[str, list[Decision]] = {}
    for each in session.scalars(select(Decision).where(Decision.lesson == lesson).order_by(Decision.id)):
        found.setdefault(each.student, []).append(each)
    return found
