"""How the tests of ``unified_token_plan`` ask, and what they say: misconception, object, expected, actual, why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from autograder.parts import Interrupted, Lost
from autograder.reference.beliefs import BELIEFS
from autograder.reference.unified_token_plan import Plan, Request, unified_token_plan
from minivllm.lesson.outcome import Call, Opaque, Outcome, Raised

NAME = "unified_token_plan"
Case = tuple[Sequence[Request], int]
"""Requests and a token budget."""


def ask(call: Call, requests: Sequence[Request], budget: int, then: tuple[Any, ...] | None = None) -> Outcome:
    outcome = call(NAME, list(requests), budget, then=then)
    lost = outcome.error and _no_function(outcome.error)
    if lost:
        raise lost
    return outcome


def value_of(outcome: Outcome, requests: Sequence[Request], budget: int) -> Any:
    """What came back for valid input: a plan and a number, or Lost. `result` alone tells 4 from 4.0."""
    expected = unified_token_plan(requests, budget)
    if outcome.error is not None:
        refused = "valid input was refused" if outcome.error.is_a("ValueError") else f"{NAME} stopped with an error"
        told = f"expected {shorten(expected)}, got {outcome.error}"
        raise Lost(f"{refused}: with {words(requests, budget)} {told}; nothing here is invalid")
    fault = _fault_of_shape(outcome.value)
    if fault:
        told = f"expected {shorten(expected)}, got {shorten(outcome.value)}"
        raise Lost(f"{fault}: with {words(requests, budget)} {told}; a caller unpacks plan, left = {NAME}(...)")
    return outcome.value


def check_cases(
    call: Call,
    cases: Iterable[Case],
    likely: Sequence[str],
    why: str,
    default: str = "the plan is wrong",
    agree: Callable[[Any, Plan], bool] | None = None,
) -> None:
    """Every case must come out as in the answer. The misconception that explains all that came back is named."""
    agree = agree or same
    asked = [(requests, budget, value_of(ask(call, requests, budget), requests, budget)) for requests, budget in cases]
    for requests, budget, actual in asked:
        expected = unified_token_plan(requests, budget)
        if not agree(actual, expected):
            belief = belief_behind(asked, likely, default)
            raise Lost(f"{belief}: with {words(requests, budget)} {difference(expected, actual)}; {why}")


def belief_behind(asked: Sequence[tuple[Sequence[Request], int, Any]], likely: Sequence[str], default: str) -> str:
    """The first misconception that predicts every answer; the likely ones of a part are tried first."""
    for name in [*likely, *BELIEFS]:
        belief = BELIEFS[name]
        if all(same(actual, belief.plan(requests, budget)) for requests, budget, actual in asked):
            return belief.sentence
    return default


def expect_value_error(call: Call, case: Case, subject: str, why: str) -> None:
    requests, budget = case
    outcome = ask(call, requests, budget)
    if outcome.error is None:
        raise Lost(
            f"{subject} was accepted: with {words(*case)} expected ValueError, got {shorten(outcome.value)}; {why}"
        )
    if not outcome.error.is_a("ValueError"):
        raise Lost(
            f"{subject} raised another error: with {words(*case)} expected ValueError, got {outcome.error}; {why}"
        )


# --- comparing ----------------------------------------------------------------------------------------------------


def same(actual: Any, expected: Plan) -> bool:
    """Equal values; a list for the tuple and 4.0 for 4 are let pass."""
    return (actual[0], actual[1]) == expected


def same_sizes(actual: Any, expected: Plan) -> bool:
    """The same sizes of shares and the same rest, whoever gets them."""
    return (sorted(actual[0].values()), actual[1]) == (sorted(expected[0].values()), expected[1])


def _fault_of_shape(value: Any) -> str | None:
    match value:
        case None:
            return "nothing was returned (a print is no return)"
        case dict():
            return "the plan came back alone, without the budget left"
        case int() | float():
            return "a number came back alone, without the plan"
        case (int() | float(), dict()):
            return "the result is in the wrong order (left, plan)"
        case (dict() as plan, left):
            numbers = {**plan, "the budget left": left}
            wrong = next((owner for owner, number in numbers.items() if not isinstance(number, int | float)), None)
            return None if wrong is None else f"a number is of type {kind(numbers[wrong])}, not int ({wrong})"
        case (plan, _):
            return f"the plan is of type {kind(plan)}, not dict"
    return f"the result is of type {kind(value)}, not a tuple of a dict and an int"


def kind(value: Any) -> str:
    return value.type_name if isinstance(value, Opaque) else type(value).__name__


# --- words --------------------------------------------------------------------------------------------------------


def words(requests: Sequence[Request], budget: int) -> str:
    if len(requests) > 4:
        return f"{len(requests)} requests, budget {budget}"
    listed = ", ".join(f"{r['id']} {r['status']} {r['computed']}→{r['total_with_spec']}" for r in requests)
    return f"requests [{listed}], budget {budget}"


def difference(expected: Plan, actual: Any) -> str:
    """Both results, or the first request on which two long plans differ."""
    if len(expected[0]) <= 4:
        return f"expected {expected}, got {shorten(actual)}"
    for id in [*expected[0], *actual[0]]:
        if expected[0].get(id) != actual[0].get(id):
            return f"expected {expected[0].get(id, 'nothing')} for {id}, got {actual[0].get(id, 'nothing')}"
    return f"expected {expected[1]} left, got {actual[1]}"


def shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def _no_function(raised: Raised) -> Lost | None:
    """Errors that say nothing about an idea: there is no working function to ask."""
    if raised.is_a("KeyboardInterrupt"):
        return Interrupted(
            f"{NAME} was interrupted: expected an answer at once, got none; look for a loop that never ends"
        )
    if raised.is_a("minivllm.lesson.outcome.NotDefined"):
        return Lost(f"{NAME} is not defined: expected a function of that name, found none; keep the exercise's name")
    if raised.is_a("minivllm.lesson.outcome.BlankError"):
        return Lost(f"{NAME}: {raised.message}")
    if raised.is_a("NameError") and "'______'" in raised.message:
        return Lost(f"{NAME}: the blank ______ is not filled in: replace every ______ by your own expression")
    if raised.is_a("autograder.trusted.NoAnswer"):
        return Lost(f"{NAME} gave no answer: {raised.message}")
    if raised.is_a("TypeError") and raised.message.startswith(f"{NAME}()") and "argument" in raised.message:
        return Lost(f"{NAME} can't be called as (requests, token_budget): expected these two parameters, got {raised}")
    return None
