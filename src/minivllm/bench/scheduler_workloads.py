"""The scheduler's two workloads, and how one is timed; standard library alone.

``minivllm bench scheduler`` runs ``serve`` in two interpreters, minivllm's and vLLM's, so that both are timed alike.
"""

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol


class SchedulerEngine(Protocol):
    """What a scheduler must offer to be timed; ``schedule`` and ``update`` alone are inside the clock."""

    def add(self, request_id: str, prompt_token_ids: list[int], max_tokens: int, arrival_time: float) -> None: ...

    @property
    def schedule(self) -> Callable[[], Any]: ...

    def scheduled(self, output: Any) -> dict[str, int]:
        """Tokens of each scheduled request."""

    def samples(self, request_id: str) -> bool:
        """Whether the step reached the last known token of the request."""

    @property
    def update(self) -> Callable[[Any, dict[str, list[int]]], Any]: ...


@dataclass(frozen=True)
class Workload:
    """Requests that are all there at the start.

    Attributes:
        config: block_size, num_gpu_blocks, max_num_seqs, max_num_batched_tokens, max_model_len.
        prompts: the prompt of each request, made anew.
        warm_up_steps: steps before the clock runs.
        max_steps: steps on the clock at most; the run ends before that when nothing is scheduled.
    """

    title: str
    config: dict[str, int]
    prompts: Callable[[], Iterator[list[int]]]
    max_tokens: int
    warm_up_steps: int
    max_steps: int


_CONFIG = {
    "block_size": 16,
    "num_gpu_blocks": 16_384,
    "max_num_seqs": 256,
    "max_num_batched_tokens": 8_192,
    "max_model_len": 4_096,
}


def _distinct_prompts() -> Iterator[list[int]]:
    for i in range(256):
        yield list(range(512 * i, 512 * (i + 1)))


def _prompts_with_shared_prefix() -> Iterator[list[int]]:
    for i in range(1_000):
        yield [*range(1_024), *range(10_000 + 1_024 * i, 10_000 + 1_024 * (i + 1))]


WORKLOADS = {
    "decode": Workload("256 running decodes, 512-token prompts", _CONFIG, _distinct_prompts, 400, 56, 200),
    "prefix": Workload(
        "1,000 waiting prompts of 2,048 tokens that share 1,024, 16 outputs each",
        _CONFIG,
        _prompts_with_shared_prefix,
        16,
        0,
        100_000,
    ),
}


def time_workload(workload: Workload, engine: SchedulerEngine) -> dict[str, float]:
    """Runs a workload once.

    Returns:
        ``us_step``: median CPU time of this thread, in microseconds, for one schedule and its update; ``steps``;
        ``tokens`` scheduled on the clock.
    """
    for i, prompt in enumerate(workload.prompts()):
        engine.add(f"r{i}", prompt, workload.max_tokens, float(i))
    times: list[int] = []
    num_tokens = 0
    token = 7
    for step in range(workload.warm_up_steps + workload.max_steps):
        if step == workload.warm_up_steps:
            gc.collect()
        start = time.thread_time_ns()
        output = engine.schedule()
        schedule_time = time.thread_time_ns() - start
        scheduled = engine.scheduled(output)
        if not scheduled:
            break
        sampled: dict[str, list[int]] = {}
        for request_id in scheduled:
            token = (token * 31 + 11) % 30_011
            sampled[request_id] = [token] if engine.samples(request_id) else []
        start = time.thread_time_ns()
        engine.update(output, sampled)
        if step >= workload.warm_up_steps:
            times.append(schedule_time + time.thread_time_ns() - start)
            num_tokens += sum(scheduled.values())
    return {"us_step": statistics.median(times) / 1_000, "steps": len(times), "tokens": num_tokens}


def serve(make_engine: Callable[[dict[str, int]], SchedulerEngine], version: str) -> None:
    """Answers one line a request: a workload's name in, its times out, both on the standard streams."""
    print(json.dumps({"version": version}), flush=True)
    for line in sys.stdin:
        workload = WORKLOADS[line.strip()]
        print(json.dumps(time_workload(workload, make_engine(workload.config))), flush=True)
