"""`autograder report --final` gives out points of what was handed in, all of it graded and read; and what lateness cost."""

from __future__ import annotations

import copy
import csv
import datetime
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder import commands
from autograder.classroom import classroom
from autograder.classroom.classroom import Classroom, grade_class
from autograder.classroom.workers import Workers
from minivllm.cli import UsageError
from tests.autograder.classroom import LESSON, NOTEBOOK
from tests.autograder.room import Room

pytestmark = pytest.mark.requires_debian("bubblewrap")


@pytest.fixture
def room(template: Room, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    """A class in which "good" and "other" are graded and read."""
    monkeypatch.setattr(classroom, "clone_config", lambda: template.config)
    template.empty()
    for student in ("good", "other"):
        template.hand_in(student, template.solved())
    template.grade()
    read_all(template)
    yield template
    due(template, None)


def due(room: Room, date: datetime.datetime | None) -> None:
    with room.classroom.gradebook() as gradebook:
        gradebook.find_assignment(LESSON).duedate = date
        gradebook.db.commit()


def read_all(room: Room) -> None:
    with room.classroom.gradebook() as gradebook:
        for submission in gradebook.assignment_submissions(LESSON):
            grade = gradebook.find_grade("q1_answer", NOTEBOOK, LESSON, submission.student.id)
            grade.manual_score, grade.needs_manual_grade = 2.0, False
        gradebook.db.commit()


def final(room: Room, tmp_path: Path, *without: str) -> dict[str, dict[str, str]]:
    commands.report(LESSON, final=True, without=list(without), out=tmp_path / "out")
    with (tmp_path / "out" / "grades.csv").open(encoding="utf-8-sig", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def test_final_points_are_given_out_once_all_is_graded_and_read(room: Room, tmp_path: Path) -> None:
    rows = final(room, tmp_path)
    assert {name: (row["total"], row["final"]) for name, row in rows.items()} == {
        "good": ("6", "yes"),
        "other": ("6", "yes"),
    }


def test_final_refuses_while_somebody_new_is_not_graded(room: Room, tmp_path: Path) -> None:
    room.hand_in("new", room.solved())
    with pytest.raises(UsageError, match=r"new \(what was handed in was not graded.*Remedy: run .*--without STUDENT"):
        final(room, tmp_path)
    assert not (tmp_path / "out").exists()


def test_final_refuses_while_files_changed_since_they_were_graded(room: Room, tmp_path: Path) -> None:
    room.hand_in("other", room.solved(unified_token_plan="unified_token_plan = None"))
    with pytest.raises(UsageError, match=r"1 of 2 students .*other \(the files, tests or rubrics changed"):
        final(room, tmp_path)
    assert (row := final(room, tmp_path, "other")["other"])["final"] == "no" and "changed" in row["reason"]


def test_final_refuses_what_could_not_be_graded_and_no_points_of_an_earlier_state_stand_in_its_row(
    room: Room, tmp_path: Path
) -> None:
    (room.folder("other") / f"{NOTEBOOK}.ipynb").rename(room.folder("other") / "work.zip")
    room.folder("empty")
    room.grade()
    with pytest.raises(UsageError, match=r"empty \(no notebook was handed in\); other \(work.zip is an archive"):
        final(room, tmp_path)
    rows = final(room, tmp_path, "other", "empty")
    assert {name: (row["total"], row["final"]) for name, row in rows.items()} == {
        "empty": ("0", "no"),
        "good": ("6", "yes"),
        "other": ("0", "no"),
    }
    assert "work.zip is an archive" in rows["other"]["reason"]


def test_who_never_handed_in_does_not_keep_the_others_waiting(room: Room, tmp_path: Path) -> None:
    with room.classroom.gradebook() as gradebook:
        gradebook.add_student("absent")
    assert final(room, tmp_path)["absent"]["reason"] == "nothing was handed in"


def test_a_name_that_nobody_has_can_not_be_left_out(room: Room, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--without othre: .*check the name"):
        final(room, tmp_path, "othre")


def test_lateness_and_what_nbgrader_took_for_it_are_in_the_table_and_on_the_pages(
    room: Room, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    due(room, datetime.datetime(2026, 5, 1, 12))
    (room.folder("other") / "timestamp.txt").write_text("2026-05-02 14:00:00 UTC\n")
    room.grade()
    read_all(room)
    row = final(room, tmp_path)["other"]
    assert (row["total"], row["late"], row["penalty"]) == ("6", "26", "0"), "the course takes nothing itself"
    config = copy.deepcopy(room.config)
    config.LateSubmissionPlugin.penalty_method = "zero"
    list(grade_class(Classroom(LESSON, config), Workers(2), force=True))
    read_all(room)
    rows = final(room, tmp_path)
    assert [(rows[name]["total"], rows[name]["late"], rows[name]["penalty"]) for name in ("good", "other")] == [
        ("6", "0", "0"),
        ("0", "26", "6"),
    ]
    assert "penalty" in capsys.readouterr().out
    assert '<th class="n">penalty</th>' in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    [other] = [verdict for verdict in room.classroom.verdicts() if verdict.student == "other"]
    assert other.missing == {"2-prefix-match", "4-preemption", "5-on-the-gpu"}, "this class has the first notebook"


def test_feedback_tells_a_student_that_the_planner_imports_what_is_not_there(room: Room, tmp_path: Path) -> None:
    room.hand_in("other", room.solved(unified_token_plan="import pandas\nunified_token_plan = pandas.cut"))
    assert room.grade()["other"].points == 3
    commands.report(LESSON, out=tmp_path / "out")
    page = (tmp_path / "out" / "feedback" / "other" / "feedback.html").read_text(encoding="utf-8")
    reason, follows = "No module named &#39;pandas&#39;", "unified_token_plan is not there: its definition did not run"
    hint = "only the packages that the course itself uses"
    assert page.index(reason) < page.index(hint) < page.index(follows)
    assert page.count("This notebook was not handed in or could not be read.") == 3, "Q2, Q3 and the findings"
