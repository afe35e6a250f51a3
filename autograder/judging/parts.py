"""An exercise's points, one part an idea: a part's check says what is wrong in one sentence or says nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from minivllm.lesson.outcome import Call

MAX_MESSAGE = 1_000  # characters


class Lost(Exception):
    """The part's points are lost; the text is the sentence for the student."""


class Interrupted(Lost):
    """The student's code was interrupted: no further part is tried."""


@dataclass(frozen=True)
class Part:
    """One idea, its points, and a check that raises `Lost`."""

    name: str
    points: float
    check: Callable[[Call], None]


@dataclass
class Report:
    """The points of each part and the sentences for the lost ones, each sentence once."""

    parts: dict[str, float] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    @property
    def points(self) -> float:
        return sum(self.parts.values())

    def add_message(self, message: str) -> None:
        line = " ".join(message.split()).encode("utf-8", "backslashreplace").decode("utf-8")  # it quotes student code
        line = line if len(line) <= MAX_MESSAGE else f"{line[: MAX_MESSAGE - 3]}..."
        if line not in self.messages:
            self.messages.append(line)


def grade(parts: Sequence[Part], call: Call) -> Report:
    report = Report({part.name: 0.0 for part in parts})
    for part in parts:
        try:
            part.check(call)
        except Lost as lost:
            report.add_message(str(lost))
            if isinstance(lost, Interrupted):
                break
        else:
            report.parts[part.name] = part.points
    return report


def grade_cell(parts: Sequence[Part], call: Call) -> float:
    """For a test cell: print the sentences and return the points, which nbgrader takes as the cell's partial credit."""
    report = grade(parts, call)
    for message in report.messages:
        print(f"- {message}")
    return report.points
