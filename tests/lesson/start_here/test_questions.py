"""The questions of 0-start-here and the numbers in its prose are the engine's."""

import re
from typing import Any

import pytest

from minivllm.kv_bill import GIB, GPUS, MODELS
from minivllm.lesson.common.load import Arrival, Load
from minivllm.lesson.common.run import Run, record
from minivllm.lesson.start_here import questions as start_here
from tests.lesson.notebooks import LANGUAGES, prose, source
from tests.lesson.start_here.notebook import NAME, cell


def test_the_engine_settles_what_the_lessons_figure_gets_wrong() -> None:
    actual = {question.name: dict(question.answer().actual) for question in start_here.QUESTIONS}
    assert actual == {
        "first_served": {"first": "A"},
        "refused_admission": {"A": "runs", "B": "waits"},
        "refused_growth": {"A": "runs", "B": "is preempted", "C": "waits"},
        "kv_growth": {"context x 2": 2, "requests x 2": 2, "both x 2": 4},
        "more_than_weights": {"Llama-3-8B": 15, "SmolLM2-135M": 2},
        "full_pool": {"a request is preempted": "yes", "the KV tensors grow": "no", "a request is lost": "no"},
    }


def test_c_would_have_fitted_into_what_the_victim_gave_back() -> None:
    run = Run(start_here.REFUSED_GROWTH)
    run.step()
    step = run.step()
    assert step.output.preempted_req_ids == ["B"] and "C" not in step.scheduled
    assert step.free_blocks == 0 and step.free_blocks_after >= 1  # C's 3 tokens need one block of 4


@pytest.mark.parametrize(
    ("question", "numbers"),
    [
        ("first_served", {start_here.FIRST_SERVED.budget, 20, 8, 1}),
        ("refused_admission", {6, 4, 12, start_here.REFUSED_ADMISSION.budget}),
        ("refused_growth", {12, 3}),
        ("kv_growth", {start_here.CONTEXT, 16}),
        ("full_pool", {start_here.POOL, 4, start_here.PROMPT, start_here.OUTPUTS, 96}),
    ],
)
def test_the_prose_before_a_prediction_gives_the_numbers_of_its_load(question: str, numbers: set[int]) -> None:
    cells = source(NAME).cells
    place = next(i for i, c in enumerate(cells) if c.source.startswith(f'predict("{question}"'))
    for before in cells[place - 2 : place]:
        last_paragraph = before.source.split("\n\n")[-1]
        assert numbers <= set(map(int, re.findall(r"\d+", last_paragraph))), before.metadata.lang


@pytest.mark.parametrize("load", [start_here.REFUSED_ADMISSION, start_here.REFUSED_GROWTH])
def test_the_pool_of_the_predictions_has_six_usable_blocks_of_four(load: Load) -> None:
    assert (load.blocks - 1, load.block_size, load.budget) == (6, 4, 32)
    assert {arrival.prompt for arrival in load.arrivals if arrival.request_id in "AB"} == {12}


@pytest.mark.parametrize("language", LANGUAGES)
def test_numbers_of_the_bill_in_the_prose_are_the_configs(language: str) -> None:
    text = "\n".join(prose(NAME, language))
    llama, smollm = MODELS["Llama-3-8B"], MODELS["SmolLM2-135M"]
    for tokens in map(llama.tokens_that_fit, GPUS.values()):
        assert f"{tokens:,}" in text
    assert f"{llama.weight_bytes / GIB:.2f} GiB" in text and f"{smollm.weight_bytes / GIB:.2f} GiB" in text
    assert f"{GPUS['141 GB'] / GIB:.2f} GiB" in text
    shape = rf"{smollm.num_hidden_layers}\D+{smollm.num_key_value_heads} .*`head_dim`\D+{smollm.head_dim}\b"
    assert re.search(shape, text)


def test_the_demonstration_of_the_lesson_is_recorded_as_four_and_four() -> None:
    names: dict[str, Any] = {"Arrival": Arrival, "Load": Load, "record": record, "play": lambda recording: None}
    exec(cell("demonstration = ["), names)
    frame = names["recording"].frames[1]
    assert dict(frame.handed_out) == {"A": 4, "B": 4} and frame.left == 0
    (request, _) = frame.requests
    assert (request.computed, request.target, request.drafts, frame.budget) == (6, 10, 3, 8)


def test_the_first_generation_shows_waiting_chunks_hits_and_a_preemption_whatever_the_text() -> None:
    code = cell("from minivllm import LLM")
    setting = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", code)}
    arrivals = [Arrival(name, prompt=35, shared=16, max_tokens=40) for name in "012"]
    load = Load(arrivals, setting["max_num_batched_tokens"], blocks=setting["num_gpu_blocks_override"], block_size=16)
    frames = record(load).frames
    assert any(frame.preempted for frame in frames) and any(frame.hits for frame in frames)
    assert frames[0].waiting and frames[0].requests[0].remaining
    assert "for three conversations" in "\n".join(prose(NAME, "en"))
