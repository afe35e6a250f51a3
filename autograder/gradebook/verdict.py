"""What a student has reached: points of 10, and whether the lesson is passed.

Points are nbgrader's. Passed is who has 8 or more of 10 with
- the whole plan exercise right (all 3 points of its tests, visible and hidden),
- a chain of at least half in each of Q1, Q2 and Q3,
- the three findings confirmed by a person,
- no veto standing.

How a person's word is read from the formgrader. It wins over every suggestion:
- Chain: a comment with ``chain: 0``, ``chain: 0.5`` or ``chain: 1`` says it. Without one, a person who gave just the
  suggested points has let the suggested chain stand; one who gave others says "at least half" with more than 0.5.
- Veto: standing while nobody has read the answer, or if a person gave it 0 points and the suggestion names a veto.
- Findings: "Full credit" confirms them, "No credit" does not. (Their cell has no points: the first stores 0, the second
  0 and an extra credit of 0. A typed 0 confirms.) A comment with ``findings: yes`` or ``findings: no`` wins over both.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry

from autograder.classroom.classroom import Classroom
from autograder.classroom.submission import Record, fingerprint
from autograder.intake.notes import Note
from autograder.judging.points import PARTS, Part
from autograder.judging.suggestions import FINDINGS, Suggested

OF = 10.0
EXAMPLE = (": with ", ": for ", "not so: ")
"""Where in a test's sentence the student's own example begins."""
PASSING = 8.0
CHAIN = re.compile(r"\bchain\s*[:：]\s*(0\.5|0|1)", flags=re.IGNORECASE)
CONFIRMED = re.compile(r"\bfindings\s*[:：]\s*(yes|no)\b", flags=re.IGNORECASE)
QUESTIONS = ("q1", "q2", "q3")
PLAN = ("planner", "boundaries")
OUTDATED = "the files, tests or rubrics changed since it was graded: run `python -m autograder grade`"
NOTHING = "nothing was handed in"
KEPT = "the gradebook keeps the points of what was handed in before"


@dataclass(frozen=True)
class Cell:
    """A graded cell as the gradebook has it."""

    points: float
    of: float
    needs_person: bool
    manual: float | None = None
    refused: bool = False
    """Its "No credit" was pressed."""
    comment: str = ""
    """The person's, or the suggested one."""
    said: str = ""
    """The person's alone: a suggested comment quotes the student."""
    blank: bool = False
    """The student left it as it was released."""

    @property
    def reviewed(self) -> bool:
        return self.manual is not None and not self.needs_person


@dataclass
class Verdict:
    """One student's. `reason` says why there are no points, where nothing could be graded."""

    student: str
    edition: str = "en"
    cells: dict[str, Cell] = field(default_factory=dict)
    suggestions: dict[str, Suggested] = field(default_factory=dict)
    told: dict[str, list[str]] = field(default_factory=dict)
    """What the tests said about each cell, by grade id."""
    notes: tuple[Note, ...] = ()
    reason: str = ""
    folder: bool = True
    """Something lies in the student's folder below submitted/."""
    outdated: bool = False
    """The points are not those of what lies there now."""
    missing: frozenset[str] = frozenset()
    """The notebooks with graded cells that were not handed in or could not be read."""
    seconds_late: float = 0.0
    penalty: float = 0.0
    """For handing in late, if nbgrader is set up to take one."""

    def points(self, part: Part) -> float:
        return sum(self.cells[name].points for name in part.cells if name in self.cells)

    @cached_property
    def total(self) -> float:
        return max(0.0, sum(cell.points for cell in self.cells.values()) - self.penalty)

    @property
    def hours_late(self) -> float:
        """In tenths of an hour, rounded up."""
        return math.ceil(self.seconds_late / 360) / 10

    @property
    def fault(self) -> str:
        """Why the points are not those of what was handed in; empty if they are."""
        return self.reason or OUTDATED * self.outdated

    @property
    def final(self) -> bool:
        return not self.fault and not self.waits

    def provisional(self, part: Part) -> bool:
        """A person still has to read it."""
        return any(self.cells[name].needs_person for name in part.cells if name in self.cells)

    @property
    def waits(self) -> list[Part]:
        return [part for part in PARTS if self.provisional(part)]

    @property
    def conditions(self) -> dict[str, bool]:
        """What passing asks for, by name, and whether it holds as things stand."""
        plan = [part for part in PARTS if part.name in PLAN]
        chains = {f"chain_{name}": self.chain(name) >= 0.5 for name in QUESTIONS}
        return {
            "points": self.total >= PASSING,
            "plan": all(self.points(part) >= part.of for part in plan),
            **chains,
            "findings": self.confirmed,
            "veto": not self.vetoes,
        }

    def open(self, condition: str) -> bool:
        """Whether a person's word can still change it."""
        if condition == "points":
            most = self.total + sum(part.of - self.points(part) for part in self.waits)
            return bool(self.waits) and most >= PASSING
        asks = (
            PLAN if condition == "plan" else QUESTIONS if condition == "veto" else (condition.removeprefix("chain_"),)
        )
        return any(part.name in asks for part in self.waits)

    @property
    def state(self) -> str:
        """passed, not_passed, or open: not passed as things stand, and all that lacks is a person's word."""
        if self.passed:
            return "passed"
        lacking = [name for name, holds in self.conditions.items() if not holds]
        return "open" if all(map(self.open, lacking)) and not self.reason else "not_passed"

    @property
    def passed(self) -> bool:
        return all(self.conditions.values())

    def chain(self, question: str) -> float:
        """The label of the question's chain: 0, 0.5 or 1."""
        grade_id = f"{question}_answer"
        cell, suggested = self.cells.get(grade_id), self.suggestions.get(grade_id)
        if cell is None or cell.blank:
            return 0.0
        if cell.reviewed:
            said = CHAIN.search(cell.said)
            if said:
                return float(said[1])
            if suggested is None or cell.manual != suggested.points:
                return 0.5 if cell.points > 0.5 else 0.0
        return suggested.chain if suggested is not None else 0.0

    @property
    def vetoes(self) -> dict[str, str]:
        """The vetoes that stand, by question."""
        standing = {}
        for question in QUESTIONS:
            cell, suggested = self.cells.get(f"{question}_answer"), self.suggestions.get(f"{question}_answer")
            if cell and suggested and suggested.veto and not (cell.reviewed and cell.points > 0):
                standing[question] = suggested.veto
        return standing

    @property
    def confirmed(self) -> bool:
        cell = self.cells.get(FINDINGS)
        if cell is None or not cell.reviewed:
            return False
        said = CONFIRMED.search(cell.said)
        return said[1].lower() == "yes" if said else not cell.refused


