"""How the tests of ``unified_token_plan`` ask, and what they say: misconception, object, expected, actual, why."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from autograder.judging.parts import Interrupted, Lost
from autograder.judging.reference import findings
from autograder.judging.reference.findings import Answer, same
from autograder.judging.reference.unified_token_plan import Plan, Request, unified_token_plan
from minivllm.lesson.encoding import ForeignFloat, ForeignInt, Opaque
from minivllm.lesson.outcome import NOT_A_FUNCTION, Call, Outcome, Raised

NAME = "unified_token_plan"
Case = tuple[Sequence[Request], int]
"""Requests and a token budget."""


class NoAnswer(Lost):
    """The function did not come to an end, or took its process along."""


def ask(call: Call, requests: Any, budget: int, **more: tuple[Any, ...]) -> Outcome:
    outcome = call(NAME, requests, budget, **more)
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
    fault = _fault_of_shape(outcome.value, requests)
    if fault:
        told = f"expected {shorten(expected)}, got {shorten(outcome.value)}"
        raise Lost(f"{fault}: with {words(requests, budget)} {told}; a caller unpacks plan, left = {NAME}(...)")
    return outcome.value


def check_cases(
    call: Call,
    cases: Iterable[Case],
    likely: Sequence[str] = (),
    agree: Callable[[Any, Plan], bool] = same,
) -> None:
    """Every case must come out as in the answer; else Lost says what is behind the shortest one that does not."""
    asked = [(requests, budget, value_of(ask(call, requests, budget), requests, budget)) for requests, budget in cases]
    wrong = [answer for answer in asked if not agree(answer[2], unified_token_plan(*answer[:2]))]
    if wrong:
        raise wrong_plan(call, asked, min(wrong, key=lambda answer: len(answer[0])), likely)


def wrong_plan(call: Call, asked: Sequence[Answer], wrong: Answer, likely: Sequence[str] = ()) -> Lost:
    def planner(requests: Sequence[Request], budget: int) -> Any:
        outcome = ask(call, list(requests), budget)
        return None if outcome.error or _fault_of_shape(outcome.value, requests) else outcome.value

    requests, budget, actual = wrong
    sentence, why = findings.behind(planner, asked, wrong, likely)
    expected = unified_token_plan(requests, budget)
    id = first_difference(expected, actual)
    return Lost(f"{sentence}: with {words(requests, budget, id)} {difference(expected, actual, id)}; {why}")


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


def identical(value: Any, other: Any) -> bool:
    """Equal, and of the same plain types throughout: 7 is not 7.0, and False is not 0."""
    if type(value) is not type(other):
        return False
    if isinstance(value, dict):
        return value.keys() == other.keys() and all(identical(value[key], other[key]) for key in value)
    if isinstance(value, list | tuple):
        return len(value) == len(other) and all(map(identical, value, other))
    return bool(value == other)


def same_sizes(actual: Any, expected: Plan) -> bool:
    """The same sizes of shares and the same rest, whoever gets them."""
    return (sorted(actual[0].values()), actual[1]) == (sorted(expected[0].values()), expected[1])


def _fault_of_shape(value: Any, requests: Sequence[Request]) -> str | None:
    ids = {r["id"] for r in requests}
    match value:
        case None:
            return "nothing was returned (a print is no return)"
        case dict() if value.keys() <= ids:
            return "the plan came back alone, without the budget left"
        case int() | float():
            return "a number came back alone, without the plan"
        case (int() | float(), dict()):
            return "the result is in the wrong order (left, plan)"
        case (dict() as plan, left):
            numbers = {**plan, "the budget left": left}
            wrong = next((owner for owner, number in numbers.items() if not isinstance(number, int | float)), None)
            return None if wrong is None else f"a number is of type {kind(numbers[wrong])}, not int ({wrong!s:.60})"
        case (plan, _):
            return f"the plan is of type {kind(plan)}, not dict"
        case tuple() | list():
            return f"the result is a {kind(value)} of {len(value)}, not a tuple of 2 (the plan and the budget left)"
    return f"the result is of type {kind(value)}, not a tuple of a dict and an int"


def kind(value: Any) -> str:
    return value.type_name if isinstance(value, Opaque | ForeignInt | ForeignFloat) else type(value).__name__


# --- words --------------------------------------------------------------------------------------------------------


SHOWN = 8


def words(requests: Sequence[Request], budget: int, id: Any = None) -> str:
    """The call, so that it can be repeated; of a long list the first requests and the one named `id`."""
    shown = [r for place, r in enumerate(requests) if len(requests) <= SHOWN or place < 4 or r["id"] == id]
    listed = [f"{r['id']} {_status(r['status'])} {r['computed']}→{r['total_with_spec']}" for r in shown]
    if len(shown) < len(requests):
        listed.append(f"and {len(requests) - len(shown)} more, {len(requests)} in all")
    return f"requests [{', '.join(listed)}], budget {budget}"


def _status(status: str) -> str:
    return status if re.fullmatch(r"\w+", status) else repr(status)


def first_difference(expected: Plan, actual: Any) -> Any:
    """The id of the first request on which two plans differ, or None."""
    return next((id for id in [*expected[0], *actual[0]] if expected[0].get(id) != actual[0].get(id)), None)


def difference(expected: Plan, actual: Any, id: Any = None) -> str:
    """Both results, or the shares of `id` where the plans are long."""
    if len(expected[0]) <= 4:
        return f"expected {expected}, got {shorten(actual)}"
    if id is None:
        return f"expected {expected[1]} left, got {shorten(actual[1])}"
    got = shorten(actual[0][id]) if id in actual[0] else "nothing"
    return f"expected {expected[0].get(id, 'nothing')} for {id!s:.60}, got {got}"


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
    if raised.is_a(NOT_A_FUNCTION):
        return Lost(f"{NAME} is no function: expected one, but {raised.message}; use another name for other things")
    if raised.is_a("minivllm.lesson.outcome.BlankError"):
        return Lost(f"{NAME}: {raised.message}")
    if raised.is_a("NameError") and "'______'" in raised.message:
        return Lost(f"{NAME}: the blank ______ is not filled in: replace every ______ by your own expression")
    if raised.is_a("TypeError") and "ellipsis" in raised.message:
        return Lost(f"{NAME}: a blank is not filled in: replace every ... by your own expression ({raised})")
    if raised.is_a("autograder.running.trusted.NoAnswer"):
        return NoAnswer(f"{NAME} gave no answer: {raised.message}")
    if raised.is_a("TypeError") and raised.message.startswith(f"{NAME}()") and "argument" in raised.message:
        return Lost(f"{NAME} can't be called as (requests, token_budget): expected these two parameters, got {raised}")
    return None
