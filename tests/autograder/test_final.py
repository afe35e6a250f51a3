"""What keeps a class from being final: each by name, until somebody has settled it."""

from __future__ import annotations

import csv
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat.v4
import pytest
from nbgrader.apps import NbGraderAPI
from sqlalchemy import delete, select

from autograder import commands, trail
from autograder.classroom import classroom
from autograder.gradebook.tables import State, transaction
from autograder.gradebook.verdict import DIFFERS, GONE, NOTHING, Verdict
from minivllm.cli import UsageError
from tests.autograder.classroom import LESSON, NOTEBOOK, cell, write
from tests.autograder.room import Room
from tests.autograder.test_killed import WRONG
from tests.autograder.test_verdict import verdict as with_all_points

pytestmark = [pytest.mark.requires_debian("bubblewrap"), pytest.mark.usefixtures("here")]


@pytest.fixture
def room(template: Room, here: None, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setattr(classroom, "clone_config", lambda: template.config)
    template.empty()
    template.hand_in("good", template.solved())
    return template


def read_all(room: Room) -> None:
    with room.classroom.gradebook() as gradebook:
        for submission in gradebook.assignment_submissions(LESSON):
            grade = gradebook.find_grade("q1_answer", NOTEBOOK, LESSON, submission.student.id)
            grade.manual_score, grade.needs_manual_grade = 2.0, False
        gradebook.db.commit()


def verdict(room: Room, student: str) -> Verdict:
    [found] = [found for found in room.classroom.verdicts() if found.student == student]
    return found


def final(room: Room, tmp_path: Path) -> dict[str, dict[str, str]]:
    commands.report(LESSON, final=True, out=tmp_path / "out")
    return table(tmp_path)


def table(tmp_path: Path) -> dict[str, dict[str, str]]:
    with (tmp_path / "out" / "grades.csv").open(encoding="utf-8-sig", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def test_a_notebook_that_was_graded_and_is_gone_is_asked_about_until_somebody_settles_it(
    room: Room, tmp_path: Path
) -> None:
    room.grade()
    read_all(room)
    with transaction(room.classroom.book.db_url) as session:
        [state] = session.scalars(select(State))
        state.notebooks = {**state.notebooks, "2-prefix-match": {"cells": {}, "suggestions": {}}}
    for _ in range(2):  # it is not forgotten when it is graded once more
        room.grade(force=True)
        [note] = verdict(room, "good").open_notes
        assert note.text.startswith("2-prefix-match: 2-prefix-match.ipynb was handed in before and is not there")
        with pytest.raises(UsageError, match=f"open note {note.id}"):
            final(room, tmp_path)
    trail.settle([note.id], "handed in on paper", LESSON)
    assert final(room, tmp_path)["good"]["final"] == "yes"


@pytest.mark.parametrize("command", [trail.notes, trail.decisions])
def test_a_misspelt_lesson_or_student_is_named(room: Room, command: Callable[..., None]) -> None:
    with pytest.raises(UsageError, match=r"has no lesson-9: run"):
        command("lesson-9")
    with pytest.raises(UsageError, match="--student goood: the gradebook knows nobody of that name"):
        command(LESSON, student="goood")


# --- last term ------------------------------------------------------------------------------------------------------


def test_who_is_left_from_last_term_is_neither_final_nor_passed(room: Room, tmp_path: Path) -> None:
    room.hand_in("last-term", room.solved())
    room.grade()
    read_all(room)
    assert {name: row["final"] for name, row in final(room, tmp_path).items()} == {"good": "yes", "last-term": "yes"}
    shutil.rmtree(room.submitted / "last-term")
    with pytest.raises(UsageError, match=rf"1 of 2 students .*last-term \({re.escape(GONE)}"):
        final(room, tmp_path)
    commands.report(LESSON, out=tmp_path / "out")
    row = table(tmp_path)["last-term"]
    assert (row["passed"], row["final"], row["reason"]) == ("no", "no", GONE)
    with transaction(room.classroom.book.db_url) as session:
        session.execute(delete(State).where(State.student == "last-term"))  # nbgrader's own rows are left alone
    row = final(room, tmp_path)["last-term"]
    assert (row["passed"], row["final"], row["total"], row["reason"]) == ("no", "no", "0", NOTHING)


def test_all_points_of_files_that_are_gone_pass_nobody() -> None:
    good = with_all_points()
    assert good.passed
    good.outdated, good.folder = GONE, False
    assert (good.passed, good.final, good.state) == (False, False, "not_passed")


# --- notes ----------------------------------------------------------------------------------------------------------


def another_file(room: Room) -> str:
    write(room.folder("odd") / f"{NOTEBOOK} (1).ipynb", room.solved(unified_token_plan=WRONG))
    return "has another answer than"


def a_notebook_that_is_refused(room: Room) -> str:
    (room.folder("odd") / "2-prefix-match.ipynb").write_text("{")
    return "2-prefix-match.ipynb is no notebook"


def a_notebook_of_no_lesson(room: Room) -> str:
    (room.folder("odd") / "3-else.ipynb").write_text(
        '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    )
    return "3-else.ipynb is none of the lesson's notebooks"


def an_archive(room: Room) -> str:
    (room.folder("odd") / "rest.zip").write_bytes(b"PK")
    return "rest.zip is an archive"


def looking_for_answers(room: Room) -> str:
    room.hand_in("odd", room.solved(unified_token_plan="import autograder\n" + room.answers()["unified_token_plan"]))
    return "names the autograder"


def a_time_that_is_none(room: Room) -> str:
    (room.folder("odd") / "timestamp.txt").write_text("yesterday")
    return "says no time"


ODD: tuple[Callable[[Room], str], ...] = (
    another_file,
    a_notebook_that_is_refused,
    a_notebook_of_no_lesson,
    an_archive,
    looking_for_answers,
    a_time_that_is_none,
)


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd.__name__)
def test_what_a_person_should_look_at_keeps_it_open_by_name_until_it_is_settled(
    room: Room, tmp_path: Path, odd: Callable[[Room], str], capsys: pytest.CaptureFixture[str]
) -> None:
    room.hand_in("odd", room.solved())
    says = odd(room)
    room.grade()
    read_all(room)
    with pytest.raises(UsageError) as refused:
        final(room, tmp_path)
    assert re.search(rf"1 of 2 students .*odd \(.*open note [0-9a-f]{{8}}: .*{re.escape(says)}", str(refused.value))
    assert "good" not in str(refused.value)
    trail.notes(LESSON)
    ids = [line.split()[0] for line in capsys.readouterr().out.splitlines() if " odd " in line]
    assert ids and all(each in str(refused.value) for each in ids[:1])
    for number, each in enumerate(ids):
        with pytest.raises(UsageError):
            final(room, tmp_path)
        trail.settle([each], f"looked at, {number}", LESSON)
    assert final(room, tmp_path)["odd"]["final"] == "yes"
    room.grade(force=True)
    assert verdict(room, "odd").final, "settled notes stay settled"


def test_a_note_with_other_words_is_open_again(room: Room, tmp_path: Path) -> None:
    room.hand_in("odd", room.solved())
    another_file(room)
    room.grade()
    read_all(room)
    trail.settle([note.id for note in verdict(room, "odd").open_notes], "the first is right", LESSON)
    assert verdict(room, "odd").final
    write(room.folder("odd") / f"{NOTEBOOK} (1).ipynb", room.solved(unified_token_plan=WRONG + "# again\n"))
    room.grade()
    found = verdict(room, "odd")
    assert found.open_notes and not found.final


def test_nothing_that_could_be_graded_is_final_only_once_its_notes_are_settled(room: Room, tmp_path: Path) -> None:
    (room.folder("odd") / f"{NOTEBOOK}.ipynb").write_text("{")
    room.grade()
    read_all(room)
    with pytest.raises(UsageError, match=r"odd \(1-budget-planner.ipynb is no notebook"):
        final(room, tmp_path)
    trail.settle([note.id for note in verdict(room, "odd").open_notes], "the student was asked", LESSON)
    row = final(room, tmp_path)["odd"]
    assert (row["total"], row["passed"], row["final"]) == ("0", "no", "yes")


def test_nothing_that_could_be_graded_any_more_has_no_points_anywhere_once_it_is_final(
    room: Room, tmp_path: Path
) -> None:
    room.hand_in("odd", room.solved())
    room.grade()
    read_all(room)
    (room.folder("odd") / f"{NOTEBOOK}.ipynb").write_text("{")
    room.grade()
    trail.settle([note.id for note in verdict(room, "odd").open_notes], "the student was asked", LESSON)
    found = verdict(room, "odd")
    assert found.final
    with room.classroom.gradebook() as gradebook:
        assert gradebook.find_submission(LESSON, "odd").score == found.total == 0


# --- nbgrader's own tools -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "auto_score = 1 where name_of = 'plan_main_path'",
        "auto_score = 0.25 where name_of = 'plan_boundaries'",
        "manual_score = null where name_of = 'q1_answer'",
        "extra_credit = 1 where name_of = 'q1_answer'",
    ],
)
def test_points_that_another_tool_changed_are_noticed_and_graded_again(room: Room, tmp_path: Path, change: str) -> None:
    room.grade()
    read_all(room)
    assert verdict(room, "good").final
    what, _, name = change.partition(" where name_of = ")
    with sqlite3.connect(room.root / "class" / "gradebook.db") as database:
        of_cell = "select id from base_cell where name = " + name
        changed = database.execute(f"update grade set {what} where cell_id in ({of_cell})")
        assert changed.rowcount == 1
    with pytest.raises(UsageError, match=rf"good \({re.escape(DIFFERS.format('good'))}"):
        final(room, tmp_path)
    room.grade(force=True, only=["good"])
    assert verdict(room, "good").final and verdict(room, "good").total == 6


def test_nbgraders_own_autograde_with_other_points_is_noticed(room: Room, tmp_path: Path) -> None:
    """nbgrader looks at no cell of the student's own."""
    needs = 'need = request["total_with_spec"] - request["computed"]'
    notebook = room.solved()
    answer = cell(notebook, "unified_token_plan")
    answer.source = answer.source.replace(needs, "need = own_need(request)")
    own = nbformat.v4.new_code_cell(f"def own_need(request):\n    {needs}\n    return need")  # type: ignore[no-untyped-call]
    notebook.cells.insert(notebook.cells.index(answer), own)
    room.hand_in("good", notebook)
    room.grade()
    read_all(room)
    assert verdict(room, "good").total == 6
    done = NbGraderAPI(config=room.config).autograde(LESSON, "good", force=True)
    with room.classroom.gradebook() as gradebook:
        theirs: Any = gradebook.find_submission(LESSON, "good").score
    assert theirs != 6, done
    found = verdict(room, "good")
    assert not found.final and found.outdated.startswith(DIFFERS.partition("{")[0])
    room.grade(force=True)
    assert verdict(room, "good").final and verdict(room, "good").total == 6
