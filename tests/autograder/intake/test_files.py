"""What lies in a student's folder: every kind of file ends in a notebook or in a sentence, and nothing raises."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder.intake.folder import MAX_BYTES
from autograder.intake.intake import Taken, intake
from tests.autograder.classroom import LESSON, NOTEBOOK
from tests.autograder.intake import broken
from tests.autograder.intake.solved import (
    PLANNER,
    Notebook,
    hand_in,
    kinds,
    new,
    of,
    released,
    solved,
    source,
    taken,
)

CANARY = "canary-of-the-system"


def text(notebook: Notebook | None = None) -> str:
    return json.dumps(notebook or solved(), ensure_ascii=False)


# --- how a file is written --------------------------------------------------------------------------------------------


def version_3() -> Notebook:
    cells = []
    for cell in solved()["cells"]:
        code = cell["cell_type"] == "code"
        cells.append(
            {
                "cell_type": cell["cell_type"],
                "metadata": cell["metadata"],
                "input" if code else "source": cell["source"],
            }
        )
    return {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": cells}]}


def version(major: Any, minor: Any) -> bytes:
    return text(solved() | {"nbformat": major, "nbformat_minor": minor}).encode()


def with_broken_cells() -> Notebook:
    notebook = solved()
    broken_cells: list[Any] = [None, 3, "text", [], {}, {"cell_type": "code"}, {"cell_type": 7, "source": 7}]
    broken_cells += [{"cell_type": "code", "source": None}, {"source": [1, None, "x = 1\n"], "metadata": []}]
    notebook["cells"][5:5] = broken_cells
    return notebook


def with_doubled_keys() -> bytes:
    return text().replace('"cell_type": "code"', '"cell_type": "raw", "cell_type": "code"').encode()


def with_huge_numbers() -> bytes:
    return text().replace('"nbformat_minor": 5', f'"nbformat_minor": {"9" * 10_000}, "x": 1e999, "y": NaN').encode()


def with_lines_as_lists() -> Notebook:
    notebook = solved()
    for cell in notebook["cells"]:
        cell["source"] = cell["source"].splitlines(keepends=True)
    return notebook


def with_windows_line_ends() -> Notebook:
    notebook = solved()
    for cell in notebook["cells"]:
        cell["source"] = cell["source"].replace("\n", "\r\n")
    return notebook


def with_surrogates() -> bytes:
    notebook = solved()
    notebook["cells"][0]["source"] += "\ud800 \ud83d\ude00"
    return json.dumps(notebook).encode()


def with_large_outputs() -> Notebook:
    notebook = solved()
    notebook["cells"][5]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x" * (20 << 20)}]
    return notebook


def with_deep_metadata() -> bytes:
    return text().replace('"metadata": {}', '"metadata": ' + '{"a": ' * 200 + "1" + "}" * 200, 1).encode()


READABLE: dict[str, Callable[[], Notebook | bytes]] = {
    "UTF-8 with BOM": lambda: text().encode("utf-8-sig"),
    "UTF-16": lambda: text().encode("utf-16"),
    "UTF-32": lambda: text().encode("utf-32-le"),
    "GB 18030": lambda: text(solved("zh")).encode("gb18030"),
    "a byte lost": lambda: text(solved("zh")).encode().replace("缺口".encode(), "缺口".encode()[1:], 1),
    "nbformat 3": version_3,
    "nbformat 4.0": lambda: version(4, 0),
    "nbformat 4.99": lambda: version(4, 99),
    "nbformat 5": lambda: version(5, 0),
    "nbformat missing": lambda: {"cells": solved()["cells"]},
    "nbformat a text": lambda: version("four", None),
    "metadata null": lambda: solved() | {"metadata": None},
    "broken cells": with_broken_cells,
    "doubled keys": with_doubled_keys,
    "huge numbers": with_huge_numbers,
    "lines as lists": with_lines_as_lists,
    "Windows line ends": with_windows_line_ends,
    "surrogates": with_surrogates,
    "large outputs": with_large_outputs,
    "deep metadata": with_deep_metadata,
    "text after the end": lambda: text().encode() + b"\n<<<<<<< HEAD\n",
    "control characters": lambda: text().replace('"cell_type"', '"x": "\t\x01", "cell_type"').encode(),
}


@pytest.mark.parametrize("name", READABLE)
def test_a_file_that_can_be_read_gives_its_answers(name: str, tmp_path: Path) -> None:
    found = taken(tmp_path, READABLE[name]())
    assert "refused" not in kinds(found), found.notes
    assert source(found.notebooks[NOTEBOOK], "unified_token_plan") == PLANNER
    json.dumps(found.notebooks[NOTEBOOK], ensure_ascii=False).encode("utf-8")


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "spaces": (b" \n ", "is empty"),
    "no JSON": (b"hello", "no JSON"),
    "a page": (b"<html><body>Not found</body></html>", "no JSON"),
    "broken off": (text().encode()[:5000], "broken off"),
    "nested": (b"[" * 100_000, "nested too deeply"),
    "nested objects": (b'{"a":' * 100_000, "nested too deeply"),
    "a list": (b"[1, 2]", "JSON list"),
    "a number": (b"7", "JSON int"),
    "cells no list": (b'{"nbformat": 4, "cells": {"0": {}}}', "no list of cells"),
    "no cells": (b'{"nbformat": 4}', "no list of cells"),
    "bytes": (bytes(range(256)) * 100, "no JSON"),
    "zeros": (b"\0" * 5000, "no JSON"),
    "too large": (b"x" * (MAX_BYTES + 1), "MiB"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_can_not_be_read_says_why(name: str, tmp_path: Path) -> None:
    content, why = UNREADABLE[name]
    found = taken(tmp_path, content)
    assert not found.notebooks
    [note] = found.notes
    assert note.kind == "refused" and note.text.startswith(f"{NOTEBOOK}.ipynb ") and why in note.text


# --- names ------------------------------------------------------------------------------------------------------------

NAMES = (
    f"{NOTEBOOK} (1).ipynb",
    f"Copy of {NOTEBOOK}.ipynb",
    f"{NOTEBOOK}-Copy1.ipynb",
    f"{NOTEBOOK.upper()}.IPYNB",
    f"{NOTEBOOK}.ipynb.txt",
    f"{NOTEBOOK}.json",
    f"{NOTEBOOK}",
    "homework.ipynb",
    "作业.ipynb",
    "2-prefix-match.ipynb",
    f"week 2/deep/er/{NOTEBOOK}.ipynb",
    "%2e%2e%2fetc%2fpasswd.ipynb",
    "-rf.ipynb",
    "a\nb.ipynb",
    "\u202egnp.ipynb",
    "=cmd().ipynb",
)


@pytest.mark.parametrize("name", NAMES)
def test_the_content_says_which_notebook_a_file_is(name: str, tmp_path: Path) -> None:
    found = taken(tmp_path, solved(), name)
    assert list(found.notebooks) == [NOTEBOOK] and source(found.notebooks[NOTEBOOK], "unified_token_plan") == PLANNER
    [note] = found.notes
    assert note.kind == "repaired" and note.text.endswith(f"was taken as {NOTEBOOK}.ipynb") and note.text.isprintable()


def test_a_name_that_is_no_text_does_not_matter(tmp_path: Path) -> None:
    folder = hand_in(tmp_path, solved())
    os.rename(os.fsencode(folder / f"{NOTEBOOK}.ipynb"), os.fsencode(folder) + b"/\xff\xfe.ipynb")
    found = intake(folder, "student")
    assert list(found.notebooks) == [NOTEBOOK]
    found.notes[0].text.encode("utf-8")


@pytest.mark.parametrize("edition", ("en", "zh"))
@pytest.mark.parametrize("name", sorted(path.stem for path in Path("course/en", LESSON).glob("*.ipynb")))
def test_each_notebook_of_the_lesson_is_known_by_its_content(name: str, edition: str, tmp_path: Path) -> None:
    found = taken(tmp_path, released(edition, name), "x.ipynb")
    assert list(found.notebooks) == [name]
    assert [cell.source for cell in found.notebooks[name].cells] == [
        c["source"] for c in released(edition, name)["cells"]
    ]


def test_a_notebook_of_another_course_is_refused_by_name(tmp_path: Path) -> None:
    found = taken(tmp_path, {"nbformat": 4, "cells": [new("print(1)")]}, "own.ipynb")
    assert not found.notebooks and found.notes[0].kind == "refused" and "none of the lesson's" in found.notes[0].text


def test_an_archive_is_named(tmp_path: Path) -> None:
    found = taken(tmp_path, b"PK\3\4", f"{NOTEBOOK}.zip")
    assert found.notes[0].kind == "refused" and "unpack it" in found.notes[0].text


# --- more than one file -----------------------------------------------------------------------------------------------


def _two(tmp_path: Path, files: dict[str, Notebook]) -> Taken:
    for name, notebook in files.items():
        hand_in(tmp_path, notebook, name)
    return intake(tmp_path / LESSON, "student")


def other_answer() -> Notebook:
    notebook = solved()
    of(notebook, "unified_token_plan")["source"] = PLANNER + "\n# other"
    return notebook


def test_the_right_name_wins_and_answers_that_differ_are_shown(tmp_path: Path) -> None:
    copy = f"{NOTEBOOK} (1).ipynb"
    found = _two(tmp_path, {copy: other_answer(), f"{NOTEBOOK}.ipynb": solved()})
    assert source(found.notebooks[NOTEBOOK], "unified_token_plan") == PLANNER
    named, differs = found.notes
    assert {named.kind, differs.kind} == {"flagged"} and copy in named.text
    assert (differs.cell, differs.kept, differs.other) == ("unified_token_plan", PLANNER, PLANNER + "\n# other")


def test_of_two_wrong_names_the_fuller_one_is_taken(tmp_path: Path) -> None:
    half = solved()
    broken.blanked(half)
    found = _two(tmp_path, {"b.ipynb": half, "a.ipynb": solved()})
    assert source(found.notebooks[NOTEBOOK], "unified_token_plan") == PLANNER
    assert kinds(found) == {"repaired"}


def test_of_two_wrong_names_with_as_many_answers_the_newer_one_is_taken(tmp_path: Path) -> None:
    folder = hand_in(tmp_path, solved(), "a.ipynb")
    hand_in(tmp_path, other_answer(), "b.ipynb")
    os.utime(folder / "a.ipynb", (1_000, 1_000))
    assert "# other" in source(intake(folder, "student").notebooks[NOTEBOOK], "unified_token_plan")


def test_a_blank_notebook_of_the_right_name_does_not_hide_the_answers(tmp_path: Path) -> None:
    found = _two(tmp_path, {f"{NOTEBOOK}.ipynb": released(), f"{NOTEBOOK}-Copy1.ipynb": solved()})
    assert source(found.notebooks[NOTEBOOK], "unified_token_plan") == PLANNER


def test_a_copy_stands_in_for_a_damaged_file(tmp_path: Path) -> None:
    folder = hand_in(tmp_path, b"{", f"{NOTEBOOK}.ipynb")
    hand_in(tmp_path, solved(), f"{NOTEBOOK} (1).ipynb")
    found = intake(folder, "student")
    assert list(found.notebooks) == [NOTEBOOK] and kinds(found) == {"refused", "repaired"}


def test_checkpoints_count_only_where_nothing_else_is_there(tmp_path: Path) -> None:
    hidden = f".ipynb_checkpoints/{NOTEBOOK}-checkpoint.ipynb"
    alone = _two(tmp_path / "alone", {hidden: solved()})
    assert source(alone.notebooks[NOTEBOOK], "unified_token_plan") == PLANNER and "flagged" in kinds(alone)
    beside = _two(tmp_path / "beside", {hidden: other_answer(), f"{NOTEBOOK}.ipynb": solved()})
    assert source(beside.notebooks[NOTEBOOK], "unified_token_plan") == PLANNER and not beside.notes


# --- what is no file --------------------------------------------------------------------------------------------------


def a_link(folder: Path) -> None:
    secret = folder.parent.parent / "secret"
    secret.write_text(text(solved() | {"metadata": {"canary": CANARY}}))
    (folder / f"{NOTEBOOK}.ipynb").symlink_to(secret)


def a_link_to_itself(folder: Path) -> None:
    (folder / f"{NOTEBOOK}.ipynb").symlink_to(folder / f"{NOTEBOOK}.ipynb")


def a_folder(folder: Path) -> None:
    (folder / f"{NOTEBOOK}.ipynb").mkdir()


def a_pipe(folder: Path) -> None:
    os.mkfifo(folder / f"{NOTEBOOK}.ipynb")


def a_socket(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(folder, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{here}/{NOTEBOOK}.ipynb")
        os.close(here)


@pytest.mark.parametrize("what", (a_link, a_link_to_itself, a_folder, a_pipe, a_socket), ids=lambda what: what.__name__)
def test_what_is_no_file_is_named_and_not_read(what: Callable[[Path], None], tmp_path: Path) -> None:
    folder = tmp_path / "student" / LESSON
    folder.mkdir(parents=True)
    what(folder)
    found = intake(folder, "student")
    assert not found.notebooks and [note.kind for note in found.notes] == ["refused"]
    assert what.__name__.split("_")[1] in found.notes[0].text


def test_a_linked_folder_is_not_entered(tmp_path: Path) -> None:
    hand_in(tmp_path / "other", solved())
    folder = tmp_path / "student" / LESSON
    folder.mkdir(parents=True)
    (folder / "sub").symlink_to(tmp_path / "other")
    found = intake(folder, "student")
    assert not found.notebooks and [note.kind for note in found.notes] == ["refused"] and "sub" in found.notes[0].text


def test_without_released_notebooks_the_remedy_is_told(tmp_path: Path) -> None:
    found = intake(hand_in(tmp_path, solved()), "student", tmp_path / "none")
    assert not found.notebooks and "autograder course" in found.notes[0].text


def test_a_folder_that_is_not_there_says_so(tmp_path: Path) -> None:
    found = intake(tmp_path / "none" / LESSON, "student")
    assert not found.notebooks and found.notes[0].kind == "refused"


def test_thousands_of_files_are_bounded(tmp_path: Path) -> None:
    folder = hand_in(tmp_path, solved())
    for number in range(3_000):
        (folder / f"junk{number}").touch()
    assert len(intake(folder, "student").notes) <= 3


@pytest.mark.parametrize(
    "cell", (new("unified_token_plan(" * 20), new("x = 1\n" * 100 + PLANNER), new("**Chain:**", "raw"))
)
def test_a_notebook_made_to_be_slow_is_taken_in_seconds(cell: Notebook, tmp_path: Path) -> None:
    notebook = solved()
    notebook["cells"] += [cell | {"source": f"{cell['source']}\n# {number}"} for number in range(5_000)]
    started = time.monotonic()
    found = taken(tmp_path, notebook)
    assert source(found.notebooks[NOTEBOOK], "source_mapping") and len(found.notes) < 30
    assert time.monotonic() - started < 60
