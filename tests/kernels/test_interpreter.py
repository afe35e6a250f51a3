"""Runs the Triton kernels in Triton's interpreter, in a process of their own.

TRITON_INTERPRET has to be set before anything imports triton, torch's own parts included, and turns every Triton kernel
of the process into an interpreted one. So the tests in interpreter_*.py run in a child, and this process stays as it is.
By hand: TRITON_INTERPRET=1 python -m pytest tests/kernels/interpreter_attention.py
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import unavailable

HERE = Path(__file__).parent


@pytest.mark.parametrize("file", sorted(path.name for path in HERE.glob("interpreter_*.py")))
def test_kernels_in_the_interpreter(file: str) -> None:
    if find_spec("triton") is None:
        unavailable("triton is not installed (it has wheels for Linux only), so its kernels cannot be interpreted")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / file)],
        cwd=HERE.parents[1],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    print(run.stdout)
    if run.returncode:
        pytest.fail(f"{file} in the interpreter:\n{run.stdout}\n{run.stderr}", pytrace=False)
    summary = run.stdout.rstrip().splitlines()[-1]
    assert "passed" in summary and "skipped" not in summary, summary
