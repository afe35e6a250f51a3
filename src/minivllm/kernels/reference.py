"""A torch twin of every kernel: the same signature, the same result, on any device. The CPU path of the engine.

The twins say what the kernels compute, in a few lines each; the kernels' docstrings describe the arguments. Attention
is the one that had to be made fast.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise

import torch
import torch.nn.functional as F

from minivllm.kernels.checks import (
    NUM_SEGMENTS,
    check_cache_write,
    check_only_decodes,
    check_paged_attention,
    check_rms_norm,
    check_rotary,
    check_silu_and_mul,
)

GATHER_BYTES = 4 << 20
"""Keys and values that paged_attention gathers at once for sequences that share a call. A sequence with more than a
sixteenth of that goes alone: for short ones calls cost more than padding, for long ones memory traffic counts."""

QUERY_CHUNK = 256
"""Query tokens of one sequence computed at once, each chunk with the keys up to its end: half of a prompt's scores are
masked, and this leaves most of them out."""


def cache_write(key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor, slot_mapping: torch.Tensor) -> None:
    """The twin of `minivllm.kernels.cache_write.cache_write`."""
    check_cache_write(key, value, kv_cache, slot_mapping)
    key_value = torch.cat((key, value), dim=-1)
    if bool((slot_mapping < 0).any()):
        real = slot_mapping >= 0
        slot_mapping, key_value = slot_mapping[real], key_value[real]
    kv_cache.view(-1, *kv_cache.shape[2:]).index_copy_(0, slot_mapping, key_value)


def rms_norm(out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    """The twin of `minivllm.kernels.rms_norm.rms_norm`."""
    check_rms_norm(x, out, weight)
    wide = x.float() if x.dtype.itemsize < 4 else x
    normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True).add_(eps))
    torch.mul(normed, weight, out=out)


def fused_add_rms_norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    """The twin of `minivllm.kernels.rms_norm.fused_add_rms_norm`."""
    residual += x
    rms_norm(x, residual, weight, eps)


def rotary_embedding(
    positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor, cos_sin_cache: torch.Tensor
) -> None:
    """The twin of `minivllm.kernels.rotary.rotary_embedding`."""
    check_rotary(positions, query, key, cos_sin_cache)
    cos, sin = cos_sin_cache[positions].unsqueeze(1).chunk(2, dim=-1)
    for heads in (query, key):
        first, second = heads.chunk(2, dim=-1)
        turned = first * cos - second * sin, second * cos + first * sin
        first.copy_(turned[0])
        second.copy_(turned[1])


def silu_and_mul(out: torch.Tensor, gate_up: torch.Tensor) -> None:
    """The twin of `minivllm.kernels.silu_mul.silu_and_mul`."""
    check_silu_and_mul(out, gate_up)
    gate, up = gate_up.chunk(2, dim=-1)
    if gate.dtype.itemsize < 4:
        out.copy_(F.silu(gate.float()) * up)
    else:
        torch.mul(F.silu(gate), up, out=out)


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
    """The twin of `minivllm.kernels.paged_attention.paged_attention`: gather KV, then torch's own attention.

    Sequences with equally many new tokens, decodes above all, share a call as long as what is gathered for them is
    small (`GATHER_BYTES`); a long one goes alone.
    """
    check_paged_attention(out, query, kv_cache, block_table, seq_lens, query_start_loc, max_query_len, sliding_window)
    for group in _plan(query, kv_cache, block_table, query_start_loc.tolist(), seq_lens.tolist(), sliding_window):
        if isinstance(group, _Sequence):
            _attend_one(out, query, kv_cache, block_table, group, scale, sliding_window)
        else:
            _attend_group(out, query, kv_cache, group, scale)


@dataclass(frozen=True, slots=True)
class _Sequence:
    index: int
    query_start: int
    query_len: int
    seq_len: int
    first_key: int  # the first position that any new token sees


@dataclass(frozen=True, slots=True)
class _Group:
    """Sequences with the same number of new tokens; their keys are padded to the longest."""

    size: int
    query_len: int
    tokens: torch.Tensor  # [size * query_len], rows of query and out
    blocks: torch.Tensor  # [size * blocks of the longest]
    unowned: torch.Tensor  # gathered keys that are nobody's
    mask: torch.Tensor  # [size, 1, rows, keys], 0 where a token sees a key, else -inf; rows as in _attend_group, or 1


@dataclass(frozen=True, slots=True)
class _LastPlan:
    asked: tuple[object, ...]
    block_table: torch.Tensor
    parts: list[_Sequence | _Group]


_last_plan = _LastPlan((), torch.empty(0), [])


def _plan(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    starts: list[int],
    seq_lens: list[int],
    sliding_window: int | None,
) -> list[_Sequence | _Group]:
    """What is computed together. All layers of a step ask with the same values, so the last answer is kept."""
    global _last_plan
    block_size, token_bytes = kv_cache.shape[1], kv_cache.stride(1) * kv_cache.element_size()
    heads_per_kv_head = query.shape[1] // kv_cache.shape[2]
    shape = (block_size, token_bytes, heads_per_kv_head, sliding_window, GATHER_BYTES)
    asked = (starts, seq_lens, *shape, query.dtype, query.device)
    last = _last_plan
    if last.asked == asked and torch.equal(last.block_table, block_table):
        return last.parts
    parts: list[_Sequence | _Group] = [
        group[0]
        if len(group) == 1
        else _lay_out(group, query, heads_per_kv_head, block_table, block_size, sliding_window)
        for group in _groups(starts, seq_lens, token_bytes, sliding_window)
    ]
    _last_plan = _LastPlan(asked, block_table.clone(), parts)
    return parts


def _groups(
    starts: list[int], seq_lens: list[int], token_bytes: int, sliding_window: int | None
) -> Iterator[list[_Sequence]]:
    sequences = []
    for index, ((start, end), seq_len) in enumerate(zip(pairwise(starts), seq_lens, strict=True)):
        if start < end:  # a padding sequence has no token
            first_key = max(0, seq_len - (end - start) + 1 - sliding_window) if sliding_window else 0
            sequences.append(_Sequence(index, start, end - start, seq_len, first_key))
    # Alike sequences side by side: a group is padded to its longest, which comes last.
    sequences.sort(key=lambda s: (s.query_len, s.seq_len - s.first_key))
    group: list[_Sequence] = []
    for sequence in sequences:
        gathered = (sequence.seq_len - sequence.first_key) * token_bytes  # the group's longest so far
        most = 1 if gathered > GATHER_BYTES // 16 else GATHER_BYTES // gathered
        if group and (sequence.query_len != group[0].query_len or len(group) >= most):
            yield group
            group = []
        group.append(sequence)
    if group:
        yield group


def _attend_one(
    out: torch.Tensor,
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    sequence: _Sequence,
    scale: float,
    sliding_window: int | None,
) -> None:
    _, block_size, num_kv_heads, width = kv_cache.shape
    first_block, first_key = sequence.first_key // block_size, sequence.first_key
    blocks = block_table[sequence.index, first_block : -(-sequence.seq_len // block_size)]
    kv = kv_cache.flatten(1).index_select(0, blocks).view(-1, num_kv_heads, width)
    kv = kv[first_key - first_block * block_size : sequence.seq_len - first_block * block_size].transpose(0, 1)[None]
    key, value = kv.chunk(2, dim=-1)
    rows = query[sequence.query_start : sequence.query_start + sequence.query_len]
    result = out[sequence.query_start : sequence.query_start + sequence.query_len]
    if sequence.query_len == 1:  # every key is visible: the heads of a group are the queries of their KV head
        folded = rows.view(1, num_kv_heads, -1, key.shape[-1])
        result.copy_(F.scaled_dot_product_attention(folded, key, value, scale=scale).view_as(rows))
        return
    num_computed = sequence.seq_len - sequence.query_len
    for start in range(0, sequence.query_len, QUERY_CHUNK):
        end = min(start + QUERY_CHUNK, sequence.query_len)
        num_keys = num_computed + end - first_key
        query_position = torch.arange(num_computed + start, num_computed + end, device=query.device)[:, None]
        key_position = torch.arange(first_key, first_key + num_keys, device=query.device)
        visible = key_position <= query_position
        if sliding_window:
            visible &= key_position > query_position - sliding_window
        attended = F.scaled_dot_product_attention(
            rows[start:end].transpose(0, 1)[None],
            key[:, :, :num_keys],
            value[:, :, :num_keys],
            attn_mask=visible,
            scale=scale,
            enable_gqa=True,
        )
        result[start:end] = attended[0].transpose(0, 1)


def _lay_out(
    group: list[_Sequence],
    query: torch.Tensor,
    heads_per_kv_head: int,
    block_table: torch.Tensor,
    block_size: int,
    sliding_window: int | None,
) -> _Group:
    device, query_len = block_table.device, group[0].query_len
    rows = torch.tensor([[s.index, s.query_start, s.seq_len, s.first_key] for s in group], device=device)
    index, query_start, seq_len, first_key = rows.unsqueeze(-1).unbind(1)
    # A sequence's blocks from its first visible key on. Columns beyond its last block name that block again, so that
    # nobody else's is read.
    first_block = first_key // block_size
    num_blocks = max(-(-s.seq_len // block_size) - s.first_key // block_size for s in group)
    columns = first_block + torch.arange(num_blocks, device=device)
    blocks = block_table[index, torch.minimum(columns, (seq_len - 1) // block_size)]

    key_position = first_block * block_size + torch.arange(num_blocks * block_size, device=device)
    unowned = (key_position >= seq_len) | (key_position < first_key)
    new_token = torch.arange(query_len, device=device)
    query_position = (seq_len - query_len + new_token)[:, :, None]
    visible = (key_position[:, None, :] <= query_position) & ~unowned[:, None, :]
    if sliding_window:
        visible &= key_position[:, None, :] > query_position - sliding_window
    # One row for each query of a KV head, see _attend_group; for decodes all of them see the same.
    mask = query.new_zeros(visible.shape).masked_fill_(~visible, float("-inf"))
    if query_len > 1:
        mask = mask.repeat_interleave(heads_per_kv_head, dim=1)
    return _Group(
        size=len(group),
        query_len=query_len,
        tokens=(query_start + new_token).flatten(),
        blocks=blocks.flatten(),
        unowned=unowned.flatten().nonzero().squeeze(1),
        mask=mask[:, None],
    )


def _attend_group(out: torch.Tensor, query: torch.Tensor, kv_cache: torch.Tensor, group: _Group, scale: float) -> None:
    _, _, num_kv_heads, width = kv_cache.shape
    kv = kv_cache.flatten(1).index_select(0, group.blocks).view(-1, num_kv_heads * width)
    # Zeros, not whatever lies there: a weight of 0 does not undo a NaN that another request left.
    kv.index_fill_(0, group.unowned, 0.0)
    key, value = kv.view(group.size, -1, num_kv_heads, width).transpose(1, 2).chunk(2, dim=-1)
    # The heads of a group become further queries of their KV head, token by token: a key is read once for all of them.
    head_size = width // 2
    rows = query[group.tokens].view(group.size, group.query_len, num_kv_heads, -1, head_size)
    folded = rows.transpose(1, 2).flatten(2, 3)
    attended = F.scaled_dot_product_attention(folded, key, value, attn_mask=group.mask, scale=scale)
    attended = attended.unflatten(2, (group.query_len, -1)).transpose(1, 2)  # type: ignore[no-untyped-call]
    out[group.tokens] = attended.reshape(group.size * group.query_len, -1, head_size)


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
    """The twin of `minivllm.kernels.split_kv.split_kv_attention`: what is joined, and how, without the speed."""
    check_paged_attention(out, query, kv_cache, block_table, seq_lens, query_start_loc, max_query_len, sliding_window)
    check_only_decodes(max_query_len)
    _, block_size, num_kv_heads, width = kv_cache.shape
    groups = _groups(query_start_loc.tolist(), seq_lens.tolist(), GATHER_BYTES, sliding_window)
    for sequence in chain.from_iterable(groups):
        positions = torch.arange(sequence.first_key, sequence.seq_len, device=query.device)
        blocks = block_table[sequence.index, positions // block_size]
        kv = kv_cache[blocks, positions % block_size].transpose(0, 1)  # [num_kv_heads, keys, width]
        rows = query[sequence.query_start].view(num_kv_heads, -1, width // 2)
        largest, total, weighted = [], [], []
        for segment in torch.split(kv, -(-kv.shape[1] // NUM_SEGMENTS), dim=1):
            key, value = segment.chunk(2, dim=-1)
            scores = rows @ key.transpose(1, 2) * scale
            largest.append(scores.amax(-1, keepdim=True))
            weights = torch.exp(scores - largest[-1])
            total.append(weights.sum(-1, keepdim=True))
            weighted.append(weights @ value)
        shrink = torch.exp(torch.stack(largest) - torch.stack(largest).amax(0))
        joined = (torch.stack(weighted) * shrink).sum(0) / (torch.stack(total) * shrink).sum(0)
        out[sequence.query_start] = joined.view_as(out[sequence.query_start])
