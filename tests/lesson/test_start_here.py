"""The notebook 0-start-here: its map is the engine's, its bill is the configs', and it runs without the weights too."""

import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from minivllm.core.sched.scheduler import Scheduler
from minivllm.engine.runner import kv_bytes_per_token
from minivllm.kv_bill import GIB, GPUS, MODELS, ModelShape
from minivllm.lesson.common.errors import LessonError
from minivllm.lesson.common.load import Arrival, Load
from minivllm.lesson.common.run import Run, record
from minivllm.lesson.outcome import ______
from minivllm.lesson.start_here import questions as start_here
from minivllm.lesson.start_here.call_record import FUNCTIONS, STATES, call_record
from minivllm.lesson.start_here.check_call_map import call_graph, check_callers, check_owners
from minivllm.lesson.start_here.check_kv_bytes import check_kv_bytes_per_token
from minivllm.lesson.start_here.first_run import doctor, needs_weights, tiny_engine
from minivllm.model.config import LlamaConfig
from minivllm.model.errors import ModelError
from tests.lesson.notebooks import LANGUAGES, code_cells, execute, printed, prose, solved, source

NAME = "0-start-here"


def cell(start: str) -> str:
    """The code cell that begins so, without the marks around an answer."""
    found = [
        c.source.replace("### BEGIN SOLUTION\n", "").replace("### END SOLUTION", "") for c in code_cells(source(NAME))
    ]
    return next(str(text) for text in found if text.startswith(start))


def defined(start: str) -> Any:
    """What that cell defines."""
    names: dict[str, Any] = {}
    exec(cell(start), names)
    return names[start.removeprefix("def ").split("(")[0].split(" ")[0]]


# --- the bill -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "weight_bytes", "kv_bytes"),
    [
        ("Llama-3-8B", 16_060_522_496, 131_072),
        ("Llama-3.1-70B", 141_107_412_992, 327_680),
        ("Qwen2.5-7B", 15_231_233_024, 57_344),
        ("SmolLM2-135M", 269_030_016, 23_040),
    ],
)
def test_weights_and_tokens_cost_what_the_published_checkpoints_say(
    model: str, weight_bytes: int, kv_bytes: int
) -> None:
    assert (MODELS[model].weight_bytes, MODELS[model].kv_bytes_per_token()) == (weight_bytes, kv_bytes)


def llama_config(shape: ModelShape) -> LlamaConfig:
    return LlamaConfig(
        shape.vocab_size, shape.hidden_size, shape.intermediate_size, shape.num_hidden_layers,
        shape.num_attention_heads, shape.num_key_value_heads, shape.head_dim, shape.max_position_embeddings,
        1e-5, 10000.0, shape.tie_word_embeddings,
    )  # fmt: skip


@pytest.mark.parametrize("model", [name for name, shape in MODELS.items() if not shape.attention_bias])
def test_the_bill_is_the_engines(model: str) -> None:
    shape, config = MODELS[model], llama_config(MODELS[model])
    assert shape.kv_bytes_per_token() == kv_bytes_per_token(config, torch.bfloat16)
    assert shape.kv_bytes_per_token("float32") == kv_bytes_per_token(config, torch.float32)
    sizes = (torch.Size(size).numel() for size in config.weight_shapes().values())
    assert shape.num_parameters == sum(sizes)


def test_an_engines_pool_is_as_large_as_the_bill_says() -> None:
    engine = tiny_engine(blocks=9, block_size=4)
    config = engine.runner.model.config
    assert sum(cache.nbytes for cache in engine.runner.kv_caches) == 10 * 4 * kv_bytes_per_token(config, torch.float32)


def test_what_fits_beside_the_weights() -> None:
    assert [MODELS["Llama-3-8B"].tokens_that_fit(size) for size in GPUS.values()] == [74075, 205147, 532827, 953212]
    assert [MODELS["Llama-3.1-70B"].tokens_that_fit(size) for size in GPUS.values()] == [0, 0, 0, 0]


WRONG_BILLS: list[tuple[str, Callable[..., Any], str]] = [
    ("hard-coded", lambda layers, heads, dim, size: 131072, "this is Llama-3-8B's number"),
    ("no value", lambda layers, heads, dim, size: layers * heads * dim * size, "a token stores a key and a value"),
    ("elements", lambda layers, heads, dim, size: 2 * layers * heads * dim, "this counts elements"),
    ("one layer", lambda layers, heads, dim, size: 2 * heads * dim * size, "every layer keeps keys and values"),
    ("one head", lambda layers, heads, dim, size: 2 * layers * dim * size, "this is one KV head"),
    ("bits", lambda layers, heads, dim, size: 16 * layers * heads * dim * size, "these are bits"),
    ("KiB", lambda layers, heads, dim, size: 2 * layers * heads * dim * size / 1024, "these are KiB: return bytes"),
    ("float", lambda layers, heads, dim, size: 2.0 * layers * heads * dim * size, "it is a float"),
    ("nothing", lambda layers, heads, dim, size: None, "it returns a whole number of bytes"),
    ("text", lambda layers, heads, dim, size: "128 KiB", "it returns a whole number of bytes"),
    ("raises", lambda layers, heads, dim, size: 1 / 0, "ZeroDivisionError: division by zero"),
    ("takes too few", lambda layers: 1, "TypeError"),
    ("blank", lambda layers, heads, dim, size: ______, "the blank ______ is not filled in"),
    ("blank used", lambda layers, heads, dim, size: layers * ______, "the blank ______ is not filled in"),
]


