"""Misconceptions about the planner, as functions: what a wrong answer returns tells which of them it holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autograder.reference.unified_token_plan import Plan, Request, unified_token_plan

Requests = Sequence[Request]
Order = Callable[[Requests], list[Request]]
Take = Callable[[Request, int], int | None]


def need(request: Request) -> int:
    gap: int = request["total_with_spec"] - request["computed"]
    return gap


def group(requests: Requests, status: str) -> list[Request]:
    return [r for r in requests if r["status"] == status]


def by_group(arrange: Callable[[list[Request]], list[Request]], *statuses: str) -> Order:
    statuses = statuses or ("running", "waiting")
    return lambda requests: [r for status in statuses for r in arrange(group(requests, status))]


def by_key(key: Callable[[Request], Any]) -> Order:
    return by_group(lambda requests: sorted(requests, key=key))


def served(requests: Requests) -> list[Request]:
    return [r for r in requests if r["status"] in ("running", "waiting")]


in_order = by_group(list)


def whole_gap(request: Request, budget: int) -> int | None:
    return min(need(request), budget)


def share_out(order: Order = in_order, take: Take = whole_gap, zeros: bool = False, go_on: bool = False) -> Any:
    """A planner that differs from the right one in what is given. `take` may return None: the loop ends there."""

    def plan_with(requests: Requests, budget: int) -> Plan:
        plan: dict[str, int] = {}
        for request in order(requests):
            if budget <= 0 and not go_on:
                break
            tokens = take(request, budget)
            if tokens is None:
                break
            if tokens or zeros:
                plan[request["id"]] = tokens
                budget -= tokens
        return plan, budget

    return plan_with


def equal_shares(requests: Requests, budget: int) -> Plan:
    ordered = in_order(requests)
    share = budget // max(len(ordered), 1)
    plan = {r["id"]: min(need(r), share) for r in ordered}
    return {k: v for k, v in plan.items() if v}, budget - sum(plan.values())


def used(requests: Requests, budget: int) -> Plan:
    plan, left = unified_token_plan(requests, budget)
    return plan, budget - left


@dataclass(frozen=True)
class Belief:
    sentence: str
    plan: Callable[[Requests, int], Any]


def _others(requests: Requests) -> list[Request]:
    return [r for r in requests if r["status"] != "running"]


BELIEFS = {
    "waiting_first": Belief("waiting was served before running", share_out(by_group(list, "waiting", "running"))),
    "as_listed": Belief("requests were served as listed, whatever their status", share_out(served)),
    "reverse": Belief("the groups were served from their ends", share_out(by_group(lambda rs: rs[::-1]))),
    "reverse_running": Belief(
        "the running group was served from its end",
        share_out(lambda rs: group(rs, "running")[::-1] + group(rs, "waiting")),
    ),
    "reverse_waiting": Belief(
        "the waiting group was served from its end",
        share_out(lambda rs: group(rs, "running") + group(rs, "waiting")[::-1]),
    ),
    "smallest_first": Belief("a group was sorted by need, smallest first", share_out(by_key(need))),
    "largest_first": Belief("a group was sorted by need, largest first", share_out(by_key(lambda r: -need(r)))),
    "by_id": Belief("a group was sorted by id", share_out(by_key(lambda r: r["id"]))),
    "by_computed": Belief("a group was sorted by computed", share_out(by_key(lambda r: r["computed"]))),
    "by_total": Belief("a group was sorted by total_with_spec", share_out(by_key(lambda r: r["total_with_spec"]))),
    "skip": Belief(
        "a request that does not fit whole got nothing instead of a chunk",
        share_out(take=lambda r, b: need(r) if need(r) <= b else 0),
    ),
    "stop": Belief(
        "serving stopped at a request that does not fit whole",
        share_out(take=lambda r, b: need(r) if need(r) <= b else None),
    ),
    "overspend": Belief(
        "a request got its whole gap although less budget was left", share_out(take=lambda r, b: need(r))
    ),
    "equal": Belief("the budget was shared out equally", equal_shares),
    "total": Belief(
        "the need was read as total_with_spec, without subtracting computed",
        share_out(take=lambda r, b: min(int(r["total_with_spec"]), b)),
    ),
    "total_waiting": Belief(
        "a waiting request was planned from its first token, as if nothing of it were computed",
        share_out(
            take=lambda r, b: min(int(r["total_with_spec"]) - (r["status"] == "running") * int(r["computed"]), b)
        ),
    ),
    "computed": Belief("the need was read as computed", share_out(take=lambda r, b: min(int(r["computed"]), b))),
    "decode_one": Belief(
        "a running request got one token, as if running meant decode",
        share_out(take=lambda r, b: min(need(r), b, 1 if r["status"] == "running" else b)),
    ),
    "one_each": Belief("every request got one token", share_out(take=lambda r, b: min(need(r), b, 1))),
    "preempted": Belief(
        "preempted was served as if it were waiting", share_out(by_group(list, "running", "waiting", "preempted"))
    ),
    "not_running": Belief(
        "every status but running was served as waiting", share_out(lambda rs: group(rs, "running") + _others(rs))
    ),
    "every_status": Belief("every status was served", share_out(lambda rs: list(rs))),
    "only_running": Belief("waiting requests got nothing", share_out(by_group(list, "running"))),
    "only_waiting": Belief("running requests got nothing", share_out(by_group(list, "waiting"))),
    "zeros": Belief("a share of 0 was put into the plan", share_out(zeros=True)),
    "zeros_behind": Belief(
        "requests behind the end of the budget were put into the plan with 0", share_out(zeros=True, go_on=True)
    ),
    "stop_at_zero": Belief(
        "a request without a gap ended the loop", share_out(take=lambda r, b: min(need(r), b) or None)
    ),
    "used": Belief("the second value is the budget used instead of the budget left", used),
    "unchanged": Belief(
        "the second value is the budget of the start: nothing was subtracted",
        lambda rs, b: (unified_token_plan(rs, b)[0], b),
    ),
}
