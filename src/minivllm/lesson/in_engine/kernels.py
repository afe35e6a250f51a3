"""A student's two kernels inside the engine: a tiny random Llama answers with them, and with the engine's own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from minivllm.lesson import attention_practice, cache_write_practice
from minivllm.lesson.practice.kernel_launch import asks_for_work, failure, launch_cache_write, launch_paged_attention
from minivllm.lesson.table import Table, show

if TYPE_CHECKING:
    import torch

    from minivllm.engine.llm_engine import LLMEngine
    from minivllm.kernels import Kernels
    from minivllm.model.llama import LlamaForCausalLM

BLOCK_SIZE = 8
PROMPTS = {"A": [5, 6, 7, 5, 6, 7, 5, 6], "B": [11, 12, 13]}
MAX_TOKENS = 6


def run_in_engine(cache_write: Any, paged_attention: Any) -> None:
    """Answer two prompts with both kernels, drafts included, and show the tokens beside those of the engine's kernels.

    Args:
        cache_write, paged_attention: Triton kernels with the arguments of the notebook's.
    """
    import torch

    if asks_for_work("my_cache_write", cache_write) or asks_for_work("my_paged_attention", paged_attention):
        return
    if cache_write_practice.fault(cache_write) or attention_practice.fault(paged_attention):
        show("First make check_cache_write and check_paged_attention say ok: a wrong address could overwrite anything.")
        return
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    own = engine_kernels(device)
    students = replace(
        own,
        cache_write=partial(launch_cache_write, cache_write),
        paged_attention=partial(_launch_without_window, paged_attention),
    )
    expected = answers(tiny_engine(device, own))
    actual: dict[str, list[int]] = {}
    failed = failure("the engine", paged_attention, lambda: actual.update(answers(tiny_engine(device, students))))
    if failed:
        show(failed)
        return
    rows = [(id, expected[id], actual[id], "same" if expected[id] == actual[id] else "differs") for id in PROMPTS]
    note = (
        f"the engine's {own.backend} kernels beside yours: {MAX_TOKENS} greedy tokens for each of {len(rows)} prompts, "
        f"{LAYERS} layers of random weights"
    )
    show(Table(("request", "engine's kernels", "your kernels", "verdict"), rows, note=note))


def engine_kernels(device: torch.device) -> Kernels:
    """Triton's on a GPU, the torch twins on a CPU, also where TRITON_INTERPRET is set."""
    from minivllm.kernels import kernels_for

    return kernels_for(device, "triton" if device.type == "cuda" else "torch")


LAYERS = 2


def tiny_engine(device: torch.device, kernels: Kernels, num_speculative_tokens: int = 2) -> LLMEngine:
    """An engine around a random Llama of 2 layers; the same weights every time, float32."""
    from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig, SpeculativeConfig
    from minivllm.engine.llm_engine import LLMEngine

    speculative = SpeculativeConfig("ngram", num_speculative_tokens) if num_speculative_tokens else None
    config = EngineConfig(SchedulerConfig(max_num_batched_tokens=8, max_model_len=64), CacheConfig(BLOCK_SIZE, 17))
    return LLMEngine(_tiny_model(device, kernels), None, replace(config, speculative=speculative))


def _tiny_model(device: torch.device, kernels: Kernels) -> LlamaForCausalLM:
    import torch

    from minivllm.model.config import LlamaConfig
    from minivllm.model.llama import LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=64,
        rms_norm_eps=1e-5,
        rope_theta=10000.0,
        tie_word_embeddings=True,
    )
    generator = torch.Generator().manual_seed(3)

    def weight(shape: tuple[int, ...]) -> torch.Tensor:
        values = torch.randn(shape, generator=generator)
        return 1 + 0.2 * values if len(shape) == 1 else 2 * values / shape[-1] ** 0.5

    model = LlamaForCausalLM(config, torch.float32, device, kernels)
    model.load_weights((name, weight(shape)) for name, shape in config.weight_shapes().items())
    return model


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
