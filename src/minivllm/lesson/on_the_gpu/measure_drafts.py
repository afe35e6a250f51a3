"""Speculative verification on the real engine: the same greedy text with and without drafts, in how many steps."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from minivllm.lesson.common.table import Table, show
from minivllm.lesson.on_the_gpu.measure import NO_MODEL, Measured, ratios, spread

if TYPE_CHECKING:
    from minivllm.model.loader import LoadedModel

PROMPTS = {
    "pattern": "red, green, blue, red, green, blue, red, green, blue, red, green, blue,",
    "story": "Once upon a time an old lighthouse keeper found a bottle on the beach.",
}


@dataclass
class _Answer:
    """One greedy answer; `steps` are those that decode, `proposed` and `accepted` count drafts."""

    token_ids: list[int]
    steps: int = 0
    proposed: int = 0
    accepted: int = 0
    seconds: float = 0.0


def measure_drafts(
    loaded: LoadedModel | None, *, drafts: int = 4, max_tokens: int = 12, runs: int = 3
) -> Measured | None:
    """Answer each of PROMPTS greedily without drafts and with up to `drafts` n-gram drafts a step."""
    if loaded is None:
        show(NO_MODEL)
        return None
    found: dict[tuple[str, int], list[_Answer]] = {(name, count): [] for name in PROMPTS for count in (0, drafts)}
    _answer(loaded, PROMPTS["pattern"], drafts, 3)  # warms up and is not counted
    for _ in range(runs):
        for name, count in found:
            found[name, count].append(_answer(loaded, PROMPTS[name], count, max_tokens))
    rows = []
    for (name, count), answers in found.items():
        one, plain = answers[0], found[name, 0]
        rows.append(
            (
                name,
                count,
                f"{len(one.token_ids) - 1} in {one.steps}",
                f"{(len(one.token_ids) - 1) / one.steps:.2f}",
                f"{one.accepted} of {one.proposed}",
                "yes" if all(answer.token_ids == plain[0].token_ids for answer in answers) else "no",
                spread([answer.seconds for answer in answers]),
                ratios([answer.seconds for answer in answers], [answer.seconds for answer in plain]),
            )
        )
    columns = ("prompt", "drafts", "tokens in steps", "tokens per step", "accepted", "same text", "seconds", "ratio")
    note = f"the first token comes from the prompt's own step and is not counted; {runs} runs, ratios are to 0 drafts"
    return Measured(
        f"{max_tokens} greedy tokens with and without n-gram drafts",
        {f"{name}, {count} drafts": [answer.seconds for answer in answers] for (name, count), answers in found.items()},
        Table(columns, rows, note=note),
    )


def _answer(loaded: LoadedModel, text: str, drafts: int, max_tokens: int) -> _Answer:
    from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig, SpeculativeConfig
    from minivllm.engine.llm_engine import LLMEngine
    from minivllm.request import SamplingParams

    speculative = SpeculativeConfig("ngram", drafts) if drafts else None
    config = EngineConfig(SchedulerConfig(max_model_len=1024), CacheConfig(16, 129), speculative)
    engine = LLMEngine(loaded.model, loaded.tokenizer, config)
    prompt = loaded.tokenizer.encode(text)
    engine.add_request("it", prompt, SamplingParams(temperature=0.0, max_tokens=max_tokens, ignore_eos=True))
    answer = _Answer(token_ids=[])
    request = engine.scheduler.requests["it"]
    while engine.has_unfinished_requests():
        proposed, before = len(request.spec_token_ids), request.num_output_tokens
        start = time.perf_counter()
        engine.step()
        if before:
            answer.seconds += time.perf_counter() - start
            answer.steps += 1
            answer.proposed += proposed
            answer.accepted += request.num_output_tokens - before - 1
    answer.token_ids = list(request.all_token_ids[len(prompt) :])
    return answer
