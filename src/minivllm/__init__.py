"""A small engine that schedules requests and owns KV memory exactly as vLLM V1 does."""

from importlib.metadata import version

__version__ = version("minivllm")
