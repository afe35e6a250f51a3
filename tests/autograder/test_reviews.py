"""Points given by hand for a test's cell: they count while the code that is tested is the same, and no longer."""

from __future__ import annotations

from typing import Any

import nbformat.v4
import pytest

from autograder.judging.points import TESTED
from tests.autograder.classroom import LESSON, NOTEBOOK, planner
from tests.autograder.room import CELLS, Room

pytestmark = pytest.mark.requires_debian("bubblewrap")
SIDED_WITH = "plan_main_path"


def side_with(room: Room, student: str, points: float) -> None:
    with room.classroom.gradebook() as gradebook:
        grade = gradebook.find_grade(SIDED_WITH, NOTEBOOK, LESSON, student)
        grade.manual_score, grade.needs_manual_grade = points, False
        gradebook.db.commit()


def grade_of(room: Room, student: str) -> Any:
    with room.classroom.gradebook() as gradebook:
        grade = gradebook.find_grade(SIDED_WITH, NOTEBOOK, LESSON, student)
        return grade.score, grade.needs_manual_grade


def test_every_test_cell_of_the_class_is_about_a_filled_in_cell() -> None:
    assert set(CELLS) == set(TESTED)


@pytest.mark.parametrize("better", [True, False])
def test_points_given_by_hand_for_a_test_are_not_those_of_another_planner(room: Room, better: bool) -> None:
    right, wrong = planner(room.released()), "def unified_token_plan(requests, token_budget):\n    return {}, 0\n"
    room.hand_in("a", room.solved(unified_token_plan=wrong if better else right))
    room.grade()
    side_with(room, "a", 1.5)
    room.grade(force=True)
    assert grade_of(room, "a") == (1.5, False), "the planner is the same"
    room.hand_in("a", room.solved(unified_token_plan=wrong if better else right, q1_answer="Another answer."))
    room.grade()
    assert grade_of(room, "a") == (1.5, False), "another answer changed"
    room.hand_in("a", room.solved(unified_token_plan=right if better else wrong))
    room.grade()
    assert grade_of(room, "a") == (1.75 if better else 0.0, False), "the tests' own"
    room.hand_in("a", room.solved(unified_token_plan=wrong if better else right))
    room.grade()
    assert grade_of(room, "a") == (1.5, False), "the planner that they were for is back"


def test_points_given_by_hand_for_a_test_end_once_what_the_planner_uses_changed(room: Room) -> None:
    def uses(helper: str) -> Any:
        called = "need = own_need(request)", 'need = request["total_with_spec"] - request["computed"]'
        blanks = {"need = ______": called[0], "take = ______": "take = min(need, token_budget)"}
        notebook = room.solved(unified_token_plan=planner(room.released(), blanks))
        grade_ids = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in notebook.cells]
        place = grade_ids.index("unified_token_plan")
        notebook.cells.insert(place, nbformat.v4.new_code_cell(f"def own_need(request):\n    return {helper}"))  # type: ignore[no-untyped-call]
        return notebook

    room.hand_in("a", uses('request["total_with_spec"] - request["computed"]'))
    assert room.grade()["a"].points == 4
    side_with(room, "a", 1.5)
    room.grade(force=True)
    assert grade_of(room, "a") == (1.5, False)
    room.hand_in("a", uses("0"))
    room.grade()
    assert grade_of(room, "a") == (0.0, False)
