"""Guess first, then let the engine answer: `predict(name, value)` keeps a guess, `settle(name)` runs minivllm.core."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from minivllm.lesson.allocate_slots import questions as allocate_slots
from minivllm.lesson.budget_planner import questions as budget_planner
from minivllm.lesson.common.errors import LessonError
from minivllm.lesson.common.question import Answer, Question
from minivllm.lesson.common.table import Table, show
from minivllm.lesson.on_the_gpu import questions as on_the_gpu
from minivllm.lesson.outcome import Blank
from minivllm.lesson.preemption import questions as preemption
from minivllm.lesson.prefix_match import questions as prefix_match
from minivllm.lesson.start_here import questions as start_here

_NOTEBOOKS = (start_here, budget_planner, prefix_match, allocate_slots, preemption, on_the_gpu)
QUESTIONS: dict[str, Question] = {question.name: question for notebook in _NOTEBOOKS for question in notebook.QUESTIONS}
"""Every question of the course by name."""


@dataclass(frozen=True)
class Settlement:
    """A guess beside the engine's answer."""

    question: Question
    guess: Mapping[str, int | str]
    answer: Answer

    @property
    def table(self) -> Table:
        rows = [
            (name, self.guess[name], actual, "same" if self.guess[name] == actual else "differs", self.answer.why[name])
            for name, actual in self.answer.actual.items()
        ]
        columns = ("object", "expected (you)", "actual (engine)", "verdict", "why")
        return Table(columns, rows, title=self.question.asks)

    def __repr__(self) -> str:
        return "\n\n".join([repr(self.table), *map(repr, self.answer.steps)])

    def _repr_html_(self) -> str:
        return self.table._repr_html_() + "".join(step._repr_html_() for step in self.answer.steps)


_guesses: dict[str, dict[str, int | str]] = {}


def predict(name: str, value: Any) -> None:
    """Keep `value` as the guess for the question `name`; a blank in it asks the question instead.

    Raises:
        LessonError: no question has this name, or the guess has the wrong shape; the message says what is wanted.
    """
    question = _question(name)
    if _has_blank(value):
        _guesses.pop(name, None)
        show(question.request)
        return
    _guesses[name] = question.parse(value)
    show(f'Kept {value!r}. settle("{name}") lets the engine answer.')


def settle(name: str) -> None:
    """Run the engine and show its answer beside the guess; without a guess, ask for one and reveal nothing.

    Raises:
        LessonError: no question has this name.
    """
    question = _question(name)
    if name not in _guesses:
        show(question.request)
        return
    show(Settlement(question, _guesses[name], question.answer()))


def _question(name: str) -> Question:
    if name not in QUESTIONS:
        near = get_close_matches(str(name), QUESTIONS, n=3, cutoff=0.5)
        raise LessonError(
            f"there is no question {name!r}; "
            + (f"did you mean {' or '.join(map(repr, near))}?" if near else "copy the name from its predict(…) cell")
        )
    return QUESTIONS[name]


def _has_blank(value: Any) -> bool:
    if isinstance(value, Blank):
        return True
    if isinstance(value, dict):
        return any(map(_has_blank, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_blank, value))
