"""The kernels without attention in Triton's interpreter; run by test_interpreter.py with TRITON_INTERPRET=1."""

import pytest
import torch

from minivllm.kernels import kernels_for
from tests.kernels import laws

KERNELS = kernels_for("cpu", backend="triton")
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)


@DTYPES
@pytest.mark.parametrize("block_size", [8, 16, 32])
@pytest.mark.parametrize(("num_kv_heads", "head_size"), [(1, 64), (3, 64), (8, 128)])
def test_cache_write_fills_the_named_slots_and_no_other(
    num_kv_heads: int, head_size: int, block_size: int, dtype: torch.dtype
) -> None:
    laws.cache_write(KERNELS, num_kv_heads, head_size, block_size, dtype)


@DTYPES
@pytest.mark.parametrize("hidden_size", [64, 576])
def test_rms_norm(hidden_size: int, dtype: torch.dtype) -> None:
    laws.rms_norm(KERNELS, 5, hidden_size, dtype)


@DTYPES
@pytest.mark.parametrize("hidden_size", [64, 576])
def test_fused_add_rms_norm(hidden_size: int, dtype: torch.dtype) -> None:
    laws.fused_add_rms_norm(KERNELS, 5, hidden_size, dtype)


def test_rms_norm_survives_large_activations() -> None:
    laws.rms_norm_survives_large_activations(KERNELS)


@DTYPES
@pytest.mark.parametrize(("num_heads", "num_kv_heads", "head_size"), [(9, 3, 64), (4, 4, 128), (2, 1, 16)])
def test_rotary_embedding(num_heads: int, num_kv_heads: int, head_size: int, dtype: torch.dtype) -> None:
    laws.rotary(KERNELS, num_heads, num_kv_heads, head_size, dtype)


@DTYPES
@pytest.mark.parametrize("width", [64, 1536])
def test_silu_and_mul(width: int, dtype: torch.dtype) -> None:
    laws.silu_and_mul(KERNELS, 4, width, dtype)


def test_empty_batches_are_fine() -> None:
    laws.empty_batches_are_fine(KERNELS)


def test_wrong_arguments_are_named() -> None:
    laws.wrong_arguments_are_named(KERNELS)
