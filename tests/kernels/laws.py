"""What a set of kernels has to do, whichever backend it is; one function a law, used for the twins and for Triton.

Without pytest: benchmarks/gpu.py holds a GPU's kernels to these laws where nothing but torch and triton is installed.
"""

from collections.abc import Callable
from typing import Any

import torch

from minivllm.kernels import Kernels
from tests.kernels.cases import NAN, AttentionCase, build, check, poison_rows


def assert_rounded_twice_at_most(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal to float64 up to two units in the last place of the dtype (Triton's interpreter cuts bf16 off)."""
    torch.testing.assert_close(
        actual.double(), expected, rtol=2 * torch.finfo(actual.dtype).eps, atol=2 * torch.finfo(torch.float32).eps
    )


def attention(kernels: Kernels, case: AttentionCase) -> None:
    batch = build(case)
    before = batch.kv_cache.clone()
    kernels.paged_attention(**batch.arguments())
    check(batch)
    torch.testing.assert_close(batch.kv_cache, before, rtol=0, atol=0, equal_nan=True)


def split_attention(kernels: Kernels, case: AttentionCase) -> None:
    batch = build(case)
    kernels.split_kv_attention(**batch.arguments())
    check(batch)


def cache_write(kernels: Kernels, num_kv_heads: int, head_size: int, block_size: int, dtype: torch.dtype) -> None:
    num_tokens, num_blocks = 11, 7
    kv_cache = torch.full((num_blocks, block_size, num_kv_heads, 2 * head_size), NAN, dtype=dtype)
    width = num_kv_heads * head_size
    key = torch.unflatten(poison_rows(num_tokens, width, 2 * width + 7, dtype, seed=1), 1, (num_kv_heads, head_size))
    value = torch.unflatten(poison_rows(num_tokens, width, width + 5, dtype, seed=2), 1, (num_kv_heads, head_size))
    slots = torch.randperm(num_blocks * block_size, generator=torch.Generator().manual_seed(3))[:num_tokens]
    slots[0], slots[1] = 0, num_blocks * block_size - 1  # the first and the last slot of the pool
    slots = torch.where(torch.arange(num_tokens) % 4 == 2, -1, slots)
    expected = kv_cache.clone()
    for token, slot in enumerate(slots.tolist()):
        if slot >= 0:
            expected[slot // block_size, slot % block_size] = torch.cat((key[token], value[token]), dim=-1)
    kernels.cache_write(key, value, kv_cache, slots)
    torch.testing.assert_close(kv_cache, expected, rtol=0, atol=0, equal_nan=True)


def rms_norm(kernels: Kernels, num_tokens: int, hidden_size: int, dtype: torch.dtype) -> None:
    x = poison_rows(num_tokens, hidden_size, hidden_size + 9, dtype, seed=1)
    weight = torch.rand(hidden_size, generator=torch.Generator().manual_seed(2)).to(dtype)
    wide = x.double()
    expected = wide / (wide.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight.double()
    out = torch.full((num_tokens, hidden_size), NAN, dtype=dtype)
    kernels.rms_norm(out, x, weight, 1e-5)
    assert_rounded_twice_at_most(out, expected)


def fused_add_rms_norm(kernels: Kernels, num_tokens: int, hidden_size: int, dtype: torch.dtype) -> None:
    x = poison_rows(num_tokens, hidden_size, hidden_size + 9, dtype, seed=1)
    residual = poison_rows(num_tokens, hidden_size, hidden_size + 4, dtype, seed=2)
    weight = torch.rand(hidden_size, generator=torch.Generator().manual_seed(3)).to(dtype)
    total = x.double() + residual.double()
    expected = total / (total.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight.double()
    kernels.fused_add_rms_norm(x, residual, weight, 1e-5)
    assert_rounded_twice_at_most(residual, total)
    assert_rounded_twice_at_most(x, expected)


def rms_norm_survives_large_activations(kernels: Kernels) -> None:
    """A square of 300 is beyond fp16."""
    x = torch.full((2, 64), 300.0, dtype=torch.float16)
    out = torch.empty_like(x)
    kernels.rms_norm(out, x, torch.ones(64, dtype=torch.float16), 1e-5)
    torch.testing.assert_close(out, torch.ones_like(x))


def rotary(kernels: Kernels, num_heads: int, num_kv_heads: int, head_size: int, dtype: torch.dtype) -> None:
    positions = torch.tensor([0, 5, 1, 4095, 5])
    angle = torch.arange(4096)[:, None] / 10000.0 ** (torch.arange(0, head_size, 2) / head_size)
    cos_sin_cache = torch.cat((angle.cos(), angle.sin()), dim=-1).float()
    width = (num_heads + num_kv_heads) * head_size
    fused = poison_rows(5, width, width + 3, dtype, seed=1)  # query and key as views of one projection
    query = torch.unflatten(fused[:, : num_heads * head_size], 1, (num_heads, head_size))
    key = torch.unflatten(fused[:, num_heads * head_size :], 1, (num_kv_heads, head_size))
    expected = []
    for heads in (query, key):
        pairs = torch.complex(*heads.double().chunk(2, dim=-1))
        turn = torch.complex(*cos_sin_cache[positions].double().chunk(2, dim=-1))
        turned = pairs * turn[:, None]  # a pair of channels is a complex number, and the embedding turns it
        expected.append(torch.cat((turned.real, turned.imag), dim=-1))
    kernels.rotary_embedding(positions, query, key, cos_sin_cache)
    assert_rounded_twice_at_most(query, expected[0])
    assert_rounded_twice_at_most(key, expected[1])


def silu_and_mul(kernels: Kernels, num_tokens: int, width: int, dtype: torch.dtype) -> None:
    gate_up = poison_rows(num_tokens, 2 * width, 2 * width + 5, dtype, seed=1)
    gate, up = gate_up.double().chunk(2, dim=-1)
    out = torch.full((num_tokens, width), NAN, dtype=dtype)
    kernels.silu_and_mul(out, gate_up)
    assert_rounded_twice_at_most(out, gate / (1 + (-gate).exp()) * up)


def empty_batches_are_fine(kernels: Kernels) -> None:
    kv_cache = torch.zeros(2, 16, 2, 128)
    none = torch.empty(0, 2, 64)
    kernels.cache_write(none, none, kv_cache, torch.empty(0, dtype=torch.int64))
    kernels.rms_norm(torch.empty(0, 64), torch.empty(0, 64), torch.ones(64), 1e-5)
    kernels.rotary_embedding(torch.empty(0, dtype=torch.int64), none, none, torch.zeros(4, 64))
    kernels.silu_and_mul(torch.empty(0, 8), torch.empty(0, 16))


def wrong_arguments_are_named(kernels: Kernels) -> None:
    """Each call is refused with a sentence that names the argument, and before it touches anything."""
    batch = build(AttentionCase("small", ((1, 5),)))
    good = batch.arguments()
    for change, complaint in (
        ({"out": batch.out[:, :, :32]}, "out has the shape"),
        ({"query": batch.query.half()}, "query is torch.float16, but must be torch.float32"),
        ({"block_table": batch.block_table.long()}, "block_table is torch.int64, but must be torch.int32"),
        ({"seq_lens": batch.seq_lens.repeat(2)}, "must be (2,"),
        ({"query_start_loc": batch.query_start_loc[:1]}, "query_start_loc has the shape (1,), but must be (2,)"),
        ({"kv_cache": batch.kv_cache[..., :64]}, "kv_cache has the shape"),
        ({"sliding_window": 0}, "sliding_window is 0"),
        ({"max_query_len": 0}, "max_query_len is 0"),
        ({"query": torch.zeros(1, 3, 64), "out": torch.zeros(1, 3, 64)}, "multiple of kv_cache's 2"),
        ({"query": torch.zeros(1, 4, 80), "out": torch.zeros(1, 4, 80)}, "head size 80"),
    ):
        refused((ValueError, TypeError), complaint, kernels.paged_attention, **{**good, **change})
    assert batch.out.isnan().all()
    split = kernels.split_kv_attention
    refused(ValueError, "decodes of one new token only: call paged_attention", split, **{**good, "max_query_len": 2})

    write, kv_cache = kernels.cache_write, torch.zeros(2, 16, 2, 128)
    row, slots = torch.zeros(3, 2, 64), torch.zeros(3, dtype=torch.int64)
    refused(TypeError, "slot_mapping is torch.int32, but must be torch.int64", write, row, row, kv_cache, slots.int())
    refused(ValueError, "slot_mapping has the shape (2,), but must be (3,)", write, row, row, kv_cache, slots[:2])
    refused(ValueError, "call .contiguous()", write, torch.zeros(3, 64, 2).transpose(1, 2), row, kv_cache, slots)
    one = torch.zeros(1, 8)
    refused(ValueError, "weight has the shape", kernels.rms_norm, one, one, torch.zeros(9), 1e-5)
    refused(ValueError, "out has the shape", kernels.silu_and_mul, one, one)
    refused(ValueError, "positions has the shape", kernels.rotary_embedding, slots[:1], row, row, torch.zeros(4, 64))


def refused(
    kind: type[Exception] | tuple[type[Exception], ...],
    complaint: str,
    call: Callable[..., None],
    *args: Any,
    **kw: Any,
) -> None:
    try:
        call(*args, **kw)
    except kind as error:
        assert complaint in str(error), f"{complaint!r} is not in {str(error)!r}"
    else:
        raise AssertionError(f"nothing was refused with {complaint!r}")
