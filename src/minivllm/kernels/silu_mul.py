"""The gate of a SwiGLU feed-forward layer: ``silu(gate) * up``.

Mirrors vllm/model_executor/layers/activation.py (SiluAndMul) and the operator silu_and_mul.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
# Triton reads a kernel's annotations itself, and they are not types.
import torch
import triton
import triton.language as tl

from minivllm.kernels.checks import check_silu_and_mul

BLOCK_N = 1024


@triton.jit
def silu_and_mul_kernel(
    out_ptr, gate_up_ptr, out_stride_token, gate_up_stride_token, WIDTH: tl.constexpr, BLOCK_N: tl.constexpr
):
    """One program computes BLOCK_N channels of one token; gate and up lie side by side in a row."""
    token = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = channel < WIDTH
    row = gate_up_ptr + token * gate_up_stride_token
    gate = tl.load(row + channel, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(row + WIDTH + channel, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + token * out_stride_token + channel, gate * tl.sigmoid(gate) * up, mask=mask)


def silu_and_mul(out: torch.Tensor, gate_up: torch.Tensor) -> None:
    """``out = silu(gate) * up`` with ``silu(x) = x * sigmoid(x)``, computed in fp32 and rounded once.

    Args:
        out: ``[num_tokens, width]``.
        gate_up: ``[num_tokens, 2 * width]``, the gate in the first half; the same dtype.

    Raises:
        ValueError, TypeError: a shape, stride or dtype is wrong.
    """
    check_silu_and_mul(out, gate_up)
    num_tokens, width = out.shape
    if num_tokens == 0:
        return
    silu_and_mul_kernel[(num_tokens, triton.cdiv(width, BLOCK_N))](
        out, gate_up, out.stride(0), gate_up.stride(0), WIDTH=width, BLOCK_N=BLOCK_N, num_warps=4
    )
