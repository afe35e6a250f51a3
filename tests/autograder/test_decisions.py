"""What people decide in the formgrader: entries of their own, about one text, by name; nothing else counts as read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from autograder.classroom import submission, worker
from autograder.gradebook.decisions import UNKNOWN
from autograder.gradebook.graded import GradedNotebook
from autograder.gradebook.tables import Decision, reading
from autograder.gradebook.verdict import Cell, Verdict
from autograder.intake.notes import Note
from autograder.reports.report import open_ends
from tests.autograder.classroom import ESSAY, LESSON, NOTEBOOK
from tests.autograder.formgrader import Browser, comment_id, grade_id, notebook_id, served
from tests.autograder.room import Room
from tests.autograder.test_interrupted import held

pytestmark = [pytest.mark.requires_debian("bubblewrap"), pytest.mark.usefixtures("here")]
Q1 = "q1_answer"
MOST = 2


@pytest.fixture(scope="module")
def address(template: Room, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(template, tmp_path_factory.mktemp("home")) as address:
        yield address


@pytest.fixture(scope="module")
def tess(address: str) -> Browser:
    return Browser(address)


@pytest.fixture
def room(template: Room, here: None) -> Room:
    """A class in which "a" is graded and nobody has read anything."""
    template.empty()
    template.hand_in("a", template.solved())
    assert template.grade()["a"].points == 4
    return template


def verdict(room: Room) -> Verdict:
    [found] = room.classroom.verdicts()
    return found


def q1(room: Room) -> Cell:
    return verdict(room).cells[Q1]


def trail(room: Room) -> list[Decision]:
    with reading(room.classroom.book.db_url) as session:
        found = list(session.scalars(select(Decision).order_by(Decision.id)))
        session.expunge_all()
        return found


def stored(room: Room, cell: str = Q1) -> tuple[Any, ...]:
    """nbgrader's own row, read past everything."""
    with sqlite3.connect(room.root / "class" / "gradebook.db") as database:
        query = "select manual_score, extra_credit, needs_manual_grade from grade where id = ?"
        return tuple(database.execute(query, (grade_id(room, cell),)).fetchone())


# --- points ---------------------------------------------------------------------------------------------------------


def test_points_typed_changed_and_cleared_are_three_entries_and_only_the_newest_counts(
    room: Room, tess: Browser
) -> None:
    waits = q1(room)
    assert waits.needs_person and not waits.by_person and verdict(room).open_ends == ["unread: q1"]
    grade = grade_id(room)
    for points in (1.5, 0, 2):
        assert tess.give(grade, points).status == 200
        assert (q1(room).points, q1(room).needs_person, verdict(room).open_ends) == (points, False, [])
    assert tess.give(grade, None).status == 200
    assert (q1(room).points, q1(room).needs_person) == (waits.points, True), "taken back: it waits again"
    assert stored(room)[2], "the formgrader lists it again, too"
    assert [each.points for each in trail(room)] == [1.5, 0, 2, None]
    assert all(each.student == "a" and each.cell == Q1 and each.who and each.text for each in trail(room))
    assert [each.at for each in trail(room)] == sorted(each.at for each in trail(room))


def test_the_same_points_again_are_no_second_entry_and_a_zero_is_a_decision(room: Room, tess: Browser) -> None:
    for _ in range(2):
        assert tess.give(grade_id(room), 0).status == 200
    assert [each.points for each in trail(room)] == [0]
    assert verdict(room).open_ends == []


REFUSED: dict[str, tuple[Any, Any]] = {
    "above": (2.5, None),
    "below": (-1, None),
    "not a number": (float("nan"), None),
    "without end": (float("inf"), None),
    "below without end": (float("-inf"), None),
    "extra credit above": (2, 1),
    "extra credit below": (0, -0.5),
    "extra credit that is no number": (1, float("nan")),
    "extra credit alone": (None, 0.5),
    "a word": ("full", None),
    "extra credit in words": (1, "one"),
    "a list": ([2], None),
}


