"""Hidden tests of the planner's main path: who gets how many tokens. Each function is one idea and raises `Lost`."""

from __future__ import annotations

import random

from autograder.judging.parts import Lost
from autograder.judging.reference import plan_sizes
from autograder.judging.reference.asking import (
    Case,
    ask,
    check_cases,
    difference,
    identical,
    kind,
    same_sizes,
    shorten,
    value_of,
    words,
    wrong_plan,
)
from autograder.judging.reference.beliefs import PHASE
from autograder.judging.reference.findings import Answer, same
from autograder.judging.reference.plan_requests import BOTH, EXAMPLE, OTHERS, Requests, need, random_requests, req
from autograder.judging.reference.unified_token_plan import unified_token_plan
from minivllm.lesson.outcome import Call


def examples(call: Call) -> None:
    """The lesson's two assertions, one after the other on one list as in the lesson."""
    first = ask(call, EXAMPLE, 8)
    asked: list[Answer] = [(EXAMPLE, 8, value_of(first, EXAMPLE, 8))]
    _check_example(call, asked)
    left_over = first.args_after[0]
    second = ask(call, left_over, 20)
    expected = unified_token_plan(EXAMPLE, 20)
    if not identical(left_over, EXAMPLE) and (second.error or second.value != expected):
        told = f"expected {expected}, got {second.error or shorten(second.value)}"
        why = "a plan is a proposal and changes nothing"
        raise Lost(f"the first call changed the requests of the second: with {words(EXAMPLE, 20)} {told}; {why}")
    asked.append((EXAMPLE, 20, value_of(second, EXAMPLE, 20)))
    _check_example(call, asked)


def _check_example(call: Call, asked: list[Answer]) -> None:
    requests, budget, actual = asked[-1]
    expected = unified_token_plan(requests, budget)
    if not same(actual, expected):
        raise wrong_plan(call, asked, asked[-1])
    if not isinstance(actual, tuple):
        told = f"with {words(requests, budget)} {difference(expected, actual)}"
        raise Lost(f"the result is of type {kind(actual)}, not tuple: {told}; a caller compares it with a tuple")


def running_first(call: Call) -> None:
    """Asked where every request that gets something fits whole."""
    rng = random.Random(21)
    cases: list[Requests] = [
        [req("W", "waiting", 0, 7), req("R", "running", 6, 10)],
        [
            req("W1", "waiting", 0, 3),
            req("R1", "running", 4, 9),
            req("W2", "waiting", 2, 4),
            req("R2", "running", 0, 6),
        ],
    ]
    cases += [[req("W", "waiting", 0, 5), *random_requests(rng, 6, BOTH), req("R", "running", 3, 5)] for _ in range(10)]
    scarce = [(requests, need(r for r in requests if r["status"] == "running")) for requests in cases]
    check_cases(call, scarce, ("waiting_first", "as_listed", "only_waiting"))
    check_cases(call, [(requests, need(requests)) for requests in cases], ("only_running",))


