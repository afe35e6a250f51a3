"""Submissions that misbehave, with the outcome that is fair: code.txt, and those whose files do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.autograder.room import Room

FULL = (0.25, 1.75, 1.0, 1.0)
WRONG = "wrong"
WRONG_ANSWER = "def unified_token_plan(requests, token_budget):\n    return {}, token_budget\n"


@dataclass(frozen=True)
class Case:
    name: str
    body: str
    points: tuple[float, ...] | None
    """None: the same as the honest wrong answer gets."""
    says: str
    flagged: str

    @property
    def student(self) -> str:
        return re.sub(r"\W+", "-", self.name)


def code_cases() -> list[Case]:
    _, *sections = re.split(r"^=== ", Path(__file__).with_name("code.txt").read_text("utf-8"), flags=re.MULTILINE)
    return [_case(*section.split("\n", 1)) for section in sections]


def _case(head: str, body: str) -> Case:
    name, points, says, flagged = (*map(str.strip, head.split("|")), "", "")[:4]
    parsed = None if points == WRONG else FULL if points == "full" else tuple(map(float, points.split()))
    return Case(name, body, parsed, says, flagged)


def hand_in(room: Room, case: Case) -> None:
    answers = room.answers()
    blank = next(
        c.source
        for c in room.released().cells
        if c.metadata.get("nbgrader", {}).get("grade_id") == "unified_token_plan"
    )
    lines = {"@answer\n": answers["unified_token_plan"] + "\n", "@wrong\n": WRONG_ANSWER, "@blank\n": blank + "\n"}
    body, _, mapping = case.body.partition("@mapping\n")
    for line, source in lines.items():
        body = body.replace(line, source)
    room.hand_in(
        case.student, room.solved(unified_token_plan=body, source_mapping=mapping or answers["source_mapping"])
    )
