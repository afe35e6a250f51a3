"""The notebook 3-allocate-slots: it runs, and its numbers are the engine's."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from minivllm.config import SchedulerConfig
from minivllm.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec
from minivllm.lesson import Arrival, Load, watch_tables
from minivllm.lesson.allocate_slots import gate_questions, questions
from minivllm.lesson.allocate_slots.in_engine import LOADS
from minivllm.lesson.predictions import QUESTIONS
from tests.lesson.notebooks import BLANK, code_cells, execute, printed, prose, released, solved, source

NAME = "3-allocate-slots"


def test_the_solved_notebook_agrees_with_the_engine_until_a_gate_matters(tmp_path: Path) -> None:
    shown = {cell.source: printed(cell) for cell in code_cells(execute(solved(NAME, "zh"), tmp_path))}
    assert all(": ok, " in text for line, text in shown.items() if line.startswith("check_"))
    runs = {m[1]: text for line, text in shown.items() if (m := re.match(r'run_slots\(.*"(\w+)"\)', line))}
    assert list(runs) == list(LOADS)
    assert [load for load, text in runs.items() if "First difference" in text] == ["watermark", "gate"]


def test_the_released_notebook_asks_for_every_blank_and_goes_on(tmp_path: Path) -> None:
    notebook = execute(released(NAME, "en"), tmp_path, allow_errors=True)
    assert not [output for cell in code_cells(notebook) for output in cell.outputs if output.output_type == "error"]
    asking = [
        cell for cell in code_cells(notebook) if cell.source.startswith(("check_", "run_slots", "play(record_slots"))
    ]
    assert len(asking) == 3 + len(LOADS) + 1 and all(BLANK in printed(cell) for cell in asking)


@pytest.mark.parametrize(
    ("question", "numbers"),
    [
        ("free_queue", {questions.FREE_ORDER.arrivals[0].prompt, questions.FREE_ORDER.blocks - 1}),
        ("hit_leaves_the_queue", {a.prompt for a in questions.HIT.arrivals[1:]} | {questions.HIT.arrivals[1].shared}),
        ("ref_of_a_hit", {questions.SHARING.arrivals[1].prompt, questions.SHARING.arrivals[1].shared}),
        ("blocks_needed", {questions.BLOCKS.arrivals[0].prompt}),
        ("blocks_of_a_hit", {questions.HIT.arrivals[1].prompt, questions.HIT.arrivals[1].shared}),
        ("lookahead", {questions.LOOKAHEAD.arrivals[0].prompt, 4}),
        ("refused", {questions.REFUSED.blocks - 1, questions.REFUSED.arrivals[2].prompt, 8}),
        ("watermark", {gate_questions.WATERMARK.blocks, 10, 9, 4, 15}),
        ("full_sequence_gate", {gate_questions.GATE.blocks - 1, gate_questions.GATE.budget, gate_questions.GATE.arrivals[1].prompt}),
        ("gate_reserves_nothing", {gate_questions.RESERVE.blocks - 1, gate_questions.RESERVE.budget, 8, 24, 20}),
        ("gate_and_decode", {gate_questions.DECODES.blocks - 1, gate_questions.DECODES.arrivals[0].prompt, 4}),
        ("window_blocks", {gate_questions.HYBRID.arrivals[0].prompt, 8, 41}),
    ],
)  # fmt: skip
def test_the_prose_before_a_prediction_gives_the_numbers_of_its_load(question: str, numbers: set[int]) -> None:
    cells = source(NAME).cells
    place = next(i for i, cell in enumerate(cells) if cell.source.startswith(f'predict("{question}"'))
    for cell in cells[place - 2 : place]:
        assert numbers <= set(map(int, re.findall(r"\d+", cell.source))), (question, cell.metadata.lang)


def test_numbers_in_the_explanations_are_the_engines() -> None:
    english, chinese = "\n".join(prose(NAME, "en")), "\n".join(prose(NAME, "zh"))
    actual = {name: QUESTIONS[name].answer().actual for name in ("free_queue", "hit_leaves_the_queue", "refused")}
    queue = f"`{' '.join(map(str, actual['free_queue'].values()))}`"
    assert queue in english and queue in chinese
    assert QUESTIONS["refused"].answer().why["free blocks"].startswith("5 blocks would leave the queue")
    assert "It needs 5 blocks out of the queue" in english and "它要从队列里拿走 5 个块" in chinese
    held = {len([b for b in str(row[5]).split() if b != "0"]) for row in watch_tables(gate_questions.HYBRID).rows[1:]}
    assert held == {2, 3} and "it holds 2 or 3 blocks" in english and "它只持有 2 或 3 个块" in chinese
    default = SchedulerConfig()
    assert (default.watermark, default.scheduler_reserve_full_isl) == (0.0, True)
    assert "its default is 0.0: off" in english and "默认值是 0.0，即关闭" in chinese


def test_what_the_change_it_cells_ask_for_can_be_found() -> None:
    admitted = [
        watermark
        for watermark in (0.25, 0.29, 0.3)
        if "waiting"
        not in [row[2] for row in watch_tables(replace(gate_questions.WATERMARK, watermark=watermark)).rows]
    ]
    assert admitted == [0.25, 0.29]  # int(0.3 * 20) = 6 is the smallest that keeps B out
    rows = {w: watch_tables(replace(gate_questions.RESERVE, watermark=w)).rows for w in (0.0, 0.3)}
    assert "preempted" in [row[2] for row in rows[0.0]] and "preempted" not in [row[2] for row in rows[0.3]]
    assert rows[0.3][-1][0] > rows[0.0][-1][0]  # type: ignore[operator]


def test_the_loads_in_the_cells_are_those_of_the_questions() -> None:
    names = {
        "Load": Load, "Arrival": Arrival, "FullAttentionSpec": FullAttentionSpec,
        "SlidingWindowSpec": SlidingWindowSpec, "watch_tables": lambda load: load, "watch_load": lambda load: load,
    }  # fmt: skip
    cells = [c.source[c.source.index("watch_") :] for c in code_cells(source(NAME)) if "watch_" in c.source]
    shown = [eval(code, names) for code in cells]
    expected = [
        questions.HIT,
        replace(gate_questions.WATERMARK, watermark=0.3),
        gate_questions.RESERVE,
        replace(gate_questions.HYBRID, arrivals=[Arrival("A", prompt=20, max_tokens=12)]),
    ]
    assert [(load.config, load.arrivals) for load in shown] == [(load.config, load.arrivals) for load in expected]


def test_comments_beside_the_runs_say_what_their_loads_are() -> None:
    comments = {
        m[1]: m[2]
        for cell in code_cells(source(NAME))
        if (m := re.match(r'run_slots\(.*"(\w+)"\)  # (.*)', cell.source))
    }
    gate = LOADS["gate"]
    assert comments == {
        "pressure": f"{LOADS['pressure'].blocks - 1} usable blocks for two requests that grow",
        "drafter": f"a draft model with {LOADS['drafter'].lookahead} drafts a step",
        "watermark": f"watermark={LOADS['watermark'].watermark}",
        "gate": f"a prompt of {gate.arrivals[1].prompt} tokens, a budget of {gate.budget}, 5 free blocks",
    }
