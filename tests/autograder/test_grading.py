"""`autograder grade` over a class: what is graded again, what survives, and that one submission costs itself alone."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nbformat.v4
import pytest
import typer
from sqlalchemy import event
from sqlalchemy.orm import Session

from autograder import cli
from autograder.classroom import classroom, submission, worker, workers
from autograder.classroom.classroom import ClassroomError, grade_class
from autograder.classroom.workers import Workers
from autograder.intake.intake import Taken
from autograder.paths import CLONE
from autograder.release.publish import enter_gradebook
from tests.autograder.classroom import LESSON, NOTEBOOK, cell
from tests.autograder.hostile.cases import FULL
from tests.autograder.room import Room

pytestmark = pytest.mark.requires_debian("bubblewrap")


def killed(*arguments: Any) -> None:
    """A worker out of memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def grades(room: Room, student: str) -> Any:
    with room.classroom.gradebook() as gradebook:
        grade = gradebook.find_grade("q1_answer", NOTEBOOK, LESSON, student)
        return grade.score, grade.needs_manual_grade


def review(room: Room, student: str, score: float) -> None:
    with room.classroom.gradebook() as gradebook:
        grade = gradebook.find_grade("q1_answer", NOTEBOOK, LESSON, student)
        grade.manual_score, grade.needs_manual_grade = score, False
        gradebook.find_comment("q1_answer", NOTEBOOK, LESSON, student).manual_comment = "a chain, well told"
        gradebook.db.commit()


def shown_comment(room: Room, student: str) -> str:
    with room.classroom.gradebook() as gradebook:
        return str(gradebook.find_comment("q1_answer", NOTEBOOK, LESSON, student).comment)


def test_only_what_changed_is_graded_again_unless_forced(room: Room) -> None:
    for student in ("a", "b"):
        room.hand_in(student, room.solved())
    assert {row.student: row.unchanged for row in room.grade().values()} == {"a": False, "b": False}
    room.hand_in("b", room.solved(unified_token_plan="unified_token_plan = None"))
    rows = room.grade()
    assert {student: (row.points, row.unchanged) for student, row in rows.items()} == {"a": (4, True), "b": (1, False)}
    assert not any(row.unchanged for row in room.grade(force=True).values())
    assert room.points("a") == FULL


def test_points_given_by_hand_survive_and_stay_final_while_the_answer_stays(room: Room) -> None:
    room.hand_in("a", room.solved())
    room.grade()
    assert grades(room, "a") == (0.0, True)
    review(room, "a", 1.5)
    room.grade(force=True)
    assert grades(room, "a") == (1.5, False)
    room.hand_in("a", room.solved(q1_answer="Another answer."))
    room.grade()
    assert grades(room, "a") == (0.0, True), "the points were for another text"
    assert re.search(r"gave 1.5 to another text of this answer, \d{4}-", shown_comment(room, "a"))
    room.hand_in("a", room.solved())
    room.grade()
    assert grades(room, "a") == (1.5, False), "the old text is back, and so are its points"
    assert shown_comment(room, "a") == "a chain, well told"


def test_without_the_lessons_folder_notebooks_beside_it_are_found_or_the_row_says_what_lies_there(room: Room) -> None:
    notebook = room.hand_in("flat", room.solved())
    shutil.move(notebook, room.submitted / "flat")
    notebook.parent.rmdir()
    room.hand_in("wrong-lesson", room.solved())
    room.folder("wrong-lesson").rename(room.submitted / "wrong-lesson" / "lesson2")
    for name in ("empty", "zipped", ".git"):
        (room.submitted / name).mkdir()
    (room.submitted / "zipped" / "work.zip").write_bytes(b"PK")
    (room.submitted / "notes.txt").touch()
    rows = room.grade()
    reasons = {student: row.reason for student, row in rows.items()}
    assert set(reasons) == {"flat", "wrong-lesson", "empty", "zipped"}
    assert (rows["flat"].points, rows["wrong-lesson"].points) == (4, 4)
    assert reasons["empty"] == "no notebook was handed in" and "work.zip is an archive" in reasons["zipped"]
    assert {verdict.student: verdict.reason for verdict in room.classroom.verdicts()} == reasons
    (room.submitted / "wrong-lesson" / "lesson2").rename(room.folder("wrong-lesson"))
    again = room.grade()["wrong-lesson"]
    assert (again.points, again.unchanged) == (4, False), "another place is another submission"


def test_only_the_named_students_are_graded_and_an_unknown_name_is_told(room: Room) -> None:
    for student in ("a", "b"):
        room.hand_in(student, room.solved())
    assert set(room.grade(only=["a"])) == {"a"}
    assert {student: row.unchanged for student, row in room.grade().items()} == {"a": True, "b": False}
    assert not room.grade(force=True, only=["b"])["b"].unchanged
    with pytest.raises(ClassroomError, match=r"unknown student 'c': .*/submitted holds a, b$"):
        room.grade(only=["c"])


