"""Hidden tests of ``unified_token_plan``: twelve ideas of a quarter point each, in the cells of the notebook.

A part looks at one idea: its cases are built so that an answer that is wrong about another idea still passes (the order
of the groups, for example, is asked where every request fits whole). `mix` alone asks for all of the main path at once.
A list for the tuple, or 4.0 for 4, costs `examples` or `result` and is overlooked elsewhere.
"""

from __future__ import annotations

from autograder.judging.parts import Part, grade_cell
from autograder.judging.reference import plan_boundaries, plan_main_path
from minivllm.lesson.outcome import Call

EXAMPLES = (Part("examples", 0.25, plan_main_path.examples),)
MAIN_PATH = (
    Part("running_first", 0.25, plan_main_path.running_first),
    Part("input_order", 0.25, plan_main_path.input_order),
    Part("shares", 0.25, plan_main_path.shares),
    Part("statuses", 0.25, plan_main_path.statuses),
    Part("no_phases", 0.25, plan_main_path.no_phases),
    Part("result", 0.25, plan_main_path.result),
    Part("mix", 0.25, plan_main_path.mix),
)
BOUNDARIES = (
    Part("no_gap", 0.25, plan_boundaries.no_gap),
    Part("budget_limits", 0.25, plan_boundaries.budget_limits),
    Part("bad_counters", 0.25, plan_boundaries.bad_counters),
    Part("untouched", 0.25, plan_boundaries.untouched),
)
PARTS = (*EXAMPLES, *MAIN_PATH, *BOUNDARIES)


def grade_examples(call: Call) -> float:
    return grade_cell(EXAMPLES, call)


def grade_main_path(call: Call) -> float:
    return grade_cell(MAIN_PATH, call)


def grade_boundaries(call: Call) -> float:
    return grade_cell(BOUNDARIES, call)
