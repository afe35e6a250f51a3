"""The engine's benchmarks time what they say; here on a few tokens."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from minivllm.bench import engine, schedule_effects
from minivllm.bench.engine import Stopwatch, TransformersSide, Workload, bench_engine
from minivllm.bench.schedule_effects import bench_schedule_effects
from tests.model.tiny import TINY, build, random_weights, write_gguf


def test_all_sides_are_timed_on_the_same_prompts(smollm2_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "WORKLOADS", (Workload(batch=2, context=8, output=3),))
    lines: list[str] = []
    result = bench_engine(str(smollm2_file), "transformers", runs=1, threads=1, report=lines.append)
    (row,) = result["results"]
    rates = row["tokens_per_second"]
    assert set(rates) == {"minivllm", "generate", "continuous batching"}
    assert row["ratio"]["generate"] == pytest.approx(rates["minivllm"] / rates["generate"], abs=0.05)
    assert 0 < row["itl_ms"]["p50"] <= row["itl_ms"]["p99"]
    assert lines[0].startswith("batch  2, context   8, 3 outputs: minivllm")
    assert 0 < row["share_outside_model"] < 0.5
    assert 0.3 < row["share_in_products"] < 1 - row["share_outside_model"]
    assert result["threads"] == 1
    assert "machine" in result
    if torch.cuda.is_available():
        assert result["device"] == torch.cuda.get_device_name()
        assert result["dtype"] in ("bfloat16", "float16")
    else:
        assert (result["device"], result["dtype"]) == ("cpu", "float32")


def test_an_effect_is_a_ratio_to_its_baseline(smollm2_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = [effect for effect in schedule_effects.EFFECTS if effect.name == "prefix hit"]
    monkeypatch.setattr(schedule_effects, "EFFECTS", chosen)
    lines: list[str] = []
    result = bench_schedule_effects(str(smollm2_file), runs=1, threads=1, report=lines.append)
    cold, hit = result["results"][0]["rows"]
    assert cold["ttft_s"]["ratio"] == 1.0
    # 480 of 512 prompt tokens need not be computed.
    assert hit["ttft_s"]["ratio"] < 0.5
    assert len(lines) == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_transformers_computes_in_the_dtype_that_it_is_measured_against(dtype: torch.dtype, tmp_path: Path) -> None:
    model = write_gguf(tmp_path / "model.gguf", TINY, random_weights(TINY))
    side = TransformersSide(str(model), torch.device("cpu"), dtype)
    assert {parameter.dtype for parameter in side.model.parameters()} == {dtype}
    assert {buffer.dtype for buffer in side.model.buffers()} == {torch.float32}
    prompts = [[3, 4, 5], [6, 7, 8]]
    assert side.generate(prompts, 2).tokens == side.continuous_batching(prompts, 2).tokens == 4


def test_continuous_batching_is_timed_with_a_manager_made_for_its_load(tmp_path: Path) -> None:
    model = write_gguf(tmp_path / "model.gguf", TINY, random_weights(TINY))
    side = TransformersSide(str(model), torch.device("cpu"), torch.float32)
    managers = []
    for batch, length in ((1, 3), (1, 3), (8, 3), (8, 3), (8, 6)):
        side.continuous_batching([[3] * length] * batch, 2)
        managers.append(side.model._cached_continuous_batching_manager)
    assert managers[0] is managers[1] is not managers[2] is managers[3] is not managers[4]


def test_a_stopwatch_waits_for_a_gpu_before_and_after_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: events.append(f"wait for {device}"))

    class Owner:
        def work(self) -> None:
            events.append("work")

    owner = Owner()
    for device in ("cuda", "cpu"):
        watch = Stopwatch(torch.device(device))
        watch.time(owner, "work")
        owner.work()
        watch.stop()
    assert events == ["wait for cuda", "work", "wait for cuda", "work"]


@pytest.mark.parametrize("command", ["scheduler", "engine", "schedule-effects"])
@pytest.mark.parametrize("place", ["", "file/result.json"], ids=["a folder", "below a file"])
def test_an_output_that_cannot_be_written_is_refused_before_anything_is_measured(
    command: str, place: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    run = subprocess.run(
        [sys.executable, "-m", "minivllm", "bench", command, "--output", str(tmp_path / place)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert f"{tmp_path / place} can't be written" in run.stderr
    assert run.stderr.count("\n") == 1


def test_a_measurement_that_fails_leaves_an_older_result_and_no_empty_one(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "folder" / "new.json"
    old.write_text("{}")
    for output in (old, new):
        command = [
            sys.executable,
            "-m",
            "minivllm",
            "bench",
            "scheduler",
            "--vllm",
            "/nowhere",
            "--output",
            str(output),
        ]
        assert subprocess.run(command, capture_output=True, timeout=120).returncode == 2
    assert old.read_text() == "{}"
    assert not new.exists()


def test_prompts_are_of_the_models_own_vocabulary() -> None:
    model = build(TINY, random_weights(TINY))
    tokens = schedule_effects.prompt(model, 5000, seed=0)
    assert len(tokens) == 5000
    assert min(tokens) == 3
    assert max(tokens) == TINY.vocab_size - 1


def test_under_pressure_the_gate_changes_what_is_computed_twice() -> None:
    # The schedule does not depend on the tokens, so a tiny model will do.
    config = replace(TINY, hidden_size=32, num_hidden_layers=1)
    model = build(config, random_weights(config))
    settings = ("none", "watermark", "gate")
    none, watermark, gate = (schedule_effects.admission(model, setting, 0) for setting in settings)
    assert none["recomputed_tokens"] > watermark["recomputed_tokens"] > gate["recomputed_tokens"] == 0
    assert none["preemptions"] > watermark["preemptions"] > gate["preemptions"] == 0
    assert none["steps"] < gate["steps"]
