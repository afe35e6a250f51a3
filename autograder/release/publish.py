"""From solutions/ to a lesson that students can get and that the gradebook knows: ``python -m autograder release``."""

from __future__ import annotations

import logging
import re
from typing import Any

from nbgrader.apps import NbGraderAPI
from traitlets.config import Config

from autograder.paths import CLONE
from autograder.release.course import CourseError


def enter_gradebook(config: Config, lesson: str) -> None:
    """nbgrader's generate_assignment: the graded cells come into the gradebook. Points that are there stay."""
    _ask(config, "generate_assignment", lesson, force=True)


def to_exchange(config: Config, lesson: str, edition: str) -> None:
    """nbgrader's release_assignment, of one edition: from there students fetch it on a JupyterHub."""
    config = Config(config)
    config.CourseDirectory.release_directory = str(CLONE / "course" / edition)
    config.ExchangeReleaseAssignment.force = True
    _ask(config, "release_assignment", lesson)


def _ask(config: Config, command: str, lesson: str, **options: Any) -> None:
    nbgrader = NbGraderAPI(config=config)
    nbgrader.log.handlers[:] = [logging.NullHandler()]  # what went wrong is in its answer
    nbgrader.log.propagate = False
    done: dict[str, Any] = getattr(nbgrader, command)(lesson, **options)
    if not done["success"]:
        told = f"{done.get('log', '')}\n{done.get('error', '')}"
        reasons = re.findall(r"^ *([\w.]*(?:Error|Exception): .*)$", told, flags=re.MULTILINE)
        raise CourseError(f"nbgrader {command} {lesson} failed: {reasons[0] if reasons else told.strip()[-300:]}")
