"""Replays a recorded trace of vLLM against minivllm, step by step, and finds the first difference.

The format of a trace is in ``docs/traces.md``.
"""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig, SpeculativeConfig
from minivllm.core.sched.scheduler import Scheduler
from minivllm.errors import MinivllmError
from minivllm.kv_cache_interface import FullAttentionSpec, KVCacheSpec, SlidingWindowSpec
from minivllm.observe.recorder import Recorder
from minivllm.observe.toy_model import DraftRule, ToyModel
from minivllm.request import Request, RequestStatus, SamplingParams

OPTIONAL_FIELDS = ("common", "ev", "ev2")
"""Fields of a step that another implementation need not have."""


class TraceError(MinivllmError):
    """A file that is no trace; the message names the file and what is wrong with it."""


@dataclass(frozen=True)
class Difference:
    """Where a replay left the trace for the first time."""

    step: int
    object: str
    expected: Any
    actual: Any

    def __str__(self) -> str:
        return f"step {self.step}, {self.object}: expected {self.expected!r}, actual {self.actual!r}"


def find_traces(path: Path) -> list[Path]:
    """The trace files that a path stands for: itself, or every .json and .json.gz below it but INDEX.json.

    Raises:
        TraceError: there is no such path, or it holds no trace.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise TraceError(f"{path} does not exist: give a trace file or a folder of traces.")
    files = sorted(file for file in path.rglob("*.json*") if file.name.endswith((".json", ".json.gz")))
    files = [file for file in files if file.name != "INDEX.json"]
    if not files:
        raise TraceError(f"{path} holds no trace: traces end in .json or .json.gz.")
    return files


def load_trace(path: Path) -> dict[str, Any]:
    """Reads one trace.

    Raises:
        TraceError: the file can't be read, is no JSON, or is no trace of schema 1.
    """
    try:
        raw = path.read_bytes()
        trace = json.loads(gzip.decompress(raw) if path.name.endswith(".gz") else raw)
    except (OSError, EOFError, ValueError) as error:
        raise TraceError(f"{path} can't be read as a trace: {error}.") from error
    if not isinstance(trace, dict) or trace.get("schema") != 1:
        raise TraceError(f"{path} is no trace of schema 1: its 'schema' is missing or another.")
    missing = [key for key in ("family", "config", "requests", "hashes", "steps") if key not in trace]
    if missing:
        raise TraceError(f"{path} is no whole trace: {missing[0]!r} is missing.")
    return trace


def make_config(config: dict[str, Any]) -> EngineConfig:
    """The engine's configuration from that of a trace."""
    spec = config.get("spec")
    return EngineConfig(
        scheduler=SchedulerConfig(
            max_num_batched_tokens=config["max_num_batched_tokens"],
            max_num_scheduled_tokens=config.get("max_num_scheduled_tokens"),
            max_num_seqs=config["max_num_seqs"],
            max_model_len=config["max_model_len"],
            enable_chunked_prefill=config["enable_chunked_prefill"],
            long_prefill_token_threshold=config["long_prefill_token_threshold"],
            policy=config["policy"],
            watermark=config["watermark"],
            scheduler_reserve_full_isl=config["scheduler_reserve_full_isl"],
        ),
        cache=CacheConfig(
            block_size=config["block_size"],
            num_gpu_blocks=config["num_blocks"],
            enable_prefix_caching=config["enable_prefix_caching"],
            kv_cache_groups=tuple(_make_group(group) for group in config["groups"]),
        ),
        speculative=SpeculativeConfig(spec["method"], spec["k"], spec.get("draft_slots", 0)) if spec else None,
    )


def _make_group(group: dict[str, Any]) -> KVCacheSpec:
    return FullAttentionSpec() if group["type"] == "full" else SlidingWindowSpec(group["window"])


def make_request(request: dict[str, Any]) -> Request:
    """A request from that of a trace."""
    return Request(
        request["id"],
        request["prompt_token_ids"],
        SamplingParams(
            max_tokens=request["max_tokens"],
            min_tokens=request["min_tokens"],
            stop_token_ids=tuple(request["stop_token_ids"] or ()),
            skip_reading_prefix_cache=request["skip_cache"],
        ),
        arrival_time=request["arrival_time"],
        priority=request["priority"],
        cache_salt=request["cache_salt"],
    )


