"""benchmarks/gpu.py runs whole in Triton's interpreter, needs no more than it says, and loses nothing it has measured."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.conftest import unavailable

ROOT = Path(__file__).parents[2]
BLOCKED = "import sys; sys.modules['pytest'] = sys.modules['_pytest'] = None; "
ENGINE_FAILS = """
import sys
sys.path.insert(0, "benchmarks")
import gpu

def fail(bench):
    raise MemoryError("no room for the engine")

gpu.engine_throughput = fail
for part in ("correctness", "decode_attention", "prefill_attention", "memory_bound"):
    setattr(gpu, part, lambda *arguments: [])
gpu.main()
"""


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """In a process of its own: TRITON_INTERPRET has to be set before anything imports triton."""
    if find_spec("triton") is None:
        unavailable("triton is not installed (it has wheels for Linux only), so the script cannot be run")
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_dry_run_runs_every_part_and_writes_it_down(tmp_path: Path) -> None:
    file = tmp_path / "results" / "gpu.json"
    done = run("benchmarks/gpu.py", "--dry-run", "--output", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(file.read_text())
    assert result["dry_run"]
    assert result["correctness"] and all(row["ok"] for row in result["correctness"])
    assert result["bits"]["alone_equals_in_batch"]
    measured = {row["what"] for row in result["speed"]}
    assert {"decode attention", "decode, split KV", "prefill attention", "cache_write", "rms_norm"} <= measured
    assert result["engine"]["throughput"][0]["tokens_per_second"] > 0
    assert result["engine"]["against_torch"] == "2 prompts x 3 tokens equal"


def test_the_kernels_results_are_kept_when_the_engine_fails(tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    done = run("-c", ENGINE_FAILS, "--dry-run", "--output", str(file))
    assert done.returncode == 1
    assert "no room for the engine" in done.stderr
    result = json.loads(file.read_text())
    assert result["bits"]["alone_equals_in_batch"]
    assert result["copy_gb_s"] > 0
    assert result["engine"] == "did not finish"


def test_the_script_can_be_imported_where_there_is_no_pytest() -> None:
    done = run("-c", BLOCKED + "sys.path.insert(0, 'benchmarks'); import gpu")
    assert done.returncode == 0, done.stderr
