"""What the 10 points are for: the parts of the lesson, by the graded cells that nbgrader keeps points of."""

from __future__ import annotations

from dataclasses import dataclass

from autograder.judging.suggestions import FINDINGS


@dataclass(frozen=True)
class Part:
    """A part of the 10 points: graded cells of one notebook, by grade id, and the filled-in cell they are about."""

    name: str
    notebook: str
    cells: tuple[str, ...]
    answer: str
    of: float


PARTS = (
    Part("planner", "1-budget-planner", ("plan_examples", "plan_main_path"), "unified_token_plan", 2),
    Part("boundaries", "1-budget-planner", ("plan_boundaries",), "unified_token_plan", 1),
    Part("mapping", "1-budget-planner", ("source_mapping_check",), "source_mapping", 1),
    Part("q1", "1-budget-planner", ("q1_answer",), "q1_answer", 2),
    Part("q2", "2-prefix-match", ("q2_answer",), "q2_answer", 2),
    Part("q3", "4-preemption", ("q3_answer",), "q3_answer", 2),
    Part(FINDINGS, "5-on-the-gpu", (FINDINGS,), FINDINGS, 0),
)
TESTED = {name: part.answer for part in PARTS for name in part.cells if name != part.answer}
"""Test cells by grade id, and the filled-in cell that each is about."""