def test_an_interrupted_run_is_taken_up_where_it_stopped(room: Room) -> None:
    for student in "abcd":
        room.hand_in(student, room.solved())
    rows = grade_class(room.classroom, Workers(1))
    first = next(rows)
    rows.close()  # as Ctrl-C does
    again = room.grade()
    assert again[first.student].unchanged
    assert [row.points for row in again.values()] == [4, 4, 4, 4]


def test_a_new_version_of_the_tests_is_released_first_and_grades_everything_again(room: Room) -> None:
    room.hand_in("a", room.solved())
    room.grade()
    path = room.classroom.sources / f"{NOTEBOOK}.ipynb"
    before = path.read_text(encoding="utf-8")
    try:
        path.write_text(before.replace("keep the four keys", "keep all four keys"), encoding="utf-8")
        with pytest.raises(ClassroomError, match="release"):
            room.classroom.check_release()
        enter_gradebook(room.config, LESSON)
        room.classroom.check_release()
        assert not room.grade()["a"].unchanged
    finally:
        path.write_text(before, encoding="utf-8")
        enter_gradebook(room.config, LESSON)


def test_a_graded_notebook_that_is_gone_is_made_anew(room: Room) -> None:
    room.hand_in("a", room.solved())
    room.grade()
    shutil.rmtree(room.classroom.book.autograded("a"))
    row = room.grade()["a"]
    assert (row.points, row.unchanged) == (4, False) and room.told("a")


def test_a_worker_that_never_ends_costs_its_own_submission(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "SUBMISSION_SECONDS", 4.0)
    os.mkfifo(room.folder("stuck") / "unused")
    slow = "import time\nwhile True:\n    time.sleep(1)\n"
    room.hand_in("stuck", room.solved(unified_token_plan=slow))
    room.hand_in("good", room.solved())
    started = time.monotonic()
    rows = room.grade()
    assert time.monotonic() - started < 30
    assert "took longer than 4 s" in rows["stuck"].reason
    assert rows["good"].points == 4
    room.hand_in("good", room.solved())
    again = room.grade()
    assert again["good"].unchanged and not again["stuck"].unchanged, "what ended for want of time is tried again"


