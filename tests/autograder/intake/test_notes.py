"""A note knows whether a person has to settle it, and is known again by its key."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from autograder.intake.notes import Note

NOTE = Note("flagged", "two texts differ", "01-predict-the-schedule", "q1_answer", 3, kept="one", other="two")


@pytest.mark.parametrize(
    ("kind", "needs"),
    [("refused", True), ("flagged", True), ("not_run", False), ("repaired", False), ("edited", False)],
)
def test_what_was_not_graded_or_is_in_doubt_needs_a_person(kind: str, needs: bool) -> None:
    assert Note(kind, "told").needs_person is needs


def test_the_key_is_the_same_after_a_way_through_json() -> None:
    assert Note(**json.loads(json.dumps(asdict(NOTE)))).key == NOTE.key


@pytest.mark.parametrize("field", ["kind", "text", "notebook", "cell", "kept", "other"])
def test_other_words_or_another_cell_have_another_key(field: str) -> None:
    assert Note(**{**asdict(NOTE), field: "changed"}).key != NOTE.key


def test_fields_that_run_together_have_different_keys() -> None:
    assert Note("flagged", "ab", "c").key != Note("flagged", "a", "bc").key


def test_a_key_can_be_made_of_any_text() -> None:
    assert Note("flagged", "\ud800", other="\0").key != Note("flagged", "\ud801", other="\0").key
