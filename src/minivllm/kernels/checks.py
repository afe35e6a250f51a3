"""What a kernel and its torch twin both demand of their arguments, said once.

Metadata only: nothing here reads a tensor's values, since on a GPU that would make the host wait for the device.
"""

import torch

HEAD_SIZES = (16, 32, 64, 128)

NUM_SEGMENTS = 16
"""Pieces that split_kv_attention cuts a sequence's keys into."""


def _check_shape(name: str, tensor: torch.Tensor, shape: tuple[int, ...], meaning: str) -> None:
    if tensor.shape != shape:
        raise ValueError(f"{name} has the shape {tuple(tensor.shape)}, but must be {shape}: {meaning}.")


def _check_dtype(name: str, tensor: torch.Tensor, dtype: torch.dtype) -> None:
    if tensor.dtype != dtype:
        raise TypeError(f"{name} is {tensor.dtype}, but must be {dtype}: convert it with .to({dtype}).")


def _check_rows(name: str, tensor: torch.Tensor) -> None:
    if tensor.stride(-1) != 1:
        raise ValueError(
            f"{name} has the stride {tensor.stride(-1)} in its last dimension, but rows must lie in memory in one "
            "piece: call .contiguous()."
        )


def check_cache_write(
    key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor, slot_mapping: torch.Tensor
) -> None:
    num_tokens, num_kv_heads, head_size = key.shape
    _check_shape("value", value, (num_tokens, num_kv_heads, head_size), "the same as key")
    _check_shape(
        "kv_cache",
        kv_cache,
        (*kv_cache.shape[:2], num_kv_heads, 2 * head_size),
        "blocks, slots of a block, KV heads, a key and a value side by side",
    )
    _check_shape("slot_mapping", slot_mapping, (num_tokens,), "one slot a token")
    _check_dtype("slot_mapping", slot_mapping, torch.int64)
    _check_dtype("key", key, kv_cache.dtype)
    _check_dtype("value", value, kv_cache.dtype)
    _check_rows("key", key)
    _check_rows("value", value)
    _check_rows("kv_cache", kv_cache)


def check_paged_attention(
    out: torch.Tensor,
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    query_start_loc: torch.Tensor,
    max_query_len: int,
    sliding_window: int | None,
) -> None:
    num_tokens, num_heads, head_size = query.shape
    num_seqs = seq_lens.shape[0]
    num_kv_heads = kv_cache.shape[2]
    if head_size not in HEAD_SIZES:
        raise ValueError(f"query has the head size {head_size}, but the kernels take one of {HEAD_SIZES}.")
    if num_heads % num_kv_heads:
        raise ValueError(
            f"query has {num_heads} heads, but must have a multiple of kv_cache's {num_kv_heads}: each KV head serves "
            "a group of the same size."
        )
    _check_shape("out", out, (num_tokens, num_heads, head_size), "the same as query")
    _check_shape(
        "kv_cache",
        kv_cache,
        (*kv_cache.shape[:3], 2 * head_size),
        "blocks, slots of a block, KV heads, a key and a value side by side",
    )
    _check_shape("block_table", block_table, (num_seqs, block_table.shape[-1]), "one row a sequence")
    _check_shape("query_start_loc", query_start_loc, (num_seqs + 1,), "where each sequence's queries start")
    for name, tensor in (("block_table", block_table), ("seq_lens", seq_lens), ("query_start_loc", query_start_loc)):
        _check_dtype(name, tensor, torch.int32)
    _check_dtype("query", query, kv_cache.dtype)
    _check_dtype("out", out, kv_cache.dtype)
    for name, tensor in (("out", out), ("query", query), ("kv_cache", kv_cache), ("block_table", block_table)):
        _check_rows(name, tensor)
    if max_query_len < 1:
        raise ValueError(f"max_query_len is {max_query_len}, but must be at least 1: the longest query of the batch.")
    if sliding_window is not None and sliding_window < 1:
        raise ValueError(
            f"sliding_window is {sliding_window}, but must be None or at least 1: a token always sees itself."
        )


def check_only_decodes(max_query_len: int) -> None:
    if max_query_len != 1:
        raise ValueError(
            f"max_query_len is {max_query_len}, but split_kv_attention takes decodes of one new token only: call "
            "paged_attention."
        )


def check_rms_norm(x: torch.Tensor, other: torch.Tensor, weight: torch.Tensor) -> None:
    num_tokens, hidden_size = x.shape
    _check_shape("out or residual", other, (num_tokens, hidden_size), "the same as x")
    _check_shape("weight", weight, (hidden_size,), "one factor a channel")
    _check_dtype("weight", weight, x.dtype)
    _check_dtype("out or residual", other, x.dtype)
    _check_rows("x", x)
    _check_rows("out or residual", other)


def check_rotary(positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor, cos_sin_cache: torch.Tensor) -> None:
    num_tokens, _, head_size = query.shape
    _check_shape("key", key, (num_tokens, key.shape[1], head_size), "the same tokens and head size as query")
    _check_shape("positions", positions, (num_tokens,), "one position a token")
    _check_shape(
        "cos_sin_cache", cos_sin_cache, (cos_sin_cache.shape[0], head_size), "for each position D/2 cosines, D/2 sines"
    )
    _check_dtype("positions", positions, torch.int64)
    _check_dtype("cos_sin_cache", cos_sin_cache, torch.float32)
    _check_dtype("key", key, query.dtype)
    _check_rows("query", query)
    _check_rows("key", key)
    _check_rows("cos_sin_cache", cos_sin_cache)


def check_silu_and_mul(out: torch.Tensor, gate_up: torch.Tensor) -> None:
    num_tokens, width = gate_up.shape
    _check_shape("gate_up", gate_up, (num_tokens, 2 * (width // 2)), "a gate and an up projection of the same width")
    _check_shape("out", out, (num_tokens, width // 2), "half as wide as gate_up")
    _check_dtype("out", out, gate_up.dtype)
    _check_rows("out", out)
    _check_rows("gate_up", gate_up)
