"""Attention for few long decodes: cut each sequence's keys into segments, then join the partial results.

Mirrors the "3D" path of vllm/v1/attention/ops/triton_unified_attention.py (unified_attention, reduce_segments).

Why it exists. `paged_attention` starts one program a sequence and KV head. Four decodes with 8 KV heads are 32
programs, on a GPU with over a hundred multiprocessors: most of it idles while each program walks through a long
sequence alone. Cut into 16 segments, the same work is 512 programs.

What it costs. Each segment's sums go through memory, and a second kernel joins them. More important: **it is not batch
invariant.** Floating-point addition is not associative, so the segments' order of adding gives other last bits than one
walk does. Whether a batch is split depends on how many sequences are in it (`should_split`); so the same request can
get other logits, and where two tokens are nearly tied another text, because somebody else came or went.
`paged_attention` makes no such choice, so this variant is off unless it is asked for.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
# Triton reads a kernel's annotations itself, and they are not types.
import torch
import triton
import triton.language as tl

from minivllm.kernels.checks import NUM_SEGMENTS, check_only_decodes, check_paged_attention
from minivllm.kernels.paged_attention import LOG2_E, attend_tile
from minivllm.kernels.tiles import choose_tile, device_capability


def should_split(num_seqs: int, num_kv_heads: int, max_query_len: int, num_multiprocessors: int) -> bool:
    """Whether one program a sequence and KV head would leave most of the GPU idle; only decodes are ever split."""
    return max_query_len == 1 and 2 * num_seqs * num_kv_heads <= num_multiprocessors


@triton.jit(
    do_not_specialize=["block_table_stride"],
    do_not_specialize_on_alignment=["block_table_ptr", "seq_lens_ptr", "query_start_loc_ptr"],
)
def split_kv_kernel(
    weighted_ptr,
    largest_ptr,
    total_ptr,
    query_ptr,
    kv_cache_ptr,
    block_table_ptr,
    seq_lens_ptr,
    query_start_loc_ptr,
    scale_log2,
    query_stride_token,
    query_stride_head,
    cache_stride_block,
    cache_stride_slot,
    cache_stride_head,
    block_table_stride,
    NUM_HEADS: tl.constexpr,
    GROUP_SIZE: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    SLIDING_WINDOW: tl.constexpr,
    BLOCK_M: tl.constexpr,
    TILE: tl.constexpr,
    NUM_SEGMENTS: tl.constexpr,
):
    """One program: one new token, the query heads of one KV head, one segment of the keys."""
    seq = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1)
    segment = tl.program_id(2)
    token = tl.load(query_start_loc_ptr + seq).to(tl.int64)
    if tl.load(query_start_loc_ptr + seq + 1) == token:  # a padding sequence
        return
    row = tl.arange(0, BLOCK_M)
    row_mask = row < GROUP_SIZE
    head = kv_head * GROUP_SIZE + row
    lane = tl.arange(0, HEAD_SIZE)
    query = tl.load(
        query_ptr + token * query_stride_token + head[:, None] * query_stride_head + lane[None, :],
        mask=row_mask[:, None],
        other=0.0,
    )

    seq_len = tl.load(seq_lens_ptr + seq)
    first_key = 0
    if SLIDING_WINDOW > 0:
        first_key = tl.maximum(seq_len - SLIDING_WINDOW, 0)
    first_tile = first_key // TILE
    tiles_per_segment = tl.cdiv(tl.cdiv(seq_len, TILE) - first_tile, NUM_SEGMENTS)
    start = (first_tile + segment * tiles_per_segment) * TILE
    end = tl.minimum(start + tiles_per_segment * TILE, seq_len)

    largest = tl.full([BLOCK_M], -1.0e30, dtype=tl.float32)
    total = tl.zeros([BLOCK_M], dtype=tl.float32)
    weighted = tl.zeros([BLOCK_M, HEAD_SIZE], dtype=tl.float32)
    kv_ptr = kv_cache_ptr + kv_head.to(tl.int64) * cache_stride_head
    table_ptr = block_table_ptr + seq * block_table_stride
    row_position = seq_len - 1 + row * 0
    for tile_start in range(start, end, TILE):
        largest, total, weighted = attend_tile(
            query, largest, total, weighted, kv_ptr, table_ptr, tile_start, first_key, end, row_position,
            scale_log2, cache_stride_block, cache_stride_slot, HEAD_SIZE=HEAD_SIZE, BLOCK_SIZE=BLOCK_SIZE,
            SLIDING_WINDOW=SLIDING_WINDOW, TILE=TILE, MASKED=True,
        )  # fmt: skip

    # A segment beyond the sequence's end stores its empty sums: the join reads every segment.
    partial = (token * NUM_HEADS + head) * NUM_SEGMENTS + segment
    tl.store(largest_ptr + partial, largest, mask=row_mask)
    tl.store(total_ptr + partial, total, mask=row_mask)
    tl.store(weighted_ptr + partial[:, None] * HEAD_SIZE + lane[None, :], weighted, mask=row_mask[:, None])


@triton.jit(do_not_specialize_on_alignment=["query_start_loc_ptr"])
def join_segments_kernel(
    out_ptr,
    weighted_ptr,
    largest_ptr,
    total_ptr,
    query_start_loc_ptr,
    scale_log2,
    out_stride_token,
    out_stride_head,
    NUM_HEADS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    NUM_SEGMENTS: tl.constexpr,
):
    """One program joins the segments of one head of one token: the online softmax's step, over segments."""
    seq = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    token = tl.load(query_start_loc_ptr + seq).to(tl.int64)
    if tl.load(query_start_loc_ptr + seq + 1) == token:
        return
    segment = tl.arange(0, NUM_SEGMENTS)
    lane = tl.arange(0, HEAD_SIZE)
    partial = (token * NUM_HEADS + head) * NUM_SEGMENTS + segment
    largest = tl.load(largest_ptr + partial)
    shrink = tl.exp2((largest - tl.max(largest, axis=0)) * scale_log2)
    total = tl.sum(tl.load(total_ptr + partial) * shrink, axis=0)
    weighted = tl.load(weighted_ptr + partial[:, None] * HEAD_SIZE + lane[None, :])
    result = tl.sum(weighted * shrink[:, None], axis=0) / total
    tl.store(out_ptr + token * out_stride_token + head * out_stride_head + lane, result)


