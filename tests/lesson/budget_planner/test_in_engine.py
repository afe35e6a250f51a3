"""The driver that runs a student's planner beside the real scheduler."""

from collections.abc import Callable
from typing import Any

import pytest

from minivllm.lesson import Arrival, Load, ______, run_planner
from minivllm.lesson.budget_planner.in_engine import LOADS, compare
from minivllm.lesson.common.errors import LessonError

Requests = list[dict[str, Any]]
Plan = tuple[dict[str, int], int]


def right(requests: Requests, budget: int) -> Plan:
    plan = {}
    for status in ("running", "waiting"):
        for request in requests:
            take = min(request["total_with_spec"] - request["computed"], budget)
            if request["status"] == status and take:
                plan[request["id"]] = take
                budget -= take
    return plan, budget


def input_order(requests: Requests, budget: int) -> Plan:
    plan = {}
    for request in requests:
        take = min(request["total_with_spec"] - request["computed"], budget)
        if take:
            plan[request["id"]] = take
            budget -= take
    return plan, budget


def whole_gap(requests: Requests, budget: int) -> Plan:
    plan = {r["id"]: r["total_with_spec"] - r["computed"] for r in requests}
    return plan, budget - sum(plan.values())


def target_for_gap(requests: Requests, budget: int) -> Plan:
    return right([r | {"computed": 0} for r in requests], budget)


def keeps_zeros(requests: Requests, budget: int) -> Plan:
    plan, left = right(requests, budget)
    return plan | {r["id"]: 0 for r in requests if r["id"] not in plan}, left


def forgets_to_charge(requests: Requests, budget: int) -> Plan:
    return right(requests, budget)[0], budget


def reversed_plan(requests: Requests, budget: int) -> Plan:
    plan, left = right(requests, budget)
    return dict(reversed(plan.items())), left


def advances_counters(requests: Requests, budget: int) -> Plan:
    plan, left = right(requests, budget)
    for request in requests:
        request["computed"] += plan.get(request["id"], 0)
    return plan, left


def raises(requests: Requests, budget: int) -> Plan:
    raise KeyError("num_computed")


def blank(requests: Requests, budget: int) -> Plan:
    take: Any = ______
    return {requests[0]["id"]: min(take, budget)}, budget


def stranger(requests: Requests, budget: int) -> Plan:
    return {"Z": 1}, budget - 1


def test_a_right_planner_agrees_to_the_end_when_blocks_are_to_spare() -> None:
    comparison = compare(right, LOADS["spare"])
    assert comparison.finished and not comparison.difference
    assert repr(comparison).endswith("6 steps, every plan equals the engine's; the load is finished.")
    worked = comparison.steps[1]
    assert (worked.plan, worked.left) == ({"A": 4, "B": 4}, 0)
    assert (worked.step.scheduled, worked.step.left) == ({"A": 4, "B": 4}, 0)


@pytest.mark.parametrize(
    ("load", "step", "reason"),
    [
        (
            "slots",
            1,
            "B gets 4 from the planner and 0 from the engine. Engine: 4 tokens of budget are left, but max_num_seqs = 1",
        ),
        ("blocks", 2, "B gets 1 from the planner and 0 from the engine. Engine: preempted: 0 free blocks were too few"),
        (
            "prefix",
            1,
            "B gets 10 from the planner and 2 from the engine. Engine: gap 10 - 8 (8 tokens from the prefix cache) = 2",
        ),
        (
            "threshold",
            1,
            "B gets 7 from the planner and 4 from the engine. Engine: gap 12 - 0 = 12, cut to long_prefill",
        ),
    ],
)
def test_a_right_planner_meets_what_else_the_engine_looks_at(load: str, step: int, reason: str) -> None:
    comparison = compare(right, LOADS[load])
    assert len(comparison.steps) == step + 1
    assert comparison.difference.startswith(reason)
    assert repr(comparison).splitlines()[-1] == f"First difference, step {step}: {comparison.difference}"


def test_a_preempted_request_is_dropped_by_the_toy_and_resumed_by_the_engine() -> None:
    def idle_until_preempted(requests: Requests, budget: int) -> Plan:
        plan, left = right(requests, budget)
        return ({"A": 1}, left + 1) if any(r["id"] == "B" and r["computed"] == 8 for r in requests) else (plan, left)

    comparison = compare(idle_until_preempted, LOADS["blocks"])
    assert [row["status"] for row in _requests_of(comparison, -1)] == ["preempted"]
    assert comparison.difference.startswith("B gets 0 from the planner and ")


