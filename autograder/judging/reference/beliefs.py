"""Misconceptions about the planner, as planners: what a wrong answer returns tells which of them it holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autograder.judging.reference.unified_token_plan import Plan, Request, unified_token_plan

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


def share_out(
    order: Order = in_order,
    take: Take = whole_gap,
    charge: Callable[[Request, int], int] = lambda request, tokens: tokens,
    zeros: bool = False,
    spent: Callable[[int], bool] = lambda left: left == 0,
) -> Any:
    """The lesson's loop with another order, share or charge. `take` may return None: the loop ends there."""

    def plan_with(requests: Requests, budget: int) -> Plan:
        plan: dict[str, int] = {}
        for request in order(requests):
            if spent(budget):
                break
            tokens = take(request, budget)
            if tokens is None:
                break
            if tokens or zeros:
                plan[request["id"]] = tokens
                budget -= charge(request, tokens)
        return plan, budget

    return plan_with


def below_zero_too(left: int) -> bool:
    return left <= 0


def no_more_loop(left: int) -> bool:
    return False


def equal_shares(requests: Requests, budget: int) -> Plan:
    ordered = in_order(requests)
    share = budget // max(len(ordered), 1)
    plan = {r["id"]: min(need(r), share) for r in ordered}
    return {k: v for k, v in plan.items() if v}, budget - sum(plan.values())


def used(requests: Requests, budget: int) -> Plan:
    plan, left = unified_token_plan(requests, budget)
    return plan, budget - left


def unchanged(requests: Requests, budget: int) -> Plan:
    return unified_token_plan(requests, budget)[0], budget


def budget_per_group(left_of: Callable[[int, int, int], int]) -> Callable[[Requests, int], Plan]:
    """Both groups start from the whole budget; `left_of` the budget and the tokens of both groups is the rest."""

    def plan_with(requests: Requests, budget: int) -> Plan:
        plans = [unified_token_plan(group(requests, status), budget)[0] for status in ("running", "waiting")]
        return plans[0] | plans[1], left_of(budget, *(sum(plan.values()) for plan in plans))

    return plan_with


@dataclass(frozen=True)
class Belief:
    """A sentence, why it is wrong, and the planners that hold it."""

    sentence: str
    why: str
    plans: tuple[Callable[[Requests, int], Any], ...]


def belief(sentence: str, why: str, *plans: Callable[[Requests, int], Any]) -> Belief:
    return Belief(sentence, why, plans)


def _whatever_status(requests: Requests) -> list[Request]:
    return in_order(requests) + [r for r in requests if r["status"] not in ("running", "waiting")]


def _first_of(status: str) -> Order:
    def order(requests: Requests) -> list[Request]:
        groups = {name: group(requests, name) for name in ("running", "waiting")}
        groups[status] = groups[status][:1]
        return groups["running"] + groups["waiting"]

    return order


GAP = "the gap total_with_spec - computed, cut to the budget left, is all that counts"
GROUPS = "a running request holds KV blocks, which are of no use while it gets nothing"
ORDER = "a group is served in input order, which is the order of arrival"
CHUNK = "a request that does not fit whole gets what is left: take = min(need, token_budget)"
LIMIT = "a step never gives out more than its budget: take = min(need, token_budget)"
CHARGE = "what a request takes, and no more, leaves the budget: token_budget -= take"
PHASE = f"prefill, decode and verification are one subtraction: {GAP}"
STATUS = "only requests that are running or waiting are served"
SHARED = "what running requests leave of the budget belongs to the waiting ones"
NO_GAP = "a request that needs or gets no token is not in the plan, and the next one has its turn"
PAIR = "the function returns the plan and what is left of the budget"

