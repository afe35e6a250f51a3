"""Tiny random Llamas, written to disk the way real ones are."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType
from safetensors.torch import save_file
from tokenizers import pre_tokenizers

from minivllm.kernels import Kernels
from minivllm.model.attention import AttentionMetadata
from minivllm.model.config import LlamaConfig
from minivllm.model.llama import LlamaForCausalLM

TINY = LlamaConfig(
    vocab_size=320,
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    max_position_embeddings=256,
    rms_norm_eps=1e-5,
    rope_theta=10000.0,
    tie_word_embeddings=True,
)
SHAPES = {
    "gqa-tied": TINY,
    "gqa-untied": replace(TINY, tie_word_embeddings=False),
    "mha-untied": replace(TINY, num_key_value_heads=4, tie_word_embeddings=False),
    "mqa-tied": replace(TINY, num_key_value_heads=1),
    "wide-heads": replace(TINY, num_attention_heads=2, num_key_value_heads=1, head_dim=64),
}
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def random_weights(config: LlamaConfig, seed: int = 0) -> dict[str, torch.Tensor]:
    """float32 weights large enough that every layer matters to the logits."""
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, shape in config.weight_shapes().items():
        values = torch.randn(shape, generator=generator)
        weights[name] = 1 + 0.2 * values if len(shape) == 1 else 2 * values / shape[-1] ** 0.5
    return weights


def config_json(config: LlamaConfig) -> dict[str, Any]:
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "eos_token_id": 2} | {
        name: getattr(config, name) for name in LlamaConfig.__dataclass_fields__
    }


def write_safetensors(folder: Path, config: LlamaConfig, weights: dict[str, torch.Tensor]) -> Path:
    """A folder with config.json and model.safetensors; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_json(config)))
    save_file(weights, folder / "model.safetensors")
    return folder


def write_gguf(
    path: Path,
    config: LlamaConfig,
    weights: dict[str, torch.Tensor],
    kind: GGMLQuantizationType = GGMLQuantizationType.F32,
    metadata: dict[str, Any] | None = None,
) -> Path:
    """A GGUF file with matrices of type `kind`, as llama.cpp's converter writes it; returns its path."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_vocab_size(config.vocab_size)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(byte_tokens(config.vocab_size))
    writer.add_token_types([3] * len(SPECIAL_TOKENS) + [1] * (config.vocab_size - len(SPECIAL_TOKENS)))
    writer.add_token_merges(["h i"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(CHAT_TEMPLATE)
    for key, value in (metadata or {}).items():
        writer.add_key_value(key, value, gguf.GGUFValueType.get_type(value))
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, weight in weights.items():
        values, type_ = weight.numpy(), kind if weight.ndim == 2 else GGMLQuantizationType.F32
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            # llama.cpp's order of the rows of a head: halves interleaved.
            by_head = values.reshape(-1, 2, config.head_dim // 2, values.shape[-1])
            values = by_head.swapaxes(1, 2).reshape(values.shape)
        data = gguf.quants.quantize(np.ascontiguousarray(values), type_)
        writer.add_tensor(names.get_name(name, (".weight",)) or name, data, raw_dtype=type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def byte_tokens(vocab_size: int) -> list[str]:
    """Special tokens, a token for each byte, one that is merged, and unused ones."""
    tokens = [*SPECIAL_TOKENS, *sorted(pre_tokenizers.ByteLevel.alphabet()), "hi"]
    return tokens + [f"<unused{i}>" for i in range(vocab_size - len(tokens))]


def build(
    config: LlamaConfig,
    weights: Iterator[tuple[str, torch.Tensor]] | dict[str, torch.Tensor],
    dtype: torch.dtype = torch.float32,
    kernels: Kernels | None = None,
) -> LlamaForCausalLM:
    model = LlamaForCausalLM(config, dtype, torch.device("cpu"), kernels)
    model.load_weights(weights.items() if isinstance(weights, dict) else weights)
    return model


class Batch:
    """Sequences in a paged cache, advanced by chunks as an engine would."""

    BLOCK_SIZE = 8

    def __init__(self, model: LlamaForCausalLM, sequences: list[list[int]], dtype: torch.dtype = torch.float32) -> None:
        config = model.config
        self.model, self.sequences = model, sequences
        self.computed = [0] * len(sequences)
        blocks = [-(-len(sequence) // self.BLOCK_SIZE) for sequence in sequences]
        # Blocks in no order at all; what nobody has written is NaN, so that reading it shows.
        order = iter((torch.randperm(sum(blocks), generator=torch.Generator().manual_seed(1)) + 1).tolist())
        self.tables = [[next(order) for _ in range(count)] for count in blocks]
        shape = (sum(blocks) + 1, self.BLOCK_SIZE, config.num_key_value_heads, 2 * config.head_dim)
        self.kv_caches = [torch.full(shape, torch.nan, dtype=dtype) for _ in range(config.num_hidden_layers)]

    def step(self, num_tokens: list[int]) -> list[torch.Tensor]:
        """Compute the next `num_tokens` of each sequence; return the logits of each, [num_tokens, vocab_size]."""
        rows = [i for i, count in enumerate(num_tokens) if count]
        spans = [range(self.computed[i], self.computed[i] + num_tokens[i]) for i in rows]
        positions = [p for span in spans for p in span]
        ids = [self.sequences[i][p] for i, span in zip(rows, spans, strict=True) for p in span]
        slots = [
            self.tables[i][p // self.BLOCK_SIZE] * self.BLOCK_SIZE + p % self.BLOCK_SIZE
            for i, span in zip(rows, spans, strict=True)
            for p in span
        ]
        width = max(len(self.tables[i]) for i in rows)
        table = [self.tables[i] + [0] * (width - len(self.tables[i])) for i in rows]
        counts = [len(span) for span in spans]
        metadata = AttentionMetadata(
            slot_mapping=torch.tensor(slots),
            block_table=torch.tensor(table, dtype=torch.int32),
            seq_lens=torch.tensor([span.stop for span in spans], dtype=torch.int32),
            query_start_loc=torch.tensor([0, *np.cumsum(counts).tolist()], dtype=torch.int32),
            max_query_len=max(counts),
        )
        hidden = self.model(torch.tensor(ids), torch.tensor(positions), self.kv_caches, metadata)
        logits = iter(torch.split(self.model.compute_logits(hidden), counts))
        for i, span in zip(rows, spans, strict=True):
            self.computed[i] = span.stop
        empty = torch.empty(0, self.model.config.vocab_size)
        return [next(logits) if count else empty for count in num_tokens]


def logits_of(model: LlamaForCausalLM, token_ids: list[int], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """[num_tokens, vocab_size] of one sequence in one step."""
    return Batch(model, [token_ids], dtype).step([len(token_ids)])[0]
