"""What notebook 0 starts with: this machine, the real model if its weights are here, and a tiny one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig
from minivllm.doctor import report
from minivllm.lesson.table import show
from minivllm.model.errors import ModelError

if TYPE_CHECKING:
    from minivllm.engine.llm_engine import LLMEngine


def doctor() -> None:
    """Say what of this machine the course can use, as `minivllm doctor` does."""
    show("\n".join(report()))


@contextmanager
def needs_weights() -> Iterator[None]:
    """Leaves the block with one sentence where the model's weights are not to be had; the cells after it still run."""
    try:
        yield
    except ModelError as error:
        show(f"This cell needs the model's weights, the other cells don't. {error}")


def tiny_engine(blocks: int, block_size: int = 4) -> LLMEngine:
    """An engine around a Llama of two small layers with random weights: real tensors and steps, meaningless tokens.

    Args:
        blocks: usable blocks of the pool, the null block not among them.
    """
    import torch

    from minivllm.engine.llm_engine import LLMEngine
    from minivllm.model.config import LlamaConfig
    from minivllm.model.llama import LlamaForCausalLM

    shape = LlamaConfig(
        vocab_size=128,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=256,
        rms_norm_eps=1e-5,
        rope_theta=10000.0,
        tie_word_embeddings=True,
    )
    random = torch.Generator().manual_seed(0)
    weights = {name: torch.randn(size, generator=random) for name, size in shape.weight_shapes().items()}
    model = LlamaForCausalLM(shape, torch.float32, torch.device("cpu"))
    model.load_weights(weights.items())
    config = EngineConfig(SchedulerConfig(max_model_len=256), CacheConfig(block_size, num_gpu_blocks=blocks + 1))
    return LLMEngine(model, None, config)
