"""Llama, as plain as it can be with a paged KV cache.

Mirrors vllm/model_executor/models/llama.py (LlamaForCausalLM, LlamaModel, LlamaDecoderLayer, LlamaAttention, LlamaMLP),
without tensor and pipeline parallelism. There is no batch dimension: the tokens of all requests of a step lie behind
one another, and only the attention has to know which is whose.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from minivllm.kernels import Kernels, kernels_for
from minivllm.kernels.checks import HEAD_SIZES
from minivllm.kernels.linear import linear
from minivllm.model.attention import AttentionMetadata
from minivllm.model.config import LlamaConfig
from minivllm.model.errors import ModelError


class RMSNorm(nn.Module):
    """Scales each token to a root mean square of 1, then each channel by its weight."""

    def __init__(self, config: LlamaConfig, kernels: Kernels) -> None:
        super().__init__()
        self.kernels = kernels
        self.weight = nn.Parameter(torch.empty(config.hidden_size))
        self.eps = config.rms_norm_eps

    def add_and_norm(self, x: Tensor, residual: Tensor) -> None:
        """``residual += x``, then ``x = norm(residual)``, both in place and [num_tokens, hidden_size]."""
        self.kernels.fused_add_rms_norm(x, residual, self.weight, self.eps)


class Linear(nn.Module):
    """``x @ weight.T``; unlike ``nn.Linear`` it spends no time on random numbers before a checkpoint comes."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_features, in_features))

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight)


class LlamaAttention(nn.Module):
    """Grouped-query attention over the KV cache of one layer."""

    def __init__(self, config: LlamaConfig, kernels: Kernels) -> None:
        super().__init__()
        self.kernels = kernels
        self.head_dim = config.head_dim
        self.head_counts = [config.num_attention_heads, config.num_key_value_heads, config.num_key_value_heads]
        # One matrix for what takes the same input: one kernel launch instead of three.
        self.qkv_proj = Linear(config.hidden_size, sum(self.head_counts) * config.head_dim)
        self.o_proj = Linear(config.num_attention_heads * config.head_dim, config.hidden_size)

    def forward(
        self, positions: Tensor, hidden: Tensor, cos_sin: Tensor, kv_cache: Tensor, attn_metadata: AttentionMetadata
    ) -> Tensor:
        qkv = self.qkv_proj(hidden).view(len(hidden), -1, self.head_dim)
        query, key, value = qkv.split(self.head_counts, dim=1)
        self.kernels.rotary_embedding(positions, query, key, cos_sin)
        # Write first: a token attends to itself too, and finds itself in the cache like all others.
        self.kernels.cache_write(key, value, kv_cache, attn_metadata.slot_mapping)
        out = torch.empty_like(query, memory_format=torch.contiguous_format)
        self.kernels.paged_attention(
            out,
            query,
            kv_cache,
            attn_metadata.block_table,
            attn_metadata.seq_lens,
            attn_metadata.query_start_loc,
            scale=self.head_dim**-0.5,
            max_query_len=attn_metadata.max_query_len,
        )
        projected: Tensor = self.o_proj(out.flatten(1))
        return projected


class LlamaMLP(nn.Module):
    """SwiGLU: ``down(silu(gate(x)) * up(x))``."""

    def __init__(self, config: LlamaConfig, kernels: Kernels) -> None:
        super().__init__()
        self.kernels = kernels
        self.gate_up_proj = Linear(config.hidden_size, 2 * config.intermediate_size)
        self.down_proj = Linear(config.intermediate_size, config.hidden_size)

    def forward(self, hidden: Tensor) -> Tensor:
        gate_up = self.gate_up_proj(hidden)
        out = gate_up.new_empty(len(hidden), gate_up.shape[1] // 2)
        self.kernels.silu_and_mul(out, gate_up)
        projected: Tensor = self.down_proj(out)
        return projected


class LlamaDecoderLayer(nn.Module):
    """Attention, then the MLP; each adds its output to the residual stream."""

    def __init__(self, config: LlamaConfig, kernels: Kernels) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config, kernels)
        self.self_attn = LlamaAttention(config, kernels)
        self.post_attention_layernorm = RMSNorm(config, kernels)
        self.mlp = LlamaMLP(config, kernels)

    def forward(
        self,
        positions: Tensor,
        hidden: Tensor,
        residual: Tensor,
        cos_sin: Tensor,
        kv_cache: Tensor,
        attn_metadata: AttentionMetadata,
    ) -> Tensor:
        """Return what the next layer has to add to ``residual``, which is updated in place."""
        self.input_layernorm.add_and_norm(hidden, residual)
        hidden = self.self_attn(positions, hidden, cos_sin, kv_cache, attn_metadata)
        self.post_attention_layernorm.add_and_norm(hidden, residual)
        out: Tensor = self.mlp(hidden)
        return out


