"""A whole class: every submission in a worker process of its own, which also enters what came of it.

submitted/STUDENT/LESSON  ->  autograded/STUDENT/LESSON, and points and `State` in the gradebook, in one transaction

A worker that ends badly costs its own submission. What was graded and has not changed since is left alone; what an
interrupted run has left is taken up where it stopped. This process reads nothing that a student made.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from nbgrader.api import Assignment, Gradebook
from sqlalchemy import select
from sqlalchemy.exc import DatabaseError
from sqlalchemy.orm import Session
from traitlets.config import Config

from autograder.classroom.lock import alone
from autograder.classroom.submission import grader
from autograder.classroom.worker import NO_FILES, Row, Task
from autograder.classroom.workers import Workers
from autograder.config import clone_config as clone_config
from autograder.gradebook import decisions
from autograder.gradebook.address import file_of
from autograder.gradebook.address import shown as shown_address
from autograder.gradebook.entry import Book, fail
from autograder.gradebook.graded import Digests
from autograder.gradebook.lesson import current_release, fault_of_release
from autograder.gradebook.tables import reading, transaction
from autograder.gradebook.verdict import Verdict
from autograder.gradebook.verdicts import verdicts
from autograder.intake.notes import shown

SHOWN_NAMES = 10
NEW_OR_COPY = (
    "run `python -m autograder release en` (or zh) for a new class, or put your last copy of the gradebook back"
)


class ClassroomError(Exception):
    """The class can't be graded as it is; the text says why, and the remedy."""


class Classroom:
    """One lesson of a class, where nbgrader's configuration says that it lies."""

    def __init__(self, lesson: str, config: Config | None = None) -> None:
        self.lesson = lesson
        self.config = config or clone_config()
        self.book = Book(self.config, lesson)
        self._directories = self.config.CourseDirectory
        self.root = Path(self._directories.autograded_directory).parent
        self.submitted = Path(self._directories.submitted_directory)
        self.sources = Path(self._directories.source_directory) / lesson
        self.course = Path(self.config.BlankInAnyEdition.course_directory)

    def check(self) -> None:
        """Raises ClassroomError if there is nothing to grade, or nothing to grade against."""
        remedy = "run `python -m autograder release en` first"
        known = sorted({path.parent.name for path in self.sources.parent.glob("*/*.ipynb")})
        if not known:
            raise ClassroomError(f"{self.sources.parent} holds no lesson: {remedy}")
        if self.lesson not in known:
            raise ClassroomError(f"unknown lesson {self.lesson!r}: choose one of {', '.join(known)}")
        path = file_of(self.book.db_url)
        if path is not None and not path.exists():
            raise ClassroomError(f"there is no gradebook {path}: {NEW_OR_COPY}")
        with reading(self.book.db_url, self.book.course_id) as session:
            self.check_lesson(session)
        if not self.folders():
            raise ClassroomError(
                f"no submissions: put each student's notebooks into {self.submitted}/STUDENT/{self.lesson}/"
            )

    def gradebook(self) -> Gradebook:
        return Gradebook(self._directories.db_url, self._directories.course_id)

    @property
    def gradebook_path(self) -> str:
        return shown_address(self._directories.db_url)

    def folders(self, only: Collection[str] = ()) -> dict[str, Path]:
        """The submissions by student: of all, or of these. Where a student's folder lacks the lesson's, it isn't there.

        Raises ClassroomError if one of `only` has no folder.
        """
        found = sorted(os.scandir(self.submitted), key=lambda entry: entry.name) if self.submitted.is_dir() else []
        folders = {
            entry.name: Path(entry.path) / self.lesson
            for entry in found
            if not entry.name.startswith(".ipynb")
            and (os.path.lexists(Path(entry.path) / self.lesson) or _is_students(entry))
        }
        for name in only:
            if name not in folders:
                names = ", ".join(map(shown, [*folders][:SHOWN_NAMES])) or "nobody"
                more = f" and {len(folders) - SHOWN_NAMES} more" if len(folders) > SHOWN_NAMES else ""
                raise ClassroomError(f"unknown student {name!r}: {self.submitted} holds {names}{more}")
        return {name: folder for name, folder in folders.items() if not only or name in only}

    def alone(self) -> AbstractContextManager[None]:
        """Nobody else grades this class meanwhile, nor releases. Raises BusyError if somebody does."""
        return alone(self.root, "grade")

    def check_lesson(self, session: Session) -> None:
        """Raises ClassroomError if the gradebook does not know the lesson."""
        if session.scalars(select(Assignment).where(Assignment.name == self.lesson)).one_or_none() is None:
            raise ClassroomError(f"the gradebook {self.gradebook_path} has no {self.lesson}: {NEW_OR_COPY}")

    def check_release(self) -> None:
        """Raises ClassroomError if what lies on disk is not what was released: nothing may be graded against it."""
        with reading(self.book.db_url, self.book.course_id) as session:
            fault = fault_of_release(session, self.lesson, self.sources.parent.parent, self.course)
        if fault:
            raise ClassroomError(fault)

    @property
    def release(self) -> str:
        """The digest of the lesson as it was released."""
        with reading(self.book.db_url, self.book.course_id) as session:
            return current_release(session, self.lesson) or ""

    def tasks(self, folders: dict[str, Path], force: bool = False, only_look: bool = False) -> list[Task]:
        common = (self.sources, self.course, self.release, force, only_look)
        return [Task(self.book, student, folder, *common) for student, folder in folders.items()]

    def look(self, jobs: int | None = None) -> dict[str, str]:
        """The digests of what each student has handed in; empty where it could not be looked through in its time."""
        tasks = self.tasks(self.folders(), only_look=True)
        return {task.student: row.files for task, row in Workers(jobs or os.cpu_count() or 1).run(tasks)}

    def verdicts(self) -> list[Verdict]:
        """Of everybody, as things stand."""
        with transaction(self.book.db_url, self.book.course_id) as session:
            decisions.adopt(session, self.lesson)
        return verdicts(self.book, self.look(), Digests(NO_FILES, self.release, grader()))


