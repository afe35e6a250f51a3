"""The class as a table for the registrar: CSV, one row a student, and a text that explains the columns."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from autograder.gradebook.verdict import QUESTIONS, Verdict
from autograder.judging.points import PARTS

FORMULA = tuple("=+-@\t\r\n＝＋－＠")
PARTS_WITH_POINTS = [part for part in PARTS if part.of]
COLUMNS = {
    "student": "nbgrader's student id: the name of the folder below submitted/",
    "edition": "en or zh: the edition that most of the submission is in",
    "passed": "yes or no, as things stand; what passing asks for is in autograder/gradebook/verdict.py",
    "final": "yes if what was handed in is graded and nothing waits for a person, else no: all may still change",
    "total": "points of 10, less the penalty",
    "late": "hours after nbgrader's due date; 0 if in time, or if no due date or no time of handing in is known",
    "penalty": "points that nbgrader took for lateness; 0 unless it is set up to take some",
    **{part.name: f"points of {part.of:g} for the part" for part in PARTS_WITH_POINTS},
    "plan": "yes if every visible and hidden test of the planner passes",
    **{f"chain_{name}": f"0, 0.5 or 1: how much of the chain the answer to {name.upper()} has" for name in QUESTIONS},
    "findings": "yes if a person has confirmed the three findings",
    "veto": "the vetoes that stand, as QUESTION NAME; empty if none",
    "waits": "the parts that a person still has to read",
    "reason": "why the points are not those of what was handed in, where that is so",
}


def write_csv(path: Path, verdicts: Iterable[Verdict]) -> None:
    """Also writes the explanation of the columns, beside `path`."""
    with path.open("w", encoding="utf-8-sig", newline="") as file:  # the mark lets Excel read Chinese
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(COLUMNS)
        writer.writerows([inert(value) for value in _row(verdict).values()] for verdict in verdicts)
    explained = "\n".join(f"{name:<12} {meaning}" for name, meaning in COLUMNS.items())
    path.with_name(f"{path.stem}-columns.txt").write_text(f"{explained}\n", encoding="utf-8")


def inert(value: str) -> str:
    """A cell that no spreadsheet takes for a formula: one that begins like one is quoted with an apostrophe."""
    return f"'{value}" if value.lstrip(" \u00a0").startswith(FORMULA) else value


def _row(verdict: Verdict) -> dict[str, str]:
    cells = {
        "student": verdict.student,
        "edition": verdict.edition,
        "passed": _word(verdict.passed),
        "final": _word(verdict.final),
        "total": f"{verdict.total:g}",
        "late": f"{verdict.hours_late:g}",
        "penalty": f"{verdict.penalty:g}",
        **{part.name: f"{verdict.points(part):g}" for part in PARTS_WITH_POINTS},
        "plan": _word(verdict.conditions["plan"]),
        **{f"chain_{name}": f"{verdict.chain(name):g}" for name in QUESTIONS},
        "findings": _word(verdict.confirmed),
        "veto": "; ".join(f"{question.upper()} {name}" for question, name in verdict.vetoes.items()),
        "waits": ", ".join(part.name for part in verdict.waits),
        "reason": verdict.reason or verdict.fault,
    }
    return {name: cells[name] for name in COLUMNS}


def _word(holds: bool) -> str:
    return "yes" if holds else "no"
