"""From the name of a model to one that runs.

Mirrors the place of vllm/model_executor/model_loader (get_model).
"""

from dataclasses import dataclass

import torch

from minivllm.kernels.dispatch import Backend, kernels_for
from minivllm.model.hub import DEFAULT_MODEL, fetch
from minivllm.model.llama import LlamaForCausalLM
from minivllm.model.tokenizer import Tokenizer
from minivllm.model.weights import GGUFCheckpoint, open_checkpoint


@dataclass(frozen=True)
class LoadedModel:
    """A model with its weights, and the tokenizer it was trained with."""

    model: LlamaForCausalLM
    tokenizer: Tokenizer


def default_device() -> torch.device:
    """CUDA if there is a GPU, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def default_dtype(device: torch.device) -> torch.dtype:
    """float32 on a CPU; on a GPU bfloat16, or float16 below compute capability 8.0, which has no bfloat16 (a T4)."""
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if torch.cuda.get_device_capability(device) >= (8, 0) else torch.float16


def load_model(
    model: str = DEFAULT_MODEL,
    device: torch.device | None = None,
    dtype: torch.dtype | None = None,
    backend: Backend | None = None,
) -> LoadedModel:
    """Fetch ``model`` if need be and load it.

    Args:
        model: a name, a path or a Hugging Face id, as ``hub.fetch`` takes it.
        device, dtype: None for the default ones.
        backend: of the kernels; None for the one that fits the device.

    Raises:
        ModelError: the model cannot be had, read or run.
        TritonUnavailableError: the kernels cannot run on ``device``.
    """
    path = fetch(model)
    device = device or default_device()
    checkpoint = open_checkpoint(path)
    if isinstance(checkpoint, GGUFCheckpoint):
        tokenizer = Tokenizer.from_gguf(checkpoint.file.metadata)
    else:
        tokenizer = Tokenizer.from_path(path)
    llama = LlamaForCausalLM(checkpoint.config, dtype or default_dtype(device), device, kernels_for(device, backend))
    llama.load_weights(checkpoint.weights())
    return LoadedModel(llama, tokenizer)
