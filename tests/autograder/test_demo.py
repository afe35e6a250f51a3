"""`autograder demo`, as a newcomer runs it: one command, and every submission has its fair points for the code."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.classroom.demo import CLASS
from autograder.paths import CLONE

pytestmark = pytest.mark.requires_debian("bubblewrap")

CODE = {
    "good-en": (2, 1, 1),
    "good-zh": (2, 1, 1),
    "takes-the-whole-gap": (1.25, 1, 1),
    "no-chunks-zh": (1.25, 1, 1),
    "phases": (0, 0.25, 0.25),
    "half-done-zh": (2, 1, 1),
    "blank-en": (0, 0, 0),
    "copies-the-question": (2, 1, 1),
    "renamed": (2, 1, 1),
    "cells-deleted-zh": (2, 1, 1),
    "metadata-lost": (2, 1, 1),
    "truncated": (0, 0, 0),
    "a-link": (0, 0, 0),
    "ends-the-process": (0, 0, 1),
    "never-ends-zh": (0, 0, 1),
    "wants-the-answers": (0, 0, 1),
    "equals-everything": (0, 0, 1),
    "script-in-the-answer": (2, 1, 1),
}
"""Planner, boundaries, map to the source."""


def test_one_command_makes_a_class_grades_it_and_says_where_everything_lies(tmp_path: Path) -> None:
    root = tmp_path / "demo"
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
    feedback = (out / "feedback" / "renamed" / "feedback.html").read_text(encoding="utf-8")
    assert "1-budget-planner (1).ipynb" in feedback
