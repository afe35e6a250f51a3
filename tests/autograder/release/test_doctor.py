"""The doctor connects to the gradebook, and says of each thing that would stop grading what to do about it."""

from __future__ import annotations

import shutil
import socket
import sqlite3
import sys
import time
import types
from contextlib import closing
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from autograder import disk
from autograder.classroom import checks
from autograder.classroom.doctor import Check
from autograder.paths import EDITIONS
from tests.autograder.classroom import LESSON, NOTEBOOK
from tests.autograder.release.course import Course


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Course:
    course = Course(tmp_path_factory.mktemp("release") / "course")
    course.release()
    return course


@pytest.fixture
def course(released: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Course:
    course = released.copy(tmp_path / "course")
    monkeypatch.setattr(checks, "SOLUTIONS", course.solutions)
    monkeypatch.setattr(checks, "SECONDS", 0.2)
    monkeypatch.setitem(checks.TIMEOUTS, "sqlite", {"timeout": 0.2})
    return course


def gradebook(course: Course) -> list[Check]:
    return list(checks.gradebook(course.config))


def fault(course: Course) -> str:
    """The one line with a fault that stops grading."""
    [check] = [check for check in gradebook(course) if not check.ok]
    assert check.needed
    return check.told


def execute(course: Course, *statements: str) -> None:
    with closing(sqlite3.connect(course.gradebook)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


def test_a_class_that_is_fit_for_grading_has_no_fault(course: Course) -> None:
    assert [(check.name, check.ok) for check in gradebook(course)] == [("gradebook", True), ("released", True)]
    assert gradebook(course)[0].told == f"{course.gradebook}: {LESSON}"
    assert checks.course(course.config).ok


def test_a_gradebook_that_is_not_there_yet_is_not_made(course: Course) -> None:
    course.gradebook.unlink()
    [check] = gradebook(course)
    assert not check.ok and "is not there yet: run `python -m autograder release en`" in check.told
    assert not course.gradebook.exists()


def test_an_empty_gradebook_knows_no_lesson(course: Course) -> None:
    course.gradebook.unlink()
    with Gradebook(course.config.CourseDirectory.db_url):
        pass
    [check] = gradebook(course)
    assert not check.ok and "knows no lesson: run `python -m autograder release en`" in check.told


def test_a_schema_of_an_older_nbgrader_is_told_with_the_upgrade(course: Course) -> None:
    execute(course, "update alembic_version set version_num = '50a4d84c131a'")
    assert "has the schema 50a4d84c131a, and nbgrader here wants" in fault(course)
    assert "`nbgrader db upgrade`" in fault(course)
    execute(course, "drop table alembic_version")
    assert "has the schema of no version" in fault(course)


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("alter table student drop column lms_user_id", "has no column lms_user_id in student"),
        ("drop table task_cells", "has no table task_cells"),
    ],
)
def test_a_column_or_a_table_that_lacks_is_named(course: Course, statement: str, told: str) -> None:
    execute(course, statement)
    assert told in fault(course) and "save a copy of it, then `nbgrader db upgrade`" in fault(course)


def test_a_gradebook_that_is_locked_is_told_at_once(course: Course) -> None:
    for kind in ("immediate", "exclusive"):
        with closing(sqlite3.connect(course.gradebook)) as database:
            database.execute(f"begin {kind}")
            began = time.monotonic()
            assert "can't be used (database is locked)" in fault(course)
            assert time.monotonic() - began < 5


def test_a_gradebook_that_can_only_be_read_is_told(course: Course) -> None:
    course.config.CourseDirectory.db_url = f"sqlite:///file:{course.gradebook}?mode=ro&uri=true"
    assert "attempt to write a readonly database" in fault(course)


def test_a_file_that_is_no_gradebook_is_told(course: Course) -> None:
    course.gradebook.write_text("no database\n" * 1000)
    assert "file is not a database" in fault(course) and "last copy" in fault(course)


def test_what_lies_on_disk_and_was_not_released_is_told(course: Course) -> None:
    path = course.course / "zh" / LESSON / f"{NOTEBOOK}.ipynb"
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert "is not what was released into this gradebook: run `python -m autograder release en`" in fault(course)


@pytest.mark.parametrize("edition", EDITIONS)
def test_a_course_that_is_not_whole_is_named(course: Course, edition: str) -> None:
    for place in (course.sources, course.course):
        path = place / edition / LESSON / f"{NOTEBOOK}.ipynb"
        content = path.read_bytes()
        path.unlink()
        check = checks.course(course.config)
        assert not check.ok and check.needed and f"{path} is not there" in check.told and "release en" in check.told
        path.write_bytes(content)
    shutil.rmtree(course.course)
    assert "nor 1 more" in checks.course(course.config).told


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ta:geheim@127.0.0.1:1/grades",
        "nonsense:geheim",
        "nodriver://ta:geheim@db/grades",
    ],
)
def test_a_database_that_can_not_be_reached_is_told_without_its_password(course: Course, address: str) -> None:
    course.config.CourseDirectory.db_url = address
    assert "can't be used (" in fault(course) and "geheim" not in fault(course)


def test_a_server_that_does_not_answer_is_given_up_soon(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver gets the time-out: here one that waits for a server as PostgreSQL's does."""

    def connect(**options: object) -> None:
        with socket.socket() as server:
            server.settimeout(float(str(options["connect_timeout"])) / 30)
            server.bind(("127.0.0.1", 0))
            server.listen()
            try:
                server.accept()
            except TimeoutError:
                raise driver.OperationalError(f"timeout expired for {options['password']}") from None

    driver = types.ModuleType("psycopg2")
    for name in ("Error", "OperationalError", "DatabaseError"):
        setattr(driver, name, type(name, (Exception,) if name == "Error" else (driver.Error,), {}))
    driver.connect, driver.paramstyle, driver.__version__ = connect, "pyformat", "2.9.9 (dt dec pq3 ext)"  # type: ignore[attr-defined]
    driver.extensions = driver.extras = types.ModuleType("x")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "psycopg2", driver)
    monkeypatch.setitem(sys.modules, "psycopg2.extensions", driver)
    monkeypatch.setitem(sys.modules, "psycopg2.extras", driver)
    course.config.CourseDirectory.db_url = "postgresql+psycopg2://ta:geheim@127.0.0.1/grades"
    told = fault(course)
    assert "timeout expired for ***" in told and "see that the database runs" in told and "geheim" not in told


def test_a_disk_with_little_room_is_named_and_one_with_none_stops_grading(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert str(course.room) in next(checks.disks(course.config)).told
    for free, needed in ((disk.ENOUGH - 1, False), (1 << 20, True)):
        monkeypatch.setattr(disk, "free", lambda _, free=free: free)
        found = [*checks.disks(course.config)]
        assert found and not any(check.ok for check in found) and {check.needed for check in found} == {needed}
        assert f"for {course.room}: less than 1 GiB; delete something" in found[0].told
