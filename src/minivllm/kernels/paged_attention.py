"""Attention of one step's tokens over KV blocks: prefill chunks, decodes and draft verification in one launch.

Mirrors vllm/v1/attention/ops/triton_unified_attention.py (unified_attention, kernel_unified_attention).

The scheduler gives a request some tokens to compute, and the kernel needs no name for what they are: a sequence has
``query_len`` new tokens at the end of ``seq_len``, and the token at position p sees the positions up to p.
A decode has one new token, a verification has 1 + its drafts, a prefill chunk has many.

Four ideas carry the kernel:

- **Packing a GQA group.** The query heads that share a KV head want the same keys. A program takes all of them, for
  BLOCK_Q tokens, as the rows of one matrix: a key is read once for the group, and a decode fills more of the 16 rows
  that a tensor core multiplies anyway.
- **A grid known without asking the GPU.** How many programs a batch needs depends on query lengths that lie in GPU
  memory. Their sum is known on the host, and so is a bound: ``num_tokens // BLOCK_Q + num_seqs``. Each program looks
  its sequence up by binary search; the few too many leave.
- **A block-table look-up per key.** The keys of a tile come from whichever blocks the table names, so the tile is as
  large as the hardware likes, whatever the block size.
- **Online softmax.** A row keeps the largest score so far, the sum of exponentials below it, and the weighted sum of
  values; when a larger score turns up, the old sums are scaled down. The scores of a sequence are never in memory.

A tile begins at a multiple of its size counted from the sequence's start. So the order in which a row adds up its keys
depends neither on how a prompt was cut into chunks nor on the other requests of the batch. What may still differ is the
tensor core's instruction, which goes with BLOCK_M, and that with ``max_query_len``: a caller that needs the same bits
whatever is in the batch passes a constant.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
# Triton reads a kernel's annotations itself, and they are not types.
import torch
import triton
import triton.language as tl

from minivllm.kernels.checks import check_paged_attention
from minivllm.kernels.tiles import choose_tile, device_capability

LOG2_E = 1.4426950408889634


@triton.jit
def find_sequence(query_start_loc_ptr, query_block, num_seqs, BLOCK_Q: tl.constexpr):
    """The sequence of a query block: sequence i has those from query_start_loc[i] // BLOCK_Q + i on."""
    low = 0
    high = num_seqs
    while low < high:
        middle = (low + high) // 2
        first_block = tl.load(query_start_loc_ptr + middle) // BLOCK_Q + middle
        if first_block <= query_block:
            low = middle + 1
        else:
            high = middle
    return low - 1


