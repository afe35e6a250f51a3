"""A release that fails changes nothing, and one that is killed leaves the old, the new, or what grading refuses."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import nbgrader.api
import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError

from autograder import swap
from autograder.release import course as courses
from autograder.release import publish
from autograder.release.course import CourseError, build
from tests.autograder.release.course import Course

WRITES = ("os.rename", "os.mkdir", "os.rmdir", "os.remove", "sqlite3.connect")
KILLED = 9


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Course:
    course = Course(tmp_path_factory.mktemp("release") / "course")
    course.release()
    return course


@pytest.fixture
def course(released: Course, tmp_path: Path) -> Course:
    """The released one, with an edit that the next release brings."""
    course = released.copy(tmp_path / "course")
    course.edit()
    return course


def state(course: Course) -> Any:
    return course.files(), course.rows(), course.fault(), left_over(course)


def left_over(course: Course) -> list[Path]:
    return [*course.root.rglob(f"{swap.PREFIX}*"), *course.room.glob("*.draft")]


def killed_at(course: Course, step: int) -> list[str]:
    """Release in a process that ends before its `step`-th write, or never if that is 0. The writes up to there."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        seen = 0

        def count(what: str) -> None:
            nonlocal seen
            seen += 1
            os.write(writer, f"{what}\n".encode())
            if seen == step:
                os._exit(KILLED)

        def audit(name: str, arguments: tuple[Any, ...]) -> None:
            if name in WRITES or (name == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_ACCMODE):
                count(name)

        event.listen(Engine, "before_cursor_execute", lambda *_: count("sql"))
        event.listen(Engine, "commit", lambda _: count("commit"))
        sys.addaudithook(audit)
        try:
            course.release()
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        seen_writes = told.read().splitlines()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == (KILLED if step else 0)
    return seen_writes


@pytest.mark.parametrize("again", [True, False], ids=["a release after another", "the first release"])
def test_a_kill_at_any_step_leaves_the_old_the_new_or_what_grading_refuses(
    released: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    version = nbgrader.api.get_alembic_version()
    monkeypatch.setattr(nbgrader.api, "get_alembic_version", lambda: version)  # starts a program, for a second each
    old = released.copy(tmp_path / "old") if again else Course(tmp_path / "old")
    old.edit()
    new = old.copy(tmp_path / "new")
    new.release()
    seen = Counter[str]()
    writes = killed_at(old.copy(tmp_path / "0"), 0)
    turns = [step for step, what in enumerate(writes, 1) if what in ("os.rename", "commit")]
    assert len(turns) >= 10
    for step in sorted({*range(1, len(writes) + 1, 12), *turns, *(turn + 1 for turn in turns if turn < len(writes))}):
        course = old.copy(tmp_path / str(step))
        assert len(killed_at(course, step)) == step
        if not course.gradebook.exists():
            assert not again and course.files() == {}
            seen["nothing there yet"] += 1
            continue
        fault, files, rows = course.fault(), course.files(), course.rows()
        assert rows["alembic_version"] == new.rows()["alembic_version"]
        if fault:
            assert "run `python -m autograder release en`" in fault
            seen["refused"] += 1
        elif files == new.files():
            assert rows == new.rows()
            seen["new"] += 1
        else:
            assert (files, rows) == (old.files(), old.rows())
            seen["old"] += 1
        if fault or step % 7 == 0:
            course.release()
            assert (course.files(), course.rows(), course.fault()) == (new.files(), new.rows(), "")
    assert seen["refused"] >= 4 and seen["new"] and seen["old" if again else "nothing there yet"] >= 4, seen


def full_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", "/x/y")


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("number", range(10))
def test_where_a_rename_fails_the_old_release_is_back(
    course: Course, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    before, moves, move = state(course), [0], swap._move

    def failing(*arguments: Any) -> None:
        moves[0] += 1
        if moves[0] == number + 1:
            raise PermissionError(errno.EACCES, "Permission denied", "/x/y")
        move(*arguments)

    monkeypatch.setattr(swap, "_move", failing)
    with pytest.raises(PermissionError):
        course.release()
    assert moves[0] == number + 1
    assert state(course) == before


@pytest.mark.parametrize(
    ("place", "name", "fault", "error"),
    [
        (courses, "write_notebook", full_disk, OSError),
        (courses, "record_of", full_disk, OSError),
        (courses, "release", full_disk, OSError),
        (courses, "release", interrupted, KeyboardInterrupt),
        (publish, "graded", interrupted, KeyboardInterrupt),
        (publish, "release_digest", full_disk, OSError),
        (publish, "in_force", interrupted, KeyboardInterrupt),
    ],
)
def test_a_release_that_fails_on_the_way_changes_nothing(
    course: Course, monkeypatch: pytest.MonkeyPatch, place: Any, name: str, fault: Any, error: type[BaseException]
) -> None:
    before = state(course)
    monkeypatch.setattr(place, name, fault)
    with pytest.raises(error):
        course.release()
    assert state(course) == before and before[2:] == ("", [])


def test_a_commit_that_fails_leaves_the_old_release(course: Course) -> None:
    def failing(_: object) -> None:
        raise OperationalError("commit", None, sqlite3.OperationalError("disk I/O error"))

    before = state(course)
    event.listen(Engine, "commit", failing)
    try:
        with pytest.raises(OperationalError):
            course.release()
    finally:
        event.remove(Engine, "commit", failing)
    assert state(course) == before


@pytest.fixture
def locked(course: Course) -> Iterator[None]:
    with closing(sqlite3.connect(course.gradebook)) as database:
        database.execute("begin immediate")
        yield


@pytest.mark.usefixtures("locked")
def test_a_gradebook_that_another_program_writes_to_leaves_the_old_release(course: Course) -> None:
    files, rows = course.files(), course.rows()
    with pytest.raises(OperationalError, match="locked"):
        course.release()
    assert (course.files(), course.rows(), left_over(course)) == (files, rows, [])


def test_a_lesson_that_nbgrader_refuses_leaves_the_old_release(course: Course) -> None:
    course.edit("points: 1.5", "points: many")
    before = state(course)
    with pytest.raises((CourseError, ValueError)):
        course.release()
    assert state(course) == before


def test_ctrl_c_within_nbgrader_ends_the_release_and_changes_nothing(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nbgrader.converters import GenerateAssignment

    before = state(course)
    monkeypatch.setattr(GenerateAssignment, "set_permissions", interrupted)
    with pytest.raises(KeyboardInterrupt):
        course.release()
    assert state(course) == before


def test_ctrl_c_while_the_new_takes_its_place_waits_until_it_has(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = swap._move

    def interrupting(*arguments: Any) -> None:
        move(*arguments)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(swap, "_move", interrupting)
    with pytest.raises(KeyboardInterrupt):
        course.release()
    assert course.fault() == "" and ("plan_main_path", 1.5, "code") in course.rows()["grade_cells"]


def test_a_build_without_a_gradebook_is_swapped_in_whole_and_then_grading_asks_for_a_release(course: Course) -> None:
    build(course.solutions, course.sources, course.course)
    assert "is not what was released" in course.fault() and left_over(course) == []
    course.release()
    assert course.fault() == ""


def test_what_a_killed_build_left_goes_with_a_later_one(course: Course) -> None:
    old, fresh = (course.sources.parent / f"{swap.PREFIX}{name}" for name in ("old", "fresh"))
    for left in (old, fresh):
        (left / "en").mkdir(parents=True)
    long_ago = time.time() - 2 * swap.LEFT_SECONDS
    os.utime(old, (long_ago, long_ago))
    course.release()
    assert left_over(course) == [fresh]
