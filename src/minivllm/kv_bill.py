"""What a token's keys and values cost, and how many of them fit on a GPU beside the weights."""

from __future__ import annotations

from dataclasses import dataclass

from minivllm.errors import MinivllmError

GIB = 1 << 30
GPUS = {"24 GiB": 24 * GIB, "40 GiB": 40 * GIB, "80 GiB": 80 * GIB, "141 GB": 141 * 10**9}
"""Memory of common GPUs in bytes; the largest is sold by the decimal gigabyte: 141 GB are 131.32 GiB."""
DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "fp8": 1}
"""Bytes of one element of the KV cache."""


class KVBillError(MinivllmError, ValueError):
    """A model or a dtype that the bill does not know."""


@dataclass(frozen=True)
class ModelShape:
    """What the bill needs of a model's ``config.json``; the field names are that file's.

    Attributes:
        source: the Hugging Face id whose config.json holds these values.
        attention_bias: whether the query, key and value projections have one.
        same_shape_longer: another model of this shape that takes more positions, and their number.
    """

    source: str
    num_hidden_layers: int
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    max_position_embeddings: int
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    same_shape_longer: tuple[str, int] | None = None

    @property
    def num_parameters(self) -> int:
        query, kv = self.num_attention_heads * self.head_dim, self.num_key_value_heads * self.head_dim
        attention = 2 * self.hidden_size * (query + kv) + (query + 2 * kv if self.attention_bias else 0)
        mlp, norms = 3 * self.hidden_size * self.intermediate_size, 2 * self.hidden_size
        embeddings = (1 if self.tie_word_embeddings else 2) * self.vocab_size * self.hidden_size
        return self.num_hidden_layers * (attention + mlp + norms) + embeddings + self.hidden_size

    @property
    def weight_bytes(self) -> int:
        """Two bytes a parameter, as in BF16 or FP16."""
        return 2 * self.num_parameters

    def kv_bytes_per_token(self, dtype: str = "bfloat16") -> int:
        """Bytes of one token's keys and values over all layers.

        Raises:
            KVBillError: `dtype` is none of DTYPE_BYTES.
        """
        if dtype not in DTYPE_BYTES:
            raise KVBillError(f"dtype is {dtype!r}, but must be one of {', '.join(map(repr, DTYPE_BYTES))}")
        return 2 * self.num_hidden_layers * self.num_key_value_heads * self.head_dim * DTYPE_BYTES[dtype]

    def tokens_that_fit(self, gpu_bytes: int, dtype: str = "bfloat16") -> int:
        """Tokens of KV that fit beside the weights, if nothing else took memory; 0 if the weights alone don't fit."""
        return max(gpu_bytes - self.weight_bytes, 0) // self.kv_bytes_per_token(dtype)


MODELS = {
    "Llama-3-8B": ModelShape(
        source="meta-llama/Meta-Llama-3-8B",
        num_hidden_layers=32,
        hidden_size=4096,
        intermediate_size=14336,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=128256,
        max_position_embeddings=8192,
        same_shape_longer=("Llama-3.1-8B", 131072),
    ),
    "Llama-3.1-70B": ModelShape(
        source="meta-llama/Llama-3.1-70B",
        num_hidden_layers=80,
        hidden_size=8192,
        intermediate_size=28672,
        num_attention_heads=64,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=128256,
        max_position_embeddings=131072,
    ),
    "Qwen2.5-7B": ModelShape(
        source="Qwen/Qwen2.5-7B",
        num_hidden_layers=28,
        hidden_size=3584,
        intermediate_size=18944,
        num_attention_heads=28,
        num_key_value_heads=4,
        head_dim=128,
        vocab_size=152064,
        max_position_embeddings=131072,
        attention_bias=True,
    ),
    "SmolLM2-135M": ModelShape(
        source="HuggingFaceTB/SmolLM2-135M-Instruct",
        num_hidden_layers=30,
        hidden_size=576,
        intermediate_size=1536,
        num_attention_heads=9,
        num_key_value_heads=3,
        head_dim=64,
        vocab_size=49152,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    ),
}


def shape_of(model: str) -> ModelShape:
    """The shape of a model by its name in MODELS.

    Raises:
        KVBillError: there is no such model.
    """
    if model not in MODELS:
        raise KVBillError(f"model is {model!r}, but must be one of {', '.join(map(repr, MODELS))}")
    return MODELS[model]
