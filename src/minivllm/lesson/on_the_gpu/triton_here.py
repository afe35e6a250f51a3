"""Triton for a notebook: compiled on a GPU, interpreted on a CPU, and one sentence where there is none."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from minivllm.lesson.common.table import show

if TYPE_CHECKING:
    import torch

NO_TRITON = (
    "There is no Triton here: it has wheels for Linux only. Read these kernels, or run this notebook on Linux (WSL, "
    "Colab); everything else in it works."
)
TOO_LATE = (
    "Triton was imported in this kernel before the interpreter was asked for, and it looks only then: restart the "
    "kernel and run from the top. Until then the Triton cells do nothing."
)


class MissingKernel:
    """What `@triton.jit` gives where Triton can't run: a launch says why, and the notebook goes on."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __getitem__(self, grid: object) -> Callable[..., None]:
        return lambda *args, **options: show(self.reason)


class MissingTriton:
    """Stands for both `triton` and `triton.language`, so that the cells which define kernels still run."""

    constexpr = None

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def jit(self, function: Any = None, **options: Any) -> Any:
        return self.jit if function is None else MissingKernel(self.reason)


def use_triton() -> tuple[Any, Any, torch.device]:
    """`triton`, `triton.language` and the device for tensors; says in one sentence what will run the kernels.

    Without a GPU the interpreter is switched on, for kernels that are defined from now on. The environment is left as
    it was: the engine asks it for TRITON_INTERPRET, and would run a whole model in the interpreter.
    """
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if find_spec("triton") is None:
        return _missing(NO_TRITON, device)
    if device.type == "cpu" and "triton" not in sys.modules:
        _import_interpreted()
    import triton
    import triton.language as tl

    name = f"Triton {triton.__version__}"
    if type(tl.cdiv).__name__ == "InterpretedFunction":
        show(f"{name} interprets your kernels on the CPU, one program after another: right, but slow.")
    elif device.type == "cuda":
        show(f"{name} compiles your kernels for {torch.cuda.get_device_name(device)}.")
    else:
        return _missing(TOO_LATE, device)
    return triton, tl, device


def _import_interpreted() -> None:
    before = os.environ.get("TRITON_INTERPRET")
    os.environ["TRITON_INTERPRET"] = "1"  # read while triton is imported: its own functions are kernels, too
    import triton

    triton.knobs.runtime.interpret = True  # read by every @triton.jit
    if before is None:
        del os.environ["TRITON_INTERPRET"]
    else:
        os.environ["TRITON_INTERPRET"] = before


def _missing(reason: str, device: torch.device) -> tuple[MissingTriton, MissingTriton, torch.device]:
    show(reason)
    return MissingTriton(reason), MissingTriton(reason), device
