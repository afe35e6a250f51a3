"""A small engine that schedules requests and owns KV memory exactly as vLLM V1 does."""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minivllm.engine.llm import LLM
    from minivllm.request import SamplingParams

__all__ = ["LLM", "SamplingParams"]


def __getattr__(name: str) -> Any:
    """Looks things up when they are asked for: ``import minivllm.core`` needs neither torch nor an installation."""
    if name == "__version__":
        return version("minivllm")
    if name == "LLM":
        from minivllm.engine.llm import LLM

        return LLM
    if name == "SamplingParams":
        from minivllm.request import SamplingParams

        return SamplingParams
    raise AttributeError(f"module 'minivllm' has no attribute {name!r}")
