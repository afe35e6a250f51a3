"""What is behind a wrong plan: a misconception that explains it, a memory of other calls, or what is plain to see."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from autograder.judging.reference.beliefs import (
    BELIEFS,
    CHARGE,
    GAP,
    GROUPS,
    LIMIT,
    NO_GAP,
    ORDER,
    STATUS,
    in_order,
    need,
)
from autograder.judging.reference.plan_requests import BOTH, random_requests
from autograder.judging.reference.unified_token_plan import Plan, Request

Requests = Sequence[Request]
Planner = Callable[[Requests, int], Any]
"""The student's: its plan and the budget left, or None where nothing of that shape came back."""
Answer = tuple[Requests, int, Any]
ALONE = "a plan follows from the requests and the budget alone"


class Finding(NamedTuple):
    sentence: str
    why: str


def same(actual: Any, expected: Plan) -> bool:
    """Equal values; a list for the tuple and 4.0 for 4 are let pass."""
    return (actual[0], actual[1]) == expected


def behind(planner: Planner, asked: Sequence[Answer], wrong: Answer, likely: Sequence[str] = ()) -> Finding:
    """What explains `wrong`, one of the answers `asked`. The `likely` misconceptions are tried first."""
    requests, budget, (plan, left) = wrong
    return _belief(planner, asked, likely) or _memory(planner, requests, budget) or _fact(requests, budget, plan, left)


def _belief(planner: Planner, asked: Sequence[Answer], likely: Sequence[str]) -> Finding | None:
    """The first misconception that predicts every answer, also to some more questions."""
    rng = random.Random(35)
    more: list[Answer] = []
    for size in (1, 1, 2, 3, 3, 4, 5, 6):
        requests = random_requests(rng, size, BOTH)
        total = sum(need(r) for r in requests)
        budget = rng.randint(1, total) if size > 3 or not more else rng.randint(total // 2, 2 * total)
        more.append((requests, budget, planner(requests, budget)))
    if any(actual is None for *_, actual in more):
        return None
    for name in [*likely, *BELIEFS]:
        sentence, why, plans = BELIEFS[name].sentence, BELIEFS[name].why, BELIEFS[name].plans
        if any(all(same(actual, plan(rs, b)) for rs, b, actual in [*asked, *more]) for plan in plans):
            return Finding(sentence, why)
    return None


_fresh = itertools.count(1)


def _memory(planner: Planner, requests: Requests, budget: int) -> Finding | None:
    """The same question twice, under ids that were never seen, and another one between; also with a new budget."""
    for tokens in (budget, 10**6 + next(_fresh)):
        mine, others = (_renamed(requests, next(_fresh)) for _ in range(2))
        first, between, again = planner(mine, tokens), planner(others, tokens), planner(mine, tokens)
        known = {r["id"] for r in mine}
        if between is not None and any(name in known for name in between[0]):
            return Finding("a call remembered earlier calls", f"it names requests of an earlier call; {ALONE}")
        if repr(first) != repr(again):  # so that nan equals itself
            return Finding("a call remembered earlier calls, or chance decided", f"asked twice, it differs; {ALONE}")
    return None


def _renamed(requests: Requests, number: int) -> list[Request]:
    return [{**request, "id": f"{request['id']}-{number}"} for request in requests]


def _fact(requests: Requests, budget: int, plan: Mapping[Any, Any], left: Any) -> Finding:
    """The first rule that the plan breaks. Only the answer breaks none."""
    known = {r["id"]: r for r in requests}
    for name, tokens in plan.items():
        if name not in known:
            return Finding(f"the plan names {name!r:.60}, which is the id of no request", "the ids are the requests'")
        request = known[name]
        if request["status"] not in BOTH:
            return Finding(f"{name} was served, although its status is {request['status']!r}", STATUS)
        if tokens == 0:
            return Finding(f"{name} is in the plan with 0 tokens", NO_GAP)
        if not tokens > 0:
            return Finding(f"{name} got {tokens!r} tokens", GAP)
        if tokens > need(request):
            return Finding(f"{name} got more tokens than its gap", GAP)
    given = sum(plan.values())
    if given > budget:
        return Finding("more tokens were given out than the budget holds", LIMIT)
    if left != budget - given:
        return Finding("the second value is not the budget less the tokens in the plan", CHARGE)
    ordered = in_order(requests)
    short = next((r for r in ordered if plan.get(r["id"], 0) < need(r)), None)
    if short is None:
        return Finding("the plan is wrong", GAP)
    behind = [r["id"] for r in ordered[ordered.index(short) + 1 :] if r["id"] in plan]
    if behind and short["status"] == "running" and known[behind[-1]]["status"] == "waiting":
        return Finding(f"waiting was served although {short['id']}, which is running, still had a gap", GROUPS)
    if behind:
        return Finding(f"{behind[0]} was served although {short['id']}, which stands before it, still had a gap", ORDER)
    return Finding(f"budget was left although {short['id']} still had a gap", GAP)
