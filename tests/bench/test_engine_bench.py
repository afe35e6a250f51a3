"""The engine's benchmarks time what they say; here on a few tokens."""

from dataclasses import replace
from pathlib import Path

import pytest

from minivllm.bench import engine, schedule_effects
from minivllm.bench.engine import Workload, bench_engine
from minivllm.bench.schedule_effects import bench_schedule_effects
from tests.model.tiny import TINY, build, random_weights


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


def test_under_pressure_the_gate_changes_what_is_computed_twice() -> None:
    # The schedule does not depend on the tokens, so a tiny model with the real vocabulary will do.
    config = replace(TINY, vocab_size=49_152, hidden_size=32, num_hidden_layers=1)
    model = build(config, random_weights(config))
    settings = ("none", "watermark", "gate")
    none, watermark, gate = (schedule_effects.admission(model, setting, 0) for setting in settings)
    assert none["recomputed_tokens"] > watermark["recomputed_tokens"] > gate["recomputed_tokens"] == 0
    assert none["preemptions"] > watermark["preemptions"] > gate["preemptions"] == 0
    assert none["steps"] < gate["steps"]