def verdicts(room: Classroom) -> list[Verdict]:
    """Of everybody whom the gradebook knows or who handed something in, by name of the student."""
    with room.gradebook() as gradebook:
        folders = room.folders()
        names = {student.id for student in gradebook.students} | set(folders)
        return [_verdict(room, gradebook, name, folders.get(name)) for name in sorted(names)]


def _verdict(room: Classroom, gradebook: Gradebook, student: str, folder: Path | None) -> Verdict:
    shown = student.encode("utf-8", "backslashreplace").decode("utf-8")
    if shown != student or "/" in student:
        return Verdict(shown.replace("/", "|"), reason="the student's name is no name of a folder: rename it")
    record = Record.read(room.record_path(student))
    if record is None:
        reason = "what was handed in was not graded: run `python -m autograder grade`" if folder else NOTHING
        return Verdict(student, reason=reason, folder=folder is not None)
    verdict = Verdict(student, record.edition, notes=tuple(record.notes), reason=record.failed)
    verdict.folder = folder is not None
    verdict.outdated = folder is not None and record.fingerprint != fingerprint(folder, room.sources)
    verdict.missing = frozenset(part.notebook for part in PARTS) - record.notebooks.keys()
    for ran in record.notebooks.values():
        try:
            verdict.suggestions |= {name: Suggested(**data) for name, data in ran["suggestions"].items()}
        except (KeyError, TypeError):
            verdict.reason = "graded by another version of the grader: run `python -m autograder grade` again"
            return verdict
        verdict.told |= {name: list(_sentences(outputs)) for name, outputs in ran["outputs"].items()}
    try:
        submission = gradebook.find_submission(room.lesson, student)
    except MissingEntry:
        verdict.reason = verdict.reason or "not in the gradebook: run `python -m autograder grade` again"
        return verdict
    if record.failed:
        verdict.reason += f"; {KEPT}"
    for notebook in submission.notebooks:
        comments = {comment.name: comment for comment in notebook.comments}
        for grade in notebook.grades:
            comment = comments.get(grade.name)
            verdict.cells[grade.name] = Cell(
                grade.score,
                grade.max_score,
                grade.needs_manual_grade,
                grade.manual_score,
                grade.manual_score == 0 and grade.extra_credit == 0,
                (comment.comment or "") if comment else "",
                (comment.manual_comment or "") if comment else "",
                bool(comment and comment.auto_comment == "No response."),
            )
    verdict.seconds_late = submission.total_seconds_late
    verdict.penalty = submission.late_submission_penalty or 0.0
    return verdict


def _sentences(outputs: list[dict[str, str]]) -> Iterator[str]:
    """What the tests printed for the student, one sentence a line, or the error."""
    for output in outputs:
        for line in (output.get("text") or output.get("evalue") or "").splitlines():
            if line.strip():
                yield line.removeprefix("- ").strip()


def idea(sentence: str) -> str:
    """What a test's sentence says of any submission: the sentence without its example."""
    return min((sentence.partition(mark)[0] for mark in EXAMPLE), key=len).rstrip("; ")
