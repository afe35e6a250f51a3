"""The core decides as vLLM does: every recorded trace is equal, and a difference is shown where it starts."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from minivllm.observe.invariants import watch
from minivllm.observe.replay import Replay, TraceError, find_traces, load_trace, replay_trace

DATA = Path(__file__).parents[1] / "data"
TRACES = DATA / "traces"


def minivllm(*args: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "minivllm", *map(str, args)], capture_output=True, text=True, timeout=300
    )


def test_the_command_finds_all_397_traces_equal() -> None:
    run = minivllm("replay", TRACES)
    assert run.stdout.splitlines()[-1] == "397/397 traces equal"
    assert "preempt_priority: 16/16 equal" in run.stdout.splitlines()
    assert run.returncode == 0


@pytest.mark.parametrize("folder", ["traces", "traces-extra"])
def test_the_optional_events_are_equal_too_and_no_invariant_breaks(folder: str) -> None:
    differing = {}
    for file in find_traces(DATA / folder):
        trace = load_trace(file)
        difference = replay_trace(trace, with_events=True)
        if difference is not None:
            differing[file.name] = str(difference)
        replay = Replay(trace["config"], trace["requests"])
        watch(replay.scheduler)
        steps = replay.steps()
        for _ in trace["steps"]:
            next(steps)
    assert not differing


def change(trace: dict[str, Any], step: int, key: str, value: Any) -> dict[str, Any]:
    changed: dict[str, Any] = json.loads(json.dumps(trace))
    changed["steps"][step][key] = value
    return changed


def test_a_difference_names_step_object_expected_and_actual(tmp_path: Path) -> None:
    trace = load_trace(TRACES / "decode_plain-000.json.gz")
    file = tmp_path / "changed.json"
    rows = json.loads(json.dumps(trace["steps"][3]["sched"]))
    rows[0]["n"] += 1
    file.write_text(json.dumps(change(trace, 3, "sched", rows)))
    run = minivllm("replay", file, TRACES / "decode_plain-001.json.gz")
    first = f"{file}: step 3, sched.{rows[0]['id']}.n: expected 2, actual 1"
    assert run.stdout.splitlines() == [first, "decode_plain: 1/2 equal", "1/2 traces equal"]
    assert run.returncode == 1


@pytest.mark.parametrize("key", ["sched", "preempted", "fin_ids", "A", "out", "comp", "B", "add", "abort", "abort_mid"])
def test_every_field_of_a_step_counts(key: str) -> None:
    trace = load_trace(TRACES / "abort-000.json.gz")
    step = next(i for i, step in enumerate(trace["steps"]) if step[key] or i == 5)
    value: Any = {} if isinstance(trace["steps"][step][key], dict) else []
    difference = replay_trace(change(trace, step, key, value if trace["steps"][step][key] else ["r99"]))
    assert difference is not None
    assert difference.step == step
    assert difference.object.startswith(key)


@pytest.mark.parametrize("key", ["common", "ev", "ev2"])
def test_optional_fields_count_only_when_asked(key: str) -> None:
    changed = change(load_trace(TRACES / "abort-000.json.gz"), 2, key, ["changed"])
    assert replay_trace(changed) is None
    assert (replay_trace(changed, with_events=True) is None) == (key == "common")


def test_a_missing_draft_set_counts() -> None:
    trace = load_trace(TRACES / "spec_ngram-000.json.gz")
    assert replay_trace(trace) is None
    assert replay_trace(change(trace, 1, "drafts", {})) is not None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.json", None, "missing.json does not exist"),
        ("empty.json", b"", "can't be read as a trace"),
        ("text.json", b"not json", "can't be read as a trace"),
        ("cut.json.gz", gzip.compress(b"{}" * 500)[:20], "can't be read as a trace"),
        ("plain.json.gz", b"{}", "can't be read as a trace"),
        ("list.json", b"[]", "is no trace of schema 1"),
        ("schema.json", b'{"schema": 2}', "is no trace of schema 1"),
        ("part.json", b'{"schema": 1, "family": "x", "config": {}}', "'requests' is missing"),
        (
            "config.json",
            b'{"schema": 1, "name": "x", "family": "x", "config": {}, "requests": [], "hashes": [], "steps": []}',
            "can't be run",
        ),
    ],
)
def test_a_file_that_is_no_trace_ends_in_one_line_and_exit_code_2(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    run = minivllm("replay", file)
    assert run.returncode == 2
    assert message in run.stderr
    assert run.stderr.count("\n") == 1


def test_a_folder_without_traces_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="holds no trace"):
        find_traces(tmp_path)


def test_an_impossible_value_in_a_trace_is_named(tmp_path: Path) -> None:
    trace = load_trace(TRACES / "decode_plain-000.json.gz")
    trace["config"]["block_size"] = 0
    with pytest.raises(TraceError, match=r"CacheConfig\.block_size is 0"):
        replay_trace(trace)
