"""The commands of a term, as they are typed: release, roster, doctor and the next term."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.classroom.lock import alone
from autograder.paths import CLONE, SOURCES
from tests.autograder.classroom import LESSON
from tests.autograder.test_commands import refused, run


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class that knows the lesson."""
    room = tmp_path_factory.mktemp("commands") / "class"
    done = run("release", "en", place=room)
    assert done.returncode == 0, done.stderr
    assert f"the gradebook knows {LESSON}: {room / 'gradebook.db'}\n" in done.stdout
    return room


def test_a_roster_is_entered_and_compared_with_who_has_handed_in(room: Path, tmp_path: Path) -> None:
    for name in ("wang", "stranger"):
        (room / "submitted" / name / LESSON).mkdir(parents=True, exist_ok=True)
    file = tmp_path / "students.csv"
    file.write_text("id;email;seat\nwang;w@example.edu;1\nzoe;;2\n", encoding="utf-8-sig")
    for told in ("2 new, 0 changed", "0 new, 0 changed"):
        done = run("roster", file, place=room)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            f"2 students are in {room / 'gradebook.db'}: {told}",
            "columns not used: 1 (seat)",
            f"without a folder in {room / 'submitted'}: 1 (zoe)",
            "with a folder, and not in students.csv: 1 (stranger)",
        ]
    file.write_text("id\nwang\nwang\n")
    assert f"{file}: line 3 has the id 'wang' of line 2 again: nobody was entered" in refused(
        "roster", file, place=room
    )


def test_while_one_command_is_at_work_on_the_class_or_the_clone_another_says_so(room: Path) -> None:
    with alone(room, "grade"):
        assert f"another grade is running in {room}: wait" in refused("release", "en", place=room)
        assert f"another grade is running in {room}: wait" in refused("term", "old", place=room)
    with alone(room, "release"):
        assert f"another release is running in {room}: wait" in refused("term", "old", place=room)
    with alone(SOURCES.parent, "release"):
        assert f"another release is running in {SOURCES.parent}" in refused("release", "en", place=room)
        assert f"another release is running in {SOURCES.parent}" in refused("course", place=room)


def test_a_password_is_printed_by_no_command(tmp_path: Path) -> None:
    """A configuration that names a server, for which no driver is installed or none answers."""
    (tmp_path / "nbgrader_config.py").write_text("")
    address = "postgresql://ta:geheim@127.0.0.1:1/grades?connect_timeout=2"
    sitecustomize = tmp_path / "sitecustomize.py"
    sitecustomize.write_text(
        "from traitlets.config.loader import PyFileConfigLoader\n"
        "load = PyFileConfigLoader.load_config\n"
        "def load_config(self):\n"
        "    config = load(self)\n"
        f"    config.CourseDirectory.db_url = {address!r}\n"
        "    return config\n"
        "PyFileConfigLoader.load_config = load_config\n"
    )
    path = f"{tmp_path}:{CLONE}"
    (tmp_path / "roster.csv").write_text("id\nwang\n")
    commands = (("release", "en"), ("grade",), ("report",), ("roster", tmp_path / "roster.csv"), ("term", "old"))
    (tmp_path / "class" / "submitted" / "wang" / LESSON).mkdir(parents=True)
    for command in commands:
        told = refused(*command, place=tmp_path / "class", PYTHONPATH=path)
        assert "postgresql://ta:***@127.0.0.1:1/grades" in told and "geheim" not in told, command
    done = run("doctor", place=tmp_path / "class", PYTHONPATH=path)
    assert done.returncode == 1 and "-- gradebook    postgresql://ta:***@127.0.0.1:1/grades" in done.stdout
    assert "geheim" not in done.stdout + done.stderr


def test_a_new_term_leaves_an_empty_class_that_knows_the_lesson(room: Path) -> None:
    done = run("term", "2026-spring", place=room)
    assert done.returncode == 0, done.stderr
    archive = room / "archive" / "2026-spring"
    assert (
        f"the class of 2026-spring lies in {archive}; to look at it again: MINIVLLM_CLASSROOM={archive}" in done.stdout
    )
    assert f"the new class is empty and knows {LESSON}" in done.stdout
    assert (archive / "submitted" / "wang").is_dir() and not (room / "submitted").exists()
    assert f"ok released     {LESSON}:" in run("doctor", place=room).stdout
    assert "is there already" in refused("term", "2026-spring", place=room)
