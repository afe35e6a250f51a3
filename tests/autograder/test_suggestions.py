"""Suggested points in the gradebook, a person's word over them, and the report that waits for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autograder.classroom import demo, demo_files
from autograder.classroom.classroom import Classroom, grade_class
from autograder.classroom.demo import create
from autograder.classroom.demo_files import LESSON
from autograder.classroom.workers import Workers
from autograder.gradebook.verdict import Verdict
from autograder.judging import suggestions
from autograder.judging.rubric.scorer import score
from autograder.judging.suggestions import FINDINGS, Suggested, language_of
from autograder.paths import CLONE
from autograder.reports import report

pytestmark = pytest.mark.requires_debian("bubblewrap")

STUDENTS: dict[str, Any] = {
    "all-read": {"edition": "en"},
    "王小明": {"edition": "zh"},
    "blank": {"edition": "zh", "answers": dict.fromkeys(["q1_answer", "q2_answer", "q3_answer", "findings"], "~")},
}


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Classroom:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINIVLLM_CLASSROOM", "")
        room = create(tmp_path_factory.mktemp("class"), STUDENTS)
        assert not [row.reason for row in grade_class(room, Workers(2)) if row.reason]
        return room


def autograder(room: Classroom, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MINIVLLM_CLASSROOM": str(room.root), **environ}
    command = [sys.executable, "-m", "autograder", *arguments]
    return subprocess.run(command, cwd=CLONE, env=environment, capture_output=True, text=True, check=False)


def verdict(room: Classroom, student: str) -> Verdict:
    [found] = [verdict for verdict in room.verdicts() if verdict.student == student]
    return found


def grade(room: Classroom, student: str, question: str) -> tuple[float | None, bool, str | None]:
    part = {"q1_answer": "1-budget-planner", "q2_answer": "2-prefix-match", "q3_answer": "4-preemption"}
    with room.gradebook() as gradebook:
        found = gradebook.find_grade(question, part[question], LESSON, student)
        comment = gradebook.find_comment(question, part[question], LESSON, student)
        return found.auto_score, found.needs_manual_grade, comment.auto_comment


@pytest.mark.parametrize(("student", "language"), [("all-read", "en"), ("王小明", "zh")])
def test_the_suggestion_is_in_the_gradebook_in_the_students_language_and_still_waits(
    room: Classroom, student: str, language: str
) -> None:
    for grade_id, question in suggestions.QUESTIONS.items():
        if question == FINDINGS:
            continue
        expected = score(question, demo.OWN_WORDS[language][grade_id])
        points, waits, comment = grade(room, student, grade_id)
        assert points == (None if expected.abstains else expected.points)
        assert waits and comment is not None and expected.comment(language).strip() in comment


@pytest.mark.parametrize(("student", "opening"), [("all-read", "Suggested: "), ("王小明", "建议：")])
def test_findings_have_a_comment_and_no_points_and_wait(room: Classroom, student: str, opening: str) -> None:
    with room.gradebook() as gradebook:
        found = gradebook.find_grade(FINDINGS, "5-on-the-gpu", LESSON, student)
        comment = gradebook.find_comment(FINDINGS, "5-on-the-gpu", LESSON, student).auto_comment
    assert (found.auto_score, found.needs_manual_grade) == (None, True)
    assert comment is not None and comment.startswith(opening)
    assert not verdict(room, student).confirmed


def test_an_answer_left_blank_has_its_zero_and_waits_for_nobody(room: Classroom) -> None:
    assert grade(room, "blank", "q1_answer") == (0, False, "No response.")
    assert verdict(room, "blank").waits == []


def test_a_suggestion_that_abstains_fills_in_no_points() -> None:
    unsure = Suggested.of("Q1", "the budget, perhaps, or the gap of what is known", "en")
    assert (unsure.points is None) == score("Q1", "the budget, perhaps, or the gap of what is known").abstains


def test_what_a_student_wrote_cannot_leave_the_comment_as_html() -> None:
    for text in ("<script>alert(1)</script> the budget is shared by all", "![x](http://e.example/x.png) 预算"):
        comment = Suggested.of("Q1", text, "en").comment
        assert "<script" not in comment.partition("```")[0] and "![" not in comment.partition("```")[0]


def test_a_notebook_tells_its_language() -> None:
    assert language_of(demo_files.answered("2-prefix-match", "en")) == "en"
    assert language_of(demo_files.answered("2-prefix-match", "zh")) == "zh"


def test_nothing_is_final_before_a_person_has_read_it_and_then_it_is_and_stays(room: Classroom) -> None:
    refused = autograder(room, "report", "--final")
    assert refused.returncode == 2
    assert "all-read (unread: q1, q2, q3, findings)" in refused.stderr and "王小明" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1

    points = {"q1_answer": 1.5, "q2_answer": 2, "q3_answer": 2, "findings": 0}
    demo.read_answers(
        room, {"all-read": {"read": points}, "王小明": {"read": {**points, "q1_answer": 0.5}}, "blank": {}}
    )
    assert not [row.reason for row in grade_class(room, Workers(2), force=True) if row.reason]

    final = autograder(room, "report", "--final")
    assert final.returncode == 0, final.stderr
    assert (verdict(room, "all-read").total, verdict(room, "all-read").passed) == (9.5, True)
    assert (verdict(room, "王小明").total, verdict(room, "王小明").passed) == (8.5, False)  # its chain in Q1
    out = room.root / "reports" / LESSON
    assert "Passed" in (out / "feedback" / "all-read" / "feedback.html").read_text(encoding="utf-8")
    assert "未通过" in (out / "feedback" / "王小明" / "feedback.html").read_text(encoding="utf-8")
    for secret in ("HIDDEN TESTS", "grade_main_path", "Traceback"):
        assert not any(secret in page.read_text(encoding="utf-8") for page in out.rglob("*.html"))


def test_a_report_is_one_page_without_anything_from_elsewhere(room: Classroom, tmp_path: Path) -> None:
    found = report.write(room, room.verdicts(), tmp_path)
    assert [v.student for v in found.verdicts] == sorted(STUDENTS)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page and "@import" not in page and "url(" not in page
    assert 'href="feedback/%E7%8E%8B%E5%B0%8F%E6%98%8E/feedback.html"' in page


def test_the_doctor_and_the_other_commands_answer_in_a_line(room: Classroom, tmp_path: Path) -> None:
    done = autograder(room, "doctor")
    assert done.returncode == 0, done.stdout
    assert f"ok gradebook    {room.root / 'gradebook.db'}: {LESSON}" in done.stdout.splitlines()
    bare = autograder(room, "doctor", PATH=str(tmp_path))  # no bubblewrap there
    assert bare.returncode == 1 and "-- sandbox" in bare.stdout and "apt-get install bubblewrap" in bare.stdout
    (tmp_path / "mine").write_text("x")
    for arguments, told in (
        (("demo", str(tmp_path)), "is not empty: name a new folder"),
        (("release", "fr"), "unknown edition 'fr': choose one of en, zh"),
        (("report", "lesson-9"), "lesson-9"),
    ):
        refused = autograder(room, *arguments)
        assert refused.returncode == 2 and told in refused.stderr and "Traceback" not in refused.stderr


def test_every_submission_of_the_demo_can_be_made(deep_path: Path) -> None:
    for student, does in demo.CLASS.items():
        demo.hand_in(deep_path / student, **{name: value for name, value in does.items() if name != "read"})
        assert any(deep_path.joinpath(student).iterdir())
