"""Which backend is picked, and what is said where Triton cannot run."""

import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch

from minivllm.kernels import TritonUnavailableError, dispatch, kernels_for
from tests.conftest import unavailable


def test_a_cpu_gets_the_torch_twins() -> None:
    assert kernels_for("cpu").backend == "torch"
    assert kernels_for(torch.device("cpu"), backend="torch") == kernels_for("cpu")


def test_a_gpu_gets_triton() -> None:
    assert dispatch.default_backend("cuda:0") == "triton"


def test_the_interpreter_is_chosen_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert dispatch.default_backend("cpu") == "triton"


def test_triton_kernels_on_a_cpu_say_what_to_do() -> None:
    if find_spec("triton") is None:
        unavailable("triton is not installed (it has wheels for Linux only)")
    with pytest.raises(TritonUnavailableError, match=r"need a CUDA device: pass backend='torch', or set TRITON_INTER"):
        kernels_for("cpu", backend="triton")


def test_a_variable_set_too_late_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the kernels would be compiled, and fail on CPU tensors somewhere inside Triton."""
    if find_spec("triton") is None:
        unavailable("triton is not installed (it has wheels for Linux only)")
    import triton  # noqa: F401 (imported while the variable is unset)

    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(TritonUnavailableError, match="set it before Python starts"):
        kernels_for("cpu")


def test_an_unknown_backend_is_named() -> None:
    with pytest.raises(ValueError, match="'cuda', but must be 'triton', 'torch' or None"):
        kernels_for("cpu", backend="cuda")  # type: ignore[arg-type]


WITHOUT_TRITON = """
import sys

class NoTriton:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "triton":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoTriton())
import torch
from importlib.util import find_spec
import minivllm.kernels.dispatch as dispatch
import minivllm.kernels.compile_check as compile_check
dispatch.find_spec = compile_check.find_spec = lambda name: None if name == "triton" else find_spec(name)
out = torch.empty(1, 8)
dispatch.kernels_for("cpu").rms_norm(out, torch.ones(1, 8), torch.ones(8), 0.0)
assert out.eq(1).all()
for ask in (lambda: dispatch.kernels_for("cuda"), compile_check.run):
    try:
        ask()
    except dispatch.TritonUnavailableError as error:
        print(error)
"""


def test_without_triton_the_package_works_and_says_what_is_missing() -> None:
    """As on macOS and Windows, for which there is no wheel."""
    run = subprocess.run([sys.executable, "-c", WITHOUT_TRITON], capture_output=True, text=True, check=True)
    dispatched, compiled = run.stdout.splitlines()
    assert "on cuda, but triton is not installed, and it has wheels for Linux only: pass backend='torch'" in dispatched
    assert "cannot be compiled, because triton is not installed" in compiled
