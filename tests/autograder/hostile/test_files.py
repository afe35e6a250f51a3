"""Submissions whose files are not what was released: each ends in a row with fair points or a plain reason."""

from __future__ import annotations

import copy
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat.v4
import pytest
from nbformat import NotebookNode

from autograder.classroom.worker import Row
from tests.autograder.classroom import LESSON, NOTEBOOK, cell
from tests.autograder.hostile.cases import FULL
from tests.autograder.room import Room

pytestmark = pytest.mark.requires_debian("bubblewrap")
Points = tuple[float, ...]
CANARY = "canary-of-the-system"


def good(room: Room, folder: Path) -> Points:
    return _write(folder, room.solved())


def a_test_cell_deleted(room: Room, folder: Path) -> Points:
    notebook = room.solved()
    notebook.cells.remove(cell(notebook, "plan_main_path"))
    return _write(folder, notebook)


def graded_cell_duplicated(room: Room, folder: Path) -> Points:
    notebook = room.solved()
    twin = copy.deepcopy(cell(notebook, "plan_main_path"))
    twin.id = "twin"
    notebook.cells.insert(3, twin)
    return _write(folder, notebook)


def answer_cell_duplicated(room: Room, folder: Path) -> Points:
    notebook = room.solved()
    twin = copy.deepcopy(cell(room.released(), "unified_token_plan"))
    twin.id = "twin"
    notebook.cells.append(twin)
    return _write(folder, notebook)


def solution_moved_to_the_end(room: Room, folder: Path) -> Points:
    notebook = room.solved()
    solution = cell(notebook, "unified_token_plan")
    notebook.cells.remove(solution)
    notebook.cells.append(solution)
    return _write(folder, notebook)


def with_tests_edited(room: Room, folder: Path) -> Points:
    notebook = room.solved(unified_token_plan="def unified_token_plan(requests, token_budget):\n    return {}, 0\n")
    for name in ("plan_examples", "plan_main_path", "plan_boundaries"):
        cell(notebook, name).source = "1.75"
    _write(folder, notebook)
    return (0.0, 0.0, 0.0, 1.0)


def points_edited(room: Room, folder: Path) -> Points:
    notebook = room.solved()
    cell(notebook, "plan_main_path").metadata.nbgrader.points = 100
    return _write(folder, notebook)


def all_metadata_lost(room: Room, folder: Path) -> Points:
    notebook = room.solved()
    notebook.metadata = NotebookNode()  # type: ignore[no-untyped-call]
    for each in notebook.cells:
        each.metadata = NotebookNode()  # type: ignore[no-untyped-call]
    return _write(folder, notebook)


def renamed(room: Room, folder: Path) -> Points:
    _write(folder, room.solved())
    (folder / f"{NOTEBOOK}.ipynb").rename(folder / f"{NOTEBOOK} (1).ipynb")
    return FULL


def with_a_byte_order_mark(room: Room, folder: Path) -> Points:
    _encode(folder, room, "utf-8-sig")
    return FULL


def in_utf_16(room: Room, folder: Path) -> Points:
    _encode(folder, room, "utf-16")
    return FULL


def ten_thousand_cells(room: Room, folder: Path) -> Points:
    notebook = room.solved()
    notebook.cells += [nbformat.v4.new_code_cell(f"x = {number}") for number in range(10_000)]  # type: ignore[no-untyped-call]
    return _write(folder, notebook)


def with_outputs_and_scripts(room: Room, folder: Path) -> Points:
    notebook = room.solved()
    page = {"text/html": "<script>alert(1)</script>", "text/plain": "1.75"}
    for each in notebook.cells:
        if each.cell_type == "code":
            each.outputs = [nbformat.v4.new_output("display_data", page)]  # type: ignore[no-untyped-call]
    return _write(folder, notebook)