class Replay:
    """Runs the requests of a trace and gives each step in the trace's own form.

    Args:
        config: the ``config`` of a trace.
        requests: its ``requests``.
    """

    def __init__(self, config: dict[str, Any], requests: list[dict[str, Any]]) -> None:
        self.scheduler = Scheduler(make_config(config))
        self.recorder = Recorder(self.scheduler)
        spec = config.get("spec")
        rule = DraftRule(spec["k"], spec.get("accept", "var"), spec.get("draft_len", "k")) if spec else None
        self.model = ToyModel({request["id"]: request["seed"] for request in requests}, rule)
        self._requests = requests
        self._arrivals = sorted(requests, key=lambda request: request["arrival_step"])

    def steps(self) -> Iterator[dict[str, Any]]:
        """One step after the other, for ever: who looks decides when it is enough."""
        t = 0
        while True:
            yield self._step(t)
            t += 1

    def _step(self, t: int) -> dict[str, Any]:
        scheduler, recorder = self.scheduler, self.recorder
        added = []
        while self._arrivals and self._arrivals[0]["arrival_step"] <= t:
            arrival = self._arrivals.pop(0)
            scheduler.add_request(make_request(arrival))
            added.append(arrival["id"])
        aborted = self._abort(t, "before")
        status_before = {request_id: request.status for request_id, request in scheduler.requests.items()}
        output = scheduler.schedule()

        new_blocks = dict(
            zip(output.scheduled_cached_reqs.req_ids, output.scheduled_cached_reqs.new_block_ids, strict=True)
        )
        computed = dict(
            zip(output.scheduled_cached_reqs.req_ids, output.scheduled_cached_reqs.num_computed_tokens, strict=True)
        )
        for data in output.scheduled_new_reqs + output.scheduled_resumed_reqs:
            new_blocks[data.req_id] = data.block_ids
            computed[data.req_id] = data.num_computed_tokens
        rows = []
        for request_id, num_tokens in output.num_scheduled_tokens.items():
            row: dict[str, Any] = {"id": request_id, "kind": _KINDS[status_before[request_id]], "n": num_tokens}
            row["c"] = computed[request_id]
            if row["kind"] != "running":
                row["hit"] = computed[request_id]
            if request_id in output.scheduled_spec_decode_tokens:
                row["spec"] = list(output.scheduled_spec_decode_tokens[request_id])
            row["bt"] = recorder.block_tables(request_id)
            row["nb"] = [list(ids) for ids in new_blocks[request_id] or [()] * len(row["bt"])]
            rows.append(row)
        step: dict[str, Any] = {
            "t": t,
            "add": added,
            "abort": aborted,
            "sched": rows,
            "preempted": list(output.preempted_req_ids),
            "fin_ids": sorted(output.finished_req_ids),
            "ev": recorder.take_events(),
            "A": recorder.state(),
        }

        step["abort_mid"] = self._abort(t, "mid")
        sampled = self.model.sample(scheduler, output)
        outputs = scheduler.update_from_output(output, sampled)
        drafts = self.model.draft(scheduler, sampled)
        scheduler.update_draft_token_ids(drafts)
        step["out"] = {
            out.request_id: {"tok": out.new_token_ids} | ({"fin": out.finish_reason} if out.finish_reason else {})
            for out in outputs
        }
        if self.model.draft_rule is not None:
            step["drafts"] = drafts
        step["comp"] = {request_id: request.num_computed_tokens for request_id, request in scheduler.requests.items()}
        step["ev2"] = recorder.take_events()
        after = recorder.state()
        step["B"] = {key: value for key, value in after.items() if value != step["A"][key]}
        return step

    def _abort(self, t: int, when: str) -> list[str]:
        ids = [
            request["id"]
            for request in self._requests
            if request["abort_step"] == t and request["abort_when"] == when and request["id"] in self.scheduler.requests
        ]
        for request_id in ids:
            self.scheduler.finish_requests(request_id, RequestStatus.FINISHED_ABORTED)
        return ids


_KINDS = {RequestStatus.WAITING: "new", RequestStatus.PREEMPTED: "resumed", RequestStatus.RUNNING: "running"}


def replay_trace(trace: dict[str, Any], with_events: bool = False) -> Difference | None:
    """Runs a trace's requests and compares every step, and at the end the table of hashes.

    Args:
        with_events: compare the optional events too.

    Returns:
        The first difference, or None if there is none.
    """
    try:
        replay = Replay(trace["config"], trace["requests"])
    except (KeyError, TypeError, ValueError) as error:
        raise TraceError(f"trace {trace.get('name')!r}: its config or requests can't be run: {error!r}.") from error
    skipped = ("common",) if with_events else OPTIONAL_FIELDS
    replay.recorder.hashes.preload(trace["hashes"])
    steps = replay.steps()
    for expected in trace["steps"]:
        try:
            actual = next(steps)
        except (
            Exception
        ) as error:  # whatever a broken core raises is a difference, and the next trace is still replayed
            return Difference(expected["t"], "the engine", "a step", error)
        for key in expected.keys() | actual.keys():
            if key not in skipped:
                difference = _compare(key, expected.get(key), actual.get(key))
                if difference is not None:
                    return Difference(expected["t"], *difference)
    return None


def _compare(name: str, expected: Any, actual: Any) -> tuple[str, Any, Any] | None:
    """The innermost object that differs: its name, what was expected and what was there."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in [*expected, *(key for key in actual if key not in expected)]:
            if key not in expected or key not in actual:
                return f"{name}.{key}", expected.get(key, "nothing"), actual.get(key, "nothing")
            difference = _compare(f"{name}.{key}", expected[key], actual[key])
            if difference is not None:
                return difference
        return None
    if name == "sched" and isinstance(expected, list) and isinstance(actual, list):
        if [row["id"] for row in expected] != [row["id"] for row in actual]:
            return "sched", [row["id"] for row in expected], [row["id"] for row in actual]
        for wanted, got in zip(expected, actual, strict=True):
            difference = _compare(f"sched.{wanted['id']}", wanted, got)
            if difference is not None:
                return difference
        return None
    return None if expected == actual else (name, expected, actual)
