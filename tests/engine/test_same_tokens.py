"""SmolLM2 writes transformers' tokens whatever the schedule: every pair of settings meets, invariants on."""

import json
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from minivllm.bench.machine import where_and_when
from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig, SpeculativeConfig
from minivllm.engine.llm_engine import LLMEngine
from minivllm.model.loader import LoadedModel
from minivllm.observe.invariants import watch
from minivllm.observe.recorder import StepCounter
from minivllm.request import SamplingParams
from tests.engine.covering import covering_array
from tests.engine.prompts import PROMPTS

RESULT = Path(__file__).parents[2] / "benchmarks" / "results" / "same-tokens.json"
TIE = 1e-3
"""Where the reference's two best logits lie as near as this, another order of summation may choose the other."""

MAX_MODEL_LEN = 384
SMALL_POOL = 384
"""Tokens that the pool holds: the longest request and no more."""
SMALLER_POOL = 224
"""Few enough tokens for the few prompts of the reduced test to fight over."""
LARGE_POOL = 11_000

DIMENSIONS: dict[str, tuple[Any, ...]] = {
    "budget": (16, 64, 2048),
    "block_size": (8, 16, 32),
    "max_num_seqs": (1, 8, 64),
    "prefix_caching": (True, False),
    "pool_tokens": (SMALL_POOL, LARGE_POOL),
    "drafts": (0, 4),
    "arrival": ("at once", "trickled"),
}
FULL = covering_array(DIMENSIONS, times=2)
# One configuration that preempts, one that drafts, one that trickles: every value of every dimension is in one of them.
REDUCED = [
    dict(zip(DIMENSIONS, values, strict=True))
    for values in (
        (16, 32, 8, True, SMALLER_POOL, 0, "at once"),
        (2048, 16, 64, False, LARGE_POOL, 4, "trickled"),
        (64, 8, 64, True, LARGE_POOL, 4, "at once"),
        (64, 16, 1, True, SMALLER_POOL, 0, "trickled"),
    )
]


@dataclass(frozen=True)
class Expected:
    token_ids: list[int]
    margins: list[float]


@dataclass
class Run:
    """What one configuration did."""

    preemptions: int
    steps: int
    ties: list[str]
    seconds: float


@pytest.fixture(scope="module")
def reference(smollm2: LoadedModel, transformers_smollm2: Any) -> Any:
    """The greedy tokens of transformers, one prompt at a time, and by how much each of them won."""

    @cache
    def tokens(prompt: tuple[int, ...], max_tokens: int) -> Expected:
        ids = torch.tensor([prompt])
        with torch.inference_mode():
            result = transformers_smollm2.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=max_tokens,
                min_new_tokens=max_tokens,
                do_sample=False,
                pad_token_id=2,
                eos_token_id=None,
                output_logits=True,
                return_dict_in_generate=True,
            )
        best = [logits[0].topk(2).values.tolist() for logits in result.logits]
        return Expected(result.sequences[0, len(prompt) :].tolist(), [first - second for first, second in best])

    return tokens


def run(loaded: LoadedModel, config: dict[str, Any], prompts: list[list[int]], max_tokens: int, reference: Any) -> Run:
    engine = LLMEngine(
        loaded.model,
        None,
        EngineConfig(
            SchedulerConfig(
                max_num_batched_tokens=config["budget"],
                max_num_seqs=config["max_num_seqs"],
                max_model_len=MAX_MODEL_LEN,
                # Admit on the first chunk alone, so that a small pool is fought over.
                scheduler_reserve_full_isl=config["pool_tokens"] == LARGE_POOL,
            ),
            CacheConfig(
                config["block_size"], config["pool_tokens"] // config["block_size"] + 1, config["prefix_caching"]
            ),
            SpeculativeConfig("ngram", config["drafts"]) if config["drafts"] else None,
        ),
    )
    watch(engine.scheduler)
    counter = StepCounter(engine.scheduler)
    start = time.perf_counter()
    params = SamplingParams(max_tokens=max_tokens, temperature=0.0)
    done: dict[str, list[int]] = {}
    waiting = list(enumerate(prompts))
    while waiting or engine.has_unfinished_requests():
        while waiting:
            index, prompt = waiting.pop(0)
            engine.add_request(str(index), prompt, params)
            if config["arrival"] == "trickled":
                break
        done |= {out.request_id: out.outputs[0].token_ids for out in engine.step() if out.finished}
    seconds = time.perf_counter() - start

    ties = []
    for index, prompt in enumerate(prompts):
        expected = reference(tuple(prompt), max_tokens)
        assert len(done[str(index)]) == max_tokens
        for position, token_id in enumerate(done[str(index)]):
            if token_id != expected.token_ids[position]:
                where = f"prompt {index}, token {position}: {token_id} instead of {expected.token_ids[position]}"
                assert expected.margins[position] < TIE, f"{where}, which won by {expected.margins[position]:.4f}"
                ties.append(f"{where}, which won by {expected.margins[position]:.5f}")
                break
    return Run(counter.preemptions, counter.steps, ties, seconds)


def encode(loaded: LoadedModel, texts: list[str]) -> list[list[int]]:
    return [loaded.tokenizer.encode(text) for text in texts]


@pytest.mark.parametrize("config", REDUCED, ids=lambda config: "-".join(map(str, config.values())))
def test_a_few_prompts_are_answered_alike(
    config: dict[str, Any], smollm2: LoadedModel, reference: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = encode(smollm2, [PROMPTS[i] for i in (1, 6, 9, 15, 16, 21, 22, 28, 29, 30)])
    result = run(smollm2, config, prompts, 12, reference)
    if config["pool_tokens"] == SMALLER_POOL and config["max_num_seqs"] > 1:
        assert result.preemptions >= 3
    with capsys.disabled():
        print("\n".join(["", *result.ties]), end="")


@pytest.mark.full
def test_32_prompts_are_answered_alike_under_every_pair_of_settings(smollm2: LoadedModel, reference: Any) -> None:
    assert len(FULL) >= 20
    prompts = encode(smollm2, PROMPTS)
    rows = []
    for config in FULL:
        result = run(smollm2, config, prompts, 64, reference)
        rows.append({**config, **vars(result), "seconds": round(result.seconds, 1)})
        print(json.dumps(rows[-1]), flush=True)
        summary = {**where_and_when(), "prompts": 32, "tokens": 64, "torch": torch.__version__, "configurations": rows}
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text(json.dumps(summary, indent=1) + "\n")
    crowded = [row for row in rows if row["pool_tokens"] == SMALL_POOL and row["max_num_seqs"] > 1]
    assert min(row["preemptions"] for row in crowded) >= 20
