"""Where a piece of your own sits in the engine, and what is compared of a step in which it did its part."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from minivllm.core.sched.scheduler import Scheduler
from minivllm.lesson.against.trace_step import RULES, Finding, first_difference
from minivllm.lesson.budget_planner.in_engine import requests_of
from minivllm.lesson.common.checks import Misfit, ask
from minivllm.lesson.common.watch import Step, snapshot
from minivllm.lesson.common.why import explain
from minivllm.lesson.outcome import Outcome, door
from minivllm.observe.recorder import around
from minivllm.request import Request

Piece = Callable[..., Any]


class Seat:
    """A scheduler in which `piece` does its part; compares all that a step leaves behind."""

    calls: int | None = None

    def __init__(self, name: str, scheduler: Scheduler) -> None:
        self.name = name
        self.scheduler = scheduler

    def difference(self, expected: dict[str, Any], actual: dict[str, Any]) -> Finding | None:
        return first_difference(expected, actual, self.why)

    def why(self, rule: str, wanted: Any, got: Any) -> str:
        return RULES[rule]


class FunctionSeat(Seat):
    calls: int

    def __init__(self, piece: Piece, scheduler: Scheduler) -> None:
        super().__init__(piece.__name__, scheduler)
        self.piece = piece
        self.calls = 0
        self.sit()

    def sit(self) -> None:
        """Puts the piece in the place of the method of its name."""
        for owner in owners(self.scheduler, self.name):
            around(owner, self.name, lambda call, *args, owner=owner, **more: self.ask(owner, *args, **more))

    def ask(self, *args: Any, **more: Any) -> Any:
        self.calls += 1
        return ask(self.piece, *args, **more)


class VictimSeat(FunctionSeat):
    """`select_victim(running, policy)` gives the request; the engine wants its index."""

    def sit(self) -> None:
        self._asked: list[list[Request]] = []
        around(self.scheduler, "schedule", self._on_schedule)
        around(self.scheduler, "_select_victim", self._on_select)

    def _on_schedule(self, call: Callable[[], Any]) -> Any:
        self._asked = []
        return call()

    def _on_select(self, call: Callable[[], int]) -> int:
        running = list(self.scheduler.running)
        self._asked.append(running)
        victim = self.ask(list(running), self.scheduler.scheduler_config.policy)
        index = next((i for i, request in enumerate(running) if request is victim), None)
        if index is None:
            raise Misfit(f"it returned {victim!r}, but the victim is one of the requests in running")
        return index

    def why(self, rule: str, wanted: Any, got: Any) -> str:
        if rule != "preempted":
            return super().why(rule, wanted, got)
        asked = next((r for r, *pair in zip(self._asked, wanted, got, strict=False) if pair[0] != pair[1]), None)
        if asked is None:
            return super().why(rule, wanted, got)
        if self.scheduler.scheduler_config.policy == "fcfs":
            return f"running was {[r.request_id for r in asked]}: fcfs preempts its tail, the last one admitted"
        keys = ", ".join(f"{r.request_id} ({r.priority}, {r.arrival_time:g})" for r in asked)
        return f"running with (priority, arrival) was {keys}: the largest pair is preempted, the first of equal ones"


class PreemptSeat(FunctionSeat):
    """`preempt(scheduler, request)` for a request that is out of `running` already."""

    def sit(self) -> None:
        around(self.scheduler, "_preempt_request", self._on_preempt)

    def _on_preempt(self, call: Callable[..., None], request: Request) -> None:
        tokens = list(request.all_token_ids)
        self.ask(self.scheduler, request)
        if list(request.all_token_ids) != tokens:
            raise Misfit(
                f"it left {request.num_tokens} of {len(tokens)} tokens of {request.request_id}, but prompt and outputs "
                "survive a preemption"
            )


class PlannerSeat(FunctionSeat):
    """`unified_token_plan(requests, token_budget)` is asked before each step and changes nothing."""

    def sit(self) -> None:
        self._call = door({self.name: self.piece})
        around(self.scheduler, "schedule", self._on_schedule)

    def _on_schedule(self, call: Callable[[], Any]) -> Any:
        scheduler, pool = self.scheduler, self.scheduler.kv_cache_manager.block_pool
        before, free_blocks = snapshot(scheduler), pool.get_num_free_blocks()
        self.calls += 1
        self._outcome = self._call(self.name, requests_of(before), scheduler.config.max_num_scheduled_tokens)
        output = call()
        after = {view.request_id: view for view in snapshot(scheduler)}
        self._step = Step(scheduler.config, before, after, output, free_blocks, pool.get_num_free_blocks())
        return output

    def difference(self, expected: dict[str, Any], actual: dict[str, Any]) -> Finding | None:
        plan, left = _plan(self._outcome)
        shares = {row["id"]: row["n"] for row in expected["sched"]}
        known = [view.request_id for view in self._step.before]
        for name in [*known, *plan]:
            if repr(plan.get(name, 0)) != repr(shares.get(name, 0)):
                why = explain(self._step, name) if name in known else "it is no request of this step"
                return Finding(f"tokens of {name}", shares.get(name, 0), plan.get(name, 0), why)
        if list(plan) != list(shares):
            return Finding("order of the plan", list(shares), list(plan), RULES["sched"])
        if left != self._step.left:
            return Finding("budget left", self._step.left, left, "the budget less all shares of the step")
        return None


def owners(scheduler: Scheduler, method: str) -> Sequence[object]:
    """The objects of the engine that have this method; the outermost kind that has it."""
    manager = scheduler.kv_cache_manager
    kinds = ([scheduler], [manager], manager.coordinator.single_type_managers, [manager.block_pool])
    return next((owners for owners in kinds if inspect.ismethod(getattr(owners[0], method, None))), ())


def _plan(outcome: Outcome) -> tuple[dict[str, Any], Any]:
    if outcome.error is not None:
        if outcome.error.is_a("minivllm.lesson.outcome.BlankError"):
            raise Misfit(outcome.error.message)
        raise Misfit(f"it raised {outcome.error}")
    match outcome.value:
        case (dict() as plan, left) if isinstance(outcome.value, tuple):
            return plan, left
    raise Misfit(f"it returned {outcome.value!r}, not a tuple of a plan and the budget left")
