"""A planner of the lesson beside the real scheduler: the same requests, step by step, until the two plans differ.

The scheduler drives, so that both see the same state in every step; the planner is asked first, and its plan changes
nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from minivllm.lesson.common.load import Arrival, Load, load_of
from minivllm.lesson.common.run import MAX_STEPS, Run
from minivllm.lesson.common.table import Table, show
from minivllm.lesson.common.watch import VIEW_COLUMNS, RequestView, Step, snapshot
from minivllm.lesson.common.why import explain
from minivllm.lesson.outcome import Outcome, door

_WORKED = [Arrival("A", prompt=6, drafts=3, accepted=1, max_tokens=6), Arrival("B", prompt=7, step=1, max_tokens=2)]
LOADS = {
    "spare": Load([*_WORKED, Arrival("C", prompt=11, step=3, max_tokens=2)]),
    "slots": Load(_WORKED, max_num_seqs=1),
    "blocks": Load([Arrival("A", prompt=7), Arrival("B", prompt=7)], budget=16, blocks=5),
    "prefix": Load([Arrival("A", prompt=10, shared=8), Arrival("B", prompt=10, shared=8, step=1)], budget=16),
    "threshold": Load([Arrival("A", prompt=4), Arrival("B", prompt=12, step=1)], long_prefill_token_threshold=4),
}


@dataclass(frozen=True)
class PlannedStep:
    """One step: the engine's decisions, and the planner's plan where it made one."""

    step: Step
    plan: dict[str, int] | None
    left: int | None
    difference: str


@dataclass(frozen=True)
class Comparison:
    """All steps up to the first difference; `difference` is empty where the plans agree to the end."""

    steps: tuple[PlannedStep, ...]
    finished: bool

    @property
    def difference(self) -> str:
        return self.steps[-1].difference if self.steps else ""

    @property
    def table(self) -> Table:
        columns = ("step", *VIEW_COLUMNS, "planner", "engine", "verdict")
        rows = [row for index, planned in enumerate(self.steps) for row in _rows(index, planned)]
        return Table(columns, rows, note=self._verdict)

    @property
    def _verdict(self) -> str:
        if self.difference:
            return f"First difference, step {len(self.steps) - 1}: {self.difference}"
        end = "the load is finished" if self.finished else f"stopped after {MAX_STEPS} steps"
        return f"{len(self.steps)} steps, every plan equals the engine's; {end}."

    def __repr__(self) -> str:
        return repr(self.table)

    def _repr_html_(self) -> str:
        return self.table._repr_html_()


def run_planner(planner: Callable[..., Any], load: str | Load = "spare") -> None:
    """Run `planner(requests, token_budget)` beside a real Scheduler under `load`, up to the first difference.

    Args:
        planner: the lesson's `unified_token_plan`.
        load: one of LOADS by name, or a Load of your own.

    Raises:
        LessonError: no load has this name.
    """
    comparison = compare(planner, load_of(load, LOADS))
    has_planned = any(step.plan is not None for step in comparison.steps)
    show(comparison if has_planned else f"run_planner: {comparison.difference}")


def compare(planner: Callable[..., Any], load: Load) -> Comparison:
    call = door({"planner": planner})
    run = Run(load)
    steps: list[PlannedStep] = []
    while not run.finished and len(steps) < MAX_STEPS:
        run.arrive()
        requests = requests_of(snapshot(run.scheduler))
        outcome = call("planner", requests, load.budget)
        step = run.schedule()
        steps.append(_planned(step, outcome, requests))
        if steps[-1].difference:
            break
        run.answer(step)
    return Comparison(tuple(steps), run.finished)


def requests_of(views: Sequence[RequestView]) -> list[dict[str, Any]]:
    """What a planner is given: the waiting ones stand first, so that serving running ones first is its own work."""
    ordered = sorted(views, key=lambda view: view.status == "running")
    return [
        {"id": v.request_id, "status": v.status, "computed": v.computed, "total_with_spec": v.target} for v in ordered
    ]


def _planned(step: Step, outcome: Outcome, requests: list[dict[str, Any]]) -> PlannedStep:
    problem = _problem(outcome, requests)
    if problem:
        return PlannedStep(step, None, None, problem)
    plan, left = outcome.value
    return PlannedStep(step, plan, left, _difference(step, plan, left))


def _problem(outcome: Outcome, requests: list[dict[str, Any]]) -> str:
    """Why the outcome is no plan at all; empty where it is one."""
    if outcome.error is not None:
        return f"the planner raised {outcome.error}"
    value = outcome.value
    if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[0], dict):
        return f'the planner returned {value!r}, not a tuple of a plan and the budget left such as ({{"A": 4}}, 4)'
    plan, left = value
    wrong = [number for number in (*plan.values(), left) if type(number) is not int]
    if wrong:
        return f"the planner returned {wrong[0]!r} where a number of tokens belongs"
    unknown = [name for name in plan if name not in [request["id"] for request in requests]]
    if unknown:
        return f"the plan holds {unknown[0]!r}, which is no request of this step"
    if outcome.args_after[0] != requests:
        return (
            "the planner changed the requests it was given; counters belong to the Request, and the engine alone moves "
            "them"
        )
    return ""


def _difference(step: Step, plan: dict[str, int], left: int) -> str:
    for view in step.before:
        name = view.request_id
        yours, engines = plan.get(name, 0), step.scheduled.get(name, 0)
        if yours != engines:
            return f"{name} gets {yours} from the planner and {engines} from the engine. Engine: {explain(step, name)}."
        if name in plan and yours == 0:
            return f"{name} gets 0 and stands in the plan; the engine's output holds only requests that run."
    if list(plan) != list(step.scheduled):
        return (
            f"the shares agree, the order does not: planner {list(plan)}, engine {list(step.scheduled)}; running "
            "requests come first."
        )
    if left != step.left:
        return f"the shares agree, the budget left does not: planner {left}, engine {step.left}."
    return ""


def _rows(index: int, planned: PlannedStep) -> list[tuple[object, ...]]:
    step, plan = planned.step, planned.plan
    rows: list[tuple[object, ...]] = []
    for view in step.before:
        engines = step.scheduled.get(view.request_id, 0)
        yours = "-" if plan is None else plan.get(view.request_id, 0)
        rows.append((index, *view.row, yours, engines, _verdict(yours, engines)))
    yours = "-" if planned.left is None else planned.left
    rows.append((index, "budget left", "", "", "", "", yours, step.left, _verdict(yours, step.left)))
    return rows


def _verdict(yours: object, engines: int) -> str:
    if yours == "-":
        return "-"
    return "same" if yours == engines else "differs"
