"""What of this machine the course can use, and what to do about what is missing."""

import platform
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version

PYTHON_VERSIONS = ((3, 11), (3, 13))


def report() -> list[str]:
    """Ten lines, one a part: "ok" or "--", the part, and what was found or what to do."""
    return [
        _line("Python", *_python()),
        _line("torch", *_package("torch", "no model runs without it: pip install torch")),
        _line("triton", *_triton()),
        _line("GPU", *_gpu()),
        _line("dtype", *_dtype()),
        _line("weights", *_weights()),
        _line("bubblewrap", *_bubblewrap()),
        _line("nbgrader", *_package("nbgrader", 'only an instructor needs it: pip install "minivllm[grade]"')),
        _line("JupyterLab", *_package("jupyterlab", 'notebooks open in it: pip install "minivllm[lab]"')),
        _line("ipywidgets", *_package("ipywidgets", "players are still pictures without it: pip install ipywidgets")),
    ]


def _line(part: str, found: bool, text: str) -> str:
    return f"{'ok' if found else '--'} {part:<11} {text}"


def _package(name: str, remedy: str) -> tuple[bool, str]:
    try:
        return True, version(name)
    except PackageNotFoundError:
        return False, f"not installed; {remedy}"


def _python() -> tuple[bool, str]:
    (low, high), here = PYTHON_VERSIONS, sys.version_info[:2]
    if low <= here <= high:
        return True, platform.python_version()
    supported = f"{low[0]}.{low[1]} to {high[0]}.{high[1]}"
    return False, f"{platform.python_version()}; tested with {supported}: make an environment with one of them"


def _triton() -> tuple[bool, str]:
    if sys.platform != "linux":
        return (
            False,
            f"has no wheel for {sys.platform}; kernels run as their torch twins (use Linux, WSL or Colab for Triton)",
        )
    return _package("triton", "kernels run as their torch twins: pip install triton")


def _gpu() -> tuple[bool, str]:
    try:
        import torch
    except (ImportError, OSError) as error:
        return False, f"unknown, since torch cannot be imported ({error}): pip install torch"
    if torch.cuda.is_available():
        major, minor = torch.cuda.get_device_capability()
        return True, f"{torch.cuda.get_device_name()}, compute capability {major}.{minor}"
    if shutil.which("nvidia-smi") and torch.version.cuda is None:
        return False, "there is one, but this torch is a CPU build: pip install a CUDA build of torch"
    return False, "none, so models run on the CPU, which is enough for the course (Colab lends a T4)"


def _dtype() -> tuple[bool, str]:
    try:
        from minivllm.model.loader import default_device, default_dtype
    except (ImportError, OSError) as error:
        return False, f"unknown, since the model cannot be imported ({error}): pip install minivllm again"
    device = default_device()
    return True, f"{str(default_dtype(device)).removeprefix('torch.')} on {device.type}"


def _weights() -> tuple[bool, str]:
    try:
        from minivllm.model.hub import DEFAULT_MODEL, cache_dir, find_cached
    except ImportError as error:
        return False, f"unknown, since the model cannot be imported ({error}): pip install minivllm again"
    try:
        if path := find_cached():
            return True, str(path)
    except OSError as error:
        return (
            False,
            f"{cache_dir()} can't be read ({error.strerror or error}): set MINIVLLM_CACHE to a folder of yours",
        )
    return False, f"{DEFAULT_MODEL} is not in {cache_dir()}; the first `minivllm generate` downloads 93 MB"


def _bubblewrap() -> tuple[bool, str]:
    remedy = "only an instructor needs it, to grade on Linux"
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return False, f"not installed; {remedy}: apt-get install bubblewrap"
    try:
        done = subprocess.run(
            [bwrap, "--ro-bind", "/", "/", "true"], capture_output=True, text=True, timeout=10, check=False
        )
    except subprocess.TimeoutExpired:
        return False, f"{bwrap} does not answer; {remedy}: apt-get install --reinstall bubblewrap"
    if done.returncode:
        return (
            False,
            f"{bwrap} may not make a sandbox here ({' '.join(done.stderr.split())}); {remedy}: allow user namespaces",
        )
    return True, bwrap