def grade_class(
    room: Classroom, workers: Workers, force: bool = False, only: Collection[str] = ()
) -> Generator[Row, None, None]:
    """Grade the submissions of all, or of these, and yield a row as each is done. Leaving early ends the workers."""
    with transaction(room.book.db_url, room.book.course_id) as session:
        decisions.adopt(session, room.lesson)
    good: dict[str, Path] = {}
    for student, folder in room.folders(only).items():
        if not _is_text(student):
            reason = "the student's folder has a name that is no text: rename it"
            yield Row(student.encode("utf-8", "backslashreplace").decode("utf-8"), reason=reason)
        elif fault := _fault_of_place(student, folder):
            yield _failed(room, Row(student, reason=fault))
        else:
            good[student] = folder
    for _, row in workers.run(room.tasks(good, force)):
        yield row if row.points is not None or row.unchanged else _failed(room, row)


def _failed(room: Classroom, row: Row) -> Row:
    """Nothing could be graded: the gradebook says so too. If another holds it, the row says why."""
    with suppress(DatabaseError):
        fail(room.book, row.student, Digests(NO_FILES, "", ""), row.reason)
    return row


def _is_students(entry: os.DirEntry[str]) -> bool:
    return (entry.is_dir() or entry.is_symlink()) and not entry.name.startswith((".", "__MACOSX"))


def _is_text(student: str) -> bool:
    try:
        student.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _fault_of_place(student: str, folder: Path) -> str:
    if student.strip() != student or any(character < " " or character in "*?[]<>" for character in student):
        return "the student's folder has a name with spaces around it or with one of * ? [ ] < >: rename it"
    is_there = os.path.isdir(folder)
    if folder.parent.is_symlink() or os.path.islink(folder) or (os.path.lexists(folder) and not is_there):
        return f"{folder.name} is no folder of its own (a link or a file): copy the notebooks into a folder"
    return ""
