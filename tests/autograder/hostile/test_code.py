"""Whatever stands in an answer, it gets the points that it earned, costs its own submission alone and leaves nothing."""

from __future__ import annotations

import os

import pytest

from autograder.classroom.worker import Row
from tests.autograder.hostile.cases import Case, code_cases, hand_in
from tests.autograder.room import Room
from tests.processes import still_running

pytestmark = pytest.mark.requires_debian("bubblewrap")
CASES = code_cases()


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Room, dict[str, Row]]:
    room = Room(tmp_path_factory.mktemp("hostile"))
    for case in CASES:
        hand_in(room, case)
    return room, room.grade()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.student)
def test_it_gets_what_it_earned(graded: tuple[Room, dict[str, Row]], case: Case) -> None:
    room, rows = graded
    row = rows[case.student]
    assert row.reason == ""
    told = room.told(case.student)
    assert room.points(case.student) == (case.points or room.points("wrong")), (told, row)
    if case.says:
        assert any(case.says in text for text in told.values()), told
    flagged = [note.text for note in row.notes if note.kind == "flagged"]
    if case.flagged:
        assert any(case.flagged in text for text in flagged), flagged
        assert all(note.line > 0 for note in row.notes if case.flagged in note.text)
    assert row.seconds < 45


def test_nothing_of_them_lives_on(graded: tuple[Room, dict[str, Row]]) -> None:
    assert not still_running("child.py")


def test_no_hidden_test_stands_in_what_they_are_told(graded: tuple[Room, dict[str, Row]]) -> None:
    room, _ = graded
    secrets = ("grade_main_path", "plan_tests", "Traceback", "autograder/", str(os.getcwd()))
    for case in CASES:
        if case.name.startswith(("vendors", "imports")):
            continue
        for grade_id, text in room.told(case.student).items():
            assert not any(secret in text for secret in secrets), (case.name, grade_id, text)
