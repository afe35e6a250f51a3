"""A whole class: every submission in a worker process of its own, and one writer to the gradebook.

submitted/STUDENT/LESSON  ->  staged/STUDENT/LESSON  and  records/STUDENT/LESSON.json   (workers, in parallel)
                          ->  autograded/STUDENT/LESSON  and  gradebook.db             (nbgrader, here, one by one)

A worker that ends badly costs its own submission. What was graded and has not changed since is left alone; what an
interrupted run has left is taken up where it stopped.
"""

from __future__ import annotations

import copy
import logging
import multiprocessing
import multiprocessing.connection
import os
import re
import resource
import signal
import time
import warnings
from collections import deque
from collections.abc import Collection, Generator, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.apps import NbGraderAPI
from sqlalchemy.exc import SAWarning
from traitlets.config import Config

from autograder.classroom import submission
from autograder.classroom.lock import alone
from autograder.classroom.submission import Record
from autograder.config import clone_config as clone_config
from autograder.gradebook import reviews
from autograder.gradebook.address import shown as shown_address
from autograder.intake.folder import files
from autograder.intake.intake import Note
from autograder.intake.notes import shown
from minivllm.engine.interrupts import hold_interrupts

SUBMISSION_SECONDS = 180.0
"""For a whole submission. What a student's code may take is in `autograder.running.trusted`."""
WORKER_MEMORY = 3 << 30  # bytes
NOT_TAKEN_IN = ""
"""The fingerprint of a failure that says nothing of the files: the next run tries again."""
SHOWN_NAMES = 10


class ClassroomError(Exception):
    """The class can't be graded as it is; the text says why, and the remedy."""


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


class Classroom:
    """One lesson of a class, where nbgrader's configuration says that it lies."""

    def __init__(self, lesson: str, config: Config | None = None) -> None:
        self.lesson = lesson
        self.config = config or clone_config()
        self._directories = self.config.CourseDirectory
        self.root = Path(self._directories.autograded_directory).parent
        self.submitted = Path(self._directories.submitted_directory)
        self.sources = Path(self._directories.source_directory) / lesson
        staging = copy.deepcopy(self.config)
        staging.CourseDirectory.submitted_directory = str(self.root / "staged")
        self._nbgrader = NbGraderAPI(config=staging)
        self._nbgrader.log.handlers[:] = [logging.NullHandler()]
        self._nbgrader.log.propagate = False

    def check(self) -> None:
        """Raises ClassroomError if there is nothing to grade, or nothing to grade against."""
        remedy = "run `python -m autograder release en` first"
        known = sorted({path.parent.name for path in self.sources.parent.glob("*/*.ipynb")})
        if not known:
            raise ClassroomError(f"{self.sources.parent} holds no lesson: {remedy}")
        if self.lesson not in known:
            raise ClassroomError(f"unknown lesson {self.lesson!r}: choose one of {', '.join(known)}")
        with self.gradebook() as gradebook:
            try:
                gradebook.find_assignment(self.lesson)
            except MissingEntry:
                raise ClassroomError(f"the gradebook {self.gradebook_path} has no {self.lesson}: {remedy}") from None
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

    def record_path(self, student: str) -> Path:
        return self.root / "records" / student / f"{self.lesson}.json"

    def staged(self, student: str) -> Path:
        return self.root / "staged" / student / self.lesson

    def enter(self, student: str, record: Record) -> str:
        """Have nbgrader autograde what is staged. Returns why it could not, or nothing.

        Ctrl-C waits for the end: nbgrader would swallow it, and what a person has decided would be lost halfway.
        """
        with hold_interrupts():
            return self._enter(student, record)

    def _enter(self, student: str, record: Record) -> str:
        with self.gradebook() as gradebook:
            reviewed = reviews.reviewed(gradebook, self.lesson, student, self._autograded(student))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SAWarning)  # of nbgrader's own queries
            done = self._nbgrader.autograde(self.lesson, student, force=True)
        if not done["success"]:
            told = f"{done.get('log', '')}\n{done.get('error', '')}"
            errors = re.findall(r"^ *([\w.]*(?:Error|Exception): .*)$", told, flags=re.MULTILINE)
            return f"nbgrader could not grade it: {errors[0] if errors else told.strip()[-200:]}"
        with self.gradebook() as gradebook:
            reviews.keep(gradebook, self.lesson, student, self._autograded(student), reviewed)
        record.entered = True
        record.write(self.record_path(student))
        return ""

    def row(self, student: str, record: Record, unchanged: bool = False) -> Row:
        with self.gradebook() as gradebook:
            graded = gradebook.find_submission(self.lesson, student)
            points = graded.score - (graded.late_submission_penalty or 0)
            of, unread = graded.max_score, graded.needs_manual_grade
        return Row(student, points, of, unread, unchanged, record.seconds, notes=tuple(record.notes))

    def _autograded(self, student: str) -> Path:
        return Path(self._directories.autograded_directory) / student / self.lesson

    def is_entered(self, student: str, record: Record) -> bool:
        return record.entered and self._autograded(student).is_dir() and self.has_points(student)

    def has_points(self, student: str) -> bool:
        with self.gradebook() as gradebook:
            try:
                gradebook.find_submission(self.lesson, student)
            except MissingEntry:
                return False
        return True


