"""`autograder demo`, as a newcomer runs it: one command, and every submission has its fair points for the code."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.classroom.demo import CLASS
from autograder.gradebook.settling import open_notes
from autograder.gradebook.tables import reading
from autograder.paths import CLONE

pytestmark = pytest.mark.requires_debian("bubblewrap")

CODE = {
    **dict.fromkeys(CLASS, (2, 1, 1)),
    "takes-the-whole-gap": (1.25, 1, 1),
    "no-chunks-zh": (1.25, 1, 1),
    "phases": (0, 0.25, 0.25),
    "right-up-to-8192": (1.5, 1, 1),
    "every-owner-zh": (2, 1, 0.75),
    "only-a-script": (2, 1, 0),
    **dict.fromkeys(("blank-en", "truncated", "a-link"), (0, 0, 0)),
    **dict.fromkeys(("ends-the-process", "never-ends-zh", "wants-the-answers", "equals-everything"), (0, 0, 1)),
    "colon-missing": (0, 0, 1),
}
"""Planner, boundaries, map to the source."""
OPEN = {
    "a-link": "a link, which is not followed",
    "colon-missing": "is no Python (SyntaxError: expected ':')",
    "deep-folders": "lie too deep",
    "ends-the-process": "ended its process with exit status 0",
    "looks-at-others": "tried while it ran: glob.glob ../../*/lesson-2/*.ipynb",
    "never-ends-zh": "a call gave no answer",
    "script-in-the-answer": "pictures that can't be shown here",
    "spaces-in-an-answer": "only the first were read",
    "truncated": "broken off or damaged",
    "two-versions": "another answer than 1-budget-planner.ipynb",
    "wants-the-answers": "names the autograder",
}
"""Words of a note that waits for a person; about nobody else there is one."""
NOTHING_SUGGESTED = {"words-and-arrows": "q2", "lessons-own-words": "q1", "photo-of-an-answer": "q1"}
"""Answers that wait with no points suggested."""


def test_one_command_makes_a_class_grades_it_and_says_where_everything_lies(deep_path: Path) -> None:
    root = deep_path / "demo"
    command = [sys.executable, "-m", "autograder", "demo", str(root)]
    done = subprocess.run(command, cwd=CLONE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    out = root / "reports" / "lesson-2"
    with (out / "grades.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    code = {
        name: tuple(float(row[part]) for part in ("planner", "boundaries", "mapping")) for name, row in rows.items()
    }
    assert code == CODE and set(code) == set(CLASS)
    assert [name for name, row in rows.items() if row["reason"]] == ["truncated"]
    assert [name for name, row in rows.items() if row["passed"] == "yes"] == ["good-zh"]
    assert [name for name, row in rows.items() if row["edition"] == "zh"] == sorted(
        n for n in CLASS if n.endswith("-zh")
    )
    for place in (out / "report.html", out / "grades.csv", out / "feedback"):
        assert str(place) in done.stdout and place.exists()
    report = (out / "report.html").read_text(encoding="utf-8")
    assert "1-budget-planner.ipynb is a link" in report and "names the autograder" in report
    with reading(f"sqlite:///{root / 'gradebook.db'}") as session:
        notes = open_notes(session, "lesson-2")
    assert {note.student for note in notes} == set(OPEN)
    for student, words in OPEN.items():
        assert any(words in note.text for note in notes if note.student == student), student
    for student, question in NOTHING_SUGGESTED.items():
        assert rows[student][question] == "0" and question in rows[student]["waits"], student
    for student, words in (("another-machines-lines", "google.colab"), ("colon-missing", "expected &#39;:&#39;")):
        assert words in (out / "feedback" / student / "feedback.html").read_text(encoding="utf-8"), student
    feedback = (out / "feedback" / "renamed" / "feedback.html").read_text(encoding="utf-8")
    assert "1-budget-planner (1).ipynb" in feedback
