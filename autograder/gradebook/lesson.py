"""A lesson in the gradebook: its cells, as nbgrader's generate_assignment enters them, and which release they are of.

nbgrader's SaveCells commits cell by cell. Here everything comes in one transaction, with a row of our own in the same
database: the digest of the notebooks that were released. `fault_of_release` holds it against what lies on disk.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.api import Assignment, Gradebook, GradeCell, Notebook, SolutionCell, SourceCell, TaskCell
from sqlalchemy import inspect
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from autograder.gradebook.address import file_of, shown
from autograder.paths import COURSE, EDITIONS, SOURCES

REMEDY = "run `python -m autograder release en` (or zh)"


class LessonError(Exception):
    """The lesson can't be entered; the text says why, and the remedy."""


class Base(DeclarativeBase):
    """Beside nbgrader's tables, in the gradebook's database."""


class Release(Base):
    """Which notebooks the cells of a lesson in this gradebook are of."""

    __tablename__ = "minivllm_release"

    lesson: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str]
    edition: Mapped[str]
    """What students were given: in the exchange, for example, only one can lie."""
    at: Mapped[datetime.datetime]


def release_digest(lesson: str, sources: Path = SOURCES, course: Path = COURSE) -> str:
    """Of the names and bytes of a lesson's notebooks, instructor's and released, in all editions."""
    total = hashlib.sha256()
    for place in (sources, course):
        for edition in EDITIONS:
            for path in sorted((place / edition / lesson).glob("*.ipynb")):
                for part in (place is course, edition, path.name, path.read_bytes()):
                    data = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogateescape")
                    total.update(len(data).to_bytes(8, "big") + data)
    return total.hexdigest()


def current_release(session: Session, lesson: str) -> str | None:
    """The digest of what was released last, or None."""
    if not inspect(session.connection()).has_table(Release.__tablename__):
        return None
    found = session.get(Release, lesson)
    return found.digest if found else None


def fault_of_release(session: Session, lesson: str, sources: Path = SOURCES, course: Path = COURSE) -> str:
    """Why nothing may be graded against what lies on disk, with the remedy; or nothing."""
    lacking = [
        str(place / edition / lesson)
        for place in (sources, course)
        for edition in EDITIONS
        if not any((place / edition / lesson).glob("*.ipynb"))
    ]
    if lacking:
        return f"{' and '.join(lacking)} {'have' if len(lacking) > 1 else 'has'} no notebooks: {REMEDY}"
    released = current_release(session, lesson)
    if released is None:
        return f"{lesson} was not released into this gradebook: {REMEDY}"
    if released != release_digest(lesson, sources, course):
        return f"{lesson} in {sources} and {course} is not what was released into this gradebook: {REMEDY}"
    return ""


def enter_lesson(
    db_url: str,
    lesson: str,
    notebooks: Mapping[str, NotebookNode],
    digest: str,
    edition: str = EDITIONS[0],
    course_id: str = "default_course",
) -> None:
    """Enter `notebooks` by name, as SaveCells gets them: no solutions, but hidden tests. Points given already stay."""
    with entering(db_url, lesson, notebooks, digest, edition, course_id) as commit:
        commit()


@contextmanager
def entering(
    db_url: str, lesson: str, notebooks: Mapping[str, NotebookNode], digest: str, edition: str, course_id: str
) -> Iterator[Callable[[], None]]:
    """Everything is written but for the commit, which is the block's to call. Raises LessonError."""
    _create(db_url, course_id)
    with Gradebook(db_url, course_id) as gradebook:
        session = gradebook.db
        Base.metadata.create_all(session.connection())
        _enter(session, lesson, notebooks, course_id, shown(db_url))
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)  # as nbgrader keeps times
        session.merge(Release(lesson=lesson, digest=digest, edition=edition, at=now))
        session.flush()
        yield session.commit


