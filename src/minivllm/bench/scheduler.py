"""``minivllm bench scheduler``: CPU time of a step, minivllm's scheduler beside vLLM's own in the same run."""

import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minivllm.bench.machine import BenchError, where_and_when
from minivllm.bench.scheduler_workloads import WORKLOADS

_FOLDER = Path(__file__).parent
_THREADS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


class Side:
    """One interpreter that waits to be asked for a run."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=os.environ | _THREADS,
            )
        except OSError as error:
            raise BenchError(
                f"{name} can't be started with {command[0]}: {error.strerror}; name a Python interpreter."
            ) from error
        self.version: str = self._answer()["version"]

    def run(self, workload: str) -> dict[str, float]:
        assert self._process.stdin is not None
        self._process.stdin.write(workload + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                return dict(json.loads(line))
        _, errors = self._process.communicate()
        last = errors.strip().rsplit("\n", 1)[-1] or f"exit code {self._process.returncode}"
        raise BenchError(f"{self.name} stopped: {last}.")


@dataclass(frozen=True)
class Comparison:
    """Median microseconds a step over the runs; vLLM's side and the ratio are None where vLLM was not asked."""

    workload: str
    title: str
    minivllm_us_step: float
    vllm_us_step: float | None
    ratio: float | None
    steps: int


def bench_scheduler(vllm_python: str | None, runs: int) -> dict[str, Any]:
    """Times every workload ``runs`` times on each side, in turn.

    Args:
        vllm_python: an interpreter that has vllm 0.28.0; None times minivllm alone.

    Returns:
        ``date``, ``machine``, ``runs``, ``versions`` and ``results``, a list of comparisons.

    Raises:
        BenchError: an interpreter can't be started, or its side stopped.
    """
    sides = [Side("minivllm", [sys.executable, "-m", "minivllm.bench.minivllm_scheduler"])]
    try:
        if vllm_python is not None:
            sides.append(Side("vLLM", [vllm_python, str(_FOLDER / "vllm_scheduler.py")]))
        results = []
        for name, workload in WORKLOADS.items():
            answers = [[side.run(name) for side in sides] for _ in range(runs)]
            if any(answer["tokens"] != answers[0][0]["tokens"] for run in answers for answer in run):
                raise BenchError(
                    f"workload {name!r}: the sides scheduled different numbers of tokens, so their times can't be "
                    "compared: check that the interpreter has vllm 0.28.0."
                )
            medians = [statistics.median(run[i]["us_step"] for run in answers) for i in range(len(sides))]
            vllm_us = medians[1] if len(medians) > 1 else None
            ratio = round(medians[0] / vllm_us, 3) if vllm_us else None
            vllm_us = round(vllm_us, 1) if vllm_us else None
            results.append(
                Comparison(name, workload.title, round(medians[0], 1), vllm_us, ratio, int(answers[0][0]["steps"]))
            )
    finally:
        for side in sides:
            side.close()
    return {
        **where_and_when(),
        "runs": runs,
        "versions": [side.version for side in sides],
        "results": [vars(result) for result in results],
    }
