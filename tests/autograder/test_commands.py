"""What an instructor types wrongly, or runs where it can't work, ends in one line that says what to do."""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.classroom.worker import Row
from autograder.intake.notes import Note
from autograder.paths import CLONE
from autograder.release.course import build
from autograder.reports.report_rows import ClassRows
from tests.autograder.classroom import LESSON
from tests.autograder.room import Room

pytestmark = [pytest.mark.requires_debian("bubblewrap"), pytest.mark.usefixtures("sources")]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The commands grade against the clone's sources, which a fresh clone hasn't built yet."""
    build(course=tmp_path_factory.mktemp("course"))


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Room:
    """A class with one submission, whose gradebook knows the lesson."""
    room = Room(tmp_path_factory.mktemp("room"))
    room.hand_in("a", room.solved())
    return room


def run(
    *arguments: object, place: Path | str | None = None, cwd: Path = CLONE, **more: str
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(CLONE), **more}
    environment.pop("MINIVLLM_CLASSROOM", None)
    if place is not None:
        environment["MINIVLLM_CLASSROOM"] = str(place)
    command = [sys.executable, "-m", "autograder", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=cwd)


def refused(*arguments: object, **more: str | Path) -> str:
    """The one line."""
    done = run(*arguments, **more)  # type: ignore[arg-type]
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_an_unknown_lesson_is_told_with_the_known_ones(room: Room) -> None:
    assert f"unknown lesson 'lesson-9': choose one of {LESSON}" in refused(
        "grade", "lesson-9", place=room.root / "class"
    )


def test_an_unknown_student_is_told_with_the_known_ones(room: Room) -> None:
    told = refused("grade", "--student", "b", place=room.root / "class")
    assert f"unknown student 'b': {room.submitted} holds a" in told


def test_without_a_sandbox_grading_refuses_and_names_the_remedy(room: Room, tmp_path: Path) -> None:
    told = refused("grade", place=room.root / "class", PATH=str(tmp_path))
    assert "no bubblewrap" in told and "apt-get install bubblewrap" in told and "--no-sandbox" in told


def test_a_gradebook_without_the_lesson_is_named_with_the_remedy(tmp_path: Path) -> None:
    told = refused("grade", place=tmp_path)
    assert f"there is no gradebook {tmp_path / 'gradebook.db'}: run `python -m autograder release en`" in told


@pytest.fixture
def locked(room: Room) -> Iterator[None]:
    database = sqlite3.connect(room.root / "class" / "gradebook.db")
    database.execute("begin exclusive")
    yield
    database.close()


@pytest.mark.usefixtures("locked")
def test_a_gradebook_that_another_program_holds_is_named(room: Room) -> None:
    told = refused("grade", place=room.root / "class")
    assert f"the gradebook {room.root / 'class' / 'gradebook.db'} can't be used (database is locked): end what" in told


def test_a_second_grade_of_the_same_class_does_not_start(room: Room) -> None:
    with (room.root / "class" / ".grade.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert f"another grade is running in {room.root / 'class'}" in refused("grade", place=room.root / "class")


def test_the_class_is_that_of_the_clone_wherever_the_command_is_run(tmp_path: Path) -> None:
    code = "from autograder.classroom.classroom import Classroom; print(Classroom('lesson-2').root)"
    environment = {key: value for key, value in os.environ.items() if key != "MINIVLLM_CLASSROOM"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=tmp_path, env={**environment, "PYTHONPATH": str(CLONE)}
    )
    assert done.stdout == f"{CLONE / 'classroom'}\n"
    assert list(tmp_path.iterdir()) == []


def test_a_class_folder_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in ("/proc/zzz", tmp_path / "file"):
        told = refused("grade", place=place)
        assert f"the class's folder {place} can't be made (" in told and "MINIVLLM_CLASSROOM" in told


def test_a_report_that_can_not_be_written_is_told(room: Room) -> None:
    told = refused("report", "--out", "/proc/x", place=room.root / "class")
    assert "/proc/x can't be made (No such file or directory): name a folder" in told


def test_a_notebook_is_no_file_to_try(tmp_path: Path) -> None:
    (tmp_path / "nb.ipynb").write_text('{"a": true}')
    assert "nb.ipynb is a notebook: copy the cell's code into a .py file" in refused(
        "try", "unified_token_plan", tmp_path / "nb.ipynb"
    )


def test_without_a_command_the_help_stands_as_it_is_written() -> None:
    done = run()
    assert done.returncode == 2 and not done.stderr.startswith("error: ")
    assert re.search(r"^ +python -m autograder grade +points", done.stderr, flags=re.MULTILINE)


def test_what_was_not_read_stands_before_what_is_flagged_and_no_place_is_made_up() -> None:
    notes = (
        Note("flagged", "looks odd", "nb", "cell 3", 7),
        Note("flagged", "was late"),
        Note("repaired", "was taken as nb.ipynb", "nb"),
        Note("refused", "other.ipynb is no notebook: it is no JSON"),
    )
    told = ClassRows._told(Row("a", 4, 10, unread=True, notes=notes))
    assert told == [
        "waits for a person",
        "other.ipynb is no notebook: it is no JSON",
        "nb cell 3 line 7: looks odd",
        "was late",
        "1 more note",
    ]
    reason = "other.ipynb is no notebook: it is no JSON"
    assert ClassRows._told(Row("a", reason=reason, notes=notes[3:])) == [reason]
