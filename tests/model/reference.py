"""transformers' Llama with the weights of one of our checkpoints."""

from typing import Any

import torch
import transformers

from minivllm.model.config import LlamaConfig


def transformers_llama(config: LlamaConfig, weights: dict[str, torch.Tensor]) -> Any:
    hf_config = transformers.LlamaConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        num_key_value_heads=config.num_key_value_heads,
        head_dim=config.head_dim,
        max_position_embeddings=config.max_position_embeddings,
        rms_norm_eps=config.rms_norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
        tie_word_embeddings=config.tie_word_embeddings,
        bos_token_id=1,
        eos_token_id=2,
    )
    model: Any = transformers.LlamaForCausalLM(hf_config)
    model.eval()
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected
    assert set(missing) <= {"lm_head.weight"}
    model.tie_weights()
    return model


@torch.inference_mode()
def reference_logits(model: Any, token_ids: list[int]) -> torch.Tensor:
    """[num_tokens, vocab_size]."""
    logits: torch.Tensor = model(torch.tensor([token_ids])).logits[0]
    return logits
