"""The torch twins against float64; they are the engine's CPU path."""

import pytest
import torch

from minivllm.kernels import kernels_for, reference
from tests.kernels import laws
from tests.kernels.cases import CASES, DECODE_CASES, AttentionCase, build, check

KERNELS = kernels_for("cpu", backend="torch")
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
LONG_CASES = [
    AttentionCase("prompt of several chunks", ((700, 700),)),
    AttentionCase("chunks on a long context", ((300, 900), (1, 400))),
    AttentionCase("chunks under a window", ((600, 600),), sliding_window=100),
    AttentionCase("bf16 mix", ((1, 30), (12, 12), (5, 40)), dtype=torch.bfloat16),
    AttentionCase("float64 mix", ((1, 30), (1, 31), (12, 12), (5, 40), (5, 41)), dtype=torch.float64),
]


@pytest.mark.parametrize("case", CASES + LONG_CASES, ids=str)
def test_attention_equals_float64(case: AttentionCase) -> None:
    laws.attention(KERNELS, case)


@pytest.mark.parametrize("gather_bytes", [0, 1 << 14, 1 << 40], ids=["alone", "few", "together"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_attention_is_right_however_it_groups_sequences(
    case: AttentionCase, gather_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "GATHER_BYTES", gather_bytes)
    laws.attention(KERNELS, case)


@pytest.mark.parametrize("case", DECODE_CASES, ids=str)
def test_split_attention_equals_float64(case: AttentionCase) -> None:
    laws.split_attention(KERNELS, case)


def test_a_nan_in_one_sequence_stays_there() -> None:
    """A request whose activations overflowed takes nobody with it, in the same call or in a reused block."""
    case = AttentionCase("decode", ((1, 33), (1, 30), (1, 20)))
    batch = build(case)
    batch.kv_cache[batch.block_table[1, 0]] = float("nan")
    reference.paged_attention(**batch.arguments())
    assert batch.out[1].isnan().all()
    batch.out[1] = batch.expected[1]
    check(batch)


def test_a_batch_written_into_the_same_tensors_is_a_new_batch() -> None:
    """The layout of the last call is kept for the next layer, and must not outlive the values it was made from."""
    case = AttentionCase("decode", ((1, 33), (1, 30), (1, 20)))
    first, second = build(case, seed=1), build(case, seed=2)  # the same lengths, other blocks
    reference.paged_attention(**first.arguments())
    check(first)
    tables = first.arguments() | {"out": second.out, "query": second.query, "kv_cache": second.kv_cache}
    first.block_table.copy_(second.block_table)
    reference.paged_attention(**tables)
    check(second)


@DTYPES
@pytest.mark.parametrize("block_size", [8, 16, 32])
@pytest.mark.parametrize(("num_kv_heads", "head_size"), [(1, 64), (3, 64), (8, 128)])
def test_cache_write_fills_the_named_slots_and_no_other(
    num_kv_heads: int, head_size: int, block_size: int, dtype: torch.dtype
) -> None:
    laws.cache_write(KERNELS, num_kv_heads, head_size, block_size, dtype)


@DTYPES
def test_rms_norm(dtype: torch.dtype) -> None:
    laws.rms_norm(KERNELS, 5, 576, dtype)
    laws.fused_add_rms_norm(KERNELS, 5, 576, dtype)


def test_rms_norm_survives_large_activations() -> None:
    laws.rms_norm_survives_large_activations(KERNELS)


@DTYPES
def test_rotary_embedding(dtype: torch.dtype) -> None:
    laws.rotary(KERNELS, 9, 3, 64, dtype)


@DTYPES
def test_silu_and_mul(dtype: torch.dtype) -> None:
    laws.silu_and_mul(KERNELS, 4, 1536, dtype)


def test_empty_batches_are_fine() -> None:
    laws.empty_batches_are_fine(KERNELS)


def test_wrong_arguments_are_named() -> None:
    laws.wrong_arguments_are_named(KERNELS)
