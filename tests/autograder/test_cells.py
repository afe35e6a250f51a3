"""A notebook's test cells, run beside student code: what is run, what counts, and what a student is told."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from autograder.paths import CLONE
from autograder.release.course import edition_of
from autograder.running.cells import Executed, Namespace, execute
from minivllm.lesson.outcome import Outcome, door
from tests.autograder.classroom import LESSON, NOTEBOOK, cell, filled_in

pytestmark = pytest.mark.requires_debian("bubblewrap")
ANSWER = "def unified_token_plan(requests, token_budget):\n    return {}, token_budget\n"


@pytest.fixture
def master() -> Any:
    """The instructor's notebook, whose cells a test may change."""
    return edition_of(CLONE / "solutions" / LESSON / f"{NOTEBOOK}.md", "en")


def run(master: Any, answers: dict[str, str]) -> Executed:
    return execute(master, filled_in(copy.deepcopy(master), answers))


def told(outputs: list[Any]) -> str:
    return " ".join(
        str(output.get("text") or output.get("evalue") or output["data"]["text/plain"]) for output in outputs
    )


def test_set_up_cells_and_graded_solutions_run_and_practice_does_not(master: Any) -> None:
    setup, practice, solution = master.cells[0], master.cells[1], cell(master, "unified_token_plan")
    for each in (setup, practice):
        each.cell_type, each.outputs, each.execution_count = "code", [], None
    setup.metadata["tags"], setup.source = ["setup"], "given = 1"
    practice.metadata = {"nbgrader": {**solution.metadata.nbgrader, "grade_id": "practice"}}
    practice.source = "practised = 2"
    cell(master, "plan_examples").source = "assert given == 1\nunified_token_plan([], 3)[1] / 4"
    executed = run(master, {"practice": "given = 2", "unified_token_plan": f"{ANSWER}given += 0\n"})
    assert told(executed.outputs["plan_examples"]) == "0.75"
    assert "practice" not in executed.outputs


def test_a_failed_assertion_is_quoted_with_what_came_back(master: Any) -> None:
    executed = run(master, {"unified_token_plan": ANSWER})
    text = told(executed.outputs["plan_examples"])
    told_by_test, _, quoted = text.partition("; not so: ")
    assert told_by_test.startswith("budget 8: RUNNING comes first and has a gap of 10 - 6 = 4")
    assert quoted.startswith("assert unified_token_plan(reqs, 8) == ({'decode_or_spec': 4, 'prefill': 4}, 0); ")
    assert text.endswith("unified_token_plan returned ({}, 8)")


def test_a_failed_assertion_of_a_hidden_test_is_not_quoted(master: Any) -> None:
    cell(
        master, "plan_examples"
    ).source = "assert callable(unified_token_plan)\n### BEGIN HIDDEN TESTS\nassert unified_token_plan([], 7) == 'secret'\n### END HIDDEN TESTS"
    text = told(run(master, {"unified_token_plan": ANSWER}).outputs["plan_examples"])
    assert text == "unified_token_plan returned ({}, 7)"


def test_what_student_code_raises_is_told_in_one_line(master: Any) -> None:
    raises = "def unified_token_plan(requests, token_budget):\n    raise KeyError('two\\nlines')\n"
    [output] = run(master, {"unified_token_plan": raises}).outputs["plan_examples"]
    assert output["evalue"] == "KeyError: 'two\\nlines'" and output["traceback"] == [output["evalue"]]


def test_a_fault_of_a_test_is_told_as_one(master: Any) -> None:
    cell(master, "plan_examples").source = "unified_token_plan([], 3)[0] / 0"
    executed = run(master, {"unified_token_plan": ANSWER})
    assert len(executed.faults) == 1 and executed.faults[0].startswith("plan_examples stopped with TypeError")


def test_a_fault_of_a_set_up_cell_is_told_and_the_answers_are_graded(master: Any) -> None:
    setup = master.cells[0]
    setup.cell_type, setup.outputs, setup.execution_count = "code", [], None
    setup.metadata["tags"], setup.source = ["setup"], "import not_installed_here"
    executed = run(master, {"unified_token_plan": ANSWER})
    assert "not_installed_here" in executed.faults[0]
    assert executed.outputs["plan_boundaries"] != []


def test_names_of_the_test_come_before_the_students(master: Any) -> None:
    cell(master, "plan_examples").source = "reqs = 3\nassert reqs == 3 and sorted([2, 1]) == [1, 2]"
    shadows = f"{ANSWER}reqs = 4\nsorted = lambda *args: None\n"
    assert run(master, {"unified_token_plan": shadows}).outputs["plan_examples"] == []


def test_a_notebook_without_graded_code_runs_nothing(master: Any) -> None:
    master.cells = [each for each in master.cells if not each.metadata.get("nbgrader", {}).get("grade")]
    assert run(master, {"unified_token_plan": "while True: pass"}).outputs == {}


def test_the_door_of_another_process_is_the_one_that_it_brings() -> None:
    def call(name: str, *args: Any, **more: Any) -> Outcome:
        return Outcome(name, args, None, "")

    assert door(Namespace(call))("f", 1).value == "f"
    assert door({"f": lambda x: x + 1, "call": call})("f", 1).value == 2
