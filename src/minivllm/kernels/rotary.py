"""Rotary position embedding: turn each pair of channels by an angle that grows with the token's position.

Mirrors vllm/model_executor/layers/rotary_embedding/base.py (RotaryEmbedding, the NeoX style that Llama uses) and
vllm/_custom_ops.py (rotary_embedding).
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
# Triton reads a kernel's annotations itself, and they are not types.
import torch
import triton
import triton.language as tl

from minivllm.kernels.checks import check_rotary


@triton.jit
def rotate_heads(row_ptr, head, lane, cos, sin, stride_head, NUM_HEADS: tl.constexpr, HALF: tl.constexpr):
    """Channel i pairs with channel i + D/2 (NeoX style), not with its neighbour (GPT-J style)."""
    first_ptr = row_ptr + head * stride_head + lane
    mask = head < NUM_HEADS
    first = tl.load(first_ptr, mask=mask, other=0.0).to(tl.float32)
    second = tl.load(first_ptr + HALF, mask=mask, other=0.0).to(tl.float32)
    tl.store(first_ptr, first * cos - second * sin, mask=mask)
    tl.store(first_ptr + HALF, second * cos + first * sin, mask=mask)


@triton.jit(do_not_specialize_on_alignment=["positions_ptr"])  # cut from a larger buffer, they lie anywhere
def rotary_kernel(
    positions_ptr,
    query_ptr,
    key_ptr,
    cos_sin_ptr,
    query_stride_token,
    query_stride_head,
    key_stride_token,
    key_stride_head,
    cos_sin_stride_position,
    NUM_HEADS: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK_H: tl.constexpr,
):
    """One program turns all query and key heads of one token: they share the angle."""
    token = tl.program_id(0).to(tl.int64)
    # A token's position comes from its request, not from its place in the batch.
    position = tl.load(positions_ptr + token)
    head = tl.arange(0, BLOCK_H)[:, None]
    lane = tl.arange(0, HALF)[None, :]
    cos = tl.load(cos_sin_ptr + position * cos_sin_stride_position + lane)
    sin = tl.load(cos_sin_ptr + position * cos_sin_stride_position + HALF + lane)
    rotate_heads(
        query_ptr + token * query_stride_token, head, lane, cos, sin, query_stride_head, NUM_HEADS=NUM_HEADS, HALF=HALF
    )
    rotate_heads(
        key_ptr + token * key_stride_token, head, lane, cos, sin, key_stride_head, NUM_HEADS=NUM_KV_HEADS, HALF=HALF
    )


def rotary_embedding(
    positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor, cos_sin_cache: torch.Tensor
) -> None:
    """Turn queries and keys in place, computed in fp32.

    Args:
        positions: int64 ``[num_tokens]``, each token's place in its own request, 0 for the first.
        query: ``[num_tokens, num_heads, head_size]``; key: ``[num_tokens, num_kv_heads, head_size]``, the same dtype;
            both may be views of a fused QKV.
        cos_sin_cache: float32 ``[max_position, head_size]``: ``head_size / 2`` cosines, then as many sines.

    Raises:
        ValueError, TypeError: a shape, stride or dtype is wrong; positions are not looked at.
    """
    check_rotary(positions, query, key, cos_sin_cache)
    num_tokens, num_heads, head_size = query.shape
    num_kv_heads = key.shape[1]
    if num_tokens == 0:
        return
    rotary_kernel[(num_tokens,)](
        positions,
        query,
        key,
        cos_sin_cache,
        query.stride(0),
        query.stride(1),
        key.stride(0),
        key.stride(1),
        cos_sin_cache.stride(0),
        NUM_HEADS=num_heads,
        NUM_KV_HEADS=num_kv_heads,
        HALF=head_size // 2,
        BLOCK_H=triton.next_power_of_2(max(num_heads, num_kv_heads)),
        num_warps=4,
    )
