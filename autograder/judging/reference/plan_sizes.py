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
OF_ONE_GROUP = (33, 130, 520)
SLOW = 70_000
"""Tokens given out from which a call may need more time than it has."""
SO_DEEP = "maximum recursion depth exceeded"


def tokens(call: Call) -> None:
    """Long prompts and large budgets, one request at a time, and shares that add up to a large step."""
    for place, size in enumerate(TOKENS):
        status = BOTH[place % 2]
        for kind, computed, total, budget in (("long", 0, size, 3), ("old", size, size + 5, size)):
            _check(call, ([req(f"{kind}{size}", status, computed, total)], budget))
        for kind, total, budget in (("whole", size + 7, size + 4), ("cut", 2 * size, size)):
            if not _check_many_tokens(call, ([req(f"{kind}{size}", status, 7, total)], budget)):
                return
    for case in _large_steps(random.Random(42)):
        if not _check_many_tokens(call, case):
            return


def requests(call: Call) -> None:
    """Up to 1,000 requests, of both groups and of one alone."""
    rng = random.Random(41)
    for count in REQUESTS:
        for statuses in (BOTH, ("running",), ("waiting",))[: 3 if count in OF_ONE_GROUP else 1]:
            listed = random_requests(rng, count, statuses)
            check_cases(call, [(listed, need(listed) * 3 // 4)])


def nothing(call: Call) -> None:
    """No budget, at the same sizes."""
    rng = random.Random(43)
    for size in (9_000, 131_072):
        _check(call, ([req(f"r{size}", BOTH[size % 2], 0, size)], 0))
    for count in (65, 260):
        _check(call, (random_requests(rng, count, BOTH), 0))


def _large_steps(rng: random.Random) -> Iterator[Case]:
    """Of one group, and every gap fits: the order says nothing."""
    for place, size in enumerate(IN_ALL):
        listed = random_requests(rng, 2, [BOTH[place % 2]])
        for r in listed:
            r["total_with_spec"] = r["computed"] + size // 2 + rng.randrange(20)
        yield listed, need(listed)


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
    except NoAnswer as late:
        if "took longer" in str(late) and case[1] >= SLOW:
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
