"""A new term: the class is put away whole, nothing of it is deleted, and an empty class knows the lesson."""

from __future__ import annotations

import fcntl
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from nbgrader.api import Gradebook

from autograder.classroom import term
from autograder.classroom.classroom import ClassroomError
from autograder.classroom.lock import BusyError, alone
from autograder.classroom.term import archive
from tests.autograder.classroom import LESSON
from tests.autograder.release.course import Course

OWN = (".grade.lock", "archive")


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Course:
    course = Course(tmp_path_factory.mktemp("release") / "course")
    course.release()
    for folder in ("submitted", "autograded", "feedback", "reports", "records", "downloaded"):
        path = course.room / folder / "王小明" / LESSON / "1-budget-planner.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(folder)
    with Gradebook(course.config.CourseDirectory.db_url, "minivllm") as gradebook:
        gradebook.add_student("王小明")
        gradebook.add_submission(LESSON, "王小明")
    return course


@pytest.fixture
def course(released: Course, tmp_path: Path) -> Course:
    return released.copy(tmp_path / "course")


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).parts[0] not in OWN
    }


def submissions(path: Path) -> list[Any]:
    with closing(sqlite3.connect(path)) as database:
        return [*database.execute("select student_id from submitted_assignment")]


def test_a_new_term_finds_an_empty_class_that_knows_the_lesson_and_the_old_one_in_the_archive(course: Course) -> None:
    before = content(course.room)
    assert len(before) == 7 and submissions(course.gradebook) == [("王小明",)]
    place, lessons = archive(course.config, "2026-spring")
    assert (place, lessons) == (course.room / "archive" / "2026-spring", [LESSON])
    assert content(place) == before
    assert {path.name for path in course.room.iterdir()} == {*OWN, "gradebook.db"}
    assert submissions(course.gradebook) == [] and course.fault() == ""
    with Gradebook(course.config.CourseDirectory.db_url, "minivllm") as gradebook:
        assert gradebook.students == [] and gradebook.find_assignment(LESSON).max_score == 6


def test_a_second_term_goes_beside_the_first(course: Course) -> None:
    archive(course.config, "one")
    first = content(course.room / "archive" / "one")
    archive(course.config, "two")
    assert content(course.room / "archive" / "one") == first
    assert {path.name for path in (course.room / "archive").iterdir()} == {"one", "two"}


def test_a_gradebook_that_lies_elsewhere_is_put_away_too(course: Course, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "grades.sqlite"
    elsewhere.parent.mkdir()
    course.gradebook.rename(elsewhere)
    course.config.CourseDirectory.db_url = f"sqlite:///{elsewhere}"
    place, _ = archive(course.config, "old")
    assert submissions(place / "grades.sqlite") == [("王小明",)] and submissions(elsewhere) == []


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", ".hidden", "a b", "-x", "x" * 101, "x.unfinished"])
def test_a_name_that_can_not_be_a_folders_is_refused(course: Course, name: str) -> None:
    before = content(course.room)
    with pytest.raises(ClassroomError, match=r"the term's name .* can't be a folder's"):
        archive(course.config, name)
    assert content(course.room) == before


def test_an_archive_is_never_written_over(course: Course) -> None:
    archive(course.config, "old")
    before = content(course.room)
    with pytest.raises(ClassroomError, match="archive/old is there already: choose another name"):
        archive(course.config, "old")
    assert content(course.room) == before


def test_while_the_class_is_graded_no_term_ends(course: Course) -> None:
    before = content(course.room)
    with alone(course.room, "grade"), pytest.raises(BusyError, match=f"another grade is running in {course.room}"):
        archive(course.config, "old")
    with (course.room / ".grade.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(BusyError, match="another grade is running"):
            archive(course.config, "old")
    assert content(course.room) == before


def test_while_another_program_writes_into_the_gradebook_no_term_ends(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(term, "SECONDS", 0.1)
    before = content(course.room)
    with closing(sqlite3.connect(course.gradebook)) as database:
        database.execute("begin immediate")
        with pytest.raises(ClassroomError, match=r"can't be put away \(database is locked\): end what else uses it"):
            archive(course.config, "old")
    assert content(course.room) == before


def test_where_there_is_no_class_nothing_is_put_away(course: Course) -> None:
    shutil.rmtree(course.room)
    with pytest.raises(ClassroomError, match="holds no class: there is nothing to put away"):
        archive(course.config, "old")
    assert [path.name for path in course.room.iterdir()] == [".grade.lock"]


def test_an_interrupted_move_is_finished_by_the_same_command_and_nothing_else_begins_before(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(course.room)
    rename, moved = Path.rename, list[Path]()

    def failing(self: Path, target: Path) -> Path:
        if len(moved) == 3:
            raise KeyboardInterrupt
        moved.append(self)
        return rename(self, target)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "rename", failing)
        archive(course.config, "old")
    draft = course.room / "archive" / "old.unfinished"
    assert content(course.room) | content(draft) == before and content(course.room) and content(draft)
    for what in ("grade", "release"):
        with (
            pytest.raises(BusyError, match="interrupted: run `python -m autograder term old`"),
            alone(course.room, what),
        ):
            pass
    with pytest.raises(ClassroomError, match="run `python -m autograder term old`"):
        archive(course.config, "other")
    place, _ = archive(course.config, "old")
    assert content(place) == before and course.fault() == ""
    with alone(course.room, "grade"):
        pass
