"""Batches for attention, and what they must give: float64, one token at a time, nothing shared with the kernels.

What a batch owns is random, everything else is NaN: unowned slots, unnamed blocks, padding rows, and the output before
the call. A kernel that reads what it does not own, or leaves a row unwritten, shows.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import torch

NAN = float("nan")


@dataclass(frozen=True)
class AttentionCase:
    """`seqs`: (new tokens, tokens in all) of each sequence; (0, 0) is padding."""

    name: str
    seqs: tuple[tuple[int, int], ...]
    num_heads: int = 4
    num_kv_heads: int = 2
    head_size: int = 64
    block_size: int = 16
    sliding_window: int | None = None
    padding_tokens: int = 0
    dtype: torch.dtype = torch.float32

    def __str__(self) -> str:
        return self.name

    @property
    def num_tokens(self) -> int:
        return sum(query_len for query_len, _ in self.seqs)

    @property
    def scale(self) -> float:
        return 1 / math.sqrt(self.head_size)


@dataclass
class AttentionBatch:
    case: AttentionCase
    out: torch.Tensor
    query: torch.Tensor
    kv_cache: torch.Tensor
    block_table: torch.Tensor
    seq_lens: torch.Tensor
    query_start_loc: torch.Tensor
    expected: torch.Tensor = field(repr=False)

    def arguments(self) -> dict[str, Any]:
        return {
            "out": self.out,
            "query": self.query,
            "kv_cache": self.kv_cache,
            "block_table": self.block_table,
            "seq_lens": self.seq_lens,
            "query_start_loc": self.query_start_loc,
            "scale": self.case.scale,
            "max_query_len": max(query_len for query_len, _ in self.case.seqs),
            "sliding_window": self.case.sliding_window,
        }

    def to(self, device: torch.device | str) -> "AttentionBatch":
        moved: dict[str, Any] = {
            name: value.to(device) for name, value in vars(self).items() if isinstance(value, torch.Tensor)
        }
        return replace(self, **moved)


def build(case: AttentionCase, seed: int = 0) -> AttentionBatch:
    generator = torch.Generator().manual_seed(seed)
    head_size, block_size = case.head_size, case.block_size
    blocks_of = [-(-seq_len // block_size) for _, seq_len in case.seqs]
    num_blocks = sum(blocks_of) + 2
    block_ids = (torch.randperm(num_blocks - 1, generator=generator) + 1).tolist()  # block 0 belongs to nobody
    kv_cache = torch.full((num_blocks, block_size, case.num_kv_heads, 2 * head_size), NAN, dtype=torch.float64)
    # Entries beyond a sequence's blocks name block 0, which is all NaN.
    block_table = torch.zeros(len(case.seqs), max(*blocks_of, 1), dtype=torch.int32)
    query = torch.full((case.num_tokens + case.padding_tokens, case.num_heads, head_size), NAN, dtype=torch.float64)
    expected = torch.full_like(query, NAN)
    group_size = case.num_heads // case.num_kv_heads
    token = 0
    for index, ((query_len, seq_len), num_own) in enumerate(zip(case.seqs, blocks_of, strict=True)):
        own = [block_ids.pop() for _ in range(num_own)]
        # Block-table entries left of the window are block 0, as they are once their blocks were given back.
        window = case.sliding_window or seq_len
        first_key = max(0, seq_len - query_len + 1 - window)
        for column, block in enumerate(own):
            block_table[index, column] = block if (column + 1) * block_size > first_key else 0
        kv = torch.randn(seq_len, case.num_kv_heads, 2 * head_size, generator=generator, dtype=torch.float64)
        kv = kv.to(case.dtype).double()
        for position in range(first_key, seq_len):
            kv_cache[own[position // block_size], position % block_size] = kv[position]
        for position in range(seq_len - query_len, seq_len):
            row = (
                torch.randn(case.num_heads, head_size, generator=generator, dtype=torch.float64).to(case.dtype).double()
            )
            query[token] = row
            seen = kv[max(0, position + 1 - window) : position + 1]
            for head in range(case.num_heads):
                key, value = seen[:, head // group_size].chunk(2, dim=-1)
                expected[token, head] = torch.softmax(key @ row[head] * case.scale, dim=0) @ value
            token += 1
    starts = torch.tensor([0, *(query_len for query_len, _ in case.seqs)]).cumsum(0)
    return AttentionBatch(
        case=case,
        out=torch.full_like(query, NAN, dtype=case.dtype),
        query=query.to(case.dtype),
        kv_cache=kv_cache.to(case.dtype),
        block_table=block_table,
        seq_lens=torch.tensor([seq_len for _, seq_len in case.seqs], dtype=torch.int32),
        query_start_loc=starts.to(torch.int32),
        expected=expected,
    )


TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def largest_error(batch: AttentionBatch) -> float:
    """Off from float64 by so much, relative to numbers above 1; NaN if something was read or left that must not be."""
    actual, expected = batch.out[: batch.case.num_tokens].double(), batch.expected[: batch.case.num_tokens]
    return float(((actual - expected).abs() / expected.abs().clamp(min=1)).max())


def check(batch: AttentionBatch) -> None:
    """Every owned row is right, every padding row still what it was."""
    error = largest_error(batch)
    assert error <= TOLERANCE[batch.case.dtype], (
        f"{batch.case}: off by {error} (NaN: something was read or left that must not be)"
    )
    assert batch.out[batch.case.num_tokens :].isnan().all(), f"{batch.case}: a padding row was written"


_prefill = AttentionCase("prefill", ((37, 37),))
CASES = [
    _prefill,
    AttentionCase("prefill chunk", ((20, 45),)),
    AttentionCase("ragged mix", ((1, 23), (9, 9), (5, 40), (1, 1))),
    AttentionCase("decode", ((1, 33), (1, 64), (1, 7), (1, 50))),
    AttentionCase("verification 4 x 5", ((5, 5), (5, 20), (5, 33), (5, 48))),
    AttentionCase("one-token prompts", ((1, 1), (1, 1), (1, 1))),
    AttentionCase("padding slots", ((1, 20), (3, 18), (0, 0), (0, 0)), padding_tokens=3),
    AttentionCase("padding sequence between", ((0, 0), (2, 19), (0, 0), (1, 17)), padding_tokens=1),
    *(
        AttentionCase(f"group of {group}", ((1, 21), (7, 18)), num_heads=group * 2, num_kv_heads=2)
        for group in (1, 3, 4, 8)
    ),
    AttentionCase("one KV head", ((1, 21), (7, 18)), num_heads=3, num_kv_heads=1),
    AttentionCase("three KV heads", ((1, 21), (7, 18)), num_heads=9, num_kv_heads=3),
    *(AttentionCase(f"head size {head_size}", ((1, 35), (6, 20)), head_size=head_size) for head_size in (16, 32, 128)),
    *(AttentionCase(f"block size {block_size}", ((1, 70), (9, 25)), block_size=block_size) for block_size in (8, 32)),
    *(
        AttentionCase(f"window {window}, {name}", seqs, sliding_window=window, block_size=8)
        for window, name, seqs in (
            (1, "mix", ((1, 20), (6, 17))),
            (8, "decode", ((1, 40), (1, 3), (1, 9))),
            (17, "prefill", ((45, 45),)),
            (40, "mix", ((1, 90), (5, 41), (20, 70))),
            (200, "longer than all", ((1, 30), (7, 20))),
        )
    ),
    # A sequence that ends at each offset of a block, as a decode and as a chunk that crosses the boundary.
    *(
        AttentionCase(
            f"boundary {offset}", ((1, 8 + offset), (3, 8 + offset)), block_size=8, num_kv_heads=1, num_heads=2
        )
        for offset in range(1, 9)
    ),
    AttentionCase("fp16 mix", ((1, 30), (12, 12), (5, 40)), dtype=torch.float16),
    AttentionCase("fp16 SmolLM2's heads", ((1, 50), (1, 17)), num_heads=9, num_kv_heads=3, dtype=torch.float16),
]
DECODE_CASES = [case for case in CASES if max(query_len for query_len, _ in case.seqs) == 1]
DECODE_CASES.append(AttentionCase("padded decode", ((1, 50), (0, 0), (1, 19)), padding_tokens=1))
DECODE_CASES.append(AttentionCase("more tiles than segments", ((1, 700),), num_heads=2, num_kv_heads=1))


def poison_rows(num_rows: int, width: int, stride: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Random rows as a view of a wider matrix whose other columns are NaN, as a fused QKV is cut into views."""
    generator = torch.Generator().manual_seed(seed)
    wide = torch.full((num_rows, stride), NAN, dtype=dtype)
    rows = wide[:, 3 : 3 + width]
    rows.copy_(torch.randn(num_rows, width, generator=generator, dtype=torch.float64))
    return rows
