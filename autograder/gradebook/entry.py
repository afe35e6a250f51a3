"""A graded submission comes into the gradebook: nbgrader's rows, a `State` and autograded/, all or nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbgrader import utils
from nbgrader.api import Assignment, Comment, Grade, Student, SubmittedAssignment, SubmittedNotebook
from nbgrader.preprocessors import AssignLatePenalties
from sqlalchemy import select
from sqlalchemy.orm import Session
from traitlets.config import Config

from autograder.gradebook.decisions import Decided, take_up
from autograder.gradebook.graded import Digests, Graded, GradedCell
from autograder.gradebook.tables import Decision, State, now, state_of, transaction
from autograder.intake.notes import Note
from autograder.swap import in_force

BLANK = "No response."
"""nbgrader's comment on an answer that was left as it was released."""


@dataclass(frozen=True)
class Book:
    """Where a lesson's points are kept."""

    config: Config
    lesson: str

    @property
    def db_url(self) -> str:
        return str(self.config.CourseDirectory.db_url)

    @property
    def course_id(self) -> str:
        return str(self.config.CourseDirectory.course_id)

    def autograded(self, student: str) -> Path:
        return Path(self.config.CourseDirectory.autograded_directory) / student / self.lesson


def enter(book: Book, student: str, graded: Graded) -> None:
    """Everything that came of it, in one transaction. Raises sqlalchemy's DatabaseError or OSError: nothing changed."""
    folder = book.autograded(student)
    with _aside(folder) as new, ExitStack() as until_committed, transaction(book.db_url, book.course_id) as session:
        rows = _Rows(session, book, student, graded)
        if not graded.failed or rows.submission is not None:
            rows.write()  # no points for what can't be graded; what people decided comes back with its text
        _keep(session, book.lesson, student, graded)
        session.flush()
        if not graded.failed:
            _write(new, graded)
            until_committed.enter_context(in_force([(new, folder)]))


def fail(book: Book, student: str, digests: Digests, reason: str) -> None:
    """Keep that a submission could not even be looked at, unless something is kept of files that could."""
    with transaction(book.db_url, book.course_id) as session:
        state = state_of(session, book.lesson, student)
        if state is None or not state.files:
            _keep(session, book.lesson, student, Graded(digests, failed=reason))


def _keep(session: Session, lesson: str, student: str, graded: Graded) -> None:
    state = state_of(session, lesson, student) or State(lesson=lesson, student=student, notebooks={}, notes=[])
    notes = [*graded.notes, *_of_lost(state, graded)]
    state.files, state.release, state.grader = graded.digests.files, graded.digests.release, graded.digests.grader
    state.edition, state.failed, state.seconds, state.at = graded.edition, graded.failed, graded.seconds, now()
    state.notebooks = {name: notebook.kept for name, notebook in graded.notebooks.items()}
    state.notes = [asdict(note) for note in notes]
    session.add(state)


def _of_lost(state: State, graded: Graded) -> list[Note]:
    """Notebooks that were graded before and are not there any more; the note stays until they are, or it is settled."""
    told = "was handed in before and is not there any more: its points are gone with it"
    before = {*state.notebooks, *(note["notebook"] for note in state.notes if note["text"].endswith(told))}
    lost = sorted(before - graded.notebooks.keys()) if not graded.failed else []
    return [Note("flagged", f"{name}.ipynb {told}", notebook=name) for name in lost]


@contextmanager
def _aside(folder: Path) -> Iterator[Path]:
    """A folder beside `folder` for what is to take its place; what a killed process left of it is removed."""
    new = folder.with_name(f".{folder.name}.new")
    _remove(new)
    new.mkdir(parents=True)
    try:
        yield new
    finally:
        _remove(new)


def _remove(new: Path) -> None:
    for path in new.parent.glob(f"{new.name}*"):  # and what it took the place of
        shutil.rmtree(path)


def _write(folder: Path, graded: Graded) -> None:
    for name, notebook in graded.notebooks.items():
        nbformat.write(notebook.shown, folder / f"{name}.ipynb")  # type: ignore[no-untyped-call]
    for name, data in graded.beside.items():
        (folder / name).write_bytes(data)


