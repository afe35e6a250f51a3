"""Hidden tests of the planner at the sizes of real steps: long prompts, large budgets, many requests.

A limit that the function does not have (8,192 tokens, 64 requests) is found by ladders of sizes, so that the sentence
names a size just above it. A version that calls itself once a token, or takes the tokens from the front of a list one
by one, is right and can't get through a long prompt: it is asked about large numbers with few tokens to give out, and
let pass where there are many.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from autograder.judging.reference.asking import Case, NoAnswer, ask, check_cases, value_of, words, wrong_plan
from autograder.judging.reference.findings import same
from autograder.judging.reference.plan_requests import BOTH, need, random_requests, req
from autograder.judging.reference.unified_token_plan import unified_token_plan
from minivllm.lesson.outcome import Call, Outcome

TOKENS = (3_000, 5_000, 9_000, 12_000, 20_000, 40_000, 70_000, 131_072)
IN_ALL = (5_000, 9_000, 12_000, 20_000, 40_000, 70_000, 100_000)
"""Tokens of all shares together."""
REQUESTS = (9, 17, 33, 65, 101, 130, 260, 520, 1_000)
SLOW = 70_000
"""Tokens given out from which a call may need more time than it has."""
SO_DEEP = "maximum recursion depth exceeded"


def tokens(call: Call) -> None:
    """Long prompts and large budgets, one request at a time."""
    for place, size in enumerate(TOKENS):
        status = BOTH[place % 2]
        few = ([req("A", status, 0, size)], 3), ([req("A", status, size, size + 5)], size), ([], size)
        for case in few:
            _check(call, case)
        cut = [req("A", status, 7, 2 * size)]
        for case in (([req("A", status, 7, size + 7)], size + 4), (cut, size)):
            if not _check_many_tokens(call, case):
                return


def requests(call: Call) -> None:
    """Up to 1,000 requests, of both groups and of one alone, and shares that add up to a large step."""
    rng = random.Random(41)
    for count in REQUESTS:
        for statuses in (BOTH, ("running",), ("waiting",)):
            listed = random_requests(rng, count, statuses)
            check_cases(call, [(listed, need(listed) * part // 4) for part in (3, 5)])
    for case in _large_steps(rng):
        if not _check_many_tokens(call, case):
            return


def nothing(call: Call) -> None:
    """No budget, or no gap, at the same sizes."""
    rng = random.Random(43)
    for count, size in ((65, 9_000), (260, 40_000), (1_000, 131_072)):
        listed = random_requests(rng, count, BOTH)
        for r in listed:
            r["computed"] += size
            r["total_with_spec"] += size
        _check(call, (listed, 0))
        for r in listed:
            r["total_with_spec"] = r["computed"]
        _check(call, (listed, size))


def _large_steps(rng: random.Random) -> Iterator[Case]:
    for size in IN_ALL:
        listed = random_requests(rng, 20, BOTH)
        for r in listed:
            r["total_with_spec"] = r["computed"] + size // 20 + rng.randrange(20)
        yield listed, size


def _check(call: Call, case: Case) -> None:
    _compare(call, case, _ask(call, case))


def _compare(call: Call, case: Case, outcome: Outcome) -> None:
    requests, budget = case
    actual = value_of(outcome, requests, budget)
    if not same(actual, unified_token_plan(requests, budget)):
        raise wrong_plan(call, [(requests, budget, actual)], (requests, budget, actual))


def _check_many_tokens(call: Call, case: Case) -> bool:
    """Whether it got through; False where a right version may not."""
    try:
        outcome = _ask(call, case)
    except NoAnswer as error:
        if "took longer" in str(error) and case[1] >= SLOW:
            return False
        raise
    error = outcome.error
    if error is not None and error.is_a("RecursionError") and error.message.startswith(SO_DEEP):
        return False
    _compare(call, case, outcome)
    return True


def _ask(call: Call, case: Case) -> Outcome:
    try:
        return ask(call, *case)
    except NoAnswer as error:
        raise NoAnswer(f"{error}; asked with {words(*case)}") from None
