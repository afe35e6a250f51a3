"""The launchers against Triton's compiler, without a GPU."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.conftest import unavailable

ROOT = Path(__file__).parents[2]


def test_launches_compile_and_do_so_once_whatever_a_step_brings(tmp_path: Path) -> None:
    """Batch sizes, lengths and addresses change with every step; compiling anew for them would stall it for a second."""
    if find_spec("triton") is None:
        unavailable("triton is not installed (it has wheels for Linux only), and it carries the compiler")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-m", "tests.kernels.launch_without_gpu"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        "decode 1",
        "split 1 1",
        "prefill 3",  # the decode's, the verification's and the prefill's tile
        "cache_write 1",
        "rotary 1",
        "rms_norm 2",  # with and without a residual
        "silu_and_mul 1",
    ]
