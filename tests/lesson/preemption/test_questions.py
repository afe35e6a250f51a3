"""The questions of 4-preemption: the answers are the facts', the prose gives the numbers of the loads."""

import re

import pytest

from minivllm.lesson import Load
from minivllm.lesson.common.run import Run
from minivllm.lesson.preemption import questions as preemption
from tests.lesson.notebooks import source

NAME = "4-preemption"


def test_the_answers_are_those_of_the_facts() -> None:
    answers = {question.name: dict(question.answer().actual) for question in preemption.QUESTIONS}
    assert answers == {
        "victim": {"victim": "C"},
        "pool_after_preemption": {"blocks in the pool": 8, "free blocks": 3},
        "kept_and_lost": {"num_computed_tokens": 0, "output tokens": 3, "ref count of a shared block": 1},
        "own_prefix": {"Q stops": 1, "Q goes on": 17},
        "newcomer_after_preemption": {"step 1": 0, "step 2": 0},
        "urgent_newcomer": {"batch": 1, "urgent": 0, "preempted": 0},
        "victim_already_scheduled": {"low": 0, "high": 1, "budget left": 15},
        "self_victim": {"low": 0, "high": 0},
        "gate_and_watermark": {
            "gate off: recomputed": "more",
            "watermark 0.2: recomputed": "fewer",
            "watermark 0.2: steps": "more",
        },
        "higher_cap": {"scheduled tokens": "more", "steps": "fewer"},
    }


@pytest.mark.parametrize(
    ("question", "load", "step"),
    [
        ("victim", preemption.SHORTAGE, 0),
        ("urgent_newcomer", preemption.URGENT, 1),
        ("victim_already_scheduled", preemption.ROLLBACK, 2),
    ],
)
def test_the_prose_before_a_prediction_gives_the_numbers_of_its_load(question: str, load: Load, step: int) -> None:
    cells = source(NAME).cells
    place = next(i for i, cell in enumerate(cells) if cell.source.startswith(f'predict("{question}"'))
    run = Run(load)
    for _ in range(step):
        run.step()
    given = {load.block_size, load.blocks - 1}
    given |= {r.num_prompt_tokens for r in run.scheduler.waiting} | {
        r.priority for r in run.scheduler.requests.values()
    }
    for text in (cells[place - 2].source, cells[place - 1].source):
        assert {str(number) for number in given} <= set(re.findall(r"\d+", text)) | {"0"}, given


def test_the_first_victim_holds_and_has_computed_the_most() -> None:
    run = Run(preemption.SHORTAGE)
    run.step()
    computed = {request.request_id: request.num_computed_tokens for request in run.scheduler.running}
    tables = {name: len(run.scheduler.kv_cache_manager.get_blocks(name).get_block_ids()[0]) for name in computed}
    assert (tables, max(computed, key=lambda name: computed[name])) == ({"A": 2, "B": 1, "C": 4}, "C")


def test_the_one_that_comes_back_has_forty_nine_tokens() -> None:
    for load in (preemption.STOPS, preemption.GOES_ON):
        run = Run(load)
        while not (step := run.step()).output.preempted_req_ids:
            pass
        assert step.output.preempted_req_ids == ["R"]
        assert (run.scheduler.requests["R"].num_tokens, step.before[1].computed) == (49, 48)