@pytest.mark.parametrize("points", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("before", [None, 1.5])
def test_points_that_a_cell_can_not_have_are_refused_by_name_and_nothing_is_stored_and_the_page_goes_on(
    room: Room, tess: Browser, points: tuple[Any, Any], before: float | None
) -> None:
    grade = grade_id(room)
    if before is not None:
        assert tess.give(grade, before).status == 200
    rows, made, found = stored(room), len(trail(room)), q1(room)
    said = tess.give(grade, *points)
    assert said.status == 400, said
    assert "a, q1_answer" in said.reason, said
    assert stored(room) == rows and len(trail(room)) == made
    assert (q1(room).points, q1(room).needs_person) == (found.points, found.needs_person)
    assert tess.get(f"formgrader/api/grade/{grade}").data["manual_score"] == before
    assert tess.say(comment_id(room), "the session goes on").status == 200
    assert tess.give(grade, 1).status == 200 and q1(room).points == 1


def test_points_that_the_gradebook_could_not_take_are_not_stored_by_the_next_request(
    room: Room, tess: Browser, address: str
) -> None:
    ulf, grade, other = Browser(address), grade_id(room), grade_id(room, "plan_boundaries")
    with held(room):
        assert tess.give(grade, 2).status == 500
    assert ulf.give(other, 0.5).status == 200
    assert [(each.cell, each.points) for each in trail(room)] == [("plan_boundaries", 0.5)]
    assert stored(room)[0] is None and q1(room).needs_person
    assert tess.give(grade, 1).status == 200 and q1(room).points == 1


def test_points_are_typed_as_text_too(room: Room, tess: Browser) -> None:
    assert tess.give(grade_id(room), "1.5").status == 200, "as the formgrader's own boxes send them"
    assert q1(room).points == 1.5


def test_extra_credit_within_the_maximum_counts_with_the_points(room: Room, tess: Browser) -> None:
    assert tess.give(grade_id(room), 1, 0.5).status == 200
    assert (q1(room).points, verdict(room).total) == (1.5, 5.5)
    [made] = trail(room)
    assert made.points == 1.5


def test_extra_credit_on_a_tests_points_never_makes_more_than_the_cell_has(room: Room, tess: Browser) -> None:
    boundaries = grade_id(room, "plan_boundaries")
    assert tess.give(boundaries, None, 0.5).status == 400
    assert verdict(room).total == 4 and trail(room) == []
    assert tess.give(boundaries, 0.25, 0.5).status == 200
    assert verdict(room).cells["plan_boundaries"].points == 0.75


# --- comments -------------------------------------------------------------------------------------------------------


def test_a_comment_alone_is_kept_and_decides_nothing(room: Room, tess: Browser) -> None:
    assert tess.say(comment_id(room), "chain: 1, a good answer").status == 200
    assert q1(room).needs_person and verdict(room).chain("q1") == verdict(room).suggestions[Q1].chain
    assert q1(room).said == "chain: 1, a good answer"
    assert tess.give(grade_id(room), 0.5).status == 200
    assert verdict(room).chain("q1") == 1.0 and not q1(room).needs_person
    assert tess.say(comment_id(room), None).status == 200
    assert verdict(room).chain("q1") == 0.0 and q1(room).points == 0.5
    assert [(each.points, each.comment) for each in trail(room)] == [
        (None, "chain: 1, a good answer"),
        (0.5, "chain: 1, a good answer"),
        (0.5, ""),
    ]


def test_a_comment_on_a_full_answer_and_one_below_code_are_a_persons_words(room: Room, tess: Browser) -> None:
    assert tess.give(grade_id(room), MOST).status == 200
    assert tess.say(comment_id(room), "well told").status == 200
    assert tess.say(comment_id(room, "unified_token_plan"), "a short planner").status == 200
    found = verdict(room)
    assert (found.cells[Q1].said, found.cells["unified_token_plan"].said) == ("well told", "a short planner")
    assert found.total == 6


# --- people ---------------------------------------------------------------------------------------------------------


def test_two_people_are_told_apart_and_the_later_word_counts_with_both_in_the_trail(
    room: Room, tess: Browser, address: str
) -> None:
    ulf = Browser(address)
    assert tess.give(grade_id(room), 2).status == 200
    assert ulf.give(grade_id(room), 1).status == 200
    first, second = trail(room)
    assert (first.points, second.points) == (2, 1) and first.who != second.who and "" not in (first.who, second.who)
    assert q1(room).points == 1 and q1(room).decision is not None
    assert q1(room).decision.who == second.who  # type: ignore[union-attr]
    assert tess.give(grade_id(room), 2).status == 200
    assert trail(room)[2].who == first.who, "one browser is one person"


def test_a_page_with_a_text_that_has_changed_since_can_not_decide_about_the_new_one(room: Room, tess: Browser) -> None:
    old, old_comment = grade_id(room), comment_id(room)
    room.hand_in("a", room.solved(q1_answer="Another answer."))
    room.grade()
    assert tess.give(old, 2).status == 404 and tess.say(old_comment, "of the old page").status == 404
    assert trail(room) == [] and q1(room).needs_person and stored(room)[0] is None
    assert tess.give(grade_id(room), 1).status == 200 and q1(room).points == 1


def test_a_page_stays_good_while_the_text_does(room: Room, tess: Browser) -> None:
    old = grade_id(room)
    room.hand_in("a", room.solved(unified_token_plan="unified_token_plan = None"))
    room.grade()
    assert tess.give(old, 2).status == 200 and q1(room).points == 2


def test_a_text_that_comes_back_has_its_decision_and_its_words_again(room: Room, tess: Browser) -> None:
    tess.give(grade_id(room), 1.5)
    tess.say(comment_id(room), "of the first text")
    for text, points, said in (("Another answer.", None, ""), (ESSAY, 1.5, "of the first text")):
        room.hand_in("a", room.solved(q1_answer=text))
        room.grade()
        found = q1(room)
        assert (found.points if found.by_person else None, found.said) == (points, said)
        assert found.needs_person == (points is None)
    assert [each.points for each in trail(room)] == [1.5, 1.5], "nothing was added or taken away"


# --- past the formgrader --------------------------------------------------------------------------------------------


def write_past(room: Room, points: float, cell: str = Q1) -> None:
    with sqlite3.connect(room.root / "class" / "gradebook.db") as database:
        query = "update grade set manual_score = ?, needs_manual_grade = 0 where id = ?"
        assert database.execute(query, (points, grade_id(room, cell))).rowcount == 1


def test_points_written_past_the_formgrader_are_somebodys(room: Room) -> None:
    write_past(room, 1.5)
    assert q1(room).points == 1.5 and verdict(room).final
    [made] = trail(room)
    assert (made.who, made.points, made.cell) == (UNKNOWN, 1.5, Q1)
    verdict(room)
    assert len(trail(room)) == 1, "taken up once"
    room.grade(force=True)
    assert q1(room).points == 1.5 and len(trail(room)) == 1


@pytest.mark.parametrize("points", [2.5, -1.0, 99.0])
def test_points_written_past_the_formgrader_that_a_cell_can_not_have_are_never_final(room: Room, points: float) -> None:
    write_past(room, points)
    found = verdict(room)
    assert trail(room) == [] and not found.final and open_ends([found])
    assert 0 <= found.total <= 10 and found.cells[Q1].points != points
    room.grade(force=True)
    assert q1(room).needs_person and stored(room)[0] is None, "graded again, it waits for a person"


def test_a_tests_points_written_past_the_formgrader_are_somebodys_too(room: Room) -> None:
    write_past(room, 0.5, "plan_boundaries")
    assert verdict(room).total == 3.5 and [each.who for each in trail(room)] == [UNKNOWN]


# --- the rubric changes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("points", [0.5, 1.5, 2])
@pytest.mark.parametrize("again", [False, True], ids=["as it is", "graded again"])
def test_a_rubric_edit_changes_nothing_that_a_person_decided(
    room: Room, tess: Browser, monkeypatch: pytest.MonkeyPatch, points: float, again: bool
) -> None:
    tess.give(grade_id(room), points)
    before, made = verdict(room), trail(room)
    suggested = before.suggestions[Q1]
    assert before.final
    others = [(2.0, 1.0, ""), (points, 0.0, ""), (points, 1.0, ""), (0.0, 0.0, "peak_as_production"), (None, 0.5, "")]
    for number, (other, chain, veto) in enumerate(others):
        monkeypatch.setattr(submission, "grader", lambda number=number: f"grader {number}")
        monkeypatch.setattr("autograder.classroom.classroom.grader", lambda number=number: f"grader {number}")
        edited = replace(suggested, points=other, guess=other or 0.0, chain=chain, veto=veto, comment="edited")
        found = verdict(room)
        assert found.outdated and not found.final, "graded with another rubric: grade again"
        if again:
            regrade(room, monkeypatch, {Q1: vars(edited)})
            found = verdict(room)
            assert found.final and found.suggestions[Q1] == edited
        assert said(found) == said(before)
    assert [each.id for each in trail(room)] == [each.id for each in made]


def said(found: Verdict) -> Any:
    cells = {name: (cell.points, cell.needs_person, cell.said) for name, cell in found.cells.items()}
    chains = {question: found.chain(question) for question in ("q1", "q2", "q3")}
    return cells, chains, found.vetoes, found.total, found.passed, found.state, found.open_ends


def regrade(room: Room, monkeypatch: pytest.MonkeyPatch, suggestions: dict[str, Any]) -> None:
    """In this process, with other suggestions."""
    judged = submission._judged

    def other(*arguments: Any) -> tuple[GradedNotebook, list[Note]]:
        notebook, notes = judged(*arguments)
        return replace(notebook, suggestions=suggestions), notes

    with monkeypatch.context() as patch:
        patch.setattr(submission, "_judged", other)
        [task] = room.classroom.tasks(room.classroom.folders())
        assert not worker.row_of(task).reason


# --- the trail ------------------------------------------------------------------------------------------------------


def test_the_trail_is_only_ever_added_to(room: Room, tess: Browser) -> None:
    def rows() -> list[tuple[Any, ...]]:
        with sqlite3.connect(room.root / "class" / "gradebook.db") as database:
            return database.execute("select * from minivllm_decision order by id").fetchall()

    kept: list[tuple[Any, ...]] = []
    steps: tuple[Callable[[], object], ...] = (
        lambda: tess.give(grade_id(room), 1),
        lambda: tess.say(comment_id(room), "why"),
        lambda: tess.give(grade_id(room), None),
        lambda: room.grade(force=True),
        lambda: tess.give(grade_id(room), 2, 0),
        lambda: room.hand_in("a", room.solved(q1_answer="Another answer.")),
        lambda: room.grade(),
        lambda: tess.give(grade_id(room), 0.5),
        lambda: (room.folder("a") / f"{NOTEBOOK}.ipynb").write_text("{"),
        lambda: room.grade(),
        lambda: verdict(room),
        lambda: tess.give(grade_id(room), 99),
    )
    for number, step in enumerate(steps):
        step()
        now = rows()
        assert now[: len(kept)] == kept, f"step {number} changed what was there"
        kept = now
    assert len(kept) == 5


def test_every_change_of_points_in_nbgraders_rows_is_in_the_trail(room: Room, tess: Browser) -> None:
    cells = (Q1, "plan_examples", "plan_main_path", "plan_boundaries", "source_mapping_check")
    for cell in cells:
        assert tess.give(grade_id(room, cell), 0.25).status == 200
    assert sorted(each.cell for each in trail(room)) == sorted(cells)
    assert {cell: verdict(room).cells[cell].points for cell in cells} == dict.fromkeys(cells, 0.25)


def test_a_flag_of_the_formgrader_keeps_it_open_until_it_is_taken_back(room: Room, tess: Browser) -> None:
    tess.give(grade_id(room), 2)
    assert verdict(room).final
    for flagged in (True, False):
        assert tess.flag(notebook_id(room)).status == 200
        found = verdict(room)
        assert found.final is not flagged
        assert open_ends([found]) == ([f"a (flagged in the formgrader: {NOTEBOOK})"] if flagged else [])


def test_the_lessons_row_of_a_decision_is_its_own(room: Room, tess: Browser) -> None:
    tess.give(grade_id(room), 2)
    [made] = trail(room)
    assert (made.lesson, made.student, made.notebook) == (LESSON, "a", NOTEBOOK)
