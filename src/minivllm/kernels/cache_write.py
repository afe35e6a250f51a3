"""Put the keys and values of a step's tokens into the slots that the block tables give them.

Mirrors vllm/v1/attention/ops/triton_reshape_and_cache_flash.py (triton_reshape_and_cache_flash).

The KV cache of a layer
-----------------------
One tensor ``[num_blocks, block_size, num_kv_heads, 2 * head_size]``: the key of a token and head, then its value.
It is what vLLM 0.28.0's attention backends hold in memory with the "NHD" layout, and it is the only copy here too,
on a GPU and on a CPU:

- a block is one piece of memory, keys and values together, so block ids stay the only unit of ownership;
- on a GPU, a warp reads whole keys and whole values, each one piece of ``head_size`` elements;
- on a CPU, one ``index_select`` over block ids fetches keys and values of a request at once, and the result is, without
  another copy, the ``[tokens, heads, head_size]`` that attention wants. Head-major blocks need one index per block and
  head; two tensors need two gathers; both were slower in nearly every case measured on a CPU.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
# Triton reads a kernel's annotations itself, and they are not types.
import torch
import triton
import triton.language as tl

from minivllm.kernels.checks import check_cache_write


@triton.jit(do_not_specialize_on_alignment=["slot_mapping_ptr"])  # cut from a larger buffer, it lies anywhere
def cache_write_kernel(
    key_ptr,
    value_ptr,
    kv_cache_ptr,
    slot_mapping_ptr,
    key_stride_token,
    key_stride_head,
    value_stride_token,
    value_stride_head,
    cache_stride_block,
    cache_stride_slot,
    cache_stride_head,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    BLOCK_H: tl.constexpr,
):
    """One program copies all heads of one token."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping_ptr + token)
    if slot < 0:  # a padding token: it owns no slot
        return

    # The slot is a flat number over the whole pool; its block starts anywhere a 32-bit offset may not reach, so the
    # arithmetic stays in the 64 bits that slot_mapping comes in.
    block = slot // BLOCK_SIZE
    offset = slot % BLOCK_SIZE

    head = tl.arange(0, BLOCK_H)[:, None]  # a power of two, as tl.arange wants; the mask drops the excess
    lane = tl.arange(0, HEAD_SIZE)[None, :]
    mask = head < NUM_KV_HEADS
    key = tl.load(key_ptr + token * key_stride_token + head * key_stride_head + lane, mask=mask)
    value = tl.load(value_ptr + token * value_stride_token + head * value_stride_head + lane, mask=mask)

    target = kv_cache_ptr + block * cache_stride_block + offset * cache_stride_slot + head * cache_stride_head + lane
    tl.store(target, key, mask=mask)
    tl.store(target + HEAD_SIZE, value, mask=mask)


def cache_write(key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor, slot_mapping: torch.Tensor) -> None:
    """Write each token's key and value to its slot; nothing else in the cache changes.

    Args:
        key, value: ``[num_tokens, num_kv_heads, head_size]``, the dtype of ``kv_cache``; may be views of a fused QKV.
        kv_cache: ``[num_blocks, block_size, num_kv_heads, 2 * head_size]``, written in place.
        slot_mapping: int64 ``[num_tokens]``: ``block id * block_size + offset in the block``, or -1 for a token that
            is padding and is skipped. No two tokens may name the same slot.

    Raises:
        ValueError, TypeError: a shape, stride or dtype is wrong; values are not looked at.
    """
    check_cache_write(key, value, kv_cache, slot_mapping)
    num_tokens, num_kv_heads, head_size = key.shape
    if num_tokens == 0:
        return
    cache_write_kernel[(num_tokens,)](
        key,
        value,
        kv_cache,
        slot_mapping,
        key.stride(0),
        key.stride(1),
        value.stride(0),
        value.stride(1),
        kv_cache.stride(0),
        kv_cache.stride(1),
        kv_cache.stride(2),
        NUM_KV_HEADS=num_kv_heads,
        HEAD_SIZE=head_size,
        BLOCK_SIZE=kv_cache.shape[1],
        BLOCK_H=triton.next_power_of_2(num_kv_heads),
        num_warps=4,
    )
