"""The process of one submission: looks at it, grades it if it has changed, and enters it, whole or not at all.

The class's own process never reads what a student made; what comes back to it is a short `Row`.
"""

from __future__ import annotations

import json
import resource
import signal
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from nbgrader.api import Assignment, SubmittedAssignment
from sqlalchemy import select
from sqlalchemy.exc import DatabaseError

from autograder.classroom import submission
from autograder.gradebook.entry import Book, enter
from autograder.gradebook.graded import Digests
from autograder.gradebook.tables import reading, state_of
from autograder.intake.folder import digest
from autograder.intake.notes import Note
from autograder.running.sandbox import sandbox

WORKER_MEMORY = 3 << 30  # bytes
MAX_TEXT = 1_000  # characters of a note that come back
MAX_REPLY = 1 << 20  # bytes
NO_MORE = "the points of what was handed in before count no more, until it is back"
NO_FILES = ""
"""The digest of files that could not be looked through: the next run tries again."""

sandbox()  # what the fork server loads once, so that a worker starts at once
submission.grader()


@dataclass(frozen=True)
class Row:
    """What became of one submission. Without points, `reason` says why."""

    student: str
    points: float | None = None
    of: float | None = None
    unread: bool = False
    """Some of it waits for a person."""
    unchanged: bool = False
    seconds: float = 0.0
    reason: str = ""
    notes: tuple[Note, ...] = ()
    files: str = NO_FILES
    """The digest of what was handed in."""

    def as_bytes(self) -> bytes:
        notes = tuple(replace(note, text=note.text[:MAX_TEXT], kept="", other="") for note in self.notes)
        return json.dumps(asdict(replace(self, notes=notes))).encode("ascii")

    @classmethod
    def of_bytes(cls, data: bytes) -> Row:
        told = json.loads(data)
        return cls(**{**told, "notes": tuple(Note(**note) for note in told["notes"])})


@dataclass(frozen=True)
class Task:
    """A submission to be graded, or with `only_look` to be looked at; `release` is the released lesson's digest."""

    book: Book
    student: str
    folder: Path
    sources: Path
    course: Path
    release: str
    force: bool = False
    only_look: bool = False


def work(connection: Connection, task: Task) -> None:
    """In the worker. Its sandbox ends with it, and it ends with the class, whom Ctrl-C is for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (WORKER_MEMORY, most))
    connection.send_bytes(row_of(task).as_bytes())


def row_of(task: Task) -> Row:
    """Look, and grade what has changed. Whatever goes wrong is told in the row."""
    row = Row(task.student)
    try:
        row = replace(row, files=digest(task.folder, task.course))
        return row if task.only_look else _graded(task, row)
    except DatabaseError as error:
        told = f"graded, but not entered: the gradebook can't be used ({' '.join(str(error.orig).split())[:200]})"
        return replace(row, reason=f"{told}; end what else uses it and run `grade` again")
    except Exception as error:
        return replace(row, reason=f"it could not be taken in ({type(error).__name__}: {error})"[:MAX_TEXT])


def _graded(task: Task, row: Row) -> Row:
    digests = Digests(row.files, task.release, submission.grader())
    with reading(task.book.db_url, task.book.course_id) as session:
        state = state_of(session, task.book.lesson, task.student)
        same = state is not None and Digests.of(state) == digests and not task.force
        is_there = state is not None and (state.failed or task.book.autograded(task.student).is_dir())
    if not (same and is_there):
        enter(
            task.book,
            task.student,
            submission.grade_submission(task.folder, task.student, task.sources, digests, task.course),
        )
    return replace(_entered(task.book, row), unchanged=bool(same and is_there))


def _entered(book: Book, row: Row) -> Row:
    with reading(book.db_url, book.course_id) as session:
        state = state_of(session, book.lesson, row.student)
        assert state is not None
        row = replace(row, seconds=state.seconds, reason=state.failed, notes=tuple(_notes(state.notes)))
        about = (Assignment.name == book.lesson, SubmittedAssignment.student_id == row.student)
        entered = session.scalars(select(SubmittedAssignment).join(Assignment).where(*about)).one_or_none()
        if state.failed:
            return replace(row, reason=f"{row.reason}; {NO_MORE}") if entered else row
        assert entered is not None
        points = entered.score - (entered.late_submission_penalty or 0)
        return replace(row, points=points, of=entered.max_score, unread=entered.needs_manual_grade)


def _notes(data: list[dict[str, Any]]) -> list[Note]:
    return [Note(**note) for note in data]
