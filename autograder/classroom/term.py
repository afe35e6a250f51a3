"""A term ends: the whole class is put away in its folder, nothing of it is deleted, and an empty class begins."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from nbgrader.api import Gradebook
from traitlets.config import Config

from autograder.classroom.classroom import ClassroomError
from autograder.classroom.lock import NAME, UNFINISHED, alone
from autograder.gradebook.address import file_of, shown
from autograder.paths import CLONE
from autograder.release.publish import enter_gradebook

ARCHIVE = "archive"
SECONDS = 5.0  # to wait for what else writes into the gradebook
BESIDE = ("-journal", "-wal", "-shm")


def archive(config: Config, name: str) -> tuple[Path, list[str]]:
    """Move the class to archive/NAME; returns that folder, and the lessons of the new class. Raises ClassroomError.

    Where it is killed, everything is either here or there, and nothing else begins before it is run again.
    """
    root = Path(config.CourseDirectory.autograded_directory).parent
    _check_name(name, root)
    with alone(root, "term"):
        gradebook = file_of(config.CourseDirectory.db_url)
        target = root / ARCHIVE / name
        if target.exists():
            raise ClassroomError(f"{target} is there already: choose another name")
        draft = target.with_name(f"{name}{UNFINISHED}")
        others = [left.name for left in root.glob(f"{ARCHIVE}/*{UNFINISHED}") if left != draft]
        if others:
            begun = others[0].removesuffix(UNFINISHED)
            raise ClassroomError(f"the term {begun} was begun and interrupted: run `python -m autograder term {begun}`")
        stays = (ARCHIVE, NAME)
        if not draft.exists() and not (gradebook and gradebook.exists()) and not _content(root, stays):
            raise ClassroomError(f"{root} holds no class: there is nothing to put away")
        if gradebook is None:
            _refuse_a_servers(config.CourseDirectory.db_url)
        draft.mkdir(parents=True, exist_ok=True)
        if gradebook and gradebook.exists():
            with _still(gradebook):
                for path in (gradebook, *(gradebook.with_name(gradebook.name + end) for end in BESIDE)):
                    if path.exists():
                        shutil.move(path, draft / path.name)
        for path in _content(root, stays):
            path.rename(draft / path.name)
        draft.rename(target)
        lessons = sorted({path.parent.name for path in Path(config.CourseDirectory.source_directory).glob("*/*.ipynb")})
        for lesson in lessons:
            enter_gradebook(config, lesson)
    return target, lessons


def _check_name(name: str, root: Path) -> None:
    if not re.fullmatch(r"\w[\w.+-]{0,99}", name) or name.endswith(UNFINISHED):
        raise ClassroomError(
            f"the term's name {name!r} can't be a folder's in {root / ARCHIVE}: use letters, digits, '.', '-' and '_'"
        )


def _content(root: Path, stays: tuple[str, ...]) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.name not in stays and not (path.is_dir() and _is_empty(path)))


def _is_empty(folder: Path) -> bool:
    return not any(folder.iterdir())


@contextmanager
def _still(gradebook: Path) -> Iterator[None]:
    """Nobody writes into the file meanwhile. Raises ClassroomError if somebody does, or if it is no gradebook."""
    with closing(sqlite3.connect(gradebook, timeout=SECONDS, isolation_level=None)) as database:
        try:
            database.execute("begin exclusive")
            database.execute("select count(*) from sqlite_master").fetchone()
        except sqlite3.Error as error:
            raise ClassroomError(
                f"the gradebook {gradebook} can't be put away ({error}): end what else uses it and run this again"
            ) from None
        yield


def _refuse_a_servers(db_url: str) -> None:
    with Gradebook(db_url) as gradebook:
        if any(assignment.num_submissions for assignment in gradebook.assignments):
            raise ClassroomError(
                f"the gradebook {shown(db_url)} is a server's, which can't be moved: save it with the server's own "
                "tools, name a new database as c.CourseDirectory.db_url in "
                f"{CLONE / 'nbgrader_config.py'}, and run this again"
            )