def test_a_worker_that_the_machine_killed_is_tried_again_at_the_next_run(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.hand_in("a", room.solved())
    monkeypatch.setattr(workers, "work", killed)
    assert "ended with exit code -9" in room.grade()["a"].reason
    monkeypatch.setattr(workers, "work", worker.work)
    row = room.grade()["a"]
    assert (row.points, row.unchanged, row.reason) == (4, False, "")


def test_a_fault_of_intake_costs_its_own_submission(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> Taken:
        raise RuntimeError("no idea")

    room.hand_in("a", room.solved())
    monkeypatch.setattr(submission, "intake", broken)
    [task] = room.classroom.tasks(room.classroom.folders())
    row = worker.row_of(task)
    assert row.points is None and "could not be taken in (RuntimeError: no idea)" in row.reason


def test_every_row_of_a_parallel_run_reaches_the_gradebook(room: Room) -> None:
    students = [f"s{number:02d}" for number in range(8)]
    for student in students:
        room.hand_in(student, room.solved())
    rows = room.grade(jobs=4)
    assert {student: row.points for student, row in rows.items()} == dict.fromkeys(students, 4)


def test_practice_cells_are_never_run(room: Room) -> None:
    notebook = room.solved()
    for each in notebook.cells:
        if (
            each.cell_type == "code"
            and "nbgrader" not in each.metadata
            and "setup" not in each.metadata.get("tags", ())
        ):
            each.source = "raise SystemExit('a practice cell ran')\nunified_token_plan = None"
    room.hand_in("a", notebook)
    assert room.grade()["a"].points == 4


def test_looking_for_the_answers_is_flagged_with_the_line_wherever_it_stands(room: Room) -> None:
    notebook = room.solved()
    own = nbformat.v4.new_code_cell("x = 1\nimport autograder.judging.reference")  # type: ignore[no-untyped-call]
    notebook.cells.append(own)
    room.hand_in("a", notebook)
    row = room.grade()["a"]
    assert row.points == 4, "it is for a person, not a deduction"
    place = f"cell {len(notebook.cells)}"
    assert ("flagged", place, 2) in [(note.kind, note.cell, note.line) for note in row.notes]


def test_the_hidden_tests_are_not_in_feedback(room: Room) -> None:
    from nbgrader.apps import NbGraderAPI

    wrong = "def unified_token_plan(requests, token_budget):\n    # ### BEGIN HIDDEN TESTS\n    return {}, token_budget"
    room.hand_in("a", room.solved(unified_token_plan=wrong))
    room.grade()
    autograded = room.root / "class" / "autograded" / "a" / LESSON / f"{NOTEBOOK}.ipynb"
    assert "grade_main_path" in autograded.read_text(encoding="utf-8"), "the instructor sees them"
    done = NbGraderAPI(config=room.config).generate_feedback(LESSON, "a")
    assert done["success"], done
    page = (room.root / "class" / "feedback" / "a" / LESSON / f"{NOTEBOOK}.html").read_text(encoding="utf-8")
    assert "unified_token_plan returned" in page
    for secret in ("grade_main_path", "END HIDDEN TESTS", "autograder", "Traceback (most", str(CLONE)):
        assert secret not in page


def test_the_command_prints_a_row_as_each_submission_is_done(
    room: Room, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(classroom, "clone_config", lambda: room.config)
    room.hand_in("王小明", room.solved())
    room.hand_in("cheats", room.solved(unified_token_plan="import autograder.judging.reference"))
    room.folder("absent")
    with pytest.raises(typer.Exit) as ended:
        cli.grade(LESSON)
    assert ended.value.exit_code == 1, "not all are graded"
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "4/10" in rows["王小明"] or "4/6" in rows["王小明"]
    assert "line 1: " in rows["cheats"] and "names the autograder" in rows["cheats"]
    assert "no notebook was handed in" in rows["absent"]
    assert "2 graded, 0 unchanged, 1 not graded" in " ".join(rows.values())
    with pytest.raises(typer.Exit):
        cli.grade(LESSON)
    assert "0 graded, 2 unchanged, 1 not graded" in capsys.readouterr().out
    shutil.rmtree(room.submitted / "absent")
    cli.grade(LESSON)
    assert "0 graded, 2 unchanged, 0 not graded" in capsys.readouterr().out


def test_what_can_not_be_graded_any_more_has_no_points_and_says_so_until_it_can_again(room: Room) -> None:
    path = room.hand_in("a", room.solved())
    room.grade()
    review(room, "a", 1.5)
    path.write_text("{")
    row = room.grade()["a"]
    assert row.points is None and "the points of what was handed in before count no more" in row.reason
    assert room.points("a") == (0, 0, 0, 0) and grades(room, "a") == (0.0, False)
    room.hand_in("a", room.solved())
    room.grade()
    assert room.points("a") == FULL and grades(room, "a") == (1.5, False)


def test_told_to_do_without_a_sandbox_it_grades(room: Room, tmp_path: Path) -> None:
    """In another process, for whether there is a sandbox is found out once."""
    room.hand_in("a", room.solved())
    code = (
        "from pathlib import Path\nfrom autograder import cli\nfrom autograder.classroom import classroom\nfrom tests.autograder.room import opened\n"
        f"room = opened(Path({str(room.root)!r}))\nclassroom.clone_config = lambda: room.config\n"
        "if __name__ == '__main__':\n    cli.grade('lesson-2', no_sandbox=True)\n"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    environment = {**os.environ, "PATH": str(tmp_path), "PYTHONPATH": str(CLONE)}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "4/6" in done.stdout, done


def test_nbgraders_own_autograde_refuses_too(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    from nbgrader.apps import NbGraderAPI

    from autograder.gradebook import preprocessors
    from autograder.running import sandbox

    monkeypatch.setattr(preprocessors, "sandbox", lambda: sandbox.Sandbox((), False, "no bubblewrap (not installed)"))
    room.hand_in("a", room.solved())
    done = NbGraderAPI(config=room.config).autograde(LESSON, "a", create=True)
    assert not done["success"]
    told = f"{done.get('error', '')} {done.get('log', '')}"
    assert "no bubblewrap" in told and "apt-get install bubblewrap" in told


def test_the_released_notebook_ends_in_a_row_of_zeros(room: Room) -> None:
    room.hand_in("a", room.released())
    row = room.grade()["a"]
    assert (row.points, row.unread, row.reason) == (0, False, "")
    assert cell(room.released(), "unified_token_plan").source.count("______") == 2


def test_a_commit_that_fails_leaves_the_graded_notebook_as_it_was(room: Room) -> None:
    """The formgrader must not show a text that the points beside it are not about."""

    def full(session: Session) -> None:
        failed.append(session)
        raise OSError(errno.ENOSPC, "No space left on device")

    failed: list[Session] = []
    room.hand_in("a", room.solved(q1_answer="The first text."))
    [task] = room.classroom.tasks({"a": room.folder("a")})
    assert not worker.row_of(task).reason
    room.hand_in("a", room.solved(q1_answer="The second text."))
    event.listen(Session, "before_commit", full)
    try:
        assert "No space left on device" in worker.row_of(task).reason and failed
    finally:
        event.remove(Session, "before_commit", full)
    place = room.classroom.book.autograded("a")
    assert "The first text." in (place / f"{NOTEBOOK}.ipynb").read_text(encoding="utf-8")
    assert [path.name for path in place.parent.iterdir()] == [LESSON]
    assert not worker.row_of(task).reason
    assert "The second text." in (place / f"{NOTEBOOK}.ipynb").read_text(encoding="utf-8")