@pytest.mark.parametrize(("function", "told"), [w[1:] for w in WRONG_BILLS], ids=[w[0] for w in WRONG_BILLS])
def test_a_wrong_bill_is_told_by_the_idea_behind_it(
    function: Callable[..., Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check_kv_bytes_per_token(function)
    assert told in capsys.readouterr().out


def test_the_answer_passes_and_says_128_kib(capsys: pytest.CaptureFixture[str]) -> None:
    check_kv_bytes_per_token(defined("def kv_bytes_per_token"))
    assert capsys.readouterr().out == (
        "kv_bytes_per_token: ok, 4 models; Llama-3-8B in bfloat16 takes 131,072 bytes, 128 KiB a token\n"
    )


# --- the map ------------------------------------------------------------------------------------------------------


def test_the_recorded_call_graph_is_the_one_of_the_source() -> None:
    ways = {function: set(call_record().callers(function)) for function in FUNCTIONS}
    assert ways == {
        "Scheduler.add_request": set(),
        "Scheduler.schedule": set(),
        "Scheduler.update_from_output": set(),
        "Scheduler._preempt_request": {"Scheduler.schedule"},
        "KVCacheManager.get_computed_blocks": {"Scheduler.schedule"},
        "KVCacheManager.allocate_slots": {"Scheduler.schedule"},
        "KVCacheManager.free": {"Scheduler._preempt_request", "Scheduler.update_from_output"},
        "BlockPool.get_cached_block": {"KVCacheManager.get_computed_blocks"},
        "BlockPool.touch": {"KVCacheManager.allocate_slots"},
        "BlockPool.get_new_blocks": {"KVCacheManager.allocate_slots"},
        "BlockPool.cache_full_blocks": {"KVCacheManager.allocate_slots"},
        "BlockPool.free_blocks": {"KVCacheManager.free"},
    }


def test_calls_are_counted_as_the_scheduler_made_them() -> None:
    calls = call_record().calls
    assert calls["Scheduler.schedule",] == calls["Scheduler.update_from_output",] > 0
    assert calls["Scheduler.add_request",] == 2
    assert calls["Scheduler.schedule", "Scheduler._preempt_request"] == 1
    assert calls["Scheduler.update_from_output", "KVCacheManager.free"] == 2


def test_states_are_found_where_they_are_and_changed_by_whom_they_are() -> None:
    record = call_record()
    assert {state: record.holders[state].name for state in STATES} == {
        "running": "Scheduler",
        "num_computed_tokens": "Request",
        "req_to_blocks": "FullAttentionManager",
        "ref_cnt": "KVCacheBlock",
        "block_hash": "KVCacheBlock",
        "free_block_queue": "BlockPool",
    }
    assert {state: set(record.writers[state]) for state in STATES} == {
        "running": {"Scheduler.schedule", "Scheduler.update_from_output"},
        "num_computed_tokens": {"Scheduler.schedule", "Scheduler._preempt_request", "Scheduler.update_from_output"},
        "req_to_blocks": {"KVCacheManager.allocate_slots", "KVCacheManager.free"},
        "ref_cnt": {"BlockPool.get_new_blocks", "BlockPool.touch", "BlockPool.free_blocks"},
        "block_hash": {"BlockPool.cache_full_blocks", "BlockPool.get_new_blocks"},
        "free_block_queue": {"BlockPool.get_new_blocks", "BlockPool.touch", "BlockPool.free_blocks"},
    }


def test_watching_leaves_no_profiler_behind_and_keeps_one_that_was_there() -> None:
    call_record.cache_clear()
    seen: list[str] = []
    mine = lambda frame, event, arg: seen.append(event)  # noqa: E731
    sys.setprofile(mine)
    try:
        call_record()
        assert sys.getprofile() is mine
    finally:
        sys.setprofile(None)
    assert threading.getprofile() is None


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"BlockPool.touch": "KVCacheManager.get_computed_blocks"}, "the lookup changes no ref count"),
        ({"BlockPool.get_new_blocks": "Scheduler.schedule"}, "the scheduler never takes a block itself"),
        ({"BlockPool.free_blocks": "Scheduler._preempt_request"}, "the scheduler never gives a block back itself"),
        ({"KVCacheManager.free": "KVCacheManager.allocate_slots"}, "a failed allocation frees nobody"),
        ({"KVCacheManager.free": "nobody"}, "(Scheduler.update_from_output or Scheduler._preempt_request)"),
        ({"KVCacheManager.allocate_slots": 7}, "write one of the twelve names, in quotes"),
        ({"KVCacheManager.allocate_slots": ["Scheduler.schedule"]}, "write one of the twelve names, in quotes"),
        ({"KVCacheManager.allocate_slots": "schedule"}, "write one of the twelve names, in quotes"),
        ({"KVCacheManager.allocate_slots": Scheduler.schedule}, "write one of the twelve names, in quotes"),
        ({"BlockPool.touch": ______}, "BlockPool.touch: replace every ______ by a name"),
    ],
)
def test_a_wrong_caller_is_told_by_what_was_seen(
    entry: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check_callers(entry)
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"ref_cnt": ("BlockPool", "BlockPool.touch")}, "the live KVCacheBlock has it as an attribute of its own"),
        ({"ref_cnt": ("KVCacheBlock", "KVCacheManager.get_computed_blocks")}, "in the run it changed during"),
        ({"running": ("KVCacheManager", "Scheduler.schedule")}, "the live Scheduler has it"),
        ({"running": "Scheduler"}, "two names: who holds it, what changes it"),
        ({"running": (1, None)}, "the live Scheduler has it"),
        ({"running": ("Scheduler", ______)}, "running: replace every ______ by a name"),
        ({"running": ______}, "running: replace every ______ by a name"),
    ],
)
def test_a_wrong_owner_is_told_by_the_live_objects(
    entry: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check_owners(entry)
    assert told in capsys.readouterr().out


def test_a_base_class_of_the_holder_is_right_too(capsys: pytest.CaptureFixture[str]) -> None:
    check_owners({"req_to_blocks": ("SingleTypeKVCacheManager", "KVCacheManager.free")})
    assert "differs" not in capsys.readouterr().out
    check_owners({"req_to_blocks": ("KVCacheManager", "KVCacheManager.free")})
    assert "the live FullAttentionManager has it" in capsys.readouterr().out


@pytest.mark.parametrize("check", [check_callers, check_owners])
def test_an_entry_that_the_run_does_not_know_is_refused(check: Callable[..., None]) -> None:
    with pytest.raises(LessonError, match=r"has an entry 'BlockPool.steal', but the run knows .*: keep the keys"):
        check({"BlockPool.steal": "me"})


def test_the_answers_of_the_map_pass(capsys: pytest.CaptureFixture[str]) -> None:
    check_callers(defined("called_by = {"))
    check_owners(defined("owners = {"))
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 6 + 12 and all(": ok, " in line for line in told)


def test_the_graph_is_shown_with_the_functions_that_the_notebook_names() -> None:
    shown = [str(row[0]).strip() for row in call_graph().rows]
    assert set(shown) == set(FUNCTIONS)
    for language in LANGUAGES:
        text = next(text for text in prose(NAME, language) if "`BlockPool.cache_full_blocks`" in text)
        assert set(re.findall(r"`(\w+\.\w+)`", text)) - {"Class.function"} == set(FUNCTIONS)
        assert len(FUNCTIONS) == 12 and ("twelve" in text or "十二" in text)


# --- the questions and the numbers in the prose -------------------------------------------------------------------


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


# --- the machine --------------------------------------------------------------------------------------------------


def test_the_doctor_speaks_in_the_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    doctor()
    told = capsys.readouterr().out
    assert re.search(r"^ok Python", told) and re.search(r"^(ok|--) weights", told, re.MULTILINE)


def test_missing_weights_end_the_block_with_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with needs_weights():
        raise ModelError("They are not here: go online once.")
    told = capsys.readouterr().out
    assert told == "This cell needs the model's weights, the other cells don't. They are not here: go online once.\n"


def test_any_other_error_in_the_block_is_raised() -> None:
    with pytest.raises(ValueError, match="mine"), needs_weights():
        raise ValueError("mine")


def test_without_weights_and_network_every_cell_runs_and_the_players_show_the_demonstration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIVLLM_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    cells = {c.source: c for c in code_cells(execute(solved(NAME, "en"), tmp_path))}
    assert "-- weights" in printed(cells["doctor()"])
    loading = next(c for text, c in cells.items() if text.startswith("from minivllm import LLM"))
    told = re.sub(r"^Output\(\)$", "", printed(loading), flags=re.MULTILINE).strip()
    assert told.startswith("This cell needs the model's weights, the other cells don't.") and "\n" not in told
    assert "go online once, or give the path" in told
    assert printed(cells["timeline(recording)"]).startswith("2 requests over 6 steps. A: prefill 0")


def test_importing_the_lesson_loads_no_torch_matplotlib_or_widgets() -> None:
    code = (
        "import sys; from minivllm.lesson import *; print(*{'torch', 'matplotlib', 'ipywidgets'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
