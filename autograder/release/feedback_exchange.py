"""Students' feedback pages into nbgrader's exchange, from where `nbgrader fetch_feedback` brings them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path

from nbgrader.utils import notebook_hash
from traitlets.config import Config

from autograder.intake.handing_in import SECRET, carried
from autograder.release.course import CourseError
from autograder.release.publish import exchange_folder

LINKS = "../../"
"""From where fetch_feedback puts a page, LESSON/feedback/TIME/, to the student's notebooks."""
MAX_NOTEBOOKS = 40


def hand_out(config: Config, lesson: str, pages: Mapping[str, Path]) -> tuple[Path, list[str]]:
    """Copy each student's page to where nbgrader's release_feedback puts it; returns that folder and who is left out.

    fetch_feedback asks for one page a notebook that was handed in: each of them gets the same. Left out is who has
    handed in without the exchange.
    """
    course = exchange_folder(config, "release_feedback")
    if course is None:
        raise CourseError("nbgrader's exchange is no folder here: hand the feedback pages out by other means")
    folder = course / "feedback"
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o711)  # as nbgrader: students can open a page whose name they know, and list nothing
    without = []
    for student, page in pages.items():
        submitted = Path(config.CourseDirectory.submitted_directory) / student / lesson
        files, _ = carried(submitted)
        if SECRET not in files:
            without.append(student)
            continue
        for name in _notebooks(submitted):
            target = folder / f"{notebook_hash(secret=files[SECRET].decode(), notebook_id=name)}.html"
            draft = target.with_suffix(".draft")
            shutil.copyfile(page, draft)
            draft.chmod(0o644)
            draft.replace(target)
    return folder, without


def _notebooks(submitted: Path) -> Iterable[str]:
    with os.scandir(submitted) as entries:
        found = (entry.name for entry in islice(entries, 50 * MAX_NOTEBOOKS) if entry.name.endswith(".ipynb"))
        return [name.removesuffix(".ipynb") for name in islice(found, MAX_NOTEBOOKS)]
