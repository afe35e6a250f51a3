"""The lesson's claims about performance, measured on the real model: every run, the median and the spread.

The settings of one measurement take turns, so that a machine which is slow for a while is slow for all of them.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from minivllm.lesson.common.table import Table, show

if TYPE_CHECKING:
    from minivllm.engine.llm_engine import LLMEngine
    from minivllm.model.loader import LoadedModel

CHUNK_PROMPT, CHUNK_BUDGETS, CHUNK_DECODES = 160, (256, 64, 32), 2
PREFIX_SHARED, PREFIX_OWN = 160, 16
BLOCK_SIZES = (8, 16, 32, 64)
NO_MODEL = "There is no model here, so nothing is measured; the other cells work without it."


@dataclass(frozen=True)
class Measured:
    """Measurements in seconds by label, and a table that says what each label cost; shows itself as both."""

    title: str
    seconds: Mapping[str, Sequence[float]]
    table: Table

    def __repr__(self) -> str:
        return repr(self.table)

    def _repr_html_(self) -> str:
        from minivllm.viz.figures import latency_figure, to_html

        return to_html(latency_figure(self.seconds, title=self.title)) + self.table._repr_html_()


def real_model() -> LoadedModel | None:
    """SmolLM2-135M-Instruct on the GPU if there is one, else on the CPU; None, and one sentence, if it can't be had.

    On a CPU one core is left to everything else: threads that wait for a busy core make every measurement noise.
    """
    import torch

    from minivllm.bench.machine import where_and_when
    from minivllm.lesson.on_the_gpu.in_engine import engine_kernels
    from minivllm.model.errors import ModelError
    from minivllm.model.loader import default_device, load_model

    device = default_device()
    try:
        loaded = load_model(device=device, backend=engine_kernels(device).backend)
    except ModelError as error:
        show(f"{error} {NO_MODEL}")
        return None
    torch.set_num_threads(max(1, min(torch.get_num_threads(), (os.cpu_count() or 1) - 1)))
    place = torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU threads: {torch.get_num_threads()}"
    dtype = str(loaded.model.model.embed_tokens.weight.dtype).removeprefix("torch.")
    show(f"SmolLM2-135M-Instruct, {dtype}; {place}; {where_and_when()['machine']}")
    return loaded


def measure_chunks(loaded: LoadedModel | None, *, prompt: int = CHUNK_PROMPT, runs: int = 3) -> Measured | None:
    """Two decodes run when a long prompt arrives: every gap between two of their tokens until its first token."""
    if loaded is None:
        show(NO_MODEL)
        return None
    plain: list[float] = []
    gaps: dict[int, list[list[float]]] = {budget: [] for budget in CHUNK_BUDGETS}
    for budget in CHUNK_BUDGETS:
        _gaps_while_a_prompt_arrives(loaded, 40, budget, runs)  # warms up and is not counted
    for run in range(runs):
        for budget in CHUNK_BUDGETS:
            before, during = _gaps_while_a_prompt_arrives(loaded, prompt, budget, run)
            plain += before
            gaps[budget].append(during)
    rows = [
        (
            budget,
            len(gaps[budget][0]),
            spread([max(run) for run in gaps[budget]]),
            ratios([max(run) for run in gaps[budget]], [max(run) for run in gaps[CHUNK_BUDGETS[0]]]),
            spread([sum(run) for run in gaps[budget]]),
            ratios([sum(run) for run in gaps[budget]], [sum(run) for run in gaps[CHUNK_BUDGETS[0]]]),
        )
        for budget in CHUNK_BUDGETS
    ]
    columns = (
        "token budget",
        "steps to the first token",
        "longest gap of a decode",
        "ratio",
        "TTFT of the prompt",
        "ratio",
    )
    return Measured(
        f"Gaps of {CHUNK_DECODES} decodes while a prompt of {prompt} tokens is computed",
        {"no prompt": plain}
        | {f"budget {budget}": [gap for run in gaps[budget] for gap in run] for budget in CHUNK_BUDGETS},
        Table(
            columns,
            [("no prompt", "", spread(plain), "", "", ""), *rows],
            note=_note(runs, f"budget {CHUNK_BUDGETS[0]}"),
        ),
    )


def _gaps_while_a_prompt_arrives(
    loaded: LoadedModel, length: int, budget: int, run: int
) -> tuple[list[float], list[float]]:
    """Seconds of decode steps before the prompt arrives, and of the steps until its first token."""
    from minivllm.bench.schedule_effects import greedy, make_engine, prompt

    engine = make_engine(loaded.model, max_num_batched_tokens=budget)
    for i in range(CHUNK_DECODES):
        engine.add_request(f"decode{i}", prompt(loaded.model, 16, 1000 + 10 * run + i), greedy(1000))
    engine.step()
    before = [_seconds(engine.step) for _ in range(2)]
    engine.add_request("long", prompt(loaded.model, length, 2000 + run), greedy(1))
    during = []
    while "long" in engine.scheduler.requests:
        during.append(_seconds(engine.step))
    return before, during


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure_prefix_hit(loaded: LoadedModel | None, *, runs: int = 4) -> Measured | None:
    """TTFT of a prompt whose first tokens are cached, beside one of the same length that nobody has sent before."""
    if loaded is None:
        show(NO_MODEL)
        return None
    from minivllm.bench.schedule_effects import make_engine, prompt

    engine = make_engine(loaded.model)
    ttft: dict[str, list[float]] = {"cold": [], "hit": []}
    _first_token(engine, "warm up", prompt(loaded.model, PREFIX_SHARED, 2999))  # not counted
    for run in range(runs):
        shared, cold = prompt(loaded.model, PREFIX_SHARED, 3000 + run), prompt(loaded.model, PREFIX_SHARED, 4000 + run)
        own = [prompt(loaded.model, PREFIX_OWN, 5000 + 10 * run + i) for i in range(3)]
        _first_token(engine, f"before {run}", shared + own[0])
        for label, tokens in (("cold", cold + own[1]), ("hit", shared + own[2])):
            ttft[label].append(_first_token(engine, f"{label} {run}", tokens))
    length = PREFIX_SHARED + PREFIX_OWN
    computed = {"cold": length, "hit": PREFIX_OWN}
    rows = [(label, computed[label], spread(ttft[label]), ratios(ttft[label], ttft["cold"])) for label in ttft]
    return Measured(
        f"Time to first token of a prompt of {length} tokens",
        ttft,
        Table(("prompt", "tokens computed", "TTFT", "ratio"), rows, note=_note(runs, "cold")),
    )


def _first_token(engine: LLMEngine, request_id: str, tokens: list[int]) -> float:
    from minivllm.bench.schedule_effects import greedy

    start = time.perf_counter()
    engine.add_request(request_id, tokens, greedy(1))
    while engine.has_unfinished_requests():
        engine.step()
    return time.perf_counter() - start


def measure_block_sizes(
    loaded: LoadedModel | None, *, context: int = 96, requests: int = 4, runs: int = 10
) -> Measured | None:
    """A decode step of some requests at each block size, and what the block size costs on the CPU."""
    if loaded is None:
        show(NO_MODEL)
        return None
    engines = {size: _decoding(loaded, size, context, requests, runs) for size in BLOCK_SIZES}
    steps: dict[int, list[float]] = {size: [] for size in BLOCK_SIZES}
    for run in range(-1, runs):
        for size, engine in engines.items():
            seconds = _seconds(engine.step)
            if run >= 0:
                steps[size].append(seconds)
    hashing = {size: [_hash_seconds(1024, size) for _ in range(5)] for size in BLOCK_SIZES}
    rows = [
        (size, spread(steps[size]), ratios(steps[size], steps[16]), -(-1000 // size), spread(hashing[size]))
        for size in BLOCK_SIZES
    ]
    columns = ("block size", "decode step", "ratio", "table entries of 1000 tokens", "hashing 1024 tokens")
    return Measured(
        f"A step of {requests} decodes with {context} tokens of context",
        {f"block size {size}": steps[size] for size in BLOCK_SIZES},
        Table(columns, rows, note=_note(runs, "block size 16")),
    )


def _decoding(loaded: LoadedModel, size: int, context: int, requests: int, runs: int) -> LLMEngine:
    """An engine in which every request has computed its prompt."""
    from minivllm.bench.schedule_effects import greedy, make_engine, prompt

    engine = make_engine(loaded.model, blocks=requests * (-(-(context + runs + 8) // size)) + 1, block_size=size)
    for i in range(requests):
        engine.add_request(str(i), prompt(loaded.model, context, 6000 + i), greedy(runs + 8))
    live = engine.scheduler.requests.values()
    while not all(request.num_output_tokens for request in live):
        engine.step()
    return engine


def _hash_seconds(tokens: int, size: int) -> float:
    from minivllm.core.kv_cache_utils import hash_block_tokens

    parent, token_ids = None, list(range(tokens))
    start = time.perf_counter()
    for begin in range(0, tokens - tokens % size, size):
        parent = hash_block_tokens(parent, token_ids[begin : begin + size])
    return time.perf_counter() - start


def spread(seconds: Sequence[float]) -> str:
    """The median with the smallest and the largest run."""
    scale, unit = (1, "s") if max(seconds) >= 1 else (1000, "ms")
    low, middle, high = (scale * value for value in (min(seconds), statistics.median(seconds), max(seconds)))
    return f"{middle:.3g} {unit} ({low:.3g}-{high:.3g})"


def ratios(seconds: Sequence[float], baseline: Sequence[float]) -> str:
    """The ratio of medians with the smallest and the largest ratio of one turn."""
    each = [one / other for one, other in zip(seconds, baseline, strict=True)]
    middle = statistics.median(seconds) / statistics.median(baseline)
    return f"{middle:.2f} ({min(each):.2f}-{max(each):.2f})"


def _note(runs: int, baseline: str) -> str:
    return f"median of {runs} runs (smallest-largest); ratios are to {baseline}, run by run"