class LlamaModel(nn.Module):
    """The embedding, the layers and the last norm."""

    def __init__(self, config: LlamaConfig, kernels: Kernels) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(
            config.vocab_size, config.hidden_size, _weight=torch.empty(config.vocab_size, config.hidden_size)
        )
        self.layers = nn.ModuleList(LlamaDecoderLayer(config, kernels) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config, kernels)

    def forward(
        self,
        input_ids: Tensor,
        positions: Tensor,
        cos_sin: Tensor,
        kv_caches: Sequence[Tensor],
        attn_metadata: AttentionMetadata,
    ) -> Tensor:
        hidden: Tensor = self.embed_tokens(input_ids)
        residual = torch.zeros_like(hidden)
        for layer, kv_cache in zip(self.layers, kv_caches, strict=True):
            hidden = layer(positions, hidden, residual, cos_sin, kv_cache, attn_metadata)
        self.norm.add_and_norm(hidden, residual)
        return hidden


class LlamaForCausalLM(nn.Module):
    """A Llama with its head. Weights are uninitialized until ``load_weights``.

    Args:
        config: its shape.
        dtype: of weights, activations and KV cache; norms, angles and softmax are computed in float32.
        device: of the weights.
        kernels: None for those that fit the device.

    Raises:
        ModelError: the kernels lack its head size.
    """

    def __init__(
        self, config: LlamaConfig, dtype: torch.dtype, device: torch.device, kernels: Kernels | None = None
    ) -> None:
        super().__init__()
        if config.head_dim not in HEAD_SIZES:
            raise ModelError(
                f"head_dim is {config.head_dim}, but the kernels take heads of {', '.join(map(str, HEAD_SIZES))} "
                "elements only: use a model with one of these."
            )
        kernels = kernels or kernels_for(device)
        self.config = config
        with device, _default_dtype(dtype):
            self.model = LlamaModel(config, kernels)
            untied = not config.tie_word_embeddings
            self.lm_head = Linear(config.hidden_size, config.vocab_size) if untied else None
        self.cos_sin = rotary_table(config).to(device)
        self.requires_grad_(False)

    @torch.inference_mode()
    def forward(
        self, input_ids: Tensor, positions: Tensor, kv_caches: Sequence[Tensor], attn_metadata: AttentionMetadata
    ) -> Tensor:
        """Compute one step; the keys and values of its tokens go into ``kv_caches``.

        Args:
            input_ids: int64 [num_tokens], the tokens of all requests of the step, request by request.
            positions: int64 [num_tokens], each token's place in its request; below ``max_position_embeddings``.
            kv_caches: one a layer, [num_blocks, block_size, num_key_value_heads, 2 * head_dim] of the model's dtype.
            attn_metadata: which token is whose.

        Returns:
            [num_tokens, hidden_size]: pass the rows that matter to ``compute_logits``.
        """
        hidden: Tensor = self.model(input_ids, positions, self.cos_sin, kv_caches, attn_metadata)
        return hidden

    @torch.inference_mode()
    def compute_logits(self, hidden: Tensor) -> Tensor:
        """Logits [n, vocab_size] of n rows of what ``forward`` returned; the matrix is large, so pass few."""
        return linear(hidden, (self.lm_head or self.model.embed_tokens).weight)

    @torch.inference_mode()
    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Copy the weights of a checkpoint, named and shaped as ``LlamaConfig.weight_shapes`` says, into the model.

        Raises:
            ModelError: a weight was not given, or holds NaN or infinity.
        """
        places = self._places()
        for name, weight in weights:
            place = places.pop(name).copy_(weight)
            if not all(bound.isfinite() for bound in place.aminmax()):  # ten times faster than place.isfinite().all()
                raise ModelError(
                    f"Tensor {name!r} holds NaN or infinity as {place.dtype}: get the whole model again, or load it in "
                    "a wider dtype."
                )
        if places:
            raise ModelError(
                f"{len(places)} weights were not given, {next(iter(places))!r} among them: load a whole checkpoint."
            )

    def _places(self) -> dict[str, Tensor]:
        """Where each weight of a checkpoint goes: q, k, v and gate, up are rows of a stacked matrix."""
        config = self.config
        query_size, kv_size = config.num_attention_heads * config.head_dim, config.num_key_value_heads * config.head_dim
        stacks = {
            "qkv_proj": {"q_proj": query_size, "k_proj": kv_size, "v_proj": kv_size},
            "gate_up_proj": {"gate_proj": config.intermediate_size, "up_proj": config.intermediate_size},
        }
        places: dict[str, Tensor] = {}
        for name, parameter in self.named_parameters():
            stack = name.split(".")[-2]
            parts = stacks.get(stack, {stack: len(parameter)})
            rows = torch.split(parameter, list(parts.values()))
            places |= {name.replace(stack, part): place for part, place in zip(parts, rows, strict=True)}
        return places


def rotary_table(config: LlamaConfig) -> Tensor:
    """cos and sin for every position, float32 [max_position_embeddings, head_dim]: cosines first, then sines."""
    exponent = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    frequency = 1.0 / config.rope_theta**exponent
    angle = torch.arange(config.max_position_embeddings, dtype=torch.float32)[:, None] * frequency
    return torch.cat((angle.cos(), angle.sin()), dim=-1)


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """The dtype of new tensors, as ``with device`` sets their device."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
