"""Every kernel compiles for every card, without a GPU: all tiles with CI=true, else a choice of them."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from minivllm.kernels import compile_check
from minivllm.kernels.compile_check import Usage
from tests.conftest import unavailable


def test_no_kernel_spills_and_all_fit(capfd: pytest.CaptureFixture[str]) -> None:
    if find_spec("triton") is None:
        unavailable("triton is not installed (it has wheels for Linux only), and it carries the compiler")
    code = compile_check.run(quick=os.environ.get("CI") != "true")
    table = capfd.readouterr().out
    print(table)
    assert code == 0, table
    for capability in compile_check.SHARED_MEMORY_LIMIT:
        rows = [line for line in table.splitlines() if line.startswith(f"sm_{capability} ")]
        kernels = {line.split()[2] for line in rows}
        assert kernels == {
            "cache_write",
            "join_segments",
            "paged_attention",
            "rms_norm",
            "rotary",
            "silu_and_mul",
            "split_kv",
        }
        assert all(8 < int(line.split()[-3]) <= 255 for line in rows), "registers are not what was read"


def test_stack_and_shared_memory_are_complained_about() -> None:
    assert Usage(registers=255, stack=0, shared=64 * 1024).complaints(75) == []
    assert "8 bytes of stack" in Usage(registers=255, stack=8, shared=0).complaints(75)[0]
    assert "over the card's 65536 bytes" in Usage(registers=32, stack=0, shared=65 * 1024).complaints(75)[0]


def test_a_tile_that_spills_is_refused(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """64 x 64 on sm_75, which Triton gives no tensor cores: the accumulators alone are more than the registers hold."""
    if find_spec("triton") is None:
        unavailable("triton is not installed (it has wheels for Linux only), and it carries the compiler")
    from minivllm.kernels import paged_attention

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    job = compile_check.Job(
        paged_attention.paged_attention_kernel,
        "64 x 64",
        {"GROUP_SIZE": 4, "HEAD_SIZE": 64, "BLOCK_SIZE": 16, "BLOCK_M": 64, "TILE": 64, "SLIDING_WINDOW": 0},
        num_warps=4,
        num_stages=1,
    )
    usage = compile_check._compile(job, 75, "fp16")
    assert any("stack" in complaint for complaint in usage.complaints(75))


def test_the_command_without_check_says_so_in_one_line() -> None:
    run = subprocess.run([sys.executable, "-m", "minivllm", "kernels"], capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "error: minivllm kernels lacks --check: say minivllm kernels --check to compile them\n"
