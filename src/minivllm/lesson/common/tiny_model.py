"""A Llama small enough for a test cell: real tensors and real steps, random weights, meaningless tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from minivllm.kernels import Kernels
    from minivllm.model.llama import LlamaForCausalLM

NUM_LAYERS = 2


def tiny_llama(device: torch.device, kernels: Kernels | None = None) -> LlamaForCausalLM:
    """The same weights every time, float32; a vocabulary of 128 tokens, 256 positions.

    Args:
        kernels: those of the device where none are given.
    """
    import torch

    from minivllm.model.config import LlamaConfig
    from minivllm.model.llama import LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=128,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=NUM_LAYERS,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=256,
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