BELIEFS = {
    "waiting_first": belief(
        "waiting was served before running", GROUPS, share_out(by_group(list, "waiting", "running"))
    ),
    "as_listed": belief("requests were served as listed, whatever their status", GROUPS, share_out(served)),
    "reverse": belief("the groups were served from their ends", ORDER, share_out(by_group(lambda rs: rs[::-1]))),
    "reverse_running": belief(
        "the running group was served from its end",
        ORDER,
        share_out(lambda rs: group(rs, "running")[::-1] + group(rs, "waiting")),
    ),
    "reverse_waiting": belief(
        "the waiting group was served from its end",
        ORDER,
        share_out(lambda rs: group(rs, "running") + group(rs, "waiting")[::-1]),
    ),
    "smallest_first": belief("a group was sorted by need, smallest first", ORDER, share_out(by_key(need))),
    "largest_first": belief("a group was sorted by need, largest first", ORDER, share_out(by_key(lambda r: -need(r)))),
    "by_id": belief("a group was sorted by id", ORDER, share_out(by_key(lambda r: r["id"]))),
    "by_computed": belief("a group was sorted by computed", ORDER, share_out(by_key(lambda r: r["computed"]))),
    "by_total": belief(
        "a group was sorted by total_with_spec", ORDER, share_out(by_key(lambda r: r["total_with_spec"]))
    ),
    "skip": belief(
        "a request that does not fit whole got nothing instead of a chunk",
        CHUNK,
        share_out(take=lambda r, b: need(r) if need(r) <= b else 0),
    ),
    "stop": belief(
        "serving stopped at a request that does not fit whole",
        CHUNK,
        share_out(take=lambda r, b: need(r) if need(r) <= b else None),
    ),
    "overspend": belief(
        "a request got its whole gap although less budget was left",
        LIMIT,
        share_out(take=lambda r, b: need(r)),
        share_out(take=lambda r, b: need(r), spent=below_zero_too),
    ),
    "take_budget": belief("a request got all the budget left, whatever its gap", GAP, share_out(take=lambda r, b: b)),
    "take_max": belief(
        "a request got the larger of its gap and the budget left, not the smaller",
        GAP,
        share_out(take=lambda r, b: max(need(r), b)),
        share_out(take=lambda r, b: max(need(r), b), spent=below_zero_too),
    ),
    "equal": belief("the budget was shared out equally", GAP, equal_shares),
    "total": belief(
        "the need was read as total_with_spec, without subtracting computed",
        GAP,
        share_out(take=lambda r, b: min(int(r["total_with_spec"]), b)),
    ),
    "total_waiting": belief(
        "a waiting request was planned from its first token, as if nothing of it were computed",
        PHASE,
        share_out(
            take=lambda r, b: min(int(r["total_with_spec"]) - (r["status"] == "running") * int(r["computed"]), b)
        ),
    ),
    "computed": belief("the need was read as computed", GAP, share_out(take=lambda r, b: min(int(r["computed"]), b))),
    "reversed": belief(
        "the subtraction is the wrong way round: computed - total_with_spec is no gap",
        GAP,
        share_out(take=lambda r, b: min(-need(r), b)),
    ),
    "one_more": belief("the gap was taken one token too large", GAP, share_out(take=lambda r, b: min(need(r) + 1, b))),
    "one_less": belief("the gap was taken one token too small", GAP, share_out(take=lambda r, b: min(need(r) - 1, b))),
    "decode_one": belief(
        "a running request got one token, as if running meant decode",
        PHASE,
        share_out(take=lambda r, b: min(need(r), b, 1 if r["status"] == "running" else b)),
    ),
    "one_each": belief("every request got one token", GAP, share_out(take=lambda r, b: min(need(r), b, 1))),
    "preempted": belief(
        "preempted was served as if it were waiting",
        STATUS,
        share_out(by_group(list, "running", "waiting", "preempted")),
    ),
    "every_status": belief("every status was served", STATUS, share_out(_whatever_status)),
    "only_running": belief("waiting requests got nothing", SHARED, share_out(by_group(list, "running"))),
    "only_waiting": belief("running requests got nothing", GROUPS, share_out(by_group(list, "waiting"))),
    "one_running": belief("only the first running request was served", GAP, share_out(_first_of("running"))),
    "one_waiting": belief("only the first waiting request was served", GAP, share_out(_first_of("waiting"))),
    "nobody": belief("nobody was served", GAP, lambda rs, b: ({}, b)),
    "zeros": belief("a share of 0 was put into the plan", NO_GAP, share_out(zeros=True)),
    "zeros_behind": belief(
        "requests behind the end of the budget were put into the plan with 0",
        NO_GAP,
        share_out(zeros=True, spent=no_more_loop),
    ),
    "stop_at_zero": belief(
        "a request without a gap ended the loop", NO_GAP, share_out(take=lambda r, b: min(need(r), b) or None)
    ),
    "used": belief("the second value is the budget used instead of the budget left", PAIR, used),
    "unchanged": belief("the second value is the budget of the start: nothing was subtracted", PAIR, unchanged),
    "not_charged": belief(
        "nothing was subtracted from the budget, so every request drew on all of it",
        CHARGE,
        share_out(charge=lambda r, tokens: 0),
    ),
    "running_not_charged": belief(
        "what running requests got was not subtracted from the budget",
        CHARGE,
        share_out(charge=lambda r, tokens: tokens * (r["status"] != "running")),
    ),
    "waiting_not_charged": belief(
        "what waiting requests got was not subtracted from the budget",
        CHARGE,
        share_out(charge=lambda r, tokens: tokens * (r["status"] != "waiting")),
    ),
    "charge_need": belief(
        "the budget was charged the whole gap instead of what the request got",
        CHARGE,
        share_out(charge=lambda r, tokens: need(r)),
        share_out(charge=lambda r, tokens: need(r), spent=below_zero_too),
    ),
    "per_group": belief(
        "running and waiting each had a budget of their own",
        SHARED,
        budget_per_group(lambda budget, running, waiting: budget - running - waiting),
        budget_per_group(lambda budget, running, waiting: max(0, budget - running - waiting)),
        budget_per_group(lambda budget, running, waiting: budget - waiting),
    ),
}
