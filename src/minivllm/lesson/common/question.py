"""A question that the engine answers, and its answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minivllm.lesson.common.errors import LessonError
from minivllm.lesson.common.watch import Step


@dataclass(frozen=True)
class Answer:
    """What the engine did: a value and the rule behind it for each object, and the steps to look at."""

    actual: Mapping[str, int | str]
    why: Mapping[str, str]
    steps: Sequence[Step] = ()


def yes_or_no(holds: bool) -> str:
    """An object's value where a question has these two choices."""
    return "yes" if holds else "no"


@dataclass(frozen=True)
class Question:
    """One thing to predict.

    Attributes:
        name: what `predict` and `settle` are given.
        asks: one sentence that ends in a question mark.
        objects: what the guess is about; a guess holds one value for each.
        answer: runs the engine.
        ordered: the guess is a list in the order of `objects`, otherwise a dict.
        choices: the texts among which a guess chooses; without any it is a whole number from 0.
    """

    name: str
    asks: str
    objects: tuple[str, ...]
    answer: Callable[[], Answer] = field(repr=False)
    ordered: bool = False
    choices: tuple[str, ...] = ()

    @property
    def wanted(self) -> str:
        if self.ordered:
            return f"[{', '.join('…' for _ in self.objects)}]"
        return "{" + ", ".join(f'"{name}": …' for name in self.objects) + "}"

    @property
    def request(self) -> str:
        """The sentence that asks for a guess."""
        choose = f" ({self._allowed})" if self.choices else ""
        return f'{self.asks} Guess first: predict("{self.name}", {self.wanted}){choose}'

    @property
    def _allowed(self) -> str:
        return f"one of {', '.join(map(repr, self.choices))}" if self.choices else "a whole number from 0"

    def _allows(self, value: Any) -> bool:
        return value in self.choices if self.choices else type(value) is int and value >= 0

    def parse(self, value: Any) -> dict[str, int | str]:
        """The guess by object.

        Raises:
            LessonError: `value` has another shape, or holds something that is not one of `choices` (without any: not a
                whole number from 0).
        """
        guess = value
        if self.ordered and isinstance(value, list | tuple) and len(value) == len(self.objects):
            guess = dict(zip(self.objects, value, strict=True))
        if not isinstance(guess, dict) or set(guess) != set(self.objects):
            raise LessonError(f'predict("{self.name}", …) wants {self.wanted}, not {value!r}')
        wrong = next((name for name in self.objects if not self._allows(guess[name])), None)
        if wrong is not None:
            raise LessonError(f'predict("{self.name}", …) wants {self._allowed} for {wrong}, not {guess[wrong]!r}')
        return {name: guess[name] for name in self.objects}
