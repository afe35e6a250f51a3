"""A full disk ends in one sentence with the folder and what to do, and nothing half-written is in force."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder import cli, disk
from autograder.commands import told_plainly
from autograder.release.course import CourseError
from minivllm.cli import UsageError
from tests.autograder.release.course import Course
from tests.conftest import unavailable


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], check=False, capture_output=True
    )
    if mounted.returncode:
        unavailable(f"mounting a small disk needs root: {mounted.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def fill(place: Path, leaving: int = 0) -> Path:
    path = place / "filler"
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError as error:
            assert error.errno == errno.ENOSPC
    os.truncate(path, path.stat().st_size - leaving)
    return path


@pytest.mark.parametrize("leaving", range(0, 161 << 10, 40 << 10))
def test_a_disk_that_fills_up_at_any_point_of_a_release_leaves_the_old_one(small: Path, leaving: int) -> None:
    course = Course(small / "course")
    course.release()
    course.edit()
    files, rows = course.files(), course.rows()
    filler = fill(small, leaving)
    with (
        pytest.raises((OSError, CourseError, UsageError)) as caught,
        told_plainly(course.config.CourseDirectory.db_url),
    ):
        course.release()
    error = caught.value
    assert disk.is_full(error) or "is full" in str(getattr(error, "message", "")), repr(error)
    filler.unlink()
    assert (course.files(), course.rows(), course.fault()) == (files, rows, "")
    assert not [*course.sources.parent.glob(".release-*")]
    course.release()
    assert course.fault() == "" and course.rows() != rows


def test_a_gradebook_on_a_full_disk_is_told_with_its_folder(small: Path, tmp_path: Path) -> None:
    course = Course(tmp_path / "course")
    course.config.CourseDirectory.db_url = f"sqlite:///{small / 'gradebook.db'}"
    course.release()
    course.edit("# Hidden tests, a quarter point each: no gap", "# " + "long " * 20_000 + "Hidden tests: no gap")
    files = course.files()
    fill(small)
    with pytest.raises(UsageError) as caught, told_plainly(course.config.CourseDirectory.db_url):
        course.release()
    assert f"the disk of {small} is full (" in str(caught.value.message)  # type: ignore[attr-defined]
    assert course.files() == files and course.fault() == ""


@pytest.mark.parametrize(
    ("error", "folder"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/var/x/y"), "/var/x"),
        (OSError(errno.EDQUOT, "Disk quota exceeded", "/var/x/y"), "/var/x"),
        (
            CourseError("nbgrader could not release x: OSError: [Errno 28] No space left on device: '/var/x/y'"),
            "/var/x",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), ""),
        (CourseError("nbgrader could not release x: OSError: [Errno 122] Disk quota exceeded"), ""),
        (FileNotFoundError(2, "No usable temporary directory found in ['/tmp', '/var/tmp']"), ""),
    ],
)
@pytest.mark.parametrize("command", ["release", "grade", "report", "term"])
def test_every_command_ends_in_one_sentence_with_the_folder_and_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    command: str,
    error: Exception,
    folder: str,
) -> None:
    def full(*_: object) -> None:
        raise error

    monkeypatch.setenv("MINIVLLM_CLASSROOM", str(tmp_path))
    monkeypatch.setattr(disk, "free", lambda place: 0 if place == tmp_path else 1 << 30)
    monkeypatch.setattr("sys.argv", ["autograder", command, *(["en"] if command in ("release", "term") else [])])
    monkeypatch.setattr("autograder.release.publish.release", full)
    monkeypatch.setattr("autograder.classroom.term.archive", full)
    monkeypatch.setattr("autograder.classroom.classroom.Classroom.check", full)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    told = capsys.readouterr().err
    assert ended.value.code == 2 and told.startswith("error: the disk of ") and told.count("\n") == 1
    assert "delete something there or enlarge it, and run this again" in told
    if folder:
        assert f"the disk of {folder} is full" in told


def test_an_error_of_another_kind_is_told_as_it_is() -> None:
    assert not disk.is_full(OSError(errno.EACCES, "Permission denied", "/x"))
    assert not disk.is_full(ValueError("28 students"))


def test_a_database_server_whose_disk_is_full_is_not_taken_for_this_machines() -> None:
    from sqlalchemy.exc import OperationalError

    address = "postgresql://ta:geheim@db.example/grades"
    with pytest.raises(UsageError) as caught, told_plainly(address):
        raise OperationalError("insert", None, RuntimeError("could not extend file: No space left on device"))
    told = str(caught.value.message)  # type: ignore[attr-defined]
    assert told.startswith("the gradebook postgresql://ta:***@db.example/grades can't be used (could not extend file")