def grade_class(
    room: Classroom, jobs: int, force: bool = False, only: Collection[str] = ()
) -> Generator[Row, None, None]:
    """Grade the submissions of all, or of these, and yield a row as each is done. Leaving early ends the workers."""
    todo: list[tuple[str, Path]] = []
    for student, folder in room.folders(only).items():
        if not _is_text(student):
            reason = "the student's folder has a name that is no text: rename it"
            yield Row(student.encode("utf-8", "backslashreplace").decode("utf-8"), reason=reason)
            continue
        fault = _fault_of_place(student, folder)
        if fault:
            misplaced = Record(NOT_TAKEN_IN, failed=fault)
            misplaced.write(room.record_path(student))
            yield _entered(room, student, misplaced)
            continue
        record = None if force else Record.read(room.record_path(student))
        if record is None or record.fingerprint != submission.fingerprint(folder, room.sources):
            todo.append((student, folder))
        elif record.failed:
            yield Row(student, unchanged=True, reason=record.failed, notes=tuple(record.notes))
        elif room.is_entered(student, record):
            yield room.row(student, record, unchanged=True)
        else:
            yield _entered(room, student, record)
    for student, record in _run(room, todo, jobs):
        yield _entered(room, student, record)


def _entered(room: Classroom, student: str, record: Record) -> Row:
    reason = record.failed
    if not reason:
        try:
            reason = room.enter(student, record)
        except Exception as error:  # one submission must not stop the others
            reason = f"nbgrader could not grade it: {type(error).__name__}: {error}"
    if reason:
        if room.has_points(student):
            reason += "; the gradebook keeps the points of what was handed in before"
        return Row(student, seconds=record.seconds, reason=reason, notes=tuple(record.notes))
    return room.row(student, record)


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
    return "" if is_there else _misplaced(student, folder)


def _misplaced(student: str, folder: Path) -> str:
    place = f"submitted/{shown(student)}"
    found, notes = files(folder.parent)
    places = [file.place for file in found if file.says_notebook and not file.is_hidden]
    told = f"no {folder.name}/ in {place}"
    if places:
        lie = "/".join((place, *map(shown, places[0])))
        return f"{told}; notebooks lie in {lie}: move them to {place}/{folder.name}"
    return f"{told}; {notes[0].text if notes else 'no notebook was handed in'}"


# --- the workers ----------------------------------------------------------------------------------------------------


@dataclass
class _Job:
    student: str
    folder: Path
    process: BaseProcess
    until: float


def _run(room: Classroom, todo: list[tuple[str, Path]], jobs: int) -> Iterator[tuple[str, Record]]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["autograder.classroom.worker"])
    waiting, running = deque(todo), dict[Any, _Job]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                student, folder = waiting.popleft()
                process = context.Process(target=_work, args=(room.sources, folder, student, *_results(room, student)))
                process.start()
                running[process.sentinel] = _Job(student, folder, process, time.monotonic() + SUBMISSION_SECONDS)
            soonest = min(job.until for job in running.values())
            ended = multiprocessing.connection.wait(running, max(0.0, soonest - time.monotonic()))
            late = [sentinel for sentinel, job in running.items() if time.monotonic() >= job.until]
            for sentinel in {*ended, *late}:
                job = running.pop(sentinel)
                yield job.student, _record_of(room, job)
    finally:
        for job in running.values():
            _end(job.process)


def _results(room: Classroom, student: str) -> tuple[Path, Path]:
    return room.staged(student), room.record_path(student)


def _record_of(room: Classroom, job: _Job) -> Record:
    late = time.monotonic() >= job.until and job.process.is_alive()
    _end(job.process)
    record = Record.read(room.record_path(job.student))
    if job.process.exitcode == 0 and record is not None:
        return record  # if anything has changed while it ran, the next run sees another fingerprint
    told = f"took longer than {SUBMISSION_SECONDS:g} s" if late else f"ended with exit code {job.process.exitcode}"
    remedy = "the next `grade` tries again; if it fails again, look at what was handed in"
    record = Record(NOT_TAKEN_IN, failed=f"the process that takes it in {told}: {remedy}")
    record.write(room.record_path(job.student))
    return record


def _end(process: BaseProcess) -> None:
    process.kill()
    process.join()


def _work(sources: Path, folder: Path, student: str, staged: Path, record_path: Path) -> None:
    """In the worker. Its sandbox ends with it, and it ends with the class, whom Ctrl-C is for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (WORKER_MEMORY, most))
    _take_in(sources, folder, student, staged, record_path)


def _take_in(sources: Path, folder: Path, student: str, staged: Path, record_path: Path) -> None:
    """Leaves a record, whatever happens."""
    record_path.unlink(missing_ok=True)
    try:
        record = submission.grade_submission(folder, student, sources, staged)
    except Exception as error:
        told = f"it could not be taken in ({type(error).__name__}: {error})"
        record = Record(NOT_TAKEN_IN, failed=told)
    record.write(record_path)
