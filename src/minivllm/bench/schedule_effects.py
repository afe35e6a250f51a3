"""``minivllm bench schedule-effects``: the lesson's claims about performance, measured as ratios on the real model.

Each claim is a row of settings that run in turn, several times; what is reported is the ratio of medians, with the
smallest and largest ratio of a turn beside it. Absolute times belong to one machine; the lesson quotes the direction.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from minivllm.bench.machine import device_and_dtype, percentile, where_and_when
from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig
from minivllm.engine.llm_engine import LLMEngine
from minivllm.model.llama import LlamaForCausalLM
from minivllm.model.loader import load_model
from minivllm.observe.recorder import StepCounter
from minivllm.request import SamplingParams


@dataclass(frozen=True)
class Effect:
    """One claim.

    Attributes:
        baseline: the setting that the others are divided by.
        measure: for a setting its numbers, by name.
    """

    name: str
    claim: str
    settings: tuple[str, ...]
    baseline: str
    measure: Callable[[LlamaForCausalLM, str, int], dict[str, float]]


def make_engine(model: LlamaForCausalLM, blocks: int = 1024, block_size: int = 16, **scheduler: Any) -> LLMEngine:
    max_model_len = min(2048, model.config.max_position_embeddings)
    defaults = {"max_num_batched_tokens": 2048, "max_num_seqs": 64, "max_model_len": max_model_len}
    config = EngineConfig(SchedulerConfig(**defaults | scheduler), CacheConfig(block_size, blocks + 1))
    return LLMEngine(model, None, config)


def prompt(model: LlamaForCausalLM, length: int, seed: int) -> list[int]:
    """Random tokens of the model's vocabulary."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, model.config.vocab_size, (length,), generator=generator).tolist()


def greedy(max_tokens: int) -> SamplingParams:
    return SamplingParams(max_tokens=max_tokens, temperature=0.0, ignore_eos=True)


def chunked_prefill(model: LlamaForCausalLM, setting: str, run: int) -> dict[str, float]:
    """Four decodes run when a prompt of 1,024 tokens arrives: their ITL until its first token, and its wait.

    Until then there are fewer than 100 gaps, so that their p99 is the longest.
    """
    chunk = {"whole prompt": 2048, "chunks of 256": 256, "chunks of 64": 64}[setting]
    engine = make_engine(model, max_num_batched_tokens=chunk, enable_chunked_prefill=chunk < 2048)
    for i in range(4):
        engine.add_request(f"decode{i}", prompt(model, 32, 100 * run + i), greedy(200))
    for _ in range(8):
        engine.step()
    start = last = time.perf_counter()
    engine.add_request("long", prompt(model, 1024, 100 * run + 50), greedy(2))
    gaps = []
    while True:
        outputs = engine.step()
        now = time.perf_counter()
        gaps.append(now - last)
        last = now
        if any(output.request_id == "long" for output in outputs):
            return {"itl_p99_s": percentile(gaps, 99), "ttft_s": now - start}


def prefix_hit(model: LlamaForCausalLM, setting: str, run: int) -> dict[str, float]:
    """A prompt of 512 tokens, of which 480 are in the cache or none."""
    engine = make_engine(model)
    shared = prompt(model, 480, 100 * run)
    before = shared if setting == "hit" else prompt(model, 480, 100 * run + 1)
    engine.add_request("before", before + prompt(model, 32, 100 * run + 2), greedy(1))
    while engine.has_unfinished_requests():
        engine.step()
    start = time.perf_counter()
    engine.add_request("now", shared + prompt(model, 32, 100 * run + 3), greedy(1))
    engine.step()
    return {"ttft_s": time.perf_counter() - start}


def admission(model: LlamaForCausalLM, setting: str, run: int) -> dict[str, float]:
    """Twelve requests of 192 + 32 tokens in a pool that holds two and a half: what is computed twice, what gets done.

    A step computes 64 tokens: a prompt takes three, so that without the gate one is admitted whose end finds no block.
    """
    engine = make_engine(
        model,
        blocks=36,
        max_num_batched_tokens=64,
        max_num_seqs=16,
        scheduler_reserve_full_isl="gate" in setting,
        watermark=0.1 if "watermark" in setting else 0.0,
    )
    counter = StepCounter(engine.scheduler)
    for i in range(12):
        engine.add_request(str(i), prompt(model, 192, 100 * run + i), greedy(32))
    start = time.perf_counter()
    while engine.has_unfinished_requests():
        engine.step()
    seconds = time.perf_counter() - start
    return {
        "goodput_tokens_per_s": 12 * 32 / seconds,
        "recomputed_tokens": counter.scheduled_tokens - 12 * (192 + 32 - 1),
        "preemptions": counter.preemptions,
        "steps": counter.steps,
    }


