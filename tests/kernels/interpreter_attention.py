"""Paged attention in Triton's interpreter; run by test_interpreter.py with TRITON_INTERPRET=1.

fp32 and fp16 only: the interpreter multiplies the raw bits of bf16 in tl.dot.
"""

import math
from typing import Any

import numpy as np
import pytest
import torch

from minivllm.kernels import Kernels, kernels_for, reference
from minivllm.kernels import paged_attention as module
from minivllm.kernels.tiles import Tile, choose_tile
from tests.kernels import laws
from tests.kernels.cases import CASES, DECODE_CASES, AttentionCase, build, check

KERNELS = kernels_for("cpu", backend="triton")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_attention_equals_float64(case: AttentionCase) -> None:
    laws.attention(KERNELS, case)


@pytest.mark.parametrize("case", DECODE_CASES, ids=str)
def test_split_attention_equals_float64(case: AttentionCase) -> None:
    laws.split_attention(KERNELS, case)


TILES = [
    choose_tile(90, 64, 2, 2, max_query_len=1),
    choose_tile(90, 64, 2, 2, max_query_len=12),
    choose_tile(90, 64, 2, 2, max_query_len=500),
]


@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("sliding_window", [None, 30])
def test_the_tiles_of_larger_gpus_are_right_too(
    tile: Tile, sliding_window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interpreter takes the smallest tile by itself; whole and masked tiles, and rows beyond a chunk, come in all."""
    monkeypatch.setattr(module, "choose_tile", lambda *_, **__: tile)
    laws.attention(KERNELS, AttentionCase("mix", ((1, 150), (70, 130)), sliding_window=sliding_window))


@pytest.mark.parametrize("capability", [75, 80, 89, 90, 100, 120])
@pytest.mark.parametrize("element_size", [2, 4])
def test_a_device_has_one_key_tile_for_all_query_lengths(capability: int, element_size: int) -> None:
    """Otherwise a prompt's chunks would add up the same keys in different orders."""
    for head_size in (64, 128):
        tiles = {choose_tile(capability, head_size, 3, element_size, n).tile for n in (1, 2, 5, 30, 4096)}
        assert len(tiles) == 1


def multiplied_row_by_row(left: Any, right: Any, dtype: Any = None) -> Any:
    return np.einsum("...ij,...jk->...ik", left, right, dtype=dtype)


def test_a_row_has_the_same_bits_however_its_prompt_is_cut_and_whoever_is_in_the_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The interpreter multiplies with numpy, whose BLAS may add up in another order for another number of rows."""
    monkeypatch.setattr(np, "matmul", multiplied_row_by_row)
    whole = build(AttentionCase("whole", ((60, 60),)))
    arguments = whole.arguments()
    KERNELS.paged_attention(**arguments)
    check(whole)
    chunk = torch.full_like(whole.out[:13], float("nan"))
    arguments.update(
        out=chunk,
        query=whole.query[40:53],
        seq_lens=torch.tensor([53], dtype=torch.int32),
        query_start_loc=torch.tensor([0, 13], dtype=torch.int32),
    )
    KERNELS.paged_attention(**arguments)
    assert torch.equal(chunk, whole.out[40:53])

    decode = torch.full_like(whole.out[:2], float("nan"))
    arguments.update(
        out=decode,
        query=whole.query[[59, 20]],
        block_table=whole.block_table.repeat(2, 1),
        seq_lens=torch.tensor([60, 21], dtype=torch.int32),
        query_start_loc=torch.tensor([0, 1, 2], dtype=torch.int32),
        max_query_len=1,
    )
    KERNELS.paged_attention(**arguments)
    assert torch.equal(decode, whole.out[[59, 20]])


def test_splitting_changes_bits_and_not_values() -> None:
    """What the docstring of split_kv warns of, seen."""
    case = AttentionCase("long", ((1, 300),), num_heads=2, num_kv_heads=1)
    walked, split = build(case), build(case)
    KERNELS.paged_attention(**walked.arguments())
    KERNELS.split_kv_attention(**split.arguments())
    assert not torch.equal(walked.out, split.out)
    torch.testing.assert_close(walked.out, split.out, rtol=0, atol=1e-6)


def test_two_layers_decode_the_same_tokens_on_both_backends() -> None:
    """A tiny Llama with random weights, prefilled in chunks and decoded greedily, every kernel in use."""
    assert _generate(KERNELS) == _generate(kernels_for("cpu", backend="torch"))


def _generate(kernels: Kernels) -> list[list[int]]:
    hidden, heads, kv_heads, head_size, vocab, block_size = 48, 3, 1, 16, 96, 8
    generator = torch.Generator().manual_seed(0)
    qkv_width = (heads + 2 * kv_heads) * head_size

    def weights(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) / math.sqrt(shape[-1])

    embedding, head = weights(vocab, hidden) * 7, weights(vocab, hidden)
    layers = [
        (weights(qkv_width, hidden), weights(hidden, hidden), weights(128, hidden), weights(hidden, 64))
        for _ in range(2)
    ]
    caches = [torch.full((9, block_size, kv_heads, 2 * head_size), float("nan")) for _ in layers]
    block_table = torch.tensor([[3, 1, 7], [8, 2, 5]], dtype=torch.int32)
    angle = torch.arange(32)[:, None] / 100.0 ** (torch.arange(0, head_size, 2) / head_size)
    cos_sin_cache = torch.cat((angle.cos(), angle.sin()), dim=-1)
    ones = torch.ones(hidden)

    def step(new_tokens: list[list[int]], num_computed: list[int]) -> list[int]:
        lens = [len(tokens) for tokens in new_tokens]
        seq_of = torch.repeat_interleave(torch.arange(2), torch.tensor(lens))
        positions = torch.cat([torch.arange(n, n + length) for n, length in zip(num_computed, lens, strict=True)])
        slots = block_table[seq_of, positions // block_size].long() * block_size + positions % block_size
        starts = torch.tensor([0, *lens]).cumsum(0).to(torch.int32)
        seq_lens = torch.tensor([n + length for n, length in zip(num_computed, lens, strict=True)], dtype=torch.int32)
        x = embedding[torch.tensor([token for tokens in new_tokens for token in tokens])]
        residual = torch.zeros_like(x)
        for cache, (qkv_proj, o_proj, gate_up_proj, down_proj) in zip(caches, layers, strict=True):
            kernels.fused_add_rms_norm(x, residual, ones, 1e-5)
            query, key, value = torch.split(
                (x @ qkv_proj.T).view(len(x), -1, head_size), [heads, kv_heads, kv_heads], dim=1
            )
            kernels.rotary_embedding(positions, query, key, cos_sin_cache)
            kernels.cache_write(key, value, cache, slots)
            out = torch.full((len(x), heads, head_size), float("nan"))
            kernels.paged_attention(
                out, query, cache, block_table, seq_lens, starts, scale=head_size**-0.5, max_query_len=max(lens)
            )
            x = out.flatten(1) @ o_proj.T
            kernels.fused_add_rms_norm(x, residual, ones, 1e-5)
            gated = torch.full((len(x), 64), float("nan"))
            kernels.silu_and_mul(gated, x @ gate_up_proj.T)
            x = gated @ down_proj.T
        out = torch.empty_like(x)
        kernels.rms_norm(out, x + residual, ones, 1e-5)
        return [int(token) for token in (out[starts[1:].long() - 1] @ head.T).argmax(-1)]

    prompts = [[5, 17, 80, 3, 41, 9, 60, 22, 11], [7, 7, 1]]
    step([prompts[0][:4], prompts[1][:2]], [0, 0])  # a chunk of each
    last = step([prompts[0][4:], prompts[1][2:]], [4, 2])
    outputs = [[token] for token in last]
    for i in range(6):
        last = step([[token] for token in last], [9 + i, 3 + i])
        for output, token in zip(outputs, last, strict=True):
            output.append(token)
    return outputs


def test_the_twin_agrees_on_what_a_window_sees() -> None:
    """Both against each other on a window that starts in the middle of a block, in the middle of a chunk."""
    case = AttentionCase("window", ((30, 61),), sliding_window=11, block_size=8)
    triton_batch, torch_batch = build(case), build(case)
    KERNELS.paged_attention(**triton_batch.arguments())
    reference.paged_attention(**torch_batch.arguments())
    torch.testing.assert_close(triton_batch.out, torch_batch.out, rtol=0, atol=2e-6)
