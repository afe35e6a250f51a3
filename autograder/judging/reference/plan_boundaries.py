"""Hidden tests of the planner's boundaries: no gap, no budget, bad input, no traces. Each function raises `Lost`."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

from autograder.judging.parts import Lost
from autograder.judging.reference import plan_sizes
from autograder.judging.reference.asking import (
    Case,
    ask,
    check_cases,
    difference,
    expect_value_error,
    identical,
    shorten,
    value_of,
    words,
)
from autograder.judging.reference.findings import same
from autograder.judging.reference.plan_requests import BOTH, OTHERS, Requests, need, random_requests, req
from autograder.judging.reference.unified_token_plan import Request, unified_token_plan
from minivllm.lesson.outcome import Call


def no_gap(call: Call) -> None:
    """Equal counters cost nothing, are not in the plan and stop nobody."""
    rng = random.Random(31)
    lists: list[Requests] = [
        [req("A", "running", 10, 10), req("B", "running", 6, 10), req("C", "waiting", 0, 7)],
        [req("A", "running", 6, 10), req("B", "waiting", 7, 7), req("C", "waiting", 0, 7)],
        [req("A", "running", 6, 10), req("B", "waiting", 0, 7), req("C", "waiting", 7, 7)],
        [req("A", "waiting", 0, 0), req("B", "waiting", 0, 3)],
        [req("A", "running", 5, 5), req("B", "waiting", 5, 5)],
        [req("A", "running", 5, 5)],
    ]
    for _ in range(10):
        requests = random_requests(rng, 8, BOTH)
        for r in rng.sample(requests, 3):
            r["computed"] = r["total_with_spec"]
        lists.append(requests)
    cases: list[Case] = [(requests, need(requests) + more) for requests in lists for more in (1, 9)]
    for status, other in (BOTH, BOTH[::-1]):
        cases.append(([req("A", status, 3, 3), req("B", status, 6, 10), req("C", status, 4, 4)], 4))
        for tokens in (1, 2, 3):
            cases.append(([req("A", status, 3, 3), req("B", other, 2, 2), req("C", status, 0, tokens)], tokens))
    check_cases(call, cases, ("zeros", "stop_at_zero"))


def budget_limits(call: Call) -> None:
    """A budget of 0 is valid and gives nothing; a negative one is an error."""
    three = [req("A", "running", 6, 10), req("B", "waiting", 0, 7), req("C", "preempted", 0, 3)]
    for requests in (three, three[1:], []):
        check_cases(call, [(requests, 0)], ("zeros_behind", "overspend"))
        for budget in (-1, -8, -500, -(10**9)):
            expect_value_error(call, (requests, budget), "a negative budget", "a step can't give out less than nothing")
    check_cases(call, [([], 5)])
    check_cases(call, [([req("A", "running", 9, 10)], 1)])
    plan_sizes.nothing(call)


def bad_counters(call: Call) -> None:
    """0 <= computed <= total_with_spec is checked for every request before anything is planned."""
    good = [req("A", "running", 6, 10), req("B", "waiting", 0, 7), req("C", "preempted", 0, 3)]
    check_cases(call, [(good[:2], 40)])
    for equal in ([req("A", "running", 0, 0)], [req("A", "running", 6, 10), req("B", "waiting", 7, 7)]):
        value_of(ask(call, equal, 40), equal, 40)
    why = "every request's counters are checked before the first token is given"
    statuses = (*BOTH, "preempted", "finished", "finished_stopped", "swapped", "paused")
    places, budgets = itertools.cycle(range(4)), itertools.cycle((40, 3, 0, 10_000, 11))  # every pair comes up
    for computed, total in ((-1, 5), (5, 4), (-3, -1), (-2, -2), (-5, -9), (9, 0), (-1, 0), (10**6, 3)):
        fault = "a negative computed" if computed < 0 else "total_with_spec below computed"
        for status in statuses * 2:
            bad = req("X", status, computed, total)
            place, requests = (
                ("first", [bad, *good]),
                ("last", [*good, bad]),
                ("middle", [*good[:2], bad, *good[2:]]),
                ("only", [bad]),
            )[next(places)]
            subject = f"{fault} of the {place} request, which is {status},"
            expect_value_error(call, (requests, next(budgets)), subject, why)


def untouched(call: Call) -> None:
    """The arguments stay as they are, and a call knows nothing of the calls before it."""
    first = [req("B", "waiting", 0, 7), req("A", "running", 6, 10), req("C", "running", 2, 5)]
    second = [req("B", "waiting", 0, 9), req("A", "running", 2, 4), req("C", "running", 0, 3)]
    no_gaps = [req("D", "running", 4, 4), req("E", "waiting", 3, 3), req("F", "waiting", 0, 0)]
    strangers = [req(f"X{place}", status, place % 3, 4) for place, status in enumerate(OTHERS)]
    bad = [req("E", "waiting", 3, 1), req("E", "running", -1, 5), req("E", "preempted", -4, -2)]
    asked: list[Case] = [(requests, budget) for budget in (40, 8, 3, 1) for requests in (first, second)]
    valid: list[Case] = [([*first, *more], budget) for more in (no_gaps, strangers) for budget in (40, 9, 0)]
    invalid: list[Case] = [([*first, wrong, *no_gaps], 8) for wrong in bad]
    for requests, budget in [*asked, *valid, *invalid, (first, -1)]:
        after = ask(call, requests, budget).args_after[0]
        if not identical(after, requests):
            told = f"with {words(requests, budget)} expected them as before, but {_change(requests, after)}"
            why = "a plan is a proposal, and whoever carries it out advances the counters"
            raise Lost(f"the caller's requests were changed: {told}; {why}")

    why = "each step starts from the requests and the budget alone"
    answers = [shorten(value_of(ask(call, *case), *case)) for case in asked]
    again = [shorten(value_of(ask(call, *case), *case)) for case in reversed(asked)]
    for case, before, now in zip(asked, answers, reversed(again), strict=True):
        if before != now:
            told = f"with {words(*case)} expected {before} as the first time, got {now}"
            raise Lost(f"a call remembered earlier calls: {told}; {why}")
    check_cases(call, [(second, 40), (first, 40)])
    expected = unified_token_plan(first, 40)
    for then in ((second, 40), (first, 40), (first, 8), (second, 1)):
        held = value_of(ask(call, first, 40, then=then), first, 40)
        if not same(held, expected):
            told = f"with {words(first, 40)} {difference(expected, held)}"
            raise Lost(
                f"a returned plan changed when the function was called again: {told}; each call makes a plan of its own"
            )
    fresh = value_of(ask(call, first, 40, spoiled=(first, 40)), first, 40)
    if not same(fresh, expected):
        told = f"with {words(first, 40)}, after its caller emptied an earlier plan, {difference(expected, fresh)}"
        raise Lost(f"two calls returned one plan: {told}; each call makes a plan of its own")


def _change(before: Sequence[Request], after: Any) -> str:
    if not isinstance(after, list):
        return f"they are now {shorten(after)}"
    for was, now in zip(before, after, strict=False):
        if not identical(was, now):
            return f"{shorten(now)} stands for {shorten(was)}"
    return f"there are {len(after)} of {len(before)}"
