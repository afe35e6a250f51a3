"""The notebook 2-prefix-match: its prose, its cells and its points fit the engine."""

import re
from typing import Any

import pytest

from minivllm.config import CacheConfig, EngineConfig
from minivllm.core.sched.scheduler import Scheduler
from minivllm.lesson import record, serve
from minivllm.lesson.common.load import Arrival, Load
from minivllm.lesson.predictions import QUESTIONS
from minivllm.lesson.prefix_match import questions as prefix_match
from minivllm.lesson.prefix_match.in_engine import LOADS
from tests.lesson.notebooks import code_cells, prose, source
from tests.lesson.prefix_match.student import NAME, lookup_rows


def test_the_cells_that_are_played_hold_the_loads_of_the_questions() -> None:
    played = [cell.source for cell in code_cells(source(NAME)) if cell.source.startswith("play(")]
    names = {"play": lambda recording: recording, "record": lambda load: load, "Load": Load, "Arrival": Arrival}
    resumed, duplicates = (eval(code, dict(names)) for code in played)
    assert (resumed, duplicates) == (LOADS["resumed"], prefix_match.DUPLICATES)
    assert all(len(record(load).frames) > 2 for load in (resumed, duplicates))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_prose_of_the_resumed_load_gives_its_numbers(language: str) -> None:
    load = LOADS["resumed"]
    (text,) = [t for t in prose(NAME, language) if re.match(r"## (A hit with outputs|带着输出的命中)", t)]
    a, b = (arrival.prompt for arrival in load.arrivals)
    known = next(row[2] for row in lookup_rows("resumed") if row[0] > 0)
    assert list(map(int, re.findall(r"\d+", text))) == [a, b, load.blocks - 1, load.block_size, known, known // 4]


def test_numbers_in_the_explanations_are_the_engines() -> None:
    text = "\n".join(prose(NAME, "en"))
    tables = {
        size: serve(Scheduler(EngineConfig(cache=CacheConfig(block_size=size))), "r", range(1000)) for size in (16, 64)
    }
    assert f"1000 tokens are {len(tables[16].table)} blocks of 16 or {len(tables[64].table)} blocks of 64" in text
    hits = QUESTIONS["full_hit"].answer().actual
    assert [name for name, hit in hits.items() if hit == int(name) - 1] == ["17", "65"]
    assert "only 17 and 65 come out at their length less 1" in text
    assert f"65 hits {QUESTIONS['eagle'].answer().actual['65']}" in text


def test_the_notebook_treats_its_claims() -> None:
    cells = [cell for cell in source(NAME).cells if cell.metadata.get("lang") == "en"]
    treated = {claim for cell in cells for claim in cell.metadata.get("minivllm", {}).get("claims", [])}
    assert treated == {7, 8, 9, 10, 11, 16, 17, 26, 27, 28, 29, 30, 35, 37}


def test_q2_is_graded_by_a_person_like_q1() -> None:
    def answers(name: str, grade_id: str) -> list[tuple[Any, Any]]:
        cells = [c for c in source(name).cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id]
        return [(c.metadata.nbgrader | {"grade_id": ""}, c.metadata.minivllm.stub) for c in cells]

    assert answers(NAME, "q2_answer") == answers("1-budget-planner", "q1_answer")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_criteria_stand_beside_q2_word_for_word_as_beside_q1(language: str) -> None:
    def criteria(name: str, question: str) -> list[str]:
        (text,) = [t for t in prose(name, language) if t.startswith(f"## {question}")]
        return [line for line in text.splitlines() if line.startswith("- ")]

    assert criteria(NAME, "Q2") == criteria("1-budget-planner", "Q1")
    assert len(criteria(NAME, "Q2")) == 4