class _Rows:
    """nbgrader's rows of one submission."""

    def __init__(self, session: Session, book: Book, student: str, graded: Graded) -> None:
        self._session, self._book, self._student, self._graded = session, book, student, graded
        self._before = state_of(session, book.lesson, student)
        about = (Assignment.name == book.lesson, SubmittedAssignment.student_id == student)
        query = select(SubmittedAssignment).join(Assignment).where(*about)
        self.submission = session.scalars(query).one_or_none()
        if self.submission is not None and self._before is None:
            take_up(session, self.submission)
        self._decided = Decided.of(session, book.lesson, student)

    def write(self) -> None:
        assignment = self._session.scalars(select(Assignment).where(Assignment.name == self._book.lesson)).one()
        student = self._session.get(Student, self._student) or Student(id=self._student)
        self._session.add(student)
        submission = self.submission
        if submission is None:
            submission = SubmittedAssignment(assignment=assignment, student=student)
            self._session.add(submission)
        when = self._graded.handed_in_at
        submission.timestamp = utils.parse_utc(when) if when else None
        there = {each.notebook_id: each for each in submission.notebooks}
        for notebook in assignment.notebooks:
            submitted = there.get(notebook.id) or SubmittedNotebook(notebook=notebook, assignment=submission)
            self._session.add(submitted)
            self._fill(submitted, notebook)
        self._session.flush()
        self._take_penalties(submission)

    def _fill(self, submitted: SubmittedNotebook, notebook: Any) -> None:
        graded = self._graded.notebooks.get(notebook.name)
        for cell in (*notebook.grade_cells, *notebook.solution_cells):
            new = graded.cells.get(cell.name) if graded else None
            kind = Grade if cell in notebook.grade_cells else Comment
            row = self._row(kind, submitted, cell, new)
            decided = self._decided.about(notebook.name, cell.name, new.text) if new else None
            suggested = graded.suggestions.get(cell.name) if graded else None
            if kind is Grade:
                _set_points(row, new, decided, suggested)
            else:
                earlier = None if decided else self._decided.last(notebook.name, cell.name)
                _set_comment(row, new, decided, suggested, earlier)

    def _row(self, kind: Any, submitted: SubmittedNotebook, cell: Any, new: GradedCell | None) -> Any:
        """Another text gets another row, so that a page of the formgrader with the old text can't write to it."""
        rows = submitted.grades if kind is Grade else submitted.comments
        row = next((each for each in rows if each.cell_id == cell.id), None)
        before = self._before.cell(submitted.notebook.name, cell.name) if self._before else {}
        if row is not None and before.get("text") == (new.text if new else None):
            return row
        if row is not None:
            rows.remove(row)
            self._session.delete(row)
            self._session.flush()
        row = kind(cell_id=cell.id, cell=cell, notebook=submitted)
        self._session.add(row)
        return row

    def _take_penalties(self, submission: SubmittedAssignment) -> None:
        """As nbgrader's plugin for late submissions says."""
        step = AssignLatePenalties(config=self._book.config)
        step.init_plugin()
        late = submission.total_seconds_late
        for notebook in submission.notebooks:
            self._session.refresh(notebook)
            penalty = late and step.plugin_inst.late_submission_penalty(self._student, notebook.score, late)
            notebook.late_submission_penalty = step._check_late_penalty(notebook, penalty) if penalty else None


def _set_points(
    row: Grade, new: GradedCell | None, decided: Decision | None, suggested: Mapping[str, Any] | None
) -> None:
    row.extra_credit = None
    row.manual_score = decided.points if decided else None
    if decided and decided.confirmed is False and row.manual_score == 0:
        row.extra_credit = 0.0  # as "No credit" leaves it
    if new is None or new.blank:
        row.auto_score, row.needs_manual_grade = 0.0, False
        return
    row.auto_score = suggested["points"] if suggested else new.points
    row.needs_manual_grade = new.points is None and row.manual_score is None


def _set_comment(
    row: Comment,
    new: GradedCell | None,
    decided: Decision | None,
    suggested: Mapping[str, Any] | None,
    earlier: Decision | None,
) -> None:
    row.manual_comment = (decided.comment or None) if decided else None
    if new is None or new.blank:
        row.auto_comment = BLANK
        return
    told = [suggested["comment"]] if suggested else []
    if earlier is not None and earlier.points is not None:
        told.insert(
            0, f"[{earlier.who} gave {earlier.points:g} to another text of this answer, {earlier.at:%Y-%m-%d}.]"
        )
    row.auto_comment = "\n\n".join(told) or None
