"""The notebook 4-preemption: its numbers are the engine's, and Q3 has its evidence."""

import re

import pytest

from minivllm.lesson import Load, costs, record
from minivllm.lesson.common.cost import cost
from minivllm.lesson.preemption import questions as preemption
from tests.lesson.notebooks import LANGUAGES, code_cells, execute, printed, prose, solved, source

NAME = "4-preemption"


@pytest.fixture(scope="module", params=LANGUAGES)
def shown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each code cell of a solved edition shows, by its first line."""
    notebook = execute(solved(NAME, request.param), tmp_path_factory.mktemp(NAME))
    return {cell.source: printed(cell) for cell in code_cells(notebook)}


def test_the_solved_cells_agree_with_the_engine_and_with_vllm(shown: dict[str, str]) -> None:
    agree = [text for source, text in shown.items() if source.startswith("against_vllm(")]
    assert len(agree) == 5 and all("steps as vLLM's; it was asked" in text for text in agree)
    checks = [text for source, text in shown.items() if source.startswith("check_")]
    assert checks == [
        "select_victim: ok, 9 queues as in minivllm.core\n",
        "preempt: ok, 2 situations as in minivllm.core\n",
    ]


def test_the_loads_of_the_cells_are_those_of_the_predictions(shown: dict[str, str]) -> None:
    rows = [line.rstrip() for text in shown.values() for line in text.splitlines()]
    tables = (
        costs({name: record(load) for name, load in loads.items()}) for loads in (preemption.THRASH, preemption.CAPS)
    )
    for table in tables:
        assert [line for line in repr(table).splitlines()[2:] if line not in rows] == []
    (player,) = [text for source, text in shown.items() if "play(" in source]
    assert (
        "C preempted: A needs 1 block, 0 free, C is the tail of running; its 14 computed tokens are dropped" in player
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_numbers_of_the_prose_are_those_of_the_runs(language: str) -> None:
    text = " ".join(prose(NAME, language))
    thrash = {name: cost(record(load)) for name, load in preemption.THRASH.items()}
    default, gate_off, watermark = (thrash[name] for name in list(thrash)[:3])
    assert (gate_off.preemptions, default.preemptions, watermark.preemptions) == (17, 9, 1)
    assert watermark.steps - default.steps == 38 and default.scheduled - default.recomputed == 948
    caps = {name: record(load) for name, load in preemption.CAPS.items()}
    used = max(frame.num_used_blocks for frame in caps["max_num_seqs=2"].frames)
    assert (used, 240 - 149) == (12, 91)
    for number in (17, 9, 38, 948, 712, 952, 240, 149, 91, 89, 79):
        assert re.search(rf"\b{number}\b", text), number
    eight = preemption.CAPS["max_num_seqs=8"].arrivals
    roomy = [cost(record(Load(eight, budget=256, blocks=49, block_size=16, max_num_seqs=cap))) for cap in (2, 8)]
    assert [(it.scheduled, it.steps) for it in roomy] == [(712, 240), (712, 60)]


def test_every_claim_of_the_stage_is_named_by_a_cell() -> None:
    claims = [claim for cell in source(NAME).cells for claim in cell.metadata.get("minivllm", {}).get("claims", [])]
    assert sorted(claims) == [13, 20, 21, 22, 23, 24, 25]


@pytest.mark.parametrize("language", LANGUAGES)
def test_question_three_stands_in_its_own_cell_before_its_answer_with_four_criteria(language: str) -> None:
    cells = [cell for cell in source(NAME).cells if cell.metadata.get("lang") == language]
    place = next(i for i, cell in enumerate(cells) if cell.metadata.get("nbgrader", {}).get("grade_id") == "q3_answer")
    question, answer = cells[place - 1].source, cells[place]
    assert question.startswith("## Q3") and len(re.findall(r"^- \*\*", question, re.MULTILINE)) == 4
    words = {"en": ["Objects", "State changes", "Chain"], "zh": ["对象", "状态变化", "因果链"]}[language]
    assert re.findall(r"\*\*([^*]+)[:：]\*\*", " ".join(answer.metadata.minivllm.stub)) == words
    assert re.findall(r"^\*\*([^*]+)[:：]\*\*", answer.source, re.MULTILINE) == words
    assert (answer.metadata.nbgrader.points, answer.metadata.nbgrader.solution) == (2, True)


@pytest.mark.parametrize(
    ("language", "needed"),
    [
        ("en", ["No.", "max_num_running_reqs", "at construction", "WAITING", "RUNNING", "PREEMPTED", "712 to 952", "240 to 149", "adds no block", "Invariant", "Performance boundary", "Needs a benchmark"]),
        ("zh", ["不合理", "max_num_running_reqs", "构造时", "WAITING", "RUNNING", "PREEMPTED", "712 增到 952", "240 减到 149", "不会增加一个块", "不变量", "性能边界", "需要 benchmark"]),
    ],
)  # fmt: skip
def test_the_model_answer_holds_what_the_facts_ask_for(language: str, needed: list[str]) -> None:
    answer = next(text for text in prose(NAME, language) if text.startswith("### BEGIN SOLUTION"))
    assert [part for part in needed if part not in answer] == []