@triton.jit
def attend_tile(
    query,
    largest,
    total,
    weighted,
    kv_ptr,
    block_table_ptr,
    tile_start,
    first_key,
    end_key,
    row_position,
    scale_log2,
    cache_stride_block,
    cache_stride_slot,
    HEAD_SIZE: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    SLIDING_WINDOW: tl.constexpr,
    TILE: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Add TILE keys and values to the online softmax (`largest`, `total`, `weighted`) of each row.

    MASKED=False is for tiles that every row sees whole; MASKED=True looks at every key.
    """
    key_position = tile_start + tl.arange(0, TILE)
    lane = tl.arange(0, HEAD_SIZE)
    # Where a key lies: its block from the table, then its slot there. 64 bits: a pool has more than 2^31 elements.
    if MASKED:
        owned = (key_position >= first_key) & (key_position < end_key)
        block = tl.load(block_table_ptr + key_position // BLOCK_SIZE, mask=owned, other=0).to(tl.int64)
    else:
        block = tl.load(block_table_ptr + key_position // BLOCK_SIZE).to(tl.int64)
    key_ptr = kv_ptr + block * cache_stride_block + (key_position % BLOCK_SIZE) * cache_stride_slot
    if MASKED:
        # Zeros, not whatever the slot holds: a weight of 0 does not undo a NaN that another request left there.
        key = tl.load(key_ptr[None, :] + lane[:, None], mask=owned[None, :], other=0.0)
        value = tl.load(key_ptr[:, None] + HEAD_SIZE + lane[None, :], mask=owned[:, None], other=0.0)
    else:
        key = tl.load(key_ptr[None, :] + lane[:, None])
        value = tl.load(key_ptr[:, None] + HEAD_SIZE + lane[None, :])

    scores = tl.dot(query, key, input_precision="ieee")  # [BLOCK_M, TILE], fp32
    if MASKED:
        visible = owned[None, :] & (key_position[None, :] <= row_position[:, None])
        if SLIDING_WINDOW > 0:
            visible = visible & (key_position[None, :] > row_position[:, None] - SLIDING_WINDOW)
        scores = tl.where(visible, scores, float("-inf"))

    # exp(x) is exp2(x * log2(e)), and exp2 is the instruction that exists; scale_log2 carries both factors.
    new_largest = tl.maximum(largest, tl.max(scores, axis=1))
    shrink = tl.exp2((largest - new_largest) * scale_log2)
    weights = tl.exp2(scores * scale_log2 - (new_largest * scale_log2)[:, None])
    total = total * shrink + tl.sum(weights, axis=1)
    weighted = tl.dot(weights.to(value.dtype), value, weighted * shrink[:, None], input_precision="ieee")
    return new_largest, total, weighted


# Triton compiles anew for an integer that is 1 or a multiple of 16, and for an address that is no multiple of 16. These
# change from step to step.
@triton.jit(
    do_not_specialize=["num_seqs", "block_table_stride"],
    do_not_specialize_on_alignment=["block_table_ptr", "seq_lens_ptr", "query_start_loc_ptr"],
)
def paged_attention_kernel(
    out_ptr,
    query_ptr,
    kv_cache_ptr,
    block_table_ptr,
    seq_lens_ptr,
    query_start_loc_ptr,
    scale_log2,
    num_seqs,
    out_stride_token,
    out_stride_head,
    query_stride_token,
    query_stride_head,
    cache_stride_block,
    cache_stride_slot,
    cache_stride_head,
    block_table_stride,
    GROUP_SIZE: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    SLIDING_WINDOW: tl.constexpr,
    BLOCK_M: tl.constexpr,
    TILE: tl.constexpr,
):
    """One program: BLOCK_Q new tokens of one sequence, times the query heads of one KV head."""
    BLOCK_Q: tl.constexpr = BLOCK_M // GROUP_SIZE
    # The last tokens of a prompt read the most keys: they go first, so that no long program starts last.
    query_block = tl.num_programs(0) - 1 - tl.program_id(0)
    kv_head = tl.program_id(1)
    seq = find_sequence(query_start_loc_ptr, query_block, num_seqs, BLOCK_Q=BLOCK_Q)
    query_start = tl.load(query_start_loc_ptr + seq)
    query_len = tl.load(query_start_loc_ptr + seq + 1) - query_start
    first_query = (query_block - (query_start // BLOCK_Q + seq)) * BLOCK_Q
    if first_query >= query_len:  # one of the few too many
        return

    # Row r is token r // GROUP_SIZE, head r % GROUP_SIZE. A group of 3 leaves row 15 of 16 empty.
    row = tl.arange(0, BLOCK_M)
    query_index = first_query + row // GROUP_SIZE
    head = kv_head * GROUP_SIZE + row % GROUP_SIZE
    row_mask = (row < BLOCK_Q * GROUP_SIZE) & (query_index < query_len)
    token = (query_start + query_index).to(tl.int64)
    lane = tl.arange(0, HEAD_SIZE)
    query = tl.load(
        query_ptr + (token * query_stride_token + head * query_stride_head)[:, None] + lane[None, :],
        mask=row_mask[:, None],
        other=0.0,
    )

    # Positions in the sequence: the new tokens come after the ones whose KV lies in the cache already.
    num_computed = tl.load(seq_lens_ptr + seq) - query_len
    first_position = num_computed + first_query
    end_key = num_computed + tl.minimum(first_query + BLOCK_Q, query_len)
    row_position = tl.minimum(num_computed + query_index, end_key - 1)  # a row without a token sees something too
    first_key = 0
    if SLIDING_WINDOW > 0:  # blocks left of the window may have gone to somebody else
        first_key = tl.maximum(first_position - SLIDING_WINDOW + 1, 0)
        whole_end = first_key // TILE * TILE
    else:
        whole_end = (first_position + 1) // TILE * TILE  # up to here the program's first token sees every key

    kv_ptr = kv_cache_ptr + kv_head.to(tl.int64) * cache_stride_head
    table_ptr = block_table_ptr + seq.to(tl.int64) * block_table_stride
    # Finite, because a row may see nothing in a tile, and -inf - -inf is NaN.
    largest = tl.full([BLOCK_M], -1.0e30, dtype=tl.float32)
    total = tl.zeros([BLOCK_M], dtype=tl.float32)
    weighted = tl.zeros([BLOCK_M, HEAD_SIZE], dtype=tl.float32)
    if SLIDING_WINDOW == 0:
        for tile_start in range(0, whole_end, TILE):
            largest, total, weighted = attend_tile(
                query, largest, total, weighted, kv_ptr, table_ptr, tile_start, first_key, end_key, row_position,
                scale_log2, cache_stride_block, cache_stride_slot, HEAD_SIZE=HEAD_SIZE, BLOCK_SIZE=BLOCK_SIZE,
                SLIDING_WINDOW=SLIDING_WINDOW, TILE=TILE, MASKED=False,
            )  # fmt: skip
    for tile_start in range(whole_end, end_key, TILE):
        largest, total, weighted = attend_tile(
            query, largest, total, weighted, kv_ptr, table_ptr, tile_start, first_key, end_key, row_position,
            scale_log2, cache_stride_block, cache_stride_slot, HEAD_SIZE=HEAD_SIZE, BLOCK_SIZE=BLOCK_SIZE,
            SLIDING_WINDOW=SLIDING_WINDOW, TILE=TILE, MASKED=True,
        )  # fmt: skip

    tl.store(
        out_ptr + (token * out_stride_token + head * out_stride_head)[:, None] + lane[None, :],
        weighted / total[:, None],
        mask=row_mask[:, None],
    )


def paged_attention(
    out: torch.Tensor,
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    query_start_loc: torch.Tensor,
    *,
    scale: float,
    max_query_len: int,
    sliding_window: int | None = None,
) -> None:
    """Causal attention of each sequence's new tokens over all its tokens; the new tokens' KV has been written before.

    Args:
        out, query: ``[num_tokens, num_heads, head_size]``, the dtype of ``kv_cache``. Rows from
            ``query_start_loc[-1]`` on are padding: not read, not written.
        kv_cache: ``[num_blocks, block_size, num_kv_heads, 2 * head_size]``, see `minivllm.kernels.cache_write`.
        block_table: int32 ``[num_seqs, max_blocks]``, block ids; entries beyond a sequence's blocks, and those left of
            a sliding window, may be anything.
        seq_lens: int32 ``[num_seqs]``, tokens of each sequence, the new ones among them.
        query_start_loc: int32 ``[num_seqs + 1]``; sequence i has the rows from ``query_start_loc[i]`` up to
            ``query_start_loc[i + 1]``. A padding sequence has none.
        scale: factor on the scores, above 0; ``head_size ** -0.5`` as a rule.
        max_query_len: the most new tokens of a sequence, known on the host; it picks the tile.
        sliding_window: a token sees itself and the ``sliding_window - 1`` tokens before it; None sees all.

    Raises:
        ValueError, TypeError: a shape, stride or dtype is wrong; values are not looked at.
    """
    check_paged_attention(out, query, kv_cache, block_table, seq_lens, query_start_loc, max_query_len, sliding_window)
    num_tokens, num_heads, head_size = query.shape
    _, block_size, num_kv_heads, _ = kv_cache.shape
    group_size = num_heads // num_kv_heads
    tile = choose_tile(device_capability(query.device), head_size, group_size, kv_cache.element_size(), max_query_len)
    num_seqs = seq_lens.shape[0]
    num_query_blocks = num_tokens // (tile.block_m // group_size) + num_seqs
    paged_attention_kernel[(num_query_blocks, num_kv_heads)](
        out,
        query,
        kv_cache,
        block_table,
        seq_lens,
        query_start_loc,
        scale * LOG2_E,
        num_seqs,
        out.stride(0),
        out.stride(1),
        query.stride(0),
        query.stride(1),
        kv_cache.stride(0),
        kv_cache.stride(1),
        kv_cache.stride(2),
        block_table.stride(0),
        GROUP_SIZE=group_size,
        HEAD_SIZE=head_size,
        BLOCK_SIZE=block_size,
        SLIDING_WINDOW=sliding_window or 0,
        BLOCK_M=tile.block_m,
        TILE=tile.tile,
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )
