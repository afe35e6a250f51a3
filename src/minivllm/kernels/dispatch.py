"""Which implementation of the kernels runs: Triton on a GPU, the torch twin on a CPU.

    kernels = kernels_for(device)
    kernels.rms_norm(out, x, weight, eps)

Importable where there is no triton (macOS, Windows): it is looked for only when a Triton kernel is asked for.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

import torch

from minivllm.errors import MinivllmError
from minivllm.kernels import reference

Backend = Literal["triton", "torch"]


@dataclass(frozen=True)
class Kernels:
    """The kernels of one backend; the modules of the same names describe arguments and results."""

    backend: Backend
    cache_write: Callable[..., None]
    paged_attention: Callable[..., None]
    split_kv_attention: Callable[..., None]
    rms_norm: Callable[..., None]
    fused_add_rms_norm: Callable[..., None]
    rotary_embedding: Callable[..., None]
    silu_and_mul: Callable[..., None]


class TritonUnavailableError(MinivllmError):
    """Triton kernels were asked for where they cannot run; the message says why and what to do."""


def interpreting() -> bool:
    """Whether Triton's interpreter was asked for: it runs the kernels on a CPU, slowly, step by step if you like."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def default_backend(device: torch.device | str) -> Backend:
    """ "triton" for a CUDA device or under TRITON_INTERPRET=1, otherwise "torch"."""
    return "triton" if torch.device(device).type == "cuda" or interpreting() else "torch"


def kernels_for(device: torch.device | str, backend: Backend | None = None) -> Kernels:
    """The kernels for tensors on `device`.

    Args:
        device: where the tensors are.
        backend: "triton" or "torch"; None picks `default_backend`.

    Raises:
        ValueError: `backend` is neither.
        TritonUnavailableError: Triton is asked for, or `device` is a GPU and backend None, and it can't run here.
    """
    backend = default_backend(device) if backend is None else backend
    if backend == "torch":
        return Kernels(
            backend="torch",
            cache_write=reference.cache_write,
            paged_attention=reference.paged_attention,
            split_kv_attention=reference.split_kv_attention,
            rms_norm=reference.rms_norm,
            fused_add_rms_norm=reference.fused_add_rms_norm,
            rotary_embedding=reference.rotary_embedding,
            silu_and_mul=reference.silu_and_mul,
        )
    if backend != "triton":
        raise ValueError(f"The kernel backend is {backend!r}, but must be 'triton', 'torch' or None.")
    _require_triton(torch.device(device))
    from minivllm.kernels import cache_write, paged_attention, rms_norm, rotary, silu_mul, split_kv

    return Kernels(
        backend="triton",
        cache_write=cache_write.cache_write,
        paged_attention=paged_attention.paged_attention,
        split_kv_attention=split_kv.split_kv_attention,
        rms_norm=rms_norm.rms_norm,
        fused_add_rms_norm=rms_norm.fused_add_rms_norm,
        rotary_embedding=rotary.rotary_embedding,
        silu_and_mul=silu_mul.silu_and_mul,
    )


def _require_triton(device: torch.device) -> None:
    if find_spec("triton") is None:
        raise TritonUnavailableError(
            f"Triton kernels were asked for on {device}, but triton is not installed, and it has wheels for Linux "
            "only: pass backend='torch' to use the torch twins, or run on Linux (WSL, Colab)."
        )
    if device.type != "cuda" and not interpreting():
        raise TritonUnavailableError(
            f"Triton kernels were asked for on {device}, but they need a CUDA device: pass backend='torch', or set "
            "TRITON_INTERPRET=1 before Python starts to run them on a CPU, slowly, in Triton's interpreter."
        )
    import triton.language as tl

    # triton looks at TRITON_INTERPRET when it is imported, and its own library functions show what it saw.
    if (type(tl.cdiv).__name__ == "InterpretedFunction") != interpreting():
        raise TritonUnavailableError(
            "TRITON_INTERPRET was changed after triton was imported, and triton looks at it only then: set it before "
            "Python starts, or restart the kernel."
        )
