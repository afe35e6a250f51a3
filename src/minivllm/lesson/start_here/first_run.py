"""What notebook 0 starts with: this machine, the real model if its weights are here, and a tiny one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig
from minivllm.doctor import report
from minivllm.lesson.common.table import show
from minivllm.lesson.common.tiny_model import tiny_llama
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
    """An engine around the tiny Llama.

    Args:
        blocks: usable blocks of the pool, the null block not among them.
    """
    import torch

    from minivllm.engine.llm_engine import LLMEngine

    config = EngineConfig(SchedulerConfig(max_model_len=256), CacheConfig(block_size, num_gpu_blocks=blocks + 1))
    return LLMEngine(tiny_llama(torch.device("cpu")), None, config)
