"""Right answers in a notebook that was broken on the way: they stand in the released notebook and get their points."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from tests.autograder.classroom import NOTEBOOK
from tests.autograder.intake import broken
from tests.autograder.intake.broken import EDITED, QUIET, REPAIRED, Break
from tests.autograder.intake.solved import ESSAY, FULL, kinds, points, released, solved, source, taken

ALL = (*REPAIRED, *QUIET, *EDITED)
EDITIONS = ("en", "zh")


@pytest.mark.requires_debian("bubblewrap")
@pytest.mark.parametrize("edition", EDITIONS)
@pytest.mark.parametrize("how", ALL, ids=lambda how: how.__name__)
def test_right_answers_get_full_points(how: Break, edition: str, tmp_path: Path) -> None:
    notebook = solved(edition)
    how(notebook)
    found = taken(tmp_path, notebook)
    assert list(found.notebooks) == [NOTEBOOK], found.notes
    rebuilt = found.notebooks[NOTEBOOK]
    assert points(rebuilt) == FULL, found.notes
    assert source(rebuilt, "q1_answer").strip() == ESSAY[edition]
    nbformat.validate(rebuilt)
    assert "flagged" not in kinds(found), found.notes


@pytest.mark.parametrize("how", REPAIRED, ids=lambda how: how.__name__)
def test_a_repair_is_told(how: Break, tmp_path: Path) -> None:
    notebook = solved()
    how(notebook)
    assert any(note.kind == "repaired" and note.cell for note in taken(tmp_path, notebook).notes)


@pytest.mark.parametrize("how", QUIET, ids=lambda how: how.__name__)
def test_what_took_nothing_from_an_answer_is_no_matter_for_a_person(how: Break, tmp_path: Path) -> None:
    notebook = solved()
    how(notebook)
    assert kinds(taken(tmp_path, notebook)) <= {"repaired"}


@pytest.mark.parametrize("how", EDITED, ids=lambda how: how.__name__)
def test_a_change_outside_the_answers_is_told_with_both_texts(how: Break, tmp_path: Path) -> None:
    notebook = solved()
    how(notebook)
    edited = [note for note in taken(tmp_path, notebook).notes if note.kind == "edited"]
    texts = {cell["source"] for cell in released()["cells"]}
    assert edited and all(note.kept in texts and note.text.endswith("used") for note in edited)
    gone = [note for note in edited if "is gone" in note.text]
    assert all(note.other for note in edited if note not in gone)


@pytest.mark.parametrize("edition", EDITIONS)
def test_a_whole_notebook_is_taken_as_it_is(edition: str, tmp_path: Path) -> None:
    found = taken(tmp_path, solved(edition))
    assert not found.notes
    assert [cell.source for cell in found.notebooks[NOTEBOOK].cells] == [c["source"] for c in solved(edition)["cells"]]


def test_a_blank_notebook_stays_blank_and_is_no_matter_for_a_person(tmp_path: Path) -> None:
    found = taken(tmp_path, released())
    assert not found.notes
    assert [cell.source for cell in found.notebooks[NOTEBOOK].cells] == [c["source"] for c in released()["cells"]]


def test_practice_is_kept_where_it_stood(tmp_path: Path) -> None:
    notebook = solved()
    notebook["cells"][5]["source"] = "predict('mine', 3)"
    broken.helper_in_an_own_cell(notebook)
    rebuilt = taken(tmp_path, notebook).notebooks[NOTEBOOK]
    assert rebuilt.cells[5].source == "predict('mine', 3)"
    own = [cell for cell in rebuilt.cells if "own" in cell.metadata.get("tags", ())]
    assert [cell.source.splitlines()[0] for cell in own] == [broken.HELPER.splitlines()[0]]


def test_the_address_of_the_wheel_is_the_students_to_set(tmp_path: Path) -> None:
    notebook = solved()
    line = next(line for line in notebook["cells"][1]["source"].splitlines() if line.startswith("MINIVLLM_WHEEL ="))
    notebook["cells"][1]["source"] = notebook["cells"][1]["source"].replace(line, 'MINIVLLM_WHEEL = "/content/x.whl"')
    assert not taken(tmp_path, notebook).notes
