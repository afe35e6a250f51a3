"""What transformers' Llama computes for a sequence."""

from typing import Any

import torch

from minivllm.bench.engine import transformers_llama

__all__ = ["reference_logits", "transformers_llama"]


@torch.inference_mode()
def reference_logits(model: Any, token_ids: list[int]) -> torch.Tensor:
    """[num_tokens, vocab_size]."""
    logits: torch.Tensor = model(torch.tensor([token_ids])).logits[0]
    return logits
