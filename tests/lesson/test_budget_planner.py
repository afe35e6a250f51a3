"""The notebook 1-budget-planner: it runs, both languages say the same, and its numbers are the engine's."""

import json
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import jupytext
import pytest

from minivllm.config import SchedulerConfig
from minivllm.lesson.load import Arrival, Load, Run
from minivllm.lesson.planner import LOADS
from minivllm.lesson.questions import QUESTIONS, budget_planner
from tests.lesson.notebooks import LANGUAGES, ROOT, execute, printed, released, solved, source

NAME = "1-budget-planner"
COMMIT = "2cf0a6915ce544dc493a0990f2ea38d81601128a"
READING = [
    "vllm/config/scheduler.py#L48-L141",
    "vllm/v1/core/sched/scheduler.py#L476-L521",
    "vllm/v1/core/sched/scheduler.py#L523-L626",
    "vllm/v1/core/sched/scheduler.py#L694-L735",
    "vllm/v1/core/sched/scheduler.py#L747-L803",
    "vllm/v1/core/sched/scheduler.py#L913-L1003",
    "vllm/v1/core/sched/scheduler.py#L1169-L1181",
]


def prose(language: str) -> list[str]:
    return [cell.source for cell in source(NAME).cells if cell.metadata.get("lang") == language]


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_solved_notebook_runs_top_to_bottom(language: str, tmp_path: Path) -> None:
    started = time.monotonic()
    notebook = execute(solved(NAME, language), tmp_path)
    assert time.monotonic() - started < 60
    shown = {cell.source.splitlines()[0]: printed(cell) for cell in code_cells(notebook) if cell.source}
    assert not any(output.get("name") == "stderr" for cell in code_cells(notebook) for output in cell.outputs)
    assert not [line for line, text in shown.items() if "differs" in text and not line.startswith("run_planner")]
    assert shown['run_planner(unified_token_plan, "spare")'].endswith("the load is finished.")
    firsts = [text for line, text in shown.items() if line.startswith("run_planner") and "First difference" in text]
    assert len(firsts) == len(LOADS) - 1


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_released_notebook_fails_only_where_work_is_asked(language: str, tmp_path: Path) -> None:
    notebook = execute(released(NAME, language), tmp_path, allow_errors=True)
    errors = {
        cell.metadata.nbgrader.grade_id
        if "nbgrader" in cell.metadata
        else cell.source: f"{output.ename}: {output.evalue}"
        for cell in code_cells(notebook)
        for output in cell.outputs
        if output.output_type == "error"
    }
    blank = "BlankError: the blank ______ is not filled in: replace every ______ by your own expression and run the cell again"
    assert errors == {
        "plan_examples": blank,
        "source_mapping_check": "AssertionError: each entry is a str: fill in every ______",
    }
    for cell in code_cells(notebook):
        if cell.source.startswith(("predict(", "settle(")):
            assert "Guess first: predict(" in printed(cell)


def test_every_english_cell_is_followed_by_its_chinese_twin() -> None:
    languages = [cell.metadata.get("lang") for cell in source(NAME).cells]
    assert [cell.cell_type == "markdown" for cell in source(NAME).cells] == [lang is not None for lang in languages]
    order = "".join({"en": "e", "zh": "z", None: "c"}[language] for language in languages)
    assert re.fullmatch("(ez|c)+", order)


def test_twins_hold_the_same_numbers_code_links_headings_and_hints() -> None:
    marks = {
        "number": r"\d+(?:\.\d+)*",
        "code": r"`[^`]+`",
        "link": r"\]\(([^)]+)\)",
        "heading": r"^#+ ",
        "hint": r"<details>",
        "row": r"^\|",
        "item": r"^(?:- |\d\. )",
    }
    for english, chinese in zip(prose("en"), prose("zh"), strict=True):
        for kind, pattern in marks.items():
            found = [Counter(re.findall(pattern, text, re.MULTILINE)) for text in (english, chinese)]
            assert found[0] == found[1], f"{kind} of the cell {english[:60]!r}"


