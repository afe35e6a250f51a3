"""What lies in a student's folder is looked at within bounds, notebooks first, and its digest is that of all of it."""

from __future__ import annotations

import os
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from autograder.intake.folder import MAX_BYTES, MAX_NOTEBOOKS, digest, look
from autograder.intake.intake import intake
from autograder.intake.walk import MAX_DEPTH, MAX_LOOKED_AT
from tests.autograder.classroom import LESSON
from tests.autograder.intake.lesson import ONE, TWO, answer, lesson, needs, take, write
from tests.autograder.intake.solved import PLANNER, of, released


def deep(folder: Path, levels: int, name: str = "d") -> None:
    """Folders in each other, further than a path can name."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


def remove_deep(folder: Path, name: str = "d") -> None:
    """pytest removes what is left by paths, and these have none."""
    while (folder / name).exists():
        moved = folder / "moved"
        os.rename(folder / name, moved)
        if (moved / name).exists():
            os.rename(moved / name, folder / name)
        os.rmdir(moved)


@pytest.mark.parametrize("name", ("d", "long" * 60))
def test_folders_without_end_stop_with_a_note_and_cost_nothing(name: str, tmp_path: Path) -> None:
    folder = write(tmp_path, lesson())
    deep(folder, 1_500, name)
    started = time.monotonic()
    try:
        found = intake(folder, "student")
        assert digest(folder)
    finally:
        remove_deep(folder, name)
    assert answer(found, "unified_token_plan") == PLANNER and time.monotonic() - started < 10
    [flag] = needs(found)
    assert "too deep" in flag.text and len(flag.text) < 1_500


@pytest.mark.parametrize(
    "place",
    (
        "home/jovyan/work/course/lesson-2",
        "content/drive/MyDrive/Colab Notebooks/vllm/course/en/lesson-2",
        "/".join("abcdefghijkl"),
        "作业/第二课/最终版",
    ),
)
def test_notebooks_are_found_far_below(place: str, tmp_path: Path) -> None:
    found = take(tmp_path, {f"{place}/{name}": notebook for name, notebook in lesson().items()})
    assert answer(found, "unified_token_plan") == PLANNER and not needs(found)


def logs(folder: Path) -> None:
    for number in range(120):
        (folder / f"0-run{number}.log").write_text("step\n")


def a_hundred_thousand_logs(folder: Path) -> None:
    for number in range(100_000):
        os.mknod(folder / f"0{number}.log")


def files_without_an_ending(folder: Path) -> None:
    for number in range(300):
        (folder / f"0{number}").write_text('{"cells": [], "nbformat": 4}')


def a_clone(folder: Path) -> None:
    for number in range(3_000):
        path = folder / ".git" / "objects" / f"{number % 256:02x}"
        path.mkdir(parents=True, exist_ok=True)
        (path / f"{number}").write_bytes(b"x")
    (folder / ".git" / "x.ipynb").write_text("{}")


def an_environment(folder: Path) -> None:
    for name in ("venv", "env", ".venv"):
        below = folder / name / "lib" / "python3.12" / "site-packages" / "nbformat"
        below.mkdir(parents=True)
        (below / "test4.ipynb").write_text("{}")
        (folder / name / "bin").mkdir()
        with open(folder / name / "lib" / "libtorch.so", "wb") as file:
            file.truncate(2 << 30)


def node_modules(folder: Path) -> None:
    for number in range(500):
        (folder / "node_modules" / f"m{number}").mkdir(parents=True)
        (folder / "node_modules" / f"m{number}" / "README.md").write_text("Q2 " * 20)


def caches(folder: Path) -> None:
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "helpers.cpython-312.pyc").write_bytes(b"x")


def data_of_four_gigabytes(folder: Path) -> None:
    for number in range(4):
        with open(folder / f"model-{number}.safetensors", "wb") as file:
            file.truncate(1 << 30)


def a_checkpoint_without_an_ending(folder: Path) -> None:
    with open(folder / "checkpoint", "wb") as file:
        file.truncate(5 << 30)


JUNK = (
    logs,
    a_hundred_thousand_logs,
    files_without_an_ending,
    a_clone,
    an_environment,
    node_modules,
    caches,
    data_of_four_gigabytes,
)


@pytest.mark.parametrize("junk", (*JUNK, a_checkpoint_without_an_ending), ids=lambda junk: junk.__name__)
def test_what_lies_beside_drowns_no_notebook_and_is_not_read(junk: Callable[[Path], None], tmp_path: Path) -> None:
    folder = write(tmp_path, lesson())
    junk(folder)
    started = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = intake(folder, "student")
    digest(folder)
    assert time.monotonic() - started < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # KiB
    assert answer(found, "unified_token_plan") == PLANNER and answer(found, "q2_answer")
    assert len(found.notes) <= 3 and (junk is a_checkpoint_without_an_ending or not needs(found)), found.notes


def test_logs_are_named_by_their_number(tmp_path: Path) -> None:
    folder = write(tmp_path, lesson())
    logs(folder)
    [told] = intake(folder, "student").notes
    assert told.kind == "repaired" and "120 files .log" in told.text


def test_more_files_than_are_looked_at_are_told(tmp_path: Path) -> None:
    folder = write(tmp_path, lesson())
    for number in range(MAX_LOOKED_AT + 10):
        os.mknod(folder / f"0{number}.md")
    [told] = [note for note in needs(intake(folder, "student")) if "not looked at" in note.text]
    assert ".md" in told.text


def test_more_notebooks_than_are_read_are_named(tmp_path: Path) -> None:
    blank = released(name=TWO)
    folder = write(tmp_path, lesson() | {f"copies/a{number}": blank for number in range(MAX_NOTEBOOKS)})
    [told] = [note for note in needs(intake(folder, "student")) if "not read" in note.text]
    assert "copies/a" in told.text and told.text.startswith("4 more notebooks")


def test_a_folder_that_can_not_be_entered_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        from autograder.intake import walk  # root may enter all

        real = walk.opened

        def opened(root: Path, place: tuple[str, ...]) -> int:
            if place[-1:] == ("closed",):
                raise PermissionError(13, "Permission denied")
            return real(root, place)

        monkeypatch.setattr(walk, "opened", opened)
    folder = write(tmp_path, lesson() | {"closed/x.md": "x"})
    (folder / "closed").chmod(0)
    [told] = needs(intake(folder, "student"))
    (folder / "closed").chmod(0o700)
    assert told.text == "closed can't be read (Permission denied)"


def test_links_that_turn_in_a_circle_are_not_followed(tmp_path: Path) -> None:
    folder = write(tmp_path, lesson())
    (folder / "again").symlink_to(folder)
    (folder / "up").symlink_to("..")
    found = intake(folder, "student")
    [told] = needs(found)
    assert "again" in told.text and "up" in told.text and answer(found, "q2_answer")


# --- the digest -------------------------------------------------------------------------------------------------------


def files() -> dict[str, object]:
    return lesson() | {"helpers.py": "x = 1\n", "data/prompts.csv": "a,b\n", "notes.md": "none", "model.bin": "xx"}


def folder_of(tmp_path: Path) -> Path:
    folder = write(tmp_path, files())  # type: ignore[arg-type]
    (folder / "link").symlink_to("helpers.py")
    (tmp_path / "lesson-2 (1)").mkdir()
    (tmp_path / "lesson-2 (1)" / "more.py").write_text("y = 1\n")
    return folder


def test_the_same_bytes_in_another_place_have_the_same_digest(tmp_path: Path) -> None:
    one = folder_of(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "elsewhere" / "two", symlinks=True, copy_function=shutil.copyfile)
    assert digest(one) == digest(tmp_path / "elsewhere" / "two" / LESSON) == digest(one)


def changed(path: str, content: str | None) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        if content is None:
            (folder / path).unlink()
        else:
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(content)

    return change


def linked(folder: Path) -> None:
    (folder / "helpers.py").unlink()
    (folder / "helpers.py").symlink_to("notes.md")


CHANGES: dict[str, Callable[[Path], object]] = {
    "a byte of a notebook": lambda folder: write(folder.parent, {TWO: released(name=TWO)}),
    "a byte of a helper": changed("helpers.py", "x = 2\n"),
    "a byte of data": changed("data/prompts.csv", "a;b\n"),
    "a byte of a text": changed("notes.md", "nine"),
    "a new file": changed("new.pdf", "x"),
    "a new empty file": changed("new.pdf", ""),
    "the size of what is not read": changed("model.bin", "xxx"),
    "a file less": changed("notes.md", None),
    "a file in a folder beside": changed("../lesson-2 (1)/more.py", "y = 2\n"),
    "a file one folder up": changed("../up.md", "Q2"),
    "another name": lambda folder: (folder / "notes.md").rename(folder / "notes.txt"),
    "another place": lambda folder: (folder / "notes.md").rename(folder / "data" / "notes.md"),
    "a link instead": linked,
    "an empty folder": lambda folder: (folder / "empty").mkdir(),
    "a too large notebook": lambda folder: os.truncate(folder / f"{ONE}.ipynb", MAX_BYTES + 1),
}


@pytest.mark.parametrize("what", CHANGES)
def test_whatever_can_change_a_note_changes_the_digest(what: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    before = digest(folder)
    CHANGES[what](folder)
    assert digest(folder) != before


def test_which_of_two_copies_is_newer_changes_the_digest_and_the_age_of_others_does_not(tmp_path: Path) -> None:
    first, second = lesson()[ONE], lesson()[ONE]
    of(second, "unified_token_plan")["source"] = PLANNER + "\n# two"
    folder = write(tmp_path, {"a": first, "b": second, TWO: released(name=TWO)})
    os.utime(folder / "a.ipynb", (1_000, 1_000))
    before = digest(folder)
    assert "# two" in answer(intake(folder, "student"), "unified_token_plan")
    os.utime(folder / f"{TWO}.ipynb", (2_000, 2_000))
    assert digest(folder) == before
    os.utime(folder / "b.ipynb", (500, 500))
    assert digest(folder) != before and "# two" not in answer(intake(folder, "student"), "unified_token_plan")


def test_a_folder_that_is_not_there_has_a_digest(tmp_path: Path) -> None:
    assert digest(tmp_path / "none" / LESSON)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    folder = write(tmp_path, lesson())
    os.mkfifo(folder / "helpers.py")
    os.mkfifo(folder / "x.ipynb")
    assert digest(folder) and [note.text for note in needs(intake(folder, "student"))] == [
        "x.ipynb is a pipe: hand in the file itself"
    ]


def test_depth_is_enough_for_any_layout() -> None:
    assert MAX_DEPTH >= 12 and look(Path("/nonexistent") / LESSON).notes
