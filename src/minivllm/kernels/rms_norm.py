"""Root-mean-square normalization, alone and fused with the residual addition in front of it.

Mirrors vllm/model_executor/layers/layernorm.py (RMSNorm) and vllm/_custom_ops.py (rms_norm, fused_add_rms_norm).

Why fuse: both steps move every element through memory and compute next to nothing, so on a GPU the time is the traffic.
Apart, ``residual += x`` reads two tensors and writes one, and the norm reads that one again; fused, it is still in
registers.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
# Triton reads a kernel's annotations itself, and they are not types.
import torch
import triton
import triton.language as tl

from minivllm.kernels.checks import check_rms_norm


@triton.jit
def rms_norm_kernel(
    out_ptr,
    x_ptr,
    residual_ptr,
    weight_ptr,
    out_stride_token,
    x_stride_token,
    residual_stride_token,
    eps,
    HIDDEN_SIZE: tl.constexpr,
    BLOCK_N: tl.constexpr,
    ADD_RESIDUAL: tl.constexpr,
):
    """One program normalizes one token, whose channels fit a program's registers."""
    token = tl.program_id(0).to(tl.int64)
    channel = tl.arange(0, BLOCK_N)
    mask = channel < HIDDEN_SIZE
    # Zeros in the excess channels add nothing to the sum of squares.
    x = tl.load(x_ptr + token * x_stride_token + channel, mask=mask, other=0.0).to(tl.float32)
    if ADD_RESIDUAL:
        residual_row = residual_ptr + token * residual_stride_token + channel
        # The sum is rounded to the residual's dtype before it is normalized, as two separate steps would.
        total = (x + tl.load(residual_row, mask=mask, other=0.0).to(tl.float32)).to(residual_ptr.dtype.element_ty)
        tl.store(residual_row, total, mask=mask)
        x = total.to(tl.float32)
    # Squares of fp16 activations overflow fp16 from 256 on: everything below is fp32.
    inverse = tl.rsqrt(tl.sum(x * x, axis=0) / HIDDEN_SIZE + eps)
    weight = tl.load(weight_ptr + channel, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + token * out_stride_token + channel, x * inverse * weight, mask=mask)


def _launch(
    out: torch.Tensor, x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, eps: float
) -> None:
    num_tokens, hidden_size = x.shape
    if num_tokens == 0:
        return
    rms_norm_kernel[(num_tokens,)](
        out,
        x,
        x if residual is None else residual,
        weight,
        out.stride(0),
        x.stride(0),
        x.stride(0) if residual is None else residual.stride(0),
        eps,
        HIDDEN_SIZE=hidden_size,
        BLOCK_N=triton.next_power_of_2(hidden_size),
        ADD_RESIDUAL=residual is not None,
        num_warps=4 if hidden_size <= 2048 else 8,
    )


def rms_norm(out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    """``out = x / sqrt(mean(x * x) + eps) * weight``, computed in fp32 and rounded once.

    Args:
        out, x: ``[num_tokens, hidden_size]``, one dtype; ``out`` may be ``x``.
        weight: ``[hidden_size]``, the same dtype.

    Raises:
        ValueError, TypeError: a shape, stride or dtype is wrong.
    """
    check_rms_norm(x, out, weight)
    _launch(out, x, None, weight, eps)


def fused_add_rms_norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    """``residual += x``, then ``x = rms_norm(residual)``, both in place.

    Args:
        x, residual: ``[num_tokens, hidden_size]``, one dtype.
        weight: ``[hidden_size]``, the same dtype.

    Raises:
        ValueError, TypeError: a shape, stride or dtype is wrong.
    """
    check_rms_norm(x, residual, weight)
    _launch(x, x, residual, weight, eps)
