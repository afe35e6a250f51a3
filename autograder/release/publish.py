"""From solutions/ to a lesson that students can get and that the gradebook knows: ``python -m autograder release``."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.apps import NbGraderAPI
from nbgrader.exchange import ExchangeFactory
from nbgrader.exchange.default import Exchange
from nbgrader.preprocessors import SaveCells
from nbgrader.utils import check_directory
from traitlets.config import Config

from autograder.gradebook.lesson import LessonError, enter_lesson, entering, release_digest
from autograder.paths import COURSE, MASTER_EDITION, SOLUTIONS, SOURCES
from autograder.release.course import CourseError, built, reason_of
from autograder.swap import in_force
from minivllm.engine.interrupts import hold_interrupts
from minivllm.submission.check import RECORD

EXCHANGE = "nbgrader's exchange"


def release(
    config: Config,
    lesson: str,
    edition: str,
    solutions: Path = SOLUTIONS,
    sources: Path = SOURCES,
    course: Path = COURSE,
    record: Path = RECORD,
) -> None:
    """Build aside, enter the lesson into the gradebook, put the new in the old's place: all of that, or nothing."""
    with built(solutions, sources, course, record) as new:
        notebooks = graded(config, new.sources, lesson)
        digest = release_digest(lesson, new.sources, new.course)
        place = config.CourseDirectory
        try:
            with (
                entering(place.db_url, lesson, notebooks, digest, edition, place.course_id) as commit,
                hold_interrupts(),
                in_force(new.places),
            ):
                commit()
        except LessonError as error:
            raise CourseError(str(error)) from None


def enter_gradebook(config: Config, lesson: str, edition: str = MASTER_EDITION) -> None:
    """Enter the lesson as it lies on disk, where `config` says: the graded cells, and which release they are of."""
    place = config.CourseDirectory
    sources, course = Path(place.source_directory).parent, Path(place.release_directory).parent
    digest = release_digest(lesson, sources, course)
    try:
        enter_lesson(place.db_url, lesson, graded(config, sources, lesson), digest, edition, place.course_id)
    except LessonError as error:
        raise CourseError(str(error)) from None


def graded(config: Config, sources: Path, lesson: str) -> Mapping[str, NotebookNode]:
    """The master edition's notebooks as nbgrader's SaveCells gets them: no solutions, but hidden tests."""
    folder = sources / MASTER_EDITION / lesson
    paths = sorted(folder.glob("*.ipynb"))
    if not paths:
        known = sorted({path.parent.name for path in folder.parent.glob("*/*.ipynb")})
        raise CourseError(f"unknown lesson {lesson!r}: choose one of {', '.join(known) or 'none, for none is built'}")
    steps = config.GenerateAssignment.preprocessors
    notebooks = {}
    for path in paths:
        notebook: NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
        resources: dict[str, Any] = {"nbgrader": {"student": ".", "assignment": lesson, "notebook": path.stem}}
        for step in steps[: steps.index(SaveCells)]:
            notebook, resources = step(config=config).preprocess(notebook, resources)
        notebooks[path.stem] = notebook
    return notebooks


def exchange_folder(config: Config, step: str = "release_assignment") -> Path | None:
    """Where `config` puts nbgrader's exchange; None if it is no folder. Raises CourseError if it can't be used."""
    factory = ExchangeFactory(config=config)
    kind = getattr(factory, step)
    if not issubclass(kind, Exchange):
        return None
    root = Path(str(kind(config=config).root))
    remedy = f"`mkdir -p {root} && chmod 777 {root}`, or another folder as c.Exchange.root in nbgrader_config.py"
    if not root.is_dir():
        raise CourseError(f"nbgrader's exchange folder {root} is not there: make it ({remedy})")
    if not check_directory(str(root), write=True, execute=True):
        raise CourseError(f"nbgrader's exchange folder {root} can't be written to: open it ({remedy})")
    return root / str(config.CourseDirectory.course_id)


def to_exchange(config: Config, lesson: str, edition: str) -> str:
    """nbgrader's release_assignment, of one edition: from there students fetch it on a JupyterHub. Says where it is."""
    config = copy.deepcopy(config)
    config.CourseDirectory.release_directory = str(Path(config.CourseDirectory.release_directory).with_name(edition))
    config.ExchangeReleaseAssignment.force = True
    folder = exchange_folder(config)
    nbgrader = NbGraderAPI(config=config)
    nbgrader.log.handlers[:] = [logging.NullHandler()]  # what went wrong is in its answer
    nbgrader.log.propagate = False
    done: dict[str, Any] = nbgrader.release_assignment(lesson)
    if not done["success"]:
        raise CourseError(f"{lesson} did not come into {folder or EXCHANGE}: {reason_of(done)}")
    if folder is None:
        return EXCHANGE
    outbound = folder / "outbound" / lesson
    if not os.path.isdir(outbound):
        raise CourseError(f"nbgrader says that it has released {lesson}, but {outbound} is not there")
    return str(outbound)