def _create(db_url: str, course_id: str) -> None:
    """nbgrader fills an empty database in steps: an SQLite file gets its name when it is whole."""
    path = file_of(db_url)
    if path is None or path.exists():
        return
    draft = path.with_name(f"{path.name}.draft")
    draft.unlink(missing_ok=True)
    with Gradebook(f"sqlite:///{draft}", course_id):
        pass
    draft.rename(path)


@dataclass
class _Cells:
    """The cells of one notebook by kind and grade id, with what the gradebook keeps of them."""

    kinds: dict[type[Any], dict[str, dict[str, Any]]] = field(
        default_factory=lambda: {kind: {} for kind in (GradeCell, SolutionCell, TaskCell, SourceCell)}
    )

    @classmethod
    def of(cls, notebook: NotebookNode) -> _Cells:
        cells = cls()
        for cell in notebook.cells:
            cells._add(cell)
        return cells

    def _add(self, cell: NotebookNode) -> None:
        graded, solution, task = utils.is_grade(cell), utils.is_solution(cell), utils.is_task(cell)
        if not (graded or solution or task or utils.is_locked(cell)):
            return
        known = cell.metadata["nbgrader"]
        name = known["grade_id"]
        self.kinds[SourceCell][name] = {
            "cell_type": cell.cell_type,
            "locked": utils.is_locked(cell),
            "source": cell.source,
            "checksum": known.get("checksum"),
        }
        if solution:
            self.kinds[SolutionCell][name] = {}
        for kind in [GradeCell] * graded + [TaskCell] * task:
            self.kinds[kind][name] = {"max_score": float(known["points"]), "cell_type": cell.cell_type}


def _enter(session: Session, lesson: str, notebooks: Mapping[str, NotebookNode], course_id: str, place: str) -> None:
    assignment = session.query(Assignment).filter_by(name=lesson).one_or_none()
    if assignment is None:
        assignment = Assignment(lesson, course_id=course_id)
        session.add(assignment)
    known = {notebook.name: notebook for notebook in assignment.notebooks}
    if assignment.submissions:
        _refuse_to_change({*known}, {*notebooks}, f"notebooks of {lesson}", place)
    for name in known.keys() - notebooks.keys():
        for cell in _all_cells(known[name]):
            session.delete(cell)
        session.delete(known[name])
    for name, content in notebooks.items():
        notebook = known.get(name)
        if notebook is None:
            notebook = Notebook(name=name, assignment=assignment)
            session.add(notebook)
        if not notebook.submissions:
            notebook.kernelspec = json.dumps(content.metadata.get("kernelspec", {}))
        _enter_cells(session, notebook, _Cells.of(content), place)


def _enter_cells(session: Session, notebook: Notebook, cells: _Cells, place: str) -> None:
    for kind, wanted in cells.kinds.items():
        known = {cell.name: cell for cell in _all_cells(notebook) if isinstance(cell, kind)}
        if notebook.submissions:
            _refuse_to_change({*known}, {*wanted}, f"graded cells of {notebook.name}", place)
        for name in known.keys() - wanted.keys():
            session.delete(known[name])
        for name, values in wanted.items():
            if name not in known:
                session.add(kind(name=name, notebook=notebook, **values))
                continue
            for attribute, value in values.items():
                setattr(known[name], attribute, value)


def _all_cells(notebook: Notebook) -> list[Any]:
    return [*notebook.grade_cells, *notebook.solution_cells, *notebook.task_cells, *notebook.source_cells]


def _refuse_to_change(known: Collection[str], wanted: Collection[str], what: str, place: str) -> None:
    """As nbgrader refuses: points would be left without a cell, or cells without points."""
    changes = [f"{name} would be new" for name in sorted({*wanted} - {*known})]
    changes += [f"{name} would go" for name in sorted({*known} - {*wanted})]
    if changes:
        raise LessonError(
            f"{place} has submissions, so the {what} can't change ({', '.join(changes[:5])}): go back to the notebooks "
            "that were released, or begin a new term with `python -m autograder term NAME`"
        )