def a_lone_surrogate_in_the_text(room: Room, folder: Path) -> Points:
    notebook = room.solved()
    notebook.cells[0].source += " \ud800"
    (folder / f"{NOTEBOOK}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    return FULL


def metadata_of_other_types(room: Room, folder: Path) -> Points:
    notebook = json.loads(json.dumps(room.solved()))
    notebook["cells"][0]["metadata"] = {"nbgrader": "yes", "tags": "setup", "lang": ["en"]}
    notebook["metadata"] = {"kernelspec": 3, "widgets": [], "language_info": "python"}
    (folder / f"{NOTEBOOK}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    return FULL


FAIR = (
    a_lone_surrogate_in_the_text,
    metadata_of_other_types,
    good,
    a_test_cell_deleted,
    graded_cell_duplicated,
    answer_cell_duplicated,
    solution_moved_to_the_end,
    with_tests_edited,
    points_edited,
    all_metadata_lost,
    renamed,
    with_a_byte_order_mark,
    in_utf_16,
    ten_thousand_cells,
    with_outputs_and_scripts,
)


def corrupt(room: Room, folder: Path) -> str:
    (folder / f"{NOTEBOOK}.ipynb").write_text('{"cells": [')
    return "is no notebook"


def empty(room: Room, folder: Path) -> str:
    (folder / f"{NOTEBOOK}.ipynb").write_bytes(b"")
    return "is no notebook"


def deeply_nested(room: Room, folder: Path) -> str:
    (folder / f"{NOTEBOOK}.ipynb").write_text("[" * 100_000 + "]" * 100_000)
    return "is no notebook"


def a_link_to_a_system_file(room: Room, folder: Path) -> str:
    secret = room.root / "secret"
    secret.write_text(json.dumps({"cells": [], "metadata": {"note": CANARY}, "nbformat": 4, "nbformat_minor": 5}))
    (folder / f"{NOTEBOOK}.ipynb").symlink_to(secret)
    (folder / "notes.txt").symlink_to("/etc/passwd")
    return "link"


def a_folder_for_a_notebook(room: Room, folder: Path) -> str:
    (folder / f"{NOTEBOOK}.ipynb").mkdir()
    return "folder"


def a_pipe(room: Room, folder: Path) -> str:
    os.mkfifo(folder / f"{NOTEBOOK}.ipynb")
    return "pipe"


def a_socket(room: Room, folder: Path) -> str:
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(folder, os.O_RDONLY)  # the path itself may be too long for a socket
        listener.bind(f"/proc/self/fd/{here}/{NOTEBOOK}.ipynb")
        os.close(here)
    return "socket"


def a_hundred_megabytes(room: Room, folder: Path) -> str:
    notebook = room.solved()
    notebook.cells.append(nbformat.v4.new_markdown_cell("x" * (100 << 20)))  # type: ignore[no-untyped-call]
    _write(folder, notebook)
    return "MiB"


def nothing(room: Room, folder: Path) -> str:
    return "no notebook was handed in"


UNGRADABLE = (
    corrupt,
    empty,
    deeply_nested,
    a_link_to_a_system_file,
    a_folder_for_a_notebook,
    a_pipe,
    a_socket,
    a_hundred_megabytes,
    nothing,
)
NAMES = ("王小明", "Zoë O'Brien", "=cmd()", "-rf", "..%2f..%2fetc", "lesson-2", "a+b", "'; DROP TABLE grade; --")
BAD_NAMES = ("*", "a[b]", "line\nbreak", " spaces ")


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Room, dict[str, Row], dict[str, Any]]:
    room = Room(tmp_path_factory.mktemp("files"))
    cases: tuple[Callable[[Room, Path], Any], ...] = (*FAIR, *UNGRADABLE)
    expected = {case.__name__: case(room, room.folder(case.__name__)) for case in cases}
    for name in (*NAMES, *BAD_NAMES):
        room.hand_in(name, room.solved())
    (room.submitted / "linked").symlink_to(room.submitted / "good")
    (room.submitted / "linked-lesson").mkdir()
    (room.submitted / "linked-lesson" / LESSON).symlink_to("/etc")
    return room, room.grade(), expected


@pytest.mark.parametrize("name", [case.__name__ for case in FAIR])
def test_a_repairable_submission_gets_what_it_earned(graded: tuple[Room, dict[str, Row], Any], name: str) -> None:
    room, rows, expected = graded
    assert rows[name].reason == ""
    assert room.points(name) == expected[name], rows[name]
    assert rows[name].of == 6


@pytest.mark.parametrize("name", [case.__name__ for case in UNGRADABLE])
def test_what_can_not_be_graded_says_why(graded: tuple[Room, dict[str, Row], Any], name: str) -> None:
    _, rows, expected = graded
    assert rows[name].points is None
    assert expected[name] in rows[name].reason and "Traceback" not in rows[name].reason
    assert rows[name].seconds < 20


@pytest.mark.parametrize("name", NAMES)
def test_a_student_may_be_called_anything(graded: tuple[Room, dict[str, Row], Any], name: str) -> None:
    room, rows, _ = graded
    assert rows[name].reason == "" and room.points(name) == FULL


@pytest.mark.parametrize("name", [*BAD_NAMES, "linked", "linked-lesson"])
def test_a_folder_that_nbgrader_would_mistake_says_so(graded: tuple[Room, dict[str, Row], Any], name: str) -> None:
    _, rows, _ = graded
    assert rows[name].points is None and ("rename it" in rows[name].reason or "link" in rows[name].reason)


def test_nothing_behind_a_link_is_copied(graded: tuple[Room, dict[str, Row], Any]) -> None:
    room, _, _ = graded
    made = [path for path in (room.root / "class").rglob("*") if room.submitted not in path.parents]
    assert room.root / "class" / "gradebook.db" in made and any(path.suffix == ".ipynb" for path in made)
    for path in made:
        assert not path.is_symlink()
        assert not path.is_file() or (b"root:x:0" not in path.read_bytes() and CANARY.encode() not in path.read_bytes())


def _write(folder: Path, notebook: Any) -> Points:
    nbformat.write(notebook, folder / f"{NOTEBOOK}.ipynb")  # type: ignore[no-untyped-call]
    return FULL


def _encode(folder: Path, room: Room, encoding: str) -> None:
    text = nbformat.writes(room.solved())  # type: ignore[no-untyped-call]
    (folder / f"{NOTEBOOK}.ipynb").write_bytes(text.encode(encoding))
