"""A student's two kernels inside the engine: a tiny random Llama answers with them, and with the engine's own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from minivllm.lesson.common.checks import NotYet, Wrong, told
from minivllm.lesson.common.table import Table, show
from minivllm.lesson.common.tiny_model import NUM_LAYERS, tiny_llama
from minivllm.lesson.on_the_gpu import check_cache_write, check_paged_attention
from minivllm.lesson.on_the_gpu.kernel_launch import (
    launch_cache_write,
    launch_paged_attention,
    launched,
    require_kernel,
)

if TYPE_CHECKING:
    import torch

    from minivllm.engine.llm_engine import LLMEngine
    from minivllm.kernels import Kernels

BLOCK_SIZE = 8
PROMPTS = {"A": [5, 6, 7, 5, 6, 7, 5, 6], "B": [11, 12, 13]}
MAX_TOKENS = 6


def run_in_engine(cache_write: Any, paged_attention: Any) -> None:
    """Answer two prompts with both kernels, drafts included, and show the tokens beside those of the engine's kernels.

    Args:
        cache_write, paged_attention: Triton kernels with the arguments of the notebook's.
    """
    with told("run_in_engine"):
        require_kernel("my_cache_write", cache_write)
        require_kernel("my_paged_attention", paged_attention)
        _require_right(cache_write, paged_attention)
        show(_side_by_side(cache_write, paged_attention))


def _require_right(cache_write: Any, paged_attention: Any) -> None:
    try:
        check_cache_write.compare(cache_write)
        check_paged_attention.compare(paged_attention)
    except Wrong:
        raise NotYet(
            "First make check_cache_write and check_paged_attention say ok: a wrong address could overwrite anything."
        ) from None


def _side_by_side(cache_write: Any, paged_attention: Any) -> Table:
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    own = engine_kernels(device)
    students = replace(
        own,
        cache_write=partial(launch_cache_write, cache_write),
        paged_attention=partial(_launch_without_window, paged_attention),
    )
    expected = answers(tiny_engine(device, own))
    actual: dict[str, list[int]] = {}
    launched("the engine", paged_attention, lambda: actual.update(answers(tiny_engine(device, students))))
    rows = [(id, expected[id], actual[id], "same" if expected[id] == actual[id] else "differs") for id in PROMPTS]
    note = (
        f"the engine's {own.backend} kernels beside yours: {MAX_TOKENS} greedy tokens for each of {len(rows)} prompts, "
        f"{NUM_LAYERS} layers of random weights"
    )
    return Table(("request", "engine's kernels", "your kernels", "verdict"), rows, note=note)


def engine_kernels(device: torch.device) -> Kernels:
    """Triton's on a GPU, the torch twins on a CPU, also where TRITON_INTERPRET is set."""
    from minivllm.kernels import kernels_for

    return kernels_for(device, "triton" if device.type == "cuda" else "torch")


def tiny_engine(device: torch.device, kernels: Kernels, num_speculative_tokens: int = 2) -> LLMEngine:
    """An engine around the tiny Llama."""
    from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig, SpeculativeConfig
    from minivllm.engine.llm_engine import LLMEngine

    speculative = SpeculativeConfig("ngram", num_speculative_tokens) if num_speculative_tokens else None
    config = EngineConfig(SchedulerConfig(max_num_batched_tokens=8, max_model_len=64), CacheConfig(BLOCK_SIZE, 17))
    return LLMEngine(tiny_llama(device, kernels), None, replace(config, speculative=speculative))


def answers(engine: LLMEngine) -> dict[str, list[int]]:
    """The greedy answers to PROMPTS."""
    from minivllm.request import SamplingParams

    params = SamplingParams(temperature=0.0, max_tokens=MAX_TOKENS, ignore_eos=True)
    for request_id, prompt in PROMPTS.items():
        engine.add_request(request_id, prompt, params)
    found: dict[str, list[int]] = {}
    while engine.has_unfinished_requests():
        for output in engine.step():
            found[output.request_id] = list(output.outputs[0].token_ids)
    return found


def _launch_without_window(kernel: Any, *args: Any, sliding_window: int | None = None, **options: Any) -> None:
    launch_paged_attention(kernel, *args, **options)