def test_chinese_prose_uses_chinese_punctuation_between_chinese_characters() -> None:
    for text in prose("zh"):
        plain = re.sub(r"`[^`]*`|\]\([^)]*\)|\*\*", "", text)
        assert not re.findall(r"[\u4e00-\u9fff][,;:?!][\u4e00-\u9fff ]", plain), text[:40]


def test_there_is_one_title_and_the_head_says_what_why_and_how_long() -> None:
    for language, words in {
        "en": ["After", "Prerequisites", "Time", "GPU"],
        "zh": ["学完", "先修", "时间", "GPU"],
    }.items():
        first, *others = prose(language)
        assert first.startswith("# ") and not any(re.search(r"^# ", text, re.MULTILINE) for text in others)
        assert all(word in first for word in words)


def test_points_add_up_to_what_the_head_says() -> None:
    points = {
        cell.metadata.nbgrader.grade_id: cell.metadata.nbgrader.points
        for cell in source(NAME).cells
        if cell.metadata.get("nbgrader", {}).get("grade")
    }
    planner = points.pop("plan_examples") + points.pop("plan_main_path") + points.pop("plan_boundaries")
    assert (planner, points) == (3, {"source_mapping_check": 1, "q1_answer": 2})
    assert "the planner (3 points), its mapping to the source (1), Q1 (2)" in prose("en")[0]
    assert "规划器（3 分）、映射到源码（1 分）、Q1（2 分）" in prose("zh")[0]


def test_every_question_is_asked_once_and_the_head_counts_them() -> None:
    asked = [match[1] for cell in source(NAME).cells if (match := re.match(r'predict\("(\w+)"', cell.source))]
    settled = [match[1] for cell in source(NAME).cells if (match := re.match(r'settle\("(\w+)"', cell.source))]
    assert asked == settled == [question.name for question in budget_planner.QUESTIONS]
    assert len(asked) == 9
    assert "Nine times" in prose("en")[0] and "有九处" in prose("zh")[0]
    assert asked.index("carry_over") == 4  # five are left
    assert any("Five more guesses" in text for text in prose("en")) and any("再猜五次" in text for text in prose("zh"))


def test_a_released_prediction_has_the_blanks_that_its_question_wants() -> None:
    for cell in source(NAME).cells:
        if match := re.match(r'predict\("(\w+)", (.*)\)$', cell.source):
            assert match[2] == QUESTIONS[match[1]].wanted.replace("…", "______")


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
    english, chinese = "\n".join(prose("en")), "\n".join(prose("zh"))
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
    assert eval(code, {"watch_load": lambda load: load, "Load": Load, "Arrival": Arrival}) == LOADS["blocks"]


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


@pytest.mark.parametrize("language", LANGUAGES)
def test_links_into_the_source_are_pinned_and_in_reading_order(language: str) -> None:
    links = re.findall(r"https://github\.com/vllm-project/vllm/blob/(\w+)/([^)\s]+)", "\n".join(prose(language)))
    assert links == [(COMMIT, place) for place in READING]
    text = next(text for text in prose(language) if "8e958902eee56ca5158728f1dd5a32246f0246f3" in text)
    assert "blob/8e958902" not in text


def test_the_file_survives_a_round_trip_through_jupytext() -> None:
    text = (ROOT / "solutions" / "lesson-2" / f"{NAME}.md").read_text(encoding="utf-8")
    once = jupytext.reads(text, fmt="md:myst")
    again = jupytext.reads(jupytext.writes(once, fmt="md:myst"), fmt="md:myst")

    def content(notebook: Any) -> list[tuple[str, str, str]]:
        return [(cell.cell_type, cell.source, json.dumps(cell.metadata, sort_keys=True)) for cell in notebook.cells]

    assert content(once) == content(again)
