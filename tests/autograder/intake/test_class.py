"""Broken notebooks through the whole of grading: the class driver, nbgrader and its gradebook."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.classroom.worker import Row
from tests.autograder.classroom import NOTEBOOK
from tests.autograder.intake.broken import (
    Break,
    answer_in_a_cell_below,
    answers_pasted_into_a_new_notebook,
    helper_in_an_own_cell,
    helper_in_the_set_up_cell,
    metadata_and_ids_lost,
    split_in_the_function_with_metadata_on_both,
)
from tests.autograder.intake.solved import hand_in, solved
from tests.autograder.room import FULL, Room

pytestmark = pytest.mark.requires_debian("bubblewrap")
BROKEN: tuple[Break, ...] = (
    answer_in_a_cell_below,
    answers_pasted_into_a_new_notebook,
    helper_in_an_own_cell,
    helper_in_the_set_up_cell,
    metadata_and_ids_lost,
    split_in_the_function_with_metadata_on_both,
)
EDITIONS = ("en", "zh")


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Room, dict[str, Row]]:
    room = Room(tmp_path_factory.mktemp("broken"))
    for edition in EDITIONS:
        for how in BROKEN:
            notebook = solved(edition)
            how(notebook)
            hand_in(room.submitted / f"{how.__name__}-{edition}", notebook, f"{NOTEBOOK} (1).ipynb")
    return room, room.grade()


@pytest.mark.parametrize("edition", EDITIONS)
@pytest.mark.parametrize("how", BROKEN, ids=lambda how: how.__name__)
def test_the_gradebook_has_full_points(graded: tuple[Room, dict[str, Row]], how: Break, edition: str) -> None:
    room, rows = graded
    row = rows[f"{how.__name__}-{edition}"]
    assert row.reason == "" and room.points(row.student) == FULL
    assert "flagged" not in {note.kind for note in row.notes}


def test_the_graded_notebook_shows_what_an_answer_uses(graded: tuple[Room, dict[str, Row]], tmp_path: Path) -> None:
    room, _ = graded
    [path] = (room.root / "class" / "autograded" / "helper_in_an_own_cell-en").rglob(f"{NOTEBOOK}.ipynb")
    assert path.read_text(encoding="utf-8").count("def smaller(a, b):") == 1  # as it was written and run
