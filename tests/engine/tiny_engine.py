"""An engine around a tiny random Llama, and a reference that knows nothing of blocks: transformers, one prompt at a time."""

from functools import cache
from typing import Any

import torch

from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig, SpeculativeConfig
from minivllm.engine.llm_engine import LLMEngine, RequestOutput
from minivllm.observe.invariants import watch
from minivllm.request import SamplingParams
from tests.model.reference import reference_logits, transformers_llama
from tests.model.tiny import TINY, build, random_weights

WEIGHTS = random_weights(TINY)
TIE = 1e-3
"""Two logits as near as this may change places in another order of summation."""


def make_engine(
    *,
    budget: int = 64,
    block_size: int = 8,
    blocks: int = 64,
    seqs: int = 8,
    caching: bool = True,
    drafts: int = 0,
    **more: Any,
) -> LLMEngine:
    """An engine whose invariants are watched; ``blocks`` are usable ones."""
    config = EngineConfig(
        SchedulerConfig(max_num_batched_tokens=budget, max_num_seqs=seqs, max_model_len=200, **more),
        CacheConfig(block_size, blocks + 1, caching),
        SpeculativeConfig("ngram", drafts) if drafts else None,
    )
    engine = LLMEngine(build(TINY, WEIGHTS), None, config)
    watch(engine.scheduler)
    return engine


def greedy(max_tokens: int, **more: Any) -> SamplingParams:
    return SamplingParams(max_tokens=max_tokens, temperature=0.0, **more)


def finish(engine: LLMEngine, max_steps: int = 2_000) -> dict[str, RequestOutput]:
    """Steps until nobody is left."""
    done: dict[str, RequestOutput] = {}
    for _ in range(max_steps):
        if not engine.has_unfinished_requests():
            return done
        done |= {output.request_id: output for output in engine.step() if output.finished}
    raise AssertionError(f"still unfinished after {max_steps} steps")


@cache
def _reference() -> Any:
    return transformers_llama(TINY, WEIGHTS)


@cache
def reference_tokens(prompt: tuple[int, ...], max_tokens: int) -> list[tuple[int, float]]:
    """The greedy tokens and by how much each of them won."""
    token_ids, result = list(prompt), []
    for _ in range(max_tokens):
        best = reference_logits(_reference(), token_ids)[-1].topk(2)
        result.append((int(best.indices[0]), float(best.values[0] - best.values[1])))
        token_ids.append(result[-1][0])
    return result


def assert_same_tokens(prompt: list[int], token_ids: list[int], max_tokens: int) -> None:
    """Equal, unless the reference itself could hardly decide."""
    expected = reference_tokens(tuple(prompt), max_tokens)
    for position, (token_id, margin) in enumerate(expected):
        if token_ids[position] != token_id:
            assert margin < TIE, (
                f"token {position}: expected {token_id}, actual {token_ids[position]}, won by {margin:.4f}"
            )
            return
    assert len(token_ids) == max_tokens


def random_prompt(length: int, seed: int = 0) -> list[int]:
    generator = torch.Generator().manual_seed(1000 * seed + length)
    return torch.randint(3, TINY.vocab_size, (length,), generator=generator).tolist()
