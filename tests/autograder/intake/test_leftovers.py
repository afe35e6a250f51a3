"""Every file that was not read is named, for a person where it may hold the work; files beside can be used by code."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from autograder.paths import CLONE
from tests.autograder.classroom import LESSON
from tests.autograder.intake.lesson import ONE, TWO, answer, lesson, needs, take
from tests.autograder.intake.solved import PLANNER, new, of


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{ONE}.ipynb", "{}")
    return file.getvalue()


MAY_HOLD_WORK: dict[str, bytes] = {
    "answers.md": b"My thoughts on the lesson, which are long enough.",
    "answers.txt": b"x",
    "report.html": b"<html><p>x</p></html>",
    f"{ONE}.html": b"<html></html>",
    f"{ONE}.ipynb.pdf": b"%PDF-1.7",
    "report.pdf": b"%PDF-1.7",
    "report.docx": b"PK\3\4",
    "report.odt": b"PK\3\4",
    "report.pages": b"PK\3\4",
    "report.WPS": b"x",
    "report.rtf": b"{\\rtf1}",
    "slides.pptx": b"PK\3\4",
    "photo.HEIC": b"x",
    "photo.jpg": b"x",
    "lesson.zip": zipped(),
    "lesson.tar.xz": b"x",
    "lesson.tgz": b"x",
    "lesson.tar.zst": b"x",
    "lesson.zst": b"x",
    "lesson.tbz2": b"x",
    "lesson.7z": b"7z",
    "lesson.rar": b"Rar!",
    f".{ONE}.ipynb.icloud": b"bplist00",
    f"{ONE}.ipynb.crdownload": b"{",
    f"{ONE}.gdoc": b"{}",
    "notebook.webloc": b"<plist/>",
    "notebook.url": b"[InternetShortcut]",
}


@pytest.mark.parametrize("name", MAY_HOLD_WORK)
def test_a_file_that_may_hold_work_is_for_a_person(name: str, tmp_path: Path) -> None:
    found = take(tmp_path, lesson() | {name: MAY_HOLD_WORK[name]})
    [told] = needs(found)
    assert name in told.text and answer(found, "unified_token_plan") == PLANNER


@pytest.mark.parametrize("name", [*MAY_HOLD_WORK, "planner.py", "work.ipy", "work.rs", "work", "data.csv", "run.log"])
def test_a_submission_of_nothing_else_says_what_was_handed_in(name: str, tmp_path: Path) -> None:
    found = take(tmp_path, {name: MAY_HOLD_WORK.get(name, b"x = 1 # of mine")})
    assert not found.notebooks
    told = [note for note in found.notes if note.kind == "refused"]
    assert told and all(name in note.text and ": " in note.text for note in told), found.notes


HARMLESS: dict[str, bytes] = {
    f"{ONE}.ipynb:Zone.Identifier": b"[ZoneTransfer]\r\nZoneId=3\r\n",
    f"{ONE}.ipynbZone.Identifier": b"[ZoneTransfer]",
    "Zone.Identifier": b"[ZoneTransfer]",
    "desktop.ini": b"[.ShellClassInfo]",
    "Thumbs.db": b"\xd0\xcf",
    ".DS_Store": b"\0\0\0\1Bud1",
    f"._{ONE}.ipynb": b"\0\5\26\7",
    f"__MACOSX/._{ONE}.ipynb": b"\0\5\26\7",
    "__MACOSX/x.pdf": b"x",
    "~$report.docx": b"x",
    "timestamp.txt": b"2026-01-01 00:00:00 UTC",
    ".gitignore": b"*.pyc",
    ".git/config": b"[core]",
    ".ipynb_checkpoints/x.txt": b"x",
    "__pycache__/helpers.cpython-312.pyc": b"x",
    "run.log": b"x",
    "run.log.1": b"x",
    "prompts.csv": b"a,b",
    "config.yaml": b"a: 1",
    "requirements.txt": b"torch",
    "README.md": b"# Course",
    "empty.csv": b"",
    "trace.json.gz": b"x",
    "old/run.log.gz": b"x",
    "minivllm/docs/glossary.md": (CLONE / "docs" / "glossary.md").read_bytes(),
    "docs/one-step.svg": (CLONE / "docs" / "one-step.svg").read_bytes(),
    "pkg/__init__.py": b"",
    "trace.mp4": b"x",
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_tools_leave_behind_raises_no_alarm(name: str, tmp_path: Path) -> None:
    found = take(tmp_path, lesson() | {name: HARMLESS[name]})
    assert {note.kind for note in found.notes} <= {"repaired"}, found.notes
    assert len(found.notebooks) == 4


@pytest.mark.parametrize("name", ("config.yaml", "prompts.csv", "run.log", "trace.mp4", "requirements.txt"))
def test_what_was_not_read_is_still_named(name: str, tmp_path: Path) -> None:
    found = take(tmp_path, lesson() | {name: HARMLESS[name]})
    assert any(name in note.text for note in found.notes)


def test_only_litter_is_no_notebook(tmp_path: Path) -> None:
    assert not take(tmp_path, {"desktop.ini": b"x"}).notes


def test_empty_files_say_so(tmp_path: Path) -> None:
    found = take(tmp_path, {f"{ONE}.ipynb": b"", "answers.docx": b"", "lesson.zip": b""})
    told = {note.text.split()[0]: note.text for note in needs(found)}
    assert len(told) == 3 and all("is empty" in text for text in told.values())


def test_many_files_of_a_kind_are_one_note(tmp_path: Path) -> None:
    files: dict[str, bytes] = {f"page{number:03}.pdf": b"%PDF" for number in range(150)}
    found = take(tmp_path, lesson() | files)
    [told] = needs(found)
    assert told.text.startswith("150 documents") and "page000.pdf" in told.text and len(told.text) < 400


def test_code_beside_matters_to_a_person_only_where_an_answer_is_missing(tmp_path: Path) -> None:
    whole = take(tmp_path / "a", lesson() | {"sketch.py": b"x = 1\n"})
    assert not needs(whole) and any("sketch.py" in note.text for note in whole.notes)
    prose = take(tmp_path / "b", lesson(blank=("q2_answer",)) | {"sketch.py": b"x = 1\n"})
    assert not any("sketch.py" in note.text for note in needs(prose))
    half = take(tmp_path / "c", lesson(blank=("source_mapping",)) | {"sketch.py": b"x = 1\n"})
    assert any("sketch.py" in note.text for note in needs(half))


def test_a_file_that_the_notebooks_use_is_no_matter(tmp_path: Path) -> None:
    files = lesson(blank=("q3_answer",))
    files[ONE]["cells"].insert(3, new("import tools\nopen('prompts.txt').read()"))
    found = take(tmp_path, files | {"tools.py": b"x = 1\n", "prompts.txt": b"hello"})
    assert not needs(found)


def test_another_kind_of_file_with_a_notebooks_name_says_what_it_is(tmp_path: Path) -> None:
    found = take(tmp_path, {f"{ONE}.ipynb": zipped(), f"{TWO}.ipynb": b"<!DOCTYPE html><html>Sign in</html>"})
    texts = " ".join(note.text for note in found.notes)
    assert "a ZIP archive" in texts and "a web page" in texts


# --- files beside ------------------------------------------------------------------------------------------------------


def beside(tmp_path: Path, files: Mapping[str, bytes], below: str = "") -> dict[str, bytes]:
    notebooks = {f"{below}{name}": notebook for name, notebook in lesson().items()}
    return take(tmp_path, notebooks | dict(files)).files


def test_small_files_beside_come_with_their_paths(tmp_path: Path) -> None:
    files = {
        "helpers.py": b"x = 1\n",
        "pkg/__init__.py": b"",
        "pkg/deep/data.csv": b"a,b\n",
        "c.json": b"{}",
        "d.yaml": b"a: 1",
    }
    assert beside(tmp_path, files) == files


def test_paths_begin_at_the_graded_notebooks(tmp_path: Path) -> None:
    files = {"work/course/helpers.py": b"x", "work/other.py": b"y", "top.py": b"z"}
    assert beside(tmp_path, files, "work/course/") == {"helpers.py": b"x"}


@pytest.mark.parametrize(
    "name", (".hidden.py", ".config/x.py", "more.ipynb", "venv/bin/x.py", "a.pdf", "x.so", "copy.ipynb.txt", "a\nb.py")
)
def test_what_is_hidden_or_foreign_does_not_come(name: str, tmp_path: Path) -> None:
    assert beside(tmp_path, {name: b"{}", "ok.py": b"x"}) == {"ok.py": b"x"}


def test_large_files_stay_outside_and_all_together_are_bounded(tmp_path: Path) -> None:
    files = {f"d{number}.csv": b"x" * 900_000 for number in range(5)} | {"large.csv": b"x" * ((1 << 20) + 1)}
    found = beside(tmp_path, {"helpers.py": b"x"} | files)
    assert "helpers.py" in found and "large.csv" not in found and sum(map(len, found.values())) <= 2 << 20


def test_a_link_to_a_helper_does_not_come(tmp_path: Path) -> None:
    folder = tmp_path / LESSON
    folder.mkdir()
    (tmp_path / LESSON / "helpers.py").symlink_to("/etc/hostname")
    found = take(tmp_path, lesson())
    assert not found.files and "helpers.py" in needs(found)[0].text


def test_a_notebook_that_was_named_as_data_is_graded_and_no_file_beside(tmp_path: Path) -> None:
    files = lesson()
    one = files.pop(ONE)
    assert of(one, "q1_answer")
    found = take(tmp_path, {**files, f"{ONE}.json": json.dumps(one)})
    assert answer(found, "unified_token_plan") == PLANNER and not found.files