def input_order(call: Call) -> None:
    """One group alone, and a budget that ends between two requests."""
    rng = random.Random(22)
    for status in BOTH:
        cases: list[Case] = []
        for size in (3, 4, 7, 9, 12):
            requests = random_requests(rng, size, [status])
            cases += [(requests, need(requests[:served])) for served in (1, size // 2, size - 1)]
        likely = (f"reverse_{status}", "reverse", "smallest_first", "largest_first", "by_id", "by_computed", "by_total")
        check_cases(call, cases, likely)


def shares(call: Call) -> None:
    """take = min(need, budget left): chunks, and nothing else that caps or rounds."""
    likely = ("skip", "stop", "overspend", "equal", "total", "one_each", "decode_one", "zeros_behind")
    for status in BOTH:
        counters = [(0, 7, 4), (6, 10, 20), (6, 10, 100_000), (0, 1, 1), (5, 7, 1), (100, 4500, 4200)]
        check_cases(call, [([req("A", status, *pair)], budget) for *pair, budget in counters], likely)
        equal_gaps = [
            ([req(id, status, 0, 5) for id in "ABCD"[:count]], budget)
            for count, budget in ((2, 8), (4, 12), (4, 17), (3, 5))
        ]
        check_cases(call, equal_gaps, likely, agree=same_sizes)
    plan_sizes.tokens(call)


def statuses(call: Call) -> None:
    served = [req("R", "running", 2, 5), req("W", "waiting", 1, 5)]
    cases: list[Case] = [([req("X", "preempted", 0, 4)], 9)]
    for place, other in enumerate(OTHERS):
        stranger = req("X", other, 0, 4)
        cases += [([stranger, *served], 16), ([*served, stranger] if place % 2 else [stranger], 16)]
    check_cases(call, cases, ("preempted", "every_status"))


def no_phases(call: Call) -> None:
    """Neither the status nor the counters nor an id nor a further key stands for a phase."""
    cases = [
        (requests, need(requests) + more)
        for requests in (
            [req("decode", "running", 0, 9), req("prefill", "waiting", 8, 9)],
            [req("prefill", "running", 40, 41), req("decode_or_spec", "waiting", 0, 12)],
            [req("decode_or_spec", "running", 3, 30), req("prefill", "waiting", 5, 6)],
            [
                req("A", "running", 0, 4),
                req("B", "running", 30, 64),
                req("C", "waiting", 7, 9),
                req("D", "waiting", 64, 65),
            ],
            [req("spec", "waiting", 16, 21), req("verify", "waiting", 1, 2)],
        )
        for more in (0, 3)
    ]
    check_cases(call, cases, ("decode_one", "total_waiting", "total", "computed", "one_each"))

    marks = ({"phase": "prefill", "is_prefill": True}, {"phase": "decode", "is_prefill": False})
    marked = [r | mark for r, mark in zip([req("A", "running", 4, 9), req("B", "waiting", 3, 5)], marks, strict=True)]
    outcome = ask(call, marked, 20)
    if outcome.error:
        return  # a request turned into an object of exactly four fields can't take a fifth, and reads no phase
    actual, expected = value_of(outcome, marked, 20), unified_token_plan(marked, 20)
    if not same(actual, expected):
        told = f"with {words(marked, 20)} and the keys phase and is_prefill {difference(expected, actual)}"
        raise Lost(f"a further key was read as a phase: {told}; {PHASE}")


def result(call: Call) -> None:
    """A tuple of a dict and an int; whole numbers are ints, ids are the requests'."""
    for requests, budget in (
        (EXAMPLE, 20),
        ([req("A", "running", 4, 5)], 3),
        ([req("A", "waiting", 0, 1), req("B", "waiting", 0, 6)], 7),
        ([req("A", "waiting", 0, 1)], 1),
        (EXAMPLE, 8),
        ([], 5),
    ):
        value = value_of(ask(call, requests, budget), requests, budget)
        told = f"with {words(requests, budget)} expected {unified_token_plan(requests, budget)}, got {shorten(value)}"
        if not isinstance(value, tuple):
            raise Lost(f"the result is of type {kind(value)}, not tuple: {told}; a caller compares it with a tuple")
        for owner, number in {**value[0], "the budget left": value[1]}.items():
            if type(number) is not int:
                raise Lost(f"a number is of type {kind(number)}, not int ({owner!s:.60}): {told}; tokens are counted")
        unknown = set(value[0]) - {r["id"] for r in requests}
        if unknown or (budget >= need(requests) and not same(value, unified_token_plan(requests, budget))):
            raise wrong_plan(call, [(requests, budget, value)], (requests, budget, value))


def mix(call: Call) -> None:
    """Everything at once, and up to 1,000 requests."""
    rng = random.Random(27)
    cases: list[Case] = []
    for place, count in enumerate([2, 3, 4, 5, 6, 8] * 4 + [12, 24, 40, 60] * 3):
        other = OTHERS[place % len(OTHERS)]
        requests = random_requests(rng, count, [*BOTH, *BOTH, *BOTH, other])
        requests[rng.randrange(count)]["status"] = other
        total = max(3, need(r for r in requests if r["status"] in BOTH))
        cases += [(requests, rng.randint(total // 3, total * 9 // 10)), (requests, rng.choice([total, 20_000 + total]))]
        if count < 10:
            cases.append((requests, rng.randint(1, total)))
    check_cases(call, cases)
    plan_sizes.requests(call)
