"""`minivllm doctor`: ten lines, with a remedy for whatever is missing."""

import errno
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from minivllm import doctor
from minivllm.doctor import report
from minivllm.model.hub import cache_dir, find_cached

PARTS = ["Python", "torch", "triton", "GPU", "dtype", "weights", "bubblewrap", "nbgrader", "JupyterLab", "ipywidgets"]


def line(part: str) -> str:
    return next(line for line in report() if line.split()[1] == part)


def executable(path: Path, script: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_it_has_one_line_for_each_part() -> None:
    lines = report()
    assert [line.split()[1] for line in lines] == PARTS
    assert all(line.startswith(("ok ", "-- ")) and "\n" not in line for line in lines)


def test_it_names_what_is_here() -> None:
    import torch

    assert line("torch") == f"ok torch       {torch.__version__}"
    assert line("Python") == "ok Python      " + ".".join(map(str, sys.version_info[:3]))


@pytest.mark.parametrize(
    ("part", "package"),
    [("torch", "torch"), ("triton", "triton"), ("nbgrader", "nbgrader"), ("JupyterLab", "jupyterlab")],
)
def test_a_missing_package_comes_with_a_remedy(part: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == package:
            raise PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(doctor, "version", version)
    monkeypatch.setattr(sys, "platform", "linux")
    assert line(part).startswith("-- ")
    assert "pip install" in line(part)


def test_where_triton_has_no_wheel_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert line("triton").startswith("-- triton      has no wheel for darwin")


def test_a_python_that_was_not_tested_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PYTHON_VERSIONS", ((3, 8), (3, 9)))
    assert line("Python").startswith("-- ")
    assert "3.8 to 3.9" in line("Python")


@pytest.mark.parametrize(
    ("capability", "dtype"), [((7, 5), "float16"), ((8, 0), "bfloat16"), ((8, 9), "bfloat16"), ((9, 0), "bfloat16")]
)
def test_the_dtype_follows_the_compute_capability(
    capability: tuple[int, int], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda *_: capability)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda *_: "a card")
    assert line("GPU") == f"ok GPU         a card, compute capability {capability[0]}.{capability[1]}"
    assert line("dtype") == f"ok dtype       {dtype} on cuda"


def test_without_a_gpu_models_run_in_float32_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setenv("PATH", os.devnull)
    assert line("GPU").startswith("-- GPU         none")
    assert line("dtype") == "ok dtype       float32 on cpu"


def test_a_gpu_that_this_torch_cannot_use_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    executable(tmp_path / "bin" / "nvidia-smi", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.version.cuda", None)
    assert "this torch is a CPU build" in line("GPU")


def test_weights_that_are_not_here_are_told_with_their_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MINIVLLM_CACHE", str(tmp_path))
    assert find_cached() is None
    assert line("weights").startswith("-- ")
    assert str(cache_dir()) in line("weights")


def test_a_cache_that_cannot_be_read_costs_no_line_and_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stat = Path.stat

    def forbidden(path: Path, **options: Any) -> os.stat_result:
        if path.is_relative_to(tmp_path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat(path, **options)

    monkeypatch.setenv("MINIVLLM_CACHE", str(tmp_path))
    monkeypatch.setattr(Path, "stat", forbidden)
    assert [line.split()[1] for line in report()] == PARTS
    expected = f"-- weights     {tmp_path} can't be read (Permission denied): set MINIVLLM_CACHE to a folder of yours"
    assert line("weights") == expected


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("exit 0", "ok bubblewrap"),
        ("echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "No permissions to create new namespace"),
        (None, "apt-get install bubblewrap"),
    ],
)
def test_a_sandbox_is_tried_not_only_looked_for(
    script: str | None, expected: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if script is not None:
        executable(tmp_path / "bin" / "bwrap", script)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert expected in line("bubblewrap")


def test_it_reports_where_torch_cannot_be_imported(tmp_path: Path) -> None:
    """A torch that is there and broken, which is what a half installed CUDA build looks like."""
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so.13: cannot open shared object file')")
    code = "from minivllm.doctor import report; print(*report(), sep='\\n')"
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[1] for line in lines] == PARTS
    assert "libcudart" in lines[PARTS.index("GPU")]
    assert lines[PARTS.index("dtype")].startswith("-- ")
