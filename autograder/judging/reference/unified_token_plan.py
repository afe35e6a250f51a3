"""The answer to the exercise of lesson 2.

It mirrors the arithmetic of ``Scheduler.schedule`` (vllm/v1/core/sched/scheduler.py, v0.28.0): one gap for every
request, the RUNNING loop before the WAITING loop, one budget for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Request = Mapping[str, Any]
Plan = tuple[dict[str, int], int]


def unified_token_plan(requests: Sequence[Request], token_budget: int) -> Plan:
    """Share `token_budget` tokens (>= 0) out among `requests`: running ones first, each group in input order.

    A request has ``id``, ``status``, ``computed`` and ``total_with_spec`` (tokens, 0 <= computed <= total_with_spec).
    Returns the tokens (>= 1) of every request that gets some, and the budget that is left.
    Raises ValueError for a negative budget and for bad counters of any request, scheduled or not.
    """
    if token_budget < 0:
        raise ValueError("negative token budget")
    if any(r["computed"] < 0 or r["total_with_spec"] < r["computed"] for r in requests):
        raise ValueError("invalid request counters")

    ordered = [r for r in requests if r["status"] == "running"]
    ordered += [r for r in requests if r["status"] == "waiting"]
    plan: dict[str, int] = {}
    for request in ordered:
        if token_budget == 0:
            break
        need = request["total_with_spec"] - request["computed"]
        take = min(need, token_budget)
        if take:
            plan[request["id"]] = take
            token_budget -= take
    return plan, token_budget