def split_kv_attention(
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
    """`paged_attention` for a batch of decodes, in segments; the arguments are the same.

    Raises:
        ValueError, TypeError: as `paged_attention`; ValueError too if ``max_query_len`` is not 1.
    """
    check_paged_attention(out, query, kv_cache, block_table, seq_lens, query_start_loc, max_query_len, sliding_window)
    check_only_decodes(max_query_len)
    num_tokens, num_heads, head_size = query.shape
    _, block_size, num_kv_heads, _ = kv_cache.shape
    num_seqs = seq_lens.shape[0]
    tile = choose_tile(
        device_capability(query.device), head_size, num_heads // num_kv_heads, kv_cache.element_size(), max_query_len
    )
    weighted = query.new_empty((num_tokens, num_heads, NUM_SEGMENTS, head_size), dtype=torch.float32)
    largest = query.new_empty((num_tokens, num_heads, NUM_SEGMENTS), dtype=torch.float32)
    total = torch.empty_like(largest)
    split_kv_kernel[(num_seqs, num_kv_heads, NUM_SEGMENTS)](
        weighted,
        largest,
        total,
        query,
        kv_cache,
        block_table,
        seq_lens,
        query_start_loc,
        scale * LOG2_E,
        query.stride(0),
        query.stride(1),
        kv_cache.stride(0),
        kv_cache.stride(1),
        kv_cache.stride(2),
        block_table.stride(0),
        NUM_HEADS=num_heads,
        GROUP_SIZE=num_heads // num_kv_heads,
        HEAD_SIZE=head_size,
        BLOCK_SIZE=block_size,
        SLIDING_WINDOW=sliding_window or 0,
        BLOCK_M=tile.block_m,
        TILE=tile.tile,
        NUM_SEGMENTS=NUM_SEGMENTS,
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )
    join_segments_kernel[(num_seqs, num_heads)](
        out,
        weighted,
        largest,
        total,
        query_start_loc,
        scale * LOG2_E,
        out.stride(0),
        out.stride(1),
        NUM_HEADS=num_heads,
        HEAD_SIZE=head_size,
        NUM_SEGMENTS=NUM_SEGMENTS,
        num_warps=4,
    )
