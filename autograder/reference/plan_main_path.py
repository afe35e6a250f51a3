"""Hidden tests of the planner's main path: who gets how many tokens. Each function is one idea and raises `Lost`."""

from __future__ import annotations

import random
from typing import Any

from autograder.parts import Lost
from autograder.reference.asking import (
    Case,
    ask,
    belief_behind,
    check_cases,
    difference,
    kind,
    same,
    same_sizes,
    shorten,
    value_of,
    words,
)
from autograder.reference.plan_requests import BOTH, EXAMPLE, ONE_GAP, OTHERS, Requests, need, random_requests, req
from autograder.reference.unified_token_plan import unified_token_plan
from minivllm.lesson.outcome import Call


def examples(call: Call) -> None:
    """The lesson's two assertions, one after the other on one list as in the lesson."""
    first = ask(call, EXAMPLE, 8)
    requests_of_second: Any = first.args_after[0]
    second = ask(call, requests_of_second, 20)
    asked = [(EXAMPLE, budget, value_of(outcome, EXAMPLE, budget)) for outcome, budget in ((first, 8), (second, 20))]
    for _, budget, actual in asked:
        expected = unified_token_plan(EXAMPLE, budget)
        if isinstance(actual, tuple) and actual == expected:
            continue
        belief, why = belief_behind(asked, (), "the lesson's example comes out wrong"), ONE_GAP
        if not isinstance(actual, tuple):
            belief, why = f"the result is of type {kind(actual)}, not tuple", "a caller compares it with a tuple"
        elif budget == 20 and requests_of_second != EXAMPLE:
            belief, why = (
                "the first call changed the requests of the second",
                "a plan is a proposal and changes nothing",
            )
        raise Lost(f"{belief}: with {words(EXAMPLE, budget)} {difference(expected, actual)}; {why}")


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
    why = "a running request holds KV blocks, which idle until it goes on"
    check_cases(call, scarce, ("waiting_first", "as_listed", "only_waiting"), why, "running was not served first")
    ample = [(requests, need(requests)) for requests in cases]
    check_cases(call, ample, ("only_running",), "what running leaves of the budget belongs to waiting")


def input_order(call: Call) -> None:
    """One group alone, and a budget that ends between two requests."""
    rng = random.Random(22)
    for status in BOTH:
        cases: list[Case] = []
        for size in (3, 4, 7, 9, 12):
            requests = random_requests(rng, size, [status])
            cases += [(requests, need(requests[:served])) for served in (1, size // 2, size - 1)]
        likely = (f"reverse_{status}", "reverse", "smallest_first", "largest_first", "by_id", "by_computed", "by_total")
        why = "a group is served in input order, which is the order of arrival"
        check_cases(call, cases, likely, why, "the order inside a group was changed")


def shares(call: Call) -> None:
    """take = min(need, budget left): chunks, and nothing else that caps or rounds."""
    far = 10**18
    default = "a share is not min(need, budget left)"
    likely = ("skip", "stop", "overspend", "equal", "total", "one_each", "decode_one", "zeros_behind")
    for status in BOTH:
        counters = [(0, 7, 4), (6, 10, 20), (6, 10, 100_000), (0, 1, 1), (5, 7, 1), (100, 4500, 4200)]
        counters += [(far + 1, far + 8, 9), (far + 3, far + 18, 9)]  # a float can't tell these apart
        alone = [([req("A", status, computed, total)], budget) for computed, total, budget in counters]
        check_cases(call, alone, likely, ONE_GAP, default)
        equal_gaps = [
            ([req(id, status, 0, 5) for id in "ABCD"[:count]], budget)
            for count, budget in ((2, 8), (4, 12), (4, 17), (3, 5))
        ]
        check_cases(call, equal_gaps, likely, ONE_GAP, default, agree=same_sizes)


def statuses(call: Call) -> None:
    served = [req("R", "running", 2, 5), req("W", "waiting", 1, 5)]
    cases = []
    for other in OTHERS:
        stranger = req("X", other, 0, 4)
        cases += [(requests, need(requests) + 5) for requests in ([stranger, *served], [*served, stranger], [stranger])]
    likely = ("preempted", "not_running", "every_status")
    why = "this planner serves running and waiting alone"
    check_cases(call, cases, likely, why, "a request that is neither running nor waiting changed the plan")


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
    likely = ("decode_one", "total_waiting", "total", "computed", "one_each")
    why = f"prefill, decode and verification are one subtraction: {ONE_GAP}"
    check_cases(call, cases, likely, why, "a phase was read into a request")

    marks = ({"phase": "prefill", "is_prefill": True}, {"phase": "decode", "is_prefill": False})
    marked = [r | mark for r, mark in zip([req("A", "running", 4, 9), req("B", "waiting", 3, 5)], marks, strict=True)]
    outcome = ask(call, marked, 20)
    if outcome.error:
        return  # a request turned into an object of exactly four fields can't take a fifth, and reads no phase
    actual, expected = value_of(outcome, marked, 20), unified_token_plan(marked, 20)
    if not same(actual, expected):
        raise Lost(f"a further key was read as a phase: with {words(marked, 20)} {difference(expected, actual)}; {why}")


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
                raise Lost(f"a number is of type {kind(number)}, not int ({owner}): {told}; tokens are counted")
        if set(value[0]) - {r["id"] for r in requests}:
            raise Lost(f"the plan names a request that is not there: {told}; the ids come from the requests")
        if budget >= need(requests) and not same(value, unified_token_plan(requests, budget)):
            raise Lost(f"the plan is wrong: {told}; {ONE_GAP}")


def mix(call: Call) -> None:
    """Everything at once: up to 300 requests against the answer."""
    rng = random.Random(27)
    cases: list[Case] = []
    for count in [2, 3, 4, 5, 6, 8] * 4 + [12, 24, 40, 60] * 3 + [300]:
        requests = random_requests(rng, count, [*BOTH, *BOTH, *BOTH, rng.choice(OTHERS)])
        cases += [
            (requests, rng.randint(1, need(requests))),
            (requests, rng.choice([need(requests), rng.randint(2000, 8000)])),
        ]
    check_cases(call, cases, (), "running, then waiting, each in input order, each gets min(need, budget left)")