def _requests_of(comparison: Any, index: int) -> list[dict[str, str]]:
    return [{"id": view.request_id, "status": view.status} for view in comparison.steps[index].step.before]


@pytest.mark.parametrize(
    ("planner", "reason"),
    [
        (
            input_order,
            "A gets 1 from the planner and 4 from the engine. Engine: gap 10 - 6 = 4; min(4, budget left 8) = 4.",
        ),
        (
            whole_gap,
            "B gets 7 from the planner and 4 from the engine. Engine: gap 7 - 0 = 7; min(7, budget left 4) = 4.",
        ),
        (
            target_for_gap,
            "A gets 8 from the planner and 4 from the engine. Engine: gap 10 - 6 = 4; min(4, budget left 8) = 4.",
        ),
        (keeps_zeros, "B gets 0 and stands in the plan; the engine's output holds only requests that run."),
        (forgets_to_charge, "the shares agree, the budget left does not: planner 8, engine 2."),
        (
            reversed_plan,
            "the shares agree, the order does not: planner ['B', 'A'], engine ['A', 'B']; running requests come first.",
        ),
        (advances_counters, "the planner changed the requests it was given; counters belong to the Request"),
        (raises, "the planner raised KeyError: 'num_computed'"),
        (blank, "the planner raised BlankError: the blank ______ is not filled in: "),
        (stranger, "the plan holds 'Z', which is no request of this step"),
        (lambda requests, budget: None, "the planner returned None, not a tuple of a plan and the budget left"),
        (
            lambda requests, budget: [{}, budget],
            "the planner returned [{}, 8], not a tuple of a plan and the budget left",
        ),
        (lambda requests, budget: ({"A": True}, 7), "the planner returned True where a number of tokens belongs"),
        (lambda requests, budget: ({"A": 6.0}, 2), "the planner returned 6.0 where a number of tokens belongs"),
        (lambda requests, budget: ({"A": 6}, None), "the planner returned None where a number of tokens belongs"),
        (lambda: None, "the planner raised TypeError: "),
        ("no function", "the planner raised TypeError: 'str' object is not callable"),
    ],
)
def test_the_first_difference_names_the_request_and_the_rule(planner: Callable[..., Any], reason: str) -> None:
    load = LOADS["spare"] if planner is not keeps_zeros else Load([Arrival("A", prompt=8), Arrival("B", prompt=8)])
    assert compare(planner, load).difference.startswith(reason)


def test_the_planner_gets_copies_in_waiting_first_order_and_cannot_disturb_the_engine() -> None:
    seen: list[list[tuple[str, str]]] = []

    def vandal(requests: Requests, budget: int) -> Plan:
        seen.append([(r["id"], r["status"]) for r in requests])
        answer = right(requests, budget)
        if len(seen) == 2:
            requests.clear()
        return answer

    comparison = compare(vandal, LOADS["spare"])
    assert seen == [[("A", "waiting")], [("B", "waiting"), ("A", "running")]]
    assert comparison.steps[-1].step.scheduled == {"A": 4, "B": 4}


def test_a_planner_that_never_plans_is_answered_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    run_planner(blank)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("run_planner: the planner raised BlankError: the blank ______ is not filled in: ")


def test_run_planner_prints_each_step_and_takes_a_load_of_the_students_own(capsys: pytest.CaptureFixture[str]) -> None:
    run_planner(right, Load([Arrival("L", prompt=20, max_tokens=1)], budget=16))
    assert capsys.readouterr().out.splitlines() == [
        "step  request      status   computed  target  gap  planner  engine  verdict",
        "----  -----------  -------  --------  ------  ---  -------  ------  -------",
        "0     L            waiting  0         20      20   16       16      same",
        "0     budget left                                  0        0       same",
        "1     L            running  16        20      4    4        4       same",
        "1     budget left                                  12       12      same",
        "2 steps, every plan equals the engine's; the load is finished.",
    ]


def test_an_unknown_load_lists_the_known_ones() -> None:
    with pytest.raises(
        LessonError, match="there is no load 'spar'; the loads are spare, slots, blocks, prefix, threshold, or"
    ):
        run_planner(right, "spar")


def test_a_load_that_never_ends_is_stopped() -> None:
    stuck = Load([Arrival("huge", prompt=40)], blocks=5, budget=64)
    assert compare(lambda requests, budget: ({}, budget), stuck).steps[-1].step.scheduled == {}
    assert repr(compare(lambda requests, budget: ({}, budget), stuck)).endswith("stopped after 50 steps.")
