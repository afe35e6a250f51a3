"""What a student has reached: points of 10, and whether the lesson is passed.

Points are those of the `State`, and people's decisions. Passed is who has 8 or more of 10 with
- the whole plan exercise right (all 3 points of its tests, visible and hidden),
- a chain of at least half in each of Q1, Q2 and Q3,
- the three findings confirmed by a person,
- no veto standing.

Final is a verdict if its points are those of what lies there now, graded with the present grader and the released
lesson; if everything that a person reads has a decision; and if no note, flag or disagreement with nbgrader's own rows
is open.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from autograder.gradebook.settling import OpenNote
from autograder.gradebook.tables import Decision, Settlement
from autograder.intake.notes import Note
from autograder.judging.points import PARTS, Part
from autograder.judging.suggestions import FINDINGS, Suggested

OF = 10.0
EXAMPLE = (": with ", ": for ", "not so: ")
"""Where in a test's sentence the student's own example begins."""
PASSING = 8.0
QUESTIONS = ("q1", "q2", "q3")
PLAN = ("planner", "boundaries")
UNGRADED = "what was handed in was not graded: run `python -m autograder grade`"
OUTDATED = "the files, tests or rubrics changed since it was graded: run `python -m autograder grade`"
UNSEEN = "what was handed in could not be looked through: run `python -m autograder grade`"
GONE = "what was graded is no longer there: put it back below submitted/, or begin a new term"
DIFFERS = "the gradebook's rows were changed by another tool: run `python -m autograder grade --force --student {}`"
NOTHING = "nothing was handed in"
MAX_TOLD = 100  # characters of an open note


@dataclass(frozen=True)
class Cell:
    """A graded cell: its points as things stand, and what a person has decided about it.

    Attributes:
        needs_person: a person gives its points, and has not yet.
        comment: for the student: the person's, or what they confirmed, or, while nobody has read it, the suggestion's.
        blank: the student left it as it was released.
    """

    points: float
    of: float
    needs_person: bool = False
    decision: Decision | None = None
    comment: str = ""
    blank: bool = False

    @property
    def said(self) -> str:
        """A person's own words."""
        return self.decision.comment if self.decision else ""

    @property
    def by_person(self) -> bool:
        return self.decision is not None and self.decision.points is not None


@dataclass
class Verdict:
    """One student's. `reason` says why there are no points, where nothing could be graded.

    Attributes:
        folder: something lies in the student's folder below submitted/.
        outdated: why the points are not those of what lies there now; empty if they are.
        open_notes: what a person still has to settle; `notes` are all, with who settled them.
        missing: the notebooks with graded cells that were not handed in or could not be read.
    """

    student: str
    edition: str = "en"
    cells: dict[str, Cell] = field(default_factory=dict)
    suggestions: dict[str, Suggested] = field(default_factory=dict)
    told: dict[str, list[str]] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    open_notes: tuple[OpenNote, ...] = ()
    settled: Mapping[str, Settlement] = field(default_factory=dict)
    """By the key of the note."""
    flagged: tuple[str, ...] = ()
    """Notebooks with a flag that somebody has set in the formgrader."""
    left_open: bool = False
    """`report --final --without` leaves the row open, whatever else holds."""
    reason: str = ""
    folder: bool = True
    outdated: str = ""
    missing: frozenset[str] = frozenset()
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
        """Why the points are not those of what was handed in; empty if they are.

        Of files that nobody can grade they are none, once a person has settled every note about them.
        """
        return self.outdated or ("" if self.settled and not self.open_notes else self.reason)

    @property
    def final(self) -> bool:
        return not (self.fault or self.open_ends or self.left_open)

    @property
    def ungraded(self) -> str:
        """Why there are no points, unless a person has settled that these are the points."""
        return "" if self.final else self.reason

    def note_state(self, note: Note) -> str:
        """ "open ID", "settled by WHO", or nothing where a note needs nobody."""
        if note.key in self.settled:
            return f"settled by {self.settled[note.key].who}"
        return next((f"open {each.id}" for each in self.open_notes if each.note.key == note.key), "")

    @property
    def open_ends(self) -> list[str]:
        """What a person still has to do, in short."""
        ends = [f"unread: {', '.join(part.name for part in self.waits)}"] if self.waits else []
        ends += [f"open note {note.id}: {note.text[:MAX_TOLD]}" for note in self.open_notes]
        return ends + [f"flagged in the formgrader: {notebook}" for notebook in self.flagged]

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
        return "open" if all(map(self.open, lacking)) and not self.reason and self.folder else "not_passed"

    @property
    def passed(self) -> bool:
        return self.folder and all(self.conditions.values())  # who handed in nothing this term has not passed it

    def chain(self, question: str) -> float:
        """The label of the question's chain: 0, 0.5 or 1."""
        grade_id = f"{question}_answer"
        cell, suggested = self.cells.get(grade_id), self.suggestions.get(grade_id)
        if cell is None or cell.blank:
            return 0.0
        if cell.decision is not None and cell.decision.chain is not None:
            return cell.decision.chain
        return suggested.chain if suggested is not None else 0.0

    @property
    def vetoes(self) -> dict[str, str]:
        """The vetoes that stand, by question."""
        standing: dict[str, str] = {}
        for question in QUESTIONS:
            cell, suggested = self.cells.get(f"{question}_answer"), self.suggestions.get(f"{question}_answer")
            if cell is None or cell.blank:
                continue
            veto = cell.decision.veto if cell.by_person and cell.decision else suggested.veto if suggested else ""
            standing |= {question: veto} if veto else {}
        return standing

    @property
    def confirmed(self) -> bool:
        cell = self.cells.get(FINDINGS)
        return bool(cell and not cell.blank and cell.decision and cell.decision.confirmed)


def idea(sentence: str) -> str:
    """What a test's sentence says of any submission: the sentence without its example."""
    return min((sentence.partition(mark)[0] for mark in EXAMPLE), key=len).rstrip("; ")
