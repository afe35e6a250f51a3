"""A planner that is right up to a size loses points, and its sentence names a size at which it fails."""

from __future__ import annotations

import re

import pytest

from autograder.judging.parts import grade
from autograder.judging.reference.plan_tests import PARTS
from minivllm.lesson.outcome import door
from tests.autograder.versions import ANSWER

HEAD = '    if token_budget < 0:\n        raise ValueError("negative token budget")\n'
GAPS = "[r['total_with_spec'] - r['computed'] for r in requests if r['status'] in ('running', 'waiting')]"
OF_TOKENS = {
    "budget": "token_budget",
    "gap": f"max({GAPS}, default=0)",
    "total": "max([r['total_with_spec'] for r in requests], default=0)",
    "computed": "max([r['computed'] for r in requests], default=0)",
    "share": f"min(token_budget, max({GAPS}, default=0))",
    "shares together": f"min(token_budget, sum({GAPS}))",
}
OF_REQUESTS = {
    "requests": "len(requests)",
    "running": "sum(r['status'] == 'running' for r in requests)",
    "waiting": "sum(r['status'] == 'waiting' for r in requests)",
}
FAILS = {
    "an error": "raise ValueError('too large')",
    "an error that recursion raises": "raise RecursionError('too large')",
    "an error of memory": "raise MemoryError",
    "an exit": "raise SystemExit(1)",
    "an empty plan": "return {}, token_budget",
    "nothing": "return None",
}
LIMITS = [
    *((what, size, limit) for what, size in OF_TOKENS.items() for limit in (2048, 4096, 8192, 10_000, 65_536)),
    *((what, size, limit) for what, size in OF_REQUESTS.items() for limit in (2, 16, 64, 100, 256, 500)),
]


@pytest.mark.parametrize(("number", "what", "size", "limit"), [(n, *one) for n, one in enumerate(LIMITS)])
def test_right_up_to_a_limit_is_wrong_and_told_a_size_beyond_it(number: int, what: str, size: str, limit: int) -> None:
    fails = list(FAILS.values())[number % len(FAILS)]
    namespace: dict[str, object] = {}
    exec(ANSWER.replace(HEAD, f"{HEAD}    if {size} > {limit}:\n        {fails}\n"), namespace)
    report = grade(PARTS, door(namespace))
    assert report.points < 3
    numbers = [int(n) for message in report.messages for n in re.findall(r"\d+", message)]
    assert any(n > limit for n in numbers), report.messages
    assert len(report.messages) <= len(PARTS)


@pytest.mark.parametrize("limit", [2048, 8192, 100_000])
def test_a_budget_that_is_cut_is_wrong(limit: int) -> None:
    namespace: dict[str, object] = {}
    exec(ANSWER.replace(HEAD, f"{HEAD}    token_budget = min(token_budget, {limit})\n"), namespace)
    assert grade(PARTS, door(namespace)).points < 3


def test_sizes_and_ids_that_the_notebook_shows_are_not_the_only_ones_asked() -> None:
    """Right for the ids of the lesson's examples and for their budgets, wrong for all others."""
    for seen in (
        "{r['id'] for r in requests} <= {'prefill', 'decode_or_spec', 'A', 'B', 'C'}",
        "token_budget in (8, 20)",
    ):
        namespace: dict[str, object] = {}
        exec(ANSWER.replace(HEAD, f"{HEAD}    if not ({seen}):\n        return {{}}, token_budget\n"), namespace)
        assert grade(PARTS, door(namespace)).points <= 1


def test_a_slow_and_a_deep_version_that_are_right_keep_all_points() -> None:
    slow = """
def unified_token_plan(requests, token_budget):
    if token_budget < 0 or any(not 0 <= r["computed"] <= r["total_with_spec"] for r in requests):
        raise ValueError
    ordered = [r for status in ("running", "waiting") for r in requests if r["status"] == status]
    plan = {}
    for place, r in enumerate(ordered):
        before = sum(s["total_with_spec"] - s["computed"] for s in ordered[:place])
        take = max(0, min(r["total_with_spec"] - r["computed"], token_budget - before))
        if take:
            plan[r["id"]] = take
    return plan, token_budget - sum(plan.values())
"""
    namespace: dict[str, object] = {}
    exec(slow, namespace)
    assert grade(PARTS, door(namespace)).messages == []
