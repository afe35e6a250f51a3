"""The notebook 1-budget-planner: it runs, both languages say the same, and its numbers are the engine's."""

import re
from pathlib import Path

import pytest

from minivllm.config import SchedulerConfig
from minivllm.lesson.budget_planner import questions as budget_planner
from minivllm.lesson.budget_planner.in_engine import LOADS
from minivllm.lesson.common.load import Arrival, Load
from minivllm.lesson.common.run import Run
from minivllm.lesson.predictions import QUESTIONS
from tests.lesson.notebooks import code_cells, execute, printed, prose, released, solved, source

NAME = "1-budget-planner"


def test_the_planner_agrees_with_the_engine_until_blocks_slots_prefixes_or_a_threshold_matter(tmp_path: Path) -> None:
    notebook = execute(solved(NAME, "en"), tmp_path)
    shown = {cell.source.splitlines()[0]: printed(cell) for cell in code_cells(notebook)}
    assert shown['run_planner(unified_token_plan, "spare")'].endswith("the load is finished.")
    firsts = [text for line, text in shown.items() if line.startswith("run_planner") and "First difference" in text]
    assert len(firsts) == len(LOADS) - 1


def test_the_released_notebook_stops_at_the_planner_and_its_mapping(tmp_path: Path) -> None:
    notebook = execute(released(NAME, "zh"), tmp_path, allow_errors=True)
    errors = {
        cell.metadata.get("nbgrader", {}).get("grade_id", cell.source): f"{output.ename}: {output.evalue}"
        for cell in code_cells(notebook)
        for output in cell.outputs
        if output.output_type == "error"
    }
    blank = "BlankError: the blank ______ is not filled in: replace every ______ by your own expression and run the cell again"
    assert errors == {
        "plan_examples": blank,
        "source_mapping_check": "AssertionError: each entry is a str: fill in every ______",
    }


def test_points_add_up_to_what_the_head_says() -> None:
    points = {
        cell.metadata.nbgrader.grade_id: cell.metadata.nbgrader.points
        for cell in source(NAME).cells
        if cell.metadata.get("nbgrader", {}).get("grade")
    }
    planner = points.pop("plan_examples") + points.pop("plan_main_path") + points.pop("plan_boundaries")
    assert (planner, points) == (3, {"source_mapping_check": 1, "q1_answer": 2})
    assert "the planner (3 points), its mapping to the source (1), Q1 (2)" in prose(NAME, "en")[0]
    assert "规划器（3 分）、映射到源码（1 分）、Q1（2 分）" in prose(NAME, "zh")[0]


def test_five_guesses_are_left_where_the_prose_says_so() -> None:
    asked = [match[1] for cell in source(NAME).cells if (match := re.match(r'predict\("(\w+)"', cell.source))]
    assert len(asked) - asked.index("carry_over") == 5
    assert any("Five more guesses" in text for text in prose(NAME, "en"))
    assert any("再猜五次" in text for text in prose(NAME, "zh"))


@pytest.mark.parametrize(
    ("question", "load", "step"),
    [
        ("long_prompt", budget_planner.LONG_PROMPT, 0),
        ("running_first", budget_planner.RUNNING_FIRST, 1),
        ("carry_over", budget_planner.CARRY_OVER, 2),
        ("chunk_size", budget_planner.CHUNK_SIZE, 0),
        ("sequence_slot", budget_planner.SEQUENCE_SLOT, 1),
        ("head_of_line", budget_planner.HEAD_OF_LINE, 1),
        ("padding", budget_planner.PADDING, 1),
    ],
)
def test_the_prose_before_a_prediction_gives_the_numbers_of_its_load(question: str, load: Load, step: int) -> None:
    cells = source(NAME).cells
    place = next(i for i, cell in enumerate(cells) if cell.source.startswith(f'predict("{question}"'))
    run = Run(load)
    for _ in range(step):
        run.step()
    run.arrive()
    given = {load.budget, *(request.num_prompt_tokens for request in run.scheduler.waiting)}
    given |= {r.num_computed_tokens for r in run.scheduler.running if question == "running_first"}
    if question == "head_of_line":
        given |= {load.blocks - 1, load.block_size}
    if question == "sequence_slot":
        given |= {load.max_num_seqs}
    if question == "padding":
        given |= {3, 4, 1}  # drafts a step, cached tokens, gap: as in the test of the answer's reasons below
    for cell in cells[place - 2 : place]:
        last_paragraph = cell.source.split("\n\n")[-1]
        assert given <= set(map(int, re.findall(r"\d+", last_paragraph))), (question, cell.metadata.lang)


def test_numbers_in_the_explanations_are_the_engines() -> None:
    english, chinese = "\n".join(prose(NAME, "en")), "\n".join(prose(NAME, "zh"))
    worked = QUESTIONS["worked_example"].answer()
    shares = f"`{{A: {worked.actual['A']}, B: {worked.actual['B']}}}`"
    assert shares in english and shares in chinese
    assert re.match(r"gap 10 - 6 = 4", worked.why["A"]) and re.match(r"gap 7 - 0 = 7", worked.why["B"])

    run = Run(budget_planner.WORKED)
    run.step()
    run.arrive()
    step = run.schedule()
    assert (step.left, step.scheduled["A"] - step.drafts_of("A"), step.drafts_of("A")) == (0, 1, 3)
    run.answer(step)
    request = run.scheduler.requests["A"]
    known, computed = request.num_tokens, request.num_computed_tokens
    assert f"A now knows {known} tokens and has {computed} computed: a gap of {known - computed}" in english
    assert f"A 现在已知 {known} 个、已算 {computed} 个：在新草稿到来之前缺口是 {known - computed}" in chinese

    padding = QUESTIONS["padding"].answer().why["B"]
    assert padding.startswith("gap 5 - 4 (4 tokens from the prefix cache) = 1, padded to 1 + 3 tokens")
    assert f"default in the class is {SchedulerConfig().max_num_batched_tokens};" in english
    assert f"默认值是 {SchedulerConfig().max_num_batched_tokens}；" in chinese
    assert (SchedulerConfig().watermark, SchedulerConfig().scheduler_reserve_full_isl) == (0.0, True)


def test_the_load_that_is_followed_is_the_one_that_the_planner_met() -> None:
    (code,) = [cell.source for cell in source(NAME).cells if "blocks=5" in cell.source]
    names = {"watch_load": lambda load: load, "Load": Load, "Arrival": Arrival}
    exec(code, names)
    assert names["crowded"] == LOADS["blocks"]


def test_comments_beside_the_loads_say_what_the_loads_are() -> None:
    comments = {
        m[1]: m[2]
        for cell in source(NAME).cells
        if (m := re.match(r'run_planner\(\w+, "(\w+)"\)  # (.*)', cell.source))
    }
    blocks, prefix = LOADS["blocks"], LOADS["prefix"]
    assert comments == {
        "slots": f"max_num_seqs={LOADS['slots'].max_num_seqs}",
        "blocks": f"{blocks.blocks - 1} usable blocks of {blocks.block_size} tokens for two requests that grow",
        "prefix": f"B's first {prefix.arrivals[1].shared} tokens are cached",
        "threshold": f"long_prefill_token_threshold={LOADS['threshold'].long_prefill_token_threshold}",
    }
