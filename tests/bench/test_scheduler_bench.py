"""The scheduler's benchmark measures what it says, and the scheduler's memory stays in bounds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from minivllm.bench.machine import BenchError
from minivllm.bench.minivllm_scheduler import MinivllmEngine
from minivllm.bench.scheduler import bench_scheduler
from minivllm.bench.scheduler_workloads import WORKLOADS, time_workload
from tests.conftest import unavailable


def test_the_workloads_schedule_what_their_titles_say() -> None:
    decode = time_workload(WORKLOADS["decode"], MinivllmEngine(WORKLOADS["decode"].config))
    assert (decode["steps"], decode["tokens"]) == (200, 200 * 256)
    prefix = time_workload(WORKLOADS["prefix"], MinivllmEngine(WORKLOADS["prefix"].config))
    # Every prompt but the first finds its first 1,024 tokens cached; of 16 outputs the last one is never computed.
    assert prefix["tokens"] == 2_048 + 999 * 1_024 + 1_000 * 15
    assert decode["us_step"] > 0


# Stands for vLLM: the same protocol from another interpreter process, without vLLM installed.
STAND_IN = f"#!/bin/sh\nexec {sys.executable} -m minivllm.bench.minivllm_scheduler\n"


@pytest.fixture
def other_interpreter(tmp_path: Path) -> Path:
    script = tmp_path / "python"
    script.write_text(STAND_IN)
    script.chmod(0o755)
    return script


def test_both_sides_are_timed_in_one_run_and_written_down(tmp_path: Path, other_interpreter: Path) -> None:
    file = tmp_path / "results" / "scheduler.json"
    command = [
        sys.executable,
        "-m",
        "minivllm",
        "bench",
        "scheduler",
        "--runs",
        "1",
        "--vllm",
        str(other_interpreter),
        "--output",
        str(file),
    ]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("ratio") == 2
    result = json.loads(file.read_text())
    assert len(result["versions"]) == 2
    for row in result["results"]:
        assert row["ratio"] == pytest.approx(row["minivllm_us_step"] / row["vllm_us_step"], rel=0.01)
        # The same code on both sides: noise alone parts them.
        assert 0.4 < row["ratio"] < 2.5


@pytest.mark.parametrize(("script", "message"), [
    ("#!/bin/sh\necho 'no module named vllm' >&2; exit 3\n", "vLLM stopped: no module named vllm."),
    ("#!/bin/sh\nexit 3\n", "vLLM stopped: exit code 3."),
])  # fmt: skip
def test_an_interpreter_without_vllm_is_named(tmp_path: Path, script: str, message: str) -> None:
    python = tmp_path / "python"
    python.write_text(script)
    python.chmod(0o755)
    with pytest.raises(BenchError, match=message):
        bench_scheduler(str(python), 1)


def test_an_interpreter_that_is_not_there_ends_in_one_line() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "minivllm", "bench", "scheduler", "--vllm", "/nowhere/python"],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 2
    assert (
        run.stderr
        == "error: vLLM can't be started with /nowhere/python: No such file or directory; name a Python interpreter.\n"
    )


def test_16384_blocks_and_1000_requests_of_2000_tokens_stay_under_300_megabytes() -> None:
    program = """
from minivllm.bench.minivllm_scheduler import MinivllmEngine
from minivllm.bench.scheduler_workloads import WORKLOADS, time_workload
time_workload(WORKLOADS["prefix"], MinivllmEngine(WORKLOADS["prefix"].config))
# Not getrusage: its peak is inherited from the process that started this one.
status = open("/proc/self/status").read()
print(status.split("VmHWM:")[1].split()[0])
"""
    if not Path("/proc/self/status").exists():
        unavailable("the peak memory of a process is read from /proc, which Linux alone has")
    peak_kilobytes = int(
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    )
    assert peak_kilobytes * 1024 < 300e6