def block_size(model: LlamaForCausalLM, setting: str, run: int) -> dict[str, float]:
    """Eight decodes with 512 tokens of context each: the median step."""
    size = int(setting)
    engine = make_engine(model, blocks=8192 // size, block_size=size)
    for i in range(8):
        engine.add_request(str(i), prompt(model, 512, 100 * run + i), greedy(14))
    while any(
        request.is_prefill_chunk or not request.num_output_tokens for request in engine.scheduler.requests.values()
    ):
        engine.step()
    times = []
    while engine.has_unfinished_requests():
        start = time.perf_counter()
        engine.step()
        times.append(time.perf_counter() - start)
    return {"step_s": statistics.median(times)}


EFFECTS = (
    Effect(
        "chunked prefill",
        "a long prompt in chunks shortens the longest gap of running decodes, and waits longer for its own first token",
        ("whole prompt", "chunks of 256", "chunks of 64"),
        "whole prompt",
        chunked_prefill,
    ),
    Effect("prefix hit", "a cached prefix shortens the time to the first token", ("cold", "hit"), "cold", prefix_hit),
    Effect(
        "admission",
        "the full-sequence gate and the watermark trade recomputed tokens for steps",
        ("none", "watermark", "gate", "gate and watermark"),
        "none",
        admission,
    ),
    Effect("block size", "the cost of a decode step at block sizes 8 to 64", ("8", "16", "32", "64"), "16", block_size),
)


def bench_schedule_effects(model: str, runs: int, threads: int | None, report: Callable[[str], None]) -> dict[str, Any]:
    """Measures every effect ``runs`` times, the settings in turn; ``report`` gets each finished line."""
    if threads is not None:
        torch.set_num_threads(threads)
    loaded = load_model(model)
    results = []
    for effect in EFFECTS:
        turns: dict[str, list[dict[str, float]]] = {setting: [] for setting in effect.settings}
        for run in range(runs):
            for setting in effect.settings:
                turns[setting].append(effect.measure(loaded.model, setting, run))
        rows = [_row(setting, turns[setting], turns[effect.baseline]) for setting in effect.settings]
        results.append({"effect": effect.name, "claim": effect.claim, "baseline": effect.baseline, "rows": rows})
        for line in format_effect(results[-1]):
            report(line)
    return {
        **where_and_when(),
        **device_and_dtype(loaded.model),
        "threads": torch.get_num_threads(),
        "model": model,
        "runs": runs,
        "versions": [f"torch {torch.__version__}"],
        "results": results,
    }


def _row(setting: str, own: list[dict[str, float]], baseline: list[dict[str, float]]) -> dict[str, Any]:
    row: dict[str, Any] = {"setting": setting}
    for name in own[0]:
        median = statistics.median(run[name] for run in own)
        base = statistics.median(run[name] for run in baseline)
        ratios = [mine[name] / theirs[name] for mine, theirs in zip(own, baseline, strict=True) if theirs[name]]
        row[name] = {"median": round(median, 4)}
        if base and ratios:
            row[name] |= {
                "ratio": round(median / base, 3),
                "ratio_range": [round(min(ratios), 3), round(max(ratios), 3)],
            }
    return row


def format_effect(result: dict[str, Any]) -> Iterator[str]:
    """Lines of a table: medians, and ratios to the baseline."""
    yield f"{result['effect']}: {result['claim']} (ratios to {result['baseline']!r})"
    for row in result["rows"]:
        cells = []
        for name, cell in row.items():
            if name != "setting":
                ratio = (
                    f" ({cell['ratio']:.2f}, {cell['ratio_range'][0]:.2f}-{cell['ratio_range'][1]:.2f})"
                    if "ratio" in cell
                    else ""
                )
                cells.append(f"{name} {cell['median']:g}{ratio}")
        yield f"  {row['setting']:20} " + ", ".join(cells)
